"""Minus the ELBO, written from the paper in plain NumPy and SciPy.

It is here to disagree with the package: it shares no code with it, keeps q(u)
unwhitened, builds the paper's matrices in full, and integrates raw log densities on a
plain grid. So it is slow, and good for small and well-conditioned problems alone.
"""

import functools as ft
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
import scipy.stats

# J_d, the number of parameter functions of each likelihood.
NUM_FUNCTIONS = {
    "gaussian": 1,
    "hetgaussian": 2,
    "bernoulli": 1,
    "beta": 2,
    "gamma": 2,
    "exponential": 1,
    "poisson": 1,
}


class Output(NamedTuple):
    """One output's observations; where y is NaN there is none.

    `total` is N_d where these rows are a minibatch, and None where they are all.
    """

    name: str
    likelihood: str
    x: np.ndarray
    y: np.ndarray
    total: int | None = None


def log_density(
    likelihood: str, y: np.ndarray, f: np.ndarray, noise: float | None
) -> np.ndarray:
    """log p(y | psi_1, .., psi_L) with psi = link(f), f of shape (L, ...)."""
    match likelihood:
        case "gaussian":
            return scipy.stats.norm.logpdf(y, f[0], noise)
        case "hetgaussian":
            return scipy.stats.norm.logpdf(y, f[0], np.sqrt(np.exp(f[1])))
        case "bernoulli":
            return scipy.stats.bernoulli.logpmf(y, scipy.special.expit(f[0]))
        case "beta":
            return scipy.stats.beta.logpdf(y, np.exp(f[0]), np.exp(f[1]))
        case "gamma":
            return scipy.stats.gamma.logpdf(y, np.exp(f[0]), scale=np.exp(-f[1]))
        case "exponential":
            return scipy.stats.expon.logpdf(y, scale=np.exp(-f[0]))
        case "poisson":
            return scipy.stats.poisson.logpmf(y, np.exp(f[0]))
    raise ValueError(likelihood)


def kernel(
    x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray, normalised: bool
) -> np.ndarray:
    """The paper's E(x - z | 0, L) with L = diag(l^2), or the same of unit variance."""
    tau = x[:, None, :] - z[None, :, :]
    values = np.exp(-0.5 * np.sum(tau**2 / lengthscale**2, axis=2))
    if normalised:
        determinant = np.prod(lengthscale**2)
        values *= determinant**-0.5 / (2 * np.pi) ** (x.shape[1] / 2)
    return values


def owners(parameters: Mapping[str, Any], rank: int | Sequence[int]) -> np.ndarray:
    """The latent process q of each copy u_q^i, in the order (1,1), .., (1,R_1), .."""
    processes = np.arange(len(parameters["lengthscale"]))
    return np.repeat(processes, np.broadcast_to(rank, processes.shape))


def inducing_covariances(
    parameters: Mapping[str, Any], rank: int | Sequence[int], normalised: bool
) -> list[np.ndarray]:
    """K_uu of each copy of a latent process, the jitter on its diagonal."""
    return [
        kernel(z, z, parameters["lengthscale"][q], normalised) + jitter * np.eye(len(z))
        for z, q, jitter in zip(
            parameters["inducing"],
            owners(parameters, rank),
            parameters["jitter"],
            strict=True,
        )
    ]


def whole(matrices: np.ndarray) -> np.ndarray:
    """One matrix of all groups; a joint q(u) has one already."""
    if matrices.ndim == 2:
        return matrices
    found: Any = scipy.linalg.block_diag(*matrices)
    return found


