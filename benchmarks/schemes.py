"""Time one whole iteration of every scheme on the task of `step.py`, on one core.

An iteration has everything that a run does: minibatch, draw of theta, gradients, both
steps, refusals and the test of convergence. Rounds of the schemes alternate; ratios are
the medians over the rounds.
"""

import argparse
import dataclasses
import os
import statistics
import time

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts

import equinox as eqx
import jax
import jax.random as jr

from motleygp import optim
from motleygp.training import init, step
from step import BATCH, build, problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="iterations per round")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model, data = build(problem())
    schemes = {name: make() for name, make in optim.BY_NAME.items()}
    schemes["fng, q(u) itself"] = dataclasses.replace(optim.fng(), whitened=False)
    programs = {}
    for name, scheme in schemes.items():
        state = init(jr.key(0), model, scheme, num_steps=10_000)
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(arrays, _, scheme=scheme, static=static):
            state = eqx.combine(arrays, static)
            new, info = step(scheme, state, data, batch_size=BATCH)
            return eqx.filter(new, eqx.is_array), info.nelbo

        program = jax.jit(
            lambda arrays, body=body: jax.lax.scan(body, arrays, None, args.steps)
        )
        jax.block_until_ready(program(arrays))
        programs[name] = (program, arrays)
    rounds = []
    for _ in range(args.rounds):
        times = {}
        for name, (program, arrays) in programs.items():
            begun = time.perf_counter()
            jax.block_until_ready(program(arrays))
            times[name] = 1e3 * (time.perf_counter() - begun) / args.steps
        rounds.append(times)
    print(f"{'':20}{'ms an iteration':>16}{'it / hybrid':>14}")
    for name in programs:
        ms = statistics.median(times[name] for times in rounds)
        ratio = statistics.median(times[name] / times["hybrid"] for times in rounds)
        print(f"{name:20}{ms:16.2f}{ratio:14.3f}")


if __name__ == "__main__":
    main()
