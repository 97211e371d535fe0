"""The remarks of a report on one output, whose predictions and values are known."""

import re

import numpy as np
import pytest

from motleygp.likelihoods import Bernoulli, Gaussian
from motleygp.prediction.predictive import Predictive
from motleygp.prediction.seen import see
from motleygp.reporting import _facts, _figures, _remarks

pytestmark = pytest.mark.usefixtures("quick_compilation")


def output(likelihood, y, p, **changes) -> _facts.Output:
    """An output whose predictions and values are known."""
    n = len(y)
    seen = see(y, likelihood, None)
    scored = _facts._scored(
        [str(row) for row in range(n)],
        np.zeros((n, 1)),
        y,
        p,
        seen.log_prob(y, np.ones(n)),
        None,
    )
    fields = {
        "name": "rain",
        "likelihood": likelihood,
        "functions": (0,),
        "classes": None,
        "seen": seen,
        "choice": None,
        "scored": scored,
    }
    return _facts.Output(**(fields | changes))


def said(own: _facts.Output) -> str:
    assert own.scored is not None
    found = [
        *_remarks._of_output(own),
        *_remarks._of_scores(own.name, own.scored),
        *_remarks._of_calibration(own, own.scored),
        *_remarks._of_slips(own, own.scored),
    ]
    return " | ".join(remark.text for remark in found)


def probabilities(rng, n=3000) -> tuple[np.ndarray, Predictive]:
    p = rng.uniform(0.02, 0.98, size=n)
    logit = np.log(p / (1 - p))
    return p, Predictive(Bernoulli(), logit[None], np.full((1, n), 1e-12))


def test_calibrated_probabilities_are_passed_over(rng):
    p, predictive = probabilities(rng)
    y = (rng.random(len(p)) < p).astype(float)
    assert said(output(Bernoulli(), y, predictive)) == ""


def test_probabilities_that_are_off_above_a_value_are_named(rng):
    p, predictive = probabilities(rng)
    truth = np.where(p > 0.8, p - 0.3, p)
    y = (rng.random(len(p)) < truth).astype(float)
    text = said(output(Bernoulli(), y, predictive))
    assert re.search(r"rain is badly calibrated above 0\.(79|8)", text)
    assert "the predicted probability of 1 is" in text and "below" not in text


def test_probabilities_beyond_1_by_rounding_are_taken_as_1():
    """Means of 1 + 2e-16, as the weights of a quadrature give."""

    class Certain(Predictive):
        def inner_moments(self):
            return np.stack([np.full(len(self), np.nextafter(1.0, 2.0))] * 2)

    p = Certain(Bernoulli(), np.full((1, 50), 50.0), np.full((1, 50), 1e-12))
    y = np.r_[np.zeros(2), np.ones(48)]
    own = output(Bernoulli(), y, p)
    assert "the predicted probability of 1 is 100" in said(own)
    (figure,) = _figures.calibration(own)
    assert all(v is not None for v in figure.data[0]["error_y"]["arrayminus"])


def gaussian(rng, spread=1.0, shift=0.0, n=1000):
    mean = 3.0 * rng.normal(size=n)
    y = mean + shift + spread * rng.normal(size=n)
    p = Predictive(Gaussian(1.0), mean[None], np.full((1, n), 1e-12))
    return output(Gaussian(1.0), y, p)


def test_right_intervals_are_passed_over(rng):
    assert said(gaussian(rng)) == ""


@pytest.mark.parametrize(
    "spread, wrong", [(1.6, "too narrow"), (0.5, "too wide")], ids=["narrow", "wide"]
)
def test_wrong_intervals_are_named(rng, spread, wrong):
    text = said(gaussian(rng, spread=spread))
    assert "rain is badly calibrated: its 95 % intervals contain" in text
    assert wrong in text


def test_predictions_off_to_one_side_are_named(rng):
    assert "values lie above the predicted median" in said(gaussian(rng, shift=0.4))
    assert "values lie below the predicted median" in said(gaussian(rng, shift=-0.4))


