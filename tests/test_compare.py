"""What sharing is worth: `compare_independent`."""

import types
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import motleygp as mg
from motleygp.estimator import comparison
from motleygp.inference.observations import Observations
from small import ESTIMATOR as SETTINGS

pytestmark = pytest.mark.usefixtures("quick_compilation")

OUTPUTS = {"level": "gaussian", "calls": "poisson"}


def make_data(num_rows: int = 24) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.random((num_rows, 1))
    level = 50.0 + 10.0 * np.sin(6.0 * x[:, 0]) + rng.normal(size=num_rows)
    return x, {"level": level, "calls": rng.poisson(4.0, num_rows).astype(float)}


# The whole comparison, with fits.


@pytest.mark.slow
def test_both_models_predict_the_rows_that_they_have_not_seen():
    x, Y = make_data()
    Y = {"a": Y["level"], "b": 60.0 - Y["level"] + Y["calls"]}
    outputs = dict.fromkeys(Y, "gaussian")
    model = mg.MotleyGP(outputs, **SETTINGS)
    given = {"start": {"offset": np.full(2, 9.0)}, "checkpoint_dir": "nowhere"}
    found = mg.MotleyGP(outputs, **SETTINGS, **given).compare_independent(x, Y, cv=2)
    observed = Observations(list(Y), [x, x], list(Y.values()))
    (fold,) = comparison.dealt(np.random.default_rng(0), observed, 2).values()
    parts = [[], []]
    for k in range(2):
        for own, fits in zip((model, model.independent()), parts, strict=True):
            own.fit(x[fold != k], {name: y[fold != k] for name, y in Y.items()})
            p = own.predict_dist(x[fold == k])
            fits.append([p[name].log_prob(y[fold == k]) for name, y in Y.items()])
    joint, alone = (np.concatenate(part, axis=1) for part in parts)
    pairs = joint - alone
    assert list(found.index) == ["a", "b", "mean over outputs"]
    outputs, mean = found.iloc[:2], found.iloc[2]
    np.testing.assert_array_equal(found["values"], [24, 24, 48])
    np.testing.assert_allclose(outputs["nlpd"], -joint.mean(axis=1))
    np.testing.assert_allclose(outputs["independent"], -alone.mean(axis=1))
    np.testing.assert_allclose(outputs["gain"], pairs.mean(axis=1))
    error = pairs.std(axis=1, ddof=1) / np.sqrt(24)
    np.testing.assert_allclose(outputs["standard_error"], error)
    np.testing.assert_allclose(mean["gain"], pairs.mean())
    error = pairs.mean(axis=0).std(ddof=1) / np.sqrt(24)
    np.testing.assert_allclose(mean["standard_error"], error)


# The rest, with a stand-in for the fits.


def _at_the_call(warning: warnings.WarningMessage) -> bool:
    """Whether a warning points to this file, unless checks of types add calls."""
    checked = hasattr(mg.MotleyGP.compare_independent, "__wrapped__")
    return checked or warning.filename == __file__


class Fake(mg.MotleyGP):
    """Its predictions are the same for all rows; it keeps what it was fitted with."""

    fits: list = []  # noqa: RUF012
    ended: list = []  # noqa: RUF012

    def fit(self, X, Y, **arguments):
        self.fits.append((X, Y, arguments, dict(self.outputs)))
        ended = self.ended[len(self.fits) - 1] if self.ended else "horizon"
        if ended == "Ctrl-C":
            raise KeyboardInterrupt
        scale = 1.0 + len(Y)
        starts = [{"ended": "horizon"}, {"ended": ended}]
        self.fitted_ = types.SimpleNamespace(starts=starts, scale=scale)
        return self


class FakeDensity:
    def __init__(self, scale, exposure):
        self.scale, self.exposure = scale, exposure

    def log_prob(self, y):
        return -self.scale * np.abs(y) * self.exposure


@pytest.fixture
def fake(monkeypatch):
    def predict(fitted, x, exposures):
        names = Fake.fits[-1][1]
        every = zip(names, exposures, strict=True)
        return {name: FakeDensity(fitted.scale, own) for name, own in every}

    monkeypatch.setattr(comparison, "distributions", predict)
    monkeypatch.setattr(Fake, "fits", [])
    monkeypatch.setattr(Fake, "ended", [])
    return Fake(OUTPUTS, **SETTINGS)


