"""A fitted estimator beyond marginal predictions: draws, gaps, updates, starts."""

import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import motleygp as mg
from motleygp.prediction import Mixture
from motleygp.training import Report

pytestmark = pytest.mark.usefixtures("quick_compilation")

# A factorised q(u), because a test finds the variances of u from those of f.
SETTINGS = dict(
    num_inducing=8,
    posterior="factorised",
    max_iter=60,
    random_state=0,
    progress=False,
)
OUTPUTS = {"level": "gaussian", "calls": "poisson", "open": "bernoulli"}
NUM_ROWS = 60


def make_frames() -> tuple[np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(NUM_ROWS, 1))
    f = np.sin(6.0 * x[:, 0])
    open_ = rng.random(NUM_ROWS) < 1.0 / (1.0 + np.exp(-3.0 * f))
    frame = {
        "level": 50.0 + 10.0 * f + rng.normal(size=NUM_ROWS),
        "calls": rng.poisson(np.exp(1.0 + f)).astype(float),
        "open": np.where(open_, "yes", "no"),
    }
    return x, pd.DataFrame(frame)


def make_model(**settings) -> mg.MotleyGP:
    return mg.MotleyGP(OUTPUTS, **{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def fitted():
    return make_model().fit(*make_frames())


# Given other outputs.


def test_a_value_seen_in_a_row_moves_the_other_outputs_of_that_row_alone(fitted):
    x, _ = make_frames()
    plain = fitted.predict_dist(x[:4])
    high = plain["level"].mean + 8.0 * plain["level"].std
    given = fitted.predict_dist(x[:4], given={"level": [high[0], *[np.nan] * 3]})
    np.testing.assert_allclose(given["calls"].mean[1:], plain["calls"].mean[1:])
    moved = given["level"].mean[0] - plain["level"].mean[0]
    assert 0.0 < moved < high[0] - plain["level"].mean[0]
    assert abs(given["calls"].mean[0] - plain["calls"].mean[0]) > 1e-3
    assert (given["calls"].f_var[:, 0] < plain["calls"].f_var[:, 0]).all()


def test_given_one_real_output_the_rows_follow_the_normal_rule(fitted):
    x, Y = make_frames()
    p = fitted.parameters()
    given = fitted.predict_dist(x[:5], given=Y[["level"]][:5])
    mean, var = (
        np.concatenate([moments[i] for moments in fitted.latent(x[:5]).values()], 1)
        for i in (0, 1)
    )
    # f = W u, and the variances of u follow from those of f by least squares.
    W = p["weights"]
    u = np.linalg.lstsq(W**2, var.T, rcond=None)[0]
    cov = np.einsum("jq,qn,iq->nji", W, u, W)
    y = (Y["level"][:5].to_numpy() - p["output_shift"][0]) / p["output_scale"][0]
    gain = cov[:, :, 0] / (cov[:, 0, 0] + p["noise"]["level"] ** 2)[:, None]
    expected = mean + gain * (y - mean[:, 0])[:, None]
    np.testing.assert_allclose(given["calls"].f_mean[0], expected[:, 1], atol=1e-6)
    np.testing.assert_allclose(given["open"].f_mean[0], expected[:, 2], atol=1e-6)


def test_imputing_fills_what_is_missing_and_keeps_the_rest(fitted):
    x, Y = make_frames()
    holes = Y.copy()
    holes.loc[::3, "level"] = np.nan
    holes.loc[1::3, "open"] = None
    full = fitted.impute(x, holes)
    assert full.notna().all().all() and list(full.columns) == list(Y.columns)
    kept = holes.notna()
    assert (full[kept] == Y[kept])[kept].fillna(True).all().all()
    assert set(full["open"]) <= {"yes", "no"}
    p = fitted.predict_dist(x, given=holes)
    np.testing.assert_allclose(full["level"][::3], p["level"].mean[::3])
    # Outputs that are not there at all are added; other forms stay what they are.
    added = fitted.impute(x, {"level": Y["level"].to_numpy()})
    assert set(added) == set(Y.columns) and isinstance(added, dict)
    numbers = make_frames()[1].assign(open=np.nan)[["level", "calls", "open"]]
    clone_of = fitted.impute(x, numbers)
    np.testing.assert_array_equal(clone_of["calls"], Y["calls"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"heat": np.zeros(2)},
            r"`Y` must have the outputs \['level', 'calls', 'open'\]",
        ),
        (
            {"level": np.zeros(3)},
            "'level' must have one value per row of `X`, 2; got 3",
        ),
        (
            {"calls": np.array([0.5, 1])},
            "'calls' must be 0, 1, 2, .*; got 0.5 in row 0",
        ),
        ({"open": ["maybe", "no"]}, r"must hold the classes \['no', 'yes'\] of `fit`"),
    ],
)
def test_wrong_values_are_refused_by_name(fitted, given, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict_dist(np.zeros((2, 1)), given=given)


# Draws.


def test_joint_draws_have_the_marginals_and_vary_together(fitted):
    x = np.array([[0.3], [0.3005], [0.9]])
    draws = fitted.sample_latent(x, 4000, random_state=1)
    mean, var = fitted.latent(x)["level"]
    own = draws["level"]
    assert own.shape == (4000, 3, 1)
    np.testing.assert_allclose(
        own.mean(axis=0), mean, atol=5 * np.sqrt(var.max() / 4000)
    )
    np.testing.assert_allclose(own.var(axis=0), var, rtol=0.15)
    assert np.corrcoef(own[:, 0, 0], own[:, 1, 0])[0, 1] > 0.99
    outputs = fitted.sample(x, 4000, random_state=1)
    p = fitted.predict_dist(x)
    for name, values in outputs.items():
        error = 5 * p[name].std.max() / np.sqrt(4000)
        np.testing.assert_allclose(values.mean(axis=0), p[name].mean, atol=error)
    assert set(np.unique(outputs["open"])) == {0.0, 1.0}
    np.testing.assert_array_equal(
        outputs["calls"], fitted.sample(x, 4000, random_state=1)["calls"]
    )
    with pytest.raises(
        ValueError, match="at most 8192 rows to be drawn jointly; got 9000"
    ):
        fitted.sample(np.zeros((9000, 1)))


# Over the posterior of theta.


def test_bayesian_predictions_average_over_draws_of_theta(fitted):
    x, Y = make_frames()
    p = fitted.predict_dist(x[:6], bayesian=5)["calls"]
    assert isinstance(p, Mixture) and len(p.components) == 5 and len(p) == 6
    means = np.stack([c.mean for c in p.components])
    assert np.ptp(means, axis=0).min() > 0.0
    np.testing.assert_allclose(p.mean, means.mean(axis=0))
    variances = np.mean([c.variance for c in p.components], axis=0) + means.var(axis=0)
    np.testing.assert_allclose(p.variance, variances)
    y = Y["calls"][:6].to_numpy()
    densities = np.mean([np.exp(c.log_prob(y)) for c in p.components], axis=0)
    np.testing.assert_allclose(p.log_prob(y), np.log(densities))
    q = p.quantile([0.1, 0.9])
    assert (p.cdf(q[:, 1]) >= 0.9).all() and (p.cdf(q[:, 1] - 1.0) < 0.9).all()
    level = fitted.predict_dist(x[:6], bayesian=5)["level"]
    np.testing.assert_allclose(level.cdf(level.quantile(0.3)[:, 0]), 0.3, atol=1e-8)
    draws = level[:2].sample(20_000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), level.mean[:2], atol=0.1)
    again = fitted.predict(x[:6], bayesian=5)
    np.testing.assert_allclose(again[:, 0], level.mean)
    assert mg.metrics.crps(level, Y["level"][:6].to_numpy()) > 0.0


