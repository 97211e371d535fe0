"""Inferred likelihoods: columns drawn from each, and columns of every odd kind."""

import ast
import itertools as it
import re

import numpy as np
import pytest
import scipy.optimize
import scipy.stats as st
from rich.console import Console

from motleygp import datasets, likelihoods
from motleygp.tables import _rules, infer
from motleygp.tables.infer import Choice, infer_column, infer_outputs

ROWS = 200
SEEDS = range(50)


def choose(values, kind: str = "real") -> Choice:
    return infer_column("y", np.asarray(values, dtype=float), kind)


def draw(name: str, f: list[float], seed: int, num_rows: int = ROWS) -> np.ndarray:
    """Rows of a likelihood whose functions all wave around f, as inputs would do."""
    rng = np.random.default_rng(seed)
    wave = 0.3 * np.sin(np.linspace(0, 7, num_rows))
    return likelihoods.get(name).sample(rng, np.array(f)[:, None] + wave)


def chosen(name: str, f: list[float]) -> list[str]:
    """The likelihood chosen for each of many draws."""
    return [choose(draw(name, f, seed)).likelihood for seed in SEEDS]


# Draws from the likelihoods themselves.


@pytest.mark.parametrize("logit", [-3.0, 0.0, 3.0])
def test_bernoulli_is_always_recognised(logit):
    assert set(chosen("bernoulli", [logit])) == {"bernoulli"}


@pytest.mark.parametrize("f", [[0, 0], [1, 2], [-1, -1], [4, 1], [0.5, 3]])
def test_beta_is_always_recognised(f):
    assert set(chosen("beta", f)) == {"beta"}


@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0, 10.0, 30.0])
def test_poisson_is_always_recognised(mean):
    assert set(chosen("poisson", [np.log(mean)])) == {"poisson"}


@pytest.mark.parametrize("rate", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shape", [1.0, 2.0, 3.0])
def test_gamma_is_nearly_always_recognised(shape, rate):
    names = chosen("gamma", [np.log(shape), np.log(rate)])
    assert names.count("gamma") >= 0.95 * len(names)


def test_exponential_is_gamma_and_exponential_would_do():
    assert set(chosen("exponential", [-1.0])) == {"gamma"}
    near = [choose(draw("gamma", [0.0, 0.0], s)).alternatives[0] for s in SEEDS]
    assert near.count("exponential") >= 40
    far = [choose(draw("gamma", [np.log(3), 0.0], s)).alternatives for s in SEEDS]
    assert not any("exponential" in alternatives for alternatives in far)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 3.0, 10.0, 1e4])
def test_gaussian_is_always_real(mean):
    assert set(chosen("gaussian", [mean])) == {"hetgaussian"}
    assert set(chosen("hetgaussian", [mean, 0.0])) == {"hetgaussian"}


@pytest.mark.slow
def test_the_toy_of_every_likelihood_is_recognised():
    # Exponential outputs are Gamma ones, and Gaussian ones het-Gaussian, to the rules.
    same = {"exponential": "gamma", "gaussian": "hetgaussian"}
    problem = datasets.load("t3")
    for likelihood, y in zip(problem.likelihoods, problem.y_train.T, strict=True):
        choice = choose(y)
        assert choice.likelihood == same.get(likelihood.name, likelihood.name)
        assert choice.warning is None


# What does not matter.


REAL = {
    "real": lambda rng: rng.normal(size=ROWS),
    "far": lambda rng: rng.normal(20, 1, ROWS),
    "skewed": lambda rng: rng.gamma(2, size=ROWS),
    "either": lambda rng: rng.gamma(15, size=60),
    "rain": lambda rng: rng.gamma(1, 5, ROWS) * (rng.random(ROWS) < 0.5),
    "levels": lambda rng: rng.integers(3, 8, ROWS) / 7,
    "two": lambda rng: rng.choice([1.5, 2.5], ROWS),
}


@pytest.mark.parametrize("name", REAL)
def test_units_of_real_columns_do_not_matter(name, rng):
    y = REAL[name](rng)
    first = choose(y)
    for scale in (1e6, 1e-6):
        scaled = choose(scale * y)
        assert scaled.likelihood == first.likelihood
        # In small units anything positive may be a proportion too.
        others = [other for other in scaled.alternatives if other != "beta"]
        assert others == list(first.alternatives)
        assert (scaled.warning is None) == (first.warning is None)


