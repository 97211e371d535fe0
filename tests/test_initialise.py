"""The start of training."""

import jax.numpy as jnp
import numpy as np
import pytest

from motleygp.inference.data import make_dataset
from motleygp.likelihoods import (
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    HetGaussian,
    Poisson,
    fit_constant,
)
from motleygp.priors import LMC, Convolution, LatentConvolution
from motleygp.training.initialise import (
    cluster_centres,
    initial_model,
    marginal_fits,
    padded,
    unexplained_share,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_offsets_start_at_the_constant_fits(rng):
    x = rng.random((50, 1))
    counts, real = rng.poisson(300.0, 50).astype(float), 5.0 + rng.normal(size=50)
    likelihoods = (Poisson(), Gaussian())
    data = make_dataset([x, x], [counts, real], likelihoods)
    fits = marginal_fits(data, likelihoods)
    offsets = np.concatenate([fit.offset for fit in fits])
    np.testing.assert_allclose(offsets, [np.log(counts.mean()), real.mean()])
    fitted = fits[1].likelihood
    assert isinstance(fitted, Gaussian)
    share = unexplained_share(x, real)
    np.testing.assert_allclose(fitted.noise, real.std() * np.sqrt(share))
    kept = marginal_fits(data, (Poisson(), Gaussian(0.3, fixed=True)))[1].likelihood
    assert isinstance(kept, Gaussian)
    np.testing.assert_allclose(kept.noise, 0.3)


def test_the_unexplained_share_is_that_of_the_noise(rng):
    x, noise = rng.random((800, 1)), rng.normal(size=800)
    wave = np.sin(6.0 * x[:, 0])
    y = wave + 0.3 * noise
    np.testing.assert_allclose(unexplained_share(x, y), 0.09 / np.var(y), rtol=0.15)
    np.testing.assert_allclose(unexplained_share(x, noise), 1.0, rtol=0.15)
    np.testing.assert_allclose(
        unexplained_share(x, y), unexplained_share(7.0 * x, 1e9 + 1e3 * y)
    )
    assert unexplained_share(x, wave) == 1e-4  # the limit: neighbours always agree


@pytest.mark.parametrize("likelihood", [Gamma(), Beta(), HetGaussian()])
def test_the_explained_variance_is_taken_from_the_noise(likelihood):
    y = np.random.default_rng(1).uniform(0.4, 0.5, 200)
    constant, f = likelihood.constant_fit(y)
    start, f = jnp.asarray(constant.at_start(f, 0.01)[1]), jnp.asarray(f)
    for moment, factor in (("mean", 1.0), ("variance", 0.01)):
        conditional = getattr(likelihood, f"conditional_{moment}")
        np.testing.assert_allclose(
            conditional(start), factor * conditional(f), rtol=0.01
        )


def test_functions_start_with_the_spread_of_their_output():
    y = np.random.default_rng(2).gamma(400.0, 0.01, 300)
    spread = np.std(y) / np.mean(y)
    _, f = Gamma().constant_fit(y)
    np.testing.assert_allclose(Gamma().reach(y, f), spread, rtol=0.01)
    assert Poisson().reach(np.array([0.0, 0.0, 9.0]), np.array([np.log(3.0)])) == 1.0
    np.testing.assert_allclose(HetGaussian().reach(y / np.std(y), f), 1.0)


@pytest.mark.parametrize(
    "likelihood",
    [
        Gaussian(),
        HetGaussian(),
        Bernoulli(),
        Poisson(),
        Gamma(),
        Exponential(),
        Beta(),
    ],
    ids=lambda likelihood: likelihood.name,
)
def test_whole_weights_start_as_repeated_values(likelihood):
    rng = np.random.default_rng(0)
    y = likelihood.sample(rng, np.full((likelihood.num_functions, 60), 0.5))
    times, exposure = rng.integers(1, 5, 60), rng.uniform(1.0, 3.0, 60)
    every = np.repeat(np.arange(60), times)
    weighted, f = fit_constant(likelihood, y, exposure, times.astype(float))
    repeated, g = fit_constant(likelihood, y[every], exposure[every])
    np.testing.assert_allclose(f, g, rtol=1e-4)
    for key, value in weighted.parameters().items():
        np.testing.assert_allclose(value, repeated.parameters()[key], rtol=1e-12)
    np.testing.assert_allclose(
        likelihood.reach(y, f, times), likelihood.reach(y[every], f), rtol=1e-12
    )


def test_heavy_rows_draw_the_inducing_points(rng):
    x = np.linspace(0.0, 1.0, 200)[:, None]
    weight = np.where(x[:, 0] < 0.1, 100.0, 0.01)
    centres = cluster_centres(np.random.default_rng(0), x, 10, weight)
    assert np.mean(centres < 0.1) >= 0.8
    assert np.mean(cluster_centres(np.random.default_rng(0), x, 10) < 0.1) <= 0.2


@pytest.mark.parametrize("form", [LMC, Convolution, LatentConvolution])
@pytest.mark.parametrize(("likelihoods", "copies"), [(1, 1), (2, 2), (3, 1), (2, 5)])
def test_no_function_starts_without_weights(rng, form, likelihoods, copies):
    x = rng.random((30, 2))
    outputs = [Gaussian()] * likelihoods
    data = make_dataset(
        [x] * likelihoods, list(rng.normal(size=(likelihoods, 30))), outputs
    )
    shape = dict(num_latents=copies, rank=(1,) * copies, num_inducing=3, form=form)
    reach = [fit.reach[0] for fit in marginal_fits(data, outputs)]
    for seed in range(10):
        own = np.random.default_rng(seed)
        prior = initial_model(own, data, outputs, **shape).prior
        weights = np.asarray(prior.parameters()["weights"])
        np.testing.assert_allclose(np.linalg.norm(weights, axis=1), reach)
        if form is not Convolution and copies >= likelihoods:
            unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
            assert np.abs(unit @ unit.T - np.eye(likelihoods)).max() < 0.8


def test_an_output_starts_with_processes_of_its_own(rng):
    x = rng.random((30, 2))
    outputs = [Gaussian(), HetGaussian(), Gaussian()]
    data = make_dataset([x] * 3, list(rng.normal(size=(3, 30))), outputs)
    shape = dict(num_latents=6, rank=(1,) * 6, num_inducing=3)
    prior = initial_model(np.random.default_rng(0), data, outputs, **shape).prior
    unit = np.asarray(prior.weights)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    for own in (slice(0, 1), slice(1, 3), slice(3, 4)):
        block = unit[own, own]
        # Orthogonal rows, whose length is nearly that of the whole row.
        gram = block @ block.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
        assert (np.diag(gram) > 0.7).all() and (np.diag(gram) < 1.0).all()


@pytest.mark.parametrize(
    ("outputs", "functions", "rows", "latents"),
    [
        *[(2, 4, 4000, 4), (2, 3, 5000, 5), (1, 2, 5000, 2), (7, 14, 5000, 16)],
        *[(15, 30, 5000, 30), (20, 40, 100, 40), (38, 76, 100, 40)],
    ],
)
def test_the_default_number_of_processes(outputs, functions, rows, latents):
    assert LMC.usual_num_latents(outputs, functions, rows) == latents
    assert Convolution.usual_num_latents(outputs, functions, rows) == min(functions, 4)


def test_a_constant_input_column_is_harmless(rng):
    x = np.column_stack([rng.random(40), np.ones(40)])
    data = make_dataset([x], [rng.normal(size=40)], [Gaussian()])
    model = initial_model(
        rng, data, [Gaussian()], num_latents=1, rank=(1,), num_inducing=5
    )
    assert np.isfinite(model.prior.parameters()["lengthscale"]).all()


def test_centres_fill_up_when_there_are_few_distinct_rows(rng):
    x = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    centres = cluster_centres(rng, x, 8)
    assert sorted(centres[:, 0]) == [0.0, 1.0, 2.0]
    filled = padded(rng, centres, 8)
    assert filled.shape == (8, 1) and len(np.unique(filled)) == 8
    assert {0.0, 1.0, 2.0} <= set(filled[:, 0])


@pytest.mark.parametrize(("num_latents", "drawn_apart"), [(2, ()), (6, (1, 2))])
def test_length_scales_start_near_the_spacing_of_the_inducing_points(
    rng, num_latents, drawn_apart
):
    """On a grid whose points are all inducing points, in each input's own units."""
    side = np.linspace(0.0, 1.0, 5)
    x = np.stack(np.meshgrid(side, 1e3 * side), axis=-1).reshape(-1, 2)
    outputs = [Gaussian(), HetGaussian()]
    data = make_dataset([x] * 2, list(rng.normal(size=(2, 25))), outputs)
    shape = dict(num_latents=num_latents, rank=(1,) * num_latents, num_inducing=25)
    model = initial_model(rng, data, outputs, **shape)
    spacing = 0.25 / side.std() * x.std(axis=0)
    drawn = np.asarray(model.prior.kernel.lengthscale) / spacing
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1])
    assert (drawn >= 0.5).all() and (drawn <= 1.5).all()
    # Of n processes, one draw from each n-th part of the range, on a log scale.
    places = np.log(drawn[:, 0] / 0.5) / np.log(3.0)
    for own in np.split(places, np.cumsum(drawn_apart)):
        assert sorted(np.floor(len(own) * own)) == list(range(len(own)))


def test_length_scales_along_a_line_do_not_shrink_with_its_points(rng):
    x = np.linspace(0.0, 1.0, 400)[:, None]
    data = make_dataset([x], [rng.normal(size=400)], [Gaussian()])
    model = initial_model(
        rng, data, [Gaussian()], num_latents=1, rank=(1,), num_inducing=200
    )
    assert float(model.prior.kernel.lengthscale[0, 0]) >= 0.5 * 0.15 * x.std()
