"""Likelihoods p(y | f), the statistical types of outputs."""

from collections.abc import Mapping
from typing import Any

from motleygp.likelihoods._base import (
    AbstractLikelihood as AbstractLikelihood,
    constant_log_prob as constant_log_prob,
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
    """The likelihood of this name; a likelihood is returned as it is."""
    if isinstance(likelihood, AbstractLikelihood):
        return likelihood
    found: Any = None
    if isinstance(likelihood, str):
        found = BY_NAME.get(likelihood) or BY_NAME.get(likelihood.lower())
    if found is None:
        raise ValueError(
            f"no likelihood is named {likelihood!r}; known: {', '.join(BY_NAME)}."
        )
    return found()
