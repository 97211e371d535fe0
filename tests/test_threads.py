"""XLA on a CPU can deadlock on batched LAPACK calls; the library must never make one.

See `linalg`: a batch is split over the thread pool that it blocks.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import real_step

TIME_LIMIT_S = 180
QUICK = ("lmc", "joint")
LAPACK = re.compile(
    r"= \(?(?P<type>\w+\[[\d,]*\]).*custom_call_target=\"lapack_\w+\"", re.MULTILINE
)


def batched_calls(compiled: str) -> list[str]:
    """The LAPACK calls on more than one matrix in the text of a compiled program."""
    calls = [match for match in LAPACK.finditer(compiled)]
    assert calls, "no LAPACK call was found: the pattern no longer fits XLA's text"
    return [c["type"] for c in calls if c["type"].count(",") > 1]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, marks=() if form in QUICK else pytest.mark.slow)
        for form in real_step.FORMS
    ],
)
def test_no_batched_factorisation_reaches_the_cpu(form):
    assert batched_calls(real_step.compiled_text(form)) == []


def test_that_check_sees_a_batched_factorisation():
    batch = jnp.broadcast_to(jnp.eye(4), (3, 4, 4))
    compiled = jax.jit(jnp.linalg.cholesky).lower(batch).compile().as_text()
    assert batched_calls(compiled) != []


def run_with_threads(num_threads: int, form: str, **flags: str) -> str:
    environment = os.environ | {"NPROC": str(num_threads)} | flags
    return subprocess.run(
        [sys.executable, real_step.__file__, "100", form],
        env=environment,
        timeout=TIME_LIMIT_S,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", real_step.FORMS)
@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_the_real_step_runs_under_any_number_of_threads(num_threads, form):
    # The program that users run: with the compiler's own settings.
    usual = {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    assert float(run_with_threads(num_threads, form, **usual)) < 1e6
