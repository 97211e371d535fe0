"""The linear model of coregionalisation."""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from motleygp._types import SpanMoments
from motleygp.kernels import AbstractKernel
from motleygp.priors._base import (
    DEFAULT_JITTER,
    AbstractPrior,
    Covariances,
    check_groups,
    ranks,
)
from motleygp.priors._sites import Sites, pick


class LMC(AbstractPrior):
    """f_j = sum_q sum_{i <= R_q} a^i_{j,q} u^i_q with u^i_q ~ GP(0, k_q).

    The R_q copies of process q share the kernel k_q; each has its own inducing points,
    so there are G = sum_q R_q groups, in the order (1,1)..(1,R_1), (2,1)...

    **Arguments:**

    - `kernel`: a kernel whose leaves are stacked over the Q processes.
    - `weights`: a^i_{j,q}, one row per function and one column per group.
    - `inducing`: Z, one (M, P) matrix per group.
    - `rank`: R_q, one number or one per process.
    - `jitter`: the jitter on the diagonal of K_uu, relative to that diagonal.
    """

    name: ClassVar[str] = "lmc"

    kernel: AbstractKernel
    weights: Float[Array, "J G"]
    inducing: Float[Array, "G M P"]
    rank: tuple[int, ...] = eqx.field(static=True)
    jitter: float = eqx.field(static=True)

    def __init__(
        self,
        kernel: AbstractKernel,
        weights: ArrayLike,
        inducing: ArrayLike,
        *,
        rank: int | Sequence[int] = 1,
        jitter: float = DEFAULT_JITTER,
    ):
        self.kernel = kernel
        self.weights = jnp.asarray(weights, dtype=float)
        self.inducing = jnp.asarray(inducing, dtype=float)
        self.rank = ranks(rank, self.weights.shape[1])
        self.jitter = jitter

    def __check_init__(self) -> None:
        check_groups(self.inducing, self.weights.shape[1], "column")

    @property
    def columns_per_row(self) -> int:
        return 1

    def groups(self) -> tuple[AbstractKernel, Float[Array, "G M P"]]:
        return self.kernel.take(self.owner), self.inducing

    def covariances(
        self, group: tuple[AbstractKernel, Array], sites: Sites
    ) -> Covariances:
        kernel, z = group
        # One call for both blocks: a call of the kernel costs more than its entries.
        both = kernel(z, jnp.concatenate([z, sites.x]))
        num_inducing = z.shape[0]
        return Covariances(
            both[:, :num_inducing], both[:, num_inducing:], kernel.diagonal(sites.x)
        )

    def column_covariance(
        self,
        group: tuple[AbstractKernel, Array],
        x: Float[Array, "N P"],
        z: Float[Array, "K P"],
    ) -> Float[Array, "N K"]:
        return group[0](x, z)

    def mix(
        self,
        sites: Sites,
        mean: Float[Array, "G N"],
        var: Float[Array, "G N"] | Float[Array, "G G N"],
    ) -> tuple[SpanMoments, ...]:
        """sum_g w_jg mean_g, and sum_gh w_jg w_j'h var_gh."""
        mixed = []
        for span in sites.spans:
            weights = pick(self.weights, span.functions)
            own_mean, own_var = (a[..., span.start : span.stop] for a in (mean, var))
            left, right = weights, weights
            if span.pairs:
                first, second = np.array(span.pairs).T
                left = jnp.concatenate([left, self.weights[first]])
                right = jnp.concatenate([right, self.weights[second]])
            if var.ndim == 2:
                f_var = (left * right) @ own_var
            else:
                products = left[:, :, None] * right[:, None]
                f_var = jnp.tensordot(products, own_var, 2)
            mixed.append((weights @ own_mean, f_var))
        return tuple(mixed)

    def covariance(
        self, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "J N J K"]:
        """sum_q,i a^i_{j,q} a^i_{j',q} k_q(x_n, z_k)."""
        each = jax.vmap(lambda kernel: kernel(x, z))(self.kernel.take(self.owner))
        return jnp.einsum("jg,gnk,ig->jnik", self.weights, each, self.weights)
