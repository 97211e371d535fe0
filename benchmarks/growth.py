"""How time and memory of a training step grow with each size, and with the rows.

    python benchmarks/growth.py            # predicted: five minutes, one core
    python benchmarks/growth.py --of M batch

One size varies at a time. The outputs are HetGaussian, two functions each, and share
their rows; the prior is the linear model, with a factorised q(u). The step is the
compiled step of `optim.fng`, with its minibatch; its memory is that of the compiled
program beyond its arguments. The exponent is the slope of log time, or memory, in log
size between a size and the one before it. "fit, s" is everything in a fit but its
iterations: the start of the model, the compilation and the final score.
"""

import argparse
import os
from typing import Any, NamedTuple

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # that of LAPACK
os.environ["MOTLEYGP_PROGRAM_CACHE"] = "off"

import time

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

import motleygp as mg
from motleygp import optim
from motleygp.inference import make_dataset
from motleygp.numerics.compiled import usual_options
from motleygp.training import init, initial_model, step


class Sizes(NamedTuple):
    """The sizes of a model and its data, by their names in the docs."""

    N: int = 10_000
    M: int = 100
    Q: int = 4
    J: int = 8
    P: int = 4
    batch: int = 256


GRID = {
    "N": (10_000, 100_000, 1_000_000),
    "M": (50, 100, 200, 400, 800),
    "Q": (2, 4, 8, 16, 32),
    "J": (4, 8, 16, 32, 64),
    "P": (1, 4, 16, 64),
    "batch": (64, 256, 1024, 4096),
}
REPEATS = 7
LEAST_SECONDS = 0.1


def cost(sizes: Sizes) -> tuple[float, float]:
    """Seconds per step, and bytes beyond the arguments of the compiled step."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sizes.N, sizes.P))
    likelihoods = [mg.likelihoods.HetGaussian()] * (sizes.J // 2)
    ys = list(rng.normal(size=(len(likelihoods), sizes.N)))
    data = make_dataset([x] * len(ys), ys, likelihoods)
    model = initial_model(
        rng,
        data,
        likelihoods,
        num_latents=sizes.Q,
        rank=(1,) * sizes.Q,
        num_inducing=sizes.M,
    )
    scheme = optim.fng()
    state = init(jr.key(0), model, scheme, num_steps=1000)
    arrays, static = eqx.partition((state, data), eqx.is_array)

    def one(state: Any, data: Any) -> Any:
        both = eqx.combine((state, data), static)
        new, _ = step(scheme, *both, batch_size=sizes.batch)
        return eqx.filter(new, eqx.is_array)

    program = jax.jit(one, compiler_options=usual_options()).lower(*arrays).compile()
    state, rows = arrays
    state = jax.block_until_ready(program(state, rows))
    each = seconds(program, state, rows, 1)
    number = max(1, int(LEAST_SECONDS / each))
    found = [seconds(program, state, rows, number) for _ in range(REPEATS)]
    analysis = program.memory_analysis()
    assert analysis is not None
    return float(np.min(found)), float(analysis.temp_size_in_bytes)


def seconds(program: Any, state: Any, rows: Any, number: int) -> float:
    """The mean time of a step."""
    begun = time.perf_counter()
    for _ in range(number):
        state = program(state, rows)
    jax.block_until_ready(state)
    return (time.perf_counter() - begun) / number


def rest_of_fit(num_rows: int) -> float:
    """Seconds of a fit beyond its iterations."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(num_rows, 4)), rng.normal(size=(num_rows, 4))
    model = mg.MotleyGP(
        ["hetgaussian"] * 4,
        num_latents=4,
        num_inducing=100,
        batch_size=256,
        max_iter=100,
        random_state=0,
        progress=False,
    )
    ends = []
    begun = time.perf_counter()
    model.fit(x, y, callback=lambda _: ends.append(time.perf_counter()))
    # Two chunks of 50: the first compiles, the second only runs.
    return time.perf_counter() - begun - 2.0 * (ends[1] - ends[0])


def exponent(small: float, large: float, ratio: float) -> str:
    return f"{np.log(large / small) / np.log(ratio):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", nargs="+", choices=GRID, default=list(GRID))
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    usual = ", ".join(f"{name} = {value}" for name, value in Sizes()._asdict().items())
    print(f"Usual sizes: {usual}\n")
    print("| size | step, ms | exponent | memory, MB | exponent | fit, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in args.of:
        before = None
        for value in GRID[name]:
            now = value, *cost(Sizes()._replace(**{name: value}))
            slopes = ["", ""]
            if before is not None:
                ratio = now[0] / before[0]
                pairs = zip(before[1:], now[1:], strict=True)
                slopes = [exponent(a, b, ratio) for a, b in pairs]
            rest = f"{rest_of_fit(value):.1f}" if name == "N" else ""
            step_ms, megabytes = 1e3 * now[1], now[2] / 1e6
            cells = f"{step_ms:.2f} | {slopes[0]} | {megabytes:.1f} | {slopes[1]}"
            print(f"| {name} = {value} | {cells} | {rest} |", flush=True)
            before = now


if __name__ == "__main__":
    main()
