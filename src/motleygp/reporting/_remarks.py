"""What a reader should know, in plain words.

Every rule asks for evidence beyond chance: tests at a thousandth, so that a good model
of forty outputs stays without a word.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.stats

from motleygp.prediction import metrics
from motleygp.reporting._facts import Facts, Output, Scored

_RARE = 1e-3
# Shares from which on a true deviation is worth a word.
_WORTH_A_SHARE, _REFUSED, _OUTSIDE = 0.03, 0.01, 0.02
_FEW_VALUES, _RARE_CLASS = 30, 0.02
# Slopes of a function, in its standard deviations per that of the input.
_FLAT = 0.05
# A value so far out that slips are likelier, and how many are named.
_SLIP, _MOST_SLIPS = 1e-7, 3
_BINS = 10


class Remark(NamedTuple):
    """One sentence or two; a warning asks for something to be done."""

    text: str
    warning: bool


def remarks(facts: Facts) -> list[Remark]:
    """All that is to be said, warnings first."""
    found = [*_of_training(facts), *_of_data(facts)]
    for output in facts.outputs:
        found += _of_output(output)
        if output.scored is not None:
            found += _of_scores(output.name, output.scored)
            found += _of_calibration(output, output.scored)
            found += _of_slips(output, output.scored)
    return sorted(found, key=lambda remark: not remark.warning)


def percent(share: float, digits: int = 0) -> str:
    """A share as people write it."""
    return f"{100.0 * share:.{digits}f}\u00a0%"


def _warning(text: str) -> Remark:
    return Remark(text, True)


def _note(text: str) -> Remark:
    return Remark(text, False)


# Training.


def _of_training(facts: Facts) -> Iterator[Remark]:
    fitted, trace = facts.fitted, facts.fitted.trace
    done = len(trace["iteration"])
    if fitted.ended == "interrupted":
        yield _warning(f"Training was interrupted after {done} iterations.")
    elif fitted.ended == "time":
        yield _warning(f"The time limit ended training after {done} iterations.")
    elif still_improving(trace["nelbo"]):
        yield _note(
            "The bound was still improving when training ended: a larger `max_iter` "
            "may give a better model."
        )
    refused = np.sum((trace["refused"] > 0) | (trace["theta_refused"] > 0))
    refused = float(refused) / max(done, 1)
    if refused > _REFUSED:
        yield _warning(
            f"{percent(refused)} of the steps were refused: they would have led where "
            "the model is not defined. Try smaller steps or standardised inputs."
        )
    failed = [start["error"] for start in fitted.starts if start["error"]]
    if failed:
        yield _warning(
            f"{len(failed)} of {len(fitted.starts)} starts failed: {failed[0]}"
        )
    if not fitted.model.prior.shares_inducing and len(facts.outputs) > 1:
        yield _note(
            "With inducing values of functions, outputs learn nothing from one "
            "another; `inducing='latent'` lets them."
        )


def still_improving(nelbo: np.ndarray) -> bool:
    """Whether the last tenth of a run is better than the one before it, by more than
    its noise and by a fiftieth of what all of the run but its first tenth gained."""
    nelbo = nelbo[np.isfinite(nelbo)]
    tenth = len(nelbo) // 10
    if tenth < 10:
        return False
    first, before = nelbo[tenth : 2 * tenth], nelbo[-2 * tenth : -tenth]
    last = nelbo[-tenth:]
    gain = before.mean() - last.mean()
    noise = np.sqrt((before.var() + last.var()) / tenth)
    return bool(gain > 3.0 * noise and gain > 0.02 * (first.mean() - last.mean()))


# Data.


def _of_data(facts: Facts) -> Iterator[Remark]:
    worst = int(np.argmax(facts.outside))
    if facts.outside[worst] > _OUTSIDE:
        low, high = facts.fitted.input_range[:, worst]
        name = facts.fitted.inputs[worst]
        yield _warning(
            f"{percent(facts.outside[worst])} of the rows have {name} "
            f"outside the {low:.4g} to {high:.4g} of the fit: there the model "
            "extrapolates."
        )
    steepest = facts.relevance.to_numpy().max(axis=0)
    for name in facts.relevance.columns[steepest < _FLAT]:
        yield _note(f"No output varies with {name}: it could be left out.")


def _of_output(output: Output) -> Iterator[Remark]:
    name, seen = output.name, output.seen
    if seen.observed < _FEW_VALUES:
        yield _warning(f"{name} had only {seen.observed} values to learn from.")
    if output.choice is not None and output.choice.warning:
        yield _note(f"{name}: {output.choice.warning}")
    if output.likelihood.binary:
        share = float(output.likelihood.conditional_mean(jnp.asarray(seen.f)))
        if min(share, 1.0 - share) < _RARE_CLASS:
            rare = output.classes or (0, 1)
            yield _note(
                f"{name} is {rare[share < 0.5]} in only "
                f"{percent(min(share, 1.0 - share), 1)} of the rows: look at its "
                "probabilities rather than at its accuracy."
            )


# Scores.


def _of_scores(name: str, scored: Scored) -> Iterator[Remark]:
    if len(scored.y) < _FEW_VALUES:
        yield _note(
            f"{name} is scored on {len(scored.y)} values alone: its figures are rough."
        )
        return
    ours, marginal = scored.log_prob, scored.log_marginal
    # Any sign of a gain will do here; below it takes more to speak against sharing.
    if np.isfinite(marginal).all() and not _gain(ours - marginal) > 1.0:
        yield _warning(
            f"{name} is not predicted better than by its overall distribution (NLPD "
            f"{-ours.mean():.3f} against {-marginal.mean():.3f}): the inputs say "
            "little about it, or training has not gone far enough."
        )
    alone = scored.log_independent
    if alone is not None and _gain(alone - ours) > 3.0:
        yield _warning(
            f"{name} is predicted better by a model of its own (NLPD "
            f"{-alone.mean():.3f} against {-ours.mean():.3f}): sharing costs it "
            "something."
        )


def _gain(pairs: np.ndarray) -> float:
    """The mean of paired gains, in its standard errors."""
    error = pairs.std() / np.sqrt(len(pairs))
    return float(pairs.mean() / max(error, np.finfo(float).tiny))


# Calibration.


def _of_calibration(output: Output, scored: Scored) -> Iterator[Remark]:
    if len(scored.y) < _FEW_VALUES:
        return
    if output.likelihood.binary:
        yield from _of_probabilities(output, scored)
        return
    inside = np.abs(2.0 * scored.pit - 1.0) <= 0.95
    share, count = float(inside.mean()), len(inside)
    beyond = scipy.stats.binomtest(int(inside.sum()), count, 0.95).pvalue < _RARE
    if beyond and abs(share - 0.95) > _WORTH_A_SHARE:
        wrong = "narrow" if share < 0.95 else "wide"
        yield _warning(
            f"{output.name} is badly calibrated: its 95 % intervals hold "
            f"{percent(share)} of the values, so they are too {wrong}."
        )
    above = int(np.sum(scored.pit > 0.5))
    beyond = scipy.stats.binomtest(above, count).pvalue < _RARE
    if beyond and abs(above / count - 0.5) > _WORTH_A_SHARE:
        side, number = "above", above
        if above < count / 2:
            side, number = "below", count - above
        yield _warning(
            f"{output.name} is off to one side: {percent(number / count)} of its "
            f"values lie {side} the median that was predicted."
        )


def _of_probabilities(output: Output, scored: Scored) -> Iterator[Remark]:
    """Neighbouring bins of a binary output that are off beyond chance, as one."""
    predicted, observed, count = metrics.reliability(scored.p, scored.y, _BINS)
    off = np.array(
        [
            scipy.stats.binomtest(round(share * n), n, p).pvalue < _RARE / _BINS
            and abs(share - p) > _WORTH_A_SHARE
            for p, share, n in zip(predicted, observed, count.tolist(), strict=True)
        ]
    )
    edges = np.concatenate([[0.0], 0.5 * (predicted[1:] + predicted[:-1]), [1.0]])
    label = (output.classes or (0, 1))[1]
    for first, end in _runs(off):
        weights = count[first:end]
        said = np.average(predicted[first:end], weights=weights)
        came = np.average(observed[first:end], weights=weights)
        low, high = edges[first], edges[end]
        where = f"between {low:.2g} and {high:.2g}"
        if end == len(off):
            where = f"above {low:.2g}"
        elif first == 0:
            where = f"below {high:.2g}"
        yield _warning(
            f"{output.name} is badly calibrated {where}: where the probability of "
            f"{label} is {percent(said)} on average, it came in {percent(came)} of "
            f"{int(weights.sum())} rows."
        )


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """The first place and the end of each run of true flags."""
    steps = np.diff(np.concatenate([[0], flags.astype(int), [0]]))
    starts, ends = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def surprising(scored: Scored, most: int) -> np.ndarray:
    """Places of the values furthest out in their predictive distributions."""
    tail = np.minimum(scored.pit, 1.0 - scored.pit)
    return np.argsort(tail, kind="stable")[:most]


def _of_slips(output: Output, scored: Scored) -> Iterator[Remark]:
    if output.likelihood.binary:
        return
    tail = np.minimum(scored.pit, 1.0 - scored.pit)
    places = surprising(scored, _MOST_SLIPS)
    for place in places[tail[places] < _SLIP / len(tail)]:
        low, high = scored.p[[place]].interval(0.95)[0]
        yield _warning(
            f"{output.name} in row {scored.rows[place]} is {scored.y[place]:.4g}, far "
            f"from what was predicted ({low:.4g} to {high:.4g}): a slip in the data?"
        )
