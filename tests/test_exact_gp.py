"""Gaussian outputs, where everything has a closed form.

With one latent process the optimal q(u) and the evidence are known; with several, q(u)
factorises where the posterior does not, and the optimum is that of a quadratic.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.stats

from motleygp import Predictive, kernels, likelihoods as lik, priors
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.derivatives import gradients
from motleygp.inference.model import Model
from motleygp.inference.objective import elbo, function_moments
from motleygp.inference.posterior import Posterior, from_precision, from_prior, unwhiten
from motleygp.optim import Guard, NaturalGradient

pytestmark = pytest.mark.usefixtures("quick_compilation")

_elbo = eqx.filter_jit(elbo)
_function_moments = eqx.filter_jit(function_moments)
_unwhiten = eqx.filter_jit(unwhiten)


def eq_kernel(x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    distance = np.sum(((x[:, None, :] - z[None, :, :]) / lengthscale) ** 2, axis=2)
    return np.exp(-0.5 * distance)


class Problem(NamedTuple):
    """Gaussian outputs of a linear model of coregionalisation, as plain arrays."""

    xs: list[np.ndarray]
    ys: list[np.ndarray]
    lengthscale: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    noise: np.ndarray
    inducing: np.ndarray
    jitter: float

    def package(self) -> tuple[Model, Dataset]:
        likelihoods = tuple(lik.Gaussian(float(s)) for s in self.noise)
        prior = priors.LMC(
            kernels.EQ(self.lengthscale),
            self.weights,
            self.inducing,
            jitter=self.jitter,
        )
        model = Model(prior, jnp.asarray(self.offset), likelihoods)
        return model, make_dataset(self.xs, self.ys, likelihoods)

    def stacked(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The inputs of all observations, their outputs, and their values minus the
        offsets."""
        output = np.repeat(np.arange(len(self.ys)), [len(y) for y in self.ys])
        return (
            np.concatenate(self.xs),
            output,
            np.concatenate(self.ys) - self.offset[output],
        )


@eqx.filter_jit
def whole_step(model: Model, q: Posterior, data: Dataset) -> Posterior:
    """A natural-gradient step of length 1 without a guard."""
    method = NaturalGradient(1.0, guard=None)
    _, grads = gradients(model, q, data)
    return method.update(grads.q, method.init(q), q)[0]


# One latent process: a step of length 1 is exact inference.


def one_latent(*, dense: bool) -> Problem:
    """Three outputs that share their rows in part; Z = X, or a few points."""
    rng = np.random.default_rng(0)
    side = np.linspace(0.0, 1.0, 6)
    x = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    x = x + rng.uniform(-0.05, 0.05, size=x.shape)
    rows = [np.arange(36), np.arange(0, 36, 2), np.arange(10, 36)]
    wave = np.sin(4.0 * x[:, 0]) * np.cos(3.0 * x[:, 1])
    weights = np.array([[1.0], [-0.7], [1.8]])
    noise = np.array([0.1, 0.3, 0.5])
    offset = np.array([0.4, -1.0, 2.0])
    ys = [
        b + w * wave[r] + s * rng.normal(size=len(r))
        for b, w, s, r in zip(offset, weights[:, 0], noise, rows, strict=True)
    ]
    inducing = x[None] if dense else x[None, ::4] + 0.03
    # The jitter is a noise on u: it costs the bound some w^2 jitter / s^2 per row, and
    # 1e-8 would be seen.
    return Problem(
        xs=[x[r] for r in rows],
        ys=ys,
        lengthscale=np.array([[0.3, 0.4]]),
        weights=weights,
        offset=offset,
        noise=noise,
        inducing=inducing,
        jitter=1e-10 if dense else 1e-8,
    )


