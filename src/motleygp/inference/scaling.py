"""Between the user's units and those of the model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from motleygp.likelihoods import AbstractLikelihood


class Scaling(NamedTuple):
    """Shift and scale of each input column and of each output; 0 and 1 for none.

    The model sees (x - x_shift) / x_scale, and (y - y_shift) / y_scale of real outputs.
    """

    x_shift: Float[np.ndarray, " P"]
    x_scale: Float[np.ndarray, " P"]
    y_shift: Float[np.ndarray, " D"]
    y_scale: Float[np.ndarray, " D"]

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """x as the model sees it; columns run along the last axis."""
        return (x - self.x_shift) / self.x_scale

    def outputs(self, ys: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Each output as the model sees it."""
        return [
            (np.asarray(y, dtype=float) - shift) / scale
            for y, shift, scale in zip(ys, self.y_shift, self.y_scale, strict=True)
        ]


def no_scaling(num_inputs: int, num_outputs: int) -> Scaling:
    """The user's units are the model's."""
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
) -> Scaling:
    """Inputs, and outputs that are real, to mean 0 and standard deviation 1."""
    rows = np.concatenate(xs)
    spread = rows.std(axis=0)
    scaling = no_scaling(rows.shape[1], len(ys))._replace(
        x_shift=rows.mean(axis=0), x_scale=np.where(spread > 0, spread, 1.0)
    )
    for d, (y, likelihood) in enumerate(zip(ys, likelihoods, strict=True)):
        if likelihood.real:
            y = np.asarray(y, dtype=float)
            scaling.y_shift[d], scaling.y_scale[d] = np.nanmean(y), np.nanstd(y)
    return scaling
