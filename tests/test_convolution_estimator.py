"""`MotleyGP(prior="convolution")`: everything that the linear model does."""

import copy
from typing import Any, NamedTuple

import numpy as np
import pytest

import motleygp as mg
import paper_convolution as convolution
import paper_numpy as paper

pytestmark = pytest.mark.usefixtures("quick_compilation")

LIKELIHOODS = ("gaussian", "bernoulli", "hetgaussian")
SETTINGS: dict[str, Any] = dict(
    outputs=list(LIKELIHOODS),
    prior="convolution",
    num_inducing=8,
    max_iter=20,
    batch_size=12,
    random_state=0,
    progress=False,
)
FORMS = {"function": convolution.FUNCTION, "latent": convolution.LATENT}


class Fitted(NamedTuple):
    model: mg.MotleyGP
    form: str
    X: dict[str, np.ndarray]
    Y: dict[str, np.ndarray]


def make_data() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Missing values, inputs of its own for one output, and units far from standard."""
    rng = np.random.default_rng(0)
    shared, own = (100.0 + 20.0 * rng.random((n, 2)) for n in (30, 25))
    X = {"y0": shared, "y1": shared, "y2": own}
    Y = {
        name: paper.random_values(rng, likelihood, len(X[name]))
        for name, likelihood in zip(X, LIKELIHOODS, strict=True)
    }
    Y["y0"] = 50.0 + 7.0 * Y["y0"]
    Y["y0"][3:6] = np.nan
    Y["y2"][::4] = np.nan
    return X, Y


@pytest.fixture(scope="module", params=FORMS)
def fitted_once(request) -> Fitted:
    X, Y = make_data()
    model = mg.MotleyGP(inducing=request.param, **SETTINGS).fit(X, Y)
    return Fitted(model, request.param, X, Y)


@pytest.fixture
def fitted(fitted_once: Fitted) -> Fitted:
    """A copy whose parameters a test may set."""
    return fitted_once._replace(model=copy.copy(fitted_once.model))


def reference(fitted: Fitted) -> float:
    """The bound by the paper's formulas on `parameters()`, in the user's units."""
    parameters = fitted.model.parameters()
    shifts, scales = parameters["output_shift"], parameters["output_scale"]
    outputs = [
        paper.Output(name, likelihood, fitted.X[name], (y - shift) / scale)
        for (name, y), likelihood, shift, scale in zip(
            fitted.Y.items(), LIKELIHOODS, shifts, scales, strict=True
        )
    ]
    counts = [np.sum(~np.isnan(y)) for y in fitted.Y.values()]
    nelbo = paper.nelbo(parameters, outputs, nodes=60, form=FORMS[fitted.form])
    return -nelbo - float(np.log(scales) @ counts)


def test_bound_equals_paper(fitted):
    elbo = fitted.model.elbo(fitted.X, fitted.Y)
    np.testing.assert_allclose(elbo, reference(fitted), rtol=1e-9)


def test_parameters_have_the_documented_shapes(fitted):
    shapes = {k: np.shape(v) for k, v in fitted.model.parameters().items()}
    groups = 4
    assert shapes["smoothing"] == (4, 2) and shapes["lengthscale"] == (4, 2)
    assert shapes["weights"] == (4, 4) and shapes["inducing"] == (groups, 8, 2)
    together = (32, 32) if fitted.form == "latent" else (groups, 8, 8)
    assert shapes["q_mean"] == (groups, 8) and shapes["q_cov"] == together


def test_setting_parameters(fitted):
    before = fitted.model.elbo(fitted.X, fitted.Y)
    parameters = fitted.model.parameters()
    fitted.model.set_parameters(**parameters)
    again = fitted.model.elbo(fitted.X, fitted.Y)
    np.testing.assert_allclose(again, before, rtol=1e-10)
    longer = 1.3 * parameters["smoothing"]
    fitted.model.set_parameters(smoothing=longer, weights=0.9 * parameters["weights"])
    np.testing.assert_allclose(fitted.model.parameters()["smoothing"], longer)
    after = fitted.model.elbo(fitted.X, fitted.Y)
    assert after != pytest.approx(before, rel=1e-6)
    np.testing.assert_allclose(after, reference(fitted), rtol=1e-9)


def test_predictions_and_scores(fitted):
    model, X = fitted.model, fitted.X["y1"]
    predicted = model.predict_dist(X)
    assert 30.0 < predicted["y0"].mean.mean() < 70.0
    latent = model.latent(X)
    mean, _ = FORMS[fitted.form].marginals(
        model.parameters(), X, rank=1, normalised=False
    )
    found = np.concatenate([latent[name][0].T for name in latent])
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-10)
    scores = model.nlpd(fitted.X, fitted.Y)
    assert np.isfinite(list(scores.values())).all()
    begun = mg.MotleyGP(inducing=fitted.form, **SETTINGS | {"max_iter": 1})
    begun.fit(fitted.X, fitted.Y)
    assert model.elbo(fitted.X, fitted.Y) > begun.elbo(fitted.X, fitted.Y)


def test_wrong_parameters_are_refused(fitted):
    smoothing = fitted.model.parameters()["smoothing"]
    with pytest.raises(ValueError, match="`smoothing` must be positive; got -"):
        fitted.model.set_parameters(smoothing=-smoothing)
    if fitted.form == "function":
        with pytest.raises(ValueError, match="in every row; row 0 has none"):
            fitted.model.set_parameters(weights=np.zeros((4, 4)))


def test_inducing_is_for_convolutions():
    X, Y = make_data()
    settings = SETTINGS | {"prior": "lmc", "inducing": "function"}
    with pytest.raises(
        ValueError,
        match="`inducing` must be one of auto with prior 'lmc'; got 'function'",
    ):
        mg.MotleyGP(**settings).fit(X, Y)
    with pytest.raises(ValueError, match="`inducing` must be one of auto, function"):
        mg.MotleyGP(**SETTINGS | {"inducing": "both"}).fit(X, Y)


def test_units_change_nothing_but_the_units():
    X, Y = make_data()
    plain = mg.MotleyGP(**SETTINGS).fit(X, Y)
    scaled = mg.MotleyGP(**SETTINGS).fit({k: 1024.0 * x for k, x in X.items()}, Y)
    for name in ("smoothing", "lengthscale", "inducing"):
        expected = 1024.0 * plain.parameters()[name]
        np.testing.assert_allclose(scaled.parameters()[name], expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("optimizer", ["fng", "hybrid", "adam", "sgd"])
@pytest.mark.parametrize("rank", [1, 2])
def test_every_scheme_trains_it(form, optimizer, rank):
    X, Y = make_data()
    # Minibatches of all rows, so that the bound falls even by the small steps of SGD.
    shape = {"num_latents": 2, "rank": rank, "batch_size": 64}
    settings = SETTINGS | shape | {"restarts": 2}
    model = mg.MotleyGP(inducing=form, optimizer=optimizer, **settings).fit(X, Y)
    assert np.isfinite(model.score(X, Y)) and len(model.restarts_) == 2
    given = settings | {"max_iter": 1}
    begun = mg.MotleyGP(inducing=form, optimizer=optimizer, **given).fit(X, Y)
    assert model.elbo(X, Y) > begun.elbo(X, Y)
    assert model.parameters()["weights"].shape == (4, 2 * rank)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_papers_settings(form):
    X, Y = make_data()
    outputs = {"y0": "gaussian", "y1": "bernoulli"}
    settings = SETTINGS | {"outputs": outputs, "preset": "paper", "max_iter": 5}
    model = mg.MotleyGP(inducing=form, **settings)
    model.fit({k: X[k] for k in outputs}, {k: Y[k] for k in outputs})
    assert np.isfinite(model.trace_["nelbo"]).all()
    np.testing.assert_array_equal(model.parameters()["offset"], np.zeros(2))
