"""A fit that has begun is never lost, whatever fails beside it."""

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import jax.numpy as jnp
import joblib
import numpy as np
import pytest

import motleygp as mg
from motleygp.files import modelfile
from motleygp.optim import QInfo
from motleygp.training import (
    StepInfo,
    checkpoints,
    loop,
    processes,
    restarts,
    together,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS = {
    "num_inducing": 4,
    "num_latents": 1,
    "max_iter": 150,
    "batch_size": 16,
    "random_state": 0,
    "progress": False,
}


def make_data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.random((40, 1))
    return x, {"a": np.sin(6.0 * x[:, 0]) + 0.1 * rng.normal(size=40)}


def make_model(**others) -> mg.MotleyGP:
    return mg.MotleyGP({"a": "gaussian"}, **SETTINGS | others)


@pytest.fixture(scope="module")
def whole() -> mg.MotleyGP:
    """The fit that nothing disturbs."""
    return make_model().fit(*make_data())


def assert_same(one: mg.MotleyGP, other: mg.MotleyGP) -> None:
    for name in one.trace_:
        np.testing.assert_array_equal(one.trace_[name], other.trace_[name])
    np.testing.assert_array_equal(one.q_.mean, other.q_.mean)


# Checkpoints.


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "checkpoint.motley")


def test_a_full_disk_is_warned_about_once(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints.modelfile, "write", no_space)
    with pytest.warns(UserWarning, match="checkpoint could not be written.*space") as w:
        model = make_model(checkpoint_dir=tmp_path).fit(*make_data())
    assert len(w) == 1 and "\n" not in str(w[0].message)
    assert_same(model, whole)


def test_the_next_checkpoint_is_tried_again(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    real, tried = modelfile.write, []

    def later(*args):
        tried.append(args)
        (no_space if len(tried) == 1 else real)(*args)

    monkeypatch.setattr(checkpoints.modelfile, "write", later)
    with pytest.warns(UserWarning, match="could not be written"):
        make_model(checkpoint_dir=tmp_path).fit(*make_data())
    again = make_model(checkpoint_dir=tmp_path).fit(*make_data(), resume=True)
    assert_same(again, whole)


def test_a_folder_that_was_removed_comes_back(whole, tmp_path):
    folder = tmp_path / "run"

    def remove(report):
        shutil.rmtree(folder, ignore_errors=True)

    model = make_model(checkpoint_dir=folder).fit(*make_data(), callback=remove)
    assert_same(model, whole)
    assert (folder / checkpoints.FILE).is_file()


def test_a_folder_that_cannot_come_back_is_no_loss(whole, tmp_path):
    folder = tmp_path / "run"

    def replace(report):
        if folder.is_dir():
            shutil.rmtree(folder)
            folder.write_text("a file where the folder was")

    with pytest.warns(UserWarning, match="could not be written"):
        model = make_model(checkpoint_dir=folder).fit(*make_data(), callback=replace)
    assert_same(model, whole)


def test_a_warning_that_is_an_error_comes_after_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints.modelfile, "write", no_space)
    model = make_model(checkpoint_dir=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="could not be written"):
            model.fit(*make_data())
    assert model.ended_ == "interrupted" and len(model.trace_["nelbo"]) == 50


# Callbacks and bars.


def fail(report) -> None:
    if report.iteration == 100:
        raise ZeroDivisionError("the callback's own mistake")


@pytest.mark.parametrize("others", [{}, {"restarts": 3}, {"checkpoint_dir": "run"}])
def test_an_error_in_a_callback_comes_after_the_model(whole, tmp_path, others):
    if "checkpoint_dir" in others:
        others = {"checkpoint_dir": tmp_path}
    model = make_model(**others)
    with pytest.raises(ZeroDivisionError, match="own mistake"):
        model.fit(*make_data(), callback=fail)
    assert model.ended_ == "interrupted" and len(model.restarts_) == 1
    if "restarts" not in others:
        np.testing.assert_array_equal(
            model.trace_["nelbo"], whole.trace_["nelbo"][:100]
        )
    if "checkpoint_dir" in others:
        assert_same(model.fit(*make_data(), resume=True), whole)


def test_an_update_keeps_its_rows_when_a_callback_fails(whole):
    model = make_model().fit(*make_data())
    for callback, error in ((fail, ZeroDivisionError), (sys.exit, SystemExit)):
        before = np.asarray(model.q_.mean)
        with pytest.raises(error):
            model.partial_fit(*make_data(), callback=callback)
        assert model.ended_ == "interrupted"
        assert not np.array_equal(model.q_.mean, before)


