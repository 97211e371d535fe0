"""The bound against `paper_numpy`, the paper's formulas in plain NumPy."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paper_numpy as paper
from motleygp import MotleyGP, kernels, likelihoods as lik, optim, priors
from motleygp.inference.data import Block, Dataset, make_dataset
from motleygp.inference.model import Model
from motleygp.inference.objective import elbo
from motleygp.inference.posterior import Posterior
from motleygp.training import init, minibatch

ALL_SEVEN = tuple(paper.NUM_FUNCTIONS)
MIXES = {
    3: ("bernoulli", "hetgaussian", "beta"),
    5: ("poisson", "gaussian", "gamma", "exponential", "gaussian"),
    7: ALL_SEVEN,
    10: (*ALL_SEVEN, "beta", "gaussian", "gamma"),
}


_elbo = eqx.filter_jit(elbo)
_minibatch = eqx.filter_jit(minibatch)


pytestmark = pytest.mark.usefixtures("quick_compilation")


# The bound itself.


class Problem(NamedTuple):
    """The same model and data in the package's terms and in the paper's."""

    model: Model
    q: Posterior
    data: Dataset
    parameters: dict[str, Any]
    outputs: list[paper.Output]


def inputs(rng: np.random.Generator, layout: str, num_outputs: int) -> list[np.ndarray]:
    """Rows that all outputs share, that every third one shares, or that none does."""
    num_sets = {"shared": 1, "mixed": 3, "separate": num_outputs}[layout]
    sets = [rng.random((12 + 2 * i, 2)) for i in range(num_sets)]
    return [sets[d % num_sets] for d in range(num_outputs)]


def whitened(
    parameters: dict[str, Any], rank: Sequence[int], normalised: bool
) -> Posterior:
    """q(v) for u = L v, without the package's `whiten`."""
    K = np.stack(paper.inducing_covariances(parameters, rank, normalised))
    return Posterior(*map(jnp.asarray, paper.whitened(parameters, K)))


def make_problem(
    names: Sequence[str],
    rank: tuple[int, ...],
    layout: str,
    normalised: bool = False,
    seed: int = 0,
) -> Problem:
    rng = np.random.default_rng(seed)
    parameters = paper.random_parameters(
        rng, names, rank=rank, normalised=normalised, jitter=1e-8
    )
    xs = inputs(rng, layout, len(names))
    ys = [paper.random_values(rng, n, len(x)) for n, x in zip(names, xs, strict=True)]
    likelihoods = tuple(
        lik.Gaussian(parameters["noise"][f"y{d}"]) if n == "gaussian" else lik.get(n)
        for d, n in enumerate(names)
    )
    prior = priors.LMC(
        kernels.EQ(parameters["lengthscale"], normalised=normalised),
        parameters["weights"],
        parameters["inducing"],
        rank=rank,
        jitter=1e-8,
    )
    return Problem(
        Model(prior, jnp.asarray(parameters["offset"]), likelihoods),
        whitened(parameters, rank, normalised),
        make_dataset(xs, ys, likelihoods),
        parameters,
        [
            paper.Output(f"y{d}", n, x, y)
            for d, (n, x, y) in enumerate(zip(names, xs, ys, strict=True))
        ],
    )


def minibatch(problem: Problem, size: int) -> tuple[Dataset, list[paper.Output]]:
    """A few rows of each block, which stand for all."""
    rng = np.random.default_rng(0)
    blocks, outputs = [], list(problem.outputs)
    for block in problem.data:
        rows = rng.permutation(block.total)[:size]
        blocks.append(block.take(jnp.asarray(rows)))
        for d in block.outputs:
            x, y = problem.outputs[d].x, problem.outputs[d].y
            outputs[d] = outputs[d]._replace(x=x[rows], y=y[rows], total=len(y))
    return tuple(blocks), outputs


