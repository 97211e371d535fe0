"""The log evidence of tiny models by quadrature, in NumPy and SciPy, and models to try.

The evidence is the integral of prod p(y_dn | f) over the joint prior of all function
values. In these models that Gaussian has rank two at most, f = offset + A z with z
standard normal, so the integral is over one or two variables. It shares no code with
the package.
"""

import functools as ft
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special

import paper_convolution
import paper_numpy as paper
from motleygp import kernels, likelihoods as lik, priors
from motleygp.inference.data import Dataset, gather
from motleygp.inference.model import Model
from motleygp.inference.objective import elbo
from motleygp.inference.posterior import from_factor

LOG_2PI = np.log(2.0 * np.pi)

# The integral.

# The nodes of each pass of the search for the interval that matters. The first must not
# miss a peak beside another; along the outer direction, nothing is narrow.
_SEARCH, _OUTER_SEARCH = (129, *[33] * 7), (33,) * 4
_TOLERANCE = 1e-9

Lines = Callable[[np.ndarray], np.ndarray]


class _Rule(NamedTuple):
    """The nodes of a line, the depth of the integrand's logarithm at the ends of its
    interval, relative to the maximum, and the largest |z_i|."""

    nodes: int
    depth: float
    reach: float


_RULES = (
    _Rule(32, 28.0, 10.0),
    _Rule(64, 34.0, 11.5),
    _Rule(128, 40.0, 13.0),
    _Rule(256, 46.0, 14.0),
    _Rule(512, 52.0, 15.0),
)


def log_integral(log_fn: Callable[[np.ndarray], np.ndarray], dim: int) -> float:
    """log of the integral of exp(log_fn(z)) N(z | 0, I), with an error below 1e-8.

    `log_fn` takes z of shape (dim, K). Trapezoid rules converge faster than any power
    of the spacing for smooth functions that vanish at both ends; nodes, depth and reach
    grow until two results agree to 1e-9.
    """
    if dim == 0:
        return float(log_fn(np.zeros((0, 1)))[0])
    if dim > 2:
        raise ValueError(f"`dim` must be at most 2; got {dim}.")
    # N(z | 0, I) is the same in all rotations.
    axes = _axes(log_fn) if dim == 2 else np.eye(1)
    integrate = _over_plane if dim == 2 else _over_line
    last = np.inf
    for rule in _RULES:
        value = integrate(lambda z: log_fn(axes @ z), rule)
        if abs(value - last) < _TOLERANCE:
            return value
        last = value
    raise ArithmeticError(f"the integral did not converge; last {last}")


def _log_joint(log_fn: Callable, z: np.ndarray) -> np.ndarray:
    return log_fn(z) - 0.5 * np.sum(z**2 + LOG_2PI, axis=0)


def _over_line(log_fn: Callable, rule: _Rule) -> float:
    return float(_integrals(lambda t: _log_joint(log_fn, t)[None], 1, rule)[0])


def _over_plane(log_fn: Callable, rule: _Rule) -> float:
    """The integral over z_1 of the integrals over z_2, each on an interval of its own:
    a ridge or a funnel needs no more nodes than a round peak."""

    def inner(outer: np.ndarray) -> np.ndarray:
        def along(t: np.ndarray) -> np.ndarray:
            first = np.broadcast_to(outer.T, t.shape)
            joint = _log_joint(log_fn, np.stack([first.ravel(), t.ravel()]))
            return joint.reshape(t.shape)

        return _integrals(along, outer.size, rule)[None]

    return float(_integrals(inner, 1, rule, _OUTER_SEARCH)[0])


def _axes(log_fn: Callable) -> np.ndarray:
    """An outer and an inner direction, as columns; the inner one is that of the largest
    slopes, across a ridge or a funnel, tails included. Integrated along the other one
    first, a funnel would be a cusp."""
    side = np.linspace(-6.0, 6.0, 49)
    grid = np.stack([a.ravel() for a in np.meshgrid(side, side)])
    step = 1e-4 * np.eye(2)[:, :, None]
    slope = np.stack([log_fn(grid + e) - log_fn(grid - e) for e in step])
    weight = scipy.special.softmax(0.25 * _log_joint(log_fn, grid))
    _, vectors = np.linalg.eigh((weight * slope) @ slope.T)
    return vectors


def _integrals(
    log_fn: Lines, count: int, rule: _Rule, search: Sequence[int] = _SEARCH
) -> np.ndarray:
    """log of the integrals of exp(log_fn) along `count` lines; t is (count, K)."""
    low, high = _intervals(log_fn, count, rule, search)
    values = log_fn(_between(low, high, rule.nodes))
    spacing = (high - low) / (rule.nodes - 1)
    return scipy.special.logsumexp(values, axis=1) + np.log(spacing)


