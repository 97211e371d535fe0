"""`MotleyGP`: the library behind one estimator."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from motleygp import (
    checkpoints,
    frames,
    infer,
    inspection,
    likelihoods as lik,
    loop,
    metrics,
    parameters,
    restarts,
    saving,
    settings,
)
from motleygp.data import checked_inputs, hold_out, make_dataset
from motleygp.objective import full_elbo, function_moments
from motleygp.predictive import Predictive, in_chunks
from motleygp.progress import progress_bar, restarts_bar
from motleygp.restarts import Outcome, Task
from motleygp.scaling import no_scaling, standardising

_function_moments = eqx.filter_jit(function_moments)


class MotleyGP(BaseEstimator):
    """A heterogeneous multi-output Gaussian process.

    Parameters
    ----------
    outputs : "auto", dict or sequence
        The likelihood of each output. "auto" infers it from the values; what was chosen
        and why is printed, if `progress` is on, and kept in ``choices_``. Otherwise
        names ("gaussian", "hetgaussian", "bernoulli", "beta", "gamma", "exponential",
        "poisson", or "auto" for that one) or objects of ``motleygp.likelihoods``, keyed
        by column or in column order; a dict may leave columns out, which are inferred.
    prior : "lmc" or "convolution"
        The linear model of coregionalisation, or convolution processes: each parameter
        function a smoothed sum of the latent processes.
    inducing : "auto", "function" or "latent"
        For convolutions, what the inducing values are of: each parameter function, as
        in the paper ("auto"), or the latent processes, which all functions share. Only
        with "latent" do outputs fill one another's gaps; it costs more.
    num_latents : int, optional
        Q, the number of latent processes; by default one per output, at least 4 and at
        most 10, but no more than there are parameter functions; 4 with inducing values
        of functions.
    rank : int or sequence of int
        R_q, the number of copies of each latent process.
    kernel : "eq"
        The kernel of the latent processes.
    num_inducing : int
        M, the number of inducing points of each copy.
    optimizer : "fng", "hybrid", "adam", "sgd", or a scheme of ``motleygp.optim``
        How q(u) and the hyper-parameters theta move: natural gradients on both,
        natural gradients and Adam, Adam on both, plain gradients on both.
    preset : None or "paper"
        "paper" takes the paper's settings throughout: its start, zero offsets, its
        steps without any guard, q(u) itself carried from one theta to the next.
    offset : "marginal" or "zero"
        Where the constant means of the parameter functions start: at the constant fit
        of each output, or at zero, where they then stay.
    max_iter, batch_size : int
        Iterations, and rows per iteration of each output. A run whose bound has stopped
        improving ends before.
    restarts : int
        Starts from different seeds, of which the best is kept: by the held-out rows if
        there are any, by the bound otherwise.
    n_jobs : int, optional
        Processes for the restarts, as joblib counts them. On an accelerator the
        restarts run together instead.
    validation_fraction : float
        The share of the rows, up to a half, that training does not see; their NLPD
        ends a run that no longer betters it, and the best state is kept.
    time_limit : float, optional
        Seconds after which a run ends as it stands.
    standardize : bool
        Scale inputs and real outputs inside. Results are in the user's units.
    random_state : int, optional
        Decides the start and the minibatches.
    progress : bool
        Show a progress bar.
    checkpoint_dir : path, optional
        A folder where all of the run is written every 20 seconds and at the end of each
        restart; ``fit(X, Y, resume=True)`` goes on from there. Restarts then run in
        turn, and `random_state` must be given.

    Attributes
    ----------
    trace_ : dict of arrays, one entry per iteration
    restarts_ : list of dict
        Every start's "score" (lower is better), "trace", "ended" and "error".
    ended_ : str
        Why the best run ended: "horizon", "held-out", "time" or "interrupted".
    output_names_, n_features_in_, feature_names_in_
    """

    def __init__(
        self,
        outputs: str | Mapping[str, Any] | Sequence[Any] = "auto",
        prior: str = "lmc",
        inducing: str = "auto",
        num_latents: int | None = None,
        rank: int | Sequence[int] = 1,
        kernel: str = "eq",
        num_inducing: int = 80,
        optimizer: Any = "fng",
        preset: str | None = None,
        offset: str = "marginal",
        max_iter: int = 2000,
        batch_size: int = 256,
        restarts: int = 1,
        n_jobs: int | None = None,
        validation_fraction: float = 0.0,
        time_limit: float | None = None,
        standardize: bool = True,
        random_state: int | None = None,
        progress: bool = True,
        checkpoint_dir: str | os.PathLike | None = None,
    ):
        self.outputs = outputs
        self.prior = prior
        self.inducing = inducing
        self.num_latents = num_latents
        self.rank = rank
        self.kernel = kernel
        self.num_inducing = num_inducing
        self.optimizer = optimizer
        self.preset = preset
        self.offset = offset
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.restarts = restarts
        self.n_jobs = n_jobs
        self.validation_fraction = validation_fraction
        self.time_limit = time_limit
        self.standardize = standardize
        self.random_state = random_state
        self.progress = progress
        self.checkpoint_dir = checkpoint_dir

    # Fitting.

    def fit(self, X: Any, Y: Any, *, resume: bool = False) -> "MotleyGP":
        """Fit the model; NaN in Y is a missing value.

        X and Y are arrays or frames, or dicts or lists with one entry per output for
        outputs that have inputs of their own. With `resume` a run that was interrupted
        goes on from the checkpoint in `checkpoint_dir`, with the same data and
        settings, and ends as it would have ended.
        """
        given = self.get_params(deep=False)
        settings.check(given)
        table = frames.as_table(X, Y)
        likelihoods = [lik.get(entry) for entry in self._outputs(table)]
        infer.warn(self.choices_)
        xs = [checked_inputs(x) for x in table.xs]
        self.n_features_in_ = xs[0].shape[1]
        if table.features is not None:
            self.feature_names_in_ = np.asarray(table.features, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.output_names_ = list(table.names)
        self.classes_ = {
            name: column.classes
            for name, column in zip(table.names, table.columns, strict=True)
        }
        # Raw values are checked first, so that an error names what the user gave.
        make_dataset(xs, table.ys, likelihoods, names=table.names)
        self.scaling_ = (
            standardising(xs, table.ys, likelihoods)
            if self.standardize
            else no_scaling(self.n_features_in_, len(xs))
        )
        likelihoods = [
            likelihood.in_units(scale)
            for likelihood, scale in zip(
                likelihoods, self.scaling_.y_scale, strict=True
            )
        ]
        data = self._dataset(xs, table.ys, likelihoods)
        rng = np.random.default_rng(self.random_state)
        held_out = None
        if self.validation_fraction:
            data, held_out = hold_out(rng, data, self.validation_fraction)
        task = Task(
            data=data,
            held_out=held_out,
            likelihoods=likelihoods,
            start=settings.start(given, likelihoods),
            scheme=settings.scheme(given, self.n_features_in_),
            batch_size=self.batch_size,
            num_steps=self.max_iter,
            time_limit=self.time_limit,
        )
        seeds = [int(seed) for seed in rng.integers(2**31, size=self.restarts)]
        outcomes = self._run(task, seeds, resume)
        (self.model_, self.q_), chosen = restarts.best(outcomes)
        self.trace_, self.ended_ = chosen.trace, chosen.ended
        self.restarts_ = [
            {"score": o.score, "trace": o.trace, "ended": o.ended, "error": o.error}
            for o in outcomes
        ]
        loop.warn_if_refused(self.trace_)
        return self

    def _outputs(self, table: frames.Table) -> list[Any]:
        """The likelihood of each output, as given or inferred."""
        if isinstance(self.outputs, str) and self.outputs != "auto":
            raise ValueError(
                "`outputs` must be 'auto', or name a likelihood per output; "
                f"got {self.outputs!r}."
            )
        given: Any = self.outputs
        if isinstance(given, str):
            given = dict.fromkeys(table.names, "auto")
        entries = dict(
            zip(table.names, frames.by_output(given, table.names), strict=True)
        )
        self.choices_ = infer.infer_outputs(
            {
                name: (column.values, column.kind)
                for name, column in zip(table.names, table.columns, strict=True)
                if isinstance(entries[name], str) and entries[name] == "auto"
            }
        )
        if self.choices_ and self.progress:
            Console(stderr=True).print(infer.table(self.choices_))
        inferred = {choice.name: choice.likelihood for choice in self.choices_}
        return list((entries | inferred).values())

    def _run(self, task: Task, seeds: list[int], resume: bool) -> list[Outcome]:
        """All starts: together on an accelerator, in processes if asked, or in turn."""
        if self.checkpoint_dir is not None:
            return self._run_with_checkpoints(task, seeds, resume)
        if resume:
            raise ValueError("`resume` needs the `checkpoint_dir` of the earlier run.")
        several = len(seeds) > 1
        if several and jax.default_backend() != "cpu":
            with restarts_bar(self.max_iter, show=self.progress) as update:
                return restarts.run_together(task, seeds, update)
        # None asks joblib's context, where a user may have named another backend.
        n_jobs: Any = self.n_jobs
        if several and joblib.effective_n_jobs(n_jobs) > 1:
            return restarts.run_in_processes(task, seeds, self.n_jobs)
        outcomes = []
        for number, seed in enumerate(seeds):
            with self._bar(number, len(seeds)) as update:
                outcomes.append(restarts.run(task, seed, update))
            if outcomes[-1].ended == "interrupted":
                break
        return outcomes

    def _bar(self, number: int, total: int) -> Any:
        label = f"restart {number + 1}/{total}" if total > 1 else "training"
        return progress_bar(self.max_iter, show=self.progress, label=label)

    def _run_with_checkpoints(
        self, task: Task, seeds: list[int], resume: bool
    ) -> list[Outcome]:
        """The starts in turn; what is done is in a file, and what is under way."""
        if self.random_state is None:
            raise ValueError(
                "`checkpoint_dir` needs a `random_state`, so that a resumed run is the "
                "same run; got None."
            )
        mark = checkpoints.fingerprint(task, seeds, self.get_params(deep=False))
        folder: Any = self.checkpoint_dir
        keeper = checkpoints.Checkpoints(folder, task, seeds, mark)
        return checkpoints.run_in_turn(
            keeper, lambda number: self._bar(number, len(seeds)), resume=resume
        )

    def _dataset(self, xs, ys, likelihoods):
        """The data as the model sees them."""
        return make_dataset(
            [self.scaling_.inputs(x) for x in xs],
            self.scaling_.outputs(ys),
            likelihoods,
            names=self.output_names_,
        )

    # Prediction.

    def _ordered(self, X: Any) -> Any:
        """X with the columns of the fit, in the fit's order, where they have names."""
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
            raise ValueError(
                f"`X` must have {self.n_features_in_} columns, as in `fit`; "
                f"got {x.shape[1]}."
            )
        return x

    def _function_moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all J functions at the raw inputs x, in chunks."""
        model, q = self.model_, self.q_
        both = in_chunks(
            lambda x: jnp.stack(_function_moments(model, q, x.T)),
            self.scaling_.inputs(x).T,
        )
        return both[0], both[1]

    def predict_dist(self, X: Any) -> dict[str, Predictive]:
        """The predictive distribution of every output at the rows of X."""
        mean, var = self._function_moments(self._checked(X))
        return {
            name: self._predictive(d, mean, var)
            for d, name in enumerate(self.output_names_)
        }

    def _predictive(self, d: int, mean: np.ndarray, var: np.ndarray) -> Predictive:
        model = self.model_
        block = list(model.blocks[d])
        return Predictive(
            model.likelihoods[d],
            mean[block],
            var[block],
            shift=float(self.scaling_.y_shift[d]),
            scale=float(self.scaling_.y_scale[d]),
        )

    def predict(self, X: Any) -> Any:
        """Predictive means, one column per output; a frame if a frame went in."""
        means = {name: p.mean for name, p in self.predict_dist(X).items()}
        if frames.is_frame(X):
            return frames.like(X, means)
        return np.stack(list(means.values()), axis=1)

    def predict_proba(self, X: Any) -> dict[str, np.ndarray]:
        """P(0) and P(1) of every binary output, (N, 2); `classes_` says of what."""
        check_is_fitted(self, "model_")
        means = {
            name: p.mean
            for name, p in self.predict_dist(X).items()
            if isinstance(p.likelihood, lik.Bernoulli)
        }
        return {name: np.stack([1.0 - p, p], axis=1) for name, p in means.items()}

    def latent(self, X: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of each output's parameter functions: (N, J_d) each.

        They are those of the likelihood as the model sees it: of a standardised real
        output, the functions are of the standardised values.
        """
        mean, var = self._function_moments(self._checked(X))
        blocks = [list(block) for block in self.model_.blocks]
        return {
            name: (mean[block].T, var[block].T)
            for name, block in zip(self.output_names_, blocks, strict=True)
        }

    # Scores.

    def _new_table(self, X: Any, Y: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """New data in the order of the fitted outputs."""
        table = frames.as_table(self._ordered(X), Y, self.classes_)
        if set(table.names) != set(self.output_names_):
            raise ValueError(
                f"`Y` must have the outputs {self.output_names_}; got {table.names}."
            )
        places = [table.names.index(name) for name in self.output_names_]
        return (
            [self._checked(table.xs[i]) for i in places],
            [table.ys[i] for i in places],
        )

    def nlpd(self, X: Any, Y: Any) -> dict[str, float]:
        """Minus the mean log density of the observed values, per output."""
        check_is_fitted(self, "model_")
        xs, ys = self._new_table(X, Y)
        scores = {}
        shared = all(x.shape == xs[0].shape and np.array_equal(x, xs[0]) for x in xs)
        moments = self._function_moments(xs[0]) if shared else None
        for d, name in enumerate(self.output_names_):
            mean, var = moments if moments else self._function_moments(xs[d])
            log_prob = self._predictive(d, mean, var).log_prob(ys[d])
            if np.isnan(log_prob).all():
                raise ValueError(
                    f"output {name!r} must have observed values; got none."
                )
            scores[name] = float(-np.nanmean(log_prob))
        return scores

    def score(self, X: Any, Y: Any) -> float:
        """Minus the mean over outputs of `nlpd`: larger is better."""
        return -float(np.mean(list(self.nlpd(X, Y).values())))

    def elbo(self, X: Any, Y: Any) -> float:
        """The bound on log p(Y) of these data, full batch, in the user's units."""
        check_is_fitted(self, "model_")
        xs, ys = self._new_table(X, Y)
        model = self.model_
        data = self._dataset(xs, ys, model.likelihoods)
        value = full_elbo(model, self.q_, data)
        observed = [np.sum(~np.isnan(np.asarray(y, dtype=float))) for y in ys]
        return value - float(np.log(self.scaling_.y_scale) @ np.asarray(observed))

    def metrics(self, X: Any, Y: Any) -> pd.DataFrame:
        """Scores of each output on its observed values, in the user's units.

        "nlpd", "rmse", "crps", "coverage95" (the share inside the central 95 %
        interval) and, for binary outputs, "accuracy": see ``motleygp.metrics``.
        """
        check_is_fitted(self, "model_")
        xs, ys = self._new_table(X, Y)
        rows = {}
        for d, name in enumerate(self.output_names_):
            mean, var = self._function_moments(xs[d])
            rows[name] = metrics.summary(self._predictive(d, mean, var), ys[d])
        return pd.DataFrame(rows).T

    # Inspection.

    def correlation(self) -> pd.DataFrame:
        """The prior's correlation between all parameter functions at one input."""
        check_is_fitted(self, "model_")
        labels = inspection.function_names(self.model_, self.output_names_)
        values = inspection.function_correlation(self.model_)
        return pd.DataFrame(values, index=labels, columns=labels)

    def relevance(self) -> pd.DataFrame:
        """How much each parameter function varies with each input: see
        ``motleygp.inspection.input_relevance``."""
        check_is_fitted(self, "model_")
        labels = inspection.function_names(self.model_, self.output_names_)
        values = inspection.input_relevance(self.model_)
        return pd.DataFrame(values, index=labels, columns=self._features())

    def summary(self) -> None:
        """Print the parameter functions: offset, spread, and the input that each varies
        with most, with the distance over which it does."""
        check_is_fitted(self, "model_")
        Console().print(
            inspection.summary_table(
                self.model_, self.scaling_, self.output_names_, self._features()
            )
        )

    def _features(self) -> list[str]:
        """The names of the inputs, or their numbers."""
        numbered = [f"x{p}" for p in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", numbered))

    # Files.

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file, for `motleygp.load`; nothing is pickled.

        An older file of that name stays whole until the new one is.
        """
        check_is_fitted(self, "model_")
        saving.save(self, path)

    # Parameters.

    def parameters(self) -> dict[str, Any]:
        """All numbers of the model as NumPy arrays: constrained and unwhitened.

        Inducing points and length-scales are in the user's units; the offsets, the
        noise (a standard deviation, per Gaussian output) and q(u) are those of the
        data as the model sees them, (y - output_shift) / output_scale.
        """
        check_is_fitted(self, "model_")
        return parameters.to_arrays(
            self.model_, self.q_, self.scaling_, self.output_names_
        )

    def set_parameters(self, **new: Any) -> "MotleyGP":
        """Replace some of `parameters()`, keeping the rest; q(u) is kept unwhitened.

        `jitter` follows from the kernel: it may be given as it is, but not changed.
        """
        values = parameters.replaced(self.parameters(), new)
        self.model_, self.q_, self.scaling_ = parameters.from_arrays(
            self.model_, self.scaling_, self.output_names_, values
        )
        return self


def load(path: str | os.PathLike) -> MotleyGP:
    """The estimator that `MotleyGP.save` wrote.

    **Raises:** `ModelFileError` for a file that is not whole, or not a model.
    """
    return saving.restore(MotleyGP, path)