@pytest.mark.parametrize("name", [*REAL, "counts", "proportions"])
def test_order_and_missing_rows_do_not_matter(name, rng):
    more = {
        "counts": lambda rng: rng.poisson(3, ROWS).astype(float),
        "proportions": lambda rng: rng.beta(2, 3, ROWS),
    }
    y = (REAL | more)[name](rng)
    first = choose(y)
    assert choose(y[::-1]) == first
    assert choose(rng.permutation(y)) == first
    # Not even in the last digits, which may decide.
    np.testing.assert_array_equal(
        *(infer._observed("y", rng.permutation(y), "real") for _ in range(2))
    )
    assert choose(rng.permutation(np.concatenate([y, np.full(ROWS, np.nan)]))) == first


def test_integers_are_recognised_in_a_real_column(rng):
    draws = {
        "poisson": rng.poisson(3, ROWS),
        "hetgaussian": rng.integers(1900, 2000, ROWS),
        "bernoulli": rng.integers(0, 2, ROWS),
    }
    for likelihood, y in draws.items():
        choice = choose(y, "real")
        assert choice.likelihood == likelihood and choice == choose(y, "integer")


# Rule by rule.


def test_two_values(rng):
    y = np.arange(ROWS) % 4 == 0
    assert choose(y, "bool") == Choice(
        "y", "bernoulli", "true or false, 25% are true", (), None
    )
    assert choose(y, "integer").reason == "0 or 1, 25% are 1"
    for low, high in ((-1, 1), (1, 2), (0, 2), (0, 0.5), (0.2, 0.8), (1e3, 5e3)):
        choice = choose(np.where(y, high, low))
        assert choice.likelihood == "gaussian"
        assert f"code {low:g} as 0 and {high:g} as 1" in str(choice.warning)


def test_overdispersed_counts_are_warned_about(rng):
    y = rng.poisson(rng.gamma(2, 4, ROWS))
    choice = choose(y)
    assert choice.likelihood == "poisson"
    assert choice.alternatives == ("hetgaussian", "exponential", "gaussian")
    ratio = np.var(y, ddof=1) / np.mean(y)
    assert 3 < ratio < 10
    assert f"variance is {ratio:.3g} times its mean" in str(choice.warning)
    assert choose(rng.poisson(5, ROWS)).warning is None


def test_counts_far_from_poisson_are_real(rng):
    # Negative binomial: the variance is 41 times the mean.
    y = rng.poisson(rng.gamma(2, 40, 2000))
    choice = choose(y)
    assert choice.likelihood == "hetgaussian" and choice.alternatives[0] == "poisson"
    ratio = np.var(y, ddof=1) / np.mean(y)
    assert f"its variance is {ratio:.3g} times" in str(choice.warning).lower()
    assert f"if the inputs explain {100 - 100 / ratio:.3g}% of it" in choice.warning
    assert f"variance {ratio:.3g} times the mean" in choice.reason
    # Gamma would fit, but would refuse a zero among new values.
    assert y.min() > 0 and "gamma" in choice.alternatives


def test_the_visits_of_the_example_stay_counts():
    for seed in range(5):
        visits = datasets.houses(seed=seed)[1]["visits"]
        assert choose(visits, "integer").likelihood == "poisson"


def test_counts_say_what_was_seen():
    # The squares around the mean, 2.25, sum to 20.75, with three degrees of freedom.
    reason = "whole numbers 0 to 6, 4 distinct, variance 3.07 times the mean"
    assert choose([0, 1, 2, 6]).reason == reason


def test_whole_numbers_far_from_zero_are_real(rng):
    weights, pulses = rng.normal(75, 17, 500), rng.normal(80, 12, 300)
    for y in (rng.poisson(60, ROWS), np.round(weights), np.round(pulses)):
        choice = choose(y, "integer")
        assert choice.likelihood == "hetgaussian"
        assert choice.alternatives[0] == "poisson"
        assert "nearly all above 25, where a normal fits as well" in choice.reason


def test_a_variance_below_the_mean_is_no_poisson(rng):
    years, heights = rng.integers(1950, 2021, 500), np.round(rng.normal(170, 9, 500))
    for y in (years, heights):
        choice = choose(y, "integer")
        assert choice.likelihood == "hetgaussian"
        assert choice.alternatives[-1] == "poisson"
        assert "too small for poisson" in str(choice.warning)