def _intervals(
    log_fn: Lines, count: int, rule: _Rule, search: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the part of each line where log_fn is near its maximum.

    The nodes beside a peak have the largest values even if they miss it by many of its
    widths, so the interval closes in on it.
    """
    low, high = np.full(count, -rule.reach), np.full(count, rule.reach)
    rows = np.arange(count)
    for nodes in search:
        t = _between(low, high, nodes)
        values = log_fn(t)
        near = values > values.max(axis=1, keepdims=True) - rule.depth
        first = np.argmax(near, axis=1)
        last = nodes - 1 - np.argmax(near[:, ::-1], axis=1)
        width = high - low
        low = t[rows, np.maximum(first - 1, 0)]
        high = t[rows, np.minimum(last + 1, nodes - 1)]
        if (high - low > 0.6 * width).all():
            break
    return low, high


def _between(low: np.ndarray, high: np.ndarray, nodes: int) -> np.ndarray:
    return low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, nodes)


# The densities, from the textbook, and draws from them.


def log_density(name: str, y: float, f: np.ndarray, noise: float) -> np.ndarray:
    """log p(y | f) for f of shape (L, ...)."""
    match name:
        case "gaussian":
            return -0.5 * (LOG_2PI + ((y - f[0]) / noise) ** 2) - np.log(noise)
        case "hetgaussian":
            return -0.5 * (LOG_2PI + f[1] + (y - f[0]) ** 2 * np.exp(-f[1]))
        case "bernoulli":
            return -np.logaddexp(0.0, -f[0] if y == 1 else f[0])
        case "poisson":
            return y * f[0] - np.exp(f[0]) - scipy.special.gammaln(y + 1.0)
        case "exponential":
            return f[0] - y * np.exp(f[0])
        case "gamma":
            shape, log_rate = np.exp(f[0]), f[1]
            constant = shape * log_rate - scipy.special.gammaln(shape)
            return constant + (shape - 1.0) * np.log(y) - y * np.exp(log_rate)
        case "beta":
            a, b = np.exp(f)
            powers = (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
            return powers - scipy.special.betaln(a, b)
    raise ValueError(name)


def draw(rng: np.random.Generator, name: str, f: np.ndarray, noise: float) -> float:
    """A value of p(y | f), away from the ends of its support."""
    match name:
        case "gaussian":
            return rng.normal(f[0], noise)
        case "hetgaussian":
            return rng.normal(f[0], np.exp(0.5 * f[1]))
        case "bernoulli":
            return float(rng.random() < scipy.special.expit(f[0]))
        case "poisson":
            return float(rng.poisson(np.exp(f[0])))
        case "exponential":
            return rng.exponential(np.exp(-f[0]))
        case "gamma":
            return max(rng.gamma(np.exp(f[0])) * np.exp(-f[1]), 1e-4)
        case "beta":
            return float(np.clip(rng.beta(*np.exp(f)), 1e-4, 1.0 - 1e-4))
    raise ValueError(name)


# The evidence of a model.


def prior_covariance(prior: priors.AbstractPrior, x: np.ndarray) -> np.ndarray:
    """cov[f_j(x_n), f_i(x_k)], of shape (J, N, J, N).

    The functions of `Convolution` are independent, with the variances of the
    convolution: that is its model.
    """
    parameters = {name: np.asarray(a) for name, a in prior.parameters().items()}
    weights = parameters["weights"]
    if prior.name == "lmc":
        each = [paper.kernel(x, x, l, False) for l in parameters["lengthscale"]]
        return np.einsum("jg,gnk,ig->jnik", weights, np.stack(each), weights)
    written = paper_convolution.Prior(parameters, normalised=False)
    functions = range(len(weights))
    cov = np.array([[written.ff(j, i, x, x) for i in functions] for j in functions])
    if prior.name == "convolution":
        cov *= np.eye(len(weights))[:, :, None, None]
    return cov.transpose(0, 2, 1, 3)


def factor(cov: np.ndarray) -> np.ndarray:
    """A with A A^T = cov, one column per eigenvalue that is not zero."""
    values, vectors = np.linalg.eigh(cov)
    kept = values > 1e-14 * max(values.max(), 1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])


def log_evidence(model: Model, data: Dataset) -> float:
    """log p(y | theta) of a model of rank two at most, whose outputs share one block.

    Outputs whose functions are independent of all others have an integral each.
    """
    (block,) = data
    x, y = np.asarray(block.x), np.asarray(block.y)
    outputs = range(len(model.likelihoods))
    if model.prior.name == "convolution":
        return sum(_log_evidence(model, x, y, [d]) for d in outputs)
    return _log_evidence(model, x, y, list(outputs))


def _log_evidence(
    model: Model, x: np.ndarray, y: np.ndarray, outputs: Sequence[int]
) -> float:
    functions = np.concatenate([model.blocks[d] for d in outputs])
    size = len(functions) * len(x)
    cov = prior_covariance(model.prior, x)[functions][:, :, functions]
    root = factor(cov.reshape(size, size))
    offset = np.repeat(np.asarray(model.offset)[functions], len(x))

    def log_lik(z: np.ndarray) -> np.ndarray:
        f = (offset[:, None] + root @ z).reshape(len(functions), len(x), -1)
        total, start = np.zeros(z.shape[1]), 0
        for d in outputs:
            likelihood = model.likelihoods[d]
            own = f[start : start + likelihood.num_functions]
            start += likelihood.num_functions
            noise = float(likelihood.parameters().get("noise", 1.0))
            for n, value in enumerate(y[d]):
                total += log_density(likelihood.name, value, own[:, n], noise)
        return total

    return log_integral(log_lik, root.shape[1])


# Random models.

# The range of the offset of each function.
_OFFSETS = {
    "gaussian": [(-1.0, 1.0)],
    "hetgaussian": [(-1.0, 1.0), (-3.0, 1.0)],
    "bernoulli": [(-1.5, 1.5)],
    "poisson": [(-1.0, 2.0)],
    "exponential": [(-2.0, 2.0)],
    "gamma": [(-1.0, 3.0), (-1.0, 3.0)],
    "beta": [(-1.0, 3.0), (-1.0, 3.0)],
}
_PRIORS = {
    "lmc": priors.LMC,
    "convolution": priors.Convolution,
    "latent": priors.LatentConvolution,
}
_NUM_ROWS = _NUM_PROCESSES = _NUM_INDUCING = 2


class _Shape(NamedTuple):
    """The numbers of different rows, of processes with weights, and of different
    smoothing kernels; their product is the rank of the prior."""

    rows: int
    processes: int
    smoothings: int


def _shape(rng: np.random.Generator, prior: str, sizes: Sequence[int]) -> _Shape:
    """One that leaves two dimensions at most, for outputs with `sizes` functions."""
    if prior == "convolution":
        rows = 1 if max(sizes) == 2 else int(rng.integers(1, 3))
        return _Shape(rows, int(rng.integers(1, 3)), sum(sizes))
    if prior == "latent" and sum(sizes) == 2 and rng.random() < 0.3:
        return _Shape(1, 2, 2)
    single = np.ones(3, dtype=int)
    single[rng.integers(2 if prior == "lmc" else 3)] = 2
    return _Shape(*single.tolist())


def random_model(
    rng: np.random.Generator, kind: str, prior: str
) -> tuple[Model, Dataset]:
    """A tiny model and values drawn from it; `kind` has the names of its likelihoods.

    All models of one kind and prior have arrays of the same shapes, so that one program
    serves them: two rows, which may be the same; two processes, of which one may have
    no weight; two outputs of a kind with one name, or one if its two functions need the
    whole rank.
    """
    names = kind.split("+")
    if len(names) == 1 and not (prior == "latent" and len(_OFFSETS[kind]) == 2):
        names = names * 2
    sizes = [len(_OFFSETS[name]) for name in names]
    shape = _shape(rng, prior, sizes)
    x = np.resize(rng.uniform(0, 3, (shape.rows, 1)), (_NUM_ROWS, 1))
    weights = _random_weights(rng, sum(sizes), shape)
    if prior == "lmc" and rng.random() < 0.3:
        # All outputs but the first are constant.
        weights[sizes[0] :] = 0.0
    kernel = kernels.EQ(rng.uniform(0.3, 2.0, (_NUM_PROCESSES, 1)))
    smoothing = np.resize(
        rng.uniform(0.1, 1.0, (shape.smoothings, 1)), (len(weights), 1)
    )
    num_groups = len(weights) if prior == "convolution" else _NUM_PROCESSES
    inducing = _random_inducing(rng, x, num_groups)
    more = [] if prior == "lmc" else [smoothing]
    made = _PRIORS[prior](kernel, weights, *more, inducing, rank=(1, 1))
    ranges = [pair for name in names for pair in _OFFSETS[name]]
    offset = jnp.asarray([rng.uniform(*pair) for pair in ranges])
    likelihoods = tuple(
        lik.Gaussian(rng.uniform(0.1, 1.0)) if name == "gaussian" else lik.get(name)
        for name in names
    )
    model = Model(made, offset, likelihoods)
    return model, gather([x] * len(names), _random_values(rng, model, x))


def _random_weights(
    rng: np.random.Generator, num_functions: int, shape: _Shape
) -> np.ndarray:
    """Weights with which the functions have standard deviations between 0.2 and 1.5."""
    weights = rng.normal(size=(num_functions, _NUM_PROCESSES))
    weights[:, shape.processes :] = 0.0
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    return weights / length * rng.uniform(0.2, 1.5, (num_functions, 1))


def _random_inducing(
    rng: np.random.Generator, x: np.ndarray, num_groups: int
) -> np.ndarray:
    """At the rows, near them, or anywhere: the bound holds for all."""
    anywhere = rng.uniform(-1, 4, (num_groups, _NUM_INDUCING, 1))
    at_rows = np.tile(x, (num_groups, 1, 1))
    match rng.integers(3):
        case 0:
            return at_rows
        case 1:
            return at_rows + rng.normal(0, 0.3, at_rows.shape)
    return anywhere


def _random_values(
    rng: np.random.Generator, model: Model, x: np.ndarray
) -> list[np.ndarray]:
    cov = prior_covariance(model.prior, x)
    root = factor(cov.reshape(len(model.offset) * len(x), -1))
    noise_free = (root @ rng.normal(size=root.shape[1])).reshape(-1, len(x))
    f = noise_free + np.asarray(model.offset)[:, None]
    values = []
    for own, likelihood in zip(model.blocks, model.likelihoods, strict=True):
        noise = float(likelihood.parameters().get("noise", 1.0))
        drawn = [draw(rng, likelihood.name, fn, noise) for fn in f[list(own)].T]
        values.append(np.array(drawn))
    return values


# The objective, at many models at once.


class Batch:
    """Models of one structure, stacked: one compiled program has all of their bounds.

    q(u) of each model is given by its means (G, M) and by a matrix (G, M, M) with the
    factor of its covariance below the diagonal, and the log of the factor's diagonal
    on it.
    """

    def __init__(self, problems: Sequence[tuple[Model, Dataset]]):
        self.problems = list(problems)
        self.stacked = jax.tree.map(lambda *a: jnp.stack(a), *self.problems)
        inducing = self.stacked[0].prior.inducing
        self.mean_shape = inducing.shape[:3]
        self.num_means = int(np.prod(self.mean_shape))
        self.size = self.num_means * (1 + self.mean_shape[-1])

    def start(self) -> np.ndarray:
        """The q(u) with mean 0 and covariance I / 4, whitened."""
        eye = np.log(0.5) * np.eye(self.mean_shape[-1])
        raw = np.broadcast_to(eye, (*self.mean_shape, self.mean_shape[-1]))
        return np.concatenate([np.zeros(self.num_means), raw.ravel()])

    def _split(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, raw = q[: self.num_means], q[self.num_means :]
        return (
            mean.reshape(self.mean_shape),
            raw.reshape(*self.mean_shape, self.mean_shape[-1]),
        )

    def values(self, q: np.ndarray) -> np.ndarray:
        """The objective of each model at its part of q."""
        return np.asarray(_values_and_slopes(self.stacked, *self._split(q))[0])

    def best(self) -> np.ndarray:
        """The q of the largest objectives. Their sum is maximised: each has a q of its
        own, so that each is at its maximum."""

        def loss(q: np.ndarray) -> tuple[float, np.ndarray]:
            values, slopes = _values_and_slopes(self.stacked, *self._split(q))
            slope = np.concatenate([np.ravel(a) for a in slopes])
            return -float(np.sum(values)), -slope

        found = scipy.optimize.minimize(
            loss,
            self.start(),
            jac=True,
            method="L-BFGS-B",
            options=dict(maxiter=2000, maxfun=4000, maxcor=30, gtol=1e-4, ftol=1e-11),
        )
        if not found.success:
            raise ArithmeticError(f"q(u) did not converge: {found.message}")
        return found.x

    @ft.cached_property
    def evidences(self) -> np.ndarray:
        return np.array([log_evidence(*problem) for problem in self.problems])


@eqx.filter_jit
def _values_and_slopes(stacked, mean, raw):
    def value(problem: tuple[Model, Dataset], mean, raw):
        diagonal = jnp.exp(jnp.diagonal(raw, axis1=-2, axis2=-1))
        lower = jnp.tril(raw, -1) + diagonal[..., None] * jnp.eye(raw.shape[-1])
        model, data = problem
        return elbo(model, from_factor(mean, lower), data).elbo

    def one(args):
        problem, mean, raw = args
        return jax.value_and_grad(value, argnums=(1, 2))(problem, mean, raw)

    return jax.lax.map(one, (stacked, mean, raw))
