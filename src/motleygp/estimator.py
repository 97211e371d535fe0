"""`MotleyGP`: the library behind one estimator."""

import functools as ft
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from motleygp import frames, likelihoods as lik, loop, optim, priors, restarts
from motleygp.data import checked_inputs, hold_out, make_dataset
from motleygp.initialise import data_driven_start, paper_start, usual_num_latents
from motleygp.model import Model
from motleygp.objective import full_elbo, function_moments
from motleygp.posterior import prior_factors, unwhiten, whiten
from motleygp.predictive import Predictive, in_chunks
from motleygp.progress import progress_bar, restarts_bar
from motleygp.restarts import Outcome, Task

_function_moments = eqx.filter_jit(function_moments)
_unwhiten, _whiten = eqx.filter_jit(unwhiten), eqx.filter_jit(whiten)
_prior_factors = eqx.filter_jit(prior_factors)

_FORMS: dict[tuple[str, str], type[priors.AbstractPrior]] = {
    ("lmc", "auto"): priors.LMC,
    ("convolution", "auto"): priors.Convolution,
    ("convolution", "function"): priors.Convolution,
    ("convolution", "latent"): priors.LatentConvolution,
}
# Parameters of a prior that are distances between inputs.
_DISTANCES = ("lengthscale", "smoothing")


