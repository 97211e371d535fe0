"""GPyTorch in the comparison: natural gradients on q(u), Adam on the rest.

Of GPyTorch: the kernel, the LMC and whitened variational strategies, the natural
distribution, the bound, NGD, the multitask Gaussian likelihood. By hand: the mixed
likelihood. One backward pass serves both optimisers.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when the libraries below load

import math

import gpytorch
import numpy as np
import torch
import torch._dynamo  # an import that torch leaves to the first step of an optimiser

from libraries.served import Arrays, Settings, serve

# The pairs of functions that belong to one output.
PAIRS = ((0, 1), (2, 3), (5, 6))


class Mixed(gpytorch.likelihoods.Likelihood):
    """Five outputs driven by eight functions: HetGaussian, Beta, Bernoulli, Gamma and
    Exponential, each expectation in the fewest dimensions it allows."""

    def __init__(self, nodes: int, offset: np.ndarray):
        super().__init__()
        self.offset = torch.tensor(offset)
        z, w = np.polynomial.hermite_e.hermegauss(nodes)
        self.z, self.w = torch.tensor(z), torch.tensor(w / w.sum())

    def forward(self, function_samples: torch.Tensor) -> None:
        """Abstract in the base class, but training never calls it."""
        raise NotImplementedError

    def expected_log_prob(self, target: torch.Tensor, dist, *args, **kwargs):
        """The stock interface, which passes on variances alone in reasonable time."""
        none = torch.zeros(len(target), len(PAIRS))
        return self.expected(target, dist.mean, dist.variance, none)

    def _log_gamma_of_sum(self, m: torch.Tensor, v: torch.Tensor, c: torch.Tensor):
        """E[log Gamma(exp f + exp g)] for two functions."""
        std = v[:, 0].sqrt()
        slope = c / std
        rest = (v[:, 1] - slope**2).clamp_min(1e-18).sqrt()
        f = m[:, 0, None] + std[:, None] * self.z
        g = m[:, 1, None] + slope[:, None] * self.z
        total = f.exp()[:, :, None] + (
            g.exp()[:, :, None] * (rest[:, None] * self.z).exp()[:, None]
        )
        return (torch.lgamma(total) @ self.w) @ self.w

    def expected(
        self, target: torch.Tensor, m: torch.Tensor, v: torch.Tensor, c: torch.Tensor
    ) -> torch.Tensor:
        """Sum of the five expected log densities of each row."""
        m = m + self.offset
        het_cov, beta_cov, gamma_cov = c.unbind(1)
        y = target.unbind(1)
        of_exp = (m + 0.5 * v).exp()
        square = (y[0] - m[:, 0] + het_cov) ** 2 + v[:, 0]
        weight = (0.5 * v[:, 1] - m[:, 1]).exp()
        het = -0.5 * (math.log(2 * math.pi) + m[:, 1] + weight * square)
        line = [2, 3, 5, 4]
        nodes = m[:, line, None] + v[:, line, None].sqrt() * self.z
        log_gammas = torch.lgamma(nodes[:, :3].exp()) @ self.w
        bernoulli = y[2] * m[:, 4]
        bernoulli = bernoulli - torch.nn.functional.softplus(nodes[:, 3]) @ self.w
        beta = (of_exp[:, 2] - 1) * y[1].log() + (of_exp[:, 3] - 1) * (-y[1]).log1p()
        beta = beta + self._log_gamma_of_sum(m[:, 2:4], v[:, 2:4], beta_cov)
        gamma = of_exp[:, 5] * (m[:, 6] + gamma_cov) - of_exp[:, 6] * y[3]
        gamma = gamma + (of_exp[:, 5] - 1) * y[3].log()
        exponential = m[:, 7] - y[4] * of_exp[:, 7]
        return het + beta + bernoulli + gamma + exponential - log_gammas.sum(1)


class Model(gpytorch.models.ApproximateGP):
    """The linear model of coregionalisation, at the problem's parameters."""

    def __init__(self, arrays: Arrays, settings: Settings):
        z = torch.tensor(arrays["Z"])
        num_latents, num_inducing, num_inputs = z.shape
        batch = torch.Size([num_latents])
        q = gpytorch.variational.NaturalVariationalDistribution(
            num_inducing, batch_shape=batch, mean_init_std=0.0
        )
        base = gpytorch.variational.VariationalStrategy(
            self, z, q, jitter_val=settings["jitter"]
        )
        super().__init__(
            gpytorch.variational.LMCVariationalStrategy(
                base,
                num_tasks=len(arrays["weights"]),
                num_latents=num_latents,
                jitter_val=0.0,
            )
        )
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
        self.covar_module = gpytorch.kernels.RBFKernel(
            ard_num_dims=num_inputs, batch_shape=batch
        )
        self.double()
        self.covar_module.lengthscale = torch.tensor(arrays["lengthscale"])[:, None]
        self.variational_strategy.lmc_coefficients.data = torch.tensor(
            arrays["weights"].T.copy()
        )
        inverse = np.linalg.inv(arrays["q_factor"])
        precision = np.swapaxes(inverse, 1, 2) @ inverse
        vector = np.einsum("qst,qt->qs", precision, arrays["q_mean"])
        q.natural_mat.data = torch.tensor(-0.5 * precision)
        q.natural_vec.data = torch.tensor(vector)
        base.variational_params_initialized.fill_(1)
        self.own_q = (q,)  # in a tuple, so that it is not registered twice

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """The prior of the latent processes."""
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(x), self.covar_module(x)
        )