# Weights and exposures.


def test_exposures_multiply_the_counts(fitted):
    x, Y = make_frames()
    exposure = np.linspace(1.0, 5.0, NUM_ROWS)
    once, more = fitted.predict(x), fitted.predict(x, exposure=exposure)
    np.testing.assert_allclose(more[:, 1], exposure * once[:, 1], rtol=1e-10)
    np.testing.assert_array_equal(more[:, [0, 2]], once[:, [0, 2]])
    p = fitted.predict_dist(x, exposure={"calls": exposure})["calls"]
    np.testing.assert_allclose(p.mean, more[:, 1])
    nlpd = fitted.nlpd(x, Y, exposure={"calls": exposure})
    expected = -np.mean(p.log_prob(Y["calls"].to_numpy()))
    np.testing.assert_allclose(nlpd["calls"], expected)
    scores = fitted.metrics(x, Y, exposure=exposure)
    np.testing.assert_allclose(scores.loc["calls", "nlpd"], expected)
    draws = fitted.sample(x[:1], 4000, random_state=0, exposure=np.array([100.0]))
    np.testing.assert_allclose(draws["calls"].mean(), 100.0 * once[0, 1], rtol=0.1)


@pytest.mark.slow
def test_rows_counted_for_longer_do_not_look_busier():
    x, _ = make_frames()
    rng = np.random.default_rng(1)
    exposure = np.where(x[:, 0] < 0.5, 10.0, 1.0)
    calls = pd.DataFrame({"calls": rng.poisson(4.0 * exposure).astype(float)})
    model = mg.MotleyGP({"calls": "poisson"}, **{**SETTINGS, "max_iter": 300})
    model.fit(x, calls, exposure=exposure)
    np.testing.assert_allclose(model.predict(x), 4.0, rtol=0.35)


