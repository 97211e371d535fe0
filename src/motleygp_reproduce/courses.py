"""Runs of the library's schemes with scores on the way."""

import functools as ft
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

import motleygp as mg
from motleygp.datasets import Problem
from motleygp.inference import Scaling
from motleygp.training import Run, Solution, Task, TrainState, run, solution
from motleygp.training.restarts import begin
from motleygp.training.together import run_together
from motleygp_reproduce import clock
from motleygp_reproduce.records import DONE

Scores = dict[str, float]
# Iterations between two looks at a run, if all marks are multiples of it.
_CHUNK = 50


class Course(NamedTuple):
    """A run: its NELBO at every iteration, its scores by iteration and output, the
    variances sigma^2 of q(theta) at the end, its time, and why it ended."""

    seed: int
    nelbo: np.ndarray
    scores: dict[int, Scores]
    variance: np.ndarray
    seconds: float
    ended: str


def train(
    task: Task,
    seeds: Sequence[int],
    marks: Sequence[int],
    score: Callable[[Solution], Scores],
) -> list[Course]:
    """Run the starts to the end of the task, and score each at the marks before it and
    at its end: one after another on a CPU, together on an accelerator."""
    marks = sorted({mark for mark in marks if mark < task.num_steps} | {task.num_steps})
    if jax.default_backend() == "cpu":
        each = ft.partial(_follow, task, marks=marks, score=score, advance=_in_turn)
        return [course for seed in seeds for course in each(seeds=[seed])]
    return _follow(task, seeds, marks, score, _together)


def _follow(
    task: Task,
    seeds: Sequence[int],
    marks: Sequence[int],
    score: Callable[[Solution], Scores],
    advance: Callable[[Task, list[TrainState], int, int], list[Run] | str],
) -> list[Course]:
    chunk = math.gcd(_CHUNK, *marks)
    begun = clock.seconds()
    going = [_Going(seed, begin(task, seed)) for seed in seeds]
    seconds = clock.seconds() - begun
    for mark in marks:
        begun = clock.seconds()
        alive = [each for each in going if each.ended == DONE]
        states = [each.state for each in alive]
        runs = advance(task, states, mark, chunk) if alive else []
        seconds += clock.seconds() - begun
        for place, each in enumerate(alive):
            each.add(task, runs if isinstance(runs, str) else runs[place], score)
    return [each.course(task, seconds / len(going)) for each in going]


class _Going:
    """A run on its way."""

    def __init__(self, seed: int, state: TrainState):
        self.seed, self.state, self.ended = seed, state, DONE
        self.nelbo: list[np.ndarray] = []
        self.scores: dict[int, Scores] = {}

    def add(
        self, task: Task, run: Run | str, score: Callable[[Solution], Scores]
    ) -> None:
        """Add the next part of the run, or the error that ended it, and its scores."""
        if isinstance(run, str):
            self.ended = "diverged"
            return
        self.state = run.state
        if run.steps is None:
            return
        nelbo = np.asarray(run.steps.nelbo)
        self.nelbo.append(nelbo)
        scores = score(solution(task.scheme, run.state)) if _finite(nelbo) else {}
        if not scores or not np.isfinite(list(scores.values())).all():
            self.ended = "diverged"
        else:
            self.scores[int(run.state.iteration)] = scores

    def course(self, task: Task, seconds: float) -> Course:
        """The whole run."""
        nelbo = np.concatenate(self.nelbo) if self.nelbo else np.zeros(0)
        std = solution(task.scheme, self.state).std if self.ended == DONE else None
        variance = [np.ravel(leaf) ** 2 for leaf in jax.tree.leaves(std)]
        return Course(
            seed=self.seed,
            nelbo=nelbo,
            scores=self.scores,
            variance=np.concatenate(variance) if variance else np.zeros(0),
            seconds=seconds,
            ended=self.ended,
        )


def _finite(nelbo: np.ndarray) -> bool:
    """Whether a part of a run ended with finite bounds; a refused step has none."""
    return bool(np.isfinite(nelbo[-1:]).all())


def _in_turn(
    task: Task, states: list[TrainState], until: int, chunk: int
) -> list[Run] | str:
    """Go on to this iteration with one run, or tell why that was not possible."""
    (state,) = states
    try:
        own = run(
            task.scheme,
            state,
            task.data,
            batch_size=task.batch_size,
            chunk=chunk,
            callback=lambda report: report.iteration >= until,
        )
    except FloatingPointError as error:
        return str(error)
    return [own]


def _together(
    task: Task, states: list[TrainState], until: int, chunk: int
) -> list[Run]:
    """Go on to this iteration with all runs in one batch."""
    return run_together(
        task.scheme,
        states,
        task.data,
        batch_size=task.batch_size,
        chunk=chunk,
        callback=lambda iteration: iteration >= until,
    )


def nlpd_by_output(problem: Problem, scaling: Scaling, found: Solution) -> Scores:
    """The NLPD of each output on the test rows that have it."""
    predicted = mg.core.predict(found.model, found.q, problem.x_test, scaling=scaling)
    columns = zip(problem.names, predicted, problem.y_test.T, strict=True)
    return {name: -_mean(own.log_prob(y)) for name, own, y in columns}


def _mean(densities: np.ndarray) -> float:
    """The mean over the values that are there."""
    return float(np.nanmean(densities))
