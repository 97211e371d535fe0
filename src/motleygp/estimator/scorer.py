"""Scores of a fitted estimator."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from motleygp.estimator import door
from motleygp.estimator.predictor import Predictor
from motleygp.inference import Observations, full_elbo
from motleygp.prediction import AbstractPredictive, distributions, metrics
from motleygp.progress import watched_rows


class Scorer(Predictor):
    """The part of `MotleyGP` that scores predictions."""

    def _scored(
        self, X: Any, Y: Any, exposure: Any
    ) -> Iterator[tuple[str, AbstractPredictive, np.ndarray]]:
        """Each output, its predictive distribution at its own rows, and its values."""
        fitted, observed = self._checked_fit(), self._to_score(X, Y, exposure)
        watch = watched_rows(bool(self.progress))
        exposures = [observed.exposure(d) for d in range(len(fitted.outputs))]
        every = None
        if observed.shared:
            every = distributions(
                fitted, observed.xs[0], exposures=exposures, watch=watch
            )
        for d, name in enumerate(fitted.outputs):
            own = every
            if own is None:
                alike = [exposures[d]] * len(fitted.outputs)
                own = distributions(
                    fitted, observed.xs[d], exposures=alike, watch=watch
                )
            yield name, own[name], observed.ys[d]

    def _to_score(self, X: Any, Y: Any, exposure: Any) -> Observations:
        """The observations, with possible values of every output."""
        observed = door.new_observations(
            self._checked_fit(), X, Y, exposure=exposure, to_score=True
        )
        for name, y in zip(observed.names, observed.ys, strict=True):
            if np.isnan(y).all():
                raise ValueError(
                    f"output {name!r} must have observed values; got none."
                )
        return observed

    def nlpd(
        self, X: Any, Y: Any, *, exposure: Any = None, standardized: bool = False
    ) -> dict[str, float]:
        """Minus the mean log density of the observed values, per output.

        It is in the user's units or, with `standardized`, in those of the model, as in
        papers: for a real output, lower by the logarithm of its scale.
        """
        scored = self._scored(X, Y, exposure)
        scores = {name: metrics.nlpd(p, y) for name, p, y in scored}
        if standardized:
            scales = zip(scores, self.fitted_.scaling.y_scale, strict=True)
            scores = {name: scores[name] - float(np.log(s)) for name, s in scales}
        return scores

    def marginal_nlpd(
        self, X: Any, Y: Any, *, exposure: Any = None
    ) -> dict[str, float]:
        """`nlpd` of the constant fits, which ignore the inputs: the baseline for every
        score."""
        fitted, observed = self._checked_fit(), self._to_score(X, Y, exposure)
        scores = {}
        for d, (name, seen) in enumerate(fitted.seen_by_output.items()):
            y = observed.ys[d]
            log_prob = seen.log_prob(y, observed.exposure(d))
            scores[name] = -float(np.mean(log_prob[~np.isnan(y)]))
        return scores

    def score(self, X: Any, Y: Any, *, exposure: Any = None) -> float:
        """Minus the mean over outputs of `nlpd`: larger is better."""
        return -float(np.mean(list(self.nlpd(X, Y, exposure=exposure).values())))

    def elbo(self, X: Any, Y: Any, *, exposure: Any = None) -> float:
        """The objective of training on all of these data, in the user's units.

        It is a lower bound on log p(Y), except for outputs with two functions that
        share inducing values: it leaves their covariance out.
        """
        fitted = self._checked_fit()
        observed = door.new_observations(fitted, X, Y, exposure=exposure)
        data = observed.dataset(fitted.scaling)
        counts = [np.sum(~np.isnan(y)) for y in observed.ys]
        log_scale = np.log(fitted.scaling.y_scale) @ np.asarray(counts)
        return full_elbo(fitted.model, fitted.q, data) - float(log_scale)

    def metrics(self, X: Any, Y: Any, *, exposure: Any = None) -> pd.DataFrame:
        """Scores of each output on its observed values, in the user's units. Values
        outside the support of their likelihood are left out, with a warning.

        "nlpd", "rmse", "crps", "coverage95" (the share inside the central 95 %
        interval) and, for binary outputs, "accuracy": see ``motleygp.metrics``.
        """
        scored = self._scored(X, Y, exposure)
        return pd.DataFrame({name: metrics.summary(p, y) for name, p, y in scored}).T