@pytest.mark.slow
def test_rows_of_no_weight_do_not_count():
    # Nothing but their inputs matters: not for the units, the start or the steps.
    x, Y = make_frames()
    odd = Y.copy()
    odd.loc[:9, "level"] = 1e3
    odd.loc[:9, "calls"] = 1e4
    odd.loc[:9, "open"] = "yes"
    weight = np.r_[np.zeros(10), np.ones(NUM_ROWS - 10)]
    one, other = (
        make_model(max_iter=10).fit(x, frame, sample_weight=weight)
        for frame in (Y, odd)
    )
    np.testing.assert_array_equal(one.predict(x), other.predict(x))
    for name, value in one.parameters().items():
        np.testing.assert_array_equal(other.parameters()[name], value)
    assert one.seen_["calls"].observed == NUM_ROWS - 10


@pytest.mark.slow
def test_steps_from_a_given_start_do_not_see_rows_of_no_weight():
    x, Y = make_frames()
    odd = Y.copy()
    odd.loc[:9, "level"] = 1e3
    weight = np.r_[np.zeros(10), np.ones(NUM_ROWS - 10)]
    start = {"offset": np.zeros(1), "noise": {"level": 1.0}}
    start |= {"output_shift": [50.0], "output_scale": [10.0]}
    settings = {"max_iter": 2, "start": start}
    one, other = (
        mg.MotleyGP({"level": "gaussian"}, **{**SETTINGS, **settings}).fit(
            x, frame[["level"]], sample_weight={"level": weight}
        )
        for frame in (Y, odd)
    )
    np.testing.assert_array_equal(one.predict(x), other.predict(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sample_weight": np.ones(3)},
            "`sample_weight` must have one number per row, 60",
        ),
        (
            {"sample_weight": -np.ones(60)},
            "`sample_weight` must be finite and not negative",
        ),
        ({"sample_weight": np.zeros(60)}, "must be above 0 for some observed value of"),
        (
            {"sample_weight": {"heat": np.ones(60)}},
            "must name the outputs .*; got 'heat'",
        ),
        ({"sample_weight": ["a"] * 60}, "`sample_weight` must hold numbers"),
        ({"exposure": np.zeros(60)}, "`exposure` must be finite and above 0"),
        ({"exposure": {"level": np.ones(60)}}, "must be for outputs that are counts"),
    ],
)
def test_wrong_weights_and_exposures_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_model().fit(*make_frames(), **arguments)


@pytest.mark.parametrize("exposure", [np.ones(60), {"level": np.ones(60)}, {}])
def test_an_exposure_needs_an_output_that_counts(exposure):
    x, Y = make_frames()
    with pytest.raises(ValueError, match=r"outputs that are counts, .* got 'level'"):
        mg.MotleyGP({"level": "gaussian"}, **SETTINGS).fit(
            x, Y[["level"]], exposure=exposure
        )


# Going on.


def test_what_is_fixed_stays_and_the_rest_moves(fitted):
    x, Y = make_frames()
    start = fitted.parameters()
    fixed = ("noise", "inducing", "offset", "lengthscale")
    model = make_model(fixed=fixed, start=start, max_iter=5).fit(x, Y)
    new = model.parameters()
    for name in ("inducing", "lengthscale", "offset"):
        np.testing.assert_allclose(new[name], start[name], rtol=1e-12)
    assert new["noise"] == pytest.approx(start["noise"], rel=1e-12)
    assert np.abs(new["weights"] - start["weights"]).max() > 0.0
    other = make_model(
        fixed=["weights"], start={"weights": start["weights"]}, max_iter=5
    )
    new = other.fit(x, Y).parameters()
    np.testing.assert_array_equal(new["weights"], start["weights"])
    assert np.abs(new["inducing"] - start["inducing"]).max() > 0.0


