"""Convolution processes whose functions share the latent inducing values."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from motleygp._types import SpanMoments
from motleygp.kernels import EQ, LOG_2PI, eq_values
from motleygp.priors._base import Covariances, check_groups
from motleygp.priors._convolution import AbstractConvolution
from motleygp.priors._sites import Sites


class _LatentGroup(NamedTuple):
    """The parameters of one copy's covariances."""

    kernel: EQ
    inducing: Float[Array, "M P"]


class LatentConvolution(AbstractConvolution):
    """Convolution processes with inducing values of the latent processes u^i_q.

    All functions share them: there are G = sum_q R_q groups, as for `LMC`, and the
    functions inform one another. A group has one column per function and row, so it
    costs J projections where `LMC` needs one.

    **Arguments:** those of `AbstractConvolution`; one matrix in `inducing` per column
    of `weights`.
    """

    name: ClassVar[str] = "latent-convolution"
    inducing_of: ClassVar[str | None] = "latent"

    def __check_init__(self) -> None:
        check_groups(self.inducing, self.weights.shape[1], "column")

    @property
    def columns_per_row(self) -> int:
        return self.num_functions

    def groups(self) -> _LatentGroup:
        return _LatentGroup(self.kernel.take(self.owner), self.inducing)

    def covariances(self, group: _LatentGroup, sites: Sites) -> Covariances:
        """Column (j, n) is this process's share of f_j(x_n), without S_{j,q}."""
        kernel, z = group
        if len(sites.spans) == 1:
            x = sites.x
        else:
            x = sites.x[sites.own_rows(self.num_functions)]
        kappa = jnp.exp(2.0 * self.log_smoothing)
        log_square = 2.0 * kernel.log_lengthscale
        cross, own = (k * kappa + jnp.exp(log_square) for k in (1.0, 2.0))
        log_cross, log_own = (jnp.sum(jnp.log(square), 1) for square in (cross, own))
        if self.kernel.normalised:
            constant = z.shape[1] * LOG_2PI
            log_scale = -0.5 * (log_cross + constant)
            variance = jnp.exp(-0.5 * (log_own + constant))
        else:
            log_scale = 0.25 * (log_own + jnp.sum(log_square)) - 0.5 * log_cross
            variance = jnp.ones_like(log_own)
        ug = jnp.exp(log_scale)[:, None] * eq_values(z, x, cross)
        num_inducing, num_functions, num_rows = ug.shape
        return Covariances(
            kernel(z, z),
            ug.reshape(num_inducing, num_functions * num_rows),
            jnp.repeat(variance, num_rows),
        )

    def column_covariance(
        self, group: _LatentGroup, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "C D"]:
        shares = self.process_share(2.0 * group.kernel.log_lengthscale, x, z)
        return shares.reshape(self.num_functions * x.shape[0], -1)

    def mix(
        self, sites: Sites, mean: Float[Array, "R C"], var: Float[Array, "R C"]
    ) -> tuple[SpanMoments, ...]:
        """sum_q S_{j,q} times the moments of column (j, n) of group q."""
        weights = self.weights.T[:, :, None]
        shape = (*weights.shape[:2], -1)
        f_mean = jnp.sum(weights * mean.reshape(shape), axis=0)
        f_var = jnp.sum(weights**2 * var.reshape(shape), axis=0)
        return sites.split(f_mean, f_var)
