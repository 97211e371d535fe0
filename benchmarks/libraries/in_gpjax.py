"""GPJax in the comparison: natural gradients on q(u), Adam on the rest.

Of GPJax: the kernels, one whitened variational family per latent process with its
predictions and divergence, and the maps between moments, natural and expectation
parameters. By hand: the mixing, the bound, the likelihoods (its own multi-output
likelihood is for exact Gaussian models), and the loop, because `fit_natgrads` trains
one family. The loop is that function's scheme, a natural step on all q(u) and then a
step of Adam, without its search for a shorter step, which would only cost time.
"""

import os

os.environ["NPROC"] = "1"  # XLA's thread pool; read when JAX starts

import math
from typing import Any

import equinox as eqx
import gpjax as gpx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import paramax
from gpjax import natural_gradients as ng
from gpjax.parameters import LowerTriangular, NonNegativeReal, PositiveReal, Real, val
from jax.scipy.special import gammaln

from libraries.served import Arrays, Settings, serve

# The pairs of functions that belong to one output.
PAIRS = ((0, 1), (2, 3), (5, 6))


class Mixed(eqx.Module):
    """Five outputs driven by eight functions: HetGaussian, Beta, Bernoulli, Gamma and
    Exponential, each expectation in the fewest dimensions it allows."""

    nodes: int = eqx.field(static=True)

    def expected(self, y: Any, m: Any, v: Any, cov: Any) -> Any:
        """The sum of all expected log densities; the functions run along axis 0."""
        z, w = np.polynomial.hermite_e.hermegauss(self.nodes)
        w = w / w.sum()
        of_exp = jnp.exp(m + 0.5 * v)
        square = (y[0] - m[0] + cov[0]) ** 2 + v[0]
        weight = jnp.exp(0.5 * v[1] - m[1])
        het = -0.5 * (math.log(2 * math.pi) + m[1] + weight * square)
        line = np.array([2, 3, 5, 4])
        nodes = m[line, :, None] + jnp.sqrt(v[line])[:, :, None] * z
        log_gammas = gammaln(jnp.exp(nodes[:3])) @ w
        bernoulli = y[2] * m[4] - jax.nn.softplus(nodes[3]) @ w
        beta = (of_exp[2] - 1) * jnp.log(y[1]) + (of_exp[3] - 1) * jnp.log1p(-y[1])
        std = jnp.sqrt(v[2])
        slope = cov[1] / std
        rest = jnp.sqrt(jnp.maximum(v[3] - slope**2, 1e-18))
        f = jnp.exp(m[2][:, None] + std[:, None] * z)
        g = jnp.exp(m[3][:, None] + slope[:, None] * z)
        total = f[..., None] + g[..., None] * jnp.exp(rest[:, None] * z)[:, None]
        beta = beta + (gammaln(total) @ w) @ w
        gamma = of_exp[5] * (m[6] + cov[2]) - of_exp[6] * y[3]
        gamma = gamma + (of_exp[5] - 1) * jnp.log(y[3])
        exponential = m[7] - y[4] * of_exp[7]
        each = het + beta + bernoulli + gamma + exponential
        return jnp.sum(each) - jnp.sum(log_gammas)


class Gaussians(eqx.Module):
    """Gaussian outputs of one function each."""

    noise: PositiveReal

    def expected(self, y: Any, m: Any, v: Any, cov: Any) -> Any:
        """The sum of all expected log densities."""
        del cov
        variance = val(self.noise)[:, None] ** 2
        square = (y - m) ** 2 + v
        return -0.5 * jnp.sum(jnp.log(2 * math.pi * variance) + square / variance)


class Hyper(eqx.Module):
    """All that Adam trains; the families' own moments are replaced before use."""

    families: list
    weights: Any
    likelihood: Any


def family_of(arrays: Arrays, place: int, jitter: float) -> Any:
    """The variational family of one latent process."""
    kernel = gpx.kernels.RBF(
        lengthscale=jnp.asarray(arrays["lengthscale"][place]),
        variance=paramax.non_trainable(NonNegativeReal(1.0)),
    )
    prior = gpx.gps.Prior(
        kernel=kernel, mean_function=gpx.mean_functions.Zero(), jitter=jitter
    )
    # The families want a likelihood, which is not used.
    return gpx.variational_families.WhitenedVariationalGaussian(
        prior * gpx.likelihoods.Gaussian(),
        jnp.asarray(arrays["Z"][place]),
        jnp.asarray(arrays["q_mean"][place][:, None]),
        jnp.asarray(arrays["q_factor"][place]),
    )


