"""Predictions, draws and imputations of a fitted estimator."""

import dataclasses
import functools as ft
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from motleygp.estimator import door, settings
from motleygp.estimator.attributes import FittedAttributes
from motleygp.inference import Dataset, Model, Posterior
from motleygp.numerics.chunks import chunks
from motleygp.numerics.packed import rows_of_blocks, unpacked
from motleygp.prediction import AbstractPredictive, Fitted, distributions, functions
from motleygp.progress import watched, watched_rows
from motleygp.tables import Column, filling, frames
from motleygp.tables.rows import aligned, labels_of
from motleygp.training import laplace

# Draws of theta for a prediction that averages over them.
_DRAWS_OF_THETA = 32
# The most rows of an output for draws of theta: each learns q(u) anew from all rows.
MAX_ROWS_OF_DRAWS = 200
# Rows per chunk where only the means are kept.
_ROWS_OF_MEANS = 1 << 15


class Predictor(FittedAttributes):
    """The part of `MotleyGP` that predicts."""

    progress: bool
    optimizer: Any
    random_state: int | None
    _rows: Dataset | None = None
    """The rows of the fit, if they are few enough to draw parameters from them."""

    def _checked_fit(self) -> Fitted:
        check_is_fitted(self, "fitted_")
        return self.fitted_

    def predict_dist(
        self,
        X: Any,
        *,
        given: Any = None,
        exposure: Any = None,
        bayesian: bool | int = False,
    ) -> dict[str, AbstractPredictive]:
        """The predictive distribution of every output at the rows of X.

        **Arguments:**

        - `given`: outputs observed at these rows, in any form of Y; outputs may be left
          out, and values may be NaN. Each row is conditioned on its own values, so the
          values of rows of the fit count twice.
        - `exposure`: for counts, as in `fit`; one unit by default.
        - `bayesian`: average over draws of the parameters from an estimate of their
          posterior, 32 draws or the number given. The first call makes them, which
          needs a model fitted in this session to at most 200 rows; `save` keeps them.
          With `given`, each row weighs a draw by its density of the given values.
        """
        fitted = self._checked_fit()
        rows = door.new_rows(fitted, X, given)
        exposures = door.new_exposures(fitted, exposure, rows)
        observed = []
        if given is not None:
            observed = door.given_outputs(fitted, given, rows, exposures)
        return distributions(
            fitted,
            rows.x,
            exposures=exposures,
            observed=observed,
            models=self._models(fitted, bayesian),
            watch=watched_rows(bool(self.progress)),
        )

    def _models(
        self, fitted: Fitted, bayesian: bool | int
    ) -> Sequence[tuple[Model, Posterior]]:
        """The fitted model, or the models at draws of theta."""
        if bayesian is False:
            return [(fitted.model, fitted.q)]
        number = _DRAWS_OF_THETA if bayesian is True else bayesian
        if not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(
                "`bayesian` must be True, False or a number of draws; "
                f"got {bayesian!r}."
            )
        if len(fitted.draws) < number:
            drawn = self._drawn(fitted, int(number))
            self.fitted_ = fitted = dataclasses.replace(fitted, draws=drawn)
        return fitted.draws[:number]

    def _drawn(
        self, fitted: Fitted, number: int
    ) -> tuple[tuple[Model, Posterior], ...]:
        if self._rows is None:
            most = max(seen.observed for seen in fitted.seen)
            if most > MAX_ROWS_OF_DRAWS:
                raise ValueError(
                    f"`bayesian` needs a fit to at most {MAX_ROWS_OF_DRAWS} rows; more "
                    f"leave little doubt about the parameters; got {most}."
                )
            raise ValueError(
                "`bayesian` needs the rows of `fit`, which a model that was loaded or "
                f"updated has not kept; got {number} draws, of which "
                f"{len(fitted.draws)} are at hand."
            )
        seed = 0 if self.random_state is None else self.random_state
        watch = ft.partial(watched, label="parameters", show=bool(self.progress))
        return laplace.draws(fitted.model, fitted.q, self._rows, number, seed, watch)

    def predict(
        self, X: Any, *, exposure: Any = None, bayesian: bool | int = False
    ) -> Any:
        """Predictive means, one column per output; a frame if X is a frame.

        Behind a transformer of scikit-learn, X is an array, and so are the means;
        ``pipeline.set_output(transform="pandas")`` keeps frames. The mean of a binary
        output is the probability of its second class. The arguments are those of
        `predict_dist`.
        """
        fitted = self._checked_fit()
        rows = door.new_rows(fitted, X)
        x, exposures = rows.x, door.new_exposures(fitted, exposure, rows)
        models = self._models(fitted, bayesian)
        means = np.empty((len(fitted.outputs), len(x)))
        # In chunks of rows, of which only the means are kept.
        for part in watched_rows(bool(self.progress))(chunks(len(x), _ROWS_OF_MEANS)):
            own = [exposure[part] for exposure in exposures]
            some = distributions(fitted, x[part], exposures=own, models=models)
            means[:, part] = [p.mean for p in some.values()]
        if frames.is_frame(X):
            columns = dict(zip(fitted.outputs, means, strict=True))
            return frames.like(X, columns)
        return means.T

    def predict_proba(self, X: Any) -> dict[str, np.ndarray]:
        """P(0) and P(1) of every binary output, (N, 2); `classes_` has their labels."""
        means = {
            name: p.mean
            for name, p in self.predict_dist(X).items()
            if p.likelihood.binary
        }
        return {name: np.stack([1.0 - p, p], axis=1) for name, p in means.items()}

    def impute(self, X: Any, Y: Any, *, exposure: Any = None) -> Any:
        """Y with its missing values filled: a dict or a frame like Y, else an array.

        A missing value is filled with its predictive mean given the other values of its
        row or, for a binary output, with the more probable class. Columns keep their
        types, except whole numbers that are filled with others. Outputs that Y lacks
        are added.
        """
        fitted = self._checked_fit()
        X = aligned(X, labels_of(Y), "`X`", "`Y`")
        labels = door.new_rows(fitted, X, Y).labels
        own = {
            name: aligned(y, labels, f"output {name!r}")
            for name, y in frames.vectors(Y).items()
        }
        columns = frames.as_columns(own, fitted.classes_by_output)
        filled = {}
        for name, p in self.predict_dist(X, given=own, exposure=exposure).items():
            filled[name] = _filled(p, own.get(name), columns.get(name))
        if isinstance(Y, Mapping):
            return filled
        if frames.is_frame(Y):
            return frames.like(Y, filled)
        return np.stack([np.asarray(value) for value in filled.values()], axis=1)

    def sample(
        self,
        X: Any,
        n: int = 1,
        random_state: int | None = None,
        *,
        exposure: Any = None,
    ) -> dict[str, np.ndarray]:
        """Joint draws of all outputs at all rows of X: (n, N) each.

        Each draw comes from one joint draw of the parameter functions, so rows and
        outputs are correlated. In ``predict_dist(X)[name].sample(n)`` they are
        independent. X may have a few thousand rows.
        """
        fitted = self._checked_fit()
        exposures = door.new_exposures(fitted, exposure, door.new_rows(fitted, X))
        drawn = self.sample_latent(X, n, random_state)
        rng = np.random.default_rng(random_state).spawn(1)[0]
        found = {}
        for d, (name, f) in enumerate(drawn.items()):
            likelihood = fitted.model.likelihoods[d]
            f = np.moveaxis(f, -1, 0)
            if likelihood.counts:
                f[0] += np.log(exposures[d])
            shift, scale = fitted.scaling.y_shift[d], fitted.scaling.y_scale[d]
            found[name] = shift + scale * likelihood.sample(rng, f)
        return found

    def sample_latent(
        self, X: Any, n: int = 1, random_state: int | None = None
    ) -> dict[str, np.ndarray]:
        """Joint draws of each output's parameter functions at X: (n, N, J_d).

        The functions are those of `latent`, offsets included.
        """
        fitted = self._checked_fit()
        settings.check_random_state(random_state)
        x = fitted.scaling.inputs(door.new_inputs(fitted, X))
        seed = int(np.random.default_rng(random_state).integers(2**31))
        f = functions.draws(fitted.model, fitted.q, x, n, seed)
        return {
            name: np.moveaxis(f[:, list(block)], 1, -1)
            for name, block in zip(fitted.outputs, fitted.model.blocks, strict=True)
        }

    def latent(
        self, X: Any, covariance: bool = False
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of each output's parameter functions: (N, J_d) each.

        With `covariance`, covariance matrices, (N, J_d, J_d), replace the variances.

        For a standardised real output, they refer to the standardised values.
        """
        fitted = self._checked_fit()
        x = fitted.scaling.inputs(door.new_inputs(fitted, X))
        mean, var = functions.moments(fitted.model, fitted.q, x)
        blocks = fitted.model.blocks
        rows = rows_of_blocks([len(block) for block in blocks], len(var))
        found = {}
        for name, block, own in zip(fitted.outputs, blocks, rows, strict=True):
            second = unpacked(var[own], len(block)) if covariance else var[list(block)]
            found[name] = mean[list(block)].T, second.T
        return found


def few_rows(data: Dataset) -> Dataset | None:
    """The data, if draws of the parameters may be made from them."""
    few = all(block.total <= MAX_ROWS_OF_DRAWS for block in data)
    return data if few else None


def _filled(p: AbstractPredictive, y: Any, column: Column | None) -> Any:
    """The values y of one output, with predictions in the place of missing ones."""
    value = (p.mean > 0.5) * 1.0 if p.likelihood.binary else p.mean
    labels = value
    if p.classes is not None:
        labels = np.asarray(p.classes, dtype=object)[value.astype(int)]
    if column is None or np.isnan(column.values).all():
        return labels
    # A column of 0 and 1 has no labels, even if the output has.
    new = labels if column.kind == "bool" else value
    return filling.filled(y, np.isnan(column.values), new)
