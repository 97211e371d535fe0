"""`MotleyGP`: the library as one estimator."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from sklearn.base import clone

from motleygp.estimator import comparison, door, saving, settings
from motleygp.estimator.fitting import (
    gathered,
    prepared,
    run_all,
    update,
    updated,
)
from motleygp.estimator.independent import IndependentGPs
from motleygp.estimator.inspector import Inspector
from motleygp.estimator.predictor import few_rows
from motleygp.files.trees import refusing
from motleygp.training import (
    Callback,
    warn_if_failed,
    warn_if_refused,
)
from motleygp.training.constant import warn_if_not_learnt
from motleygp.training.interrupts import Beside, held


class MotleyGP(Inspector):
    """A heterogeneous multi-output Gaussian process.

    Parameters
    ----------
    outputs : "auto", dict or sequence
        The likelihood of each output. "auto" infers it from the values; the choices and
        their reasons are printed if `progress` is on, and kept in ``choices_``. A dict
        by column, or a sequence in column order, has names ("gaussian", "hetgaussian",
        "bernoulli", "beta", "gamma", "exponential", "poisson", or "auto") or objects of
        ``motleygp.likelihoods``. Columns that a dict leaves out are inferred.
    prior : "lmc", "convolution" or the name of a prior of your own
        The linear model of coregionalisation, or convolution processes, in which each
        parameter function is a sum of smoothed latent processes.
    inducing : "auto", "function" or "latent"
        For convolutions, the source of the inducing values: each parameter function, as
        in the paper ("function" and "auto"), or the latent processes, which all
        functions share ("latent"). With "latent", outputs can fill one another's gaps;
        it costs more.
    num_latents : int, optional
        Q, the number of latent processes. The default is one per parameter function,
        at most 40; up to 16, half as many again for several outputs with more than 4000
        rows. With inducing values of functions, at most 4.
    rank : int or sequence of int
        R_q, the number of copies of each latent process.
    kernel : "eq" or the name of a kernel of your own
        The kernel of the latent processes. Convolutions take "eq" only.
    num_inducing : int, optional
        M, the number of inducing points of each copy; see `effort`.
    posterior : "auto", "factorised" or "joint"
        q(u), the distribution of the inducing values: independent between the latent
        processes, or joint, which is better where fewer outputs are observed than there
        are processes, and costs more. "auto" takes the joint form for at most 400
        inducing values in all and 4000 rows.
    optimizer : "fng", "hybrid", "adam", "sgd", or a scheme of ``motleygp.optim``
        The optimisers of q(u) and the hyper-parameters theta: natural gradients on
        both, natural gradients and Adam, Adam on both, or plain gradients on both.
    preset : None or "paper"
        "paper" uses the paper's settings: its start, zero offsets, its steps without a
        guard, and q(u) itself, not its whitened form, kept when theta changes.
    offset : "marginal" or "zero"
        The start of the constant means of the parameter functions: the constant fit of
        each output, or zero, where they stay.
    max_iter, batch_size : int, optional
        The number of iterations, and the rows of each output per iteration; see
        `effort`. A run ends earlier if its bound has stopped improving. On few rows,
        300 iterations may be followed by quasi-Newton steps on all rows, which end at
        an optimum.
    effort : "quick", "standard" or "thorough"
        The sizes that are not given, planned from the number of rows. Up to 1024 rows,
        all of them are in each iteration, with 80 inducing points for each copy and at
        most 2000 iterations; beyond, there are 512 rows, 200 inducing points, and 1000
        iterations. With many latent processes there are fewer inducing points: at most
        1600, beyond 1024 rows 3200 in all, but at least 20 each. "quick" takes 0.4
        times as many inducing points, 256 rows and half the iterations; "thorough"
        twice the points, 1024 rows and twice the iterations.
    restarts : int
        The number of starts from different seeds. The best is kept, judged by the
        held-out rows if there are any, otherwise by the bound. If it is no better than
        the constant fit, another start follows.
    n_jobs : int, optional
        The number of processes for the restarts, as in joblib. On an accelerator the
        restarts run together instead.
    validation_fraction : float
        The share of the rows, up to a half, that training does not see. A row is held
        out of all outputs that share it, and both parts have both classes of binary
        outputs. A run ends when the NLPD of these rows stops improving, and its best
        state is kept. Restarts that run together use them only to choose the best.
    time_limit : float, optional
        The seconds after which a run ends. The last steps before it become small, as
        they do at the end of any run.
    standardize : bool
        Whether to standardise inputs and real outputs internally. Results are in the
        user's units.
    random_state : int, optional
        The seed of the starts, the minibatches and the held-out rows.
    progress : bool
        Whether to show progress bars and the inferred likelihoods.
    checkpoint_dir : path, optional
        A folder to which the run is written every 20 seconds and at the end of each
        restart; ``fit(X, Y, resume=True)`` continues from there. The checkpoint of
        another run is never overwritten. Restarts then run one after another, and
        `random_state` must be given.
    fixed : sequence of str
        Parameters that stay at their start: "inducing", "lengthscale", "weights",
        "smoothing", "offset", "noise", and those of your own classes.
    start : dict, optional
        Initial values for some of `parameters()`, with the same names and units. With
        all parameters of an earlier model, training continues from there.

    Attributes
    ----------
    trace_ : dict of arrays, one entry per iteration
    restarts_ : list of dict
        The "score" (lower is better), "trace", "ended" and "error" of each start.
    ended_ : str
        Why the best run ended: "horizon", "converged", "held-out", "callback", "time"
        or "interrupted".
    seen_ : dict of Seen, by output
        The numbers of rows and of observed values, and the constant fit.
    input_range_ : array of shape (2, P)
        The smallest and the largest value of each input.
    output_names_, n_features_in_, feature_names_in_
    """

    def __init__(
        self,
        outputs: str | Mapping[Any, Any] | Sequence[Any] = "auto",
        prior: str = "lmc",
        inducing: str = "auto",
        num_latents: int | None = None,
        rank: int | Sequence[int] = 1,
        kernel: str = "eq",
        num_inducing: int | None = None,
        posterior: str = "auto",
        optimizer: Any = "fng",
        preset: str | None = None,
        offset: str = "marginal",
        max_iter: int | None = None,
        batch_size: int | None = None,
        effort: str = "standard",
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
        self.posterior = posterior
        self.optimizer = optimizer
        self.preset = preset
        self.offset = offset
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.effort = effort
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

        - `X`, `Y`: arrays or frames, or dicts or lists with one entry per output if
          outputs have inputs of their own.
        - `sample_weight`: how often each row counts; a vector for all outputs, or a
          dict of vectors by output.
        - `exposure`: for counts, the time, area or population over which each row was
          counted, in the same form; rates are per unit of exposure.
        - `resume`: continue from the checkpoint in `checkpoint_dir`, with the same data
          and settings; the result is that of an uninterrupted run.
        - `callback`: called with a `motleygp.training.Report` after every 50
          iterations; a true value ends the run. An error in it ends the fit, and is
          raised when the model so far is kept. Restarts then run one after another.
        """
        given = self.get_params(deep=False)
        settings.check(given)
        read = door.read(
            self.outputs, X, Y, sample_weight, exposure, show=bool(self.progress)
        )
        ready = prepared(given, read)
        task, seeds = ready.task, ready.seeds
        # Errors of a callback and Ctrl-C come when the model is kept.
        with Beside() as beside:
            outcomes = run_all(
                task, seeds, given, beside, resume=resume, callback=callback
            )
            with held():
                self.fitted_ = gathered(ready, outcomes)
                self._rows = few_rows(task.data)
        warn_if_failed(self.fitted_.starts)
        warn_if_not_learnt(outcomes, task)
        warn_if_refused(dict(self.fitted_.trace))
        return self

    def partial_fit(
        self,
        X: Any,
        Y: Any,
        *,
        sample_weight: Any = None,
        exposure: Any = None,
        callback: Callback | None = None,
    ) -> "MotleyGP":
        """Update a fitted model with new rows, or `fit` a model that is not fitted.

        The old q(u) is the prior of the new one, so the information of the old rows is
        kept as far as the inducing points can represent it. The parameters do not
        change; to learn them again, `fit` all rows with ``start=model.parameters()``.
        Y may lack some outputs, or all values of an output.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(
                X, Y, sample_weight=sample_weight, exposure=exposure, callback=callback
            )
        fitted = self.fitted_
        observed = door.new_observations(
            fitted, X, Y, sample_weight, exposure, partly=True
        )
        with Beside() as beside:
            data = observed.dataset(fitted.scaling)
            run = update(fitted, data, self.get_params(deep=False), beside, callback)
            with held():
                self.fitted_, self._rows = updated(fitted, run), None
        warn_if_refused(dict(self.fitted_.trace))
        return self

    def independent(self) -> IndependentGPs:
        """The same estimator with one model per output, as a baseline."""
        return IndependentGPs(clone(self))

    def compare_independent(
        self,
        X: Any,
        Y: Any,
        *,
        cv: Any = 3,
        sample_weight: Any = None,
        exposure: Any = None,
    ) -> pd.DataFrame:
        """What sharing is worth: NLPDs of this model and of `independent()` on rows
        that neither has seen.

        The rows are dealt into `cv` folds, and each fold is predicted by models fitted
        to the others, with the settings of this estimator but without its `start` and
        `checkpoint_dir`: in all, ``cv * (1 + outputs)`` fits. The estimator itself does
        not change. The other arguments are those of `fit`.

        The frame has a row per output, and a last one for their mean:

        - "values": the number of values predicted.
        - "nlpd", "independent": the NLPD of the joint model, and of the output's own.
        - "gain": "independent" minus "nlpd"; above 0, sharing helps.
        - "standard_error": that of the gain, from the paired differences of the rows.
          It does not tell how the gain would vary with other folds or starts.

        Ctrl-C ends it: the folds that are complete are compared, with a warning.
        """
        settings.check(self.get_params(deep=False))
        read = door.read(
            self.outputs, X, Y, sample_weight, exposure, show=bool(self.progress)
        )
        return comparison.compare(self, read.observed, read.likelihoods, cv)


def load(path: str | os.PathLike) -> MotleyGP:
    """Load an estimator that `MotleyGP.save` wrote.

    **Raises:** `ModelFileError` for a file that is damaged, or not a model.
    """
    arguments, fitted = saving.load(path)
    with refusing(path, "model"):
        model = MotleyGP(**arguments)
    model.fitted_ = fitted
    return model
