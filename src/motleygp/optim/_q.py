"""Optimisers of q(u): their interface."""

import abc
from typing import Any, ClassVar, NamedTuple, TypeAlias

from jaxtyping import Array, Bool, Int

from motleygp._types import Scalar
from motleygp.inference.posterior import NaturalTerms, Posterior
from motleygp.named import Named

Pace: TypeAlias = Scalar | float
"""A factor of a step's length."""


class QInfo(NamedTuple):
    """The course of one step of q(u): the length it took, and how often it was cut.

    `shrinks` and `refused` count over the groups; `overshot` says that the step before
    this one went too far; `divergence` is KL[q_new || q_old] summed over the groups.
    """

    step_size: Scalar
    shrinks: Int[Array, ""]
    refused: Int[Array, ""]
    overshot: Bool[Array, ""]
    divergence: Scalar


class AbstractQOptimiser(Named):
    """Moves q(u) by pure functions in optax's manner.

    `update` returns the new q itself, not an increment: a step adds to the natural
    parameters, where a sum of moments means nothing.
    """

    kind: ClassVar[str] = "q optimiser"

    @abc.abstractmethod
    def init(self, q: Posterior) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def update(
        self, terms: NaturalTerms, state: Any, q: Posterior, pace: Pace = 1.0
    ) -> tuple[Posterior, Any, QInfo]:
        """The next q and state; `pace` scales the step."""
