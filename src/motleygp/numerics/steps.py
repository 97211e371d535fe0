"""Expectations under a Gaussian of functions that turn within a short stretch."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from motleygp.numerics.packed import TINY_VARIANCE

# The spacing of nodes far from a turn, in standard deviations: the trapezoid rule errs
# by exp(-2 pi^2 / 0.65^2).
_SPACING = 0.65


class Fineness(NamedTuple):
    """How a rule is spaced."""

    reach: float
    """The half of its range, in standard deviations."""
    spacing: float
    """The largest distance of two nodes."""
    growth: float
    """The growth of the distances away from a turn; the rule errs by exp(-pi^2 / it) of
    the turn's share."""
    most: int
    """The number of nodes, at most, apart from those next to a narrow turn."""


# For one function; where the turn is known to be no narrower than half of q(f) in most
# rows; and for each of two functions, whose number of nodes is squared.
ALONE = Fineness(reach=8.0, spacing=0.75, growth=0.35, most=400)
SMOOTH = Fineness(reach=7.0, spacing=0.75, growth=0.6, most=400)
EACH = Fineness(reach=6.0, spacing=1.0, growth=0.5, most=80)


def stepped_rule(
    mean: Float[np.ndarray, "*N"],
    var: Float[np.ndarray, "*N"],
    at: Any,
    width: Any,
    fineness: Fineness = ALONE,
) -> tuple[Float[np.ndarray, "*N K"], Float[np.ndarray, "*N K"]]:
    """Nodes and weights for f ~ N(mean, var) and integrands that turn at f = `at`,
    within `width`, and are smooth on the scale of the largest distance elsewhere.

    It is the trapezoid rule in x for f = at + H asinh((width / H) sinh(x g)). Next to
    `at`, its nodes are as dense as the width asks; further away, their distance grows
    like that from `at`, up to a constant H g. The nodes of a row do not depend on the
    other rows: the last of them may weigh nothing.
    """
    reach, spacing, growth, most = fineness
    std = np.sqrt(np.maximum(var, TINY_VARIANCE))
    even = np.maximum(np.minimum(_SPACING * std, spacing), 2.0 * reach * std / most)
    ends = np.stack([-reach * std, reach * std])
    at = np.clip(at - mean, *ends)
    far = even / growth
    ratio = np.minimum(np.maximum(width, 1e-12 * far) / far, 1.0)
    low, high = np.arcsinh(np.sinh((ends - at) / far) / ratio)
    size = int(np.ceil(np.max((high - low) / growth, initial=1.0))) + 1
    steps = growth * np.arange(size)
    ratio, far = ratio[..., None], far[..., None]
    # sinh(low + steps), as a product: one exponential per row.
    grown = np.exp(low)[..., None] * np.exp(steps)
    stretched = 0.5 * ratio * (grown - 1.0 / grown)
    f = at[..., None] + far * np.arcsinh(stretched)
    slope = np.sqrt((ratio**2 + stretched**2) / (1.0 + stretched**2))
    inside = steps <= (high - low)[..., None]
    weights = inside * slope * np.exp(-0.5 * (f / std[..., None]) ** 2)
    return mean[..., None] + f, weights / np.sum(weights, axis=-1, keepdims=True)
