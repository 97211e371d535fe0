"""Convolution processes: each function is a smoothed sum of the latent processes.

With u_q ~ GP(0, E(. | 0, L_q)) and smoothing kernels G_{j,q} = S_{j,q} E(. | 0,
kappa_j), E the normalised Gaussian density, every covariance is a Gaussian integral:

    cov[f_j(x), f_j'(x')] = sum_q S_{j,q} S_{j',q} E(x - x' | 0, P_{jj'q}),
    cov[f_j(x), u_q(z)]   = S_{j,q} E(x - z | 0, kappa_j + L_q),
    P_{jj'q} = kappa_j + kappa_j' + L_q.

In the unit-variance form u_q has variance 1 and each smoothing kernel is rescaled so
that u_q contributes S_{j,q}^2 to the variance of f_j. The exponents are the same; the
factors (2 pi)^(-P/2) |P|^(-1/2) become |P_jj|^(1/4) |P_j'j'|^(1/4) |P_jj'|^(-1/2) and
|P_jj|^(1/4) |L|^(1/4) |kappa_j + L|^(-1/2).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from motleygp._types import SpanMoments
from motleygp.kernels import EQ, LOG_2PI, eq_mixture, eq_values
from motleygp.priors._base import (
    DEFAULT_JITTER,
    AbstractPrior,
    Covariances,
    Drawn,
    check_groups,
    ranks,
)
from motleygp.priors._sites import Sites

# Length-scales of the smoothing kernels at the start, relative to the spread of the
# inputs: short, so that a convolution starts near the linear model with the same
# processes. They grow where a function needs it.
_SMOOTHING = 0.05
# The paper's factor on the length-scales of its linear model, and variance of q(u).
_PAPER_SCALE, _PAPER_VARIANCE = 0.1, 9.0
# The fewest inducing points of a function by default.
_LEAST_INDUCING = 80
# Default latent processes of `Convolution`: each adds a scale to every function.
_SCALES = 4


class AbstractConvolution(AbstractPrior):
    """f_j = sum_q sum_{i <= R_q} integral G^i_{j,q}(. - r) u^i_q(r) dr.

    **Arguments:**

    - `kernel`: an `EQ` kernel, stacked over the Q processes; its length-scales are the
      square roots of the diagonals of L_q. If it is normalised, the smoothing kernels
      are too.
    - `weights`: S^i_{j,q}, one row per function and one column per copy.
    - `smoothing`: length-scales of the smoothing kernels, the square roots of the
      diagonals of kappa_j: one row per function.
    - `inducing`: Z, one (M, P) matrix per group.
    - `rank`: R_q, one number or one per process.
    - `jitter`: the jitter on the diagonal of K_uu, relative to that diagonal.
    """

    family: ClassVar[str] = "convolution"
    kernels: ClassVar[tuple[str, ...] | None] = ("eq",)
    parts: ClassVar[Mapping[str, str]] = MappingProxyType(
        {**AbstractPrior.parts, "smoothing": "log_smoothing"}
    )
    own_distances: ClassVar[tuple[str, ...]] = ("smoothing",)

    kernel: EQ
    weights: Float[Array, "J R"]
    log_smoothing: Float[Array, "J P"]
    inducing: Float[Array, "G M P"]
    rank: tuple[int, ...] = eqx.field(static=True)
    jitter: float = eqx.field(static=True)

    def __init__(
        self,
        kernel: EQ,
        weights: ArrayLike,
        smoothing: ArrayLike,
        inducing: ArrayLike,
        *,
        rank: int | Sequence[int] = 1,
        jitter: float = DEFAULT_JITTER,
    ):
        self.kernel = kernel
        self.weights = jnp.asarray(weights, dtype=float)
        self.log_smoothing = jnp.log(jnp.asarray(smoothing, dtype=float))
        self.inducing = jnp.asarray(inducing, dtype=float)
        self.rank = ranks(rank, self.weights.shape[1])
        self.jitter = jitter

    def __check_init__(self) -> None:
        # The integrals have a closed form only for these.
        if self.kernels is not None and self.kernel.name not in self.kernels:
            raise ValueError(
                f"`kernel` must be one of {', '.join(self.kernels)} for a convolution; "
                f"got {self.kernel.name}."
            )
        expected = (self.weights.shape[0], self.inducing.shape[-1])
        if self.log_smoothing.shape != expected:
            raise ValueError(
                "`smoothing` must have one row per row of `weights` and one column per "
                f"input, {expected}; got {self.log_smoothing.shape}."
            )

    @property
    def smoothing(self) -> Float[Array, "J P"]:
        """The square roots of the diagonals of kappa_j."""
        return jnp.exp(self.log_smoothing)

    def parameters(self) -> dict[str, Array]:
        return super().parameters() | {"smoothing": self.smoothing}

    def with_parameters(self, values: Mapping[str, ArrayLike]) -> "AbstractConvolution":
        smoothing = jnp.asarray(values["smoothing"], dtype=float)
        return eqx.tree_at(
            lambda prior: prior.log_smoothing,
            super().with_parameters(values),
            jnp.log(smoothing),
        )

    @classmethod
    def start(cls, drawn: Drawn) -> AbstractPrior:
        weights = drawn.reach[:, None] * cls.start_weights(drawn)
        smoothing = np.tile(_SMOOTHING * drawn.spread, (len(weights), 1))
        return cls.assembled(drawn, weights, smoothing=smoothing)

    @classmethod
    def paper_start(
        cls, rng: np.random.Generator, drawn: Drawn
    ) -> tuple[AbstractPrior, float]:
        num_inputs = drawn.inducing.shape[-1]
        draws = rng.uniform(size=(2, len(drawn.weights), 1)).prod(axis=0)
        smoothing = np.tile(_PAPER_SCALE * np.sqrt(num_inputs) * draws, (1, num_inputs))
        shorter = drawn._replace(lengthscale=_PAPER_SCALE * drawn.lengthscale)
        prior = cls.assembled(shorter, drawn.weights, smoothing=smoothing)
        return prior, _PAPER_VARIANCE

    def _log_squares(self) -> Float[Array, "R P"]:
        """log L of each copy's process."""
        return 2.0 * self.kernel.take(self.owner).log_lengthscale

    def covariance(
        self, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "J N J K"]:
        num_functions = self.num_functions
        total = jnp.zeros((num_functions, x.shape[0], num_functions, z.shape[0]))
        for weight, log_square in zip(self.weights.T, self._log_squares(), strict=True):
            shares = self.process_share(log_square, x, z)
            total += weight[:, None, None, None] * weight[:, None] * shares
        return total

    def process_share(
        self,
        log_square: Float[Array, " P"],
        x: Float[Array, "N P"],
        z: Float[Array, "K P"],
    ) -> Float[Array, "J N J K"]:
        """One process's share of the covariances, without the weights: the closed form
        at the head of this file, for every pair of functions."""
        square = self._squares(log_square).reshape(-1, x.shape[1])
        scale = jnp.exp(self.log_scales(log_square)).ravel()
        values = eq_values(x, z, square, scale)
        size = self.num_functions
        return jnp.swapaxes(values.reshape(len(x), size, size, len(z)), 0, 1)

    def log_scales(self, log_square: Float[Array, " P"]) -> Float[Array, "J J"]:
        """The logarithms of one process's share at distance 0, for every pair."""
        log_det = jnp.sum(jnp.log(self._squares(log_square)), axis=-1)
        if self.kernel.normalised:
            return -0.5 * (log_det + log_square.shape[0] * LOG_2PI)
        own = jnp.diagonal(log_det)
        return 0.25 * (own[:, None] + own) - 0.5 * log_det

    def _squares(self, log_square: Float[Array, " P"]) -> Float[Array, "J J P"]:
        """The squared length-scales of every pair."""
        kappa = jnp.exp(2.0 * self.log_smoothing)[:, None, :]
        return kappa + jnp.swapaxes(kappa, 0, 1) + jnp.exp(log_square)


