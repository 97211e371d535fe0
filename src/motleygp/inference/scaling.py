"""Conversion between the user's units and the model's."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from motleygp.likelihoods import AbstractLikelihood
from motleygp.named import Named
from motleygp.numerics.chunks import chunks
from motleygp.numerics.sharing import aligned

# Inputs beyond this many units are as far as can be; their squares do not overflow.
_FAR = 1e120
# Rows at a time where a copy of all would take too much memory.
_ROWS = 1 << 16


class Scaling(Named):
    """The shift and scale of each input column and each output; 0 and 1 for none.

    The model sees (x - x_shift) / x_scale, and (y - y_shift) / y_scale of real outputs.
    """

    kind: ClassVar[str] = "scaling"
    name: ClassVar[str] = "scaling"

    x_shift: Float[np.ndarray, " P"]
    x_scale: Float[np.ndarray, " P"]
    y_shift: Float[np.ndarray, " D"]
    y_scale: Float[np.ndarray, " D"]

    def __check_init__(self) -> None:
        for name, shift, scale in (
            ("input", self.x_shift, self.x_scale),
            ("output", self.y_shift, self.y_scale),
        ):
            if not np.isfinite(shift).all():
                raise ValueError(f"`{name}_shift` must be finite; got {shift}.")
            if not (np.isfinite(scale) & (scale > 0)).all():
                raise ValueError(
                    f"`{name}_scale` must be finite and above 0; got {scale}."
                )

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """x in the model's units; columns run along the last axis."""
        with np.errstate(over="ignore"):
            inside = np.subtract(x, self.x_shift, out=aligned(x.shape))
            inside /= self.x_scale
        return np.clip(inside, -_FAR, _FAR, out=inside)

    def outputs(self, ys: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Each output in the model's units."""
        return [self.output(d, y) for d, y in enumerate(ys)]

    def output(self, d: int, y: np.ndarray) -> np.ndarray:
        """Output d in the model's units."""
        inside = np.asarray(y, dtype=float)
        if self.y_shift[d] != 0.0 or self.y_scale[d] != 1.0:
            inside = inside - self.y_shift[d]
            inside /= self.y_scale[d]
        return inside


def no_scaling(num_inputs: int, num_outputs: int) -> Scaling:
    """The scaling that leaves the user's units as they are."""
    return Scaling(
        np.zeros(num_inputs),
        np.ones(num_inputs),
        np.zeros(num_outputs),
        np.ones(num_outputs),
    )


def standardising(
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    *,
    x_weights: Sequence[np.ndarray] | None = None,
    y_weights: Sequence[np.ndarray] | None = None,
) -> Scaling:
    """The scaling of inputs and real outputs to mean 0 and standard deviation 1.

    With weights, a row of weight w counts as w rows.
    """
    rows = np.concatenate(xs)
    weight = None if x_weights is None else np.concatenate(x_weights)
    shift, spread = _mean_and_std(rows, weight)
    plain = no_scaling(rows.shape[1], len(ys))
    for d, likelihood in enumerate(likelihoods):
        if likelihood.real:
            weight = None if y_weights is None else y_weights[d]
            plain.y_shift[d], plain.y_scale[d] = _mean_and_std(ys[d], weight)
    scale = np.where(spread > 0, spread, 1.0)
    return Scaling(shift, scale, plain.y_shift, plain.y_scale)


def _mean_and_std(
    values: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and standard deviation along the first axis, without NaN.

    Some rows at a time, so that no copy of the values is made.
    """
    parts = chunks(len(values), _ROWS)
    # In a unit near the largest size, so that squares neither overflow nor underflow.
    # It is a power of two, which rounds nothing.
    sizes = [np.fmax.reduce(np.abs(values[rows]), axis=0) for rows in parts]
    _, exponent = np.frexp(np.fmax.reduce(sizes))
    mean = np.zeros(values.shape[1:])

    def average(power: int) -> np.ndarray:
        """The mean of (z - mean)^power over the known values z."""
        total, count = 0.0, 0.0
        for rows in parts:
            z = np.ldexp(values[rows], -exponent)
            known = ~np.isnan(z)
            counts = known.T * (1.0 if weight is None else weight[rows])
            z = np.where(known, z - mean, 0.0)
            total = total + np.sum(counts.T * z**power, axis=0)
            count = count + np.sum(counts.T, axis=0)
        return np.asarray(total / count)

    mean = average(1)
    std = np.sqrt(average(2))
    return np.asarray(np.ldexp(mean, exponent)), np.asarray(np.ldexp(std, exponent))
