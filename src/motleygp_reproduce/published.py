"""The "authors" variant: runs of what the published code computes, as courses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from motleygp.datasets import Problem
from motleygp_reproduce import authors
from motleygp_reproduce.courses import Course
from motleygp_reproduce.records import DONE


class Published(NamedTuple):
    """The courses of a cell, and what a record tells of their settings."""

    courses: list[Course]
    settings: dict[str, Any]


def run(
    problem: Problem,
    settings: authors.Settings,
    scheme: str,
    seeds: Sequence[int],
    iterations: int,
    marks: Sequence[int],
) -> Published:
    """Train these starts, and score them at the marks and at the end."""
    runs = authors.fit_seeds(
        problem,
        settings,
        scheme=scheme,
        seeds=seeds,
        iterations=iterations,
        score_at=sorted({*marks, iterations}),
    )
    told: dict[str, Any] = dict(Q=settings.num_latents, M=settings.num_inducing)
    if scheme == "fng":
        told["initial_p"] = settings.initial_precision
        told["lambda_1"] = settings.prior_precision
    if scheme == "sgd":
        told["step"] = settings.sgd_step
    pairs = zip(seeds, runs, strict=True)
    return Published([_course(seed, run) for seed, run in pairs], told)


def _course(seed: int, run: authors.Run) -> Course:
    """A run up to its last finite score."""
    scores = {
        at: found
        for at, found in run.scores.items()
        if np.isfinite(list(found.values())).all()
    }
    lost = run.diverged or len(scores) < len(run.scores)
    return Course(
        seed=seed,
        nelbo=run.nelbo[np.isfinite(run.nelbo)],
        scores=scores,
        variance=run.variance,
        seconds=run.seconds,
        ended="diverged" if lost else DONE,
    )
