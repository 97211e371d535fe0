"""The toys: the same in every run, with the shapes and supports of the paper."""

import numpy as np
import pytest

from motleygp import datasets


@pytest.mark.parametrize(("name", "num_outputs"), [("t1", 3), ("t2", 5), ("t3", 10)])
def test_toys_have_the_papers_outputs(name, num_outputs):
    problem = datasets.load(name)
    assert problem.x_train.shape == (1500, 1) and problem.x_test.shape == (500, 1)
    assert problem.y_train.shape == (1500, num_outputs)
    for likelihood, y in zip(problem.likelihoods, problem.y_train.T, strict=True):
        assert likelihood.in_support(y).all()
        if likelihood.real:
            assert abs(y.mean()) < 0.1 and 0.8 < y.std() < 1.2


def test_inputs_by_dimension():
    assert len(datasets.load("t1", num_inputs=2).x_train) == int(0.75 * 44**2)
    problem = datasets.load("t1", num_inputs=3)
    x = np.concatenate([problem.x_train, problem.x_test])
    for column in x.T:
        np.testing.assert_allclose(np.sort(column), np.linspace(0, 1, 2000))


def test_draws_are_fixed_and_depend_on_the_seed():
    first, again = datasets.load("t1"), datasets.load("t1")
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert not np.array_equal(first.y_train, datasets.load("t1", seed=1).y_train)


def test_functions_have_the_covariance_of_the_toy(rng):
    # Over many draws, cov[f_j(x), f_k(x')] = sum_q a_jq a_kq k_q(x, x').
    x = np.array([[0.1], [0.17], [0.9]])
    draws = np.stack([datasets._draw_functions(rng, x, 5) for _ in range(20_000)])
    flat = draws.reshape(len(draws), -1)
    kernels = [np.exp(-0.5 * (x - x.T) ** 2 / s**2) for s in (0.5, 0.05, 0.1)]
    weights = datasets._WEIGHTS[:5]
    expected = sum(
        np.kron(np.outer(a, a), k) for a, k in zip(weights.T, kernels, strict=True)
    )
    np.testing.assert_allclose(np.cov(flat.T), expected, atol=0.2)


def test_unknown_names_and_sizes():
    with pytest.raises(ValueError, match="no dataset is named 't9'; known: t1, t2, t3"):
        datasets.load("t9")
    with pytest.raises(ValueError, match="`num_inputs` must be at least 1"):
        datasets.load("t1", num_inputs=0)
