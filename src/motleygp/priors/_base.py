"""The interface of a prior."""

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from motleygp._types import RandomKey, SpanMoments
from motleygp.kernels import AbstractKernel
from motleygp.named import Named
from motleygp.numerics.linalg import jittered_cholesky
from motleygp.priors._sites import Sites

# Added to the diagonal of K_uu, relative to that diagonal.
DEFAULT_JITTER = 1e-8
# The size of the weights between outputs at the start, relative to those within one.
_SHARED = 0.3
# The most latent processes by default, and the most if some are there to be shared.
_MAX_LATENTS, _MAX_SHARED = 40, 16
# The fewest and the most inducing points of a group by default, and the most inducing
# values of all groups, for few rows and for more.
_FEW_INDUCING, _INDUCING = (20, 80, 1600), (20, 200, 3200)
_FEW_ROWS = 1024
# Beyond this number of rows there are processes to share beside those of each output.
_MANY_ROWS = 4000


class Covariances(eqx.Module):
    """The three covariances of one group, with inducing values u and C columns g.

    A column is a value that the group contributes to parameter functions: for the
    linear model of coregionalisation, its latent process at one input.
    """

    uu: Float[Array, "M M"]
    ug: Float[Array, "M C"]
    gg: Float[Array, " E"]
    """The variances of the columns and then, if the prior has `column_pairs`, the
    covariances of those."""


