"""What a fit takes on an accelerator: one run, several starts, and large batches.

    python benchmarks/accelerator.py              # predicted: four minutes on a GPU
    python benchmarks/accelerator.py --small      # tiny sizes, to try the script

- One run of the five-output benchmark (`step.py`): seconds to the end of 50 iterations,
  compilation included, and milliseconds per iteration after that.
- `restarts=20` of the same, together, over the time of one run, both compiled.
- Large batches: the rate of float64 operations of a step with M = 512, eight latent
  processes and 8192 rows, and that of a large matrix product in the same run.

The operations of a step with B >= 2 M rows are, for each latent process,

    8 M^2 B + (12 + 4/3) M^3 + 6 M (M + B) P:

four products of M x M with M x B; two Cholesky factors and two inverses of triangles,
each M^3 / 3, and six products of M x M; and the products of the kernel, forward and
back. The likelihoods, the elementwise work and the exponentials do not count.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import motleygp as mg
from motleygp import optim
from motleygp.inference import Dataset, Model, make_dataset
from motleygp.training import Run, init, initial_model, run
from motleygp.training.together import run_together
from step import BATCH, build, problem

ROUNDS = 5


class Large(NamedTuple):
    """The sizes of the step with large batches, and of the matrix product."""

    M: int
    Q: int
    B: int
    P: int
    size: int
    steps: int


LARGE = {False: Large(512, 8, 8192, 8, 8192, 20), True: Large(20, 2, 64, 2, 64, 4)}


def seconds(fn: Callable[[], Any]) -> float:
    """The wall time of one call."""
    begun = time.perf_counter()
    jax.block_until_ready(fn())
    return time.perf_counter() - begun


def state_of(model: Model, seed: int, num_steps: int) -> Any:
    return init(jr.key(seed), model, optim.fng(patience=None), num_steps=num_steps)


def alone(model: Model, data: Dataset, num_steps: int, batch: int = BATCH) -> Run:
    scheme = optim.fng(patience=None)
    return run(scheme, state_of(model, 0, num_steps), data, batch_size=batch)


def together(model: Model, data: Dataset, starts: int, num_steps: int) -> list[Run]:
    scheme = optim.fng(patience=None)
    states = [state_of(model, seed, num_steps) for seed in range(starts)]
    return run_together(scheme, states, data, batch_size=BATCH)


def one_run_and_starts(num_steps: int, starts: int) -> None:
    model, data = build(problem())
    first = seconds(lambda: alone(model, data, 50))
    rounds = [seconds(lambda: alone(model, data, num_steps)) for _ in range(ROUNDS)]
    one = statistics.median(rounds)
    print(f"first 50 iterations: {first:.1f} s")
    print(f"one run: {1e3 * one / num_steps:.3f} ms an iteration; bar: 0.5")
    together(model, data, starts, 50)
    rounds = [
        seconds(lambda: together(model, data, starts, num_steps)) for _ in range(ROUNDS)
    ]
    ratio = statistics.median(rounds) / one
    print(f"{starts} starts together: {ratio:.2f} times one run; bar: 2, aim: 1.3")


def large_batches(sizes: Large) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4 * sizes.B, sizes.P))
    likelihoods = [mg.likelihoods.HetGaussian()] * (sizes.Q // 2)
    ys = list(rng.normal(size=(len(likelihoods), len(x))))
    data = make_dataset([x] * len(ys), ys, likelihoods)
    model = initial_model(
        rng,
        data,
        likelihoods,
        num_latents=sizes.Q,
        rank=(1,) * sizes.Q,
        num_inducing=sizes.M,
    )
    alone(model, data, sizes.steps, sizes.B)
    rounds = [
        seconds(lambda: alone(model, data, sizes.steps, sizes.B)) for _ in range(ROUNDS)
    ]
    step = statistics.median(rounds) / sizes.steps
    square = sizes.M**2
    each = 8 * square * sizes.B + (12 + 4 / 3) * square * sizes.M
    each += 6 * sizes.M * (sizes.M + sizes.B) * sizes.P
    rate = sizes.Q * each / step
    matrix = jnp.asarray(rng.normal(size=(sizes.size, sizes.size)))
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(matrix))
    fastest = min(seconds(lambda: product(matrix)) for _ in range(ROUNDS))
    most = 2 * sizes.size**3 / fastest
    print(f"large batches: {1e3 * step:.2f} ms a step, {rate / 1e12:.3f} TFLOP/s")
    print(f"a matrix product of {sizes.size}: {most / 1e12:.3f} TFLOP/s")
    print(f"share: {rate / most:.2f}; bar: 0.3")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes")
    args = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}")
    one_run_and_starts(*((100, 2) if args.small else (2000, 20)))
    large_batches(LARGE[args.small])


if __name__ == "__main__":
    main()