class Closed(io.StringIO):
    """A terminal that is gone after its first words."""

    def __init__(self, error: Exception):
        super().__init__()
        self.error, self.said = error, 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.said += 1
        if self.said > 2:
            raise self.error
        return len(text)


@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(errno.EPIPE, "Broken pipe"), ValueError("I/O on closed file")],
)
def test_a_closed_standard_error_does_not_end_a_fit(whole, monkeypatch, error):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Closed(error))
    model = mg.MotleyGP("auto", **SETTINGS | {"progress": True}).fit(*make_data())
    assert_same(model, whole)
    monkeypatch.setattr(sys, "stderr", None)
    assert_same(make_model(progress=True).fit(*make_data()), whole)


# Ctrl-C.


def interrupt(*_args, **_settings):
    raise KeyboardInterrupt


def interrupted_at(monkeypatch, place, name: str, call: int = 1):
    """Let Ctrl-C come in the given call of a function."""
    real, calls = getattr(place, name), []

    def one(*args, **settings):
        calls.append(args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(place, name, one)


def test_before_anything_is_learnt_it_is_raised(monkeypatch):
    interrupted_at(monkeypatch, loop, "_run_short_chunk")
    model = make_model(restarts=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*make_data())
    assert not hasattr(model, "fitted_")


@pytest.mark.parametrize(
    ("name", "call", "starts"),
    [
        ("full_elbo", 1, 1),  # the score of the first start
        ("full_elbo", 2, 2),
        ("solution", 1, 1),
        ("begin", 2, 2),  # between two starts
        ("_failed", 1, 3),  # never
    ],
)
@pytest.mark.parametrize("keeping", [False, True])
def test_between_and_after_the_runs_the_best_is_kept(
    whole, tmp_path, monkeypatch, name, call, starts, keeping
):
    interrupted_at(monkeypatch, restarts, name, call)
    others = {"checkpoint_dir": tmp_path} if keeping else {}
    model = make_model(restarts=3, **others).fit(*make_data())
    assert len(model.restarts_) == starts
    assert np.isfinite(model.predict(make_data()[0])).all()
    ended = [start["ended"] for start in model.restarts_]
    assert (ended[-1] == "interrupted") == (starts < 3)
    if keeping:
        again = make_model(restarts=3, **others).fit(*make_data(), resume=True)
        assert len(again.restarts_) == 3


def test_a_missing_score_is_that_of_the_last_rows(whole, monkeypatch):
    interrupted_at(monkeypatch, restarts, "full_elbo")
    model = make_model().fit(*make_data())
    assert model.ended_ == "interrupted"
    expected = whole.trace_["nelbo"][-50:].mean()
    np.testing.assert_allclose(model.restarts_[0]["score"], expected)
    np.testing.assert_array_equal(model.q_.mean, whole.q_.mean)


def test_while_held_out_rows_are_scored(monkeypatch):
    interrupted_at(monkeypatch, restarts, "held_out_nlpd")
    model = make_model(validation_fraction=0.25).fit(*make_data())
    assert model.ended_ == "interrupted" and len(model.trace_["nelbo"]) == 100


def test_an_error_in_a_later_start_fails_that_start(monkeypatch):
    real, calls = restarts.begin, []

    def begin(*args):
        calls.append(args)
        if len(calls) == 2:
            raise MemoryError("no room\nfor this")
        return real(*args)

    monkeypatch.setattr(restarts, "begin", begin)
    with pytest.warns(UserWarning, match="1 of 3 restarts failed: MemoryError: no roo"):
        model = make_model(restarts=3).fit(*make_data())
    assert [s["error"] is None for s in model.restarts_] == [True, False, True]


@pytest.fixture(scope="module")
def task(whole) -> restarts.Task:
    """The task of that fit, whose programs are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        found = []
        patch.setattr(restarts, "run_in_turn", lambda task, *_: found.append(task))
        with pytest.raises(TypeError):
            make_model().fit(*make_data())
    return found[0]


def test_runs_together_keep_their_last_whole_chunk(whole, task, monkeypatch):
    def chunk(scheme, stacked, data, batch_size, size, until):
        """A chunk that learns nothing, and Ctrl-C in the next one."""
        if int(stacked.iteration[0]):
            raise KeyboardInterrupt
        info = StepInfo(
            jnp.zeros((2, size)),
            QInfo(*[jnp.zeros((2, size))] * len(QInfo._fields)),
            jnp.zeros((2, size), bool),
            jnp.zeros((2, size)),
        )
        return stacked._replace(iteration=stacked.iteration + size), info

    monkeypatch.setattr(together, "_run_chunk_together", chunk)
    outcomes = restarts.run_together(task, [1, 2])
    assert [len(o.trace["nelbo"]) for o in outcomes] == [50, 50]
    assert all(o.ended == "interrupted" and o.solution is not None for o in outcomes)
    monkeypatch.setattr(together, "_run_chunk_together", interrupt)
    with pytest.raises(KeyboardInterrupt):
        restarts.run_together(task, [1, 2])


# Starts in processes; here in threads, for which nothing is compiled anew.


@pytest.fixture
def heeded():
    """Heed Ctrl-C, which pytest's workers ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_runs_in_parallel_and_keeps_them(whole, heeded, monkeypatch):
    monkeypatch.setattr(processes, "_ending_at", at_the_second_chunk)
    with joblib.parallel_config(backend="threading"):
        model = make_model(restarts=4, n_jobs=2).fit(*make_data())
    assert model.ended_ == "interrupted" and 1 <= len(model.restarts_) <= 4
    assert 50 < len(model.trace_["nelbo"]) <= 150


def at_the_second_chunk(stop: Path):
    """Ctrl-C comes once, while the runs are in their second chunk."""

    def tell(report):
        if report.iteration > 50:
            if not stop.exists():
                signal.raise_signal(signal.SIGINT)
                wait_for(stop)
            raise KeyboardInterrupt

    return tell


def wait_for(path: Path) -> None:
    """The main thread heeds a signal that comes in another one."""
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.01)