def test_training_goes_on_from_a_model_and_from_its_file(fitted, tmp_path):
    x, Y = make_frames()
    fitted.save(tmp_path / "m.motley")
    loaded = mg.load(tmp_path / "m.motley")
    loaded.set_params(start=loaded.parameters(), max_iter=5, progress=False)
    before = loaded.elbo(x, Y)
    loaded.fit(x, Y)
    # Its steps begin where the model is, not where a new fit begins.
    units = NUM_ROWS * np.log(loaded.scaling_.y_scale[0])
    np.testing.assert_allclose(-loaded.trace_["nelbo"][0] - units, before, atol=2.0)
    assert loaded.elbo(x, Y) > before - 2.0
    new = make_model(max_iter=5).fit(x, Y)
    assert new.elbo(x, Y) < before - 10.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fixed": ["kernel"]}, "`fixed` must name parameters among .*; got 'kernel'"),
        ({"fixed": "noise"}, "`fixed` must be a list of names; got 'noise'"),
        ({"fixed": ["smoothing"]}, "`fixed` must name parameters among"),
        ({"start": {"speed": 1.0}}, "`start` must name parameters among"),
        ({"start": {"offset": np.zeros(2)}}, r"`offset` must have shape \(3,\)"),
        (
            {"start": {"noise": {"calls": 1.0}}},
            r"`noise` must be a dict whose keys are outputs among \['level'\]; "
            r"got \['calls'\]",
        ),
        ({"start": {"noise": {"level": -1.0}}}, "`noise` must be positive"),
        ({"start": {"output_scale": np.ones(2)}}, r"`output_scale` must have shape"),
        (
            {"start": {"q_mean": np.zeros((3, 8))}},
            "must have both `q_mean` and `q_cov`",
        ),
        (
            {"start": {"q_mean": np.zeros((3, 8)), "q_cov": -np.ones((3, 8, 8))}},
            "`q_cov` must be positive definite",
        ),
    ],
)
def test_wrong_starts_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_model(**settings).fit(*make_frames())


@pytest.mark.slow
def test_new_rows_are_absorbed_and_the_old_ones_kept():
    x, Y = make_frames()
    # Of the whole range: where there are no inducing points, q(u) can learn nothing.
    left = np.arange(NUM_ROWS) < 15
    model = make_model(max_iter=200).fit(x[left], Y[left])
    before = model.predict_dist(x)["level"]
    parameters = model.parameters()
    assert model.partial_fit(x[~left], Y[~left]) is model
    after = model.predict_dist(x)["level"]
    y = Y["level"].to_numpy()
    assert after.log_prob(y)[~left].mean() > before.log_prob(y)[~left].mean() + 0.1
    assert after.log_prob(y)[left].mean() > before.log_prob(y)[left].mean() - 0.3
    assert (after.f_var <= before.f_var + 1e-6).all()
    np.testing.assert_array_equal(model.parameters()["weights"], parameters["weights"])
    # One row, without some outputs.
    model.partial_fit(x[:1], Y[["calls", "level"]][:1].assign(level=np.nan))
    with pytest.raises(ValueError, match="`Y` must have observed values; got none"):
        model.partial_fit(x[:1], {"level": [np.nan]})


def test_a_fit_that_fails_leaves_the_model_as_it_was(fitted):
    x, Y = make_frames()
    before = fitted.predict(x)
    with pytest.raises(ValueError, match="'level' must vary"):
        fitted.fit(np.hstack([x, x]), Y.assign(level=1.0))
    with pytest.raises(ValueError, match="`outputs` must name the columns"):
        fitted.fit(np.hstack([x, x]), {"heat": Y["level"]})
    np.testing.assert_array_equal(fitted.predict(x), before)
    assert fitted.output_names_ == list(Y.columns) and fitted.n_features_in_ == 1
    with pytest.raises(ValueError, match="`Y` must have observed values; got none"):
        fitted.elbo(x, Y.assign(level=np.nan, calls=np.nan, open=None))


def test_the_first_partial_fit_is_a_fit(fitted):
    model = make_model().partial_fit(*make_frames())
    x, _ = make_frames()
    np.testing.assert_array_equal(model.predict(x), fitted.predict(x))


def test_a_callback_sees_the_run_and_may_end_it(caplog):
    seen = []

    def stop(report: Report) -> bool:
        seen.append((report.iteration, report.horizon, len(report.info.nelbo)))
        return True

    with caplog.at_level(logging.DEBUG, logger="motleygp"):
        model = make_model(restarts=2).fit(*make_frames(), callback=stop)
    assert seen == [(50, 60, 50)] * 2 and model.ended_ == "callback"
    said = [record.getMessage() for record in caplog.records]
    plan = "M = 8, 60 rows a step"
    assert f"fitting 3 outputs with 2 start(s) of 60 iterations: {plan}" in said
    assert any(text.startswith("iteration 50 of 60: -ELBO") for text in said)
    assert any("ended after 50 iterations (callback)" in text for text in said)