def likelihood_of(
    arrays: Arrays, settings: Settings
) -> gpytorch.likelihoods.Likelihood:
    """The stock likelihood of Gaussian outputs, or the mixed one."""
    if settings["kind"] == "mixed":
        return Mixed(settings["nodes"], arrays["offset"])
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(
        len(arrays["noise"]), has_global_noise=False
    ).double()
    likelihood.task_noises = torch.tensor(arrays["noise"] ** 2)
    return likelihood


class InGPyTorch:
    """A loop as in GPyTorch's documentation."""

    def __init__(self, arrays: Arrays, settings: Settings):
        self.x, self.y = torch.tensor(arrays["X"]), torch.tensor(arrays["Y"])
        self.model = Model(arrays, settings)
        self.likelihood = likelihood_of(arrays, settings)
        num_data = len(self.x)
        self.mll = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data)
        self.natural = gpytorch.optim.NGD(
            self.model.variational_parameters(),
            num_data=num_data,
            lr=settings["natural_rate"],
        )
        others = [*self.model.hyperparameters(), *self.likelihood.parameters()]
        self.adam = torch.optim.Adam(others, lr=settings["adam_rate"])
        self.model.train()
        self.likelihood.train()
        correlated = settings["covariances"] and settings["kind"] == "mixed"
        self.elbo = self._correlated_elbo if correlated else self._stock_elbo

    def _stock_elbo(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The bound per row."""
        return self.mll(self.model(x), y)

    def _correlated_elbo(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The same with the covariances of an output's functions.

        The distribution that the LMC strategy returns has them, but to index it takes
        memory of the order of the cube of the rows. So its mixing is done by hand, on
        the marginals of the latent processes, which also takes less time.
        """
        strategy = self.model.variational_strategy
        latent = strategy.base_variational_strategy(x)
        weights = strategy.lmc_coefficients.T
        first, second = torch.tensor(PAIRS).T
        var = latent.variance
        moments = (
            (weights @ latent.mean).T,
            (weights**2 @ var).T,
            ((weights[first] * weights[second]) @ var).T,
        )
        terms = self.likelihood.expected(y, *moments).mean()
        return terms - strategy.kl_divergence() / len(self.x)

    def run(self, rows: np.ndarray) -> None:
        for batch in torch.tensor(rows):
            self.natural.zero_grad()
            self.adam.zero_grad()
            loss = -self.elbo(self.x[batch], self.y[batch])
            loss.backward()
            self.natural.step()
            self.adam.step()
        if not math.isfinite(loss.item()):
            raise FloatingPointError("the bound is not finite")

    def bound(self) -> float:
        with torch.no_grad():
            return len(self.x) * float(self.elbo(self.x, self.y))

    def parameters(self) -> Arrays:
        strategy = self.model.variational_strategy
        base = strategy.base_variational_strategy
        with torch.no_grad():
            (own,) = self.model.own_q
            q = own()
            found = {
                "Z": base.inducing_points,
                "lengthscale": self.model.covar_module.lengthscale[:, 0],
                "weights": strategy.lmc_coefficients.T,
                "q_mean": q.mean,
                "q_factor": torch.linalg.cholesky(q.covariance_matrix),
            }
            if hasattr(self.likelihood, "task_noises"):
                found["noise"] = self.likelihood.task_noises.sqrt()
        return {name: value.detach().numpy() for name, value in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    serve(InGPyTorch)
