"""Checkpoints: the whole of a run in one file, from which a killed run resumes.

The header has `kind` "checkpoint", the `fingerprint` of data and settings, the `done`
restarts (score, end, error), and `current`: the first iteration and the held-out scores
of the current restart. The arrays are the leaves of its state (`state.q.mean`), its
best state and its step reports, and the solutions and traces of the finished restarts.
"""

import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from motleygp.files import modelfile
from motleygp.files.trees import (
    check_finite,
    columns,
    digest,
    filled,
    named_leaves,
    plain,
    refusing,
    restored,
)
from motleygp.training import restarts
from motleygp.training.journal import Report
from motleygp.training.one_step import StepInfo, step
from motleygp.training.restarts import Outcome, Task
from motleygp.training.state import TrainState, solution
from motleygp.training.trace import Run

FILE = "checkpoint.motley"
# The time between two writes.
SECONDS = 20.0
# Settings that do not change the course of a run; the likelihoods cover `outputs`.
_IRRELEVANT = ("progress", "checkpoint_dir", "time_limit", "n_jobs", "outputs")


class Standing(NamedTuple):
    """The finished restarts, and the current one if it has begun."""

    done: tuple[Outcome, ...] = ()
    current: Run | None = None


def fingerprint(task: Task, seeds: list[int], given: Mapping[str, Any]) -> str:
    """A digest of a run's data, likelihoods, scheme, seeds and settings, with every
    field and every array of them.

    Settings that do not change the course of a run are left out.
    """
    settings = {key: value for key, value in given.items() if key not in _IRRELEVANT}
    data = [
        {"arrays": jax.tree.leaves(block), "rows": (block.outputs, block.total)}
        for block in (*task.data, *(task.held_out or ()))
    ]
    return digest(
        {
            "data": data,
            "likelihoods": list(task.likelihoods),
            "scheme": task.scheme,
            "seeds": seeds,
            "settings": settings,
        }
    )


