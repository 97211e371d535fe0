"""Checkpoints: a run that was stopped ends as if it had not been."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import motleygp as mg
import small
from motleygp.files import modelfile
from motleygp.training import Report, checkpoints
from schedules import Shrinking

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS = {
    "num_inducing": 5,
    "max_iter": 120,
    "batch_size": 16,
    "random_state": 0,
    "progress": False,
    "restarts": 2,
}
CASES = {
    "plain": {},
    "held-out": {"validation_fraction": 0.3},
    "latent": {"prior": "convolution", "inducing": "latent", "optimizer": "hybrid"},
}


def make_data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.random((50, 1))
    return x, {
        "a": np.sin(6.0 * x[:, 0]) + 0.1 * rng.normal(size=50),
        "b": rng.poisson(3.0, size=50).astype(float),
    }


def make_model(case: str, folder: Path | None) -> mg.MotleyGP:
    outputs = {"a": "gaussian", "b": "poisson"}
    given = SETTINGS | CASES[case]
    return mg.MotleyGP(outputs, checkpoint_dir=folder, **given)


def assert_same(one: mg.MotleyGP, other: mg.MotleyGP) -> None:
    """Bit for bit: the model, q(u), the trace and every restart."""
    for name, value in one.parameters().items():
        np.testing.assert_array_equal(other.parameters()[name], value)
    np.testing.assert_array_equal(np.asarray(one.q_.half), np.asarray(other.q_.half))
    assert set(one.trace_) == set(other.trace_)
    for name, column in one.trace_.items():
        np.testing.assert_array_equal(other.trace_[name], column)
    scores = [[start["score"] for start in m.restarts_] for m in (one, other)]
    assert scores[0] == scores[1] and len(scores[0]) == SETTINGS["restarts"]


class Stopped(BaseException):
    """An exception that stands for a kill."""


def interrupt(report: Report) -> None:
    """Do what Ctrl-C does, after the second chunk."""
    if report.iteration > 50:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "case",
    [
        "held-out",
        pytest.param("plain", marks=pytest.mark.slow),
        pytest.param("latent", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_ends_as_if_it_had_not_been(case, tmp_path, monkeypatch):
    whole = make_model(case, None).fit(*make_data())
    # Ctrl-C keeps what there is, long before the next checkpoint is due.
    folder = tmp_path / "interrupted"
    cut = make_model(case, folder).fit(*make_data(), callback=interrupt)
    assert cut.ended_ == "interrupted"
    header, arrays = modelfile.read(folder / checkpoints.FILE)
    modelfile.write(
        tmp_path / checkpoints.FILE,
        header,
        arrays | {"state.q.half": arrays["state.q.half"] * np.nan},
    )
    with pytest.raises(mg.ModelFileError, match=r"`state.*half` must be finite"):
        make_model(case, tmp_path).fit(*make_data(), resume=True)
    (tmp_path / checkpoints.FILE).unlink()
    model = make_model(case, folder).fit(*make_data(), resume=True)
    assert_same(whole, model)
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    real, writes = modelfile.write, []

    def then_stop(*args):
        """Every second writing is the last thing that a process does."""
        real(*args)
        writes.append(args)
        if len(writes) % 2:
            raise Stopped

    monkeypatch.setattr(checkpoints.modelfile, "write", then_stop)
    model = make_model(case, tmp_path)
    for attempt in range(50):
        try:
            model.fit(*make_data(), resume=attempt > 0)
            break
        except Stopped:
            model = make_model(case, tmp_path)
    assert len(writes) > 4
    assert_same(whole, model)
    # All is done: resuming once more gives it back at once.
    again = make_model(case, tmp_path).fit(*make_data(), resume=True)
    assert_same(whole, again)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a short run, begun with `resume` though there was nothing yet."""
    folder = tmp_path_factory.mktemp("runs") / "new" / "folder"
    with pytest.warns(UserWarning, match="no checkpoint in .* to resume, so the fit b"):
        short("plain", folder).fit(*make_data(), resume=True)
    return folder


def short(case: str, folder: Path | None) -> mg.MotleyGP:
    return make_model(case, folder).set_params(max_iter=10)


def test_resuming_without_a_file_begins(finished):
    assert (finished / checkpoints.FILE).is_file()


def test_other_data_and_settings_are_refused(finished):
    x, y = make_data()
    with pytest.raises(ValueError, match="same data and settings to resume"):
        make_model("plain", finished).fit(x, y, resume=True)
    with pytest.raises(ValueError, match="same data and settings to resume"):
        short("plain", finished).fit(x, y | {"a": y["a"] + 1.0}, resume=True)
    with pytest.raises(ValueError, match="`checkpoint_dir` needs a `random_state`"):
        short("plain", finished).set_params(random_state=None).fit(x, y)
    with pytest.raises(ValueError, match="`resume` needs the `checkpoint_dir`"):
        short("plain", None).fit(x, y, resume=True)


def test_the_checkpoint_of_another_run_is_never_overwritten(finished):
    x, y = make_data()
    before = (finished / checkpoints.FILE).read_bytes()
    for model, other in (
        (make_model("plain", finished), y),
        (short("plain", finished), y | {"a": y["a"] + 1.0}),
        (short("plain", finished).set_params(random_state=1), y),
    ):
        with pytest.raises(ValueError, match="`checkpoint_dir` must not have the che"):
            model.fit(x, other)
        assert (finished / checkpoints.FILE).read_bytes() == before
    # The same run may begin anew.
    short("plain", finished).fit(x, y)


# What a run is of: every field and every array of its settings.

NUM_INDUCING = 20


