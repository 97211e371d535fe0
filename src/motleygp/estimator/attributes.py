"""The public attributes of a fitted estimator, read from `fitted_`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from motleygp.inference import Model, Posterior, Scaling
from motleygp.prediction import Fitted, Seen
from motleygp.tables.infer import Choice


class FittedAttributes(BaseEstimator):
    """`fitted_`, and its parts as attributes. None of them exists before `fit`."""

    fitted_: Fitted
    """The fitted model, as one frozen value."""

    @property
    def model_(self) -> Model:
        """The model at theta = mu."""
        return self.fitted_.model

    @property
    def q_(self) -> Posterior:
        """The whitened q(u)."""
        return self.fitted_.q

    @property
    def scaling_(self) -> Scaling:
        """The units of inputs and outputs."""
        return self.fitted_.scaling

    @property
    def trace_(self) -> Mapping[str, np.ndarray]:
        """The trace of the best run: arrays with one entry per iteration."""
        return self.fitted_.trace

    @property
    def ended_(self) -> str:
        """Why the best run ended: "horizon", "converged", "held-out", "callback",
        "time" or "interrupted"."""
        return self.fitted_.ended

    @property
    def restarts_(self) -> list[Mapping[str, Any]]:
        """The "score" (lower is better), "trace", "ended" and "error" of each start."""
        return list(self.fitted_.starts)

    @property
    def choices_(self) -> list[Choice]:
        """The likelihoods that were inferred, with the reasons."""
        return list(self.fitted_.choices)

    @property
    def seen_(self) -> dict[str, Seen]:
        """The numbers of rows and values of each output, and its constant fit."""
        return self.fitted_.seen_by_output

    @property
    def input_range_(self) -> np.ndarray:
        """The smallest and the largest value of each input: (2, P)."""
        return self.fitted_.input_range

    @property
    def output_names_(self) -> list[str]:
        """The names of the outputs."""
        return list(self.fitted_.outputs)

    @property
    def classes_(self) -> dict[str, tuple[Any, Any] | None]:
        """The labels of 0 and 1, by output; `None` for an output without labels."""
        return self.fitted_.classes_by_output

    @property
    def n_features_in_(self) -> int:
        """The number of inputs."""
        return len(self.fitted_.inputs)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the inputs, if `fit` had a frame."""
        if not self.fitted_.inputs_named:
            raise AttributeError(
                "`feature_names_in_` exists only after a fit to a frame"
            )
        return np.asarray(self.fitted_.inputs, dtype=object)
