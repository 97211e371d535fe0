"""The course of training, in one run and in several."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from motleygp.plotting._style import BLUE, ORANGE
from motleygp.prediction.diagrams import later_limits, running_mean

_HELD_OUT = "held-out NLPD (dashed)"
# The name in a trace, the label, the marker, and its height as a share of the axes.
_REFUSALS = (
    ("refused", "refused step of q(u)", "x", 0.02),
    ("theta_refused", "refused draw of theta", "+", 0.05),
)


def trace(
    ax: Axes,
    history: Mapping[str, np.ndarray] | ArrayLike,
    *,
    label: str | None = None,
) -> Axes:
    """Minus the bound by iteration: on minibatches as a faint line, its running mean as
    a bold one.

    For a whole `trace_`, marks near the bottom show refused steps and draws, and a
    dashed line on a second axis at the right shows the scores on held-out rows. Several
    runs may be drawn on the same axes.

    **Arguments:**

    - `history`: the `trace_` of an estimator, or minus the bound at each iteration.
    """
    run = history if isinstance(history, Mapping) else {"nelbo": history}
    if "nelbo" not in run:
        raise ValueError(f"`history` must have the entry 'nelbo'; got {list(run)}.")
    nelbo = np.asarray(run["nelbo"], dtype=float)
    if nelbo.ndim != 1 or not np.isfinite(nelbo).any():
        raise ValueError(
            "`history` must have one number per iteration, at least one finite; "
            f"got shape {nelbo.shape}."
        )
    iteration = np.asarray(run.get("iteration", np.arange(1, len(nelbo) + 1)))
    earlier = ax.get_ylim() if ax.has_data() else None
    # The bound at a refused draw of theta is not finite.
    finite = np.isfinite(nelbo)
    values, when = nelbo[finite], iteration[finite]
    smooth = running_mean(values)
    (line,) = ax.plot(when[-len(smooth) :], smooth, label=label, zorder=3)
    ax.plot(when, values, color=line.get_color(), alpha=0.15)
    ax.set_ylim(*_limits(values, earlier))
    ax.set_xlabel("iteration")
    ax.set_ylabel("minus the bound")
    _mark_refusals(ax, run, iteration, line.get_color())
    if "held_out" in run:
        _draw_held_out(ax, iteration, np.asarray(run["held_out"]), line.get_color())
    return ax


def restart_boxes(ax: Axes, scores: Mapping[str, ArrayLike]) -> Axes:
    """Scores over restarts as boxes, one per label; lower is better.

    A box spans the quartiles, its line is the median, its whiskers extend to at most
    1.5 times its height, and diamonds mark scores beyond them. Failed runs, whose score
    is not finite, are counted below the label.

    **Arguments:**

    - `scores`: lists by label, such as ``{"fng": [r["score"] for r in m.restarts_]}``.
    """
    if not scores:
        raise ValueError("`scores` must have at least one entry; got none.")
    rows = {name: np.asarray(own, dtype=float).ravel() for name, own in scores.items()}
    labels = []
    for name, own in rows.items():
        if not len(own):
            raise ValueError(f"`scores` must have numbers; got none for {name!r}.")
        failed = int(np.sum(~np.isfinite(own)))
        labels.append(f"{name}\n{failed} of {len(own)} failed" if failed else name)
    ax.boxplot(
        [own[np.isfinite(own)] for own in rows.values()],
        tick_labels=labels,
        patch_artist=True,
        widths=0.5,
        boxprops={"facecolor": BLUE, "alpha": 0.5},
        medianprops={"color": "black", "linewidth": 2.0},
        flierprops={"marker": "D", "markersize": 4, "markerfacecolor": ORANGE},
    )
    ax.set_ylabel("score (lower is better)")
    return ax


def _limits(
    values: np.ndarray, earlier: tuple[float, float] | None
) -> tuple[float, float]:
    """The limits for this run and for earlier ones on the same axes."""
    low, high = later_limits(values)
    before_low, before_high = earlier or (low, high)
    return min(low, before_low), max(high, before_high)


def _mark_refusals(
    ax: Axes, run: Mapping[str, Any], iteration: np.ndarray, color: Any
) -> None:
    for name, label, marker, height in _REFUSALS:
        where = iteration[np.asarray(run.get(name, np.zeros(len(iteration)))) > 0]
        if not len(where):
            continue
        # One entry in the legend is enough for several runs.
        named = label in ax.get_legend_handles_labels()[1]
        ax.scatter(
            where,
            np.full(len(where), height),
            # Iterations on the x axis, fractions of the axes on the y axis.
            transform=ax.get_xaxis_transform(),
            marker=marker,
            color=color,
            s=16,
            linewidths=1.0,
            zorder=4,
            label=None if named else label,
        )


def _draw_held_out(
    ax: Axes, iteration: np.ndarray, scores: np.ndarray, color: Any
) -> None:
    known = np.isfinite(scores)
    if known.any():
        style = {"color": color, "linestyle": "--", "marker": "o", "markersize": 3}
        _held_out_axis(ax).plot(iteration[known], scores[known], **style)


def _held_out_axis(ax: Axes) -> Axes:
    """The axis at the right, from an earlier run or new."""
    place = ax.get_position().bounds
    for other in ax.get_shared_x_axes().get_siblings(ax):
        if other.get_label() == _HELD_OUT and other.get_position().bounds == place:
            return other
    right = ax.twinx()
    right.set_label(_HELD_OUT)
    right.set_ylabel(_HELD_OUT)
    return right
