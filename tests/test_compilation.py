"""How often a fit compiles: the loop is one program, from its first chunk to its last.

The count is that of JAX's own compile log, which names each program it compiles.
"""

import logging
import os
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import motleygp as mg
from motleygp.training import loop, programs, restarts

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


# The wait for a first answer is mostly compilation. These limits are a little above the
# present numbers: a change that goes beyond them needs a reason.
MOST_PROGRAMS, MOST_OPERATIONS = 17, 3700
TYPES = ["hetgaussian", "beta", "bernoulli", "gamma", "exponential"]
FIVE = f"""
import jax
from jax._src import monitoring
import numpy as np
import motleygp as mg
found = []
monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: found.append(event.endswith("backend_compile_duration"))
)
rng = np.random.default_rng(0)
X, Y = rng.random((70, 2)), rng.uniform(0.1, 0.9, size=(70, 5))
Y[:, 2] = Y[:, 2] > 0.5
model = mg.MotleyGP({TYPES}, num_inducing=4, num_latents=2, posterior="factorised",
                    max_iter=60, random_state=0, progress=False).fit(X, Y)
fit = sum(found)
model.nlpd(X, Y)
[p.quantile([0.05, 0.95]) for p in model.predict_dist(X).values()]
print(fit, sum(found) - fit)
"""


def test_first_answers_take_few_programs():
    settings = {"MOTLEYGP_PROGRAM_CACHE": "off", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIVE],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    fit, answers = map(int, done.stdout.split())
    assert fit <= MOST_PROGRAMS
    assert answers <= 4  # the moments of the functions, and moves of arrays


def test_the_loop_is_a_small_program(the_task_of):
    rng = np.random.default_rng(0)
    X, Y = rng.random((70, 2)), rng.uniform(0.1, 0.9, size=(70, 5))
    Y[:, 2] = Y[:, 2] > 0.5
    sizes = {"num_inducing": 80, "num_latents": 3, "posterior": "factorised"}
    task = the_task_of(mg.MotleyGP(TYPES, batch_size=50, progress=False, **sizes), X, Y)
    given = task.scheme, restarts.begin(task, 0), task.data, 50, 50, jnp.asarray(50)
    arrays, rest = eqx.partition(given, eqx.is_array)

    def chunk(arrays):
        found = loop.run_chunk(*eqx.combine(arrays, rest))
        return eqx.filter(found, eqx.is_array)

    operations = jax.jit(chunk).lower(arrays).as_text().count(" = stablehlo.")
    assert operations <= MOST_OPERATIONS


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
