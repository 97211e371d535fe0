"""The form of every data set: training and test rows, a likelihood per output."""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction.seen import see

_TRAIN_SHARE = 0.75
# X and Y as `fit` takes them: one matrix of inputs for all outputs, or one for each.
Rows: TypeAlias = tuple[
    Float[np.ndarray, "N P"] | dict[str, Float[np.ndarray, "_ P"]],
    dict[str, Float[np.ndarray, "_"]],
]


class Problem(NamedTuple):
    """Training and test rows, and the likelihood of each output column.

    A value is NaN where it is missing. Outputs with inputs of their own have rows of
    their own, in which the other outputs are missing.
    """

    x_train: Float[np.ndarray, "N P"]
    y_train: Float[np.ndarray, "N D"]
    x_test: Float[np.ndarray, "S P"]
    y_test: Float[np.ndarray, "S D"]
    likelihoods: tuple[AbstractLikelihood, ...]
    names: tuple[str, ...]

    def train(self) -> Rows:
        """X and Y for `fit`: a matrix of inputs and the outputs by name. If values are
        missing, X too is by name, with the inputs of the output's own rows."""
        return _by_name(self.x_train, self.y_train, self.names)

    def test(self) -> Rows:
        """X and Y of the test rows, in the form of `train`."""
        return _by_name(self.x_test, self.y_test, self.names)

    def constant_nlpd(self) -> dict[str, float]:
        """Test NLPD of the constant fit to the training outputs: the baseline."""
        scores = {}
        for d, name in enumerate(self.names):
            seen, y = see(self.y_train[:, d], self.likelihoods[d]), self.y_test[:, d]
            y = y[~np.isnan(y)]
            scores[name] = -float(np.mean(seen.log_prob(y, np.ones(len(y)))))
        return scores


def _by_name(
    x: Float[np.ndarray, "N P"], y: Float[np.ndarray, "N D"], names: tuple[str, ...]
) -> Rows:
    held = ~np.isnan(y)
    if held.all():
        return x, dict(zip(names, y.T, strict=True))
    # Outputs with the same rows share one matrix.
    rows = {mask.tobytes(): x[mask] for mask in held.T}
    return (
        {n: rows[mask.tobytes()] for n, mask in zip(names, held.T, strict=True)},
        {n: c[mask] for n, c, mask in zip(names, y.T, held.T, strict=True)},
    )


class Table(NamedTuple):
    """A whole data set before its split: inputs, outputs and their likelihoods."""

    x: Float[np.ndarray, "N P"]
    y: Float[np.ndarray, "N D"]
    likelihoods: tuple[AbstractLikelihood, ...]
    names: tuple[str, ...]


def split_rows(rng: np.random.Generator, table: Table) -> Problem:
    """A random split, with three quarters of the rows for training."""
    x, y, likelihoods, names = table
    order = rng.permutation(len(x))
    cut = int(_TRAIN_SHARE * len(x))
    train, test = order[:cut], order[cut:]
    return Problem(x[train], y[train], x[test], y[test], likelihoods, names)


def standardised(y: Float[np.ndarray, "N *D"]) -> Float[np.ndarray, "N *D"]:
    """y with mean 0 and standard deviation 1 over the rows."""
    return (y - y.mean(axis=0)) / spread(y)


def spread(y: Float[np.ndarray, "N *D"]) -> Float[np.ndarray, "*D"]:
    """The standard deviations of outputs that are to be scaled, which must vary."""
    found = np.asarray(y.std(axis=0))
    if not np.all(found > 0.0):
        raise ValueError("outputs that are scaled must vary; got one of one value.")
    return found


def log_of(name: str, y: Float[np.ndarray, "N *D"]) -> Float[np.ndarray, "N *D"]:
    """The logarithms of the outputs of a set, which must be positive."""
    if not (y > 0.0).all():
        least = float(y.min())
        raise ValueError(f"the outputs of {name!r} must be positive; got {least}.")
    return np.log(y)
