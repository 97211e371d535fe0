"""What sharing is worth: a joint model against one model per output."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from motleygp.inference import Observations
from motleygp.likelihoods import AbstractLikelihood
from motleygp.prediction import distributions
from motleygp.progress import watched

COLUMNS = ("values", "nlpd", "independent", "gain", "standard_error")
MEAN = "mean over outputs"

# The fold of each row of each matrix of inputs, by the `id` of the matrix.
Folds = dict[int, np.ndarray]


def compare(
    estimator: Any,
    observed: Observations,
    likelihoods: Sequence[AbstractLikelihood],
    cv: Any,
) -> pd.DataFrame:
    """The table of `MotleyGP.compare_independent`."""
    every = range(len(observed.names))
    if len(every) == 1:
        raise ValueError(
            "`Y` must have at least two outputs: one output has nothing to share; "
            f"got {observed.names[0]!r} alone."
        )
    rng = np.random.default_rng(estimator.random_state)
    folds = dealt(rng, observed, cv)
    base: Any = clone(estimator)
    # A start belongs to all outputs together, and may know the rows to predict. A
    # checkpoint belongs to one fit.
    base.set_params(start=None, checkpoint_dir=None, progress=False)
    models = [list(every), *([d] for d in every)]
    jobs = [(fold, outputs) for fold in range(cv) for outputs in models]
    found: list[list[np.ndarray]] = []
    with _quieter(), contextlib.suppress(KeyboardInterrupt):
        for fold, outputs in watched(jobs, "comparing", show=bool(estimator.progress)):
            rest, apart = _parts(observed, folds, fold)
            fitted = _fit(base, likelihoods, rest, outputs)
            found.append(_log_densities(fitted, apart, outputs))
    complete = len(found) // len(models)
    if not complete:
        raise KeyboardInterrupt
    if complete < cv:
        warnings.warn(
            f"the comparison was interrupted, and has {complete} of {cv} folds.",
            stacklevel=3,
        )
    # The rows of these folds, in the order of the folds, as in `found`.
    predicted = {
        key: np.argsort(own, kind="stable")[: np.sum(own < complete)]
        for key, own in folds.items()
    }
    by_model = [found[m :: len(models)][:complete] for m in range(len(models))]
    joint = [np.concatenate([part[d] for part in by_model[0]]) for d in every]
    alone = [np.concatenate([part for (part,) in parts]) for parts in by_model[1:]]
    return table(observed.part(predicted), joint, alone)


@contextlib.contextmanager
def _quieter() -> Iterator[None]:
    """Pass on the first warning of each kind of the fits, with their number."""
    kinds: dict[type[Warning], list[str]] = {}
    with warnings.catch_warnings(record=True) as said:
        yield
    for one in said:
        kinds.setdefault(one.category, []).append(str(one.message))
    for category, texts in kinds.items():
        more = f" (and {len(texts) - 1} more fits like it)" if texts[1:] else ""
        text = f"in a fit of the comparison, {texts[0]}{more}"
        warnings.warn(text, category, stacklevel=5)


# Folds.


def dealt(rng: np.random.Generator, observed: Observations, cv: Any) -> Folds:
    """Deal the rows at random into `cv` folds, whole across the outputs that share
    them, so that the rest of every fold has different values of every output.

    **Raises:** `ValueError` for a number of folds that does not allow that.
    """
    most = min(len(x) for x in observed.xs)
    whole = isinstance(cv, int | np.integer) and not isinstance(cv, bool)
    if not whole or not 2 <= cv <= most:
        raise ValueError(
            "`cv` must be a whole number from 2 to the number of rows, "
            f"{most}; got {cv!r}."
        )
    folds: Folds = {}
    for x in observed.distinct_inputs():
        each = zip(observed.xs, observed.ys, strict=True)
        folds[id(x)] = _dealt_rows(rng, [y for own, y in each if own is x], int(cv))
    for name, x, y in zip(observed.names, observed.xs, observed.ys, strict=True):
        rest = [y[~np.isnan(y) & (folds[id(x)] != fold)] for fold in range(cv)]
        if min(len(np.unique(values)) for values in rest) < 2:
            raise ValueError(
                f"`cv` must leave different values of output {name!r} to train on "
                f"beside every fold; got {cv} folds of its "
                f"{np.sum(~np.isnan(y))} values."
            )
    return folds


def _dealt_rows(
    rng: np.random.Generator, ys: Sequence[np.ndarray], cv: int
) -> np.ndarray:
    """The fold of each row of outputs that share their inputs. The values of each
    output, and those that differ from its most frequent one, such as a rare class, are
    spread evenly: the fewest first."""
    sets = [np.ones(len(ys[0]), dtype=bool)]
    for y in ys:
        known = ~np.isnan(y)
        values, count = np.unique(y[known], return_counts=True)
        usual = values[count == max(count.max(), 2)]
        sets += [known, known & ~np.isin(y, usual[:1])]
    fold = np.full(len(ys[0]), -1)
    for members in sorted(sets, key=np.sum):
        left = rng.permutation(np.flatnonzero(members & (fold < 0)))
        own = np.bincount(fold[members & (fold >= 0)], minlength=cv)
        sizes = np.bincount(fold[fold >= 0], minlength=cv)
        fold[left] = _evenly(own, sizes, len(left))
    return fold


def _evenly(own: np.ndarray, sizes: np.ndarray, number: int) -> np.ndarray:
    """Folds for this number of rows that make the counts `own` as equal as they can
    be; of two equal counts, that of the smaller fold is raised first."""
    level = own[:, None] + np.arange(number)
    fold, size = (
        np.broadcast_to(own[:, None], level.shape)
        for own in (np.arange(len(own)), sizes)
    )
    return fold.ravel()[np.lexsort((size.ravel(), level.ravel()))][:number]


def _parts(
    observed: Observations, folds: Folds, fold: int
) -> tuple[Observations, Observations]:
    """The rows outside a fold, and those in it."""
    inside = {key: own == fold for key, own in folds.items()}
    outside = {key: ~own for key, own in inside.items()}
    return observed.part(outside), observed.part(inside)


# Models.


def _fit(
    base: Any,
    likelihoods: Sequence[AbstractLikelihood],
    rest: Observations,
    outputs: Sequence[int],
) -> Any:
    """A fit of some outputs; `KeyboardInterrupt` if it was interrupted."""

    def own(columns: Sequence[Any] | None) -> dict[str, Any] | None:
        if columns is None:
            return None
        return {rest.names[d]: columns[d] for d in outputs}

    exposure = own(rest.exposures)
    if exposure is not None:
        counts = [rest.names[d] for d in outputs if likelihoods[d].counts]
        exposure = {name: exposure[name] for name in counts} or None
    model: Any = clone(base)
    model.set_params(outputs=own(likelihoods))
    model.fit(
        own(rest.xs), own(rest.ys), sample_weight=own(rest.weights), exposure=exposure
    )
    if any(start["ended"] == "interrupted" for start in model.fitted_.starts):
        raise KeyboardInterrupt
    return model.fitted_


def _log_densities(
    fitted: Any, apart: Observations, outputs: Sequence[int]
) -> list[np.ndarray]:
    """The log densities of the values of some outputs; NaN where they are missing."""
    found = {d: np.full(len(apart.ys[d]), np.nan) for d in outputs}
    for x in apart.distinct_inputs():
        own = [d for d in outputs if apart.xs[d] is x]
        if not own or not len(x):
            continue
        none = np.ones(len(x))
        exposures = [apart.exposure(d) if d in own else none for d in outputs]
        p = distributions(fitted, x, exposures=exposures)
        found |= {d: p[apart.names[d]].log_prob(apart.ys[d]) for d in own}
    return [found[d] for d in outputs]


# The table.


def table(
    observed: Observations, joint: Sequence[np.ndarray], alone: Sequence[np.ndarray]
) -> pd.DataFrame:
    """NLPDs of both models, gains and their standard errors, by output and on average,
    from the log densities of each output's values under both.

    With the weights w_n and the differences g_n of the log densities of an output's N
    values, and W = sum_n w_n, its gain and the square of its standard error are

        g = sum_n w_n g_n / W,    N / (N - 1) sum_n t_n^2,    t_n = w_n (g_n - g) / W.

    The mean over D outputs has the same error, with the sum over the outputs of a row's
    t_n / D in the place of t_n: the values of one row are not independent.
    """
    rows, terms = {}, []
    for d, (name, y) in enumerate(zip(observed.names, observed.ys, strict=True)):
        known = ~np.isnan(y)
        weight = np.ones(len(y)) if observed.weights is None else observed.weights[d]
        pair = joint[d][known], alone[d][known]
        terms.append(np.zeros(len(y)))
        found, terms[d][known] = _compared(*pair, weight[known])
        rows[name] = found
        if known.any() and not np.isfinite(found).all():
            warnings.warn(
                f"output {name!r} has a value that is impossible under its prediction, "
                "so its scores are infinite or undefined.",
                stacklevel=4,
            )
    frame = pd.DataFrame(rows, index=list(COLUMNS)).T
    # Without the outputs that an interrupted comparison has not reached.
    mean = frame.mean()
    mean["values"] = frame["values"].sum()
    mean["standard_error"] = _mean_error(observed, terms)
    frame = pd.concat([frame, mean.to_frame(MEAN).T])
    return frame.astype({"values": int})


def check_table(given: Any, outputs: Sequence[str]) -> None:
    """Raise a `ValueError` unless this is a table of these outputs."""
    came = type(given).__name__
    if isinstance(given, pd.DataFrame):
        names, columns = [str(name) for name in given.index], list(given.columns)
        every = sorted(names[:-1]) == sorted(outputs) and names[-1] == MEAN
        if every and columns == list(COLUMNS):
            return
        came = f"a frame with the rows {names} and the columns {columns}"
    raise ValueError(
        "`sharing` must be the table of `compare_independent` for the outputs "
        f"{list(outputs)}; got {came}."
    )


def _compared(
    joint: np.ndarray, alone: np.ndarray, weight: np.ndarray
) -> tuple[tuple[float, ...], np.ndarray]:
    """A row of the table, and the terms of its standard error."""
    if not len(joint):
        return (0.0, *[np.nan] * 4), weight
    weight = weight / weight.sum()
    # Infinite densities leave undefined differences.
    with np.errstate(invalid="ignore"):
        gain = weight @ (joint - alone)
        terms = weight * (joint - alone - gain)
    means = (float(value) for value in (-weight @ joint, -weight @ alone, gain))
    return (float(len(joint)), *means, _standard_error(terms, len(joint))), terms


def _standard_error(terms: np.ndarray, number: int) -> float:
    """That of a mean, from its terms without their means, of which `number` count; NaN
    for a single one."""
    if number < 2:
        return np.nan
    return float(np.sqrt(number / (number - 1) * np.sum(terms**2)))


def _mean_error(observed: Observations, terms: Sequence[np.ndarray]) -> float:
    """The standard error of the mean over outputs."""
    known = [~np.isnan(y) for y in observed.ys]
    errors = []
    for x in observed.distinct_inputs():
        own = [d for d, other in enumerate(observed.xs) if other is x]
        number = int(np.any([known[d] for d in own], axis=0).sum())
        errors.append(_standard_error(np.sum([terms[d] for d in own], axis=0), number))
    return float(np.linalg.norm(errors) / np.sum([own.any() for own in known]))
