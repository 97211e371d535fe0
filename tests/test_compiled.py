"""Programs with compile options of their own, and the folder that keeps them."""

import gc
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import threadpoolctl

import motleygp as mg
from motleygp.numerics import compiled as programs, program_cache
from motleygp.numerics.compiled import compiled


@pytest.fixture
def options(monkeypatch):
    """The options with which programs are compiled, in the order of compilation."""
    found = []
    real = programs._jit

    def jit(fn, *, compiler_options):
        found.append(compiler_options)
        return real(fn, compiler_options=compiler_options)

    monkeypatch.setattr(programs, "_jit", jit)
    monkeypatch.setattr(programs, "_left_alone", lambda: False)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    programs._known.cache_clear()
    yield found
    programs._known.cache_clear()


def test_each_program_has_the_options_of_its_kind(options):
    double = compiled(lambda x: 2.0 * x)
    for _ in range(2):
        assert double(jnp.ones(3)).tolist() == [2.0, 2.0, 2.0]
        assert double.quick(jnp.ones(3)).tolist() == [2.0, 2.0, 2.0]
    levels = [found["xla_backend_optimization_level"] for found in options]
    assert levels == [1, 0]


def test_the_same_numbers_come_out_of_every_kind(options):
    def several(x):
        return jnp.sum(jnp.exp(x) @ jnp.exp(x).T), {"sine": jnp.sin(x)}

    x = jax.random.normal(jax.random.key(0), (20, 20))
    usual, quick = compiled(several)(x), compiled(several).quick(x)
    for a, b, c in zip(*map(jax.tree.leaves, (usual, quick, several(x))), strict=True):
        assert jnp.allclose(a, c, rtol=1e-13) and jnp.allclose(b, c, rtol=1e-13)


def test_options_that_jax_does_not_know_are_dropped(options):
    wanted = (("xla_cpu_no_such_option", True), ("xla_backend_optimization_level", 1))
    assert programs._known(wanted) == wanted[1:]
    assert programs._known(wanted[:1]) == ()


def test_a_program_is_part_of_the_program_that_calls_it(options):
    program = compiled(lambda x: jnp.sin(x) ** 2)

    @jax.jit
    @jax.vmap
    def slopes(x):
        return jax.grad(program)(x)

    x = jnp.linspace(0.0, 1.0, 3)
    assert jnp.allclose(slopes(x), jnp.sin(2.0 * x), rtol=1e-14)


