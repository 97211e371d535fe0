"""P(Y <= y) = E[P(Y <= y | f)] by quadrature, in NumPy.

Root finding varies the number of rows, and JAX would compile anew for each.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from motleygp.numerics.packed import TINY_VARIANCE, colour, covariance
from motleygp.numerics.quadrature import dense_rule, tensor_weights
from motleygp.numerics.steps import EACH, stepped_rule

# P(Y <= y | f), and the place and width in the last function at which it turns.
Cdf = Callable[[np.ndarray, np.ndarray], np.ndarray]
Turn = Callable[..., tuple[Any, Any]]

# The rules where nothing is known of the turn. For two functions the numbers have no
# common divisor: steps in f_1 - f_2 fall between nodes.
_DENSE = {1: (512,), 2: (48, 31)}
# Nodes of a product rule that weigh less are left out: the corners of the grid.
_LIGHT = 1e-11
# Rows at a time, in the order of their spread, for which one number of nodes serves.
_ROWS = 128
_FLAT = 1e-9
_ROUNDING = 1e-14


def on_dense_grid(
    cdf: Cdf, y: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> np.ndarray:
    """The expectation of any cdf, on an even grid."""
    rules = [dense_rule(n) for n in _DENSE[len(mean)]]
    weights = tensor_weights(rules).ravel()
    kept = weights > _LIGHT * np.max(weights)
    grid = np.meshgrid(*[nodes for nodes, _ in rules], indexing="ij")
    z = np.stack([axis.ravel()[kept] for axis in grid])
    f = mean[..., None] + colour(var, z)
    return cdf(y[..., None], f) @ (weights[kept] / weights[kept].sum())


def at_turns(
    cdf: Cdf, turn: Turn, y: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> np.ndarray:
    """The expectation of a cdf that turns from 0 to 1 where `turn` says."""
    if len(mean) == 1:
        at, width = _known(turn(y), mean[0])
        f, weights = stepped_rule(mean[0], var[0], at, width)
        return np.sum(cdf(y[..., None], f[None]) * weights, axis=-1)
    found = np.empty(y.shape)
    order = np.argsort(var[0] + var[1])
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        found[rows] = _of_two(cdf, turn, y[rows], mean[:, rows], var[:, rows])
    return found


def _of_two(
    cdf: Cdf,
    turn: Turn,
    y: Float[np.ndarray, " N"],
    mean: Float[np.ndarray, "2 N"],
    var: Float[np.ndarray, "V N"],
) -> Float[np.ndarray, " N"]:
    """The integral over f_2 given f_1 inside the one over f_1."""
    v, c = np.maximum(var[0], TINY_VARIANCE), covariance(var, 2, 0, 1)
    slope = c / v
    rest = np.maximum(var[1] - slope * c, _ROUNDING * var[1] + TINY_VARIANCE)

    # The inner integral turns where E[f_2 | f_1] crosses the turn, a line in f_1.
    here, there = (_known(turn(y, mean[0] + k), mean[1])[0] for k in (0.0, 1.0))
    steep = there - here - slope
    steep = np.where(np.abs(steep) < _FLAT, _FLAT, steep)
    reach = EACH.reach * np.sqrt(v)
    at = mean[0] + np.clip((mean[1] - here) / steep, -reach, reach)
    width = np.hypot(np.sqrt(rest), _known(turn(y, at), mean[1])[1]) / np.abs(steep)
    f, outer = stepped_rule(mean[0], v, at, width, EACH)

    centre = mean[1][:, None] + slope[:, None] * (f - mean[0][:, None])
    spread = np.broadcast_to(rest[:, None], f.shape)
    at, width = _known(turn(y[:, None], f), centre)
    g, inner = stepped_rule(centre, spread, at, width, EACH)
    weights = outer[..., None] * inner
    kept = weights > _LIGHT
    both = np.stack([np.broadcast_to(f[..., None], g.shape)[kept], g[kept]])
    values = np.zeros(g.shape)
    values[kept] = cdf(np.broadcast_to(y[:, None, None], g.shape)[kept], both)
    total = np.sum(weights * kept, axis=(1, 2))
    return np.sum(values * weights, axis=(1, 2)) / total


def _known(turn: tuple[Any, Any], centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place and width of a turn; where y is missing or infinite, any will do."""
    at, width = (np.broadcast_to(np.asarray(a, float), centre.shape) for a in turn)
    known = np.isfinite(at) & np.isfinite(width)
    return np.where(known, at, centre), np.where(known, width, 1.0)
