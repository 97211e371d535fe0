"""The form of every data set: training and test rows, a likelihood per output."""

from typing import NamedTuple

import numpy as np

from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction.seen import see

_TRAIN_SHARE = 0.75


class Problem(NamedTuple):
    """Training and test rows, and the likelihood of each output column."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    likelihoods: tuple[AbstractLikelihood, ...]
    names: tuple[str, ...]

    def constant_nlpd(self) -> dict[str, float]:
        """Test NLPD of the constant fit to the training outputs: the baseline."""
        scores = {}
        for d, name in enumerate(self.names):
            seen, y = see(self.y_train[:, d], self.likelihoods[d]), self.y_test[:, d]
            scores[name] = -float(np.mean(seen.log_prob(y, np.ones(len(y)))))
        return scores


def split_rows(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    likelihoods: tuple[AbstractLikelihood, ...],
    names: tuple[str, ...],
) -> Problem:
    """A random split, with three quarters of the rows for training."""
    order = rng.permutation(len(x))
    cut = int(_TRAIN_SHARE * len(x))
    train, test = order[:cut], order[cut:]
    return Problem(x[train], y[train], x[test], y[test], likelihoods, names)
