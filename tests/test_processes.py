"""How many latent processes are in use."""

import numpy as np
import pytest

from motleygp import kernels, priors
from motleygp.prediction import inspection

# Two copies of u1, then u2, u3 and u4, in five functions.
RANK = (2, 1, 1, 1)
WEIGHTS = np.array(
    [
        [0.3, -0.4, 0.0, 0.02, 0.0],
        [0.0, 0.0, 2.0, 0.1, 0.0],
        [1.0, 0.0, 0.0, 0.09, 0.0],
        [0.0, 1.0, -0.5, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
    ]
)
LENGTHSCALE = np.array([[0.5, 1.0], [0.2, 0.3], [1.0, 2.0], [0.7, 0.7]])
SMOOTHING = np.linspace(0.1, 0.6, 10).reshape(5, 2)
# A function without variance would have no K_uu.
LOUD = np.where(WEIGHTS.any(axis=1, keepdims=True), WEIGHTS, [1.0, 0, 0, 0, 0])


def make_prior(form, weights=WEIGHTS, *, normalised=False):
    kernel = kernels.EQ(LENGTHSCALE, normalised=normalised)
    num_groups = 5
    own = {"rank": RANK, "inducing": np.zeros((num_groups, 3, 2))}
    if form is priors.LMC:
        return form(kernel, weights, **own)
    return form(kernel, weights, SMOOTHING, **own)


def shares_of(variance: np.ndarray) -> np.ndarray:
    """Shares of processes, from the variances of their copies."""
    own = np.stack([variance[:, :2].sum(axis=1), *variance[:, 2:].T], axis=1)
    return own / np.maximum(own.sum(axis=1, keepdims=True), 1e-300)


@pytest.mark.parametrize("normalised", [False, True])
def test_shares_of_the_linear_model(normalised):
    variance = np.ones(4)
    if normalised:
        variance = 1.0 / (2.0 * np.pi * LENGTHSCALE.prod(axis=1))
    expected = shares_of(WEIGHTS**2 * variance[[0, 0, 1, 2, 3]])
    found = inspection.process_shares(make_prior(priors.LMC, normalised=normalised))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), [1, 1, 1, 1, 0])


@pytest.mark.parametrize("form", [priors.Convolution, priors.LatentConvolution])
@pytest.mark.parametrize("normalised", [False, True])
def test_shares_of_convolutions(form, normalised):
    variance = LOUD**2
    if normalised:
        square = 2.0 * SMOOTHING[:, None] ** 2 + LENGTHSCALE[[0, 0, 1, 2, 3]] ** 2
        variance = variance / (2.0 * np.pi * np.sqrt(square.prod(axis=-1)))
    prior = make_prior(form, LOUD, normalised=normalised)
    found = inspection.process_shares(prior)
    np.testing.assert_allclose(found, shares_of(variance), rtol=1e-9, atol=1e-12)


def test_the_processes_in_use_are_counted():
    # u1 is in functions 0, 2 and 3; u2 in 1 and 3; u3 is below 1 %; u4 is nowhere.
    def said(blocks, form=priors.LMC, weights=WEIGHTS):
        return inspection.processes_in_use(make_prior(form, weights), blocks)

    assert said([(0,), (1,), (2,), (3,), (4,)]) == (
        "4 latent processes: 2 shared by several outputs, 0 used by one, 2 unused"
    )
    # Two functions of one output do not share.
    assert said([(0,), (1, 3), (2, 4)]) == (
        "4 latent processes: 1 shared by several outputs, 1 used by one, 2 unused"
    )
    assert said([(0, 1, 2, 3, 4)]) == "4 latent processes: 2 in use, 2 unused"
    latent = said([(0,), (1, 3), (2, 4)], priors.LatentConvolution)
    assert latent == said([(0,), (1, 3), (2, 4)])


def test_functions_with_values_of_their_own_share_no_process():
    prior = make_prior(priors.Convolution, LOUD)
    said = inspection.processes_in_use(prior, [(0,), (1, 3), (2, 4)])
    assert said == "4 latent processes: 2 in use, 2 unused"


def test_one_process_is_singular():
    prior = priors.LMC(kernels.EQ([[1.0]]), [[1.0], [2.0]], np.zeros((1, 3, 1)))
    assert inspection.processes_in_use(prior, [(0,), (1,)]) == (
        "1 latent process: 1 shared by several outputs, 0 used by one, 0 unused"
    )
