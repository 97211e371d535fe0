"""`MotleyGP` from a user's side: forms of data, units, errors."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import motleygp as mg
from motleygp import optim
from motleygp.prediction import inspection

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_ROWS = 60
SETTINGS = {"num_inducing": 8, "max_iter": 30, "batch_size": 32, "progress": False}
OUTPUTS = {"price": "hetgaussian", "flat": "bernoulli", "calls": "poisson"}


def make_frames(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    x = rng.random((NUM_ROWS, 2))
    f = np.sin(5.0 * x[:, 0])
    X = pd.DataFrame(x, columns=["lat", "lon"])
    Y = pd.DataFrame(
        {
            "price": 100.0 + 10.0 * f + rng.normal(size=NUM_ROWS),
            "flat": (rng.random(NUM_ROWS) < 1.0 / (1.0 + np.exp(-3.0 * f))) * 1.0,
            "calls": rng.poisson(np.exp(1.0 + f)).astype(float),
        }
    )
    return X, Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = make_frames()
    model = mg.MotleyGP(OUTPUTS, random_state=0, **SETTINGS).fit(X, Y)
    return model, X, Y


def test_scores_are_minus_the_mean_log_density(fitted):
    model, X, Y = fitted
    scores = model.nlpd(X, Y)
    predictions = model.predict_dist(X)
    for name in OUTPUTS:
        expected = -np.mean(predictions[name].log_prob(Y[name]))
        np.testing.assert_allclose(scores[name], expected, rtol=1e-12)
    np.testing.assert_allclose(model.score(X, Y), -np.mean(list(scores.values())))


def test_predictions_keep_the_form_of_the_inputs(fitted):
    model, X, _ = fitted
    frame = model.predict(X.iloc[5:9])
    assert list(frame.columns) == list(OUTPUTS) and list(frame.index) == [5, 6, 7, 8]
    array = model.predict(X.to_numpy()[5:9])
    assert isinstance(array, np.ndarray)
    np.testing.assert_allclose(array, frame.to_numpy())
    shuffled = model.predict(X[["lon", "lat"]].iloc[5:9])
    np.testing.assert_allclose(shuffled.to_numpy(), array)
    assert 80.0 < frame["price"].mean() < 120.0
    assert frame["flat"].between(0, 1).all()


def test_predictions_do_not_depend_on_the_rows_beside_them(fitted):
    # More rows than a chunk holds, and a last chunk that is not full.
    model, X, _ = fitted
    many = np.tile(X.to_numpy(), (50, 1))
    whole = model.predict(many)
    np.testing.assert_allclose(whole[-NUM_ROWS:], model.predict(X.to_numpy()))


def test_trace_has_one_entry_per_iteration(fitted):
    model, _, _ = fitted
    lengths = {len(values) for values in model.trace_.values()}
    assert lengths == {SETTINGS["max_iter"]}
    assert model.ended_ == "horizon" and model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["lat", "lon"]


def test_the_scheme_depends_on_the_numbers_of_rows_and_values(fitted):
    model, _, _ = fitted
    # Four functions and as many latent processes; three outputs without gaps.
    few = {"share": 32 / NUM_ROWS, "weights_per_value": 4 * 4 / (3 * NUM_ROWS)}
    assert model.fitted_.scheme == optim.usual("fng", **few)


@pytest.mark.slow
def test_dicts_lists_and_frames_give_the_same_fit(fitted):
    model, X, Y = fitted
    x, columns = X.to_numpy(), {name: Y[name].to_numpy() for name in OUTPUTS}
    expected = model.predict(x)
    forms = [
        (x, columns, OUTPUTS),
        ({name: x for name in OUTPUTS}, columns, OUTPUTS),
        ([x] * 3, list(columns.values()), list(OUTPUTS.values())),
        (x, Y.to_numpy(), list(OUTPUTS.values())),
    ]
    for inputs, outputs, likelihoods in forms:
        other = mg.MotleyGP(likelihoods, random_state=0, **SETTINGS)
        other.fitted_ = model.fitted_
        assert list(other.feature_names_in_) == ["lat", "lon"]
        other.fit(inputs, outputs)
        assert not hasattr(other, "feature_names_in_")
        np.testing.assert_allclose(other.predict(x), expected, rtol=1e-9)
    assert other.output_names_ == ["y0", "y1", "y2"]


def test_missing_values_are_left_out_for_their_output_alone(fitted):
    _, X, Y = fitted
    gappy = Y.astype({"calls": "Int64"})
    gappy.loc[3:20, "price"] = np.nan
    gappy.loc[5, "calls"] = pd.NA
    model = mg.MotleyGP(OUTPUTS, random_state=0, **SETTINGS).fit(X, gappy)
    price = gappy["price"].to_numpy()
    calls = gappy["calls"].to_numpy(dtype=float, na_value=np.nan)
    columns = {"price": price, "flat": Y["flat"].to_numpy(), "calls": calls}
    seen = {name: ~np.isnan(y) for name, y in columns.items()}
    assert [int(rows.sum()) for rows in seen.values()] == [42, 60, 59]
    # The bound is that of the observed rows alone, given as each output's own inputs.
    alone = model.elbo(
        {name: X.to_numpy()[rows] for name, rows in seen.items()},
        {name: y[seen[name]] for name, y in columns.items()},
    )
    np.testing.assert_allclose(model.elbo(X, gappy), alone, rtol=1e-12)
    log_prob = model.predict_dist(X)["price"].log_prob(price)
    assert np.isnan(log_prob[3:21]).all() and np.isfinite(log_prob[21:]).all()
    np.testing.assert_allclose(model.nlpd(X, gappy)["price"], -np.nanmean(log_prob))


def test_units_change_nothing_but_the_units(fitted):
    model, X, Y = fitted
    scaled = mg.MotleyGP(OUTPUTS, random_state=0, **SETTINGS)
    scaled.fit(1024.0 * X, Y.assign(price=0.25 * Y["price"]))
    before, after = model.predict_dist(X), scaled.predict_dist(1024.0 * X)
    np.testing.assert_array_equal(0.25 * before["price"].mean, after["price"].mean)
    np.testing.assert_allclose(
        before["price"].log_prob(Y["price"]) - np.log(0.25),
        after["price"].log_prob(0.25 * Y["price"]),
    )
    elbo = scaled.elbo(1024.0 * X, Y.assign(price=0.25 * Y["price"]))
    np.testing.assert_allclose(elbo, model.elbo(X, Y) - NUM_ROWS * np.log(0.25))
    np.testing.assert_allclose(
        scaled.parameters()["lengthscale"], 1024.0 * model.parameters()["lengthscale"]
    )


@pytest.mark.slow
def test_fixed_noise_is_in_the_users_units(fitted):
    _, X, Y = fitted
    outputs = {"price": mg.likelihoods.Gaussian(2.0, fixed=True)}
    model = mg.MotleyGP(outputs, random_state=0, **SETTINGS).fit(X, Y[["price"]])
    inside = model.parameters()["noise"]["price"]
    np.testing.assert_allclose(inside * model.scaling_.y_scale[0], 2.0)


def test_zero_offsets_stay_zero(fitted):
    _, X, Y = fitted
    model = mg.MotleyGP(OUTPUTS, offset="zero", random_state=0, **SETTINGS)
    model.fit(X, Y)
    np.testing.assert_array_equal(model.parameters()["offset"], np.zeros(4))


def test_ranks_make_copies(fitted):
    _, X, Y = fitted
    model = mg.MotleyGP(
        OUTPUTS, num_latents=2, rank=(2, 1), random_state=0, **SETTINGS
    ).fit(X, Y)
    parameters = model.parameters()
    assert parameters["inducing"].shape == (3, 8, 2)
    assert parameters["lengthscale"].shape == (2, 2)
    assert parameters["weights"].shape == (4, 3)
    assert parameters["q_mean"].shape == (3, 8)
    assert parameters["q_cov"].shape == (24, 24)


def test_columns_in_another_order_are_read_by_name(fitted):
    model, X, Y = fitted
    assert model.nlpd(X[["lon", "lat"]], Y) == model.nlpd(X, Y)
    assert model.elbo(X[["lon", "lat"]], Y) == model.elbo(X, Y)


def test_polars_frames(fitted):
    model, X, _ = fitted
    found = model.predict(pl.from_dict({name: X[name].to_numpy() for name in X}))
    assert isinstance(found, pl.DataFrame)
    np.testing.assert_array_equal(found.to_numpy(), model.predict(X).to_numpy())


def test_probabilities_and_metrics(fitted):
    model, X, Y = fitted
    proba = model.predict_proba(X)
    assert list(proba) == ["flat"]
    np.testing.assert_allclose(proba["flat"].sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba["flat"][:, 1], model.predict(X)["flat"])
    table = model.metrics(X, Y)
    assert list(table.index) == list(OUTPUTS)
    scores = model.nlpd(X, Y)
    for name in OUTPUTS:
        np.testing.assert_allclose(table.loc[name, "nlpd"], scores[name])
    error = model.predict(X)["price"] - Y["price"]
    np.testing.assert_allclose(table.loc["price", "rmse"], np.sqrt(np.mean(error**2)))
    assert np.isnan(table.loc["price", "accuracy"])
    assert 0.5 <= table.loc["flat", "accuracy"] <= 1.0


def test_what_the_model_says_of_itself(fitted, capsys):
    model, _, _ = fitted
    weights = model.parameters()["weights"]
    covariance = weights @ weights.T
    scale = np.sqrt(np.diag(covariance))
    correlation = model.correlation()
    np.testing.assert_allclose(correlation, covariance / np.outer(scale, scale))
    assert list(correlation)[-1].startswith("calls: ")
    # Slopes of a sum of EQ kernels: sum_q a^2 / l^2 over sum_q a^2.
    inverse = (model.scaling_.x_scale / model.parameters()["lengthscale"]) ** 2
    slopes = np.sqrt(weights**2 @ inverse / (weights**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.relevance(), slopes, rtol=1e-4)
    assert list(model.relevance()) == ["lat", "lon"]
    shown = model.summary()
    assert capsys.readouterr().out == ""
    print(shown)
    assert capsys.readouterr().out == f"{shown!r}\n"
    for text in (str(shown), shown._repr_html_()):
        assert "price: " in text and "varies most with" in text
        assert "4 latent processes: " in text and " shared by several outputs" in text


def test_a_summary_shows_names_as_they_are_and_says_which_label_is_true(fitted):
    model, *_ = fitted
    changed = dataclasses.replace(
        model.fitted_,
        outputs=("[b]price", "<i>", "calls"),
        classes=(None, ("house", "flat"), None),
    )
    shown = inspection.summary(changed)
    assert "[b]price: " in str(shown) and "of flat" in str(shown)
    assert "&lt;i&gt;: " in shown._repr_html_()


def test_a_summary_names_no_input_that_had_one_value(fitted):
    model, *_ = fitted
    constant = model.fitted_.input_range.copy()
    for place, others in ((0, "lon ("), (1, "nothing")):
        constant[1, place] = constant[0, place]
        changed = dataclasses.replace(model.fitted_, input_range=constant.copy())
        assert all(others in row[-1] for row in inspection.summary(changed).rows)


def test_likelihoods_can_be_inferred(capsys):
    X, Y = make_frames()
    settings = SETTINGS | {"progress": True, "max_iter": 2}
    model = mg.MotleyGP(random_state=0, **settings).fit(X, Y)
    chosen = {choice.name: choice.likelihood for choice in model.choices_}
    assert chosen == {"price": "hetgaussian", "flat": "bernoulli", "calls": "poisson"}
    some = mg.MotleyGP({"price": "gamma"}, random_state=0, **settings).fit(X, Y)
    assert [lik.name for lik in some.model_.likelihoods] == [
        "gamma",
        *list(OUTPUTS.values())[1:],
    ]
    assert [choice.name for choice in some.choices_] == ["flat", "calls"]
    assert "hetgaussian" in capsys.readouterr().err


def test_clone_and_params():
    model = mg.MotleyGP(OUTPUTS, num_inducing=7)
    assert clone(model).get_params() == model.get_params()


def test_latent_functions_have_offsets_and_shapes(fitted):
    model, X, _ = fitted
    latent = model.latent(X)
    assert latent["price"][0].shape == latent["price"][1].shape == (NUM_ROWS, 2)
    assert latent["flat"][0].shape == (NUM_ROWS, 1)
    # At inputs far from the data the functions fall back to their offsets.
    far = model.latent(np.full((1, 2), 1e6))
    offsets = np.concatenate([far[name][0][0] for name in OUTPUTS])
    np.testing.assert_allclose(offsets, model.parameters()["offset"], atol=1e-8)


X_GOOD = np.linspace(0, 1, 20)[:, None]
Y_GOOD = np.sin(X_GOOD[:, 0])
NARROW = 1.0 + 1e-7 * X_GOOD[:, 0]
NAN_X = np.where(np.arange(20)[:, None] == 7, np.nan, X_GOOD)


@pytest.mark.parametrize(
    ("outputs", "X", "Y", "message"),
    [
        (["gaussian"], NAN_X, Y_GOOD, "`X` must be finite; got NaN in row 7, column 0"),
        (["gaussian"], X_GOOD[:, 0], Y_GOOD, r"`X` must have shape \(N, P\)"),
        (["gaussian"], X_GOOD[:0], Y_GOOD[:0], "`X` must have rows and columns"),
        (["gaussian"], X_GOOD, Y_GOOD[:5], r"output 'y0' must have shape \(20,\)"),
        (["gaussian"], X_GOOD, Y_GOOD[:, None, None], r"`Y` must have shape \(N, D\)"),
        (["gaussian"], X_GOOD, np.ones(20), "output 'y0' must vary; every .* is 1"),
        (["gamma"], X_GOOD, NARROW, "deviation of at least 1e-06 .* or be gaussian"),
        (["beta"], X_GOOD, NARROW - 0.9, "at least 1e-07 for the beta .*; got 3e-08"),
        (["gaussian"], X_GOOD, np.full(20, np.nan), "output 'y0' must have observed"),
        (["gaussian"], X_GOOD, ["a"] * 20, "'y0' must hold numbers or two classes"),
        (["gaussian"], [["a"]], Y_GOOD, "`X` must hold numbers"),
        (["beta"], X_GOOD, Y_GOOD, "output 'y0' must be .* between 0 and 1 .* row 0"),
        (["poisson"], X_GOOD, Y_GOOD, "output 'y0' must be 0, 1, 2, .* and 18 more"),
        (["bernoulli"], X_GOOD, 2.0 * Y_GOOD, "output 'y0' must be 0 or 1 for the"),
        (["gamma"], X_GOOD, -Y_GOOD, "output 'y0' must be a positive number"),
        (["exponential"], X_GOOD, -Y_GOOD, "output 'y0' must be a number not below 0"),
        (["gaussian"], X_GOOD, np.where(Y_GOOD > 0.8, np.inf, Y_GOOD), "got inf"),
        (["student"], X_GOOD, Y_GOOD, "no likelihood is named 'student'; known: bern"),
        ([3], X_GOOD, Y_GOOD, "no likelihood is named 3"),
        (["gaussian"] * 2, X_GOOD, Y_GOOD, "`outputs` must have one entry per output"),
        ("gaussian", X_GOOD, Y_GOOD, "`outputs` must be 'auto', or name a likelihood"),
        ({"a": "gaussian"}, X_GOOD, {"b": Y_GOOD}, r"`outputs` must name the columns"),
        (
            ["gaussian"] * 2,
            [X_GOOD, np.ones((20, 2))],
            [Y_GOOD, Y_GOOD],
            "`X` must have the same columns for every output",
        ),
        (["gaussian"], [X_GOOD, X_GOOD], [Y_GOOD], "`X` must hold one matrix per"),
        (
            {"a": "gaussian"},
            {"b": X_GOOD},
            {"a": Y_GOOD},
            "`X` and `Y` must name the same outputs",
        ),
        (
            {"s": "gaussian"},
            X_GOOD,
            pd.DataFrame({"s": ["a"] * 20}),
            "output 's' must hold numbers",
        ),
    ],
)
def test_wrong_data_is_one_line_that_names_it(outputs, X, Y, message):
    with pytest.raises(ValueError, match=message) as caught:
        mg.MotleyGP(outputs, **SETTINGS).fit(X, Y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "dirichlet"}, "`prior` must be one of convolution, lmc; got"),
        ({"kernel": "linear"}, "`kernel` must be one of eq"),
        ({"optimizer": "newton"}, "`optimizer` must be one of fng, hybrid, adam, sgd"),
        ({"offset": 3}, "`offset` must be one of marginal, zero; got 3"),
        ({"num_inducing": 0}, "`num_inducing` must be a whole number above 0; got 0"),
        ({"max_iter": 1.5}, "`max_iter` must be a whole number above 0"),
        ({"batch_size": True}, "`batch_size` must be a whole number above 0"),
        ({"num_latents": -1}, "`num_latents` must be a whole number above 0"),
        ({"preset": "mine"}, "`preset` must be one of None, paper; got 'mine'"),
        ({"restarts": 0}, "`restarts` must be a whole number above 0"),
        ({"n_jobs": 0}, "`n_jobs` must be None or a whole number other than 0"),
        ({"validation_fraction": 0.9}, "`validation_fraction` must be between 0 and"),
        ({"validation_fraction": "a"}, "`validation_fraction` must be between 0 and"),
        ({"time_limit": -1}, "`time_limit` must be above 0 seconds; got -1"),
        ({"rank": 0}, "`rank` must be at least 1 for each of the 1 latent"),
        ({"rank": (1, 1)}, "`rank` must be at least 1 for each of the 1 latent"),
    ],
)
def test_wrong_settings_are_one_line_that_names_them(settings, message):
    with pytest.raises(ValueError, match=message):
        # `set_params`, because the tests check the types of `__init__`'s arguments.
        model = mg.MotleyGP(["gaussian"], **SETTINGS).set_params(**settings)
        model.fit(X_GOOD, Y_GOOD)


def test_wrong_new_data(fitted):
    model, X, Y = fitted
    with pytest.raises(
        ValueError, match="X has 1 features, but MotleyGP is expecting 2 features"
    ):
        model.predict(X_GOOD)
    with pytest.raises(ValueError, match="`X` must have the column 'lon'"):
        model.predict(X.rename(columns={"lon": "length"}))
    with pytest.raises(ValueError, match="`Y` must have the outputs"):
        model.nlpd(X, Y[["price"]])
    empty = Y.assign(flat=np.nan)
    with pytest.raises(ValueError, match="output 'flat' must have observed values"):
        model.nlpd(X, empty)
    with pytest.raises(Exception, match="not fitted yet"):
        mg.MotleyGP(OUTPUTS).predict(X)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"jitter": 1.0}, "`jitter` follows from the kernel and cannot be set; got 1"),
        ({"slope": 1.0}, "`slope` is not a parameter; known: inducing"),
        ({"offset": np.zeros(3)}, r"`offset` must have shape \(4,\); got \(3,\)"),
        (
            {"noise": {"price": 1.0}},
            r"`noise` is a parameter of no output of this model; got \['price'\]",
        ),
        ({"lengthscale": np.zeros((4, 2))}, "`lengthscale` must be positive"),
        ({"q_cov": -np.ones((32, 32))}, "`q_cov` must be positive definite"),
    ],
)
def test_wrong_parameters_are_refused_and_change_nothing(fitted, values, message):
    model, X, _ = fitted
    before = model.predict(X.to_numpy())
    with pytest.raises(ValueError, match=message):
        model.set_parameters(**values)
    np.testing.assert_array_equal(model.predict(X.to_numpy()), before)


FLAT = optim.schedule("constant_schedule", value=0.01)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"optimizer": "hybrid"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "adam"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "sgd"}, marks=pytest.mark.slow),
        pytest.param(
            {"preset": "paper", "optimizer": optim.paper("fng", step=0.001)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"optimizer": optim.fng(num_samples=2, alpha=FLAT)},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_scheme_trains_the_same_model(settings):
    X, Y = make_frames()
    model = mg.MotleyGP(OUTPUTS, random_state=0, **SETTINGS | settings).fit(X, Y)
    assert np.isfinite(model.score(X, Y))
    assert model.trace_["nelbo"][-1] < model.trace_["nelbo"][0]


def test_restarts_keep_the_best_and_every_trace():
    X, Y = make_frames()
    model = mg.MotleyGP(OUTPUTS, random_state=0, restarts=3, **SETTINGS).fit(X, Y)
    scores = [start["score"] for start in model.restarts_]
    assert len(set(scores)) == 3
    best = model.restarts_[int(np.argmin(scores))]
    assert best["trace"] is model.trace_
    # The bound is scored in the model's units; in the user's it differs by a constant.
    again = mg.MotleyGP(OUTPUTS, random_state=0, restarts=3, **SETTINGS).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_held_out_rows_choose_the_state_and_the_bar_shows_them(capsys):
    X, Y = make_frames()
    settings = SETTINGS | {"progress": True, "validation_fraction": 0.3}
    model = mg.MotleyGP(OUTPUTS, random_state=0, **settings).fit(X, Y)
    scores = model.trace_["held_out"]
    np.testing.assert_allclose(model.restarts_[0]["score"], np.nanmin(scores))
    shown = capsys.readouterr().err
    for word in ("training", "-ELBO", "held-out NLPD", "refused 0"):
        assert word in shown