def random_q(problem: Problem) -> Posterior:
    rng = np.random.default_rng(1)
    size = problem.inducing.shape[1]
    factor = rng.normal(size=(1, size, size)) / np.sqrt(size)
    precision = 0.5 * np.eye(size) + factor @ factor.swapaxes(1, 2)
    return from_precision(
        jnp.asarray(rng.normal(size=(1, size))), jnp.asarray(precision)
    )


@pytest.mark.parametrize("start", ["prior", "random"])
def test_one_step_gives_the_optimal_posterior(start):
    problem = one_latent(dense=False)
    model, data = problem.package()
    q = from_prior(model.prior) if start == "prior" else random_q(problem)
    q = whole_step(model, q, data)
    z, lengthscale = problem.inducing[0], problem.lengthscale[0]
    K = eq_kernel(z, z, lengthscale) + problem.jitter * np.eye(len(z))
    x, output, residual = problem.stacked()
    # V^-1 = K^-1 + sum_n a_n a_n^T / s_n^2, m = V sum_n a_n r_n / s_n^2, with a_n the
    # n-th row of A = W K_xu K^-1.
    K_xu = problem.weights[output] * eq_kernel(x, z, lengthscale)
    A = np.linalg.solve(K, K_xu.T)
    scaled = A / problem.noise[output] ** 2
    V = np.linalg.inv(np.linalg.inv(K) + scaled @ A.T)
    mean, cov = _unwhiten(model.prior, q)
    np.testing.assert_allclose(cov[0], V, rtol=1e-8, atol=1e-8 * np.abs(V).max())
    m = V @ scaled @ residual
    np.testing.assert_allclose(mean[0], m, rtol=1e-8, atol=1e-8 * np.abs(m).max())


class Exact(NamedTuple):
    """The exact Gaussian process: its evidence, and moments of f at new inputs."""

    log_evidence: float
    mean: np.ndarray
    var: np.ndarray


def exact_gp(problem: Problem, new: np.ndarray) -> Exact:
    """One dense Cholesky factor of cov[y] = sum_q w_q w_q^T o K_q + noise."""
    x, output, residual = problem.stacked()
    cov = np.diag(problem.noise[output] ** 2)
    cross = np.zeros((len(problem.ys), len(new), len(x)))
    for weights, lengthscale in zip(
        problem.weights.T, problem.lengthscale, strict=True
    ):
        w = weights[output]
        cov += np.outer(w, w) * eq_kernel(x, x, lengthscale)
        cross += weights[:, None, None] * w * eq_kernel(new, x, lengthscale)
    factor = scipy.linalg.cho_factor(cov, lower=True)
    alpha = scipy.linalg.cho_solve(factor, residual)
    log_det = 2.0 * np.sum(np.log(np.diag(factor[0])))
    evidence = -0.5 * (residual @ alpha + log_det + len(x) * np.log(2.0 * np.pi))
    solved = np.stack([scipy.linalg.cho_solve(factor, c.T).T for c in cross])
    prior_var = np.sum(problem.weights**2, axis=1)[:, None]
    return Exact(
        evidence,
        problem.offset[:, None] + cross @ alpha,
        prior_var - np.sum(cross * solved, axis=2),
    )