@pytest.mark.parametrize(
    ("num_outputs", "rank", "layout", "normalised", "batch"),
    [
        (3, (1,), "shared", False, None),
        (3, (2,), "separate", True, 5),
        (5, (1, 1), "separate", False, None),
        (5, (2, 2), "shared", True, None),
        (7, (1, 1, 1), "shared", True, 5),
        (7, (2, 2), "separate", False, None),
        (10, (1, 1), "mixed", False, 5),
        (10, (2, 1, 3), "mixed", False, None),
    ],
)
def test_bound_equals_paper(num_outputs, rank, layout, normalised, batch):
    problem = make_problem(MIXES[num_outputs], rank, layout, normalised)
    data, outputs = problem.data, problem.outputs
    if batch is not None:
        data, outputs = minibatch(problem, batch)
    options: dict[str, Any] = dict(rank=rank, normalised=normalised)
    value = -float(_elbo(problem.model, problem.q, data).elbo)
    expected = paper.nelbo(problem.parameters, outputs, nodes=60, **options)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    # The reference is converged: other nodes give the same, at functions that do vary.
    fewer = paper.nelbo(problem.parameters, outputs, nodes=45, **options)
    np.testing.assert_allclose(fewer, expected, rtol=1e-10)
    _, cov = paper.marginals(problem.parameters, outputs[0].x, **options)
    assert 0.3 < np.sqrt(np.einsum("jjn->jn", cov).max()) < 0.7
    # The paper's own objective is another one.
    apart = dataclasses.replace(problem.model, factorised=True)
    value = -float(_elbo(apart, problem.q, data).elbo)
    own = paper.nelbo(problem.parameters, outputs, nodes=60, factorised=True, **options)
    np.testing.assert_allclose(value, own, rtol=1e-9)
    assert abs(own - expected) > 1e-3


def test_minibatches_average_to_the_full_bound(rng):
    names = ("gaussian", "poisson")
    problem = make_problem(names, (2,), "shared")
    model, q = problem.model, problem.q
    # In four steps one block is seen once, the other twice, each time in a new order.
    xs = [rng.random((size, 2)) for size in (12, 6)]
    ys = [paper.random_values(rng, n, len(x)) for n, x in zip(names, xs, strict=True)]
    data = make_dataset(xs, ys, model.likelihoods)
    state = init(jax.random.key(0), model, optim.fng(), num_steps=9)
    bounds = []
    for step in range(4):
        batch = _minibatch(state, data, 3)
        state = state._replace(iteration=jnp.asarray(step + 1))
        bounds.append(float(_elbo(model, q, batch).elbo))
    assert np.ptp(bounds) > 1
    outputs = [
        paper.Output(f"y{d}", *rest)
        for d, rest in enumerate(zip(names, xs, ys, strict=True))
    ]
    full = -paper.nelbo(problem.parameters, outputs, rank=(2,))
    np.testing.assert_allclose(np.mean(bounds), full, rtol=1e-9)


def test_permuted_outputs_permute_the_answer():
    names, order = ("gaussian", "hetgaussian", "poisson", "gaussian"), (2, 3, 1, 0)
    model, q, data, *_ = make_problem(names, (2, 1), "mixed")
    functions = np.concatenate([model.blocks[d] for d in order])
    prior = eqx.tree_at(
        lambda p: p.weights, model.prior, replace_fn=lambda w: w[functions]
    )
    likelihoods = tuple(model.likelihoods[d] for d in order)
    permuted = tuple(
        Block(b.x, b.y, tuple(order.index(d) for d in b.outputs), b.total)
        for b in reversed(data)
    )
    new_model = Model(prior, model.offset[functions], likelihoods)
    terms, new_terms = _elbo(model, q, data), _elbo(new_model, q, permuted)
    expected = np.asarray(terms.expected_log_lik)[np.array(order)]
    np.testing.assert_allclose(new_terms.expected_log_lik, expected, rtol=1e-12)
    np.testing.assert_allclose(new_terms.kl, terms.kl, rtol=1e-12)


# The same through the estimator.


class Fitted(NamedTuple):
    """A fitted estimator, its data, and the same data in the paper's form."""

    model: MotleyGP
    X: dict[str, np.ndarray]
    Y: dict[str, np.ndarray]
    likelihoods: tuple[str, ...]

    def reference(self) -> float:
        """log p(Y) is bounded in the user's units: - N_d log(scale) per output."""
        parameters = self.model.parameters()
        shifts, scales = parameters["output_shift"], parameters["output_scale"]
        outputs = [
            paper.Output(name, likelihood, self.X[name], (y - shift) / scale)
            for (name, y), likelihood, shift, scale in zip(
                self.Y.items(), self.likelihoods, shifts, scales, strict=True
            )
        ]
        counts = [np.sum(~np.isnan(y)) for y in self.Y.values()]
        nelbo = paper.nelbo(parameters, outputs, rank=RANK, nodes=60)
        return -nelbo - float(np.log(scales) @ counts)

    def elbo(self) -> float:
        return self.model.elbo(self.X, self.Y)