def test_a_slip_is_named_by_its_row(rng):
    own = gaussian(rng)
    y = own.scored.y.copy()
    y[17] += 40.0
    assert "rain in row 17 is" in said(output(Gaussian(1.0), y, own.scored.p))


def test_an_output_without_gain_is_named(rng):
    y = rng.normal(size=400)
    p = Predictive(Gaussian(1.0), rng.normal(size=(1, 400)), np.full((1, 400), 1e-12))
    text = said(output(Gaussian(1.0), y, p))
    assert "rain is not predicted better than by its overall distribution" in text


@pytest.mark.parametrize("rows", [[17], [17, 40]], ids=["one", "two"])
def test_few_rows_that_dominate_a_score_are_named(rng, rows):
    own = gaussian(rng)
    y = own.scored.y.copy()
    y[rows] = own.scored.mean[rows] + 31.1
    bad = output(Gaussian(1.0), y, own.scored.p)
    cost = f"{-bad.scored.log_prob[17]:,.0f} nats"
    text = said(bad)
    assert f"row 17 costs {cost}" in text and (len(rows) > 1) == ("row 40" in text)
    kept = np.delete(bad.scored.log_prob, rows)
    with_them, without = -bad.scored.log_prob.mean(), -kept.mean()
    them = "it" if len(rows) == 1 else "them"
    assert f"NLPD is {with_them:.4g} with {them} and {without:.4g} without" in text
    assert "better than by its overall distribution" not in text


def test_many_bad_rows_are_no_exceptions(rng):
    own = gaussian(rng)
    y = own.scored.y.copy()
    y[:100] += 20.0
    assert "dominated" not in said(output(Gaussian(1.0), y, own.scored.p))
    assert len(_remarks.dominant(np.full(50, np.inf))) == 0
    assert _remarks.dominant(np.r_[np.ones(50), np.inf]).tolist() == [50]


def test_impossible_values_are_counted(rng):
    own = gaussian(rng)
    lost = own.scored.log_prob.copy()
    lost[:7] = -np.inf
    text = said(own._replace(scored=own.scored._replace(log_prob=lost)))
    assert "7 of the 1000 values of rain are impossible" in text


def test_a_gain_within_its_error_does_not_contradict_its_scores(rng):
    """Some rows lose what the others gain; they are too many to be exceptions."""
    gain = np.ones(400)
    gain[:33] = -10.5
    scored = gaussian(rng, n=400).scored
    scored = scored._replace(log_marginal=scored.log_prob - gain)
    (text,) = [r.text for r in _remarks._of_scores("rain", scored)]
    assert text.startswith("rain may not be predicted better")
    assert "its gain of 0.051 has a standard error of 0.16" in text


def test_a_better_model_of_one_output_is_named(rng):
    own = gaussian(rng)
    better = own.scored.log_prob + 0.1 + 0.1 * rng.normal(size=len(own.scored.y))
    own = own._replace(scored=own.scored._replace(log_independent=better))
    assert "rain is predicted better by a model of its own" in said(own)


def test_few_values_and_rare_classes_are_named(rng):
    assert "rain has only 12 training values" in said(gaussian(rng, n=12))
    _, predictive = probabilities(rng, n=500)
    y = np.zeros(500)
    y[:3] = 1.0
    own = output(Bernoulli(), y, predictive, classes=("dry", "wet"))
    assert "rain is wet in only 0.6\u00a0% of the rows" in said(own)


def test_a_run_that_still_improves_is_noticed(rng):
    t = np.arange(1000.0)
    noise = rng.normal(size=1000)
    assert abs(_remarks.late_gain(1000.0 - t + noise) - 100.0) < 1.0
    assert _remarks.late_gain(1000.0 * np.exp(-t / 50.0) + noise) == 0.0
    assert _remarks.late_gain(np.ones(5)) == 0.0
