"""The convolution prior, written from the paper in plain NumPy.

Like `paper_numpy`, it shares no code with the package. Everything follows from one
formula: the convolution of Gaussian densities is the density with the sum of their
covariances. The unit-variance form is made by rescaling u_q and G_{j,q} themselves.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import paper_numpy as paper


def density(tau: np.ndarray, square: np.ndarray) -> np.ndarray:
    """E(tau | 0, diag(square))."""
    exponent = -0.5 * np.sum(tau**2 / square, axis=-1)
    return np.exp(exponent) / np.sqrt(np.prod(2.0 * np.pi * square))


class Prior:
    """The covariances of f and u at the arrays of `MotleyGP.parameters()`."""

    def __init__(self, parameters: Mapping[str, Any], normalised: bool):
        self.L = np.asarray(parameters["lengthscale"]) ** 2
        self.kappa = np.asarray(parameters["smoothing"]) ** 2
        self.S = np.asarray(parameters["weights"])
        zero = np.zeros(self.L.shape[1])
        # k_q = u_scale E(. | 0, L_q) and G_jq = S_jq g_scale E(. | 0, kappa_j).
        self.u_scale = np.ones(len(self.L))
        self.g_scale = np.ones_like(self.S)
        if not normalised:
            self.u_scale = 1.0 / np.array([density(zero, L) for L in self.L])
            for j, q in np.ndindex(self.S.shape):
                variance = self.u_scale[q] * density(
                    zero, 2.0 * self.kappa[j] + self.L[q]
                )
                self.g_scale[j, q] = variance**-0.5

    def latent(self, q: int, r: np.ndarray) -> np.ndarray:
        """k_q at the differences r."""
        return self.u_scale[q] * density(r, self.L[q])

    def smoothing(self, j: int, q: int, r: np.ndarray) -> np.ndarray:
        """G_jq at the differences r."""
        return self.S[j, q] * self.g_scale[j, q] * density(r, self.kappa[j])

    def ff(self, j: int, i: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        tau = x[:, None] - z[None]
        return sum(
            self.S[j, q]
            * self.S[i, q]
            * self.g_scale[j, q]
            * self.g_scale[i, q]
            * self.u_scale[q]
            * density(tau, self.kappa[j] + self.kappa[i] + self.L[q])
            for q in range(len(self.L))
        )

    def fu(self, j: int, q: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        scale = self.S[j, q] * self.g_scale[j, q] * self.u_scale[q]
        return scale * density(x[:, None] - z[None], self.kappa[j] + self.L[q])

    def uu(self, q: int, z: np.ndarray) -> np.ndarray:
        return self.latent(q, z[:, None] - z[None])


def _projected(
    K: np.ndarray, k: np.ndarray, variance: np.ndarray, m: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A m and the diagonal of K_ff + A (V - K) A^T, A = k K^-1."""
    A = np.linalg.solve(K, k.T).T
    return A @ m, variance + np.sum(A @ (V - K) * A, axis=1)


def function_covariances(parameters: Mapping[str, Any], rank: Any, normalised: bool):
    """K_uu of each function's inducing values."""
    prior = Prior(parameters, normalised)
    return [
        prior.ff(j, j, z, z) + jitter * np.eye(len(z))
        for j, (z, jitter) in enumerate(
            zip(parameters["inducing"], parameters["jitter"], strict=True)
        )
    ]


def function_marginals(
    parameters: Mapping[str, Any], x: np.ndarray, *, rank: Any, normalised: bool
):
    prior = Prior(parameters, normalised)
    means = []
    cov = np.zeros((len(parameters["offset"]),) * 2 + (len(x),))
    for j, K in enumerate(function_covariances(parameters, rank, normalised)):
        mean, var = _projected(
            K,
            prior.ff(j, j, x, parameters["inducing"][j]),
            np.diag(prior.ff(j, j, x, x)),
            parameters["q_mean"][j],
            parameters["q_cov"][j],
        )
        means.append(parameters["offset"][j] + mean)
        cov[j, j] = var
    return np.stack(means), cov


def latent_covariances(parameters: Mapping[str, Any], rank: Any, normalised: bool):
    """K_uu of each process."""
    prior = Prior(parameters, normalised)
    return [
        prior.uu(q, z) + jitter * np.eye(len(z))
        for q, (z, jitter) in enumerate(
            zip(parameters["inducing"], parameters["jitter"], strict=True)
        )
    ]


def latent_marginals(
    parameters: Mapping[str, Any], x: np.ndarray, *, rank: Any, normalised: bool
):
    """As for the LMC, but each function has its own K_fu and K_ff."""
    prior = Prior(parameters, normalised)
    K_uu = latent_covariances(parameters, rank, normalised)
    each = range(len(parameters["offset"]))
    mean = np.repeat(np.asarray(parameters["offset"])[:, None], len(x), axis=1)
    cov = np.array([[np.diag(prior.ff(j, i, x, x)) for i in each] for j in each])
    parts = []
    for q, K in enumerate(K_uu):
        z = parameters["inducing"][q]
        own = [np.linalg.solve(K, prior.fu(j, q, x, z).T).T for j in each]
        parts.append(np.stack(own))
    A, K = np.concatenate(parts, axis=2), paper.whole(np.stack(K_uu))
    V = paper.whole(parameters["q_cov"])
    mean = mean + A @ np.concatenate(parameters["q_mean"])
    return mean, cov + np.einsum("jnm,mk,ink->jin", A, V - K, A)


FUNCTION = paper.Form(function_covariances, function_marginals)
LATENT = paper.Form(latent_covariances, latent_marginals)


def random_parameters(
    rng: np.random.Generator,
    likelihoods: Any,
    form: paper.Form,
    *,
    num_latents: int = 2,
    normalised: bool = False,
    num_inducing: int = 9,
    jitter: float = 0.0,
) -> dict[str, Any]:
    """`paper.random_parameters` with smoothing, and one group per function or process.

    The length-scales are shorter, so that K_uu of the smoothed functions stays well
    conditioned.
    """
    new = paper.random_parameters(
        rng, likelihoods, rank=(1,) * num_latents, num_inducing=num_inducing
    )
    num_functions = len(new["offset"])
    num_groups = num_functions if form is FUNCTION else num_latents
    new["lengthscale"] = 0.8 * new["lengthscale"]
    new["smoothing"] = rng.uniform(0.1, 0.2, size=(num_functions, 2))
    grid = new["inducing"][0]
    new["inducing"] = grid + rng.uniform(-0.05, 0.05, size=(num_groups, *grid.shape))
    new["jitter"] = np.zeros(num_groups)
    K = np.stack(form.inducing_covariances(new, 1, normalised))
    new["jitter"] = jitter * K[:, 0, 0]
    scale = np.sqrt(K[:, 0, 0])[:, None, None]
    factor = scale * rng.normal(size=K.shape) / 10
    new["q_mean"] = 0.7 * scale[:, 0] * rng.normal(size=K.shape[:2])
    new["q_cov"] = 0.5 * K + factor @ factor.swapaxes(1, 2)
    return new