class AbstractPrior(Named):
    """A joint Gaussian over the parameter functions f_1..f_J, made from latent
    processes, with G groups of inducing values that are independent of one another.

    `groups` and `covariances` give the covariances of each group's columns with its
    inducing values; `mix` combines the columns of all groups into the functions. The
    bound, its gradients and marginal predictions follow from these.

    `kernel` is stacked over the Q latent processes. Process q has R_q copies, which
    share its kernel; `weights` has one column per copy, in the order
    (1,1)..(1,R_1), (2,1)...

    A new prior has a `name` and defines the abstract methods. It overrides
    `group_functions`, `start`, `paper_start`, `usual_num_latents` and
    `usual_num_inducing` if its training should not start like that of the linear model
    of coregionalisation.
    """

    kind: ClassVar[str] = "prior"
    family: ClassVar[str]
    """The value of the estimator's argument `prior` that selects this class; its `name`
    by default."""
    inducing_of: ClassVar[str | None] = None
    """The value of the argument `inducing` that selects it within its family."""
    shares_inducing: ClassVar[bool] = True
    """Whether functions share inducing values, so that outputs inform one another."""
    kernels: ClassVar[tuple[str, ...] | None] = None
    """The names of the kernels it accepts; `None` for all."""
    parts: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"inducing": "inducing", "weights": "weights"}
    )
    own_distances: ClassVar[tuple[str, ...]] = ()
    """Its parameters, beyond its kernel's, that are distances between inputs."""

    kernel: eqx.AbstractVar[AbstractKernel]
    weights: eqx.AbstractVar[Float[Array, "J R"]]
    inducing: eqx.AbstractVar[Float[Array, "G M P"]]
    rank: eqx.AbstractVar[tuple[int, ...]]
    jitter: eqx.AbstractVar[float]

    @property
    def num_functions(self) -> int:
        """J."""
        return self.weights.shape[0]

    @property
    def owner(self) -> tuple[int, ...]:
        """The latent process of each copy."""
        return tuple(int(q) for q in np.repeat(np.arange(len(self.rank)), self.rank))

    @property
    @abc.abstractmethod
    def columns_per_row(self) -> int:
        """The number of columns of a group per row of the sites."""

    @abc.abstractmethod
    def groups(self) -> PyTree:
        """The arguments `group` of `covariances`, stacked over the groups."""

    @abc.abstractmethod
    def covariances(self, group: PyTree, sites: Sites) -> Covariances:
        """The covariances of one group, an entry of `groups`, at the sites."""

    @abc.abstractmethod
    def column_covariance(
        self, group: PyTree, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "C D"]:
        """The covariances of one group's columns at x with those at z."""

    def column_pairs(self, sites: Sites) -> list[tuple[int, int]]:
        """The pairs of functions whose columns at one row are correlated within a group
        and count. None by default: the columns of a group at one row are one value, or
        belong to one function.

        A prior with pairs has J columns per row, in the order (j, n).
        """
        del sites
        return []

    @abc.abstractmethod
    def mix(
        self,
        sites: Sites,
        mean: Float[Array, "G C"],
        var: Float[Array, "G E"] | Float[Array, "G G E"],
    ) -> tuple[SpanMoments, ...]:
        """The moments of each span's functions, from those of the groups' columns.

        `var` is within each group, or between all groups under a joint q(u). The second
        moments are the variances and then, unless the functions are independent, the
        covariances of the span's `pairs`.
        """

    @abc.abstractmethod
    def covariance(
        self, x: Float[Array, "N P"], z: Float[Array, "K P"]
    ) -> Float[Array, "J N J K"]:
        """cov[f_j(x_n), f_j'(z_k)] under the joint prior of all functions."""

    def parameters(self) -> dict[str, Array]:
        """The parameters of the prior and its kernel by name, constrained."""
        return {
            "inducing": self.inducing,
            **self.kernel.parameters(),
            "weights": self.weights,
        }

    def with_parameters(self, values: Mapping[str, ArrayLike]) -> "AbstractPrior":
        """The same prior with all of its `parameters` replaced."""
        return eqx.tree_at(
            lambda prior: (prior.inducing, prior.kernel, prior.weights),
            self,
            (
                jnp.asarray(values["inducing"], dtype=float),
                self.kernel.with_parameters(values),
                jnp.asarray(values["weights"], dtype=float),
            ),
        )

    @property
    def distances(self) -> tuple[str, ...]:
        """The parameters that are distances between inputs, and so positive."""
        return (*self.kernel.distances, *self.own_distances)

    def check_parameters(self, values: Mapping[str, Any]) -> None:
        """Raise a `ValueError` that names a parameter outside its constraints."""
        for name in self.distances:
            value = np.asarray(values[name])
            if not (value > 0).all():
                raise ValueError(f"`{name}` must be positive; got {np.min(value):g}.")

    def check_shapes(self) -> None:
        """Raise a `ValueError` if the shapes of the arrays do not match."""
        if self.inducing.ndim != 3:
            raise ValueError(
                f"`inducing` must have shape (G, M, P); got {self.inducing.shape}."
            )
        if sum(self.rank) != self.weights.shape[1]:
            raise ValueError(
                f"`rank` must add up to the columns of `weights`, "
                f"{self.weights.shape[1]}; got {self.rank}."
            )
        expected = (len(self.rank), self.inducing.shape[-1])
        found = jax.eval_shape(lambda: self.kernel.lengthscale).shape
        if found != expected:
            raise ValueError(
                "`kernel` must have one length-scale per latent process and input, "
                f"{expected}; got {found}."
            )

    # The start of training.

    @classmethod
    def usual_num_latents(
        cls, num_outputs: int, num_functions: int, num_rows: int
    ) -> int:
        """The default Q: one process per function, within a limit and, for several
        outputs with many rows, half as many again to share, within a lower one."""
        shared = 0
        if num_outputs > 1 and num_rows > _MANY_ROWS:
            shared = min((num_functions + 1) // 2, max(0, _MAX_SHARED - num_functions))
        return min(_MAX_LATENTS, num_functions + shared)

    @classmethod
    def usual_num_inducing(cls, num_groups: int, num_rows: int) -> int:
        """The default M: fewer where there are many groups, or so few rows that Z would
        over-fit."""
        fewest, most, total = _FEW_INDUCING if num_rows <= _FEW_ROWS else _INDUCING
        return int(np.clip(total // num_groups, fewest, most))

    @classmethod
    def group_functions(
        cls, num_functions: int, num_copies: int
    ) -> Sequence[int | None]:
        """For each group, the function among whose rows its inducing points start;
        `None` for the rows of all functions."""
        del num_functions
        return [None] * num_copies

    @classmethod
    def start(cls, drawn: "Drawn") -> "AbstractPrior":
        """The prior at the start of training, with functions of variance reach^2."""
        return cls.assembled(drawn, drawn.reach[:, None] * cls.start_weights(drawn))

    @classmethod
    def start_weights(cls, drawn: "Drawn") -> Float[np.ndarray, "J R"]:
        """The weights of functions of unit variance, with rows of unit length.

        If there is a column for each function, an output begins as if it were alone,
        with columns of its own and a random orthogonal matrix there, and a little of
        all other columns: of a column that outputs share from the start, the one with
        the larger gradients would take possession. With fewer columns, the rows are
        those of a random matrix with orthonormal columns.

        Rows of independent draws may be nearly zero or nearly parallel. Then a function
        hardly moves, or cannot differ from another: the gradient of its weights
        vanishes with q(u) at its prior, and that of q(u) with the weights.
        """
        num_functions, num_columns = drawn.weights.shape
        if num_columns < num_functions:
            weights = _orthonormal(drawn.weights)
        else:
            weights = _SHARED * drawn.weights / np.sqrt(num_columns)
            ends = np.cumsum(drawn.sizes)
            for own in map(slice, ends - drawn.sizes, ends):
                weights[own, own] = _orthonormal(drawn.weights[own, own])
        return weights / np.linalg.norm(weights, axis=1, keepdims=True)

    @classmethod
    def paper_start(
        cls, rng: np.random.Generator, drawn: "Drawn"
    ) -> tuple["AbstractPrior", float]:
        """The prior at the paper's start, and the variance of its q(u)."""
        del rng
        return cls.assembled(drawn, drawn.weights), 1.0

    @classmethod
    def assembled(
        cls, drawn: "Drawn", weights: Float[np.ndarray, "J R"], **own: Any
    ) -> "AbstractPrior":
        """The prior from its drawn parts, these weights, and its further arguments."""
        make: Any = cls
        return make(
            kernel=drawn.kernel.start(drawn.lengthscale),
            weights=weights,
            inducing=drawn.inducing,
            rank=drawn.rank,
            jitter=drawn.jitter,
            **own,
        )


class Drawn(NamedTuple):
    """The parts of a prior that are drawn at random or computed from the data.

    `weights` are drawn from N(0, 1); `sizes` are the numbers of functions of the
    outputs; `spread` is the scale of the inputs, `reach` the standard deviation of each
    function at the start.
    """

    kernel: type[AbstractKernel]
    lengthscale: Float[np.ndarray, "Q P"]
    weights: Float[np.ndarray, "J R"]
    sizes: tuple[int, ...]
    inducing: Float[np.ndarray, "G M P"]
    spread: Float[np.ndarray, " P"]
    reach: Float[np.ndarray, " J"]
    rank: tuple[int, ...]
    jitter: float


def _orthonormal(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal columns, or rows if there are fewer."""
    u, _, vt = np.linalg.svd(matrix, full_matrices=False)
    return u @ vt


def ranks(rank: int | Sequence[int], num_copies: int) -> tuple[int, ...]:
    """R_q of each process, from one number or one per process."""
    each = (rank,) * (num_copies // rank) if isinstance(rank, int) else tuple(rank)
    if sum(each) != num_copies:
        raise ValueError(
            "`weights` must have one column for each copy of a latent process; got "
            f"{num_copies} columns and ranks {each}."
        )
    return each


def check_groups(inducing: Array, number: int, what: str) -> None:
    """Raise a `ValueError` unless there is one matrix of inducing points for each row
    or column of the weights."""
    if inducing.shape[0] != number:
        raise ValueError(
            f"`inducing` must have one matrix for each {what} of `weights`, "
            f"{number}; got {inducing.shape[0]}."
        )


def sample(
    prior: AbstractPrior, key: RandomKey, x: Float[Array, "N P"], *, num: int = 1
) -> Float[Array, "num J N"]:
    """Draws of all functions at x from their joint prior.

    It factorises the covariance matrix of all J N values: for inspection and
    simulation, not for thousands of rows.
    """
    size = prior.num_functions * x.shape[0]
    joint = prior.covariance(x, x).reshape(size, size)
    factor, _ = jittered_cholesky(joint, prior.jitter)
    noise = jr.normal(key, (num, size), dtype=joint.dtype)
    return (noise @ factor.T).reshape(num, prior.num_functions, x.shape[0])
