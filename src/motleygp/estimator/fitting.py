"""The runs of an estimator's fit, and the resulting fitted model."""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import joblib
import numpy as np

from motleygp.estimator import settings
from motleygp.estimator.door import Read
from motleygp.estimator.plan import in_words, planned, with_iterations
from motleygp.inference import Dataset, Scaling, hold_out, no_scaling, standardising
from motleygp.prediction import Fitted, see
from motleygp.progress import restarts_bar
from motleygp.training import (
    Callback,
    Outcome,
    Run,
    Task,
    absorb,
    best,
    checkpoints,
    named_trace,
    restarts,
)
from motleygp.training.constant import learnt, worth_another
from motleygp.training.interrupts import Beside
from motleygp.training.processes import run_in_processes
from motleygp.training.programs import make_room
from motleygp.training.watch import watch

_log = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """What a fit needs: the data as they were read, their units, the task of all runs,
    and the seed of each run."""

    read: Read
    scaling: Scaling
    task: Task
    seeds: list[int]


def prepared(given: Mapping[str, Any], read: Read) -> Prepared:
    """The task of all runs."""
    rng, held_out = np.random.default_rng(given["random_state"]), None
    observed, scaling = read.observed, _scaling(given, read)
    likelihoods = [
        likelihood.in_units(scale)
        for likelihood, scale in zip(read.likelihoods, scaling.y_scale, strict=True)
    ]
    if given["validation_fraction"]:
        fraction = given["validation_fraction"]
        observed, apart = hold_out(rng, observed, likelihoods, fraction)
        held_out = apart.dataset(scaling)
    data = observed.dataset(scaling)
    given = planned(given, likelihoods, data)
    scheme = settings.scheme(given, data, likelihoods)
    task = Task(
        data=data,
        held_out=held_out,
        likelihoods=likelihoods,
        start=settings.start(given, scaling, observed.names),
        scheme=scheme,
        batch_size=given["batch_size"],
        num_steps=settings.num_steps(given, scheme),
        time_limit=given["time_limit"],
        plan=in_words(given),
    )
    seeds = [int(seed) for seed in rng.integers(2**31, size=given["restarts"])]
    return Prepared(read, scaling, task, seeds)


def _scaling(given: Mapping[str, Any], read: Read) -> Scaling:
    """The units of these data; `start` may replace those of the outputs."""
    observed = read.observed
    if given["standardize"]:
        xs, weights = observed.weighted_inputs()
        scaling = standardising(
            xs,
            observed.ys,
            read.likelihoods,
            x_weights=weights,
            y_weights=observed.weights,
        )
    else:
        scaling = no_scaling(observed.xs[0].shape[1], len(observed.names))
    return settings.started_units(given["start"], scaling)


