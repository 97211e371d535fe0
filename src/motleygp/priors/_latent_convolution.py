"""Convolution processes whose functions share the latent inducing values."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from motleygp._types import SpanMoments
from motleygp.kernels import EQ, LOG_2PI, eq_values
from motleygp.numerics.packed import entries
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
        cross = kappa + jnp.exp(log_square)
        log_cross = jnp.sum(jnp.log(cross), axis=1)
        log_own = jnp.sum(jnp.log(kappa + cross), axis=1)
        if self.kernel.normalised:
            log_scale = -0.5 * (log_cross + z.shape[1] * LOG_2PI)
        else:
            log_scale = 0.25 * (log_own + jnp.sum(log_square)) - 0.5 * log_cross
        ug = eq_values(z, x, cross, jnp.exp(log_scale))
        num_inducing, num_functions, num_rows = ug.shape
        packed = entries(num_functions, self.column_pairs(sites))
        between = jnp.exp(self.log_scales(log_square))[packed]
        return Covariances(
            kernel(z, z),
            ug.reshape(num_inducing, num_functions * num_rows),
            jnp.repeat(between, num_rows),
        )

    def column_pairs(self, sites: Sites) -> list[tuple[int, int]]:
        return sites.pairs

    def column_covariance(
        self, group: _LatentGroup, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "C D"]:
        shares = self.process_share(2.0 * group.kernel.log_lengthscale, x, z)
        return shares.reshape(self.num_functions * x.shape[0], -1)

    def mix(
        self,
        sites: Sites,
        mean: Float[Array, "R C"],
        var: Float[Array, "R E"] | Float[Array, "R R E"],
    ) -> tuple[SpanMoments, ...]:
        """sum_q S_{j,q} times the means of column (j, n) of group q, and sum_qq'
        S_{j,q} S_{j',q'} times the covariances."""
        num_groups, num_functions = self.weights.T.shape
        first, second = entries(num_functions, sites.pairs)
        left, right = self.weights.T[:, first], self.weights.T[:, second]
        f_mean = jnp.sum(
            self.weights.T[:, :, None] * mean.reshape(num_groups, num_functions, -1), 0
        )
        if var.ndim == 2:
            products, groups = left * right, (0,)
        else:
            products, groups = left[:, None] * right, (0, 1)
        by_entry = var.reshape(*products.shape, -1)
        f_var = jnp.sum(products[..., None] * by_entry, axis=groups)
        return sites.split(f_mean, f_var)