def test_flags_of_the_user_come_first(options, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=true")
    compiled(lambda x: x)(1.0)
    assert "xla_cpu_use_fusion_emitters" not in options[0]


@pytest.mark.usefixtures("quick_compilation")
def test_settings_of_jax_are_left_alone(monkeypatch):
    assert programs._left_alone()  # jax_disable_most_optimizations
    monkeypatch.setattr(programs, "setting_of_jax", lambda _: False)
    assert not programs._left_alone()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert programs._left_alone()


def test_lapack_has_one_thread_while_a_program_runs():
    def threads() -> list[int]:
        found = threadpoolctl.threadpool_info()
        return [each["num_threads"] for each in found if each["user_api"] == "blas"]

    seen = []

    def look(x):
        seen.append(threads())
        return x

    before = threads()
    compiled(lambda x: jax.pure_callback(look, x, x))(jnp.ones(2))
    assert seen[0] and set(seen[0]) == {1}
    assert threads() == before
    # Programs of two threads overlap: the last to end restores the number.
    with programs._ONE_THREAD:
        programs._ONE_THREAD.__enter__()
        programs._ONE_THREAD.__exit__()
        assert set(threads()) == {1}
    assert threads() == before


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_pauses_during_a_call(enabled):
    seen = []

    @compiled
    def traced(x):
        seen.append(gc.isenabled())
        return x if x.ndim else x.no_such_attribute

    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        traced(jnp.ones(2))
        with pytest.raises(AttributeError):
            traced(jnp.ones(()))
        assert seen == [False, False] and gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


# The folder of programs.


@pytest.fixture
def restored():
    """Leaves JAX's settings as they were."""
    names = (program_cache._FOLDER, "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in names]
    yield
    for name, value in zip(names, before, strict=True):
        jax.config.update(name, value)
    program_cache.reset_cache()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("restored")
def test_programs_are_kept_in_a_private_folder(tmp_path):
    folder = mg.use_program_cache(tmp_path / "a" / "b")
    assert folder is not None and folder.parent == tmp_path / "a" / "b"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert mg.use_program_cache(None) is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.usefixtures("restored")
def test_a_folder_that_others_may_write_is_refused(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ValueError, match=r"must not be writable by others.*777"):
        mg.use_program_cache(tmp_path / "open")
    with pytest.raises(ValueError, match="must be a folder that can be written"):
        (tmp_path / "file").write_text("")
        mg.use_program_cache(tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ValueError, match="must be a folder that can be written"):
        mg.use_program_cache(tmp_path / "closed")
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1, raising=False)
    with pytest.raises(ValueError, match="must belong to the user"):
        mg.use_program_cache(tmp_path / "theirs")


@pytest.mark.usefixtures("restored")
def test_the_environment_and_jax_come_first(tmp_path, monkeypatch):
    variable = program_cache._VARIABLE
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(variable, "off")
    program_cache.begin()
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv(variable)
    jax.config.update(program_cache._FOLDER, "somewhere")
    program_cache.begin()
    assert jax.config.jax_compilation_cache_dir == "somewhere"
    jax.config.update(program_cache._FOLDER, None)
    program_cache.begin()
    assert Path(jax.config.jax_compilation_cache_dir or "").parent == (
        tmp_path / "motleygp"
    )
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    program_cache.begin()
    assert (tmp_path / "own").is_dir()


@pytest.mark.usefixtures("restored")
def test_a_folder_that_cannot_be_used_is_reported_to_the_log(
    tmp_path, monkeypatch, caplog
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(program_cache._VARIABLE, str(tmp_path / "file"))
    caplog.set_level("INFO")
    program_cache.begin()
    assert "compiled programs are not kept" in caplog.text


def test_the_oldest_programs_go_first(tmp_path, monkeypatch):
    for age in range(10):
        (tmp_path / str(age)).write_bytes(bytes(10))
        os.utime(tmp_path / str(age), (1000 - age, 1000 - age))
    program_cache._drop_oldest(tmp_path)
    assert len(files(tmp_path)) == 10
    monkeypatch.setattr(program_cache, "_MOST_BYTES", 99)
    program_cache._drop_oldest(tmp_path)
    assert sorted(path.name for path in files(tmp_path)) == ["0", "1", "2", "3"]


CHILD = """
import jax
from jax._src import monitoring
hits = []
monitoring.register_event_listener(lambda event, **_: hits.append(event))
import numpy as np
import motleygp as mg
X = np.linspace(0.0, 1.0, 40)[:, None]
model = mg.MotleyGP(["gaussian"], num_inducing=5, max_iter=20, random_state=0,
                    progress=False).fit(X, np.sin(9.0 * X))
print(repr(float(model.elbo(X, np.sin(9.0 * X)))),
      sum(event.endswith("cache_hits") for event in hits))
"""


def test_the_next_process_finds_the_programs(tmp_path):
    environment = os.environ | {program_cache._VARIABLE: str(tmp_path)}

    def child() -> tuple[float, int]:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CHILD],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        value, hits = re.findall(r"\S+", done.stdout)
        return float(value), int(hits)

    first, none = child()
    assert none == 0 and files(tmp_path)
    again, hits = child()
    assert again == first and hits > 0
    # Damaged programs are compiled again.
    for path in files(tmp_path):
        path.write_bytes(path.read_bytes()[:100])
    assert child() == (first, 0)
