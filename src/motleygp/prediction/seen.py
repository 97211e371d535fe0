"""What a fit has seen, in few numbers: a model's file has no data."""

from typing import NamedTuple

import equinox as eqx
import numpy as np

from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction.predictive import in_chunks

_log_prob = eqx.filter_jit(lambda lik, y, f: lik.log_prob(y, f))


class Seen(NamedTuple):
    """One output of a fit, in the user's units.

    `likelihood` and the constants `f` are its constant fit: the best that a model
    without inputs can say, to which scores are compared.
    """

    rows: int
    observed: int
    likelihood: AbstractLikelihood
    f: np.ndarray

    def log_prob(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """log p(y) under the constant fit, at rows of these exposures."""
        f = np.repeat(self.f[:, None], len(y), axis=1)
        if self.likelihood.counts:
            f[0] += np.log(exposure)
        return in_chunks(lambda y, f: _log_prob(self.likelihood, y, f), y, f)


def see(
    y: np.ndarray, likelihood: AbstractLikelihood, exposure: np.ndarray | None = None
) -> Seen:
    """The values of one output, NaN where they are missing."""
    known = ~np.isnan(y)
    fitted, f = likelihood.constant_fit(y[known])
    if likelihood.counts and exposure is not None:
        # The rate of one unit: sum y / sum e.
        f[0] -= np.log(np.mean(exposure[known]))
    return Seen(len(y), int(known.sum()), fitted, f)
