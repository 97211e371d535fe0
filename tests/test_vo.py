"""The demonstration of variational optimisation, run as a user runs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import motleygp_cli as cli
from motleygp.demos import vo

NUM_SEEDS = 100


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """The prints and files of `motleygp vo` with its defaults."""
    folder = tmp_path_factory.mktemp("vo") / "pictures"
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("rich.console.Console.print", keep(printed))
        assert cli.main(["vo", "-o", str(folder)]) == 0
    return "\n".join(printed), folder


def keep(printed: list[str]):
    from rich.console import Console

    original = Console.print

    def capture(self, *things, **settings):
        with self.capture() as captured:
            original(self, *things, **settings)
        printed.append(captured.get())

    return capture


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_pictures(demonstration):
    printed, folder = demonstration
    for words in (
        "ends of 100 seeds",
        "E[g'^2]",
        "E[g'']",
        "exact expectations",
        "Newton's method ends at -3.114",
    ):
        assert words in printed
    names = {path.name for path in folder.iterdir()}
    assert names == {"vo-no-kl.png", "vo-kl.png", "vo-newton.png", "vo-seeds.png"}
    for path in folder.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_with_kl_the_seeds_end_at_the_global_minimum():
    ends = vo.ends(vo.many(0, NUM_SEEDS, vo.KL))
    assert np.mean(np.abs(ends - vo.PENALISED) <= vo.TOLERANCE) >= 0.95


def test_without_kl_most_seeds_stay():
    far, stay, better, best, other = vo.shares(vo.ends(vo.many(0, NUM_SEEDS, vo.NO_KL)))
    # 86 % stay in the long run: three standard errors of 100 seeds are 10.
    assert 76 <= stay <= 96 and 3 <= better <= 23
    assert far <= 6 and best == other == 0


def test_newton_ends_at_the_next_minimum():
    np.testing.assert_allclose(vo.newton().mean[-1], -3.114, atol=5e-4)


@pytest.mark.parametrize(
    "setting, num_steps, mean, var",
    [
        (vo.NO_KL, 400, -3.118, 0.008),
        (vo.KL, 400, -0.331, 0.033),
        (vo.EQUAL_STEPS, 400, -1.622, 0.040),
        (vo.NO_KL_HESSIAN, 2000, -3.0, 9.0),
        (vo.KL_HESSIAN, 2000, -0.012, 0.665),
    ],
    ids=["no KL", "KL", "KL, equal steps", "no KL, Hessian", "KL, Hessian"],
)
def test_exact_expectations_end_where_they_should(setting, num_steps, mean, var):
    course = jax.device_get(vo.without_noise(setting))
    np.testing.assert_allclose(course.mean[num_steps], mean, atol=6e-4)
    np.testing.assert_allclose(course.std[num_steps] ** 2, var, atol=6e-4)
    assert course.refused[-1] == 0


def penalised_bound(mean, var):
    lam = vo.PRIOR_PRECISION
    divergence = 0.5 * (lam * (var + mean**2) - 1.0 - jnp.log(lam * var))
    return vo.expected(mean, var) + divergence


def test_the_exact_hessian_settles_in_a_local_optimum_of_the_penalised_bound():
    course = vo.without_noise(vo.KL_HESSIAN)
    mean, var = course.mean[-1], course.std[-1] ** 2
    slopes = jax.grad(penalised_bound, argnums=(0, 1))(mean, var)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    better = penalised_bound(jnp.asarray(-0.331), jnp.asarray(0.033))
    assert better < penalised_bound(mean, var) - 0.25


def test_steps_are_refused_where_the_hessian_is_noisy():
    refused = np.asarray(vo.many(0, NUM_SEEDS, vo.NO_KL_HESSIAN).refused)
    assert refused[:, -1].mean() > 0.5
    assert np.asarray(vo.many(0, NUM_SEEDS, vo.NO_KL).refused).max() == 0


def test_the_closed_form_is_the_expectation():
    z = np.linspace(-12.0, 12.0, 40_001)
    weights = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    mean, var = np.array([-3.0, -0.3, 0.7, 2.0]), np.array([9.0, 0.05, 0.5, 1.5])
    theta = mean[:, None] + np.sqrt(var)[:, None] * z
    g = 2.0 * np.exp(-0.09 * theta**2) * np.sin(4.5 * theta)
    closed = vo.expected(jnp.asarray(mean), jnp.asarray(var))
    np.testing.assert_allclose(closed, g @ weights, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(vo.objective(jnp.asarray(theta[:, ::999])), g[:, ::999])


def test_the_minima_are_minima():
    minima = jnp.asarray(vo.MINIMA)
    slope, curve = jax.grad(vo.objective), jax.hessian(vo.objective)
    np.testing.assert_allclose(jax.vmap(slope)(minima), 0.0, atol=0.01)
    assert np.all(np.asarray(jax.vmap(curve)(minima)) > 0.0)


def test_shares_count_every_seed_once():
    ends = np.array([-4.5, -3.1, -3.12, -1.7, -0.33, 5.0, -2.4])
    np.testing.assert_array_equal(vo.shares(ends), [1, 2, 1, 1, 2])


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--seeds", "0"], 2, "--seeds: must be a whole number, 1 or more; got '0'"),
        (["--seed", "-1"], 2, "--seed: must be a whole number, 0 or more; got '-1'"),
        (["-o", "nowhere/deep"], 1, "there is no folder 'nowhere'"),
    ],
)
def test_wrong_use_is_one_line(arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["vo", *arguments]) == code
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_runs_and_seeds_are_counted(tmp_path):
    with pytest.raises(ValueError, match="`seeds` must be at least 1; got 0"):
        vo.run(tmp_path, seeds=0)
    with pytest.raises(ValueError, match="`seed` must not be negative; got -1"):
        vo.run(tmp_path, seed=-1)


def test_a_file_in_the_way_is_one_line(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("")
    assert cli.main(["vo", "-o", str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