def broken(results: int):
    def apart(task, seeds, n_jobs, stop):
        """Some results, and then a process dies."""
        for number in range(results):
            yield number, restarts.run(task, seeds[number])
        raise BrokenProcessPool("A worker process was killed.\nThe details follow.")

    return apart


@pytest.mark.parametrize("results", [0, 2])
def test_the_starts_of_a_dead_process_run_again(whole, monkeypatch, results):
    monkeypatch.setattr(processes, "_apart", broken(results))
    said = f"so {3 - results} of 3 starts run again .* worker process was killed.$"
    with pytest.warns(UserWarning, match=said):
        model = make_model(restarts=3, n_jobs=2).fit(*make_data())
    alone = make_model(restarts=3).fit(*make_data())
    assert_same(model, alone)
    assert [s["score"] for s in model.restarts_] == [
        s["score"] for s in alone.restarts_
    ]


def test_an_error_in_one_process_fails_its_start(whole, task, monkeypatch):
    def apart(task, seeds, n_jobs, stop):
        yield 1, RuntimeError("out of memory\nin line 3")
        if seeds[0]:
            yield 0, restarts.run(task, seeds[0])

    monkeypatch.setattr(processes, "_apart", apart)
    outcomes = processes.run_in_processes(task, [1, 2], 2, print)
    assert outcomes[0].solution is not None
    assert outcomes[1].error == "RuntimeError: out of memory"
    with pytest.raises(RuntimeError, match="out of memory"):
        processes.run_in_processes(task, [0, 2], 2, print)


IN_PROCESSES = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
from joblib.externals.loky import reusable_executor
import test_interrupts as t

def later():
    if sys.argv[1] == "kill":
        os.kill(next(iter(reusable_executor._executor._processes)), signal.SIGKILL)
    elif sys.argv[1] == "all":  # as a terminal does
        os.killpg(os.getpgid(0), signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    # Quasi-Newton steps would end a long run before the signal comes.
    settings = dict(optimizer="hybrid", max_iter=10**8, restarts=4)
    if sys.argv[1] == "kill":
        settings["max_iter"] = 30
    threading.Timer(float(sys.argv[2]), later).start()
    model = t.make_model(n_jobs=2, **settings).fit(*t.make_data())
    print(model.ended_, len(model.restarts_), len(model.trace_["nelbo"]) > 20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["one", "all", "kill"])
def test_ctrl_c_and_a_dead_process_among_real_ones(how, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IN_PROCESSES)
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, script, how, "5" if how == "kill" else "40"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    ended, starts, trained = run.stdout.split()
    assert ended == ("horizon" if how == "kill" else "interrupted")
    assert trained == "True" and int(starts) >= 2
