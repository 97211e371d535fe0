"""Pictures: what is on the axes, not how it looks."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from matplotlib.dates import num2date
from matplotlib.figure import Figure

from motleygp import MotleyGP, plotting
from motleygp.likelihoods import Bernoulli, Gaussian, Poisson
from motleygp.prediction import metrics
from motleygp.prediction.predictive import Predictive

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_ROWS = 60


@pytest.fixture
def ax():
    return Figure().subplots()


def at_rows(likelihood, f):
    """Predictions of a likelihood whose one function is known to be near f."""
    f = np.atleast_2d(np.asarray(f, dtype=float))
    return Predictive(likelihood, f, np.full_like(f, 1e-3))


@pytest.fixture
def gaussian(rng):
    """A Gaussian output and values drawn from it, some of them missing."""
    p = at_rows(Gaussian(noise=0.5), rng.normal(size=NUM_ROWS))
    y = p.sample(1, 0)[0]
    y[::7] = np.nan
    return p, y


@pytest.fixture
def binary(rng):
    p = at_rows(Bernoulli(), 2.0 * rng.normal(size=NUM_ROWS))
    return p, p.sample(1, 0)[0]


def band_of(collection):
    """The lowest and highest point of a filled band at each of its x."""
    corners = collection.get_paths()[0].vertices
    across = np.unique(corners[:, 0])
    ends = [corners[corners[:, 0] == x, 1] for x in across]
    return across, np.array([[y.min(), y.max()] for y in ends])


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# Curves.


def test_a_curve_shows_the_mean_and_the_interval_in_the_order_of_x(ax, rng):
    x = rng.permutation(20) / 20.0
    p = at_rows(Gaussian(noise=0.5), np.sin(x))
    assert plotting.predictive_curve(ax, x[:, None], p, coverage=0.8, label="y") is ax
    (line,) = ax.lines
    order = np.argsort(x)
    np.testing.assert_array_equal(line.get_xdata(), x[order])
    np.testing.assert_allclose(line.get_ydata(), p.mean[order])
    across, band = band_of(ax.collections[0])
    np.testing.assert_array_equal(across, x[order])
    np.testing.assert_allclose(band, p.interval(0.8)[order], rtol=1e-6)
    assert line.get_label() == "y"


def test_a_binary_output_is_a_probability_from_0_to_1(ax):
    p = at_rows(Bernoulli(), [3.0, 4.0])
    plotting.predictive_curve(ax, [0.0, 1.0], p)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), p.mean)
    assert not ax.collections and ax.get_ylabel() == "probability of 1"
    assert ax.get_ylim() == (-0.05, 1.05)


def test_the_band_of_a_count_goes_in_steps_between_whole_numbers(ax):
    p = at_rows(Poisson(), [-6.0, 1.0, 2.0])
    plotting.predictive_curve(ax, [0.0, 1.0, 2.0], p)
    corners = ax.collections[0].get_paths()[0].vertices
    assert {0.5, 1.5} <= set(corners[:, 0])
    assert set(corners[:, 1]) == set(p.interval().ravel())
    ticks = ax.get_yticks()
    np.testing.assert_array_equal(ticks, np.round(ticks))


def test_rows_along_one_input_hold_the_others_at_their_medians(ax):
    X = pd.DataFrame({"b": [0.0, 0.0, 1.0, 1.0], "a": [4.0, 1.0, 2.0, 9.0]})
    rows = plotting.along(X, "a", num=5)
    np.testing.assert_array_equal(rows["a"], [1.0, 3.0, 5.0, 7.0, 9.0])
    np.testing.assert_array_equal(rows["b"], np.zeros(5))
    p = Line().predict_dist(rows)["y"]
    plotting.predictive_curve(ax, rows, p)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), rows["a"])
    assert ax.get_xlabel() == "a (b = 0)"
    np.testing.assert_array_equal(plotting.along(X.to_numpy(), 1, num=5), rows)
    with pytest.raises(ValueError, match="`feature` must be one of"):
        plotting.along(X, "c")


def test_a_curve_over_two_inputs_that_vary_is_refused(ax, rng):
    X = pd.DataFrame(rng.uniform(size=(9, 2)), columns=["a", "b"])
    said = r"`x` must vary in one input only; got 'a' and 'b'.*take rows from `along`"
    with pytest.raises(ValueError, match=said):
        plotting.predictive_curve(ax, X, Line().predict_dist(X)["y"])


@pytest.mark.parametrize("output", ["y", "sign"])
def test_rows_that_vary_in_other_inputs_too_are_not_connected(ax, rng, output):
    X = rng.normal(size=(40, 2))
    p = Line().predict_dist(X)[output]
    plotting.predictive_curve(ax, X[:, 0], p)
    (dots,) = ax.lines
    assert dots.get_linestyle() == "None" and dots.get_marker() == "o"
    assert len(ax.collections) == (output == "y")
    # Also where an input repeats, however few rows there are.
    plotting.predictive_curve(ax, [0.0, 0.0, 1.0], at_rows(Gaussian(), [1.0, 2.0, 3.0]))
    assert ax.lines[1].get_linestyle() == "None"


def test_many_fixed_inputs_are_counted(ax):
    rows = plotting.along(np.arange(12.0).reshape(2, 6), 0, num=3)
    plotting.predictive_curve(ax, rows, at_rows(Gaussian(), np.zeros(3)))
    assert ax.get_xlabel() == "x0 (5 other inputs fixed)"


def test_dates_are_shown_as_dates(rng):
    days = pd.date_range("2023-01-01", periods=30, freq="D")
    X = pd.DataFrame({"day": days, "b": rng.uniform(size=30)})
    asked = []

    def predict_dist(rows):
        asked.append(rows)
        return {"y": at_rows(Gaussian(), np.linspace(0.0, 1.0, len(rows)))}

    model = SimpleNamespace(predict_dist=predict_dist)
    axes = Figure().subplots(5)
    p = at_rows(Gaussian(), np.arange(30.0))
    plotting.observations(axes[0], X["day"], np.arange(30.0))
    plotting.predictive_curve(axes[1], X[["day"]], p)
    plotting.predictive_curve(axes[2], days.to_numpy(), p)
    plotting.partial_dependence(axes[3], model, X, "day", "y", num=3)
    plotting.predictive_map(axes[4], X, p)
    # The model gets dates, as in the fit.
    assert asked[0]["day"].dtype.kind == "M"
    for each in axes:
        low, high = num2date(each.get_xlim())
        assert low.year in (2022, 2023) and high.year == 2023
    rows = plotting.along(X, "b", num=3)
    plotting.predictive_curve(axes[0], rows, predict_dist(rows)["y"])
    assert axes[0].get_xlabel() == "b (day = 2023-01-15)"


def test_observations_need_one_value_per_row(ax):
    with pytest.raises(ValueError, match=r"`y` must have one value per row of `x`, 3"):
        plotting.observations(ax, np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="`y` must hold numbers"):
        plotting.observations(ax, np.zeros(2), ["a", "b"])


class Line:
    """y = 2 a + b, and whether it is above zero; it needs its columns by name."""

    feature_names_in_ = np.array(["a", "b"], dtype=object)

    def predict_dist(self, X):
        if isinstance(X, pd.DataFrame):
            X = X[["a", "b"]].to_numpy()
        f = 2.0 * X[:, 0] + X[:, 1]
        return {"y": at_rows(Gaussian(), f), "sign": at_rows(Bernoulli(), f)}


@pytest.mark.parametrize("form", ["array", "frame", "frame in another order"])
def test_partial_dependence_averages_over_the_rows(ax, rng, form):
    X = rng.uniform(size=(30, 2))
    b = X[:, 1]
    given = X if form == "array" else pd.DataFrame(X, columns=["a", "b"])
    if form == "frame in another order":
        given = given[["b", "a"]]
    plotting.partial_dependence(ax, Line(), given, "a", "y", num=5)
    values = np.linspace(X[:, 0].min(), X[:, 0].max(), 5)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), values)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 2.0 * values + b.mean())
    _, band = band_of(ax.collections[0])
    spread = np.quantile(b, [0.1, 0.9])
    np.testing.assert_allclose(band, 2.0 * values[:, None] + spread)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "mean of y")


def test_partial_dependence_of_a_probability_by_number(ax, rng):
    model = Line()
    plotting.partial_dependence(ax, model, rng.normal(size=(9, 2)), 1, "sign", num=3)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "probability of sign")
    assert ax.get_ylim() == (-0.05, 1.05)


def test_partial_dependence_draws_from_many_rows(ax):
    asked = []

    def predict_dist(X):
        asked.append(X)
        return {"y": at_rows(Gaussian(), X[:, 0])}

    model = SimpleNamespace(predict_dist=predict_dist)
    X = np.arange(100.0)[:, None] * [1.0, 1.0]
    plotting.partial_dependence(ax, model, X, 0, "y", num=4, max_rows=10)
    assert asked[0].shape == (40, 2) and len(np.unique(asked[0][:, 1])) == 10
    assert ax.lines[0].get_xdata()[-1] == 99.0 and ax.get_xlabel() == "x0"


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"feature": "c"}, r"`feature` must be one of \['a', 'b'\].*got 'c'"),
        ({"feature": 2}, "`feature` must be one of .* from 0 to 1; got 2"),
        ({"output": "z"}, r"`output` must be one of \['y', 'sign'\]; got 'z'"),
        ({"num": 1}, "`num` must be at least 2; got 1"),
        ({"max_rows": 0}, "`max_rows` must be at least 1; got 0"),
        ({"X": np.zeros((0, 2))}, "`X` must have at least one row and column"),
    ],
)
def test_partial_dependence_names_what_is_wrong(ax, changed, said):
    given = {"X": np.ones((3, 2)), "feature": 0, "output": "y"} | changed
    with pytest.raises(ValueError, match=said):
        plotting.partial_dependence(ax, Line(), **given)


def test_the_estimator_draws_its_own_pictures(ax):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["a", "b"])
    model = MotleyGP(
        ["gaussian"],
        num_inducing=5,
        optimizer="adam",
        max_iter=3,
        random_state=0,
        progress=False,
    ).fit(X, X.sum(axis=1).to_numpy())
    plotting.partial_dependence(ax, model, X, "b", "y0", num=4, max_rows=5)
    assert np.isfinite(ax.lines[0].get_ydata()).all()
    figure = Figure()
    plotting.trace(figure.add_subplot(), model.trace_)
    plotting.heat_map(figure.add_subplot(), model.correlation())
    plotting.relevance_bars(figure.add_subplot(), model.relevance())
    plotting.inducing_points(figure.add_subplot(), model.parameters()["inducing"])


# Maps.


def grid_rows(rng):
    across, up = np.meshgrid([0.0, 1.0, 2.0], [0.0, 10.0])
    return rng.permutation(np.stack([across.ravel(), up.ravel()], axis=1))


def test_a_grid_is_drawn_cell_by_cell(ax, rng):
    x = pd.DataFrame(grid_rows(rng), columns=["east", "north"])
    p = at_rows(Gaussian(), x["east"] + x["north"])
    assert plotting.predictive_map(ax, x, p) is ax
    (mesh,) = ax.collections
    np.testing.assert_allclose(mesh.get_array(), [[0, 1, 2], [10, 11, 12]], atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("east", "north")
    assert ax.figure.axes[1].get_ylabel() == "mean"


def test_scattered_rows_are_corners_of_triangles(ax, rng):
    x = rng.uniform(size=(15, 2)) * [1.0, 1e4]
    p = at_rows(Poisson(), x[:, 0])
    plotting.predictive_map(ax, x, p, what="std")
    np.testing.assert_allclose(ax.collections[0].get_array(), p.std)
    assert ax.figure.axes[1].get_ylabel() == "standard deviation"


def test_probabilities_have_the_same_colours_on_every_map(ax, rng):
    p = at_rows(Bernoulli(), np.linspace(0.0, 0.1, 6))
    plotting.predictive_map(ax, grid_rows(rng), p)
    assert ax.collections[0].get_clim() == (0.0, 1.0)
    assert ax.figure.axes[1].get_ylabel() == "probability of 1"


def test_maps_name_what_is_wrong(ax):
    p = at_rows(Gaussian(), np.zeros(4))
    with pytest.raises(ValueError, match="`what` must be 'mean' or 'std'; got 'sd'"):
        plotting.predictive_map(ax, np.zeros((4, 2)), p, what="sd")
    with pytest.raises(ValueError, match=r"`x` must have two columns .*\(4, 3\)"):
        plotting.predictive_map(ax, np.zeros((4, 3)), p)
    with pytest.raises(ValueError, match="`x` must hold finite numbers; got nan"):
        plotting.predictive_map(ax, np.full((4, 2), np.nan), p)
    line = np.arange(4.0)[:, None] * [1.0, 2.0]
    with pytest.raises(ValueError, match="`x` must have three rows that are not on a"):
        plotting.predictive_map(ax, line, p)


def test_inducing_points_of_every_process(ax, rng):
    z = rng.uniform(size=(2, 5, 2))
    plotting.inducing_points(ax, z)
    np.testing.assert_array_equal(ax.collections[-1].get_offsets(), z.reshape(10, 2))
    assert ax.get_legend_handles_labels()[1] == ["inducing points"]


def test_inducing_points_of_one_input_leave_the_heights_alone(ax):
    ax.plot([0.0, 1.0], [100.0, 200.0])
    before = ax.get_ylim()
    plotting.inducing_points(ax, [[0.2], [0.4]])
    np.testing.assert_array_equal(ax.collections[0].get_offsets()[:, 0], [0.2, 0.4])
    assert ax.get_ylim() == before
    with pytest.raises(ValueError, match=r"`z` must have shape .* got \(5, 3\)"):
        plotting.inducing_points(ax, np.zeros((5, 3)))


# Calibration.


def test_the_reliability_curve_is_that_of_the_metrics(ax, binary):
    p, y = binary
    plotting.reliability_curve(ax, p, y, bins=5, label="won")
    expected = metrics.reliability(p, y, 5)
    drawn = ax.lines[-1]
    np.testing.assert_allclose(drawn.get_xdata(), expected.predicted)
    np.testing.assert_allclose(drawn.get_ydata(), expected.observed)
    bars = [segment[:, 1] for segment in ax.collections[0].get_segments()]
    chance = scipy.stats.binom(expected.count, expected.predicted)
    ends = np.stack(chance.interval(0.95), axis=1) / expected.count[:, None]
    np.testing.assert_allclose(bars, ends)
    assert ax.get_legend_handles_labels()[1] == ["won"]


def test_the_reliability_of_a_real_output_is_refused(ax, gaussian):
    with pytest.raises(
        ValueError, match="`predictive` must belong to a binary output; got gaussian"
    ):
        plotting.reliability_curve(ax, *gaussian)


def test_the_pit_histogram_has_the_counts_of_pit(ax, gaussian):
    p, y = gaussian
    plotting.pit_histogram(ax, p, y, bins=4)
    values = metrics.pit(p, y)
    values = values[~np.isnan(values)]
    count, _ = np.histogram(values, 4, (0.0, 1.0))
    bars = ax.containers[0]
    np.testing.assert_allclose([b.get_height() for b in bars], 4 * count / len(values))
    (band,) = (patch for patch in ax.patches if patch not in bars)
    low, high = scipy.stats.binom(len(values), 0.25).interval(0.95)
    np.testing.assert_allclose(
        [band.get_y(), band.get_y() + band.get_height()],
        [4 * low / len(values), 4 * high / len(values)],
    )
    with pytest.raises(ValueError, match="`bins` must be at least 2; got 1"):
        plotting.pit_histogram(ax, p, y, bins=1)


def test_the_coverage_curve_is_that_of_the_metrics(ax, gaussian):
    p, y = gaussian
    plotting.coverage_curve(ax, p, y)
    levels, shares = ax.lines[-1].get_data()
    for level, share in list(zip(levels, shares, strict=True))[5:100:10]:
        np.testing.assert_allclose(share, metrics.coverage(p, y, level))
    assert shares[-1] == 1.0


def test_counts_from_the_model_cover_what_they_should(ax):
    p = at_rows(Poisson(), np.full(4000, 0.5))
    plotting.coverage_curve(ax, p, p.sample(1, 0)[0])
    levels, shares = ax.lines[-1].get_data()
    np.testing.assert_allclose(shares, levels, atol=0.03)


# Inspection.


def test_a_correlation_is_drawn_from_minus_1_to_1(ax):
    names = [f"y{d}: mean" for d in range(20)]
    frame = pd.DataFrame(np.eye(20), index=names, columns=names)
    frame.iloc[0, 1] = -0.3
    plotting.heat_map(ax, frame, label="correlation")
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), frame)
    assert image.get_clim() == (-1.0, 1.0)
    assert tick_labels(ax.yaxis)[19] == "y19: mean  20"
    assert tick_labels(ax.xaxis)[19] == "20"
    # Only a sign: twenty columns have no room for numbers.
    assert [t.get_text() for t in ax.texts if t.get_text()] == ["\u2212"]
    assert ax.figure.axes[1].get_ylabel() == "correlation"


def test_labels_of_twenty_rows_do_not_overlap(ax):
    names = [f"y{d}: mean" for d in range(20)]
    plotting.heat_map(ax, pd.DataFrame(np.eye(20), index=names, columns=names))
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    below, above = boxes[1:], boxes[:-1]
    assert all(b.y1 <= a.y0 for a, b in zip(above, below, strict=True))


def test_weights_have_symmetric_colours_and_their_numbers(ax):
    frame = pd.DataFrame([[0.5, -2.0]], index=["y: mean"], columns=["u1", "u1"])
    plotting.heat_map(ax, frame)
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    assert [t.get_text() for t in ax.texts] == ["0.50", "-2.00"]
    assert tick_labels(ax.xaxis) == ["u1", "u1"]


def test_heat_maps_name_what_is_wrong(ax):
    with pytest.raises(ValueError, match=r"`frame` must hold finite numbers.*got 1 "):
        plotting.heat_map(ax, pd.DataFrame([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="`limit` must be above 0; got 0"):
        plotting.heat_map(ax, pd.DataFrame([[1.0]]), limit=0.0)


def test_the_most_relevant_input_is_at_the_top(ax):
    frame = pd.DataFrame({"age": [1.0, 2.0], "rooms": [5.0, 0.0]}, index=["f", "g"])
    plotting.relevance_bars(ax, frame)
    assert tick_labels(ax.yaxis) == ["rooms", "age"]
    assert [bar.get_width() for bar in ax.patches] == [2.5, 1.5]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [5.0, 1.0])
    low, high = ax.get_ylim()
    assert low > high


# Training.


def history(level=10.0):
    """Eighty iterations, two of them refused, and a score after each forty."""
    nelbo, refused, scores = np.linspace(100.0, level, 80), np.zeros(80), np.zeros(80)
    refused[[3, 7]] = 1
    nelbo[5] = np.nan
    scores[:] = np.nan
    scores[[39, 79]] = [2.0, 1.0]
    iteration = 101 + np.arange(80)
    return {
        "iteration": iteration,
        "nelbo": nelbo,
        "refused": refused,
        "theta_refused": np.isnan(nelbo),
        "held_out": scores,
    }


def test_a_trace_shows_the_bound_the_refusals_and_the_scores(ax):
    run = history()
    assert plotting.trace(ax, run, label="fng") is ax
    smooth, raw = ax.lines
    finite = np.isfinite(run["nelbo"])
    np.testing.assert_array_equal(raw.get_xdata(), run["iteration"][finite])
    np.testing.assert_array_equal(raw.get_ydata(), run["nelbo"][finite])
    assert smooth.get_label() == "fng" and np.isfinite(smooth.get_ydata()).all()
    marks = {c.get_label(): c.get_offsets()[:, 0].tolist() for c in ax.collections}
    assert marks == {
        "refused step of q(u)": [104, 108],
        "refused draw of theta": [106],
    }
    right = ax.figure.axes[1]
    np.testing.assert_array_equal(right.lines[0].get_xydata(), [[140, 2], [180, 1]])
    assert right.get_ylabel() == "held-out NLPD (dashed)"


def test_two_runs_share_their_axes(ax):
    plotting.trace(ax, history(10.0), label="fng")
    plotting.trace(ax, history(50.0), label="adam")
    assert len(ax.figure.axes) == 2 and len(ax.figure.axes[1].lines) == 2
    assert ax.get_ylim()[0] < 10.0
    labels = ax.get_legend_handles_labels()[1]
    assert sorted(labels) == [
        "adam",
        "fng",
        "refused draw of theta",
        "refused step of q(u)",
    ]


def test_a_trace_of_numbers_counts_from_1(ax):
    plotting.trace(ax, [3.0])
    assert ax.lines[1].get_xdata().tolist() == [1] and len(ax.figure.axes) == 1


@pytest.mark.parametrize("wrong", [{"elbo": np.ones(2)}, [], [np.nan], [[1.0]]])
def test_a_trace_without_a_bound_is_refused(ax, wrong):
    with pytest.raises(ValueError, match="`history` must have"):
        plotting.trace(ax, wrong)


def test_failed_restarts_are_counted_and_not_drawn(ax):
    scores = {"fng": [1.0, 2.0, 3.0], "sgd": [4.0, np.inf, 5.0, 6.0], "adam": [np.inf]}
    plotting.restart_boxes(ax, scores)
    expected = ["fng", "sgd\n1 of 4 failed", "adam\n1 of 1 failed"]
    assert tick_labels(ax.xaxis) == expected
    low, high = ax.get_ylim()
    assert low < 1.0 and 6.0 < high < 7.0
    medians = [line for line in ax.lines if line.get_linewidth() == 2.0]
    assert [m.get_ydata()[0] for m in medians[:2]] == [2.0, 5.0]


def test_restarts_without_scores_are_refused(ax):
    with pytest.raises(ValueError, match="`scores` must have at least one entry"):
        plotting.restart_boxes(ax, {})
    with pytest.raises(ValueError, match=r"`scores` must have numbers; .* 'fng'"):
        plotting.restart_boxes(ax, {"fng": []})
