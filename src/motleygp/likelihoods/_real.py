"""Likelihoods of real numbers."""

from typing import Any, ClassVar

import numpy as np

from motleygp.likelihoods._base import AbstractLikelihood


class AbstractReal(AbstractLikelihood):
    """p(y | f) of a real number, which may be shifted and scaled freely.

    The first function is its mean, unless a subclass overrides `conditional_mean`.
    """

    support: ClassVar[str] = "a real number"
    discrete: ClassVar[bool] = False
    real: ClassVar[bool] = True

    def conditional_mean(self, f: Any) -> Any:
        return f[0]

    def in_support(self, y: np.ndarray) -> np.ndarray:
        return np.isfinite(y)

    def from_line(self, t: np.ndarray) -> np.ndarray:
        return t
