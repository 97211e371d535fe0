"""Likelihoods p(y | f): one output's statistical type."""

from collections.abc import Mapping
from typing import Any

from motleygp.likelihoods._base import (
    AbstractLikelihood as AbstractLikelihood,
    fit_constant as fit_constant,
)
from motleygp.likelihoods._bernoulli import Bernoulli as Bernoulli
from motleygp.likelihoods._beta import Beta as Beta
from motleygp.likelihoods._gamma import Exponential as Exponential, Gamma as Gamma
from motleygp.likelihoods._gaussian import (
    Gaussian as Gaussian,
    HetGaussian as HetGaussian,
)
from motleygp.likelihoods._poisson import Poisson as Poisson
from motleygp.likelihoods._real import AbstractReal as AbstractReal
from motleygp.named import known

BY_NAME: Mapping[str, type[AbstractLikelihood]] = known("likelihood")


def get(likelihood: Any) -> AbstractLikelihood:
    """A likelihood by its name, or the object itself."""
    if isinstance(likelihood, AbstractLikelihood):
        return likelihood
    if not isinstance(likelihood, str) or likelihood.lower() not in BY_NAME:
        raise ValueError(
            f"no likelihood is named {likelihood!r}; known: {', '.join(BY_NAME)}."
        )
    return BY_NAME[likelihood.lower()]()  # pyright: ignore[reportCallIssue]
