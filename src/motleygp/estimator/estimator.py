"""`MotleyGP`: the library behind one estimator."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import clone

from motleygp import likelihoods as lik
from motleygp.estimator import door, saving, settings
from motleygp.estimator.fitting import gathered, run_all
from motleygp.estimator.independent import IndependentGPs
from motleygp.estimator.inspector import Inspector
from motleygp.files.trees import refusing
from motleygp.inference import (
    Dataset,
    Observations,
    Scaling,
    hold_out,
    no_scaling,
    standardising,
)
from motleygp.likelihoods import AbstractLikelihood
from motleygp.tables import frames, infer
from motleygp.training import (
    Callback,
    Task,
    absorb,
    named_trace,
    warn_if_refused,
)
from motleygp.training.watch import watch


class MotleyGP(Inspector):
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
    fixed : sequence of str
        Parameters that are not learned: "inducing", "lengthscale", "weights",
        "smoothing", "offset", "noise". They stay where they start.
    start : dict, optional
        Where some of `parameters()` start, by the same names and in the same units;
        with all of an earlier model's, training goes on from there.

    Attributes
    ----------
    trace_ : dict of arrays, one entry per iteration
    restarts_ : list of dict
        Every start's "score" (lower is better), "trace", "ended" and "error".
    ended_ : str
        Why the best run ended: "horizon", "held-out", "time" or "interrupted".
    seen_ : dict of Seen, by output
        How many rows and values there were, and the constant fit.
    input_range_ : array of shape (2, P)
        The smallest and the largest value of each input.
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
        fixed: Sequence[str] = (),
        start: Mapping[str, Any] | None = None,
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
        self.fixed = fixed
        self.start = start

    # Fitting.

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        sample_weight: Any = None,
        exposure: Any = None,
        resume: bool = False,
        callback: Callback | None = None,
    ) -> "MotleyGP":
        """Fit the model; NaN in Y is a missing value.

        **Arguments:**

        - `X`, `Y`: arrays or frames, or dicts or lists with one entry per output for
          outputs that have inputs of their own.
        - `sample_weight`: how often each row counts; one vector, or a dict of them by
          output.
        - `exposure`: for counts, the time, area or population over which each row was
          counted: the rate is of one unit of it. Likewise.
        - `resume`: go on from the checkpoint in `checkpoint_dir`, with the same data
          and settings, and end as the interrupted run would have ended.
        - `callback`: called with a `motleygp.loop.Report` after every 50 iterations; a
          true value ends the run. Restarts then run in turn.
        """
        given = self.get_params(deep=False)
        settings.check(given)
        table = frames.as_table(X, Y)
        entries, choices = self._outputs(table)
        infer.warn(choices)
        likelihoods = [lik.get(entry) for entry in entries]
        observed = door.observations(
            table.names,
            table.xs,
            table.ys,
            likelihoods,
            sample_weight,
            exposure,
            complete=True,
        )
        scaling = self._scaling(observed, likelihoods)
        scaled = [
            likelihood.in_units(scale)
            for likelihood, scale in zip(likelihoods, scaling.y_scale, strict=True)
        ]
        task, seeds = self._task(
            observed.dataset(scaling), scaled, scaling, table.names
        )
        outcomes = run_all(task, seeds, given, resume=resume, callback=callback)
        # Nothing of the estimator changes before all has gone well.
        self.fitted_ = gathered(
            table, observed, likelihoods, task, outcomes, scaling, choices
        )
        warn_if_refused(dict(self.fitted_.trace))
        return self

    def _task(
        self,
        data: Dataset,
        likelihoods: Sequence[AbstractLikelihood],
        scaling: Scaling,
        names: Sequence[str],
    ) -> tuple[Task, list[int]]:
        """The runs to do, and the seed of each."""
        given, held_out = self.get_params(deep=False), None
        rng = np.random.default_rng(self.random_state)
        if self.validation_fraction:
            data, held_out = hold_out(rng, data, self.validation_fraction)
        task = Task(
            data=data,
            held_out=held_out,
            likelihoods=likelihoods,
            start=settings.start(given, likelihoods, scaling, names),
            scheme=settings.scheme(given, len(scaling.x_shift)),
            batch_size=self.batch_size,
            num_steps=self.max_iter,
            time_limit=self.time_limit,
        )
        return task, [int(seed) for seed in rng.integers(2**31, size=self.restarts)]

    def partial_fit(
        self,
        X: Any,
        Y: Any,
        *,
        sample_weight: Any = None,
        exposure: Any = None,
        callback: Callback | None = None,
    ) -> "MotleyGP":
        """Let new rows inform a fitted model, without the old ones; else `fit`.

        q(u) becomes the posterior that has the q(u) of before for its prior: what the
        old rows said is kept, as far as the inducing points hold it. The parameters
        stay; to learn them anew, `fit` on all rows with ``start=model.parameters()``.
        Y may lack outputs, or all values of one.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(
                X, Y, sample_weight=sample_weight, exposure=exposure, callback=callback
            )
        fitted = self.fitted_
        observed = door.new_observations(
            fitted, X, Y, sample_weight, exposure, partly=True
        )
        show = bool(self.progress)
        with watch(self.max_iter, callback, show=show, label="updating") as tell:
            run = absorb(
                fitted.model,
                fitted.q,
                observed.dataset(fitted.scaling),
                seed=int(np.random.default_rng(self.random_state).integers(2**31)),
                batch_size=self.batch_size,
                num_steps=self.max_iter,
                time_limit=self.time_limit,
                callback=tell,
            )
        trace = named_trace(run)
        self.fitted_ = dataclasses.replace(
            fitted, q=run.state.q, ended=run.ended, trace=trace
        )
        warn_if_refused(trace)
        return self

    def independent(self) -> IndependentGPs:
        """The same estimator with one model per output: what sharing is worth."""
        return IndependentGPs(clone(self))

    def _outputs(self, table: frames.Table) -> tuple[list[Any], list[infer.Choice]]:
        """The likelihood of each output, given or inferred, and what was inferred."""
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
        choices = infer.infer_outputs(
            {
                name: (column.values, column.kind)
                for name, column in zip(table.names, table.columns, strict=True)
                if isinstance(entries[name], str) and entries[name] == "auto"
            }
        )
        if choices and self.progress:
            Console(stderr=True).print(infer.table(choices))
        inferred = {choice.name: choice.likelihood for choice in choices}
        return list((entries | inferred).values()), choices

    def _scaling(
        self, observed: Observations, likelihoods: Sequence[AbstractLikelihood]
    ) -> Scaling:
        """The units of these data, except for those that `start` gives."""
        if self.standardize:
            scaling = standardising(
                observed.distinct_inputs(), observed.ys, likelihoods, observed.names
            )
        else:
            scaling = no_scaling(observed.xs[0].shape[1], len(observed.names))
        return settings.started_units(self.start, scaling)


def load(path: str | os.PathLike) -> MotleyGP:
    """The estimator that `MotleyGP.save` wrote.

    **Raises:** `ModelFileError` for a file that is not whole, or not a model.
    """
    arguments, fitted = saving.load(path)
    with refusing(path, "model"):
        model = MotleyGP(**arguments)
    model.fitted_ = fitted
    return model
