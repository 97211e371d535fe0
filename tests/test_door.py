"""One door for data: every form is aligned by name, checked and converted alike."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import motleygp as mg
from motleygp.estimator import independent
from motleygp.inference.observations import observe
from motleygp.inference.scaling import standardising
from motleygp.likelihoods import Gaussian, Poisson
from motleygp.prediction import Predictive, functions
from motleygp.tables import filling, frames
from small import ESTIMATOR as SETTINGS

pytestmark = pytest.mark.usefixtures("quick_compilation")

OUTPUTS = {"level": "gaussian", "calls": "poisson"}
ROWS = [f"r{i}" for i in range(12)]
ORDER = np.random.default_rng(1).permutation(12)


def make_frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((12, 2)), columns=["lat", "lon"], index=ROWS)
    Y = {"level": rng.normal(50, 10, 12), "calls": rng.poisson(4.0, 12)}
    return X, pd.DataFrame(Y, index=ROWS)


@pytest.fixture
def data_of(training_data):
    """The data that a fit would train on, and its messages."""

    def found(X, Y, outputs=OUTPUTS, **arguments):
        return training_data(mg.MotleyGP(outputs, **SETTINGS), X, Y, **arguments)

    return found


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.outputs == b.outputs
        for field in ("x", "y", "weight", "log_exposure"):
            one, other = getattr(a, field), getattr(b, field)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one, other)


def refused(message, X, Y, outputs=OUTPUTS, **arguments):
    with pytest.raises(ValueError, match=message) as caught:
        mg.MotleyGP(outputs, **SETTINGS).fit(X, Y, **arguments)
    assert "\n" not in str(caught.value)


# Columns by name.


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("form", [dict, list])
def test_inputs_of_each_output_are_aligned_by_name(data_of, form, library):
    X, Y = make_frames()
    other = X[["lon", "lat"]]
    Y = {name: Y[name].to_numpy() for name in Y}
    if library == "polars":
        X, other = pl.from_pandas(X), pl.from_pandas(other)
    given = [X, other] if form is list else {"level": X, "calls": other}
    if form is list:
        Y = list(Y.values())
    outputs = list(OUTPUTS.values()) if form is list else OUTPUTS
    assert_same(data_of(given, Y, outputs), data_of(X, Y, outputs))


def test_other_names_for_another_output_are_refused():
    X, Y = make_frames()
    other = X.rename(columns={"lon": "length"})
    message = r"same columns for every output; got \['lat', 'lon'\] for 'level' and"
    refused(message, {"level": X, "calls": other}, Y)


# Rows by label.


def test_rows_belong_together_by_their_labels(data_of):
    X, Y = make_frames()
    expected = data_of(X, Y)
    assert_same(data_of(X, Y.iloc[ORDER]), expected)
    columns = {"level": Y["level"], "calls": Y["calls"].iloc[ORDER]}
    assert_same(data_of(X, columns), expected)
    # Without labels of the inputs, the outputs belong together among themselves.
    assert_same(data_of(X.to_numpy(), columns), expected)
    assert_same(data_of(dict.fromkeys(Y, X), Y.iloc[ORDER]), expected)


def test_weights_and_exposures_follow_the_labels(data_of):
    X, Y = make_frames()
    weight = pd.Series(np.arange(1.0, 13.0), index=ROWS)
    both = pd.DataFrame({"level": weight, "calls": 2.0 * weight})
    expected = data_of(X, Y, sample_weight=weight.to_numpy(), exposure=weight.to_list())
    moved = weight.iloc[ORDER]
    assert_same(data_of(X, Y, sample_weight=moved, exposure=moved), expected)
    by_name = {name: both[name].to_numpy() for name in both}
    assert_same(
        data_of(X, Y, sample_weight=both.iloc[ORDER]),
        data_of(X, Y, sample_weight=by_name),
    )
    other = weight.set_axis([*ROWS[1:], "other"])
    refused("`sample_weight` must have the row labels", X, Y, sample_weight=other)


def test_labels_by_default_say_nothing_unless_they_are_the_same(data_of):
    X, Y = make_frames()
    expected = data_of(X, Y)
    assert_same(data_of(X, Y.reset_index(drop=True)), expected)
    assert_same(data_of(X.reset_index(drop=True), Y), expected)
    X, Y = X.reset_index(drop=True), Y.reset_index(drop=True)
    assert_same(data_of(X, Y.iloc[ORDER]), expected)
    # The same labels twice over are in one order, or not to be matched.
    twice = [0, 0, *range(2, 12)]
    assert_same(data_of(X.set_axis(twice), Y.set_axis(twice)), expected)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([*ROWS[:-2], "a", "b"], "'level' must have the row labels of `X`, .* 'r10' a"),
        (["r1", *ROWS[1:]], "in its order, because labels repeat; got another order"),
        (pd.date_range("2020", periods=12), "got none for row 'r0' and 11 more"),
    ],
)
def test_rows_with_other_labels_are_refused(labels, message):
    X, Y = make_frames()
    refused(message, X, Y.set_axis(labels))


# Masks.


def test_masked_values_are_missing(data_of):
    X, Y = make_frames()
    x, y = X.to_numpy(), Y.to_numpy()
    mask = np.zeros(y.shape, bool)
    mask[3, 0] = mask[5, 1] = True
    masked, outputs = np.ma.masked_array(y, mask), list(OUTPUTS.values())
    expected = data_of(x, np.where(mask, np.nan, y), outputs)
    assert_same(data_of(x, masked, outputs), expected)
    assert_same(data_of(x, [masked[:, 0], masked[:, 1]], outputs), expected)
    counts = frames.as_columns({"a": np.ma.masked_array([1, 2, 3], [0, 1, 0])})["a"]
    assert counts.kind == "integer" and np.isnan(counts.values[1])
    labels = np.ma.masked_array(["no", "yes", "no"], [0, 0, 1])
    found = frames.as_columns({"a": labels})["a"]
    assert found.classes == ("no", "yes") and np.isnan(found.values[2])
    bools = frames.as_columns({"a": np.ma.masked_array([True, False], [0, 1])})["a"]
    assert bools.kind == "bool" and np.isnan(bools.values[1])


def test_masked_inputs_weights_and_exposures_are_refused():
    X, Y = make_frames()
    x = np.ma.masked_array(X.to_numpy(), np.arange(24).reshape(12, 2) == 5)
    refused("got NaN in row 2, column 1", x, Y.to_numpy(), ["gaussian", "poisson"])
    row = np.ma.masked_array(np.ones(12), np.arange(12) == 4)
    refused("`sample_weight` .* got nan in row 'r4'", X, Y, sample_weight=row)
    refused("`exposure` .* got nan in row 'r4'", X, Y, exposure=row)
    days = np.ma.masked_array(np.array(["2020-01-01"] * 2, "M8[D]"), [0, 1])
    assert np.isnan(frames.as_matrix(days[:, None])[1, 0])


# Sizes.


def test_what_overflows_is_refused_by_its_place():
    X, Y = make_frames()
    X.loc["r7", "lon"] = np.nan
    refused("`X` must be finite; got NaN in row 'r7', column 'lon'", X, Y)
    X.loc["r7", "lon"] = 1e300
    refused(r"at most 1e\+150 in size; got 1e\+300 in row 'r7', column 'lon'", X, Y)
    X, Y = make_frames()
    message = r"'level' must be at most 1e\+150 in size; got .* in row 'r0' and 11 more"
    refused(message, X, Y.assign(level=1e160 * Y["level"]))
    message = "'level' must have a value of at least 1e-150 in size; .* another unit"
    refused(message, X, Y.assign(level=1e-300 * Y["level"]))
    infinite = Y.assign(level=Y["level"].where(Y.index != "r3", np.inf))
    refused("'level' must be finite; got inf in row 'r3'", X, infinite, "auto")
    negative = Y.assign(calls=Y["calls"].where(Y.index != "r2", -1))
    refused(r"'calls' must be 0, 1, 2, .* got -1 in row 'r2'", X, negative)


def test_units_of_any_size_are_scaled_exactly(rng):
    x, y = rng.normal(3.0, 2.0, (50, 3)), rng.normal(size=50)
    y[7] = np.nan
    plain = standardising([x], [y], [Gaussian()])
    np.testing.assert_array_equal(plain.x_shift, x.mean(axis=0))
    np.testing.assert_array_equal(plain.x_scale, x.std(axis=0))
    np.testing.assert_array_equal(plain.y_shift, np.nanmean(y))
    np.testing.assert_array_equal(plain.y_scale, np.nanstd(y))
    for power in (-700, 480):
        unit = 2.0**power
        scaled = standardising([unit * x], [unit * y], [Gaussian()])
        for one, other in zip(
            (plain.x_shift, plain.x_scale, plain.y_shift, plain.y_scale),
            (scaled.x_shift, scaled.x_scale, scaled.y_shift, scaled.y_scale),
            strict=True,
        ):
            np.testing.assert_array_equal(unit * one, other)


def test_quantiles_of_huge_counts_come_to_an_end():
    p = Predictive(Poisson(), np.array([[60.0 * np.log(2.0)]]), np.zeros((1, 1)))
    np.testing.assert_allclose(p.quantile([0.01, 0.5, 0.99])[0], 2.0**60, rtol=1e-8)


# Weights.


def test_rows_of_no_weight_are_absent(data_of):
    X, Y = make_frames()
    weight = np.r_[0.0, 0.0, np.ones(10)]
    odd_X = X.assign(lat=np.where(weight > 0, X["lat"], np.nan))
    odd_Y = Y.assign(calls=np.where(weight > 0, Y["calls"], -0.5))
    exposure = np.r_[0.0, np.nan, np.arange(1.0, 11.0)]
    for outputs in (OUTPUTS, {"level": "gaussian"}):
        expected = data_of(
            X[2:], Y[2:], outputs, exposure=exposure[2:], sample_weight=np.ones(10)
        )
        found = data_of(odd_X, odd_Y, outputs, exposure=exposure, sample_weight=weight)
        assert_same(found, expected)
    # Messages still name the rows as they came.
    odd_X.loc["r5", "lon"] = np.inf
    refused("got inf in row 'r5', column 'lon'", odd_X, Y, sample_weight=weight)
    arrays, outputs = (odd_X.to_numpy(), Y.to_numpy()), list(OUTPUTS.values())
    refused("got inf in row 5, column 1", *arrays, outputs, sample_weight=weight)


def test_a_value_of_no_weight_is_missing_for_its_output(data_of):
    X, Y = make_frames()
    weight = {"calls": np.r_[0.0, np.ones(11)]}
    gappy = Y.assign(calls=Y["calls"].where(Y.index != "r0"))
    found = data_of(X, Y, sample_weight=weight)
    assert_same(found, data_of(X, gappy, sample_weight=np.ones(12)))


def test_whole_weights_scale_as_repeated_rows(rng):
    x, ys = rng.normal(size=(20, 2)), [rng.normal(size=20), rng.poisson(3.0, 20) * 1.0]
    ys[0][3] = np.nan
    times = np.arange(20) % 4
    names, likelihoods = ["a", "b"], [Gaussian(), Poisson()]
    weighted = observe(names, [x, x], ys, likelihoods, weights=[times * 1.0] * 2)
    rows = np.repeat(x, times, axis=0)
    again = observe(names, [rows, rows], [np.repeat(y, times) for y in ys], likelihoods)
    inputs, weights = weighted.weighted_inputs()
    found = standardising(
        inputs, weighted.ys, likelihoods, x_weights=weights, y_weights=weighted.weights
    )
    expected = standardising(again.distinct_inputs(), again.ys, likelihoods)
    for name in ("x_shift", "x_scale", "y_shift", "y_scale"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=1e-12)


# Predictions.


LABELS = np.array(["no", "yes"])


@pytest.fixture(scope="module")
def fitted():
    X, Y = make_frames()
    Y = Y.assign(open=LABELS[(np.arange(12) % 3 == 0).astype(int)])
    outputs = OUTPUTS | {"open": "bernoulli"}
    return mg.MotleyGP(outputs, **SETTINGS).fit(X, Y), X, Y


def test_given_values_and_exposures_follow_the_labels_of_new_rows(fitted):
    model, X, Y = fitted
    exposure = pd.Series(np.arange(1.0, 13.0), index=ROWS)
    expected = model.predict_dist(X, given=Y[["level"]], exposure=exposure)["calls"]
    moved = {"given": Y[["level"]].iloc[ORDER], "exposure": exposure.iloc[ORDER]}
    for inputs in (X, X.to_numpy()[ORDER]):
        found = model.predict_dist(inputs, **moved)["calls"].mean
        if inputs is not X:
            found = found[np.argsort(ORDER)]  # in the order of the given values
        np.testing.assert_allclose(found, expected.mean, rtol=1e-12)
    one, other = (model.predict(X, exposure=e) for e in (moved["exposure"], exposure))
    np.testing.assert_array_equal(one, other)
    assert model.nlpd(X, Y.iloc[ORDER]) == model.nlpd(X, Y)
    with pytest.raises(ValueError, match="must have the row labels of `X`"):
        model.predict_dist(X[:3], given=Y[["level"]][5:8])
    with pytest.raises(ValueError, match="got NaN in row 'r2', column 'lon'"):
        model.predict(X.assign(lon=X["lon"].where(X.index != "r2")))


def test_a_predictive_of_an_output_with_labels_takes_them(fitted):
    model, X, Y = fitted
    for bayesian in (False, 2):
        p = model.predict_dist(X, bayesian=bayesian)["open"]
        codes = (Y["open"] == "yes").to_numpy(float)
        assert p.classes == ("no", "yes") and p[:3].classes == p.classes
        np.testing.assert_array_equal(p.log_prob(Y["open"]), p.log_prob(codes))
        np.testing.assert_array_equal(p.cdf(Y["open"].tolist()), p.cdf(codes))
        for score in (mg.metrics.accuracy, mg.metrics.crps, mg.metrics.nlpd):
            assert score(p, Y["open"]) == score(p, codes)
        gone = np.ma.masked_array(codes, np.arange(12) == 0)
        assert np.isnan(p.log_prob(gone)).tolist() == [True] + [False] * 11
        with pytest.raises(ValueError, match=r"the classes \['no', 'yes'\]"):
            p.log_prob(["maybe"] * 12)


def test_rows_that_fill_a_chunk_are_not_counted(fitted, monkeypatch):
    model, X, _ = fitted
    original = functions.condition

    def stuck_at_the_top(mean, cov, outputs):
        y = outputs[0].y
        return original(mean, cov, outputs)._replace(stuck=y == y.max())

    monkeypatch.setattr(functions, "condition", stuck_at_the_top)
    with pytest.warns(UserWarning, match="^1 of 3 rows are predicted without"):
        model.predict_dist(X[:3], given={"level": [60.0, 50.0, 50.0]})


def test_imputed_columns_keep_their_types(fitted):
    model, X, Y = fitted
    types = {"calls": "Int64", "open": "category", "level": "float32"}
    Y = Y.astype(types)
    pd.testing.assert_frame_equal(model.impute(X, Y), Y)
    gappy = Y.copy()
    gappy.loc["r3", "open"] = gappy.loc["r4", "level"] = None
    gappy.loc["r5", "calls"] = pd.NA
    full = model.impute(X, gappy.iloc[ORDER])
    assert list(full.index) == [ROWS[i] for i in ORDER]
    assert full.notna().all(axis=None)
    assert full.dtypes.astype(str).to_dict() == {**types, "calls": "Float64"}
    filled = ["r3", "r4", "r5"]
    kept, expected = full.loc[ROWS].drop(index=filled), Y.drop(index=filled)
    pd.testing.assert_frame_equal(kept, expected, check_dtype=False)


def test_imputed_labels_may_be_given_as_numbers(fitted):
    model, X, Y = fitted
    codes = (Y["open"] == "yes") * 1.0
    gappy = Y.assign(open=codes.where(codes.index != "r3"))
    full = model.impute(X, gappy)["open"]
    assert full.dtype == float and full["r3"] in (0.0, 1.0)
    assert set(model.impute(X, Y.assign(open=np.nan))["open"]) <= {"no", "yes"}


def test_imputed_columns_of_polars_keep_their_types(fitted):
    model, X, Y = fitted
    Y = pl.DataFrame({name: Y[name].to_list() for name in Y})
    Y = Y.cast({"level": pl.Float32, "open": pl.Categorical})
    assert model.impute(X, Y).equals(Y)
    gappy = Y.with_columns(
        open=pl.when(pl.col("calls") > 3).then("open"),
        level=pl.when(pl.col("calls") > 3).then("level"),
    )
    full = model.impute(X, gappy)
    assert full.schema == Y.schema and full["open"].null_count() == 0


def test_imputed_bools_and_arrays_keep_their_types():
    gone = np.array([False, True, False])
    values = np.array([True, True, False], dtype=object)
    for y in (
        pd.Series([True, None, False], dtype="boolean"),
        pl.Series([True, None, False]),
    ):
        full = filling.filled(y, gone, values)
        assert full.dtype == y.dtype and full.to_list() == [True, True, False]
    bools = np.array([True, False, True])
    assert filling.filled(bools, np.zeros(3, bool), values).dtype == bool
    odd = pl.Series("a", [1.0, None, 3.0], dtype=pl.Object)
    full = filling.filled(odd, gone, np.array([9.0, 2.5, 9.0]))
    assert full.to_list() == [1.0, 2.5, 3.0] and full.name == "a"
    whole = np.ma.masked_array([1, 2, 3], gone)
    assert filling.filled(whole, gone, np.full(3, 4.0)).dtype == whole.dtype
    assert filling.filled(whole, gone, np.full(3, 4.5)).tolist() == [1.0, 4.5, 3.0]
    whole = pd.Series([1, None, 3], dtype="Int64")
    assert filling.filled(whole, gone, np.full(3, 4.0)).dtype == "Int64"


def test_whole_numbers_are_no_dates(fitted):
    model, X, Y = fitted
    dated = X.assign(lat=pd.date_range("2020", periods=12))
    table = frames.as_table(dated, Y)
    assert table.dates == [True, False]
    again = mg.MotleyGP(**SETTINGS)
    again.fitted_ = dataclasses.replace(model.fitted_, dates=tuple(table.dates))
    assert np.isfinite(again.predict(dated)).all(axis=None)
    days = X.assign(lat=18_000.5)  # days since 1970 remain numbers
    assert np.isfinite(again.predict(days)).all(axis=None)
    whole = X.assign(lat=20_200_101)
    for ask in (
        again.predict,
        lambda x: again.nlpd(x, Y),
        lambda x: again.nlpd(dict.fromkeys(Y, x), Y),
    ):
        with pytest.raises(ValueError, match="`X` must have dates in column 'lat'"):
            ask(whole)
    with pytest.raises(ValueError, match="`X` must have dates in column 'lat'"):
        again.predict(np.ones((3, 2), int))


def test_a_pipeline_keeps_frames_if_it_is_told_to(fitted):
    model, X, Y = fitted
    pipeline = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    pipeline[0].fit(X)
    assert list(pipeline.predict(X).columns) == list(Y.columns)


# Small things.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_state": -1}, "`random_state` must be None or a whole number from 0"),
        ({"random_state": 1.5}, "`random_state` must be None or a whole number from 0"),
        ({"checkpoint_dir": 5}, "`checkpoint_dir` must be a path or None; got 5"),
        ({"outputs": None}, "`outputs` must be 'auto', or name .*; got None"),
        ({"outputs": 5}, "`outputs` must be 'auto', or name .*; got 5"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    model = mg.MotleyGP(OUTPUTS, **SETTINGS).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(*make_frames())


@pytest.mark.parametrize(
    "Y", [pd.DataFrame(index=ROWS), {}, np.empty((12, 0)), np.empty((12, 100_000))]
)
def test_no_outputs_or_too_many_are_refused(Y):
    message = "`Y` must have at least one output and at most 10000, in its columns"
    refused(message, make_frames()[0], Y, "auto")


def test_columns_named_by_numbers_are_named_so_everywhere(data_of):
    X, Y = make_frames()
    expected = data_of(X, Y)
    numbered = Y.set_axis([0, 1], axis=1)
    found = data_of(X, numbered, {0: "gaussian", 1: "poisson"})
    assert_same(found, expected)
    assert_same(data_of({0: X, 1: X}, numbered, ["gaussian", "poisson"]), expected)
    weight = {0: np.ones(12), "1": np.ones(12)}
    assert data_of(X, numbered, ["gaussian", "poisson"], sample_weight=weight)


def test_no_draws_and_no_levels_are_refused(fitted):
    model, X, _ = fitted
    p = model.predict_dist(X)["level"]
    for draw in (model.sample, model.sample_latent):
        with pytest.raises(ValueError, match="`n` must be a whole number above 0"):
            draw(X, 0)
        with pytest.raises(ValueError, match="`random_state` must be None or a whole"):
            draw(X, 1, -1)
    with pytest.raises(ValueError, match="`n` must be a whole number above 0; got 0"):
        p.sample(0)
    with pytest.raises(ValueError, match="`levels` must be a list of numbers"):
        p.quantile([])
    with pytest.raises(ValueError, match=r"`X` must have shape \(N, P\)"):
        model.nlpd(5.0, {"level": [1.0]} | {"calls": [1], "open": ["no"]})


# One model per output.


class Recorder(BaseEstimator):
    """An estimator that keeps what it was asked."""

    def __init__(self, outputs="auto", start=None, checkpoint_dir=None):
        self.outputs, self.start = outputs, start
        self.checkpoint_dir = checkpoint_dir

    def fit(self, X, Y, **arguments):
        self.fitted_with = arguments
        ((self.name, entry),) = self.outputs.items()
        likelihood = mg.likelihoods.get(entry)
        self.model_ = type("Model", (), {"likelihoods": [likelihood]})
        return self

    def predict_dist(self, X, **arguments):
        self.asked_with = arguments
        return {}


def test_independent_models_take_what_the_joint_model_takes():
    X, Y = make_frames()
    exposure = np.arange(1.0, 13.0)
    alone = independent.IndependentGPs(Recorder(OUTPUTS))
    alone.fit(X, Y, exposure=exposure, sample_weight=Y.assign(level=1.0))
    level, calls = (alone.models_[name].fitted_with for name in Y)
    assert level["exposure"] is None and calls["exposure"]["calls"] is exposure
    assert list(level["sample_weight"]) == ["level"]
    alone.predict_dist(X, given=Y[["level"]], exposure=exposure)
    level, calls = (alone.models_[name].asked_with for name in Y)
    assert level["exposure"] is None and list(calls["exposure"])
    assert list(level["given"]) == ["level"] and calls["given"] is None
    with pytest.raises(ValueError, match="`given` must name the outputs"):
        alone.predict_dist(X, given={"heat": exposure})
    with pytest.raises(ValueError, match="must be for outputs that are counts"):
        alone.fit(X, Y, exposure={"level": exposure})
    with pytest.raises(ValueError, match="`Y` must have at least one output"):
        alone.fit(X, Y[[]])