class InGPJax:
    """A compiled scan over chunks of iterations, as GPJax's own `fit` scans."""

    def __init__(self, arrays: Arrays, settings: Settings):
        self.settings = settings
        self.x, self.y = jnp.asarray(arrays["X"]), jnp.asarray(arrays["Y"].T)
        self.offset = jnp.asarray(arrays["offset"])
        num_latents = len(arrays["Z"])
        families = [
            family_of(arrays, q, settings["jitter"]) for q in range(num_latents)
        ]
        if settings["kind"] == "mixed":
            likelihood = Mixed(settings["nodes"])
        else:
            likelihood = Gaussians(PositiveReal(jnp.asarray(arrays["noise"])))
        hyper = Hyper(families, Real(arrays["weights"]), likelihood)
        self.moments = [
            (val(f.variational_mean), val(f.variational_root_covariance))
            for f in families
        ]
        self.trained, self.fixed = eqx.partition(hyper, eqx.is_inexact_array)
        self.adam = optax.adam(settings["adam_rate"])
        self.adam_state = self.adam.init(self.trained)
        self.chunk = jax.jit(self._chunk)

    def elbo(self, trained: Any, moments: list, x: Any, y: Any) -> Any:
        """The bound from a minibatch."""
        hyper = eqx.combine(trained, self.fixed)
        means, variances, divergence = [], [], 0.0
        for family, (mean, root) in zip(hyper.families, moments, strict=True):
            own = eqx.tree_at(
                lambda f: (f.variational_mean, f.variational_root_covariance),
                family,
                (Real(mean), LowerTriangular(root)),
            )
            predicted = own.condition(None)(x, covariance="diagonal")
            means.append(predicted.mean)
            variances.append(predicted.variance)
            divergence = divergence + own.prior_kl()
        weights, var = val(hyper.weights), jnp.stack(variances)
        cov = jnp.zeros((len(PAIRS), len(x)))
        if self.settings["covariances"] and self.settings["kind"] == "mixed":
            first, second = np.array(PAIRS).T
            cov = (weights[first] * weights[second]) @ var
        mean = weights @ jnp.stack(means) + self.offset[:, None]
        terms = hyper.likelihood.expected(y, mean, weights**2 @ var, cov)
        return terms * (len(self.x) / len(x)) - divergence

    def _step(self, carry: tuple, rows: Any) -> tuple[tuple, Any]:
        trained, moments, adam_state = carry
        x, y = self.x[rows], self.y[:, rows]

        def loss_of(expectations: list) -> Any:
            each = [ng.moments_from_expectation(*eta) for eta in expectations]
            return -self.elbo(trained, each, x, y)

        expectations = [ng.expectation_from_moments(*each) for each in moments]
        loss, slopes = jax.value_and_grad(loss_of)(expectations)
        rate, stepped = self.settings["natural_rate"], []
        for each, (in_vector, in_matrix) in zip(moments, slopes, strict=True):
            vector, matrix = ng.natural_from_moments(*each)
            vector = vector - rate * in_vector
            matrix = matrix - rate * 0.5 * (in_matrix + in_matrix.T)
            stepped.append(ng.moments_from_natural(vector, matrix))
        gradient = jax.grad(lambda t: -self.elbo(t, stepped, x, y))(trained)
        updates, adam_state = self.adam.update(gradient, adam_state)
        return (optax.apply_updates(trained, updates), stepped, adam_state), loss

    def _chunk(self, carry: tuple, rows: Any) -> tuple[tuple, Any]:
        return jax.lax.scan(self._step, carry, rows)

    def run(self, rows: np.ndarray) -> None:
        carry = (self.trained, self.moments, self.adam_state)
        losses = jnp.zeros(1)
        size = self.settings["chunk"]
        for start in range(0, len(rows), size):
            part = jnp.asarray(rows[start : start + size])
            carry, losses = jax.block_until_ready(self.chunk(carry, part))
        if not np.isfinite(np.asarray(losses)).all():
            raise FloatingPointError("the bound is not finite")
        self.trained, self.moments, self.adam_state = carry

    def bound(self) -> float:
        return float(jax.jit(self.elbo)(self.trained, self.moments, self.x, self.y))

    def parameters(self) -> Arrays:
        hyper = eqx.combine(self.trained, self.fixed)
        kernels = [family.model.prior.kernel for family in hyper.families]
        found = {
            "Z": np.stack([val(family.inducing_inputs) for family in hyper.families]),
            "lengthscale": np.stack([val(kernel.lengthscale) for kernel in kernels]),
            "weights": np.asarray(val(hyper.weights)),
            "q_mean": np.stack([mean[:, 0] for mean, _ in self.moments]),
            "q_factor": np.stack([root for _, root in self.moments]),
        }
        if self.settings["kind"] == "gaussian":
            found["noise"] = np.asarray(val(hyper.likelihood.noise))
        return found


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    serve(InGPJax)
