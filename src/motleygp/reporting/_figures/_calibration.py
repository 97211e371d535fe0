"""Figures of calibration: observed shares against predicted probabilities."""

from collections.abc import Iterator

import numpy as np

from motleygp.prediction.diagrams import (
    Shares,
    interval_shares,
    pit_density,
    reliability_shares,
)
from motleygp.reporting._facts import Output
from motleygp.reporting._figures import _draw as draw

_BINS = 10


def calibration(output: Output) -> Iterator[draw.Figure]:
    """Reliability for a binary output; coverage and PIT for any other."""
    scored = output.scored
    if scored is None or len(scored.y) < 2 * _BINS:
        return
    if output.likelihood.binary:
        yield _reliability(reliability_shares(scored.p, scored.y, _BINS))
        return
    yield _coverage(interval_shares(scored.pit))
    yield _pit(pit_density(scored.pit, _BINS))


def _reliability(shares: Shares) -> draw.Figure:
    bars = {
        "type": "data",
        "symmetric": False,
        "array": draw.numbers(shares.high - shares.place),
        "arrayminus": draw.numbers(shares.place - shares.low),
        "color": "@grid",
        "thickness": 6,
        "width": 0,
    }
    chance = draw.dots(shares.place, shares.place, "chance", opacity=0.0)
    chance |= {"error_y": bars, "hoverinfo": "skip", "showlegend": False}
    line = draw.line(shares.place, shares.share, "observed", mode="lines+markers")
    ends = {"range": [-0.05, 1.05]}
    return draw.figure(
        "Observed share against predicted probability. If the probabilities are "
        "right, 95 % of the points lie within the grey bars.",
        [chance, draw.diagonal(), line],
        "predicted probability",
        "observed share",
        xaxis=ends,
        yaxis=ends,
    )


def _coverage(shares: Shares) -> draw.Figure:
    data = draw.band(shares.place, shares.low, shares.high, "chance", "@grey_band")
    data += [draw.diagonal(), draw.line(shares.place, shares.share, "observed")]
    return draw.figure(
        "The share of values inside intervals of each probability. The intervals are "
        "too narrow below the dashed line, and too wide above it.",
        data,
        "probability of the interval",
        "share inside",
    )


def _pit(shares: Shares) -> draw.Figure:
    width = 1.0 / len(shares.place)
    middle = shares.place + 0.5 * width
    bars = {
        "type": "bar",
        "x": draw.numbers(middle),
        "y": draw.numbers(shares.share),
        "width": width,
        "name": "observed",
        "marker": {"color": "@blue", "opacity": 0.6},
    }
    ends = np.array([0.0, 1.0])
    low, high = np.full(2, shares.low[0]), np.full(2, shares.high[0])
    band = draw.band(ends, low, high, "chance", "@grey_band")
    return draw.figure(
        "Positions of the values in their predictive distributions (PIT): flat if the "
        "predictions are right, high at both ends if they are too narrow, and high in "
        "the middle if they are too wide.",
        [bars, *band],
        "probability of a smaller value",
        "density",
    )
