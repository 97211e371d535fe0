"""What a fitted estimator answers: predictions, draws, imputations and scores."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import PyTree
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from motleygp import likelihoods as lik
from motleygp.estimator import settings
from motleygp.estimator.fitting import Observations, checked_exposures, observations
from motleygp.inference.conditioning import Observed
from motleygp.inference.data import check_support, checked_inputs
from motleygp.inference.model import Model
from motleygp.inference.objective import full_elbo
from motleygp.inference.posterior import Posterior
from motleygp.inference.scaling import Scaling
from motleygp.prediction import functions as prediction, metrics
from motleygp.prediction.predictive import (
    AbstractPredictive,
    Mixture,
    Predictive,
    chunks,
)
from motleygp.prediction.seen import Seen
from motleygp.progress import watched_rows
from motleygp.tables import frames
from motleygp.training.restarts import Fitted

# Of a prediction that averages over q(theta).
_DRAWS_OF_THETA = 20
# Whose distributions are in memory at a time where their means alone are wanted.
_ROWS_OF_MEANS = 1 << 15


class Predictor(BaseEstimator):
    """The part of `MotleyGP` that reads a fitted model."""

    progress: bool
    optimizer: Any
    random_state: int | None
    model_: Model
    q_: Posterior
    theta_std_: PyTree | None
    scaling_: Scaling
    seen_: dict[str, Seen]
    output_names_: list[str]
    classes_: dict[str, tuple[Any, Any] | None]
    n_features_in_: int

    # Prediction.

    @property
    def _fitted(self) -> Fitted:
        check_is_fitted(self, "model_")
        return Fitted(self.model_, self.q_, self.theta_std_)

    def _ordered(self, X: Any) -> Any:
        """X with the columns of the fit, in the fit's order, where they have names."""
        frames.check_dense(X)
        if isinstance(X, Mapping):
            return {name: self._ordered(x) for name, x in X.items()}
        if isinstance(X, list | tuple):
            return [self._ordered(x) for x in X]
        fitted = getattr(self, "feature_names_in_", None)
        if fitted is None or not frames.is_frame(X):
            return X
        names = frames.features(X) or []
        absent = [name for name in fitted if name not in names]
        if absent:
            raise ValueError(f"`X` must have the column {absent[0]!r}; got {names}.")
        return frames.select(X, list(fitted))

    def _checked(self, X: Any) -> np.ndarray:
        """New inputs as a matrix with the columns of the fit."""
        check_is_fitted(self, "model_")
        x = checked_inputs(frames.as_matrix(self._ordered(X)))
        if x.shape[1] != self.n_features_in_:
            # In scikit-learn's words, which its users know.
            raise ValueError(
                f"X has {x.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return x

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

        - `given`: outputs that were observed at these rows, in any form of Y; NaN, or
          no column, where they were not. Each row is conditioned on its own values:
          for rows that the fit has seen they count twice.
        - `exposure`: of counts, as in `fit`; one unit by default.
        - `bayesian`: average over draws of the parameters from q(theta), 20 of them or
          as many as it says, instead of its mean.
        """
        x = self._checked(X)
        exposures = self._exposures(exposure, len(x))
        seen = [] if given is None else self._given(given, len(x), exposures)
        return self._distributions(x, seen, exposures, self._models(bayesian))

    def _models(self, bayesian: bool | int) -> list[Fitted]:
        """The fitted model, or what it is at draws of theta."""
        if bayesian is False:
            return [self._fitted]
        number = _DRAWS_OF_THETA if bayesian is True else bayesian
        if not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(
                "`bayesian` must be True, False or a number of draws; "
                f"got {bayesian!r}."
            )
        if self.theta_std_ is None:
            raise ValueError(
                "`bayesian` needs an optimizer with a q(theta), such as 'fng'; got "
                f"{self.optimizer!r}."
            )
        scheme = settings.scheme(self.get_params(deep=False), self.n_features_in_)
        seed = 0 if self.random_state is None else self.random_state
        return list(
            prediction.draws_of_theta(
                self._fitted, int(number), seed, whitened=scheme.whitened
            )
        )

    def _exposures(self, exposure: Any, num_rows: int) -> list[np.ndarray]:
        names = self.output_names_
        if exposure is None:
            return [np.ones(num_rows) for _ in names]
        lengths = [num_rows] * len(names)
        return checked_exposures(exposure, names, lengths, self.model_.likelihoods)

    def _given(
        self, Y: Any, num_rows: int, exposures: Sequence[np.ndarray]
    ) -> list[Observed]:
        """The outputs that Y names, as the model sees them."""
        columns = frames.as_columns(Y, self.classes_)
        self._check_names(columns, partly=True)
        found = []
        for name, column in columns.items():
            d = self.output_names_.index(name)
            likelihood, y = self.model_.likelihoods[d], column.values
            if y.shape != (num_rows,):
                raise ValueError(
                    f"output {name!r} must have one value per row of `X`, {num_rows}; "
                    f"got {len(y)}."
                )
            check_support(name, y, np.flatnonzero(~np.isnan(y)), likelihood)
            inside = (y - self.scaling_.y_shift[d]) / self.scaling_.y_scale[d]
            functions = self.model_.blocks[d]
            found.append(Observed(likelihood, functions, inside, np.log(exposures[d])))
        return found

    def _distributions(
        self,
        x: np.ndarray,
        seen: Sequence[Observed],
        exposures: Sequence[np.ndarray],
        models: Sequence[Fitted],
        *,
        show: bool | None = None,
    ) -> dict[str, AbstractPredictive]:
        scaled = self.scaling_.inputs(x)
        show = bool(self.progress) if show is None else show
        components: dict[str, list[Predictive]] = {n: [] for n in self.output_names_}
        for fitted in models:
            mean, var = prediction.moments(fitted, scaled, seen, watched_rows(show))
            for d, name in enumerate(self.output_names_):
                own = self._predictive(fitted.model, d, mean, var, exposures[d])
                components[name].append(own)
        return {
            name: own[0] if len(own) == 1 else Mixture(own)
            for name, own in components.items()
        }

    def _predictive(
        self,
        model: Model,
        d: int,
        mean: np.ndarray,
        var: np.ndarray,
        exposure: np.ndarray,
    ) -> Predictive:
        block = list(model.blocks[d])
        own = mean[block]
        if model.likelihoods[d].counts:
            own[0] += np.log(exposure)
        return Predictive(
            model.likelihoods[d],
            own,
            var[block],
            shift=float(self.scaling_.y_shift[d]),
            scale=float(self.scaling_.y_scale[d]),
        )

    def predict(
        self, X: Any, *, exposure: Any = None, bayesian: bool | int = False
    ) -> Any:
        """Predictive means, one column per output; a frame if a frame went in.

        A binary output gives the probability of its last class. The arguments are those
        of `predict_dist`.
        """
        x = self._checked(X)
        exposures = self._exposures(exposure, len(x))
        models = self._models(bayesian)
        means = np.empty((len(self.output_names_), len(x)))
        # Some rows at a time: only their means stay.
        for rows in watched_rows(bool(self.progress))(chunks(len(x), _ROWS_OF_MEANS)):
            some = self._distributions(
                x[rows], (), [e[rows] for e in exposures], models, show=False
            )
            means[:, rows] = [p.mean for p in some.values()]
        if frames.is_frame(X):
            columns = dict(zip(self.output_names_, means, strict=True))
            return frames.like(X, columns)
        return means.T

    def predict_proba(self, X: Any) -> dict[str, np.ndarray]:
        """P(0) and P(1) of every binary output, (N, 2); `classes_` says of what."""
        means = {
            name: p.mean
            for name, p in self.predict_dist(X).items()
            if isinstance(p.likelihood, lik.Bernoulli)
        }
        return {name: np.stack([1.0 - p, p], axis=1) for name, p in means.items()}

    def impute(self, X: Any, Y: Any, *, exposure: Any = None) -> Any:
        """Y with its missing values filled, in the form of Y.

        Each is filled by its predictive mean given the other values of its row, or, for
        a binary output, by the likelier class. Outputs that Y lacks are added.
        """
        check_is_fitted(self, "model_")
        columns = frames.as_columns(Y, self.classes_)
        filled = {}
        for name, p in self.predict_dist(X, given=Y, exposure=exposure).items():
            value = p.mean
            if isinstance(p.likelihood, lik.Bernoulli):
                value = (value > 0.5).astype(float)
            if name in columns:
                seen = columns[name].values
                value = np.where(np.isnan(seen), value, seen)
            classes = self.classes_[name]
            if classes is not None:
                value = np.asarray(classes, dtype=object)[value.astype(int)]
            filled[name] = value
        if isinstance(Y, Mapping):
            return filled
        if frames.is_frame(Y):
            return frames.like(Y, filled)
        return np.stack(list(filled.values()), axis=1)

    def sample(
        self,
        X: Any,
        n: int = 1,
        random_state: int | None = None,
        *,
        exposure: Any = None,
    ) -> dict[str, np.ndarray]:
        """Joint draws of all outputs at all rows of X: (n, N) each.

        The functions of one draw are one draw of the posterior, so that rows and
        outputs vary together, as they do not in ``predict_dist(X)[name].sample(n)``.
        For a few thousand rows.
        """
        functions = self.sample_latent(X, n, random_state)
        exposures = self._exposures(exposure, len(next(iter(functions.values()))[0]))
        rng = np.random.default_rng(random_state).spawn(1)[0]
        drawn = {}
        for d, (name, f) in enumerate(functions.items()):
            likelihood = self.model_.likelihoods[d]
            f = np.moveaxis(f, -1, 0)
            if likelihood.counts:
                f[0] += np.log(exposures[d])
            shift, scale = self.scaling_.y_shift[d], self.scaling_.y_scale[d]
            drawn[name] = shift + scale * likelihood.sample(rng, f)
        return drawn

    def sample_latent(
        self, X: Any, n: int = 1, random_state: int | None = None
    ) -> dict[str, np.ndarray]:
        """Joint draws of each output's parameter functions at X: (n, N, J_d).

        They are those of `latent`, offsets included.
        """
        x = self._checked(X)
        seed = int(np.random.default_rng(random_state).integers(2**31))
        f = prediction.draws(self._fitted, self.scaling_.inputs(x), n, seed)
        return {
            name: np.moveaxis(f[:, list(block)], 1, -1)
            for name, block in zip(self.output_names_, self.model_.blocks, strict=True)
        }

    def latent(self, X: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of each output's parameter functions: (N, J_d) each.

        They are those of the likelihood as the model sees it: of a standardised real
        output, the functions are of the standardised values.
        """
        x = self._checked(X)
        mean, var = prediction.moments(self._fitted, self.scaling_.inputs(x))
        blocks = [list(block) for block in self.model_.blocks]
        return {
            name: (mean[block].T, var[block].T)
            for name, block in zip(self.output_names_, blocks, strict=True)
        }

    # Scores.

    def _check_names(self, names: Iterable[str], *, partly: bool = False) -> None:
        found, fitted = set(names), set(self.output_names_)
        if not (found <= fitted if partly else found == fitted):
            raise ValueError(
                f"`Y` must have the outputs {self.output_names_}; got {list(names)}."
            )

    def _new_observations(
        self,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        exposure: Any = None,
        *,
        partly: bool = False,
    ) -> Observations:
        """New data in the order of the fitted outputs."""
        check_is_fitted(self, "model_")
        table = frames.as_table(self._ordered(X), Y, self.classes_)
        self._check_names(table.names, partly=partly)
        xs, ys = [], []
        for name in self.output_names_:
            place = table.names.index(name) if name in table.names else None
            x = self._checked(table.xs[place or 0])
            xs.append(x)
            ys.append(np.full(len(x), np.nan) if place is None else table.ys[place])
        return observations(
            self.output_names_, xs, ys, self.model_.likelihoods, sample_weight, exposure
        )

    def _scored(
        self, X: Any, Y: Any, exposure: Any
    ) -> Iterator[tuple[str, AbstractPredictive, np.ndarray]]:
        """Each output, its predictive distribution at its own rows, and its values."""
        observed = self._new_observations(X, Y, exposure=exposure)
        xs = observed.xs
        exposures = observed.exposures or [np.ones(len(x)) for x in xs]
        models = [self._fitted]
        every = None
        if observed.shared:
            every = self._distributions(xs[0], (), exposures, models)
        for d, name in enumerate(self.output_names_):
            if every is None:
                own = [exposures[d]] * len(xs)
                p = self._distributions(xs[d], (), own, models)[name]
            else:
                p = every[name]
            if np.isnan(observed.ys[d]).all():
                raise ValueError(
                    f"output {name!r} must have observed values; got none."
                )
            yield name, p, observed.ys[d]

    def nlpd(
        self, X: Any, Y: Any, *, exposure: Any = None, standardized: bool = False
    ) -> dict[str, float]:
        """Minus the mean log density of the observed values, per output.

        In the user's units or, with `standardized`, in those that the model sees, as
        papers report it: of a real output, less by the logarithm of its scale.
        """
        scored = self._scored(X, Y, exposure)
        scores = {name: metrics.nlpd(p, y) for name, p, y in scored}
        if standardized:
            scales = zip(scores, self.scaling_.y_scale, strict=True)
            scores = {name: scores[name] - float(np.log(s)) for name, s in scales}
        return scores

    def marginal_nlpd(
        self, X: Any, Y: Any, *, exposure: Any = None
    ) -> dict[str, float]:
        """`nlpd` of the constant fits to the rows of the fit: of a model that does not
        look at its inputs. What a score means is seen beside it."""
        observed = self._new_observations(X, Y, exposure=exposure)
        exposures = observed.exposures or [np.ones(len(x)) for x in observed.xs]
        scores = {}
        for name, y, own in zip(
            self.output_names_, observed.ys, exposures, strict=True
        ):
            log_prob = self.seen_[name].log_prob(y, own)
            scores[name] = -float(np.mean(log_prob[~np.isnan(y)]))
        return scores

    def score(self, X: Any, Y: Any, *, exposure: Any = None) -> float:
        """Minus the mean over outputs of `nlpd`: larger is better."""
        return -float(np.mean(list(self.nlpd(X, Y, exposure=exposure).values())))

    def elbo(self, X: Any, Y: Any, *, exposure: Any = None) -> float:
        """The bound on log p(Y) of these data, full batch, in the user's units."""
        observed = self._new_observations(X, Y, exposure=exposure)
        model = self.model_
        data = observed.dataset(self.scaling_, model.likelihoods, complete=False)
        counts = [np.sum(~np.isnan(y)) for y in observed.ys]
        log_scale = np.log(self.scaling_.y_scale) @ np.asarray(counts)
        return full_elbo(model, self.q_, data) - float(log_scale)

    def metrics(self, X: Any, Y: Any, *, exposure: Any = None) -> pd.DataFrame:
        """Scores of each output on its observed values, in the user's units.

        "nlpd", "rmse", "crps", "coverage95" (the share inside the central 95 %
        interval) and, for binary outputs, "accuracy": see ``motleygp.metrics``.
        """
        scored = self._scored(X, Y, exposure)
        return pd.DataFrame({name: metrics.summary(p, y) for name, p, y in scored}).T
