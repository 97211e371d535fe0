"""A summary of each output's data, kept with the model in place of the data."""

from typing import ClassVar

import numpy as np

from motleygp.likelihoods import (
    AbstractLikelihood,
    constant_log_prob,
    fit_constant,
)
from motleygp.named import Named


class Seen(Named):
    """One output of a fit, in the user's units.

    `rows` and `observed` are the numbers of rows and of observed values. `likelihood`
    and the constants `f` are the constant fit: the best fit that ignores the inputs, a
    baseline for scores.
    """

    kind: ClassVar[str] = "seen"
    name: ClassVar[str] = "seen"

    rows: int
    observed: int
    likelihood: AbstractLikelihood
    f: np.ndarray

    def __check_init__(self) -> None:
        if self.f.shape != (self.likelihood.num_functions,):
            raise ValueError(
                f"`f` must have {self.likelihood.num_functions} constants, one per "
                f"function of {self.likelihood.name}; got shape {self.f.shape}."
            )

    def log_prob(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """log p(y) under the constant fit, for rows with these exposures."""
        return constant_log_prob(self.likelihood, self.f, y, exposure)


def see(
    y: np.ndarray,
    likelihood: AbstractLikelihood,
    exposure: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> Seen:
    """Summarise the values of one output, NaN where missing."""
    fitted, f = fit_constant(likelihood, y, exposure, weight)
    return Seen(len(y), int(np.sum(~np.isnan(y))), fitted, f)
