"""Pictures, drawn on axes that the caller owns."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from motleygp.predictive import AbstractPredictive

_DATA = {"color": "0.55", "s": 6, "linewidths": 0, "alpha": 0.6}


def predictive_curve(
    ax: Axes,
    x: ArrayLike,
    predictive: AbstractPredictive,
    *,
    coverage: float = 0.95,
    label: str | None = None,
) -> Axes:
    """An output over one input: its mean as a line, its central interval as a band.

    A binary output is shown by its probability alone: an interval of 0 and 1 says
    nothing.
    """
    x = np.asarray(x, dtype=float).ravel()
    if x.shape != (len(predictive),):
        raise ValueError(
            f"`x` must have one value per row of `predictive`, {len(predictive)}; "
            f"got {x.shape}."
        )
    order = np.argsort(x)
    (line,) = ax.plot(x[order], predictive.mean[order], label=label, zorder=3)
    if predictive.likelihood.name != "bernoulli":
        low, high = predictive.interval(coverage)[order].T
        ax.fill_between(x[order], low, high, color=line.get_color(), alpha=0.2, lw=0)
    return ax


def observations(ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str = "data") -> Axes:
    """The observed values as dots; missing ones are left out."""
    x, y = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
    seen = ~np.isnan(y)
    ax.scatter(x[seen], y[seen], label=label, **_DATA)
    return ax


def trace(ax: Axes, nelbo: ArrayLike, *, label: str | None = None) -> Axes:
    """Minus the bound by iteration: each minibatch's faintly, a running mean boldly."""
    values = np.asarray(nelbo, dtype=float)
    width = max(1, len(values) // 40)
    smooth = np.convolve(values, np.ones(width) / width, mode="valid")
    (line,) = ax.plot(np.arange(width, len(values) + 1), smooth, label=label, zorder=3)
    ax.plot(np.arange(1, len(values) + 1), values, color=line.get_color(), alpha=0.15)
    # The first iterations would flatten all the others.
    ax.set_ylim(*np.quantile(values[len(values) // 10 :], [0.0, 1.0]))
    ax.set_xlabel("iteration")
    ax.set_ylabel("minus the bound")
    return ax
