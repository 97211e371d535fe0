"""From an estimator's settings and data to its runs."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import joblib
import numpy as np

from motleygp.inference.data import Dataset, checked_inputs, make_dataset
from motleygp.inference.scaling import Scaling
from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction.seen import Seen, see
from motleygp.progress import progress_bar, restarts_bar
from motleygp.tables import frames
from motleygp.training import checkpoints, restarts
from motleygp.training.loop import Callback, Report
from motleygp.training.restarts import Outcome, Task

_log = logging.getLogger(__name__)


class Observations(NamedTuple):
    """One entry per output, in the user's units: its inputs, its values, how often they
    count, and over what they were counted."""

    names: list[str]
    xs: list[np.ndarray]
    ys: list[np.ndarray]
    weights: list[np.ndarray] | None = None
    exposures: list[np.ndarray] | None = None

    @property
    def shared(self) -> bool:
        """Whether all outputs have the same inputs."""
        first = self.xs[0]
        return all(x is first or np.array_equal(x, first) for x in self.xs)

    def input_range(self) -> np.ndarray:
        """The smallest and the largest value of each input: (2, P)."""
        rows = np.concatenate(self.xs)
        return np.stack([rows.min(axis=0), rows.max(axis=0)])

    def seen(self, likelihoods: Sequence[AbstractLikelihood]) -> dict[str, Seen]:
        """What a fit to these data has seen, by output."""
        exposures = self.exposures or [None] * len(self.ys)
        each = zip(self.names, self.ys, likelihoods, exposures, strict=True)
        return {name: see(y, own, exposure) for name, y, own, exposure in each}

    def dataset(
        self,
        scaling: Scaling,
        likelihoods: Sequence[AbstractLikelihood],
        *,
        complete: bool = True,
    ) -> Dataset:
        """The data as the model sees them; outputs without values are left out where
        they need not be `complete`."""
        data = make_dataset(
            [scaling.inputs(x) for x in self.xs],
            scaling.outputs(self.ys),
            likelihoods,
            names=self.names,
            weights=self.weights,
            exposures=self.exposures,
            complete=complete,
        )
        if not data:
            raise ValueError("`Y` must have observed values; got none.")
        return data


def observations(
    names: Sequence[str],
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    sample_weight: Any = None,
    exposure: Any = None,
) -> Observations:
    """Checked inputs, values, weights and exposures."""
    checked = [checked_inputs(x) for x in xs]
    lengths = [len(x) for x in checked]
    weights = None
    if sample_weight is not None:
        weights = frames.per_row(sample_weight, names, lengths, "sample_weight")
        for name, weight, y in zip(names, weights, ys, strict=True):
            own = weight[~np.isnan(y)] if weight.shape == y.shape else weight
            if len(own) and not own.any():
                raise ValueError(
                    f"`sample_weight` must be above 0 for some observed value of "
                    f"{name!r}; every weight is zero."
                )
    exposures = None
    if exposure is not None:
        exposures = checked_exposures(exposure, names, lengths, likelihoods)
    return Observations(list(names), checked, list(ys), weights, exposures)


def checked_exposures(
    exposure: Any,
    names: Sequence[str],
    lengths: Sequence[int],
    likelihoods: Sequence[AbstractLikelihood],
) -> list[np.ndarray]:
    """The exposure of each row of each output: 1 for those that count nothing."""
    counts = {
        name: likelihood.counts
        for name, likelihood in zip(names, likelihoods, strict=True)
    }
    named = list(exposure) if isinstance(exposure, Mapping) else []
    wrong = [name for name in named if name in counts and not counts[name]]
    if wrong or not any(counts.values()):
        raise ValueError(
            "`exposure` must be of outputs that count, such as poisson; got "
            f"{wrong[0] if wrong else ', '.join(names)!r}."
        )
    found = frames.per_row(exposure, names, lengths, "exposure")
    if any((column <= 0).any() for column in found):
        raise ValueError("`exposure` must be above 0; got 0.")
    return [
        column if counts[name] else np.ones(len(column))
        for name, column in zip(names, found, strict=True)
    ]


def run_all(
    task: Task,
    seeds: Sequence[int],
    given: Mapping[str, Any],
    *,
    resume: bool,
    callback: Callback | None,
) -> list[Outcome]:
    """All starts: with checkpoints, together on an accelerator, in processes if asked,
    or in turn. Those with a callback of the user's run in turn."""
    show, several = bool(given["progress"]), len(seeds) > 1
    _log.info(
        "fitting %d outputs by %d start(s) of %d iterations",
        len(task.likelihoods),
        len(seeds),
        task.num_steps,
    )

    def watched(number: int) -> contextlib.AbstractContextManager[Callback]:
        label = f"restart {number + 1}/{len(seeds)}" if several else "training"
        return watch(task.num_steps, callback, show=show, label=label)

    # None asks joblib's context, where a user may have named another backend.
    n_jobs: Any = given["n_jobs"]
    if given["checkpoint_dir"] is not None:
        keeper = _keeper(task, list(seeds), given)
        outcomes = checkpoints.run_in_turn(keeper, watched, resume=resume)
    elif resume:
        raise ValueError("`resume` needs the `checkpoint_dir` of the earlier run.")
    elif several and callback is None and jax.default_backend() != "cpu":
        with restarts_bar(task.num_steps, show=show) as update:
            outcomes = restarts.run_together(task, seeds, update)
    elif several and callback is None and joblib.effective_n_jobs(n_jobs) > 1:
        outcomes = restarts.run_in_processes(task, seeds, n_jobs)
    else:
        outcomes = restarts.run_in_turn(task, seeds, watched)
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
    task: Task, seeds: list[int], given: Mapping[str, Any]
) -> checkpoints.Checkpoints:
    if given["random_state"] is None:
        raise ValueError(
            "`checkpoint_dir` needs a `random_state`, so that a resumed run is the "
            "same run; got None."
        )
    mark = checkpoints.fingerprint(task, seeds, given)
    return checkpoints.Checkpoints(given["checkpoint_dir"], task, seeds, mark)


@contextlib.contextmanager
def watch(
    num_steps: int, callback: Callback | None, *, show: bool, label: str
) -> Iterator[Callable[[Report], bool]]:
    """What a run tells after each chunk: to the bar, to the log, to the user."""
    with progress_bar(num_steps, show=show, label=label) as update:

        def tell(report: Report) -> bool:
            update(report)
            _log.debug(
                "iteration %d of %d: -ELBO %.6g",
                report.iteration,
                report.horizon,
                float(np.mean(report.info.nelbo)),
            )
            return bool(callback(report)) if callback is not None else False

        yield tell
