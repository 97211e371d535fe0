"""Inputs that outputs share are converted, checked and scaled once, and stay one."""

import numpy as np
import pytest

import motleygp as mg
from motleygp.inference import Scaling, data, observations, observe
from motleygp.numerics.sharing import once_each, one_object
from motleygp.tables import frames
from small import ESTIMATOR as SETTINGS

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def counts(monkeypatch):
    """How often inputs are converted, checked and scaled, and data sets built."""
    counted = dict.fromkeys(("converted", "checked", "scaled", "built"), 0)

    def count(owner, name, key):
        original = getattr(owner, name)

        def wrapped(*args, **kwargs):
            counted[key] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapped)

    count(frames, "as_matrix", "converted")
    count(data, "checked_inputs", "checked")
    count(Scaling, "inputs", "scaled")
    count(observations, "gather", "built")
    return counted


def table(num_outputs: int = 5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return X, {f"y{d}": rng.normal(size=30) for d in range(num_outputs)}


@pytest.fixture
def data_of(training_data):
    """The data set that a fit would train on."""

    def found(X, Y):
        model = mg.MotleyGP(["gaussian"] * len(Y), **SETTINGS)
        return training_data(model, X, Y)

    return found


def test_a_fit_touches_a_shared_table_once(counts, data_of):
    X, Y = table()
    (block,) = data_of(X, Y)
    assert block.outputs == (0, 1, 2, 3, 4)
    assert counts == {"converted": 1, "checked": 1, "scaled": 1, "built": 1}


def test_a_score_touches_a_shared_table_once(counts):
    X, Y = table(2)
    model = mg.MotleyGP(["gaussian"] * 2, **SETTINGS).fit(X, Y)
    np.testing.assert_array_equal(model.scaling_.x_shift, X.mean(axis=0))
    np.testing.assert_array_equal(model.scaling_.x_scale, X.std(axis=0))
    counts.update(dict.fromkeys(counts, 0))
    model.elbo(X, Y)
    assert counts == {"converted": 1, "checked": 1, "scaled": 1, "built": 1}


def test_the_same_table_under_every_name_is_one(counts, data_of):
    X, Y = table()
    assert len(data_of(dict.fromkeys(Y, X), Y)) == 1
    assert counts == {"converted": 1, "checked": 1, "scaled": 1, "built": 1}


def test_equal_copies_share_a_block(counts, data_of):
    X, Y = table(2)
    (block,) = data_of({name: X.copy() for name in Y}, Y)
    assert block.outputs == (0, 1)
    # Two conversions, but one matrix from there on.
    assert counts == {"converted": 2, "checked": 2, "scaled": 1, "built": 1}


def test_blocks_are_told_by_the_identity_of_their_inputs():
    X, Y = table(4)
    ys = list(Y.values())
    ys[1][3] = ys[2][3] = ys[0][3] = np.nan
    other = X + 1.0
    blocks = data.gather([X, X, X, other], ys)
    assert [block.outputs for block in blocks] == [(0, 1, 2), (3,)]
    assert [block.total for block in blocks] == [29, 30]
    np.testing.assert_array_equal(blocks[0].x, np.delete(X, 3, axis=0))
    np.testing.assert_array_equal(blocks[1].x, other)


def test_observations_know_whether_inputs_are_shared():
    X, Y = table(2)
    names, ys = list(Y), list(Y.values())
    likelihoods = [mg.likelihoods.Gaussian()] * 2
    one = observe(names, [X, X], ys, likelihoods)
    two = observe(names, [X, X + 1.0], ys, likelihoods)
    assert one.shared and len(one.distinct_inputs()) == 1
    assert not two.shared and len(two.distinct_inputs()) == 2
    np.testing.assert_array_equal(two.input_range()[1], X.max(axis=0) + 1.0)


def test_once_each_and_one_object():
    a, b = np.arange(3.0), np.arange(3.0)
    calls = []
    found = once_each(lambda x: calls.append(x) or x + 1.0, [a, b, a])
    assert len(calls) == 2
    assert found[0] is found[2] and found[0] is not found[1]
    same = one_object([a, b, np.ones(3)])
    assert same[0] is same[1] is a and same[2] is not a
