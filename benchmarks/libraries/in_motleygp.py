"""MotleyGP in the comparison: the functional core, with the default scheme."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import motleygp as mg
from libraries.served import Arrays, Settings, serve
from motleygp import core, optim

NAMES = ("hetgaussian", "beta", "bernoulli", "gamma", "exponential")
# Of the estimator's plan: the step of q(u) by the share of the rows in a minibatch.
STEP_BY_SHARE, STEPS = 1.3, (0.03, 0.1)


def likelihoods_of(
    arrays: Arrays, kind: str
) -> tuple[mg.likelihoods.AbstractLikelihood, ...]:
    """The likelihoods of the problem's outputs."""
    if kind == "gaussian":
        return tuple(mg.likelihoods.Gaussian(float(s)) for s in arrays["noise"])
    return tuple(mg.likelihoods.get(name) for name in NAMES)


def model_of(
    arrays: Arrays, settings: Settings
) -> tuple[core.Model, core.Posterior, core.Dataset]:
    """The model, q(u) and data of a problem, or of what a library has made of it."""
    likelihoods = likelihoods_of(arrays, settings["kind"])
    prior = mg.priors.LMC(
        mg.kernels.EQ(arrays["lengthscale"]),
        arrays["weights"],
        arrays["Z"],
        jitter=settings["jitter"],
    )
    model = core.Model(
        prior,
        jnp.asarray(arrays["offset"]),
        likelihoods,
        fixed=("offset",),  # the others have no offsets to learn
        factorised=not settings["covariances"],
        joint_q=settings.get("joint", False),
    )
    inverse = np.linalg.inv(arrays["q_factor"])
    q = core.Posterior(
        jnp.asarray(arrays["q_mean"]),
        jnp.asarray(np.swapaxes(inverse, 1, 2) @ inverse),
        jnp.asarray(np.swapaxes(arrays["q_factor"], 1, 2)),
    )
    num_outputs = arrays["Y"].shape[1]
    data = core.make_dataset(
        [arrays["X"]] * num_outputs, list(arrays["Y"].T), likelihoods
    )
    return model, q, data


class InMotleyGP:
    """A run in chunks, as the estimator's `fit` makes it. q(u) begins at its prior."""

    def __init__(self, arrays: Arrays, settings: Settings):
        self.batch, self.chunk = settings["batch"], settings["chunk"]
        model, _, self.data = model_of(arrays, settings)
        share = self.batch / len(arrays["X"])
        beta = float(np.clip(STEP_BY_SHARE * share, *STEPS))
        self.scheme = optim.fng(beta=beta)
        horizon = settings.get("horizon", 10**6)
        self.state = core.init(jr.key(0), model, self.scheme, num_steps=horizon)

    def run(self, rows: np.ndarray) -> None:
        """The library draws its minibatches itself: the number of rows counts."""
        target = int(self.state.iteration) + len(rows)
        self.state = core.run(
            self.scheme,
            self.state,
            self.data,
            batch_size=self.batch,
            chunk=self.chunk,
            callback=lambda report: report.iteration >= target,
        ).state

    def bound(self) -> float:
        model, q, _ = core.solution(self.scheme, self.state)
        return core.full_elbo(model, q, self.data)

    def parameters(self) -> Arrays:
        model, q, _ = core.solution(self.scheme, self.state)
        prior = model.prior.parameters()
        own = [likelihood.parameters() for likelihood in model.likelihoods]
        noise = [values["noise"] for values in own if "noise" in values]
        found = {
            "Z": prior["inducing"],
            "lengthscale": prior["lengthscale"],
            "weights": prior["weights"],
            "q_mean": q.mean,
            "q_factor": np.linalg.cholesky(np.asarray(q.cov())),
            **({"noise": noise} if noise else {}),
        }
        return {name: np.asarray(array) for name, array in found.items()}


if __name__ == "__main__":
    jax.config.update("jax_enable_compilation_cache", False)
    serve(InMotleyGP)
