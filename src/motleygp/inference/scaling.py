"""Conversion between the user's units and the model's."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from motleygp.likelihoods import AbstractLikelihood
from motleygp.named import Named


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
        return (x - self.x_shift) / self.x_scale

    def outputs(self, ys: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Each output in the model's units."""
        return [self.output(d, y) for d, y in enumerate(ys)]

    def output(self, d: int, y: np.ndarray) -> np.ndarray:
        """Output d in the model's units."""
        return (np.asarray(y, dtype=float) - self.y_shift[d]) / self.y_scale[d]


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
    names: Sequence[str],
) -> Scaling:
    """The scaling of inputs and real outputs to mean 0 and standard deviation 1.

    Raises a `ValueError` for an output whose mean or spread overflows.
    """
    rows = np.concatenate(xs)
    spread = rows.std(axis=0)
    plain = no_scaling(rows.shape[1], len(ys))
    for d, likelihood in enumerate(likelihoods):
        if likelihood.real:
            plain.y_shift[d], plain.y_scale[d] = np.nanmean(ys[d]), np.nanstd(ys[d])
            if not np.isfinite([plain.y_shift[d], plain.y_scale[d]]).all():
                raise ValueError(
                    f"output {names[d]!r} must have a finite mean and standard "
                    "deviation; change its unit."
                )
    return Scaling(
        rows.mean(axis=0),
        np.where(spread > 0, spread, 1.0),
        plain.y_shift,
        plain.y_scale,
    )
