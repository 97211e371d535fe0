"""Time one training iteration of a heterogeneous multi-output GP in GPflow.

The model is a linear model of coregionalisation with five outputs of different
kinds, trained with natural gradients on q(u) and Adam on everything else. The script
stands alone, so that GPflow can live in an environment of its own; it prints one JSON
line that another benchmark compares with its own timing of the same problem.

As in GPflow's own likelihoods, q(f) is taken to factorise over the parameter
functions: the expected log densities see marginal variances only, not the covariance
that mixing the same latent processes induces.
"""

import argparse
import json
import os
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when the libraries below load
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # no messages about GPUs

import gpflow
import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

BATCH = 50
NATURAL_RATE = 0.01
ADAM_RATE = 0.005
SEED = 0

Step = Callable[[tf.Tensor], tf.Tensor]


def expected_exp(mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    """E[exp f] for Gaussian f, the piece that every closed form below shares."""
    return tf.exp(mean + 0.5 * var)


def beta_log_density(f: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Beta log density at f = (log a, log b), for the two-dimensional grid."""
    a, b = (tf.exp(part) for part in tf.unstack(f, axis=-1))
    log_norm = tf.math.lgamma(a) + tf.math.lgamma(b) - tf.math.lgamma(a + b)
    return (a - 1) * tf.math.log(y) + (b - 1) * tf.math.log1p(-y) - log_norm


def gamma_log_density(f: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Gamma log density at f = (log shape, log rate), for the two-dimensional grid."""
    log_shape, log_rate = tf.unstack(f, axis=-1)
    shape, rate = tf.exp(log_shape), tf.exp(log_rate)
    log_norm = tf.math.lgamma(shape) - shape * log_rate
    return (shape - 1) * tf.math.log(y) - rate * y - log_norm


class MixedLikelihood(gpflow.likelihoods.Likelihood):
    """Five independent outputs driven by eight parameter functions.

    GPflow's SwitchedLikelihood gives each row one output with one function; here each
    row has all outputs, and some take two functions, so a class of our own is needed.
    With ``split`` each expectation is taken in the fewest dimensions it allows;
    without it Beta and Gamma use a grid over the whole log density, which is what
    GPflow's QuadratureLikelihood does for any density handed to it.
    """

    def __init__(self, nodes: int, split: bool) -> None:
        """Lay the quadrature nodes out once, outside the traced step."""
        super().__init__(input_dim=None, latent_dim=8, observation_dim=5)
        self.split = split
        self.line = gpflow.quadrature.NDiagGHQuadrature(1, nodes)
        self.plane = gpflow.quadrature.NDiagGHQuadrature(2, nodes)

    def _variational_expectations(
        self, X: tf.Tensor, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        """Sum of the five expected log densities of each row."""
        y = tf.unstack(Y, axis=-1)
        pairs = self._pairs_split if self.split else self._pairs_grid
        return (
            self._het_gaussian(Fmu[:, 0:2], Fvar[:, 0:2], y[0])
            + self._bernoulli(Fmu[:, 4], Fvar[:, 4], y[2])
            + self._exponential(Fmu[:, 7], Fvar[:, 7], y[4])
            + pairs(Fmu, Fvar, y[1], y[3])
        )

    @staticmethod
    def _het_gaussian(mean: tf.Tensor, var: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Closed form, with mean f0 and variance exp f1."""
        square = tf.square(y - mean[:, 0]) + var[:, 0]
        precision = expected_exp(-mean[:, 1], var[:, 1])
        return -0.5 * (np.log(2 * np.pi) + mean[:, 1] + square * precision)

    @staticmethod
    def _exponential(mean: tf.Tensor, var: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Closed form, with rate exp f."""
        return mean - y * expected_exp(mean, var)

    def _on_line(
        self, fun: Callable[[tf.Tensor], tf.Tensor], mean: tf.Tensor, var: tf.Tensor
    ) -> tf.Tensor:
        """E[fun(f)] elementwise, by one-dimensional quadrature."""
        return self.line(fun, mean[..., None], var[..., None])[..., 0]

    def _on_plane(
        self, fun: Callable[[tf.Tensor], tf.Tensor], mean: tf.Tensor, var: tf.Tensor
    ) -> tf.Tensor:
        """E[fun(f)] over the last axis, of length two, by a tensor grid."""
        return self.plane(lambda f: fun(f)[..., None], mean, var)[..., 0]

    def _bernoulli(self, mean: tf.Tensor, var: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """Logit link; only the softplus term needs quadrature."""
        return y * mean - self._on_line(tf.math.softplus, mean, var)

    def _pairs_grid(
        self, mean: tf.Tensor, var: tf.Tensor, y_beta: tf.Tensor, y_gamma: tf.Tensor
    ) -> tf.Tensor:
        """Beta and Gamma, each by a grid over its whole log density."""

        def beta(f: tf.Tensor) -> tf.Tensor:
            return beta_log_density(f, y_beta)

        def gamma(f: tf.Tensor) -> tf.Tensor:
            return gamma_log_density(f, y_gamma)

        return self._on_plane(beta, mean[:, 2:4], var[:, 2:4]) + self._on_plane(
            gamma, mean[:, 5:7], var[:, 5:7]
        )

    def _pairs_split(
        self, mean: tf.Tensor, var: tf.Tensor, y_beta: tf.Tensor, y_gamma: tf.Tensor
    ) -> tf.Tensor:
        """Beta and Gamma term by term, so that only one term needs the grid."""
        mean_exp = expected_exp(mean[:, 2:7], var[:, 2:7])
        a, b, shape, rate = (mean_exp[:, i] for i in (0, 1, 3, 4))
        one_dim = self._on_line(
            lambda f: tf.math.lgamma(tf.exp(f)),
            tf.gather(mean, [2, 3, 5], axis=1),
            tf.gather(var, [2, 3, 5], axis=1),
        )
        two_dim = self._on_plane(
            lambda f: tf.math.lgamma(tf.reduce_sum(tf.exp(f), axis=-1)),
            mean[:, 2:4],
            var[:, 2:4],
        )
        beta = (a - 1) * tf.math.log(y_beta) + (b - 1) * tf.math.log1p(-y_beta)
        gamma = shape * mean[:, 6] + (shape - 1) * tf.math.log(y_gamma) - rate * y_gamma
        return beta + gamma + two_dim - tf.reduce_sum(one_dim, axis=-1)

    def _log_prob(self, X: tf.Tensor, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        """Abstract in the base class, but training never calls it."""
        raise NotImplementedError

    def _predict_mean_and_var(
        self, X: tf.Tensor, Fmu: tf.Tensor, Fvar: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Abstract in the base class, but training never calls it."""
        raise NotImplementedError

    def _predict_log_density(
        self, X: tf.Tensor, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        """Abstract in the base class, but training never calls it."""
        raise NotImplementedError


def build_model(
    problem: dict[str, np.ndarray], likelihood: MixedLikelihood
) -> gpflow.models.SVGP:
    """The whitened SVGP at its start; q(u) is left to the natural gradient."""
    kernels = [
        gpflow.kernels.SquaredExponential(1.0, s) for s in problem["lengthscale"]
    ]
    for kernel in kernels:
        gpflow.set_trainable(kernel.variance, False)
    points = [gpflow.inducing_variables.InducingPoints(z) for z in problem["Z"]]
    model = gpflow.models.SVGP(
        gpflow.kernels.LinearCoregionalization(kernels, W=problem["weights"]),
        likelihood,
        gpflow.inducing_variables.SeparateIndependentInducingVariables(points),
        num_latent_gps=len(kernels),
        whiten=True,
        num_data=len(problem["X"]),
    )
    # Keeps Adam's variables apart from those of the natural gradient.
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    return model


def make_step(model: gpflow.models.SVGP, x: tf.Tensor, y: tf.Tensor) -> Step:
    """One iteration, which returns the minibatch -ELBO of its Adam half."""
    natural = gpflow.optimizers.NaturalGradient(NATURAL_RATE)
    adam = tf_keras.optimizers.Adam(ADAM_RATE)
    variables = model.trainable_variables

    # Tried on one core, alternating in one process: both halves in one tf.function
    # take 7-9 % less time than one tf.function each. The older fused Adam of tf_keras
    # gains about 2 %. XLA refuses the gradient of the tf.map_fn in GPflow's
    # conditional. Autograph makes no step faster but the first one slower. A single
    # gradient pass for both halves would save another 27 %, but it needs a private
    # method of NaturalGradient and moves Adam's gradient to the q(u) before its step.
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

    return step


def run_steps(
    step: Step, num_rows: int, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and -ELBO of each step; all batches are drawn before the timing."""
    rng = np.random.default_rng(SEED)
    draws = [rng.choice(num_rows, BATCH, replace=False) for _ in range(num_steps)]
    seconds, losses = np.empty(num_steps), np.empty(num_steps)
    for i, rows in enumerate([tf.constant(draw) for draw in draws]):
        start = time.perf_counter()
        losses[i] = step(rows).numpy()
        seconds[i] = time.perf_counter() - start
    return seconds, losses


def measure(args: argparse.Namespace) -> dict[str, str | float]:
    """Build the model, train and time it; and its full-batch -ELBO at the start."""
    with np.load(args.problem) as stored:
        problem = dict(stored)
    x, y = tf.constant(problem["X"]), tf.constant(problem["Y"])
    begun = time.perf_counter()
    model = build_model(problem, MixedLikelihood(args.nodes, args.split))
    step = make_step(model, x, y)
    built = time.perf_counter() - begun
    seconds, losses = run_steps(step, len(problem["X"]), args.warmup + args.steps)
    start = build_model(problem, MixedLikelihood(args.nodes, args.split))
    nelbo = -float(start.elbo((x, y)))
    return {
        "version": gpflow.__version__,
        "first_step_s": float(seconds[0]),
        "first_answer_s": built + float(seconds[0]),
        "ms_per_step": 1e3 * float(np.median(seconds[args.warmup :])),
        "nelbo": nelbo,
        "nelbo_last": float(np.mean(losses[-10:])),
        "jitter": gpflow.config.default_jitter(),
    }


def parse_args() -> argparse.Namespace:
    """Read the command line; the first step compiles, so warm-up is at least one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problem", metavar="PROBLEM.npz")
    parser.add_argument("--steps", type=int, default=200, help="timed iterations")
    parser.add_argument("--warmup", type=int, default=20, help="untimed iterations")
    parser.add_argument("--nodes", type=int, default=20, help="Gauss-Hermite nodes")
    parser.add_argument("--split", action="store_true", help="fewest dimensions")
    args = parser.parse_args()
    if min(args.steps, args.warmup, args.nodes) < 1:
        parser.error("--steps, --warmup and --nodes must be at least 1")
    return args


def main() -> None:
    """Pin TensorFlow to one CPU thread before it starts, then print the result."""
    args = parse_args()
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print(json.dumps(measure(args)))


if __name__ == "__main__":
    main()