def test_inducing_points_at_the_data_make_it_exact():
    problem = one_latent(dense=True)
    model, data = problem.package()
    q = whole_step(model, from_prior(model.prior), data)
    new = np.random.default_rng(2).uniform(0.0, 1.0, size=(25, 2))
    exact = exact_gp(problem, new)
    bound = float(_elbo(model, q, data).elbo)
    np.testing.assert_allclose(bound, exact.log_evidence, rtol=1e-6)
    mean, var = map(np.asarray, _function_moments(model, q, jnp.asarray(new)))
    np.testing.assert_allclose(mean, exact.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(var, exact.var, rtol=1e-6)
    for d, likelihood in enumerate(model.likelihoods):
        predictive = Predictive(likelihood, mean[[d]], var[[d]])
        y_var = exact.var[d] + problem.noise[d] ** 2
        np.testing.assert_allclose(predictive.mean, exact.mean[d], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(predictive.variance, y_var, rtol=1e-6)
        y = exact.mean[d] + np.linspace(-2.0, 2.0, len(new))
        log_density = scipy.stats.norm.logpdf(y, exact.mean[d], np.sqrt(y_var))
        np.testing.assert_allclose(predictive.log_prob(y), log_density, rtol=1e-6)


# Several latent processes: the steps of the groups are right alone, not together.


def several_latents(*, collinear: bool) -> Problem:
    rng = np.random.default_rng(0)
    x = np.sort(rng.random((60, 1)), axis=0)
    if collinear:
        lengthscale = np.array([[0.2], [0.21], [0.205]])
        weights = np.ones((3, 3)) + 1e-2 * rng.normal(size=(3, 3))
    else:
        lengthscale = np.array([[0.1], [0.3], [1.0]])
        weights = rng.normal(size=(3, 3))
    waves = np.sin(6 * x) + np.cos(3 * x) * rng.normal(size=(1, 3))
    y = waves + 0.1 * rng.normal(size=(60, 3))
    return Problem(
        xs=[x] * 3,
        ys=list(y.T),
        lengthscale=lengthscale,
        weights=weights,
        offset=np.zeros(3),
        noise=np.full(3, 0.1),
        inducing=np.tile(np.linspace(0.0, 1.0, 15)[:, None], (3, 1, 1)),
        jitter=1e-8,
    )


class Quadratic:
    """Minus the bound as a function of (m_g, C_g), whitened, V_g = C_g C_g^T.

    F = sum_n [(r_n - sum_g w_ng b_ng^T m_g)^2 + sum_g w_ng^2 (t_ng + |C_g^T b_ng|^2)]
        / (2 s_n^2) + 1/2 log(2 pi s_n^2) + sum_g KL,
    with b_ng the whitened projection of row n and t_ng = k - |b_ng|^2.
    """

    def __init__(self, problem: Problem):
        x, output, self.residual = problem.stacked()
        self.noise = problem.noise[output]
        bases = []
        for z, scale in zip(problem.inducing, problem.lengthscale, strict=True):
            K = eq_kernel(z, z, scale) + problem.jitter * np.eye(len(z))
            factor = np.linalg.cholesky(K)
            cross = eq_kernel(z, x, scale)
            bases.append(scipy.linalg.solve_triangular(factor, cross, lower=True))
        basis = np.stack(bases)
        w = problem.weights[output].T
        left = np.maximum(1.0 - np.sum(basis**2, axis=1), 0.0)
        self.constant = 0.5 * np.sum(w**2 * left / self.noise**2) + np.sum(
            0.5 * np.log(2.0 * np.pi * self.noise**2)
        )
        self.design = basis * (w / self.noise)[:, None, :]
        self.gram = self.design @ self.design.swapaxes(1, 2)
        self.num_groups, self.size = self.design.shape[:2]
        self.lower = np.tril_indices(self.size)

    def start(self) -> np.ndarray:
        """q(u) = p(u) as one vector."""
        factors = np.tile(np.eye(self.size)[self.lower], self.num_groups)
        return np.concatenate([np.zeros(self.num_groups * self.size), factors])

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and the gradient."""
        cut = self.num_groups * self.size
        m = vector[:cut].reshape(self.num_groups, self.size)
        C = np.zeros_like(self.gram)
        C[:, *self.lower] = vector[cut:].reshape(self.num_groups, -1)
        diagonal = np.diagonal(C, axis1=1, axis2=2)
        misfit = self.residual / self.noise - np.einsum("gm,gmn->n", m, self.design)
        spread = self.gram @ C
        kl = 0.5 * (np.sum(C**2) + np.sum(m**2) - m.size)
        kl -= np.sum(np.log(np.abs(diagonal)))
        value = 0.5 * misfit @ misfit + 0.5 * np.sum(C * spread) + self.constant + kl
        in_m = m - self.design @ misfit
        in_C = C + spread
        places = np.arange(self.size)
        in_C[:, places, places] -= 1.0 / diagonal
        return value, np.concatenate([in_m.ravel(), in_C[:, *self.lower].ravel()])

    def minimum(self) -> float:
        """The optimum: V_g^-1 = I + gram_g, and least squares in all means at once."""
        design = self.design.reshape(-1, self.design.shape[2])
        y = self.residual / self.noise
        m = np.linalg.solve(design @ design.T + np.eye(len(design)), design @ y)
        V = np.linalg.inv(np.eye(self.size) + self.gram)
        factors = np.linalg.cholesky(V)[:, *self.lower]
        return self(np.concatenate([m, factors.ravel()]))[0]


def by_lbfgs(loss: Quadratic) -> list[float]:
    """The values that L-BFGS sees on its way down."""
    seen: list[float] = []

    def counted(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss(vector)
        seen.append(value)
        return value, gradient

    scipy.optimize.minimize(
        counted,
        loss.start(),
        jac=True,
        method="L-BFGS-B",
        options=dict(maxiter=40_000, maxfun=80_000, ftol=1e-15, gtol=1e-7, maxcor=30),
    )
    return seen


@eqx.filter_jit
def descend(
    model: Model,
    data: Dataset,
    guard: Guard | None,
    momentum: jax.Array,
    *,
    joint: bool = False,
    length: int = 4000,
) -> jax.Array:
    """Minus the bound before each natural-gradient step of length 1 from the prior."""
    # An array, so that one program serves every value.
    method = NaturalGradient(1.0, momentum=momentum, guard=guard)

    def step(carry: Any, _: Any) -> tuple[Any, jax.Array]:
        q, state = carry
        terms, grads = gradients(model, q, data)
        new, state, _ = method.update(grads.q, state, q)
        return (new, state), -terms.elbo

    q = from_prior(model.prior, joint=joint)
    return jax.lax.scan(step, (q, method.init(q)), None, length=length)[1]


def evaluations(values, best: float) -> int | None:
    """How many evaluations it takes to come within 1e-6 of the best value."""
    close = np.asarray(values) <= best + 1e-6 * abs(best)
    return int(np.argmax(close)) + 1 if close.any() else None


@pytest.mark.parametrize("collinear", [False, True], ids=["easy", "collinear"])
def test_guarded_steps_reach_the_optimum(collinear, capsys):
    problem = several_latents(collinear=collinear)
    model, data = problem.package()
    loss = Quadratic(problem)
    slow = by_lbfgs(loss)
    best = min(slow)
    np.testing.assert_allclose(best, loss.minimum(), rtol=1e-6)
    values = np.asarray(descend(model, data, Guard(), jnp.asarray(0.95)))
    np.testing.assert_allclose(values[0], slow[0], rtol=1e-9)
    np.testing.assert_allclose(values[-1], best, rtol=1e-6)
    assert -values[-1] < exact_gp(problem, problem.xs[0][:1]).log_evidence
    with capsys.disabled():
        print(
            f"\n{'collinear' if collinear else 'easy'}: evaluations to 1e-6 of "
            f"{best:.6f}: natural gradient {evaluations(values, best)}, "
            f"L-BFGS {evaluations(slow, best)}"
        )


def test_unguarded_steps_diverge_where_latents_are_collinear():
    """Each group by itself explains all that the three should explain together.

    Momentum damps this too; without it, only the guard is left.
    """
    model, data = several_latents(collinear=True).package()
    assert np.isnan(descend(model, data, None, jnp.asarray(0.0))[-1])
    guarded = np.asarray(descend(model, data, Guard(), jnp.asarray(0.0)))
    assert np.isfinite(guarded).all()
    assert guarded[-1] < 0.2 * guarded[0]
