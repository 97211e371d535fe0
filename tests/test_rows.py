"""The answer for a row does not depend on the other rows of a call."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import motleygp as mg

pytestmark = pytest.mark.usefixtures("quick_compilation")

PRIORS = {
    "lmc": {},
    "function": {"prior": "convolution"},
    "latent": {"prior": "convolution", "inducing": "latent"},
}
WILD = (1e4, 1e7, 1e8, 1e9, 1e16, 1e30, 1e100, 1e150, -1e150)


@pytest.fixture(
    scope="module",
    params=["lmc", pytest.param("function", marks=pytest.mark.slow), "latent"],
)
def model(request) -> mg.MotleyGP:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    f = np.sin(3.0 * X[:, 0])
    Y = {
        "level": f + 0.1 * rng.normal(size=60),
        "sold": (rng.random(60) < 0.5 + 0.4 * f).astype(float),
        "visits": rng.poisson(np.exp(f)).astype(float),
        "days": rng.gamma(2.0, np.exp(f)),
    }
    names = ("hetgaussian", "bernoulli", "poisson", "gamma")
    return mg.MotleyGP(
        dict(zip(Y, names, strict=True)),
        **PRIORS[request.param],
        num_inducing=12,
        max_iter=20,
        random_state=0,
        progress=False,
    ).fit(X, Y)


def _answers(model: mg.MotleyGP, X: np.ndarray) -> np.ndarray:
    """Means, variances and two quantiles of every output: (rows, answers)."""
    found = []
    for p in model.predict_dist(X).values():
        found += [p.mean, p.variance, *p.quantile([0.1, 0.9]).T]
    return np.stack(found, axis=1)


def test_wild_rows_change_no_other_row_and_get_the_prior(model):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (5, 2))
    wild = np.array([[value, 0.3] for value in WILD] + [[0.3, v] for v in WILD])
    alone, together = _answers(model, X), _answers(model, np.concatenate([X, wild]))
    assert np.isfinite(together).all()
    np.testing.assert_allclose(together[:5], alone, rtol=1e-12, atol=1e-12)
    far = _answers(model, np.full((1, 2), 1e5))
    np.testing.assert_allclose(together[6:], np.tile(far, (len(wild) - 1, 1)))


def test_joint_draws_beside_wild_rows(model):
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (5, 2))
    # The last two rows are far from the others and near each other.
    wild = np.array([[1e150, 0.3], [0.3, -1e9], [1e9, 0.3], [1e9 + 1e-3, 0.3]])
    together = np.concatenate([X, wild])
    drawn = model.sample_latent(together, 4000, random_state=0)
    for name, (mean, var) in model.latent(together).items():
        z = (drawn[name] - mean) / np.sqrt(var)
        # Six standard errors.
        np.testing.assert_allclose(z.mean(0), 0.0, atol=6.0 / np.sqrt(4000))
        np.testing.assert_allclose(z.var(0), 1.0, atol=6.0 * np.sqrt(2.0 / 4000))
        np.testing.assert_allclose(z[:, -2], z[:, -1], atol=0.05)
        assert np.abs(np.mean(z[:, 5] * z[:, 7], axis=0)).max() < 6.0 / np.sqrt(4000)


def test_the_size_of_a_call_changes_nothing(model):
    X = np.random.default_rng(2).uniform(-1.5, 1.5, (70, 2))
    whole = _answers(model, X)
    for rows in (slice(0, 1), slice(3, 40), slice(64, 70)):
        np.testing.assert_allclose(
            _answers(model, X[rows]), whole[rows], rtol=1e-12, atol=1e-12
        )


def _table(scores: Any) -> pd.DataFrame:
    return scores if isinstance(scores, pd.DataFrame) else pd.DataFrame([scores])


def test_values_outside_the_support_are_named_and_the_others_scored(model):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (4, 2)), index=list("abcd"))
    Y = pd.DataFrame(
        {
            "level": rng.normal(size=4),
            "sold": [0.0, 1.0, 1.0, 0.0],
            "visits": [1.0, 2.0, 0.5, 3.0],
            "days": [1.0, 0.0, 2.0, -3.0],
        },
        index=X.index,
    )
    kept = Y.mask(Y == 0.5).assign(days=Y["days"].where(Y["days"] > 0))
    words = [
        r"output 'visits' is scored without 0.5 in row 'c': poisson gives a density",
        r"output 'days' is scored without 0 in row 'b' and 1 more: gamma gives",
    ]
    for score in (model.metrics, model.nlpd, model.marginal_nlpd):
        with pytest.warns(UserWarning) as told:
            found = score(X, Y)
        for word, warning in zip(words, told, strict=True):
            assert re.match(word, str(warning.message))
        pd.testing.assert_frame_equal(_table(found), _table(score(X, kept)))
    with pytest.raises(ValueError, match="output 'visits' must be 0, 1, 2"):
        model.elbo(X, Y)
    with (
        pytest.warns(UserWarning, match="output 'days' is scored without"),
        pytest.raises(ValueError, match="output 'days' must have observed values"),
    ):
        model.score(X, kept.assign(days=-1.0))