class MotleyGP(BaseEstimator):
    """A heterogeneous multi-output Gaussian process.

    Parameters
    ----------
    outputs : dict or sequence
        The likelihood of each output: names ("gaussian", "hetgaussian", "bernoulli",
        "beta", "gamma", "exponential", "poisson") or objects of
        ``motleygp.likelihoods``, keyed by column or in column order.
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
        outputs: Mapping[str, Any] | Sequence[Any],
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

    # Fitting.

    def fit(self, X: Any, Y: Any) -> "MotleyGP":
        """Fit the model; NaN in Y is a missing value.

        X and Y are arrays or frames, or dicts or lists with one entry per output for
        outputs that have inputs of their own.
        """
        self._check_settings()
        table = frames.as_table(X, Y)
        likelihoods = [
            lik.get(entry) for entry in frames.by_output(self.outputs, table.names)
        ]
        xs = [checked_inputs(x) for x in table.xs]
        self.n_features_in_ = xs[0].shape[1]
        if table.features is not None:
            self.feature_names_in_ = np.asarray(table.features, dtype=object)
        self.output_names_ = list(table.names)
        # Raw values are checked first, so that an error names what the user gave.
        make_dataset(xs, table.ys, likelihoods, names=table.names)
        self._set_scales(xs, table.ys, likelihoods)
        likelihoods = [
            likelihood.in_units(scale)
            for likelihood, scale in zip(likelihoods, self.y_scale_, strict=True)
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
            start=self._start(likelihoods),
            scheme=self._scheme(),
            batch_size=self.batch_size,
            num_steps=self.max_iter,
            time_limit=self.time_limit,
        )
        seeds = [int(seed) for seed in rng.integers(2**31, size=self.restarts)]
        outcomes = self._run(task, seeds)
        (self.model_, self.q_), chosen = restarts.best(outcomes)
        self.trace_, self.ended_ = chosen.trace, chosen.ended
        self.restarts_ = [
            {"score": o.score, "trace": o.trace, "ended": o.ended, "error": o.error}
            for o in outcomes
        ]
        loop.warn_if_refused(self.trace_)
        return self

    def _start(self, likelihoods: Sequence[lik.AbstractLikelihood]) -> restarts.Start:
        """What makes a model from a seed."""
        form = _FORMS[self.prior, self.inducing]
        num_latents = self.num_latents or usual_num_latents(form, likelihoods)
        rank = (
            (self.rank,) * num_latents
            if isinstance(self.rank, int)
            else tuple(self.rank)
        )
        if len(rank) != num_latents or min(rank) < 1:
            raise ValueError(
                f"`rank` must be at least 1 for each of the {num_latents} latent "
                f"processes; got {self.rank}."
            )
        settings: dict[str, Any] = dict(
            num_latents=num_latents,
            rank=rank,
            num_inducing=self.num_inducing,
            form=form,
        )
        if self.preset == "paper":
            return ft.partial(paper_start, **settings)
        return ft.partial(data_driven_start, offset=self.offset, **settings)

    def _scheme(self) -> optim.Scheme:
        if isinstance(self.optimizer, optim.Scheme):
            return self.optimizer
        if self.preset == "paper":
            initial_p = optim.paper_initial_p(self.n_features_in_)
            return optim.paper(self.optimizer, initial_p=initial_p)
        return optim.BY_NAME[self.optimizer]()

    def _run(self, task: Task, seeds: list[int]) -> list[Outcome]:
        """All starts: together on an accelerator, in processes if asked, or in turn."""
        several = len(seeds) > 1
        if several and jax.default_backend() != "cpu":
            with restarts_bar(self.max_iter, show=self.progress) as update:
                return restarts.run_together(task, seeds, update)
        # None asks joblib's context, where a user may have named another backend.
        n_jobs: Any = self.n_jobs
        if several and joblib.effective_n_jobs(n_jobs) > 1:
            return restarts.run_in_processes(task, seeds, self.n_jobs)
        outcomes = []
        for number, seed in enumerate(seeds, start=1):
            label = f"restart {number}/{len(seeds)}" if several else "training"
            with progress_bar(self.max_iter, show=self.progress, label=label) as update:
                outcomes.append(restarts.run(task, seed, update))
            if outcomes[-1].ended == "interrupted":
                break
        return outcomes

    def _check_settings(self) -> None:
        choices: dict[str, tuple] = {
            "prior": ("lmc", "convolution"),
            "inducing": ("auto", "function", "latent"),
            "kernel": ("eq",),
            "preset": (None, "paper"),
            "offset": ("marginal", "zero"),
        }
        if not isinstance(self.optimizer, optim.Scheme):
            choices["optimizer"] = tuple(optim.BY_NAME)
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(str, known))}; "
                    f"got {getattr(self, name)!r}."
                )
        if (self.prior, self.inducing) not in _FORMS:
            raise ValueError(
                f"`inducing` must be 'auto' with prior {self.prior!r}, whose inducing "
                f"values are of the latent processes; got {self.inducing!r}."
            )
        counts = ["num_inducing", "max_iter", "batch_size", "restarts"]
        counts += ["num_latents"] if self.num_latents is not None else []
        for name in counts:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"`{name}` must be a whole number above 0; got {value!r}."
                )
        fraction, limit = self.validation_fraction, self.time_limit
        if not (_is_number(fraction) and 0.0 <= fraction <= 0.5):
            raise ValueError(
                f"`validation_fraction` must be between 0 and 0.5; got {fraction!r}."
            )
        if limit is not None and not (_is_number(limit) and limit > 0.0):
            raise ValueError(f"`time_limit` must be above 0 seconds; got {limit!r}.")
        if self.n_jobs is not None and (
            not isinstance(self.n_jobs, int) or self.n_jobs == 0
        ):
            raise ValueError(
                "`n_jobs` must be None or a whole number other than 0; "
                f"got {self.n_jobs!r}."
            )

    def _set_scales(self, xs, ys, likelihoods) -> None:
        """Shift and scale of each input column and each output; 0 and 1 for none."""
        num_inputs = self.n_features_in_
        self.x_shift_, self.x_scale_ = np.zeros(num_inputs), np.ones(num_inputs)
        self.y_shift_, self.y_scale_ = np.zeros(len(ys)), np.ones(len(ys))
        if not self.standardize:
            return
        rows = np.concatenate(xs)
        spread = rows.std(axis=0)
        self.x_shift_ = rows.mean(axis=0)
        self.x_scale_ = np.where(spread > 0, spread, 1.0)
        for d, (y, likelihood) in enumerate(zip(ys, likelihoods, strict=True)):
            if likelihood.real:
                y = np.asarray(y, dtype=float)
                self.y_shift_[d], self.y_scale_[d] = np.nanmean(y), np.nanstd(y)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return (x - self.x_shift_) / self.x_scale_

    def _dataset(self, xs, ys, likelihoods):
        scaled = [
            (np.asarray(y, dtype=float) - shift) / scale
            for y, shift, scale in zip(ys, self.y_shift_, self.y_scale_, strict=True)
        ]
        return make_dataset(
            [self._scaled(x) for x in xs], scaled, likelihoods, names=self.output_names_
        )

    # Prediction.

    def _checked(self, X: Any) -> np.ndarray:
        """New inputs as a matrix with the columns of the fit, in the fit's order."""
        check_is_fitted(self, "model_")
        names = frames.features(X)
        fitted = getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None:
            absent = [name for name in fitted if name not in names]
            if absent:
                raise ValueError(
                    f"`X` must have the column {absent[0]!r}; got {names}."
                )
            X = X[list(fitted)]
        x = checked_inputs(frames.as_matrix(X))
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
            lambda x: jnp.stack(_function_moments(model, q, x.T)), self._scaled(x).T
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
            shift=float(self.y_shift_[d]),
            scale=float(self.y_scale_[d]),
        )

    def predict(self, X: Any) -> np.ndarray | pd.DataFrame:
        """Predictive means, one column per output; a frame if a frame went in."""
        means = {name: p.mean for name, p in self.predict_dist(X).items()}
        if isinstance(X, pd.DataFrame):
            return pd.DataFrame(means, index=X.index)
        return np.stack(list(means.values()), axis=1)

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
        table = frames.as_table(X, Y)
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
        return value - float(np.log(self.y_scale_) @ np.asarray(observed))

    # Parameters.

    def parameters(self) -> dict[str, Any]:
        """All numbers of the model as NumPy arrays: constrained and unwhitened.

        Inducing points and length-scales are in the user's units; the offsets, the
        noise (a standard deviation, per Gaussian output) and q(u) are those of the
        data as the model sees them, (y - output_shift) / output_scale.
        """
        check_is_fitted(self, "model_")
        model, q = self.model_, self.q_
        mean, cov = _unwhiten(model.prior, q)
        prior = {k: np.asarray(v) for k, v in model.prior.parameters().items()}
        return self._to_user_units(prior) | {
            "offset": np.asarray(model.offset),
            "noise": {
                name: float(likelihood.noise)
                for name, likelihood in zip(
                    self.output_names_, model.likelihoods, strict=True
                )
                if isinstance(likelihood, lik.Gaussian)
            },
            "jitter": np.asarray(_prior_factors(model.prior)[1]),
            "q_mean": np.asarray(mean),
            "q_cov": np.asarray(cov),
            "output_shift": self.y_shift_.copy(),
            "output_scale": self.y_scale_.copy(),
        }

    def _to_user_units(self, prior: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The prior's parameters, where they live in the space of the inputs."""
        distances = {
            name: prior[name] * self.x_scale_ for name in _DISTANCES if name in prior
        }
        inducing = prior["inducing"] * self.x_scale_ + self.x_shift_
        return prior | distances | {"inducing": inducing}

    def set_parameters(self, **parameters: Any) -> "MotleyGP":
        """Replace some of `parameters()`, keeping the rest; q(u) is kept unwhitened.

        `jitter` follows from the kernel: it may be given as it is, but not changed.
        """
        current = self.parameters()
        unknown = [name for name in parameters if name not in current]
        if unknown:
            raise ValueError(
                f"`{unknown[0]}` is not a parameter; known: {', '.join(current)}."
            )
        jitter = parameters.get("jitter", current["jitter"])
        if not np.array_equal(jitter, current["jitter"]):
            raise ValueError(
                f"`jitter` follows from the kernel and cannot be set; got {jitter}."
            )
        for name, value in parameters.items():
            if name == "noise":
                if set(value) != set(current["noise"]):
                    raise ValueError(
                        f"`noise` must name the Gaussian outputs "
                        f"{list(current['noise'])}; got {list(value)}."
                    )
            elif np.shape(value) != current[name].shape:
                raise ValueError(
                    f"`{name}` must have shape {current[name].shape}; "
                    f"got {np.shape(value)}."
                )
        new = current | parameters
        self.y_shift_ = np.array(new["output_shift"], dtype=float)
        self.y_scale_ = np.array(new["output_scale"], dtype=float)
        model = self._model_from(new)
        q = _whiten(model.prior, jnp.asarray(new["q_mean"]), jnp.asarray(new["q_cov"]))
        if not np.isfinite(np.asarray(q.half)).all():
            raise ValueError("`q_cov` must be positive definite for every group.")
        self.model_, self.q_ = model, q
        return self

    def _model_from(self, new: Mapping[str, Any]) -> Model:
        old = self.model_
        distances = {
            name: np.asarray(new[name], dtype=float)
            for name in _DISTANCES
            if name in new
        }
        for name, value in distances.items():
            if not (value > 0).all():
                raise ValueError(f"`{name}` must be positive; got {value.min():g}.")
        if isinstance(old.prior, priors.Convolution):
            silent = ~np.any(new["weights"], axis=1)
            if silent.any():
                raise ValueError(
                    "`weights` must have a weight other than 0 in every row; row "
                    f"{np.argmax(silent)} has none."
                )
        likelihoods = tuple(
            eqx.tree_at(
                lambda l: l.log_noise, likelihood, jnp.log(float(new["noise"][name]))
            )
            if isinstance(likelihood, lik.Gaussian)
            else likelihood
            for name, likelihood in zip(
                self.output_names_, old.likelihoods, strict=True
            )
        )
        prior = old.prior.with_parameters(
            {name: np.asarray(new[name]) for name in old.prior.parameters()}
            | {name: value / self.x_scale_ for name, value in distances.items()}
            | {"inducing": self._scaled(np.asarray(new["inducing"], dtype=float))}
        )
        offset = jnp.asarray(new["offset"], dtype=float)
        return Model(prior, offset, likelihoods, fixed_offset=old.fixed_offset)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
