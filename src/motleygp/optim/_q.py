"""The interface of optimisers of q(u)."""

import abc
from typing import Any, ClassVar, NamedTuple, TypeAlias

from jaxtyping import Array, Bool, Int

from motleygp._types import Scalar
from motleygp.inference.posterior import NaturalTerms, Posterior
from motleygp.named import Named

Pace: TypeAlias = Scalar | float
"""A factor on the length of a step."""


class QInfo(NamedTuple):
    """A report of one step of q(u).

    `step_size` is its mean length over the parts of q; `shrinks` and `refused` count
    cuts and refusals over the parts; `overshot` is true if the step before this one
    went too far; `divergence` is KL[q_new || q_old], summed over the parts.
    """

    step_size: Scalar
    shrinks: Int[Array, ""]
    refused: Int[Array, ""]
    overshot: Bool[Array, ""]
    divergence: Scalar


class AbstractQOptimiser(Named):
    """An optimiser of q(u): pure functions in the style of optax.

    `update` returns the new q itself, not an increment: a step is a sum in the natural
    parameters, not in the moments.
    """

    kind: ClassVar[str] = "q optimiser"
    starts_narrow: ClassVar[bool] = False
    """Whether training may start from a q(u) that is much narrower than the prior, and
    that steps of any size widen soon."""

    @abc.abstractmethod
    def init(self, q: Posterior) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def update(
        self, terms: NaturalTerms, state: Any, q: Posterior, pace: Pace = 1.0
    ) -> tuple[Posterior, Any, QInfo]:
        """The next q and state; `pace` scales the step."""
