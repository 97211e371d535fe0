"""The cost of a convolution step by the number of functions.

    python benchmarks/functions.py

Outputs are HetGaussian, two functions each, on shared rows; one input, Q = 4 latent
processes, M = 80, minibatches of 256, one thread. Prints the compile time, the time per
step, and the memory of the compiled step in addition to its arguments.
"""

import argparse
import os

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # that of LAPACK

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

FORMS = {
    "function": mg.priors.Convolution,
    "latent": mg.priors.LatentConvolution,
}
NUM_FUNCTIONS = (8, 20, 80, 160)
NUM_LATENTS = 4
REPEATS = 5


def cost(form: str, num_functions: int) -> tuple[float, float, float]:
    """Seconds to compile, seconds per step, bytes of memory."""
    rng = np.random.default_rng(0)
    num_outputs = num_functions // 2
    x = rng.normal(size=(600, 1))
    likelihoods = [mg.likelihoods.HetGaussian()] * num_outputs
    ys = list(rng.normal(size=(num_outputs, len(x))))
    data = make_dataset([x] * num_outputs, ys, likelihoods)
    model = initial_model(
        rng,
        data,
        likelihoods,
        form=FORMS[form],
        num_latents=NUM_LATENTS,
        rank=(1,) * NUM_LATENTS,
        num_inducing=80,
    )
    scheme = optim.fng()
    state = init(jr.key(0), model, scheme, num_steps=1000)
    arrays, static = eqx.partition((state, data), eqx.is_array)

    def one(arrays: tuple) -> tuple:
        new = step(scheme, *eqx.combine(arrays, static), batch_size=256)
        return eqx.filter(new, eqx.is_array)

    begun = time.perf_counter()
    options = usual_options()
    compiled = jax.jit(one, compiler_options=options).lower(arrays).compile()
    compile_time = time.perf_counter() - begun
    jax.block_until_ready(compiled(arrays))
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        jax.block_until_ready(compiled(arrays))
        times.append(time.perf_counter() - begun)
    analysis = compiled.memory_analysis()
    assert analysis is not None
    return compile_time, float(np.median(times)), float(analysis.temp_size_in_bytes)


def main() -> None:
    print("| inducing | J | compile, s | step, ms | memory, MB | MB per function |")
    print("| --- | --- | --- | --- | --- | --- |")
    for form in FORMS:
        for count in NUM_FUNCTIONS:
            compiled, per_step, memory = cost(form, count)
            print(
                f"| {form} | {count} | {compiled:.1f} | {1e3 * per_step:.0f} "
                f"| {memory / 1e6:.0f} | {memory / 1e6 / count:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
