"""The start of training."""

import numpy as np
import pytest

from motleygp.inference.data import make_dataset
from motleygp.likelihoods import Gaussian, Poisson
from motleygp.training.initialise import cluster_centres, initial_model, marginal_fits

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_offsets_start_at_the_constant_fits(rng):
    x = rng.random((50, 1))
    counts, real = rng.poisson(300.0, 50).astype(float), 5.0 + rng.normal(size=50)
    likelihoods = (Poisson(), Gaussian())
    data = make_dataset([x, x], [counts, real], likelihoods)
    fitted, offsets = marginal_fits(data, likelihoods)
    np.testing.assert_allclose(offsets, [np.log(counts.mean()), real.mean()])
    assert isinstance(fitted[1], Gaussian)
    np.testing.assert_allclose(fitted[1].noise, 0.5 * real.std())
    kept = marginal_fits(data, (Poisson(), Gaussian(0.3, fixed=True)))[0][1]
    assert isinstance(kept, Gaussian)
    np.testing.assert_allclose(kept.noise, 0.3)


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
    assert centres.shape == (8, 1) and len(np.unique(centres)) == 8
    assert {0.0, 1.0, 2.0} <= set(centres[:, 0])
