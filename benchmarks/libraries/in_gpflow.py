"""GPflow in the comparison: natural gradients on q(u), Adam on the rest.

Of GPflow: the kernels, the linear coregionalisation, SVGP with its divergence, both
optimisers, the Gaussian likelihood. By hand: the mixed likelihood, of `gpflow_step.py`,
and what gives it the covariances of an output's functions, which GPflow's own
likelihoods never see.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when the libraries below load
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no messages about GPUs

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

from gpflow_step import MixedLikelihood, expected_exp
from libraries.served import Arrays, Settings, serve


class Correlated(MixedLikelihood):
    """The mixed likelihood with the covariances of the functions of each output."""

    def expectations(self, mean: tf.Tensor, cov: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        """Sum of the five expected log densities, each in the fewest dimensions."""
        y = tf.unstack(Y, axis=-1)
        var = tf.linalg.diag_part(cov)
        of_exp = expected_exp(mean, var)
        square = tf.square(y[0] - mean[:, 0] + cov[:, 0, 1]) + var[:, 0]
        weight = expected_exp(-mean[:, 1], var[:, 1])
        het = -0.5 * (np.log(2 * np.pi) + mean[:, 1] + square * weight)
        log_gammas = self._on_line(
            lambda f: tf.math.lgamma(tf.exp(f)),
            tf.gather(mean, [2, 3, 5], axis=1),
            tf.gather(var, [2, 3, 5], axis=1),
        )
        beta = (of_exp[:, 2] - 1) * tf.math.log(y[1])
        beta += (of_exp[:, 3] - 1) * tf.math.log1p(-y[1])
        beta += self._log_gamma_of_sum(mean, cov)
        shape, rate = of_exp[:, 5], of_exp[:, 6]
        gamma = shape * (mean[:, 6] + cov[:, 5, 6]) - rate * y[3]
        gamma += (shape - 1) * tf.math.log(y[3])
        return (
            het
            + beta
            + self._bernoulli(mean[:, 4], var[:, 4], y[2])
            + gamma
            + self._exponential(mean[:, 7], var[:, 7], y[4])
            - tf.reduce_sum(log_gammas, axis=-1)
        )

    def _log_gamma_of_sum(self, mean: tf.Tensor, cov: tf.Tensor) -> tf.Tensor:
        """E[log Gamma(exp f + exp g)] of the Beta output's two functions."""
        std = tf.sqrt(cov[:, 2, 2])
        slope = cov[:, 2, 3] / std
        rest = tf.sqrt(tf.maximum(cov[:, 3, 3] - tf.square(slope), 0.0))

        def at(z: tf.Tensor) -> tf.Tensor:
            f = mean[:, 2] + std * z[..., 0]
            g = mean[:, 3] + slope * z[..., 0] + rest * z[..., 1]
            return tf.math.lgamma(tf.exp(f) + tf.exp(g))

        zeros = tf.zeros_like(mean[:, 2:4])
        return self._on_plane(at, zeros, zeros + 1.0)


class CorrelatedSVGP(gpflow.models.SVGP):
    """The stock model, with a bound that keeps the covariances."""

    def elbo(self, data: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """The bound, from a minibatch."""
        X, Y = data
        mean, cov = self.predict_f(X, full_output_cov=True)
        terms = tf.reduce_sum(self.likelihood.expectations(mean, cov, Y))
        scale = self.num_data / tf.cast(tf.shape(X)[0], terms.dtype)
        return scale * terms - self.prior_kl()


def model_of(arrays: Arrays, settings: Settings) -> gpflow.models.SVGP:
    """The whitened SVGP at the problem's parameters."""
    kernels = [gpflow.kernels.SquaredExponential(1.0, s) for s in arrays["lengthscale"]]
    for kernel in kernels:
        gpflow.set_trainable(kernel.variance, False)
    points = [gpflow.inducing_variables.InducingPoints(z) for z in arrays["Z"]]
    correlated = settings["covariances"] and settings["kind"] == "mixed"
    if settings["kind"] == "gaussian":
        likelihood = gpflow.likelihoods.Gaussian(arrays["noise"] ** 2)
    elif correlated:
        likelihood = Correlated(settings["nodes"], split=True)
    else:
        likelihood = MixedLikelihood(settings["nodes"], split=True)
    offset = gpflow.mean_functions.Constant(arrays["offset"])
    gpflow.set_trainable(offset, False)
    model = (CorrelatedSVGP if correlated else gpflow.models.SVGP)(
        gpflow.kernels.LinearCoregionalization(kernels, W=arrays["weights"]),
        likelihood,
        gpflow.inducing_variables.SeparateIndependentInducingVariables(points),
        mean_function=offset,
        num_latent_gps=len(kernels),
        q_mu=arrays["q_mean"].T,
        q_sqrt=arrays["q_factor"],
        whiten=True,
        num_data=len(arrays["X"]),
    )
    # Keeps Adam's variables apart from those of the natural gradient.
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    return model


class InGPflow:
    """A loop over one traced iteration, as `gpflow_step.py` found it fastest."""

    def __init__(self, arrays: Arrays, settings: Settings):
        gpflow.config.set_default_jitter(settings["jitter"])
        self.data = tf.constant(arrays["X"]), tf.constant(arrays["Y"])
        self.model = model = model_of(arrays, settings)
        natural = gpflow.optimizers.NaturalGradient(settings["natural_rate"])
        adam = tf_keras.optimizers.Adam(settings["adam_rate"])
        variables = model.trainable_variables
        x, y = self.data

        @tf.function(autograph=False)
        def step(rows: tf.Tensor) -> tf.Tensor:
            batch = tf.gather(x, rows), tf.gather(y, rows)
            loss = model.training_loss_closure(batch, compile=False)
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
            with tf.GradientTape() as tape:
                value = loss()
            gradients = tape.gradient(value, variables)
            adam.apply_gradients(zip(gradients, variables, strict=True))
            return value

        self.step = step

    def run(self, rows: np.ndarray) -> None:
        value = None
        for batch in rows:
            value = self.step(tf.constant(batch))
        if value is not None and not np.isfinite(value.numpy()):
            raise FloatingPointError("the bound is not finite")

    def bound(self) -> float:
        return float(self.model.elbo(self.data))

    def parameters(self) -> Arrays:
        model = self.model
        found = {
            "Z": np.stack(
                [z.Z.numpy() for z in model.inducing_variable.inducing_variables]
            ),
            "lengthscale": np.stack(
                [k.lengthscales.numpy() for k in model.kernel.kernels]
            ),
            "weights": model.kernel.W.numpy(),
            "q_mean": model.q_mu.numpy().T,
            "q_factor": model.q_sqrt.numpy(),
        }
        if isinstance(model.likelihood, gpflow.likelihoods.Gaussian):
            found["noise"] = np.sqrt(model.likelihood.variance.numpy())
        return found


if __name__ == "__main__":
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    serve(InGPflow)