def test_too_few_zeros_are_no_poisson(rng):
    # Shifted and spread so that the variance alone would do.
    y = 1 + rng.poisson(rng.gamma(0.5, 2.5, 400))
    assert np.var(y) > np.mean(y)
    choice = choose(y, "integer")
    assert choice.likelihood == "gamma"
    expected = len(y) * np.exp(-np.mean(y))
    message = f"no zeros, where poisson would have about {expected:.0f} or more"
    assert message in str(choice.warning)
    # Poissons with rates that vary have more zeros than that, never fewer.
    assert choose(rng.poisson(rng.gamma(0.5, 2.5, 400))).likelihood == "poisson"


def test_large_whole_numbers_are_amounts(rng):
    prices = np.round(np.exp(rng.normal(6.5, 0.8, 500)))
    for y in (prices, np.repeat(prices, 20)):  # many rows repeat values: no matter
        choice = choose(y, "integer")
        assert choice.likelihood == "gamma" and choice.alternatives[0] == "poisson"
        assert "large for counts" in str(choice.warning)
    # A long tail of small counts is no amount, but no Poisson either.
    tail = choose(np.append(rng.poisson(3, 500), [1500, 2500]))
    assert tail.likelihood == "gaussian" and tail.alternatives == ("poisson",)
    assert "large for counts" not in str(tail.warning)


def test_ratings_are_levels(rng):
    shares = [0.05, 0.1, 0.2, 0.35, 0.3]
    choice = choose(rng.choice([1, 2, 3, 4, 5], ROWS, p=shares), "integer")
    assert choice.likelihood == "gaussian" and choice.alternatives == ("poisson",)
    assert "only 5 levels" in str(choice.warning)
    # Spread like counts, but piled up at the top.
    choice = choose(np.arange(ROWS) % 5, "integer")
    assert choice.likelihood == "poisson" and choice.alternatives == ("gaussian",)
    assert "ordered categories" in str(choice.warning)
    assert choose(rng.poisson(1, ROWS)).warning is None


@pytest.mark.parametrize("levels", [[-1, 0, 1], [0.5, 1, 1.5, 2], [0.1, 0.2, 0.9]])
def test_levels_that_are_no_counts(levels, rng):
    choice = choose(rng.choice(levels, ROWS))
    assert choice.likelihood == "gaussian" and choice.alternatives == ()
    assert f"only {len(levels)} levels" in str(choice.warning)


def test_values_that_do_not_come_back_are_no_levels(rng):
    assert choose(rng.normal(size=8)).reason.startswith("real")
    mostly_dry = np.append(np.zeros(ROWS), rng.gamma(1, 5, 6))
    assert choose(mostly_dry).likelihood == "hetgaussian"
    # Twelve levels are enough for a density.
    assert choose(rng.integers(-6, 6, ROWS)).likelihood == "hetgaussian"
    assert choose(rng.integers(-5, 6, ROWS)).likelihood == "gaussian"


def test_the_ends_stand_in_the_way_of_beta(rng):
    inside = rng.beta(2, 3, ROWS)
    assert choose(inside).warning is None
    assert choose(inside).alternatives[0] in ("gamma", "hetgaussian")
    cases = {(0.0,): "1 zero:", (1.0, 1.0): "2 ones:", (0.0, 1.0): "1 zero and 1 one:"}
    for ends, words in cases.items():
        choice = choose(np.append(inside, ends))
        assert choice.likelihood == "hetgaussian"
        assert f"Beta does not allow its {words}" in str(choice.warning)
        assert ("exponential" in choice.alternatives) == (1.0 not in ends)


def test_small_proportions(rng):
    y = rng.beta(2, 5, ROWS)
    doubtful = choose(0.4 * y)
    assert doubtful.likelihood == "beta"
    assert "Nothing is above" in str(doubtful.warning)
    for tiny in (choose(rng.beta(2, 300, ROWS)), choose(rng.normal(0.05, 1e-3, ROWS))):
        assert tiny.likelihood != "beta" and tiny.alternatives[-1] == "beta"
    assert choose(1 - 1e-9 * y).reason.endswith("to just below 1")