def a_start(changed: float = 0.0) -> dict[str, np.ndarray]:
    """A start with more numbers than NumPy prints."""
    cov = np.tile(1e-8 * np.eye(NUM_INDUCING), (3, 1, 1))
    middle = NUM_INDUCING // 2
    cov[1, middle, middle] += changed
    assert cov.size > np.get_printoptions()["threshold"]
    return {"q_mean": np.zeros(cov.shape[:2]), "q_cov": cov}


def of_objects(folder: Path, **others) -> mg.MotleyGP:
    """A short run whose settings are objects and arrays."""
    given = {
        "outputs": {
            "a": mg.likelihoods.Gaussian(0.5, fixed=True),
            "b": mg.likelihoods.Poisson(),
        },
        "optimizer": mg.optim.fng(alpha=0.002),
        "num_latents": 3,
        "num_inducing": NUM_INDUCING,
        "max_iter": 2,
        "start": a_start(),
        "random_state": 0,
        "progress": False,
        "checkpoint_dir": folder,
    }
    return mg.MotleyGP(**given | others)


@pytest.fixture(scope="module")
def of_objects_finished(tmp_path_factory) -> tuple[Path, mg.MotleyGP]:
    folder = tmp_path_factory.mktemp("objects")
    return folder, of_objects(folder).fit(*make_data())


def test_equal_objects_are_the_same_settings(of_objects_finished):
    folder, whole = of_objects_finished
    again = of_objects(folder).fit(*make_data(), resume=True)
    for name, value in whole.parameters().items():
        np.testing.assert_array_equal(again.parameters()[name], value)


GAUSSIAN, POISSON = mg.likelihoods.Gaussian, mg.likelihoods.Poisson
OTHERS = {
    "a scheme": {"optimizer": mg.optim.fng(alpha=0.003)},
    "a schedule": {"optimizer": mg.optim.fng(alpha=Shrinking(0.002))},
    "a guard": {"optimizer": mg.optim.fng(alpha=0.002, guard=mg.optim.Guard(1.0))},
    "fixed noise": {"outputs": {"a": GAUSSIAN(0.6, fixed=True), "b": POISSON()}},
    "free noise": {"outputs": {"a": GAUSSIAN(0.5), "b": POISSON()}},
    "nodes": {"outputs": {"a": GAUSSIAN(0.5, fixed=True), "b": POISSON(num_nodes=30)}},
    "one entry of an array": {"start": a_start(changed=1e-10)},
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_another_field_or_entry_is_another_run(of_objects_finished, others):
    folder, _ = of_objects_finished
    with pytest.raises(ValueError, match="same data and settings to resume"):
        of_objects(folder, **others).fit(*make_data(), resume=True)


def test_a_damaged_checkpoint_is_named(finished, tmp_path):
    whole = (finished / checkpoints.FILE).read_bytes()
    (tmp_path / checkpoints.FILE).write_bytes(whole[:-7])
    with pytest.raises(mg.ModelFileError, match=r"checkpoint\.motley"):
        short("plain", tmp_path).fit(*make_data(), resume=True)


@pytest.mark.parametrize(
    "name", ["done.0.solution.q.mean", "done.1.solution.model.offset"]
)
def test_a_checkpoint_of_no_numbers_is_refused(finished, tmp_path, name):
    header, arrays = modelfile.read(finished / checkpoints.FILE)
    arrays[name] = arrays[name] * np.nan
    modelfile.write(tmp_path / checkpoints.FILE, header, arrays)
    with pytest.raises(mg.ModelFileError, match=r"is not a checkpoint.*must be finite"):
        short("plain", tmp_path).fit(*make_data(), resume=True)


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import test_checkpoints as t
from motleygp.training import checkpoints
checkpoints.SECONDS = 0.0
folder = Path(sys.argv[2])
model = t.make_model("held-out", folder).set_params(max_iter=1500)
model.fit(*t.make_data(), resume=True).save(folder / "end.motley")
"""


@pytest.mark.slow
def test_killed_twenty_times(tmp_path):
    """kill -9 at random moments, and the same model at the end.

    Every run is a process of its own: this one may compile otherwise.
    """
    environment = os.environ | {"NPROC": "1"}

    def command(folder: str) -> list[str]:
        here = str(Path(__file__).parent)
        return [sys.executable, "-c", SCRIPT, here, str(tmp_path / folder)]

    def end(folder: str) -> mg.MotleyGP:
        return mg.load(tmp_path / folder / "end.motley")

    began = time.monotonic()
    subprocess.run(command("whole"), env=environment, check=True)
    longest = time.monotonic() - began
    rng = np.random.default_rng(0)
    kills, ends, resumed = 0, 0, 0
    while kills < 20 or not ends:
        resumed += (tmp_path / "killed" / checkpoints.FILE).exists()
        process = subprocess.Popen(command("killed"), env=environment)
        try:
            code = process.wait(float(rng.uniform(0.4, 1.1)) * longest)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert code == 0
        assert_same(end("whole"), end("killed"))
        ends += 1
        longest *= 0.8  # the machine was busier when it was measured
        shutil.rmtree(tmp_path / "killed")
    assert resumed > 5


def test_a_checkpoint_is_of_its_weights_too():
    task = small.task()
    block = task.data[0]
    ones, halves = (
        (
            eqx.tree_at(
                lambda b: b.weight, block, w * jnp.ones_like(block.y), is_leaf=_none
            ),
        )
        for w in (1.0, 0.5)
    )
    marks = {
        checkpoints.fingerprint(task._replace(data=data), [0], {})
        for data in (task.data, ones, halves)
    }
    assert len(marks) == 3


def _none(leaf) -> bool:
    return leaf is None
