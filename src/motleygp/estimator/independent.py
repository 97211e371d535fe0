"""The baseline: one model per output, with nothing shared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from motleygp import likelihoods as lik
from motleygp.estimator import door
from motleygp.estimator.weighing import weighed
from motleygp.inference.observations import check_exposed
from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction.predictive import AbstractPredictive
from motleygp.tables import Table, frames
from motleygp.tables.arguments import by_name, by_output


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
        entries = by_output(self.estimator.outputs, names)
        if arguments.get("exposure") is not None:
            table = weighed(frames.as_table(X, Y), arguments.get("sample_weight"))
            arguments["exposure"] = self._of_counts(arguments["exposure"], table)
        models = {}
        for name, x, entry in zip(names, frames.inputs(X, names), entries, strict=True):
            model: Any = clone(self.estimator)
            # A start belongs to all outputs together, and a checkpoint to one model.
            model.set_params(outputs={name: entry}, start=None)
            if model.checkpoint_dir is not None:
                folder = Path(model.checkpoint_dir) / f"output{len(models)}"
                model.set_params(checkpoint_dir=folder)
            own = _own(arguments, name, names)
            models[name] = model.fit(x, {name: columns[name]}, **own)
        self.models_, self.output_names_ = models, names
        return self

    def _of_counts(self, exposure: Any, table: Table) -> dict[str, Any]:
        """The exposure of each output that is a count, as in one model of them all."""
        entries, _ = door.inferred(self.estimator.outputs, table)
        return _exposure_of_counts(
            exposure, dict(zip(table.names, map(lik.get, entries), strict=True))
        )

    def predict_dist(self, X: Any, **arguments: Any) -> dict[str, AbstractPredictive]:
        """`MotleyGP.predict_dist` of each output's own model."""
        found = {}
        for _, model, own in self._asked(arguments):
            found |= model.predict_dist(X, **own)
        return found

    def predict(self, X: Any, **arguments: Any) -> Any:
        """Predictive means, one column per output; a frame if X is a frame. The
        arguments are those of `MotleyGP.predict`."""
        means = {
            name: np.asarray(model.predict(X, **own)).ravel()
            for name, model, own in self._asked(arguments)
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
        xs = dict(zip(columns, frames.inputs(X, list(columns)), strict=True))
        for name, model, own in self._asked(arguments):
            yield model, xs[name], {name: columns[name]}, own

    def _asked(self, arguments: dict[str, Any]) -> Any:
        """Each output, its model, and its own part of the arguments."""
        check_is_fitted(self, "models_")
        if arguments.get("exposure") is not None:
            likelihoods = {
                name: model.model_.likelihoods[0]
                for name, model in self.models_.items()
            }
            own = _exposure_of_counts(arguments["exposure"], likelihoods)
            arguments = arguments | {"exposure": own}
        for name, model in self.models_.items():
            yield name, model, _own(arguments, name, self.output_names_)


def _exposure_of_counts(
    exposure: Any, likelihoods: Mapping[str, AbstractLikelihood]
) -> dict[str, Any]:
    """The exposure of each output that is a count."""
    check_exposed(exposure, list(likelihoods), list(likelihoods.values()))
    named = by_name(exposure, "exposure")
    if named is not None:
        return named
    return {name: exposure for name, own in likelihoods.items() if own.counts}


def _own(
    arguments: Mapping[str, Any], name: str, names: Sequence[str]
) -> dict[str, Any]:
    """The parts of the arguments that belong to one output, of those by output."""
    found = {}
    for key, value in arguments.items():
        named = by_name(value, key)
        if key == "given" and value is not None:
            named = frames.vectors(value)
        unknown = [own for own in named or () if own not in names]
        if unknown:
            raise ValueError(
                f"`{key}` must name the outputs {list(names)}; got {unknown[0]!r}."
            )
        if named is not None:
            value = {name: named[name]} if name in named else None
        found[key] = value
    return found