@pytest.mark.parametrize(
    ("mean", "spread", "narrow"),
    [(0.5, 1e-3, False), (0.5, 1e-9, True), (0.999, 1e-6, False), (0.999, 1e-9, True)],
)
def test_narrow_proportions_are_real(mean, spread, narrow, rng):
    found = choose(mean + spread * rng.normal(size=50))
    assert (found.likelihood != "beta") == narrow
    assert ("too narrow for beta" in found.reason) == narrow


def test_percentages(rng):
    y = 100 * rng.beta(5, 2, ROWS)
    for values in (y, np.append(y, 100), np.append(y, 0), np.ceil(y)):
        choice = choose(values)
        assert choice.likelihood != "beta"
        assert "divided by 100" in str(choice.warning)
    for values in (y + 10, 0.8 * y, np.append(y, -1)):
        assert "divided by 100" not in str(choose(values).warning)


def test_positive_numbers_far_from_zero(rng):
    choice = choose(rng.normal(288, 9, ROWS))
    assert choice.likelihood == "hetgaussian" and choice.warning is None
    assert choice.alternatives == ("gaussian", "gamma")
    assert choose(rng.normal(4, 0.5, ROWS)).likelihood == "hetgaussian"


def test_a_normal_or_gamma():
    # Nearer than a few nats, there is a warning; real by default.
    either = [choose(draw("gamma", [np.log(12), 0], s, 60)) for s in SEEDS]
    doubtful = [choice for choice in either if choice.warning]
    assert len(doubtful) > 10
    for choice in doubtful:
        assert choice.likelihood == "hetgaussian" and choice.alternatives[0] == "gamma"
        assert "about as well" in str(choice.warning)
    clear = choose(np.random.default_rng(0).beta(3, 1, 500) * 7)
    assert clear.likelihood == "hetgaussian" and clear.warning is None
    assert "a normal fits better than gamma" in clear.reason


def largest_gamma_log_likelihood(y: np.ndarray) -> float:
    """By a search over the shape; the best scale of a shape is the mean over it."""

    def loss(log_shape: float) -> float:
        shape = np.exp(log_shape)
        return -st.gamma.logpdf(y, shape, scale=y.mean() / shape).sum()

    return -scipy.optimize.minimize_scalar(loss, bounds=(-6.0, 6.0)).fun


def test_gains_are_differences_of_maximal_log_likelihoods(rng):
    columns = (
        rng.gamma(0.2, 3, 50),
        rng.gamma(8, 1e-5, 300),
        rng.normal(5, 1, 40),
        np.exp(rng.normal(0, 4, 100)),
    )
    for y in columns:
        gamma = largest_gamma_log_likelihood(y)
        normal = st.norm.logpdf(y, y.mean(), y.std()).sum()
        exponential = st.expon.logpdf(y, scale=y.mean()).sum()
        expected = gamma - normal, gamma - exponential
        np.testing.assert_allclose(_rules._gamma_gains(y), expected, rtol=1e-6)


def test_zeros_have_no_point_mass(rng):
    y = rng.gamma(1, 5, ROWS)
    choice = choose(np.append(y, np.zeros(30)))
    assert choice.likelihood == "hetgaussian"
    assert choice.alternatives == ("exponential", "gaussian")
    assert "30 zeros" in str(choice.warning) and "point mass" in str(choice.warning)
    assert choose(np.append(y, -0.0)).likelihood == "hetgaussian"
    assert choose(y).likelihood == "gamma"


def test_few_rows_have_one_noise(rng):
    y = rng.normal(size=50)
    assert choose(y)[1:4:2] == ("hetgaussian", ("gaussian",))
    assert choose(y[1:])[1:4:2] == ("gaussian", ("hetgaussian",))
    assert choose(y).warning is None and choose(y[1:]).warning is None


# Odd columns.