RANK = (2, 1)
CORNER, SPAN = np.array([100.0, -3.0]), np.array([20.0, 0.5])


@pytest.fixture(scope="module", params=["raw", "standardised"])
def fitted_once(request) -> Fitted:
    """Inputs and real outputs far from standard, missing values, own inputs for one.

    All outputs except the last share their rows.
    """
    likelihoods = ("gaussian", "bernoulli", "hetgaussian")
    names = [f"y{d}" for d in range(len(likelihoods))]
    rng = np.random.default_rng(0)
    shared, own = (CORNER + SPAN * rng.random((n, 2)) for n in (20, 15))
    X = dict(zip(names, (shared, shared, own), strict=True))
    Y = {
        name: paper.random_values(rng, likelihood, len(X[name]))
        for name, likelihood in zip(names, likelihoods, strict=True)
    }
    standardised = request.param == "standardised"
    Y["y0"] = 50.0 + 7.0 * Y["y0"] if standardised else Y["y0"]
    Y["y0"][3:6] = np.nan
    Y["y2"][::4] = np.nan
    model = MotleyGP(
        outputs=list(likelihoods),
        num_latents=len(RANK),
        rank=RANK,
        num_inducing=8,
        max_iter=2,
        standardize=standardised,
        random_state=0,
        progress=False,
    )
    return Fitted(model.fit(X, Y), X, Y, likelihoods)


@pytest.fixture
def fitted(fitted_once: Fitted) -> Fitted:
    """A copy whose parameters a test may set."""
    return fitted_once._replace(model=copy.copy(fitted_once.model))


def random_parameters(likelihoods: Sequence[str]) -> dict[str, Any]:
    """New values for all that can be set."""
    new = paper.random_parameters(
        np.random.default_rng(1), likelihoods, rank=RANK, num_inducing=8, joint=True
    )
    del new["jitter"]
    new["inducing"] = CORNER + SPAN * new["inducing"]
    new["lengthscale"] = SPAN * new["lengthscale"]
    real = np.array([name.endswith("gaussian") for name in likelihoods])
    new["output_shift"] = np.where(real, 0.7, 0.0)
    new["output_scale"] = np.where(real, 1.5, 1.0)
    return new


def test_estimator_bound_equals_paper(fitted):
    np.testing.assert_allclose(fitted.elbo(), fitted.reference(), rtol=1e-9)


def test_estimator_bound_at_set_parameters_equals_paper(fitted):
    before, new = fitted.elbo(), random_parameters(fitted.likelihoods)
    fitted.model.set_parameters(**new)
    assert fitted.elbo() != pytest.approx(before, rel=1e-4)
    np.testing.assert_allclose(fitted.elbo(), fitted.reference(), rtol=1e-9)
    parameters = fitted.model.parameters()
    assert parameters["noise"] == pytest.approx(new.pop("noise"), rel=1e-12)
    for name, value in new.items():
        np.testing.assert_allclose(parameters[name], value, rtol=1e-10, atol=1e-12)


def test_setting_the_same_parameters_changes_nothing(fitted):
    before = fitted.elbo()
    fitted.model.set_parameters(**fitted.model.parameters())
    np.testing.assert_allclose(fitted.elbo(), before, rtol=1e-10)


def test_latent_equals_paper_marginals(fitted):
    fitted.model.set_parameters(**random_parameters(fitted.likelihoods))
    X = fitted.X["y0"]
    mean, cov = paper.marginals(fitted.model.parameters(), X, rank=RANK)
    expected = mean, np.einsum("jjn->jn", cov)
    latent = fitted.model.latent(X)
    for place in (0, 1):
        actual = np.concatenate([moments[place].T for moments in latent.values()])
        np.testing.assert_allclose(actual, expected[place], rtol=1e-9, atol=1e-11)
    first = 0
    for _, own in fitted.model.latent(X, covariance=True).values():
        last = first + own.shape[1]
        np.testing.assert_allclose(
            own, np.moveaxis(cov[first:last, first:last], -1, 0), atol=1e-11
        )
        first = last
