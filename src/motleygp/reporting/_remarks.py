"""Warnings and notes about a model and its data.

Every rule requires evidence beyond chance: the level of its test is 0.001, so that a
good model of forty outputs usually gets no remark.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.stats

from motleygp.prediction import metrics
from motleygp.reporting._facts import Facts, Output, Scored
from motleygp.reporting._format import percent, shown

_RARE = 1e-3
# Smallest shares that get a remark: errors of calibration, refused steps, and rows
# outside the training range.
_WORTH_A_SHARE, _REFUSED, _OUTSIDE = 0.03, 0.01, 0.02
_FEW_VALUES, _RARE_CLASS = 30, 0.02
# The slope of a flat function, in its standard deviations per standard deviation of the
# input.
_FLAT = 0.05
# A value is likely to be an error if its tail probability, times the number of values,
# is below this; and the largest number of such values to name.
_SLIP, _MOST_SLIPS = 1e-7, 3
_BINS = 10
# A gain of the bound in the last tenth of a run that is worth more iterations, in nats
# per value.
_WORTH_A_GAIN = 0.01
# The most rows that may dominate a score, and by how many standard errors of the score
# without them.
_MOST_ROWS, _DOMINANT = 3, 3.0


class Remark(NamedTuple):
    """One or two sentences; a warning calls for action."""

    text: str
    warning: bool


def remarks(facts: Facts) -> list[Remark]:
    """All remarks, warnings first."""
    found = [*_of_training(facts), *_of_data(facts)]
    for output in facts.outputs:
        found += _of_output(output)
        if output.scored is not None:
            found += _of_scores(output.name, output.scored)
            found += _of_calibration(output, output.scored)
            found += _of_slips(output, output.scored)
    return sorted(found, key=lambda remark: not remark.warning)


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
    elif fitted.ended == "horizon":
        values = sum(output.seen.observed for output in facts.outputs)
        gain = late_gain(trace["nelbo"]) / max(values, 1)
        if gain > _WORTH_A_GAIN:
            yield _note(
                f"The last tenth of the {done} iterations still improved the bound by "
                f"{gain:.2g} nats per value: a larger max_iter may give a better model."
            )
    refused = np.sum((trace["refused"] > 0) | (trace["theta_refused"] > 0))
    refused = float(refused) / max(done, 1)
    if refused > _REFUSED:
        yield _warning(
            f"{percent(refused)} of the steps were refused, because they led to points "
            "where the model is not defined. Try smaller steps or standardised inputs."
        )
    failed = [start["error"] for start in fitted.starts if start["error"]]
    if failed:
        yield _warning(
            f"{len(failed)} of {len(fitted.starts)} starts failed: "
            # Quoted arguments are for terminals.
            f"{failed[0].replace('`', '')}"
        )
    if not fitted.model.prior.shares_inducing and len(facts.outputs) > 1:
        yield _note(
            "The outputs learn nothing from one another, because each function has "
            "inducing values of its own; with inducing='latent' they share them."
        )


def late_gain(nelbo: np.ndarray) -> float:
    """By how much the last tenth of a run is better than the tenth before it, in nats;
    0 within the noise, and for a short run."""
    nelbo = nelbo[np.isfinite(nelbo)]
    tenth = len(nelbo) // 10
    if tenth < 10:
        return 0.0
    before, last = nelbo[-2 * tenth : -tenth], nelbo[-tenth:]
    gain = float(before.mean() - last.mean())
    noise = np.sqrt((before.var() + last.var()) / tenth)
    return gain if gain > 3.0 * noise else 0.0


# Data.


def _of_data(facts: Facts) -> Iterator[Remark]:
    worst = int(np.argmax(facts.outside))
    if facts.outside[worst] > _OUTSIDE:
        ends = facts.labels.along(worst, facts.fitted.input_range[:, worst])
        low, high = (shown(end) for end in ends)
        name = facts.fitted.inputs[worst]
        yield _warning(
            f"{name} is outside its training range ({low} to {high}) in "
            f"{percent(facts.outside[worst])} of the rows; the model extrapolates "
            "there."
        )
    low, high = facts.fitted.input_range
    for name in np.asarray(facts.fitted.inputs)[low == high]:
        yield _warning(
            f"{name} has one value in all training rows, so nothing is known about its "
            "effect; this input could be left out."
        )
    steepest = facts.relevance.to_numpy().max(axis=0)
    for name in facts.relevance.columns[(steepest < _FLAT) & (low < high)]:
        yield _note(f"No output varies with {name}; this input could be left out.")


def _of_output(output: Output) -> Iterator[Remark]:
    name, seen = output.name, output.seen
    if seen.observed < _FEW_VALUES:
        yield _warning(f"{name} has only {seen.observed} training values.")
    if output.choice is not None and output.choice.warning:
        yield _note(f"{name}: {output.choice.warning}")
    if output.likelihood.binary:
        share = float(output.likelihood.conditional_mean(jnp.asarray(seen.f)))
        if min(share, 1.0 - share) < _RARE_CLASS:
            rare = output.classes or (0, 1)
            yield _note(
                f"{name} is {rare[share < 0.5]} in only "
                f"{percent(min(share, 1.0 - share), 1)} of the rows; judge it by its "
                "probabilities rather than by its accuracy."
            )


# Scores.


def _of_scores(name: str, scored: Scored) -> Iterator[Remark]:
    if len(scored.y) < _FEW_VALUES:
        yield _note(
            f"{name} is scored on only {len(scored.y)} values, so its scores are rough."
        )
        return
    ours, marginal = scored.log_prob, scored.log_marginal
    impossible = int(np.sum(np.isinf(ours)))
    if impossible > _MOST_ROWS:
        yield _warning(
            f"{impossible} of the {len(ours)} values of {name} are impossible under "
            "their predictions, so its NLPD is infinite."
        )
        return
    worst = dominant(-ours)
    kept = np.setdiff1d(np.arange(len(ours)), worst)
    if len(worst):
        yield _dominated(name, scored, worst, kept)
    yield from _of_gain(name, ours[kept], marginal[kept], len(worst))
    alone = scored.log_independent
    if alone is not None and _gain(alone - ours) > 3.0:
        yield _warning(
            f"{name} is predicted better by a model of its own (NLPD "
            f"{-alone.mean():.3f} against {-ours.mean():.3f}): sharing with the other "
            "outputs makes its predictions worse."
        )


def dominant(cost: np.ndarray) -> np.ndarray:
    """The places of the few values, the worst first, that a mean cost depends on more
    than on all others together: none if there are no such values, or many."""
    worst = np.argsort(-cost, kind="stable")[:_MOST_ROWS]
    others = np.delete(cost, worst)
    if not np.isfinite(others).all():
        return worst[:0]
    excess = (cost[worst] - others.mean()) / len(cost)
    error = others.std() / np.sqrt(len(cost))
    notable = excess > error
    return worst[notable & (excess[notable].sum() > _DOMINANT * error)]


def _dominated(
    name: str, scored: Scored, worst: np.ndarray, kept: np.ndarray
) -> Remark:
    costs = [
        f"row {scored.rows[place]} costs {_nats(float(-scored.log_prob[place]))}"
        for place in worst
    ]
    which = "one value" if len(worst) == 1 else f"{len(worst)} values"
    them = "it" if len(worst) == 1 else "them"
    return _warning(
        f"The score of {name} is dominated by {which} of {len(scored.y)}: "
        f"{', '.join(costs)}. Its NLPD is {shown(-scored.log_prob.mean())} with {them} "
        f"and {-scored.log_prob[kept].mean():.4g} without (marginal: "
        f"{-scored.log_marginal.mean():.4g} and "
        f"{-scored.log_marginal[kept].mean():.4g})."
    )


def _nats(cost: float) -> str:
    if np.isinf(cost):
        return "infinitely many nats"
    return f"{cost:,.0f} nats" if cost >= 100.0 else f"{cost:.3g} nats"


def _of_gain(
    name: str, ours: np.ndarray, marginal: np.ndarray, left_out: int
) -> Iterator[Remark]:
    """A remark if there is no sign of a gain over the marginal; a remark against
    sharing needs more evidence."""
    if not np.isfinite(marginal).all() or _gain(ours - marginal) > 1.0:
        return
    gain = ours - marginal
    without = f", {left_out} dominant left out" if left_out else ""
    against = f"(NLPD {-ours.mean():.3f} against {-marginal.mean():.3f}{without})"
    why = "the inputs carry little information about it, or training was too short."
    if not gain.mean() > 0.0:
        yield _warning(
            f"{name} is not predicted better than by its overall distribution "
            f"{against}: {why}"
        )
        return
    error = gain.std() / np.sqrt(len(gain))
    yield _warning(
        f"{name} may not be predicted better than by its overall distribution "
        f"{against}: its gain of {gain.mean():.2g} has a standard error of "
        f"{error:.2g}, so {why}"
    )


def _gain(pairs: np.ndarray) -> float:
    """The mean of paired gains, divided by its standard error."""
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
            f"{output.name} is badly calibrated: its 95 % intervals contain "
            f"{percent(share)} of the values, so they are too {wrong}."
        )
    above = int(np.sum(scored.pit > 0.5))
    beyond = scipy.stats.binomtest(above, count).pvalue < _RARE
    if beyond and abs(above / count - 0.5) > _WORTH_A_SHARE:
        side, number = "above", above
        if above < count / 2:
            side, number = "below", count - above
        yield _warning(
            f"{output.name} is predicted off to one side: {percent(number / count)} "
            f"of its values lie {side} the predicted median."
        )


def _of_probabilities(output: Output, scored: Scored) -> Iterator[Remark]:
    """One remark for each run of neighbouring bins that are off beyond chance."""
    predicted, observed, count = metrics.reliability(scored.p, scored.y, _BINS)
    # Rounding may push a mean probability slightly beyond 0 or 1.
    predicted = np.clip(predicted, 0.0, 1.0)
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
        mean = np.average(predicted[first:end], weights=weights)
        share = np.average(observed[first:end], weights=weights)
        low, high = edges[first], edges[end]
        where = f"between {low:.2g} and {high:.2g}"
        if end == len(off):
            where = f"above {low:.2g}"
        elif first == 0:
            where = f"below {high:.2g}"
        yield _warning(
            f"{output.name} is badly calibrated {where}: the predicted probability of "
            f"{label} is {percent(mean)} on average there, but {percent(share)} of "
            f"the {int(weights.sum())} rows are {label}."
        )


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """The start and the end of each run of true flags."""
    steps = np.diff(np.concatenate([[0], flags.astype(int), [0]]))
    starts, ends = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def surprising(scored: Scored, most: int) -> np.ndarray:
    """The positions of the values furthest in the tails of their predictions."""
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
            f"outside its predicted 95 % interval ({low:.4g} to {high:.4g}); it may be "
            "an error in the data."
        )