def odd_columns() -> dict[str, np.ndarray]:
    """Columns that no rule is made for."""
    rng = np.random.default_rng(0)
    tiny, huge = np.finfo(float).tiny, np.finfo(float).max
    return {
        "constant but one": np.append(np.full(99, 5.0), 6.5),
        "constant but two": np.append(np.full(99, 5.0), [6.5, 7.0]),
        "constant but one ulp": np.append(np.full(99, 0.3), np.nextafter(0.3, 1)),
        "three ulps": 0.3 + np.spacing(0.3) * (np.arange(100) % 4),
        "zero but three": np.append(np.zeros(99), [0.1, 0.2, 0.3]),
        "two rows": np.array([3.0, 4.0]),
        "three rows": np.array([0.1, 0.2, 0.4]),
        "three counts": np.array([1.0, 2.0, 3.0]),
        "a huge one": np.append(rng.normal(10, 1, 99), 1e300),
        "all huge": 1e300 * rng.gamma(2, size=99),
        "huge and negative": huge * rng.uniform(-1, 1, 99),
        "huge counts": np.floor(1e15 * rng.gamma(2, size=99)),
        "the largest": np.array([1.0, huge, huge / 2]),
        "tiny": 1e-300 * rng.gamma(2, size=99),
        "subnormal": 5e-324 * rng.integers(1, 90, 99),
        "subnormal and not": np.append(5e-324, rng.gamma(2, size=99)),
        "the widest": np.array([5e-324, 1.0, huge]),
        "subnormal and below 1": np.append(5e-324, rng.beta(2, 2, 99)),
        "next to the ends": np.append(rng.beta(2, 2, 9), [tiny, np.nextafter(1, 0)]),
        "negative zero": np.append(rng.gamma(2, size=99), -0.0),
        "negative zero and one": np.array([-0.0, 1.0, 0.0]),
        "negative zero and counts": np.append(rng.poisson(3, 99), -0.0),
        "a negative one": np.append(rng.gamma(2, size=99), -1e-12),
        "a half among counts": np.append(rng.poisson(3, 99), 2.5),
        "all negative": -rng.gamma(2, size=99),
        "negative counts": -rng.poisson(3, 99).astype(float),
        "one missing": np.append(rng.normal(size=99), np.nan),
        "nearly all missing": np.append(np.full(99, np.nan), [1.0, 2.0]),
        "percentages": rng.uniform(0, 100, 99),
        "a ramp": np.arange(2000.0),
        "half a ramp": np.arange(99.0) / 2,
        "lognormal": np.exp(rng.normal(0, 6, 99)),
    }


def odd_choices() -> list[Choice]:
    columns, kinds = odd_columns(), ("bool", "integer", "real")
    return [infer_column(n, columns[n], k) for n, k in it.product(columns, kinds)]


def random_columns() -> list[np.ndarray]:
    """Pieces of every kind, stuck together and scaled at random."""
    columns = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        pieces = [
            rng.normal(size=rng.integers(1, 60)),
            rng.gamma(rng.uniform(0.1, 5), size=rng.integers(1, 60)),
            rng.poisson(rng.uniform(0.1, 30), size=rng.integers(1, 60)),
            rng.random(rng.integers(1, 60)),
            rng.choice([0.0, -0.0, 1.0, 0.5, 100.0, 5e-324, 1e300], 4),
        ]
        taken = rng.choice(5, rng.integers(1, 4), replace=False)
        scale = rng.choice([1.0, 1.0, 100.0, 1e-7])
        columns.append(scale * np.concatenate([pieces[k] for k in taken]))
    return [y for y in columns if np.ptp(y) > 0]


def test_every_choice_accepts_the_values():
    columns = [*odd_columns().values(), *random_columns()]
    found = set()
    for y in columns:
        choice = choose(y)
        for name in (choice.likelihood, *choice.alternatives):
            assert likelihoods.get(name).in_support(y[~np.isnan(y)]).all(), (choice, y)
        # Each is named once.
        assert choice.likelihood not in choice.alternatives
        assert len(set(choice.alternatives)) == len(choice.alternatives)
        found.add(choice.likelihood)
    assert found == set(likelihoods.BY_NAME) - {"exponential"}


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("negative zero and one", "bernoulli"),
        ("negative zero and counts", "poisson"),
        ("a half among counts", "gaussian"),
        ("huge counts", "gamma"),
        ("next to the ends", "beta"),
        ("all huge", "gamma"),
        ("tiny", "gamma"),
        ("subnormal", "hetgaussian"),
        ("all negative", "hetgaussian"),
        ("constant but one", "gaussian"),
        ("constant but one ulp", "gaussian"),
    ],
)
def test_odd_columns_are_what_they_look_like(name, likelihood):
    y = odd_columns()[name]
    assert choose(y).likelihood == likelihood


