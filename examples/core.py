"""A new kernel and a new likelihood, trained without the estimator.

The output has heavy tails and depends on one input. The model has a Laplace likelihood
and a latent process with the exponential kernel. docs/core.md explains the code.
"""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from motleygp import core, kernels, likelihoods, optim, priors


class Exponential(kernels.AbstractStationary):
    name = "exponential"

    def __call__(self, x, z):
        return jnp.exp(-jnp.abs(x - z.T) / self.lengthscale)


class Laplace(likelihoods.AbstractReal):
    name, functions = "laplace", ("median",)

    def log_prob(self, y, f):
        return -jnp.abs(y - f[0]) - jnp.log(2.0)

    def conditional_variance(self, f):
        return jnp.full_like(f[0], 2.0)

    def cdf(self, y, f):
        return np.where(y < f[0], 0.5 * np.exp(y - f[0]), 1.0 - 0.5 * np.exp(f[0] - y))

    def sample(self, rng, f):
        return rng.laplace(f[0])


x = np.linspace(0.0, 1.0, 400)[:, None]
y = 5.0 * np.sin(9.0 * x[:, 0]) + np.random.default_rng(0).laplace(size=400)
prior = priors.LMC(Exponential([[0.3]]), weights=[[3.0]], inducing=x[None, ::20])
model = core.Model(prior, offset=jnp.zeros(1), likelihoods=(Laplace(),))
data = core.make_dataset([x], [y], model.likelihoods)
scheme = optim.fng()
state = core.init(jr.key(0), model, scheme, num_steps=500)
run = core.run(scheme, state, data, batch_size=100)
model, q, _ = core.solution(scheme, run.state)
(p,) = core.predict(model, q, x)
print(round(core.full_elbo(model, q, data), 2), p.mean[:2], p[:2].interval(0.9))
