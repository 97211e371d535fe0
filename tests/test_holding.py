"""Rows held out of training: whole rows, and enough of every output in both parts."""

import itertools as it

import numpy as np
import pytest

import motleygp as mg
from motleygp.inference import hold_out, no_scaling, observe
from motleygp.likelihoods import Bernoulli, Gaussian, Poisson

NUM_ROWS = 60


def split(ys, likelihoods, fraction=0.25, seed=0, xs=None, **columns):
    """The two parts of these outputs."""
    x = np.arange(float(len(ys[0])))[:, None]
    names = [f"y{d}" for d in range(len(ys))]
    observed = observe(names, xs or [x] * len(ys), ys, likelihoods, **columns)
    rng = np.random.default_rng(seed)
    return hold_out(rng, observed, likelihoods, fraction)


def rare(*ones: int) -> np.ndarray:
    """A binary output whose second class is in these rows only."""
    y = np.zeros(NUM_ROWS)
    y[list(ones)] = 1.0
    return y


def seen_rows(part, d: int) -> set[float]:
    return set(part.xs[d][~np.isnan(part.ys[d]), 0])


def test_without_missing_values_the_split_is_a_permutation(rng):
    y = rng.normal(size=NUM_ROWS)
    left, held = split([y, y**2], [Gaussian(), Gaussian()])
    order = np.random.default_rng(0).permutation(NUM_ROWS)
    np.testing.assert_array_equal(held.xs[0][:, 0], order[:15])
    np.testing.assert_array_equal(left.xs[0][:, 0], np.sort(order[15:]))
    np.testing.assert_array_equal(held.ys[1], y[order[:15]] ** 2)
    assert len(left.dataset(no_scaling(1, 2))) == 1  # the outputs still share rows


def test_a_row_is_held_out_of_every_output(rng):
    ys = [rng.normal(size=NUM_ROWS) for _ in range(3)]
    for y in ys:
        y[rng.permutation(NUM_ROWS)[:15]] = np.nan
    left, held = split(ys, [Gaussian()] * 3)
    for d, e in it.product(range(3), repeat=2):
        assert not seen_rows(left, d) & seen_rows(held, e)
    for d, y in enumerate(ys):
        every = set(np.flatnonzero(~np.isnan(y)))
        assert seen_rows(left, d) | seen_rows(held, d) == every


def test_inputs_of_their_own_are_split_on_their_own(rng):
    xs = [np.arange(40.0)[:, None], 100.0 + np.arange(20.0)[:, None]]
    ys = [rng.normal(size=40), rng.normal(size=20)]
    left, held = split(ys, [Gaussian(), Gaussian()], xs=xs)
    assert [len(y) for y in held.ys] == [10, 5]
    assert [len(y) for y in left.ys] == [30, 15]


def test_weights_and_exposures_follow_their_rows(rng):
    weight, exposure = np.arange(1.0, 61.0), np.arange(1.0, 61.0) ** 2
    y = rng.poisson(3.0, size=NUM_ROWS).astype(float)
    for part in split([y], [Poisson()], weights=[weight], exposures=[exposure]):
        np.testing.assert_array_equal(part.weights[0], part.xs[0][:, 0] + 1.0)
        np.testing.assert_array_equal(part.exposures[0], part.weights[0] ** 2)


@pytest.mark.parametrize("seed", range(20))
def test_both_parts_have_both_classes(seed):
    ys = [rare(3, 4), rare(5, 50), 1.0 - rare(3, 59)]
    left, held = split(ys, [Bernoulli()] * 3, fraction=0.1, seed=seed)
    for part in (left, held):
        assert all(set(y) == {0.0, 1.0} for y in part.ys)
    assert len(held.ys[0]) == 6


@pytest.mark.parametrize("seed", range(5))
def test_a_single_row_is_not_enough_of_a_binary_output(seed):
    _, held = split([rare(*range(30))], [Bernoulli()], fraction=0.01, seed=seed)
    assert sorted(held.ys[0]) == [0.0, 1.0]


@pytest.mark.parametrize("seed", range(20))
def test_counts_still_vary_in_training(seed):
    counts = np.zeros(NUM_ROWS)
    counts[7] = 3.0
    few = np.full(NUM_ROWS, np.nan)
    few[[1, 2, 3]] = [0.5, 0.7, 0.9]
    left, held = split([counts, few], [Poisson(), Gaussian()], fraction=0.5, seed=seed)
    assert set(left.ys[0]) == {0.0, 3.0}
    assert len(seen_rows(left, 1)) >= 2 and len(seen_rows(held, 1)) >= 1


@pytest.mark.parametrize(
    ("y", "likelihood", "message"),
    [
        (rare(7), Bernoulli(), "each class of output 'y1'.* 59 of class 0 and 1 of cl"),
        (
            np.r_[1.0, 2.0, np.full(58, np.nan)],
            Gaussian(),
            r"a value of output 'y1' to hold out .* got \[1.0, 2.0\]",
        ),
    ],
)
def test_too_few_values_are_said_before_training(rng, y, likelihood, message):
    other = rng.normal(size=NUM_ROWS)
    with pytest.raises(ValueError, match=f"^`validation_fraction` needs .*{message}"):
        split([other, y], [Gaussian(), likelihood])
    model = mg.MotleyGP([Gaussian(), likelihood], validation_fraction=0.3)
    with pytest.raises(ValueError, match=message):
        model.fit(np.arange(60.0)[:, None], np.stack([other, y], axis=1))


def test_a_large_table_is_mended_quickly():
    y = np.zeros(200_000)
    y[[5, 6]] = 1.0
    for part in split([y], [Bernoulli()], fraction=0.01):
        assert part.ys[0].max() == 1.0