def test_extreme_numbers_are_warned_about():
    columns = odd_columns()
    extreme = {name for name, y in columns.items() if "range of" in str(choose(y)[-1])}
    assert extreme == {
        "a huge one",
        "all huge",
        "huge and negative",
        "the largest",
        "tiny",
        "subnormal",
        "subnormal and not",
        "the widest",
        "subnormal and below 1",
    }


# Errors.


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([], "real", "output 'y' must have observed values; got none."),
        ([np.nan] * 3, "real", "output 'y' must have observed values; got none."),
        ([2.5], "real", "output 'y' must vary; got 1 sample."),
        ([2.5, 2.5], "real", "output 'y' must vary; every observed value is 2.5."),
        ([3, np.nan, 3], "integer", "output 'y' must vary; every observed value is 3."),
        ([0, -0.0], "real", "output 'y' must vary; every observed value is 0."),
        ([1, np.inf, 2], "real", "output 'y' must be finite; got inf in row 1."),
        ([-np.inf, np.nan], "real", "output 'y' must be finite; got -inf in row 0."),
        ([[1, 2]], "real", "output 'y' must be a vector; got (1, 2)."),
        (
            [1, 2],
            "text",
            "the kind of output 'y' must be one of bool, integer, real; got 'text'.",
        ),
    ],
)
def test_errors_name_the_output(values, kind, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        choose(values, kind)


# What people see.


def printed(choices: list[Choice]) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(infer.table(choices))
    return capture.get()


def test_the_table_shows_every_word(rng):
    columns = {
        "price": (np.round(np.exp(rng.normal(6.5, 0.8, 500))), "integer"),
        "visits": (rng.poisson(rng.gamma(2, 4, 500)).astype(float), "integer"),
        "[bold]rain": (np.append(np.zeros(50), rng.gamma(1, 5, 50)), "real"),
        "well": ((rng.random(500) < 0.5).astype(float), "bool"),
    }
    choices = infer_outputs(columns)
    assert [choice.name for choice in choices] == list(columns)
    text = printed(choices)
    assert all(len(line) <= 100 for line in text.splitlines())
    words = set(re.split(r"[\s│┃]+", text))
    for choice in choices:
        others = ", ".join(choice.alternatives) or "none"
        for cell in (choice.name, choice.likelihood, choice.reason, others):
            assert words.issuperset(cell.split())
    assert words.issuperset(["output", "likelihood", "reason", "alternatives"])


def test_the_table_folds_long_names():
    name = "".join(chr(ord("a") + k % 26) for k in range(150))
    choice = infer_column(name, np.arange(-20, 20) / 3, "real")
    cells = [
        line.split("│")[1].strip() for line in printed([choice]).splitlines()[3:-1]
    ]
    assert "".join(cells) == name


def test_warnings_say_how_to_choose_otherwise(rng):
    doubtful = rng.poisson(rng.gamma(2, 4, ROWS)).astype(float)
    columns = {
        "visits": (doubtful, "integer"),
        "fine": (rng.normal(size=ROWS), "real"),
        'é "b"\\': (rng.choice([1.0, 2.0], ROWS), "integer"),
    }
    choices = infer_outputs(columns)
    with pytest.warns(UserWarning) as record:
        infer.warn(choices)
    first, second = (str(entry.message) for entry in record)
    assert first.startswith('"visits" is modelled as poisson. Its variance is ')
    assert first.endswith('this choice, pass outputs={"visits": "hetgaussian"}.')
    assert second.startswith('"é \\"b\\"\\\\" is modelled as gaussian. It has only')
    # What it says can be pasted, whatever the name.
    pasted = re.search(r"outputs=(\{.*\})\.$", second)
    assert pasted and ast.literal_eval(pasted[1]) == {'é "b"\\': "gaussian"}
    assert "To confirm this choice" in second


def test_no_doubt_no_warning(rng):
    infer.warn(infer_outputs({"y": (rng.normal(size=ROWS), "real")}))
    assert infer_outputs({}) == []


def test_every_warning_is_one_sentence():
    for choice in odd_choices():
        if choice.warning is not None:
            assert choice.warning.endswith(".") and choice.warning[0].isupper()
            assert ". " not in choice.warning and "\n" not in choice.warning
        assert choice.reason and "\n" not in choice.reason
