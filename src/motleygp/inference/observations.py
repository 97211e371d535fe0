"""Observations in the user's units, output by output."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from motleygp.inference.checks import check_length, check_varies
from motleygp.inference.data import Dataset, checked_pairs, gather
from motleygp.inference.scaling import Scaling
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.sharing import once_each
from motleygp.tables.arguments import by_name


class Observations(NamedTuple):
    """The inputs, values (NaN where missing), weights and exposures of each output.

    Outputs that share their inputs have the same object in `xs`.
    """

    names: list[str]
    xs: list[np.ndarray]
    ys: list[np.ndarray]
    weights: list[np.ndarray] | None = None
    exposures: list[np.ndarray] | None = None

    @property
    def shared(self) -> bool:
        """Whether all outputs have the same inputs."""
        return all(x is self.xs[0] for x in self.xs)

    def distinct_inputs(self) -> list[np.ndarray]:
        """The inputs of all outputs, without repetitions of shared inputs."""
        return list({id(x): x for x in self.xs}.values())

    def weighted_inputs(self) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """`distinct_inputs` and the weights of their rows, `None` without weights.

        A row has the mean weight of its values, without those of weight 0.
        """
        if self.weights is None:
            return self.distinct_inputs(), None
        own: dict[int, list[np.ndarray]] = {}
        for x, weight in zip(self.xs, self.weights, strict=True):
            own.setdefault(id(x), []).append(weight)
        means = [
            np.sum(weights, axis=0) / np.maximum(np.count_nonzero(weights, axis=0), 1)
            for weights in own.values()
        ]
        return self.distinct_inputs(), means

    def input_range(self) -> np.ndarray:
        """The smallest and the largest value of each input: (2, P)."""
        lows, highs = zip(
            *((x.min(axis=0), x.max(axis=0)) for x in self.distinct_inputs()),
            strict=True,
        )
        return np.stack([np.min(lows, axis=0), np.max(highs, axis=0)])

    def exposure(self, d: int) -> np.ndarray:
        """The exposure of each row of output d: 1 where none was given."""
        if self.exposures is None:
            return np.ones(len(self.xs[d]))
        return self.exposures[d]

    def part(self, rows: Mapping[int, np.ndarray]) -> "Observations":
        """Some rows of each matrix of inputs, given by the `id` of the matrix."""

        def own(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [c[rows[id(x)]] for c, x in zip(columns, self.xs, strict=True)]

        return Observations(
            self.names,
            once_each(lambda x: x[rows[id(x)]], self.xs),
            own(self.ys),
            None if self.weights is None else own(self.weights),
            None if self.exposures is None else own(self.exposures),
        )

    def dataset(self, scaling: Scaling) -> Dataset:
        """The data in the model's units; outputs without values are left out."""
        data = gather(
            once_each(scaling.inputs, self.xs),
            scaling.outputs(self.ys),
            weights=self.weights,
            exposures=self.exposures,
        )
        if not data:
            raise ValueError("`Y` must have observed values; got none.")
        return data


def observe(
    names: Sequence[str],
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    likelihoods: Sequence[AbstractLikelihood],
    *,
    weights: Sequence[np.ndarray] | None = None,
    exposures: Sequence[np.ndarray] | None = None,
    labels: Sequence[pd.Index | None] | None = None,
    features: Sequence[str] | None = None,
    complete: bool = False,
) -> Observations:
    """Checked observations; if `complete`, every output must have varying values.

    `labels` and `features` are the users' names of the rows and input columns, for
    messages.
    """
    if weights is not None:
        each = zip(names, ys, weights, strict=True)
        ys = [of_weight(name, y, weight) for name, y, weight in each]
    checked, values = checked_pairs(xs, ys, likelihoods, names, labels, features)
    if complete:
        for d, name in enumerate(names):
            own = None if labels is None else labels[d]
            check_varies(name, values[d], likelihoods[d], own)
    return Observations(
        list(names),
        checked,
        values,
        None if weights is None else list(weights),
        None if exposures is None else list(exposures),
    )


def of_weight(name: str, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The values, NaN where the weight is 0, as if missing."""
    check_length(name, y, len(weight))
    own = weight[~np.isnan(y)]
    if len(own) and not own.any():
        raise ValueError(
            f"`sample_weight` must be above 0 for some observed value of {name!r}; "
            "every weight is zero."
        )
    return np.where(weight > 0, y, np.nan)


def check_exposed(
    given: Any, names: Sequence[str], likelihoods: Sequence[AbstractLikelihood]
) -> None:
    """Raise a `ValueError` for an exposure of outputs that are not counts."""
    counts = {
        name: likelihood.counts
        for name, likelihood in zip(names, likelihoods, strict=True)
    }
    named = by_name(given, "exposure") or {}
    wrong = [name for name in named if name in counts and not counts[name]]
    if wrong or not any(counts.values()):
        raise ValueError(
            "`exposure` must be for outputs that are counts, such as poisson; got "
            f"{wrong[0] if wrong else ', '.join(names)!r}."
        )


def exposed(
    exposures: Sequence[np.ndarray], likelihoods: Sequence[AbstractLikelihood]
) -> list[np.ndarray]:
    """The exposure of each row of each output: 1 for outputs that are not counts."""
    return [
        column if likelihood.counts else np.ones(len(column))
        for column, likelihood in zip(exposures, likelihoods, strict=True)
    ]