def test_weights_exposures_and_gaps_reach_the_fits_and_the_scores(fake):
    x, Y = make_data()
    Y["level"][:7] = np.nan
    weight, exposure = np.linspace(0.0, 2.0, 24), np.linspace(1.0, 3.0, 24)
    found = fake.compare_independent(
        x, Y, sample_weight=weight, exposure={"calls": exposure}
    )
    assert len(fake.fits) == 3 * (1 + 2)
    joint, level, calls, again = fake.fits[:4]
    assert list(joint[1]) == list(again[1]) == ["level", "calls"]
    assert joint[0]["level"] is joint[0]["calls"]
    assert list(joint[2]["exposure"]) == list(calls[2]["exposure"]) == ["calls"]
    assert level[2]["exposure"] is None and list(level[2]["sample_weight"]) == ["level"]
    # Joint densities have the factor 3, others 2, so the gain is minus the size.
    for name, y, own in (("level", Y["level"], 1.0), ("calls", Y["calls"], exposure)):
        known = ~np.isnan(y) & (weight > 0)
        size, w = (np.abs(y) * own)[known], weight[known]
        gain = -np.average(size, weights=w)
        np.testing.assert_allclose(found.loc[name, "gain"], gain)
        np.testing.assert_allclose(found.loc[name, "nlpd"], -3.0 * gain)
        np.testing.assert_allclose(found.loc[name, "independent"], -2.0 * gain)
        assert found.loc[name, "values"] == known.sum()
        # The error of a ratio of sums, by the delta method.
        n, residual = len(w), w * (-size - gain)
        error = np.sqrt(np.sum(residual**2) / (n - 1) * n) / w.sum()
        np.testing.assert_allclose(found.loc[name, "standard_error"], error)


def test_the_error_of_the_mean_counts_a_row_once(fake):
    x, Y = make_data()
    one = fake.compare_independent(x, {"level": Y["level"], "calls": Y["calls"]})
    twice = fake.set_params(outputs={"level": "gaussian", "other": "gaussian"})
    same = twice.compare_independent(x, {"level": Y["level"], "other": Y["level"]})
    # Two equal outputs tell no more than one.
    np.testing.assert_allclose(
        same["standard_error"], [one.loc["level", "standard_error"]] * 3
    )
    apart = twice.compare_independent(
        {"level": x, "other": x[::-1] + 1.0}, {"level": Y["level"], "other": Y["level"]}
    )
    np.testing.assert_allclose(
        apart["standard_error"].iloc[-1], same["standard_error"].iloc[0] / np.sqrt(2.0)
    )


@pytest.mark.parametrize("form", ["pandas", "polars", "dict", "list", "array"])
def test_tables_of_every_form_are_compared_alike(fake, form):
    x, Y = make_data()
    expected = fake.compare_independent(x, Y)
    if form == "array":
        fake.set_params(outputs=list(OUTPUTS.values()))
        found = fake.compare_independent(x, np.stack(list(Y.values()), axis=1))
    elif form == "list":
        fake.set_params(outputs=list(OUTPUTS.values()))
        found = fake.compare_independent([x, x.copy()], list(Y.values()))
    elif form == "dict":
        found = fake.compare_independent(dict.fromkeys(Y, x), Y)
    else:
        frames = pd if form == "pandas" else pl
        X, Y = frames.DataFrame({"x": x[:, 0]}), frames.DataFrame(Y)
        if form == "pandas":  # rows belong together by their labels
            Y = Y.iloc[::-1]
        found = fake.compare_independent(X, Y)
    np.testing.assert_array_equal(found, expected)


def test_likelihoods_are_inferred_once_and_labels_count_as_classes(fake):
    x, Y = make_data()
    Y["kind"] = np.where(Y["level"] > 50.0, "flat", "house")
    fake.set_params(outputs="auto").compare_independent(x, Y)
    chosen = {name: likelihood.name for name, likelihood in fake.fits[0][3].items()}
    assert chosen == {"level": "gaussian", "calls": "poisson", "kind": "bernoulli"}
    assert {name for *_, own in fake.fits for name in own} == set(chosen)


def test_a_doubtful_likelihood_is_warned_about_where_the_method_is_called(fake, rng):
    x, Y = make_data(60)
    Y["visits"] = rng.poisson(rng.gamma(2, 4, 60)).astype(float)
    with pytest.warns(UserWarning, match="visits.* is modelled as poisson") as said:
        fake.set_params(outputs="auto").compare_independent(x, Y)
    assert len(said) == 1 and _at_the_call(said[0])


def test_the_estimator_does_not_change(fake):
    before = fake.get_params()
    fake.compare_independent(*make_data())
    assert fake.get_params() == before and not hasattr(fake, "fitted_")


# Folds.


def observations(*ys, xs=None) -> Observations:
    x = np.arange(len(ys[0]), dtype=float)[:, None]
    names = [f"y{d}" for d in range(len(ys))]
    return Observations(names, [x] * len(ys) if xs is None else xs, list(ys))


