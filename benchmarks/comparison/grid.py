"""The step on Gaussian outputs, over a grid of sizes."""

import itertools as it

from comparison.problems import gaussians, settings_of
from comparison.timing import Timed, timed
from comparison.workers import EACH, OURS, Pythons

NUM_INDUCING, BATCHES, NUM_INPUTS = (40, 160, 320), (50, 1024), (1, 21)
CASES = tuple(
    f"M = {m}, batch {b}, P = {p}"
    for m, b, p in it.product(NUM_INDUCING, BATCHES, NUM_INPUTS)
)


def measure(pythons: Pythons, label: str) -> dict[str, Timed]:
    """The figures of one size."""
    cells = it.product(NUM_INDUCING, BATCHES, NUM_INPUTS)
    num_inducing, batch, num_inputs = dict(zip(CASES, cells, strict=True))[label]
    large = batch > 1000 or num_inducing > 200
    settings = settings_of("gaussian", batch, chunk=10 if large else 50)
    arrays = gaussians(num_inducing, num_inputs)
    steps = 10 if large else 50
    return timed(pythons, arrays, settings, EACH, rounds=9, steps=steps)


def show(found: dict[str, dict[str, Timed]]) -> None:
    """Print the cells of the grid that are there, and the bar."""
    print(f"{'five Gaussian outputs':28}{'ms a step':>40}{'ours / it':>24}")
    names = list(EACH)
    ratios = [name for name in names if name != OURS]
    heads = "".join(f"{name:>10}" for name in (*names, *ratios))
    print(f"{'':28}{heads}")
    worst = (0.0, "", "")
    for label, own in found.items():
        cells = [f"{own[name]['ms']:10.2f}" for name in names]
        cells += [f"{own[name]['ratio']:10.3f}" for name in ratios]
        print(f"{label:28}{''.join(cells)}")
        worst = max(worst, *((own[n]["ratio"], n, label) for n in ratios))
    ratio, name, label = worst
    print(f"  bar: never slower than a peer; the worst: {ratio:.3f} of {name}, {label}")


def show_waits(found: dict[str, dict[str, Timed]]) -> None:
    """Print the seconds to the first iteration, or chunk of them."""
    names = list(EACH)
    print(f"{'seconds to the first':28}" + "".join(f"{n:>10}" for n in names))
    for label, own in found.items():
        cells = [f"{own[n]['first']:10.1f}" for n in names]
        print(f"{label:28}{''.join(cells)}")
