"""The linear model of coregionalisation."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from motleygp._types import Moments
from motleygp.kernels import AbstractKernel
from motleygp.priors._base import AbstractPrior, Covariances

DEFAULT_JITTER = 1e-8


class LMC(AbstractPrior):
    """f_j = sum_q sum_{i <= R_q} a^i_{j,q} u^i_q with u^i_q ~ GP(0, k_q).

    The R_q copies of process q share the kernel k_q; each has inducing points of its
    own, so there are G = sum_q R_q groups, in the order (1,1)..(1,R_1), (2,1)...

    **Arguments:**

    - `kernel`: a kernel whose leaves are stacked over the Q processes.
    - `weights`: a^i_{j,q}, one row per function and one column per group.
    - `inducing`: Z, one (M, P) matrix per group.
    - `rank`: R_q, one number or one per process.
    - `jitter`: what is added to the diagonal of K_uu, relative to that diagonal.
    """

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
        num_groups = self.weights.shape[1]
        self.rank = (
            (rank,) * (num_groups // rank) if isinstance(rank, int) else tuple(rank)
        )
        self.jitter = jitter
        if sum(self.rank) != num_groups or self.inducing.shape[0] != num_groups:
            raise ValueError(
                "`weights` must have one column, and `inducing` one matrix, for each "
                f"copy of a latent process; got {num_groups} columns, "
                f"{self.inducing.shape[0]} matrices and ranks {self.rank}."
            )

    @property
    def owner(self) -> tuple[int, ...]:
        """The latent process that each group is a copy of."""
        return tuple(int(q) for q in np.repeat(np.arange(len(self.rank)), self.rank))

    def groups(self) -> tuple[AbstractKernel, Float[Array, "G M P"]]:
        return self.kernel.take(self.owner), self.inducing

    def covariances(
        self, group: tuple[AbstractKernel, Array], x: Float[Array, "N P"]
    ) -> Covariances:
        kernel, z = group
        # One call for both blocks: the kernel is dearer by the call than by the entry.
        both = kernel(z, jnp.concatenate([z, x]))
        num_inducing = z.shape[0]
        return Covariances(
            both[:, :num_inducing], both[:, num_inducing:], kernel.diagonal(x)
        )

    def parameters(self) -> dict[str, Array]:
        return {
            "inducing": self.inducing,
            "lengthscale": self.kernel.lengthscale,
            "weights": self.weights,
        }

    def with_parameters(self, values: Mapping[str, ArrayLike]) -> "LMC":
        return eqx.tree_at(
            lambda prior: (prior.inducing, prior.kernel, prior.weights),
            self,
            (
                jnp.asarray(values["inducing"], dtype=float),
                self.kernel.with_lengthscale(values["lengthscale"]),
                jnp.asarray(values["weights"], dtype=float),
            ),
        )

    def mix(self, mean: Float[Array, "G N"], var: Float[Array, "G N"]) -> Moments:
        return self.weights @ mean, self.weights**2 @ var
