"""The whole demonstration: runs, tables and pictures."""

from pathlib import Path

import jax
import numpy as np
from rich.console import Console

from motleygp.demos.vo.example import (
    EXACT,
    KL,
    MINIMA,
    NO_KL,
    PENALISED,
    PRIOR_PRECISION,
    SAMPLED,
    TOLERANCE,
)
from motleygp.demos.vo.pictures import pictures
from motleygp.demos.vo.runs import (
    NUM_SAMPLES,
    NUM_STEPS,
    ends,
    many,
    newton,
    shares,
    without_noise,
)
from motleygp.demos.vo.summary import exact_table, sampled_table


def run(folder: Path, *, seeds: int = 100, seed: int = 0, quiet: bool = False) -> None:
    """Run every setting, print where the runs end, and save pictures into `folder`."""
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1; got {seeds}.")
    if seed < 0:
        raise ValueError(f"`seed` must not be negative; got {seed}.")
    folder.mkdir(exist_ok=True)
    console = Console(markup=False)  # E[...] would be read as markup
    if not quiet:
        console.print(
            "g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta), from mu = -3, sigma = 3; "
            f"{NUM_SAMPLES} samples, {NUM_STEPS} iterations, lambda = "
            f"{PRIOR_PRECISION}. Minima: {', '.join(f'{m:.3f}' for m in MINIMA)}."
        )
    runs = {s: jax.device_get(many(seed, seeds, s)) for s in SAMPLED}
    exact_runs = {s: jax.device_get(without_noise(s)) for s in EXACT}
    console.print(sampled_table(runs))
    console.print(exact_table(exact_runs))
    console.print(f"Newton's method ends at {float(newton().mean[-1]):.3f}.")
    near = int(np.sum(np.abs(ends(runs[KL]) - PENALISED) <= TOLERANCE))
    stayed = int(shares(ends(runs[NO_KL]))[1])
    console.print(
        f"With KL, {near} of {seeds} end within {TOLERANCE} of {PENALISED}; "
        f"without, {stayed} of {seeds} stay at {MINIMA[1]}."
    )
    for name, figure in pictures(runs, exact_runs).items():
        figure.savefig(folder / f"vo-{name}.png", dpi=90)
    console.print(f"Pictures: {folder}", soft_wrap=True)
