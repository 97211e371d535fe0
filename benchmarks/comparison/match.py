"""The proof that the models match: one bound, at equal parameters."""

import numpy as np

from comparison.problems import five_types, gaussians, settings_of, with_q
from comparison.workers import OURS, Pythons, built, started
from libraries.in_motleygp import model_of
from libraries.served import Arrays, Settings
from motleygp import core

# GPyTorch and GPJax add the jitter to the variance of the processes at the data too.
# A small one shows that nothing else differs.
SMALL_JITTER = 1e-9


def score(arrays: Arrays, settings: Settings) -> float:
    """Our bound on all rows."""
    return core.full_elbo(*model_of(arrays, settings))


def cases() -> dict[str, tuple[Arrays, Settings]]:
    """The problems, with a q(u) drawn at random."""
    rng = np.random.default_rng(1)
    mixed, gaussian = with_q(five_types(), rng), with_q(gaussians(40, 21), rng)
    small = {"jitter": SMALL_JITTER}
    return {
        "five types, covariances kept": (mixed, settings_of("mixed", 50, **small)),
        "five types, functions independent": (
            mixed,
            settings_of("mixed", 50, covariances=False, **small),
        ),
        "five Gaussian outputs": (gaussian, settings_of("gaussian", 50, **small)),
    }


def measure(pythons: Pythons, label: str) -> dict[str, float]:
    """Every library's own bound in one case, beside ours."""
    arrays, settings = cases()[label]
    with started(pythons, arrays) as workers:
        built(workers, settings)
        peers = {n: w("bound") for n, w in workers.items() if n != OURS}
    return {OURS: score(arrays, settings), **peers}


def show(found: dict[str, dict[str, float]]) -> None:
    """Print the bounds, and their differences from ours."""
    names = list(next(iter(found.values())))
    print(f"{'-ELBO, equal parameters':36}" + "".join(f"{n:>22}" for n in names))
    for label, bounds in found.items():
        cells = [f"{-bounds[OURS]:22.6f}"]
        for name in names[1:]:
            cells.append(f"{bounds[OURS] - bounds[name]:+22.1e}")
        print(f"{label:36}" + "".join(cells))
    print("  theirs: the difference from ours, in nats")
