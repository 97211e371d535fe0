"""The interface of a likelihood."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float, PyTree

from motleygp.likelihoods import _programs
from motleygp.likelihoods._cdf import at_turns, on_dense_grid
from motleygp.named import Named
from motleygp.numerics.chunks import chunks, in_chunks
from motleygp.numerics.moments import mean_and_variance
from motleygp.numerics.quadrature import expect_tensor

# A sum over fewer values than these takes less time than to optimise its program.
_FEW = 10_000
# A file may ask for any number of nodes, and a two-dimensional rule squares it.
_MOST_NODES = 1000


class AbstractLikelihood(Named):
    """p(y | f) of one output, with f = (f_1, ..., f_L) its parameter functions.

    Every method is elementwise over observations: y has shape (*N), and f, or the mean
    of Gaussian f, has shape (L, *N). The second moments of f are packed in `var`, (V,
    *N): the L variances and then, unless the functions are independent, the covariances
    of the pairs (1, 2), (1, 3), ..., (2, 3), ...: see `numerics.packed`.

    A new likelihood has a `name` and the class variables below, and defines `log_prob`,
    the conditional moments, `cdf`, `sample`, `in_support` and `from_line`; for real
    numbers, `AbstractReal` provides the last two, `conditional_mean` and most class
    variables. Everything else has a default; closed forms may replace the integrals,
    which are by quadrature for L <= 2. A likelihood with its own parameters lists them
    in `parts`, `parameters` and `with_parameters`.
    """

    kind: ClassVar[str] = "likelihood"

    functions: eqx.AbstractClassVar[tuple[str, ...]]
    """The parameter behind each function, with its link."""
    support: eqx.AbstractClassVar[str]
    """The values y may take, in words."""
    discrete: eqx.AbstractClassVar[bool]
    """Whether y takes whole numbers only."""
    real: ClassVar[bool] = False
    """Whether y is a real number, which may be shifted and scaled freely."""
    counts: ClassVar[bool] = False
    """Whether the first function is a log rate, which takes a log exposure."""
    binary: ClassVar[bool] = False
    """Whether y is 0 or 1, and its mean the probability of 1."""
    turns: ClassVar[bool] = False
    """Whether `turn` is defined."""
    in_numpy: ClassVar[bool] = False
    """Whether `log_prob` and `conditional_mean` answer NumPy's arrays in NumPy, complex
    ones included in the mean."""

    num_nodes: int = eqx.field(static=True, default=20, kw_only=True)
    """Gauss-Hermite nodes per dimension of a product rule."""

    def __check_init__(self) -> None:
        if not 1 <= self.num_nodes <= _MOST_NODES:
            raise ValueError(
                f"`num_nodes` must be between 1 and {_MOST_NODES}; "
                f"got {self.num_nodes}."
            )

    @classmethod
    def claims(cls, y: np.ndarray, column: str) -> str | None:
        """The reason to take this likelihood under `outputs="auto"`, or `None`.

        `y` holds the observed values, sorted; `column` is "bool", "integer" or "real".
        The library's own likelihoods claim nothing: the rules of `tables.infer` choose
        among them when no likelihood claims the output.
        """
        del y, column
        return None

    @property
    def num_functions(self) -> int:
        """L."""
        return len(self.functions)

    @property
    def num_nodes_1d(self) -> int:
        """Nodes of a one-dimensional rule, which is cheap: three times `num_nodes`."""
        return 3 * self.num_nodes

    # The likelihood's own parameters.

    def trainable(self) -> PyTree:
        """A filter that is True at the likelihood's own learned arrays."""
        return jax.tree.map(eqx.is_inexact_array, self)

    def in_units(self, scale: float) -> "AbstractLikelihood":
        """The likelihood of y / scale, with its parameters converted."""
        del scale
        return self

    def parameters(self) -> dict[str, Array]:
        """The likelihood's own parameters by name, constrained."""
        return {}

    def with_parameters(self, values: Mapping[str, float]) -> "AbstractLikelihood":
        """The same likelihood with all of its `parameters` replaced.

        Raises a `ValueError` for a value outside its constraints.
        """
        del values
        return self

    def at_start(
        self, f: np.ndarray, unexplained: float
    ) -> tuple["AbstractLikelihood", np.ndarray]:
        """The likelihood and the offsets at the start of training, from the constant
        fit (`self`, f). That fit takes all variation of y for noise; `unexplained` is
        the share of it that the inputs seem to leave."""
        del unexplained
        return self, f

    def reach(
        self, y: np.ndarray, f: np.ndarray, weight: np.ndarray | None = None
    ) -> np.ndarray:
        """The standard deviation of each function at the start, from the values y and
        the constant fit f: 1, or less if that would move the mean of y by more than the
        spread of y."""
        slope = np.abs(_mean_slope(self, f))
        spread = np.sqrt(mean_and_variance(y, weight)[1])
        return np.where(slope > spread, spread / np.where(slope > 0, slope, 1.0), 1.0)

    # The density.

    @abc.abstractmethod
    def log_prob(self, y: Float[Array, "*N"], f: Float[Array, "L *N"]) -> Array:
        """log p(y | f)."""

    def expected_log_prob(
        self,
        y: Float[Array, "*N"],
        mean: Float[Array, "L *N"],
        var: Float[Array, "V *N"],
    ) -> Float[Array, "*N"]:
        """E[log p(y | f)] for Gaussian f."""
        lifted = y.reshape(y.shape + (1,) * self.num_functions)
        return expect_tensor(
            lambda *f: self.log_prob(lifted, _programs.stack(f)),
            mean,
            var,
            self.num_nodes,
        )

    # Predictions under a Gaussian q(f).

    @abc.abstractmethod
    def conditional_mean(self, f: Float[Array, "L *N"]) -> Array:
        """E[y | f]."""

    @abc.abstractmethod
    def conditional_variance(self, f: Float[Array, "L *N"]) -> Array:
        """var[y | f]."""

    # Predictive distributions, in NumPy: mean and var have one column per row, (L, N)
    # and (V, N). What a likelihood does not define is compiled from its density.

    def predictive_moments(
        self, mean: np.ndarray, var: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """E[y] and var[y] = E[var[y | f]] + var[E[y | f]]."""
        # Stacked outside: inside, the compiler would repeat what both moments share.
        first, second = in_chunks(
            lambda m, v: np.stack(_programs.moments(self, m, v)), mean, var
        )
        return first, second

    def log_predictive(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        """log E[p(y | f)]: the log density of a new observation."""
        return in_chunks(
            lambda y, m, v: _programs.log_predictive(self, y, m, v), y, mean, var
        )

    @abc.abstractmethod
    def cdf(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(Y <= y | f)."""

    def turn(self, y: np.ndarray, *f: np.ndarray) -> tuple[Any, Any]:
        """The place and the width at which `cdf` turns from 0 to 1 or back, in the last
        function for values `f` of those before it; the place is linear in them.

        Where a turn is narrower than q(f), a rule that does not know it would step over
        it. Values y outside the support may give anything.
        """
        raise NotImplementedError(f"{self.name} does not know where its cdf turns.")

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """One draw of y for each f."""

    @abc.abstractmethod
    def in_support(self, y: np.ndarray) -> np.ndarray:
        """Whether each value lies in the support."""

    def resolution(self, y: np.ndarray) -> float:
        """The smallest standard deviation of y that the functions can follow without
        rounding; 0 if any will do."""
        del y
        return 0.0

    @abc.abstractmethod
    def from_line(self, t: np.ndarray) -> np.ndarray:
        """A non-decreasing map of the real line onto the range of the support."""

    def predictive_cdf(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray:
        """P(Y <= y) = E[P(Y <= y | f)]."""
        if self.turns:
            return at_turns(self.cdf, self.turn, y, mean, var)
        return on_dense_grid(self.cdf, y, mean, var)

    def predictive_quantile(
        self, levels: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray | None:
        """The quantiles of each row at all levels, (N, levels), if there is a faster
        way to them than root finding: NaN where there is none, or `None`."""
        del levels, mean, var
        return None

    def predictive_crps(
        self, y: np.ndarray, mean: np.ndarray, var: np.ndarray
    ) -> np.ndarray | None:
        """The CRPS of each y if it has a closed form; `None` otherwise."""
        del y, mean, var
        return None

    # The constant fit: the baseline of every score and the start of the offsets. A
    # value of weight w counts as w values; without weights, every value counts once.

    def moment_fit(self, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """A constant f, of shape (L,), that roughly fits the marginal of y; zero by
        default. It is the start of the constant fit."""
        del y, weight
        return np.zeros(self.num_functions)

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """The derivatives of log p(y | f) in each function in NumPy, for the search for
        the constant fit; `None` if JAX shall find them."""
        del y, f
        return None

    def constant_fit(
        self, y: np.ndarray, weight: np.ndarray | None = None
    ) -> tuple["AbstractLikelihood", np.ndarray]:
        """The likelihood, and the constant f that maximises sum_n w_n log p(y_n | f).

        The default searches for f by quasi-Newton. A likelihood with its own parameters
        overrides it to fit them too.
        """
        observed = np.asarray(y, dtype=float)
        share = np.ones_like(observed) if weight is None else weight
        share = share / np.sum(share)
        result = scipy.optimize.minimize(
            lambda f: _constant_loss(self, f, observed, share),
            self.moment_fit(y, weight),
            jac=True,
        )
        return self, np.asarray(result.x)


def _constant_loss(
    likelihood: AbstractLikelihood, f: np.ndarray, y: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Minus the mean of log p(y_n | f), by shares that sum to 1; and its gradient."""
    each = np.broadcast_to(f[:, None], (len(f), len(y)))
    slopes = likelihood.log_prob_slopes(y, each)
    if slopes is not None:
        log_prob: Any = likelihood.log_prob
        return np.asarray(-share @ log_prob(y, each)), -slopes @ share
    program = _programs.constant_loss_and_gradient
    if y.size < _FEW:
        program = program.quick
    value, gradient = program(likelihood, f, y, share)
    return np.asarray(value), np.asarray(gradient)


def _mean_slope(likelihood: AbstractLikelihood, f: np.ndarray) -> np.ndarray:
    """The derivatives of E[y | f] in each function."""
    if not likelihood.in_numpy:
        return np.asarray(_programs.mean_slope(likelihood, f))
    # By a complex step, which has no difference that could round.
    moved = f[:, None] + 1e-30j * np.eye(len(f))
    mean: Any = likelihood.conditional_mean
    return np.imag(mean(moved)) / 1e-30


def fit_constant(
    likelihood: AbstractLikelihood,
    y: np.ndarray,
    exposure: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> tuple[AbstractLikelihood, np.ndarray]:
    """The constant fit to the observed values of y, which is NaN where missing.

    For counts with an exposure e, the first constant is the log rate per unit of
    exposure: log(sum w y / sum w e).
    """
    known = ~np.isnan(y)
    own = None if weight is None else weight[known]
    fitted, f = likelihood.constant_fit(y[known], own)
    if likelihood.counts and exposure is not None:
        f[0] -= np.log(np.average(exposure[known], weights=own))
    return fitted, f


def constant_log_prob(
    likelihood: AbstractLikelihood,
    f: np.ndarray,
    y: np.ndarray,
    exposure: np.ndarray | None = None,
) -> np.ndarray:
    """log p(y_n) under a constant fit, NaN where y is missing."""
    e = exposure if likelihood.counts else None
    parts = [
        _constant_log_prob(likelihood, f, y[rows], None if e is None else e[rows])
        for rows in chunks(len(y))
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _constant_log_prob(
    likelihood: AbstractLikelihood,
    f: np.ndarray,
    y: np.ndarray,
    exposure: np.ndarray | None,
) -> np.ndarray:
    """`constant_log_prob` of some rows; only counts have an exposure."""
    each = np.repeat(f[:, None], len(y), axis=1)
    if exposure is not None:
        each[0] += np.log(exposure)
    if likelihood.in_numpy:
        log_prob: Any = likelihood.log_prob
        with np.errstate(all="ignore"):
            return log_prob(np.asarray(y), each)
    return in_chunks(lambda y, f: _programs.log_prob(likelihood, y, f), y, each)
