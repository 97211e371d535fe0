"""The predictive distribution of one output at given inputs."""

import abc
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.chunks import chunks
from motleygp.numerics.packed import factor, num_packed
from motleygp.numerics.sharing import as_floats
from motleygp.prediction.functions import check_number_of_draws
from motleygp.prediction.quantiles import (
    place_on_line,
    roots_on_line,
    smallest_integers,
)
from motleygp.tables.columns import as_column


class AbstractPredictive(abc.ABC):
    """A distribution of one output, row by row, in the user's units.

    A standardised real output is `shift` + `scale` times the y of the likelihood.
    """

    likelihood: AbstractLikelihood
    shift: float
    scale: float
    classes: tuple[Any, Any] | None = None
    """The labels of 0 and 1, if the output has labels; `y` may hold them, too."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abc.abstractmethod
    def __getitem__(self, rows: Any) -> "AbstractPredictive":
        """The distribution at some of the rows."""

    @abc.abstractmethod
    def log_prob(self, y: ArrayLike) -> np.ndarray:
        """log p(y), of shape (N,); NaN where y is missing, -inf outside the support."""

    @abc.abstractmethod
    def sample(
        self, n: int = 1, random_state: int | np.random.Generator | None = None
    ) -> np.ndarray:
        """`n` draws for each row, of shape (n, N)."""

    @abc.abstractmethod
    def inner_moments(self) -> np.ndarray:
        """E[y] and var[y] in the likelihood's units: (2, N)."""

    def crps_in_closed_form(self, y: np.ndarray) -> np.ndarray | None:
        """The CRPS of each row if the likelihood has a closed form, else `None`."""
        del y
        return None

    @abc.abstractmethod
    def inner_cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y <= y) in the likelihood's units, all rows at once."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.likelihood.name}, {len(self)} rows)"

    def numbers(self, y: ArrayLike) -> np.ndarray:
        """y as numbers, one per row: labels as 0 and 1, and NaN where missing."""
        values = as_column("y", y, self.classes).values
        if values.shape != (len(self),):
            raise ValueError(f"`y` must have shape ({len(self)},); got {values.shape}.")
        return values

    def _inside(self, y: ArrayLike) -> np.ndarray:
        """y in the likelihood's units."""
        return (self.numbers(y) - self.shift) / self.scale

    @property
    def mean(self) -> np.ndarray:
        """E[y], of shape (N,)."""
        return self.shift + self.scale * self.inner_moments()[0]

    @property
    def variance(self) -> np.ndarray:
        """var[y], of shape (N,)."""
        return self.scale**2 * self.inner_moments()[1]

    @property
    def std(self) -> np.ndarray:
        """The square root of `variance`."""
        return np.sqrt(self.variance)

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """P(Y <= y), of shape (N,); NaN where y is missing."""
        inside = self._inside(y)
        parts = [self[rows].inner_cdf(inside[rows]) for rows in chunks(len(self))]
        return np.concatenate(parts)

    def quantile(self, levels: ArrayLike | float) -> np.ndarray:
        """The values below which y falls with the given probabilities: (N, levels).

        For a discrete output, the smallest value whose cdf reaches the level.
        """
        levels = np.atleast_1d(as_floats(levels, "`levels`"))
        inside = (levels > 0) & (levels < 1)
        if levels.ndim != 1 or not levels.size or not inside.all():
            raise ValueError(
                "`levels` must be a list of numbers strictly between 0 and 1; "
                f"got {levels.tolist()}."
            )
        found = [self[rows].inner_quantile(levels) for rows in chunks(len(self))]
        return self.shift + self.scale * np.concatenate(found)

    def interval(self, coverage: float = 0.95) -> np.ndarray:
        """The central interval that holds y with probability `coverage`: (N, 2)."""
        if not 0 < coverage < 1:
            raise ValueError(
                f"`coverage` must lie strictly between 0 and 1; got {coverage}."
            )
        tail = 0.5 * (1.0 - coverage)
        return self.quantile([tail, 1.0 - tail])

    def quantile_by_rule(self, levels: np.ndarray) -> np.ndarray | None:
        """The quantiles in the likelihood's units, NaN where a search must find them;
        `None` if it must for all."""
        del levels
        return None

    def inner_quantile(self, levels: np.ndarray) -> np.ndarray:
        """The quantiles in the likelihood's units: (N, levels)."""
        found = self.quantile_by_rule(levels)
        if found is None:
            found = np.full((len(self), len(levels)), np.nan)
        rows, columns = np.nonzero(np.isnan(found))
        if len(rows):
            found[rows, columns] = self._searched(rows, levels[columns])
        return found

    def _searched(self, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """The quantile of each of these rows at its level."""
        mean, variance = self.inner_moments()
        from_line = self.likelihood.from_line

        def cdf(t: np.ndarray, which: np.ndarray) -> np.ndarray:
            return self[which].inner_cdf(from_line(t))

        if self.likelihood.discrete:
            place, find = (mean, np.sqrt(variance)), smallest_integers
        else:
            place = place_on_line(from_line, mean, np.sqrt(variance))
            find = roots_on_line
        centre, scale = (a[rows] for a in place)
        return from_line(find(cdf, rows, levels, centre, scale))


class Predictive(AbstractPredictive):
    """p(y) = E[p(y | f)] under a Gaussian q(f), row by row.

    `f_mean` has one row per parameter function. `f_var` has their variances and then,
    unless they are independent, the covariances of the pairs (1, 2), (1, 3), ...
    """

    def __init__(
        self,
        likelihood: AbstractLikelihood,
        f_mean: np.ndarray,
        f_var: np.ndarray,
        *,
        shift: float = 0.0,
        scale: float = 1.0,
        classes: tuple[Any, Any] | None = None,
    ):
        self.likelihood = likelihood
        self.f_mean = np.asarray(f_mean)
        self.f_var = np.asarray(f_var)
        size, num_rows = likelihood.num_functions, self.f_mean.shape[-1]
        allowed = [(size, num_rows), (num_packed(size), num_rows)]
        if self.f_mean.shape != allowed[0] or self.f_var.shape not in allowed:
            raise ValueError(
                "`f_mean` and `f_var` must have one row per parameter function of "
                f"{likelihood.name}, {size}, and `f_var` may have one per pair; "
                f"got {self.f_mean.shape} and {self.f_var.shape}."
            )
        self.shift, self.scale, self.classes = shift, scale, classes
        self._known: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.f_mean.shape[1]

    def __getitem__(self, rows: Any) -> "Predictive":
        part = copy.copy(self)
        part.f_mean, part.f_var = (
            np.atleast_2d(a.T[rows]).T for a in (self.f_mean, self.f_var)
        )
        return part

    def inner_moments(self) -> np.ndarray:
        # Kept for these f: users ask for a mean, and then for a standard deviation.
        if self._known is None or self._known[0] is not self.f_mean:
            found = self.likelihood.predictive_moments(self.f_mean, self.f_var)
            self._known = self.f_mean, np.stack(found)
        return self._known[1]

    def inner_cdf(self, y: np.ndarray) -> np.ndarray:
        return self.likelihood.predictive_cdf(y, self.f_mean, self.f_var)

    def quantile_by_rule(self, levels: np.ndarray) -> np.ndarray | None:
        return self.likelihood.predictive_quantile(levels, self.f_mean, self.f_var)

    def crps_in_closed_form(self, y: np.ndarray) -> np.ndarray | None:
        inside = self._inside(y)
        found = self.likelihood.predictive_crps(inside, self.f_mean, self.f_var)
        return None if found is None else self.scale * found

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        inside = self._inside(y)
        seen = ~np.isnan(inside)
        valid = np.zeros_like(seen)
        valid[seen] = self.likelihood.in_support(inside[seen])
        value = np.where(seen, -np.inf, np.nan)
        if valid.any():
            # Other rows get a stand-in: a likelihood that is compiled has one program
            # for this number of rows.
            y = np.where(valid, inside, inside[valid][0])
            scored = self.likelihood.log_predictive(y, self.f_mean, self.f_var)
            value[valid] = scored[valid] - np.log(self.scale)
        return value

    def sample(
        self, n: int = 1, random_state: int | np.random.Generator | None = None
    ) -> np.ndarray:
        check_number_of_draws(n)
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((self.f_mean.shape[0], n, len(self)))
        rows = factor(self.f_var, len(self.f_mean))
        moved = [sum(entry * noise[k] for k, entry in row.items()) for row in rows]
        f = self.f_mean[:, None, :] + np.stack(moved)
        return self.shift + self.scale * self.likelihood.sample(rng, f)


class Mixture(AbstractPredictive):
    """A weighted average of predictive distributions, one per draw of theta.

    `weights` has the weight of each component in each row, (S, N), or is `None` for
    equal ones; those of a row sum to 1.
    """

    def __init__(
        self, components: Sequence[Predictive], weights: np.ndarray | None = None
    ):
        self.components = tuple(components)
        first = self.components[0]
        self.likelihood = first.likelihood
        self.shift, self.scale = first.shift, first.scale
        self.classes = first.classes
        shape = len(self.components), len(first)
        if weights is None:
            weights = np.full(shape, 1.0 / len(self.components))
        self.weights = np.asarray(weights)
        if self.weights.shape != shape:
            raise ValueError(
                "`weights` must have one row per component and one column per row, "
                f"{shape}; got {self.weights.shape}."
            )

    def __len__(self) -> int:
        return len(self.components[0])

    def __getitem__(self, rows: Any) -> "Mixture":
        weights = np.atleast_2d(self.weights.T[rows]).T
        return Mixture([component[rows] for component in self.components], weights)

    def inner_moments(self) -> np.ndarray:
        """var[y] = E[var[y | theta]] + var[E[y | theta]]."""
        means, variances = np.stack([c.inner_moments() for c in self.components], 1)
        mean = self._averaged(means)
        return np.stack([mean, self._averaged(variances + (means - mean) ** 2)])

    def inner_cdf(self, y: np.ndarray) -> np.ndarray:
        return self._averaged(np.stack([c.inner_cdf(y) for c in self.components]))

    def _averaged(self, values: np.ndarray) -> np.ndarray:
        return np.sum(self.weights * values, axis=0)

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        every = np.stack([component.log_prob(y) for component in self.components])
        with np.errstate(divide="ignore"):  # a weight may be 0
            every = every + np.log(self.weights)
        return np.asarray(scipy.special.logsumexp(every, axis=0))

    def sample(
        self, n: int = 1, random_state: int | np.random.Generator | None = None
    ) -> np.ndarray:
        rng = np.random.default_rng(random_state)
        draws = np.stack([component.sample(n, rng) for component in self.components])
        # The first component at which the summed weights pass a uniform draw; rounding
        # may leave the last sum below 1.
        passed = np.cumsum(self.weights, axis=0)[:-1, None] <= rng.random(
            (n, len(self))
        )
        return np.take_along_axis(draws, passed.sum(axis=0)[None], axis=0)[0]