# Inspection.


def test_weights_and_lengthscales_have_names_and_units(fitted):
    weights, scales = fitted.weights(), fitted.lengthscales()
    p = fitted.parameters()
    np.testing.assert_array_equal(weights, p["weights"])
    assert list(weights.index)[1:] == [
        "calls: log rate",
        "open: logit of the probability",
    ]
    assert list(weights.columns) == list(scales.index) == ["u1", "u2", "u3"]
    np.testing.assert_array_equal(scales, p["lengthscale"])
    assert list(scales.columns) == ["x0"]


# Scores in other units, and the baseline.


def test_the_standardised_nlpd_is_that_of_standardised_values(fitted):
    x, Y = make_frames()
    plain, inner = fitted.nlpd(x, Y), fitted.nlpd(x, Y, standardized=True)
    scale = fitted.parameters()["output_scale"][0]
    np.testing.assert_allclose(inner["level"], plain["level"] - np.log(scale))
    assert inner["calls"] == plain["calls"]


@pytest.mark.slow
def test_independent_models_share_nothing(tmp_path):
    x, Y = make_frames()
    start = {"offset": np.zeros(3)}  # of all outputs together: not for one alone
    alone = make_model(max_iter=20, start=start, checkpoint_dir=tmp_path).independent()
    assert clone(alone).estimator.max_iter == 20
    alone.fit(x, Y, exposure={"calls": np.full(NUM_ROWS, 2.0)})
    assert list(alone.models_) == list(Y.columns)
    assert len(list(tmp_path.glob("output*/checkpoint.motley"))) == 3
    single = mg.MotleyGP({"open": "bernoulli"}, **{**SETTINGS, "max_iter": 20})
    single.fit(x, Y[["open"]])
    np.testing.assert_array_equal(alone.predict(x)[:, 2], single.predict(x)[:, 0])
    np.testing.assert_array_equal(
        alone.predict_proba(x)["open"], single.predict_proba(x)["open"]
    )
    assert alone.nlpd(x, Y)["open"] == single.nlpd(x, Y[["open"]])["open"]
    scores = alone.metrics(x, Y)
    np.testing.assert_allclose(-alone.score(x, Y), scores["nlpd"].mean())
    frame = alone.predict(pd.DataFrame(x, columns=["x0"]))
    assert list(frame.columns) == list(Y.columns)
    dist = alone.predict_dist(x, exposure={"calls": np.full(NUM_ROWS, 2.0)})
    np.testing.assert_allclose(dist["calls"].mean, 2.0 * alone.predict(x)[:, 1])
    with pytest.raises(ValueError, match="`Y` must have the outputs"):
        alone.nlpd(x, Y[["open"]])


# Many rows.


def test_many_rows_show_how_far_they_are(fitted, monkeypatch, capsys):
    x = np.random.default_rng(0).random((9000, 1))
    quiet = fitted.predict(x)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(mg.progress, "_MANY_ROWS", 5000)
    monkeypatch.setattr(fitted, "progress", True)
    np.testing.assert_array_equal(fitted.predict(x), quiet)
    assert "9,000 / 9,000 rows" in capsys.readouterr().err
    p = fitted.predict_dist(x)["calls"]
    assert "9,000 / 9,000 rows" in capsys.readouterr().err
    np.testing.assert_allclose(p.mean, quiet[:, 1])
    np.testing.assert_array_equal(p[5000:5003].mean, p.mean[5000:5003])
    np.testing.assert_array_equal(p[7].quantile(0.5), p.quantile(0.5)[7:8])


MILLION = """
import resource, sys
import numpy as np
import motleygp as mg

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

model = mg.load(sys.argv[1])
before = peak()
X = np.random.default_rng(0).random((1_000_000, 1))
assert model.predict(X).shape == (1_000_000, 3)
p = model.predict_dist(X)
assert all(np.isfinite(own.std).all() for own in p.values())
print(peak() - before)
"""


@pytest.mark.slow
def test_a_million_rows_fit_in_a_gigabyte(fitted, tmp_path):
    fitted.save(tmp_path / "m.motley")
    run = subprocess.run(
        [sys.executable, "-c", MILLION, str(tmp_path / "m.motley")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 1024.0