class _FunctionGroup(NamedTuple):
    """The parameters of one function's covariances."""

    function: Int[Array, ""]
    weights: Float[Array, " R"]
    log_smoothing: Float[Array, " P"]
    inducing: Float[Array, "M P"]


class Convolution(AbstractConvolution):
    """Convolution processes with inducing values of the functions, as in the paper.

    Group j holds the values of f_j at its own points Z_j, so there are J groups. p and
    q are independent across groups, so the functions are independent given the
    parameters and share nothing else. One output does not fill the gaps of another, as
    it does with `LatentConvolution`.

    **Arguments:** those of `AbstractConvolution`; one matrix in `inducing` per row of
    `weights`.
    """

    name: ClassVar[str] = "convolution"
    inducing_of: ClassVar[str | None] = "function"
    shares_inducing: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_groups(self.inducing, self.num_functions, "row")

    def check_parameters(self, values: Mapping[str, Any]) -> None:
        super().check_parameters(values)
        # K_uu of a function without weights would be zero.
        silent = ~np.any(values["weights"], axis=1)
        if silent.any():
            raise ValueError(
                "`weights` must have a nonzero entry in every row; row "
                f"{np.argmax(silent)} has none."
            )

    @classmethod
    def usual_num_latents(
        cls, num_outputs: int, num_functions: int, num_rows: int
    ) -> int:
        del num_outputs, num_rows
        return min(_SCALES, num_functions)

    @classmethod
    def usual_num_inducing(cls, num_groups: int, num_rows: int) -> int:
        # A function learns from its own inducing values alone, however many there are.
        usual = super().usual_num_inducing(num_groups, num_rows)
        return max(usual, _LEAST_INDUCING)

    @classmethod
    def group_functions(
        cls, num_functions: int, num_copies: int
    ) -> Sequence[int | None]:
        del num_copies
        return range(num_functions)

    @classmethod
    def start_weights(cls, drawn: Drawn) -> Float[np.ndarray, "J R"]:
        # A function's kernel is a mixture of scales with the squared weights; at the
        # start, all scales have the same weight.
        return np.sign(drawn.weights) / np.sqrt(drawn.weights.shape[1])

    @property
    def columns_per_row(self) -> int:
        return 1

    def groups(self) -> _FunctionGroup:
        functions = jnp.arange(self.num_functions)
        return _FunctionGroup(
            functions, self.weights, self.log_smoothing, self.inducing
        )

    def covariances(self, group: _FunctionGroup, sites: Sites) -> Covariances:
        z = group.inducing
        if len(sites.spans) == 1:
            x = sites.x
        else:
            own = jnp.asarray(sites.own_rows(self.num_functions))
            x = sites.x[own[group.function]]
        square, variance = self._mixture(group)
        uu, ug = (eq_mixture(z, at, square, variance) for at in (z, x))
        return Covariances(uu, ug, jnp.full(x.shape[:1], jnp.sum(variance)))

    def _mixture(
        self, group: _FunctionGroup
    ) -> tuple[Float[Array, "R P"], Float[Array, " R"]]:
        """The squared length-scales and the variances of the copies, whose sum is one
        function's kernel."""
        square = 2.0 * jnp.exp(2.0 * group.log_smoothing) + jnp.exp(self._log_squares())
        variance = group.weights**2
        if self.kernel.normalised:
            log_det = jnp.sum(jnp.log(square), axis=1)
            variance *= jnp.exp(-0.5 * (log_det + square.shape[1] * LOG_2PI))
        return square, variance

    def column_covariance(
        self, group: _FunctionGroup, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "N K"]:
        square, variance = self._mixture(group)
        return eq_mixture(x, z, square, variance)

    def mix(
        self, sites: Sites, mean: Float[Array, "J C"], var: Float[Array, "J C"]
    ) -> tuple[SpanMoments, ...]:
        """The columns of group j are f_j itself."""
        return sites.split(mean, var)
