"""Several starts of one fit in processes, by joblib."""

import concurrent.futures
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from motleygp.training import restarts
from motleygp.training.interrupts import noted
from motleygp.training.journal import Report
from motleygp.training.restarts import Outcome, Task


def run_in_processes(
    task: Task,
    seeds: Sequence[int],
    n_jobs: int | None,
    warn: Callable[[str], None],
) -> list[Outcome]:
    """Run the starts in parallel by joblib, with the backend that the user chose.

    At Ctrl-C, each run ends after its current chunk, and its model is kept; a second
    Ctrl-C keeps only the runs that have ended. Starts whose process died run again, one
    after another, in this process.
    """
    found: dict[int, Outcome] = {}
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="motleygp-") as folder:
        stop = Path(folder) / "stop"
        with noted(lambda: _touch(stop)), restarts.keeping(outcomes):
            try:
                _collect(_apart(task, seeds, n_jobs, stop), found)
                if stop.exists() and len(found) < len(seeds):
                    raise KeyboardInterrupt
            except concurrent.futures.BrokenExecutor as error:
                if stop.exists():
                    raise KeyboardInterrupt from error
                _again(task, seeds, found, stop, error, warn)
            finally:
                outcomes += [found[number] for number in sorted(found)]
    return outcomes


def _touch(stop: Path) -> None:
    try:
        stop.touch()
    except OSError:  # a full disk: the workers cannot be told
        raise KeyboardInterrupt from None


def _apart(task: Task, seeds: Sequence[int], n_jobs: Any, stop: Path) -> Any:
    """The number of each start and its result, when it has ended."""
    backend, _ = get_active_backend()
    one_by_one = getattr(backend, "supports_return_generator", False)
    parallel = joblib.Parallel(
        n_jobs=min(joblib.effective_n_jobs(n_jobs), len(seeds)),
        return_as="generator_unordered" if one_by_one else "list",
    )
    return parallel(
        joblib.delayed(_run)(os.getpid(), task, number, seed, stop)
        for number, seed in enumerate(seeds)
    )


def _run(
    parent: int, task: Task, number: int, seed: int, stop: Path
) -> tuple[int, Outcome | Exception | None]:
    """The result of one start, or its error; it ends when the file `stop` exists, and
    has no result if it exists at the beginning."""
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        # A terminal sends Ctrl-C to all processes. The parent's answer is the file; a
        # worker that died of Ctrl-C would take the runs of the others with it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if stop.exists():
        return number, None
    try:
        return number, restarts.run(task, seed, _ending_at(stop))
    except Exception as error:
        return number, error


def _ending_at(stop: Path) -> Callable[[Report], None]:
    """A callback that interrupts its run when the file exists."""

    def tell(report: Report) -> None:
        del report
        if stop.exists():
            raise KeyboardInterrupt

    return tell


def _collect(
    results: Iterable[tuple[int, Outcome | Exception | None]],
    found: dict[int, Outcome],
) -> None:
    """Take the results as they come; an error fails its start, or the fit if there is
    no solution to keep."""
    errors: dict[int, Exception] = {}
    for number, result in results:
        if isinstance(result, Exception):
            errors[number] = result
        elif result is not None:
            found[number] = result
    if errors and not restarts.any_solved(found.values()):
        raise errors[min(errors)]
    found |= {number: restarts.failed_by(error) for number, error in errors.items()}


def _again(
    task: Task,
    seeds: Sequence[int],
    found: dict[int, Outcome],
    stop: Path,
    error: Exception,
    warn: Callable[[str], None],
) -> None:
    """Run the starts without an outcome in this process, into `found`."""
    missing = [number for number in range(len(seeds)) if number not in found]
    warn(
        f"a process died, so {len(missing)} of {len(seeds)} starts run again in this "
        f"one: {str(error).splitlines()[0]}"
    )
    for number in missing:
        if stop.exists():
            raise KeyboardInterrupt
        found[number] = restarts.run_next(
            list(found.values()), task, seeds[number], _ending_at(stop)
        )