def test_folds_spread_rare_classes_and_rare_values(rng):
    rare, sparse = np.zeros(40), np.full(40, np.nan)
    rare[[3, 4]] = 1.0
    sparse[[3, 9, 20]] = [1.0, 2.0, 3.0]
    for seed in range(20):
        own = observations(rare, sparse, rng.normal(size=40))
        (fold,) = comparison.dealt(np.random.default_rng(seed), own, 3).values()
        assert fold[3] != fold[4] and len(set(fold[[3, 9, 20]])) == 3
        assert max(np.bincount(fold)) - min(np.bincount(fold)) <= 1
    other = comparison.dealt(np.random.default_rng(0), own, 3)
    assert (other[id(own.xs[0])] != fold).any()


def test_outputs_with_inputs_of_their_own_have_folds_of_their_own(rng):
    xs = [rng.random((9, 1)), rng.random((12, 1))]
    own = observations(rng.normal(size=9), rng.normal(size=12), xs=xs)
    folds = comparison.dealt(rng, own, 3)
    assert [len(folds[id(x)]) for x in xs] == [9, 12]
    assert all(set(fold) == {0, 1, 2} for fold in folds.values())


def test_a_fold_without_rows_of_an_output_has_no_densities():
    xs = [np.zeros((0, 1)), np.zeros((0, 1))]
    own = observations(np.zeros(0), np.zeros(0), xs=xs)
    found = comparison._log_densities(mg.MotleyGP(), own, [0, 1])
    assert [len(part) for part in found] == [0, 0]


# What goes wrong.


def refused(message, model, X, Y, **arguments):
    with pytest.raises(ValueError, match=message) as caught:
        model.compare_independent(X, Y, **arguments)
    assert "\n" not in str(caught.value)


def test_wrong_arguments_are_named(fake):
    x, Y = make_data()
    for cv in (1, 25, 2.0, True, "3", None):
        refused(
            "`cv` must be a whole number from 2 to .* rows, 24; got", fake, x, Y, cv=cv
        )
    refused("`max_iter` must be", Fake(OUTPUTS, max_iter=0), x, Y)
    refused("`exposure` must be for", fake, x, Y, exposure={"level": Y["calls"]})
    single = Fake({"level": "gaussian"})
    refused("at least two outputs: .*'level' alone", single, x, {"level": Y["level"]})
    Y["calls"][1:] = 0.0
    Y["calls"][0] = 1.0
    refused("`cv` must leave different values of output 'calls'.*24 val", fake, x, Y)
    assert not fake.fits


@pytest.mark.parametrize("how", ["interrupted", "Ctrl-C"])
def test_ctrl_c_keeps_the_complete_folds(fake, how, monkeypatch):
    x, Y = make_data()
    with pytest.warns(UserWarning, match="interrupted, and has 1 of 3 folds") as said:
        monkeypatch.setattr(Fake, "ended", ["horizon"] * 4 + [how])
        found = fake.compare_independent(x, Y)
    assert len(fake.fits) == 5 and _at_the_call(said[0])
    np.testing.assert_array_equal(found["values"], [8, 8, 16])
    assert np.isfinite(found.to_numpy()).all()
    Fake.fits.clear()
    monkeypatch.setattr(Fake, "ended", ["horizon", how])
    with pytest.raises(KeyboardInterrupt):
        fake.compare_independent(x, Y)


def test_an_output_that_was_not_reached_is_missing_in_the_mean():
    nan = np.full(4, np.nan)
    own = observations(np.array([0.0, 1.0, 2.0, 3.0]), nan)
    found = comparison.table(own, [-np.arange(4.0), nan], [np.zeros(4), nan])
    assert found.loc["y1"].isna().sum() == 4 and found.loc["y1", "values"] == 0
    np.testing.assert_array_equal(found.iloc[0], found.iloc[2])


def test_impossible_values_are_warned_about():
    y = np.array([0.0, 1.0, 2.0])
    joint = np.array([0.0, -np.inf, -1.0])
    with pytest.warns(UserWarning, match="'y0' has a value that is impossible"):
        found = comparison.table(observations(y, y), [joint, y], [joint, y])
    assert found.loc["y0", "nlpd"] == np.inf and np.isnan(found.loc["y0", "gain"])


@pytest.mark.filterwarnings("default")
def test_warnings_of_the_fits_are_gathered(fake, monkeypatch):
    def loud(self, X, Y, **arguments):
        warnings.warn(f"fit {len(self.fits)} is poor.", stacklevel=2)
        return quiet(self, X, Y, **arguments)

    quiet = Fake.fit
    monkeypatch.setattr(Fake, "fit", loud)
    with pytest.warns(UserWarning) as said:
        fake.compare_independent(*make_data())
    (one,) = said
    assert str(one.message) == (
        "in a fit of the comparison, fit 0 is poor. (and 8 more fits like it)"
    )
    assert _at_the_call(one)


def test_the_bar_counts_the_fits(fake, capsys):
    fake.set_params(progress=True).compare_independent(*make_data())
    assert "comparing" in (said := capsys.readouterr().err) and "9/9" in said
