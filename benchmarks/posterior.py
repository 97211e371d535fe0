"""Time the step under a joint q(u) against the step under a factorised one.

    python benchmarks/posterior.py                  # G M = 160, 320, 640
    python benchmarks/posterior.py --latents 4 --batch 256

The step is that of the five-output benchmark (`step.py`) with G latent processes of 80
inducing values each, on one core. Rounds of both forms alternate; the table has the
slowest round of the fastest tenth, and the ratio of the two.
"""

import argparse
import os
import statistics

os.environ.setdefault("NPROC", "1")

import jax.numpy as jnp
import numpy as np

import step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latents", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--batch", type=int, nargs="+", default=[step.BATCH, 256])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--number", type=int, default=20, help="steps per round")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("| G M | batch | factorised, ms | joint, ms | ratio |")
    print("| --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(0)
    for num_latents in args.latents:
        built = step.build(step.problem(num_latents=num_latents))
        for batch in args.batch:
            some = [rng.choice(step.NUM_ROWS, batch, False) for _ in range(args.number)]
            rows = jnp.asarray(np.stack(some))
            both = [
                step.compiled(*step.our_step(*built, joint=joint), rows)[0]
                for joint in (False, True)
            ]
            times = [
                [step.milliseconds(run, args.number) for run in both]
                for _ in range(args.rounds)
            ]
            apart, joint = (
                statistics.quantiles(ms, n=10)[0] for ms in zip(*times, strict=True)
            )
            size, ratio = num_latents * step.NUM_INDUCING, joint / apart
            cells = (size, batch, f"{apart:.2f}", f"{joint:.2f}", f"{ratio:.2f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