def run_all(
    task: Task,
    seeds: Sequence[int],
    given: Mapping[str, Any],
    beside: Beside,
    *,
    resume: bool,
    callback: Callback | None,
) -> list[Outcome]:
    """Run all starts: one after another with checkpoints or a user's callback, else
    together on an accelerator, or in the processes of `n_jobs`.

    If the best is no better than the constant fit, another start follows.
    """
    make_room()
    callback = beside.heard(callback)
    show, several = bool(given["progress"]), len(seeds) > 1
    _log.info(
        "fitting %d outputs with %d start(s) of %d iterations: %s",
        len(task.likelihoods),
        len(seeds),
        task.num_steps,
        task.plan,
    )

    def watched(number: int) -> contextlib.AbstractContextManager[Callback]:
        label = f"restart {number + 1}/{len(seeds)}" if several else "training"
        return watch(task.num_steps, callback, show=show, label=label, plan=task.plan)

    # None means the number in joblib's context, where a user may set a backend.
    n_jobs: Any = given["n_jobs"]
    if given["checkpoint_dir"] is not None:
        keeper = _keeper(task, list(seeds), given, beside)
        outcomes = checkpoints.run_in_turn(keeper, watched, resume=resume)
    elif resume:
        raise ValueError("`resume` needs the `checkpoint_dir` of the earlier run.")
    elif several and callback is None and jax.default_backend() != "cpu":
        with restarts_bar(task.num_steps, show=show) as update:
            outcomes = restarts.run_together(task, seeds, update)
    elif several and callback is None and joblib.effective_n_jobs(n_jobs) > 1:
        outcomes = run_in_processes(task, seeds, n_jobs, beside.warn)
    else:
        outcomes = restarts.run_in_turn(task, seeds, watched)
    # A start of the user's or the paper's own would only be repeated.
    own = given["start"] or given["preset"] is not None
    if not own and worth_another(outcomes, task) and not learnt(outcomes, task):
        another = int(np.random.default_rng(seeds[-1]).integers(2**31))
        outcomes += restarts.run_in_turn(task, [another], watched)
    for number, outcome in enumerate(outcomes):
        _log.info(
            "start %d ended after %d iterations (%s), score %.6g",
            number,
            len(outcome.trace.get("iteration", ())),
            outcome.error or outcome.ended,
            outcome.score,
        )
    return outcomes


def _keeper(
    task: Task, seeds: list[int], given: Mapping[str, Any], beside: Beside
) -> checkpoints.Checkpoints:
    if given["random_state"] is None:
        raise ValueError(
            "`checkpoint_dir` needs a `random_state`, so that a resumed run is the "
            "same run; got None."
        )
    mark = checkpoints.fingerprint(task, seeds, given)
    folder = given["checkpoint_dir"]
    return checkpoints.Checkpoints(folder, task, seeds, mark, beside.warn)


def gathered(ready: Prepared, outcomes: Sequence[Outcome]) -> Fitted:
    """The fitted model: the best outcome, with the names and a summary of the data."""
    (table, observed, _, choices), scaling, task, _ = ready
    found, chosen = best(outcomes)
    none = [None] * len(observed.ys)
    exposures, weights = observed.exposures or none, observed.weights or none
    each = zip(observed.ys, task.likelihoods, exposures, weights, strict=True)
    num_inputs = len(scaling.x_shift)
    return Fitted(
        model=found.model,
        q=found.q,
        scheme=task.scheme,
        scaling=scaling,
        outputs=tuple(table.names),
        inputs=tuple(table.features or (f"x{p}" for p in range(num_inputs))),
        inputs_named=table.features is not None,
        dates=tuple(table.dates),
        classes=tuple(column.classes for column in table.columns),
        seen=tuple(see(*own) for own in each),
        input_range=observed.input_range(),
        choices=tuple(choices),
        trace=chosen.trace,
        ended=chosen.ended,
        starts=tuple(
            {"score": o.score, "trace": o.trace, "ended": o.ended, "error": o.error}
            for o in outcomes
        ),
    )


def update(
    fitted: Fitted,
    data: Dataset,
    given: Mapping[str, Any],
    beside: Beside,
    callback: Callback | None,
) -> Run:
    """Update q(u) with new rows."""
    given = with_iterations(given, data)
    heard, show, num_steps = (
        beside.heard(callback),
        given["progress"],
        given["max_iter"],
    )
    with watch(num_steps, heard, show=bool(show), label="updating") as tell:
        return absorb(
            fitted.model,
            fitted.q,
            data,
            seed=int(np.random.default_rng(given["random_state"]).integers(2**31)),
            batch_size=given["batch_size"],
            num_steps=num_steps,
            time_limit=given["time_limit"],
            callback=tell,
        )


def updated(fitted: Fitted, run: Run) -> Fitted:
    """The fitted model after an update."""
    changed = dict(q=run.state.q, ended=run.ended, trace=named_trace(run))
    # The q(u) of each draw has not seen the new rows.
    return dataclasses.replace(fitted, **changed, draws=())