def marginals(
    parameters: Mapping[str, Any],
    x: np.ndarray,
    *,
    rank: int | Sequence[int] = 1,
    normalised: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Means (J, N) and covariances (J, J, N) of the f_dj at each x under q.

    m_f = A m and V_f = K_ff + A (V - K_uu) A^T with A = K_fu K_uu^-1; the blocks of
    K_fu are a_djq k_q(x, Z_q), K_ff = sum_q a_djq a_dj'q k_q(x, x).
    """
    K_uu = whole(np.stack(inducing_covariances(parameters, rank, normalised)))
    m = np.concatenate(parameters["q_mean"])
    V = whole(parameters["q_cov"])
    scales = parameters["lengthscale"][owners(parameters, rank)]
    k_xu = [
        kernel(x, z, scale, normalised)
        for z, scale in zip(parameters["inducing"], scales, strict=True)
    ]
    k_xx = np.stack(
        [np.diag(kernel(x, x, scale, normalised)) for scale in scales], axis=1
    )
    W = parameters["weights"]
    A = []
    for weights in W:
        K_fu = np.hstack([a * k for a, k in zip(weights, k_xu, strict=True)])
        A.append(np.linalg.solve(K_uu, K_fu.T).T)
    means = [
        offset + own @ m for own, offset in zip(A, parameters["offset"], strict=True)
    ]
    each = range(len(W))
    covariances = [
        [k_xx @ (W[j] * W[i]) + np.diag(A[j] @ (V - K_uu) @ A[i].T) for i in each]
        for j in each
    ]
    return np.stack(means), np.array(covariances)


def expected_log_density(
    output: Output, mean: np.ndarray, cov: np.ndarray, noise: float | None, nodes: int
) -> np.ndarray:
    """E[log p(y_n | f_n)] under f_n ~ N(mean_n, cov_n), on a full grid."""
    t, w = np.polynomial.hermite.hermgauss(nodes)
    num_functions = len(mean)
    grid = np.stack(np.meshgrid(*[np.sqrt(2) * t] * num_functions, indexing="ij"))
    weights = ft.reduce(np.multiply.outer, [w / np.sqrt(np.pi)] * num_functions)
    z = grid.reshape(num_functions, -1)
    # By eigenvectors: perfectly correlated functions have no Cholesky factor.
    values, vectors = np.linalg.eigh(np.moveaxis(cov, -1, 0))
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    f = mean[:, :, None] + np.einsum("njk,ks->jns", root, z)
    values = log_density(output.likelihood, output.y[:, None], f, noise)
    return values @ weights.ravel()


def whitened(
    parameters: Mapping[str, Any], K: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, precision and H, V = H^T H, of q(v): u_g = L_g v_g with K_g = L_g L_g^T."""
    inverse = np.linalg.inv(np.linalg.cholesky(K))
    mean = np.einsum("gmk,gk->gm", inverse, parameters["q_mean"])
    cov = inverse @ parameters["q_cov"] @ inverse.swapaxes(1, 2)
    precision = np.linalg.inv(cov)
    return mean, precision, np.linalg.inv(np.linalg.cholesky(precision))


def kl_divergence(m: np.ndarray, V: np.ndarray, K: np.ndarray) -> float:
    """KL[N(m, V) || N(0, K)] in its textbook form."""
    trace = np.trace(np.linalg.solve(K, V))
    square = m @ np.linalg.solve(K, m)
    log_dets = np.linalg.slogdet(K)[1] - np.linalg.slogdet(V)[1]
    return 0.5 * float(trace + square - len(m) + log_dets)


class Form(NamedTuple):
    """The parts in which priors differ: K_uu of each group, and the marginals."""

    inducing_covariances: Callable[..., list[np.ndarray]]
    marginals: Callable[..., tuple[np.ndarray, np.ndarray]]


LMC = Form(inducing_covariances, marginals)


def nelbo(
    parameters: Mapping[str, Any],
    outputs: Sequence[Output],
    *,
    rank: int | Sequence[int] = 1,
    normalised: bool = False,
    nodes: int = 50,
    form: Form = LMC,
    factorised: bool = False,
) -> float:
    """Minus the ELBO at the arrays of `MotleyGP.parameters()`.

    sum_d (N_d / B_d) sum_n E_q(f_dn)[-log p(y_dn | f)] + sum_q KL[q(u_q) || p(u_q)],
    where q(f_dn) is q(f_d1n) .. q(f_dJn), as in the paper, if `factorised`.
    """
    K_uu = form.inducing_covariances(parameters, rank, normalised)
    # A sum over the groups, if q(u) factorises over them.
    m, V = np.concatenate(parameters["q_mean"]), whole(parameters["q_cov"])
    total = kl_divergence(m, V, whole(np.stack(K_uu)))
    first = 0
    for output in outputs:
        functions = slice(first, first + NUM_FUNCTIONS[output.likelihood])
        first = functions.stop
        seen = ~np.isnan(output.y)
        output = output._replace(x=output.x[seen], y=output.y[seen])
        mean, cov = form.marginals(
            parameters, output.x, rank=rank, normalised=normalised
        )
        cov = cov[functions, functions]
        if factorised:
            cov = cov * np.eye(len(cov))[:, :, None]
        noise = parameters["noise"].get(output.name)
        terms = expected_log_density(output, mean[functions], cov, noise, nodes)
        size = len(output.y)
        scale = (size if output.total is None else output.total) / size
        total -= scale * float(np.sum(terms))
    return total


# Problems to compare on.


def random_parameters(
    rng: np.random.Generator,
    likelihoods: Sequence[str],
    *,
    rank: Sequence[int] = (1, 1),
    normalised: bool = False,
    num_inducing: int = 9,
    jitter: float = 0.0,
    joint: bool = False,
) -> dict[str, Any]:
    """Parameters at random for two inputs in the unit square, with at most nine
    inducing points.

    The points lie near a grid of the width of a length-scale, so that K_uu is well
    conditioned, and the functions vary by less than 0.7, so that fifty nodes integrate
    every density to the last digits. `jitter` is relative to the diagonal of K_uu.
    """
    num_functions = sum(NUM_FUNCTIONS[name] for name in likelihoods)
    num_groups, num_latents = sum(rank), len(rank)
    grid = np.stack(np.meshgrid(*[[0.0, 0.5, 1.0]] * 2), axis=-1).reshape(-1, 2)
    grid = grid[:num_inducing]
    noise = {
        f"y{d}": float(rng.uniform(0.3, 0.8))
        for d, name in enumerate(likelihoods)
        if name == "gaussian"
    }
    parameters: dict[str, Any] = {
        "inducing": grid + rng.uniform(-0.1, 0.1, size=(num_groups, *grid.shape)),
        "lengthscale": rng.uniform(0.3, 0.5, size=(num_latents, 2)),
        "weights": rng.uniform(-1, 1, size=(num_functions, num_groups)),
        "offset": 0.3 * rng.normal(size=num_functions),
        "noise": noise,
        "jitter": np.zeros(num_groups),
    }
    parameters["weights"] *= 0.85 / np.sqrt(num_groups)
    K = np.stack(inducing_covariances(parameters, rank, normalised))
    parameters["jitter"] = jitter * K[:, 0, 0]
    factor = rng.normal(size=K.shape) / 10
    parameters["q_mean"] = 0.7 * rng.normal(size=K.shape[:2])
    parameters["q_cov"] = 0.5 * K + factor @ factor.swapaxes(1, 2)
    if joint:
        factor = rng.normal(size=whole(K).shape) / 10
        parameters["q_cov"] = 0.5 * whole(K) + factor @ factor.T
    return parameters


def random_values(rng: np.random.Generator, likelihood: str, size: int) -> np.ndarray:
    """Values in the support of a likelihood."""
    match likelihood:
        case "gaussian" | "hetgaussian":
            return rng.normal(size=size)
        case "bernoulli":
            return rng.permutation(np.arange(size) % 2).astype(float)
        case "beta":
            return rng.uniform(0.05, 0.95, size=size)
        case "gamma" | "exponential":
            return rng.uniform(0.1, 3.0, size=size)
        case "poisson":
            return rng.poisson(2.0, size=size).astype(float)
    raise ValueError(likelihood)
