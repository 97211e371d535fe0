"""Inspection, parameters, files and the report of a fitted estimator."""

import dataclasses
import os
from typing import Any

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from motleygp.estimator import door, saving
from motleygp.estimator.comparison import check_table
from motleygp.estimator.independent import IndependentGPs
from motleygp.estimator.scorer import Scorer
from motleygp.inference import parameters
from motleygp.prediction import inspection


class Inspector(Scorer):
    """The part of `MotleyGP` that shows, changes, saves and reports a fitted model."""

    def correlation(self) -> pd.DataFrame:
        """The prior correlation between all parameter functions at one input."""
        return inspection.correlation(self._checked_fit())

    def weights(self) -> pd.DataFrame:
        """The weight of each latent process ("u1", "u2", ...) in each function.

        A process of rank R has R columns, all with its name.
        """
        return inspection.weights(self._checked_fit())

    def lengthscales(self) -> pd.DataFrame:
        """The length-scales of the latent processes, in the units of the inputs."""
        return inspection.lengthscales(self._checked_fit())

    def relevance(self) -> pd.DataFrame:
        """How much each parameter function varies with each input.

        The root mean square slope of the function, in its standard deviations per
        standard deviation of the input (per unit, if inputs are not standardised). An
        irrelevant input has a slope near 0.
        """
        return inspection.relevance(self._checked_fit())

    def summary(self) -> inspection.Summary:
        """The parameter functions: offset, spread, and the input that each varies most
        with, with the distance over which it changes by one standard deviation.

        A sentence above tells how many latent processes are in use: an output uses
        those that have more than 1 % of the prior variance of one of its functions.

        The result is a table that a console or a notebook shows, and that `print`
        prints in a script.
        """
        return inspection.summary(self._checked_fit())

    def parameters(self) -> dict[str, Any]:
        """All parameters of the model by name, constrained and unwhitened.

        Inducing points, length-scales and smoothing are in the user's units. Offsets,
        the noise (a dict of standard deviations of the Gaussian outputs) and q(u) refer
        to the data as the model sees them, (y - output_shift) / output_scale.
        """
        return self._checked_fit().parameters()

    def set_parameters(self, **new: Any) -> "Inspector":
        """Replace some of `parameters()`; the others, with q(u) itself, do not change.

        `jitter` follows from the kernel: it may be passed, but not changed.
        """
        fitted = self._checked_fit()
        values = parameters.replaced(fitted.model, fitted.parameters(), new)
        model, q, scaling = parameters.from_arrays(
            fitted.model, fitted.scaling, fitted.outputs, values
        )
        self.fitted_ = dataclasses.replace(fitted, model=model, q=q, scaling=scaling)
        return self

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file, for `motleygp.load`, without pickle.

        An existing file is replaced only when the new one is complete.
        """
        saving.save(self.get_params(deep=False), self._checked_fit(), path)

    def report(
        self,
        path: str | os.PathLike,
        X: Any = None,
        Y: Any = None,
        *,
        exposure: Any = None,
        independent: IndependentGPs | None = None,
        sharing: Any = None,
        title: str = "MotleyGP report",
        max_rows: int | None = None,
    ) -> None:
        """Write a description of the model and its scores as one HTML file.

        The page has interactive figures and needs no network. Without data it describes
        only the model and its training.

        **Arguments:**

        - `X`, `Y`, `exposure`: rows to score, as in `metrics`; the fit should not have
          seen them.
        - `independent`: a fitted `independent()`, to be scored beside the model.
        - `sharing`: the table of `compare_independent`, for a section of its own.
        - `max_rows`: the largest number of rows to score, chosen at random; by default
          2000, or fewer for more than 5 outputs.
        """
        # Imported here, because it loads plotly.
        from motleygp import reporting

        fitted = self._checked_fit()
        if (X is None) != (Y is None):
            raise ValueError("`X` and `Y` must be given together; got only one.")
        if max_rows is not None and max_rows < 1:
            raise ValueError(f"`max_rows` must be at least 1; got {max_rows}.")
        alone = None
        if independent is not None:
            check_is_fitted(independent, "models_")
            door.check_names(fitted, independent.output_names_)
            alone = {n: model.fitted_ for n, model in independent.models_.items()}
        if sharing is not None:
            check_table(sharing, fitted.outputs)
        observed = None
        if X is not None:
            observed = door.new_observations(
                fitted, X, Y, exposure=exposure, partly=True, to_score=True
            )
        reporting.write(
            fitted,
            path,
            observed,
            reporting.labels(fitted, X, Y),
            alone=alone,
            sharing=sharing,
            title=title,
            max_rows=max_rows,
            seed=getattr(self, "random_state", None),
            show=bool(self.progress),
        )
