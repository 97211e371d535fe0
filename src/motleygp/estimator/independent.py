"""The baseline: one model per output, with nothing shared."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from motleygp.prediction.predictive import AbstractPredictive
from motleygp.tables import frames


class IndependentGPs(BaseEstimator):
    """One clone of an estimator per output, each fitted to that output only.

    Parameters
    ----------
    estimator : MotleyGP
        The estimator to clone; `MotleyGP.independent` passes its own settings.

    Attributes
    ----------
    models_ : dict of MotleyGP, by output
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, Y: Any, **arguments: Any) -> "IndependentGPs":
        """Fit one model per output; the arguments are those of `MotleyGP.fit`."""
        columns = frames.vectors(Y)
        names = list(columns)
        outputs = self.estimator.outputs
        if isinstance(outputs, str):
            outputs = {}
        entries = frames.by_output(outputs, names)
        # Arguments given by output are passed only to the model of that output.
        self.models_ = {}
        for name, x, entry in zip(names, frames.inputs(X, names), entries, strict=True):
            own = {key: _own(value, name) for key, value in arguments.items()}
            model: Any = clone(self.estimator)
            # A start belongs to all outputs together, and a checkpoint to one model.
            model.set_params(outputs={name: entry}, start=None)
            if model.checkpoint_dir is not None:
                folder = Path(model.checkpoint_dir) / f"output{len(self.models_)}"
                model.set_params(checkpoint_dir=folder)
            self.models_[name] = model.fit(x, {name: columns[name]}, **own)
        self.output_names_ = names
        return self

    def predict_dist(self, X: Any, **arguments: Any) -> dict[str, AbstractPredictive]:
        """`MotleyGP.predict_dist` of each output's own model."""
        check_is_fitted(self, "models_")
        found = {}
        for name, model in self.models_.items():
            own = {key: _own(value, name) for key, value in arguments.items()}
            found |= model.predict_dist(X, **own)
        return found

    def predict(self, X: Any) -> Any:
        """Predictive means, one column per output; a frame if X is a frame."""
        check_is_fitted(self, "models_")
        means = {
            name: np.asarray(model.predict(X)).ravel()
            for name, model in self.models_.items()
        }
        if frames.is_frame(X):
            return frames.like(X, means)
        return np.stack(list(means.values()), axis=1)

    def predict_proba(self, X: Any) -> dict[str, np.ndarray]:
        """P(0) and P(1) of every binary output, (N, 2)."""
        check_is_fitted(self, "models_")
        found = {}
        for model in self.models_.values():
            found |= model.predict_proba(X)
        return found

    def nlpd(self, X: Any, Y: Any, **arguments: Any) -> dict[str, float]:
        """Minus the mean log density of the observed values, per output."""
        found = {}
        for model, x, y, own in self._scored(X, Y, arguments):
            found |= model.nlpd(x, y, **own)
        return found

    def score(self, X: Any, Y: Any, **arguments: Any) -> float:
        """Minus the mean over outputs of `nlpd`: larger is better."""
        return -float(np.mean(list(self.nlpd(X, Y, **arguments).values())))

    def metrics(self, X: Any, Y: Any, **arguments: Any) -> pd.DataFrame:
        """`MotleyGP.metrics` of each output's own model."""
        scored = self._scored(X, Y, arguments)
        return pd.concat([m.metrics(x, y, **own) for m, x, y, own in scored])

    def _scored(self, X: Any, Y: Any, arguments: dict[str, Any]) -> Any:
        """Each output's model, its inputs, its values and its own arguments."""
        check_is_fitted(self, "models_")
        columns = frames.vectors(Y)
        if set(columns) != set(self.output_names_):
            raise ValueError(
                f"`Y` must have the outputs {self.output_names_}; got {list(columns)}."
            )
        for name, x in zip(columns, frames.inputs(X, list(columns)), strict=True):
            own = {key: _own(value, name) for key, value in arguments.items()}
            yield self.models_[name], x, {name: columns[name]}, own


def _own(value: Any, name: str) -> Any:
    """The part of an argument that belongs to one output, if it is a dict by output."""
    if not isinstance(value, dict):
        return value
    return {name: value[name]} if name in value else None