class Checkpoints:
    """One file in a folder, written every 20 seconds.

    **Arguments:**

    - `folder`: the folder of the file; created if it does not exist.
    - `task`, `seeds`: those of the run; they give loaded arrays their structure.
    - `mark`: the `fingerprint` of the run.
    - `warn`: called with a line that says why a checkpoint could not be written. The
      run goes on, and the next checkpoint is tried at its time.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        task: Task,
        seeds: list[int],
        mark: str,
        warn: Callable[[str], None] = warnings.warn,
    ):
        self.path = Path(folder) / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.task, self.seeds, self.mark, self.warn = task, seeds, mark, warn
        self._warned = False
        self._written = time.monotonic()
        self._last: Report | None = None

    def watch(self, done: tuple[Outcome, ...]) -> Callable[[Report], None]:
        """A callback that writes the current restart when it is time."""
        self._last = None

        def callback(report: Report) -> None:
            self._last = report
            if time.monotonic() - self._written >= SECONDS:
                self.write(Standing(done, report.so_far()))

        return callback

    def write_last(self, done: tuple[Outcome, ...]) -> None:
        """Write the last report of the current restart, if there is one."""
        if self._last is not None:
            self.write(Standing(done, self._last.so_far()))

    def write(self, standing: Standing) -> None:
        """Replace the file; a failure is warned about once."""
        try:
            # The folder may have been removed.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            modelfile.write(self.path, *self._content(standing))
        except Exception as error:
            self._warn_once(error)
        self._written = time.monotonic()

    def _warn_once(self, error: Exception) -> None:
        why = str(error).splitlines() or [type(error).__name__]
        if not self._warned:
            self._warned = True
            self.warn(
                "the checkpoint could not be written, and training goes on without "
                f"it: {why[0]}"
            )

    def _content(self, standing: Standing) -> tuple[dict[str, Any], dict[str, Any]]:
        """The header and the arrays of the file."""
        header: dict[str, Any] = {
            "kind": "checkpoint",
            "fingerprint": self.mark,
            "done": [
                {
                    "score": plain(o.score),
                    "ended": o.ended,
                    "error": o.error,
                }
                for o in standing.done
            ],
            "current": None,
        }
        arrays: dict[str, np.ndarray] = {}
        for number, outcome in enumerate(standing.done):
            if outcome.solution is not None:
                arrays |= named_leaves(outcome.solution, f"done.{number}.solution")
            for key, value in outcome.trace.items():
                arrays[f"done.{number}.trace.{key}"] = value
        run = standing.current
        if run is not None:
            header["current"] = {
                "start": run.start,
                "held_out": [[when, plain(score)] for when, score in run.held_out],
            }
            arrays |= named_leaves(run.state, "state")
            if run.best is not None:
                arrays |= named_leaves(run.best, "best")
            arrays |= named_leaves(run.steps, "steps")
        return header, arrays

    def begin(self, *, resume: bool) -> Standing:
        """The standing from which the run begins: an empty one, or that of the file.

        **Raises:** `ValueError` when the file belongs to another run, which is never
        overwritten.
        """
        if resume:
            if not self.path.exists():
                folder = str(self.path.parent)
                self.warn(
                    f"there is no checkpoint in {folder!r} to resume, so the fit "
                    "begins anew."
                )
            return self.read()
        if self.path.exists() and not self._own(modelfile.read(self.path)[0]):
            raise ValueError(
                f"`checkpoint_dir` must not have the checkpoint of another run, with "
                f"other data or settings; got {str(self.path.parent)!r}."
            )
        return Standing()

    def _own(self, header: Mapping[str, Any]) -> bool:
        """Whether a file is of this run."""
        return header.get("fingerprint") == self.mark

    def read(self) -> Standing:
        """The standing of the run in the file; an empty one if there is no file.

        **Raises:** `ValueError` when the file belongs to another run.
        """
        if not self.path.exists():
            return Standing()
        header, arrays = modelfile.read(self.path)
        if not self._own(header):
            raise ValueError(
                f"the checkpoint {str(self.path)!r} must have the same data and "
                "settings to resume; got others."
            )
        with refusing(self.path, "checkpoint"):
            return self._standing(header, arrays)

    def _standing(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> Standing:
        blank = restarts.begin(self.task, self.seeds[0])
        like = solution(self.task.scheme, blank)
        done = tuple(
            Outcome(
                None
                if entry["error"] is not None
                else filled(like, arrays, f"done.{number}.solution"),
                columns(arrays, f"done.{number}.trace."),
                restored(entry["score"], {}),
                entry["ended"],
                entry["error"],
            )
            for number, entry in enumerate(header["done"])
        )
        for number, outcome in enumerate(done):
            check_finite(outcome.solution, f"done.{number}.solution")
        current = header["current"]
        if current is None:
            return Standing(done)
        run = Run(
            state=filled(blank, arrays, "state"),
            start=int(current["start"]),
            steps=self._steps(blank, arrays),
            held_out=tuple((int(i), restored(s, {})) for i, s in current["held_out"]),
            ended="no",
            best=filled(blank, arrays, "best") if current["held_out"] else None,
        )
        for place, state in (("state", run.state), ("best", run.best)):
            if state is not None:
                # The record of convergence begins at infinity, but not these.
                check_finite((state.model, state.q), place)
        return Standing(done, run)

    def _steps(self, blank: TrainState, arrays: dict[str, np.ndarray]) -> StepInfo:
        """The step reports of the run so far, as NumPy arrays."""
        task = self.task
        shapes = eqx.filter_eval_shape(
            step, task.scheme, blank, task.data, batch_size=task.batch_size
        )[1]
        places, structure = jax.tree_util.tree_flatten_with_path(shapes)
        leaves = [arrays["steps" + jax.tree_util.keystr(path)] for path, _ in places]
        return jax.tree.unflatten(structure, leaves)


def run_in_turn(
    keeper: Checkpoints, watched: Callable[[int], Any], *, resume: bool
) -> list[Outcome]:
    """Run the starts one after another, with checkpoints.

    `watched` gives each start a context with a callback.
    """
    standing = keeper.begin(resume=resume)
    done, current = list(standing.done), standing.current
    with restarts.keeping(done):
        for number in range(len(done), len(keeper.seeds)):
            write = keeper.watch(tuple(done))
            with watched(number) as tell:

                def both(report: Report, write=write, tell=tell) -> Any:
                    write(report)
                    return tell(report)

                seed = keeper.seeds[number]
                outcome = restarts.run_next(done, keeper.task, seed, both, current)
            if outcome.ended == "interrupted":
                keeper.write_last(tuple(done))
                done.append(outcome)
                break
            done.append(outcome)
            current = None
            keeper.write(Standing(tuple(done)))
    return done
