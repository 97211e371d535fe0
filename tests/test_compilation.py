"""How often a fit compiles: the loop is one program, from its first chunk to its last.

The count is that of JAX's own compile log, which names each program it compiles.
"""

import logging
import re

import jax
import numpy as np
import pytest

import motleygp as mg
from motleygp.training import programs

pytestmark = pytest.mark.usefixtures("quick_compilation")

# More than two chunks of 50 iterations: a second chunk used to compile once more.
NUM_STEPS = 110


@pytest.fixture
def loop_compilations(caplog):
    """Counts the programs of the training loop that were compiled so far."""
    caplog.set_level(logging.WARNING, logger="jax")
    with jax.log_compiles(True):
        yield lambda: sum(
            bool(re.match(r"Compiling .*\brun_chunk\b", record.getMessage()))
            for record in caplog.records
        )


def fit(num_rows: int, **settings) -> mg.MotleyGP:
    """A fit whose shapes no other test has, so that nothing is compiled already."""
    rng = np.random.default_rng(0)
    X = rng.random((num_rows, 1))
    Y = {"count": rng.poisson(1.0 + X[:, 0])}
    settings = {"num_inducing": 4, "num_latents": 1, "batch_size": 11} | settings
    model = mg.MotleyGP(
        ["poisson"],
        max_iter=NUM_STEPS,
        random_state=0,
        progress=False,
        **settings,
    )
    return model.fit(X, Y)


@pytest.mark.parametrize(
    "num_rows, settings",
    [
        (61, {"optimizer": "fng"}),
        pytest.param(62, {"optimizer": "hybrid"}, marks=pytest.mark.slow),
        pytest.param(63, {"optimizer": "adam"}, marks=pytest.mark.slow),
        pytest.param(64, {"optimizer": "sgd"}, marks=pytest.mark.slow),
        pytest.param(65, {"preset": "paper"}, marks=pytest.mark.slow),
        pytest.param(66, {"prior": "convolution"}, marks=pytest.mark.slow),
        pytest.param(
            67,
            {"prior": "convolution", "inducing": "latent"},
            marks=pytest.mark.slow,
        ),
        (68, {"validation_fraction": 0.2}),
    ],
    ids=str,
)
def test_a_fit_compiles_its_loop_once(loop_compilations, num_rows, settings):
    model = fit(num_rows, **settings)
    assert len(model.trace_["iteration"]) == NUM_STEPS
    assert loop_compilations() == 1


def test_a_second_fit_of_the_same_shape_compiles_no_loop(loop_compilations):
    fit(69)
    fit(69)
    assert loop_compilations() == 1


@pytest.mark.parametrize(("used", "dropped"), [(40, False), (60, True)])
def test_programs_are_dropped_before_they_crash_the_process(
    used, dropped, tmp_path, monkeypatch
):
    (tmp_path / "maps").write_text("a map\n" * used)
    (tmp_path / "limit").write_text("100\n")
    monkeypatch.setattr(programs, "_MAPS", tmp_path / "maps")
    monkeypatch.setattr(programs, "_LIMIT", tmp_path / "limit")
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    programs.make_room()
    assert bool(cleared) == dropped
    # Not every system has these files.
    monkeypatch.setattr(programs, "_LIMIT", tmp_path / "none")
    programs.make_room()
    assert bool(cleared) == dropped
