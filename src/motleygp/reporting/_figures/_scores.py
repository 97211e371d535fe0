"""Figures of missing values, and of gains over the marginal."""

import numpy as np

from motleygp.reporting._facts import Facts
from motleygp.reporting._figures import _draw as draw
from motleygp.reporting._labels import Labels

# The largest number of stripes in which missing values are counted.
_STRIPES = 60


def missing(
    names: list[str], ys: list[np.ndarray], labels: Labels
) -> draw.Figure | None:
    """The share of missing values along the rows of the table, if any is missing."""
    if not any(np.isnan(y).any() for y in ys):
        return None
    longest = max(map(len, ys))
    stripes = min(_STRIPES, longest)
    first = np.ceil(np.arange(stripes) * longest / stripes).astype(int)
    # Stripes are intervals of row numbers: an output may have fewer rows than another.
    shares = []
    for y in ys:
        which = np.arange(len(y)) * stripes // longest
        rows = np.bincount(which, minlength=stripes)
        absent = np.bincount(which, np.isnan(y), minlength=stripes)
        shares.append(np.where(rows > 0, absent / np.maximum(rows, 1), np.nan))
    # Outputs may have rows, and labels, of their own.
    begins = [
        [draw.text(label) for label in labels.rows(name, first[first < len(y)])]
        for name, y in zip(names, ys, strict=True)
    ]
    heat = {
        "type": "heatmap",
        "x": draw.numbers(first),
        "y": [draw.text(name) for name in names],
        "z": [draw.numbers(own) for own in shares],
        "colorscale": [[0.0, "@paper"], [1.0, "@orange"]],
        "zmin": 0,
        "zmax": 1,
        "text": begins,
        "hovertemplate": "%{y}, from row %{text}: %{z:.0%} missing<extra></extra>",
        "colorbar": {"title": {"text": "missing"}, "tickformat": ".0%"} | draw.THIN,
    }
    figure = draw.figure(
        "The share of missing values along the rows of the table.",
        [heat],
        "row, counted from 0",
        "",
        height=draw.height(len(names)),
        yaxis={"autorange": "reversed"},
    )
    return figure._replace(wide=True)


def gains(facts: Facts) -> draw.Figure | None:
    """The gain in NLPD over the marginal fit, for each output."""
    names = [draw.text(o.name) for o in facts.outputs if o.scored is not None]
    scored = [o.scored for o in facts.outputs if o.scored is not None]
    if not scored:
        return None
    data = []
    for label, color, each in (
        ("MotleyGP", "@blue", [s.log_prob for s in scored]),
        ("independent models", "@orange", [s.log_independent for s in scored]),
    ):
        gain = [
            value - s.log_marginal
            for value, s in zip(each, scored, strict=True)
            if value is not None
        ]
        if not gain:
            continue
        # An infinite loss has no interval, and is not drawn.
        finite = [g if np.isfinite(g).all() else np.full(1, np.nan) for g in gain]
        spread = [1.96 * g.std() / np.sqrt(len(g)) for g in finite]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": names,
                "x": draw.numbers([g.mean() for g in finite]),
                "error_x": {
                    "type": "data",
                    "array": draw.numbers(spread),
                    "color": "@ink",
                    "thickness": 1,
                    "width": 2,
                },
                "marker": {"color": color},
            }
        )
    return draw.figure(
        "Gain in NLPD over the marginal, with 95 % intervals; higher is better.",
        data,
        "nats per value",
        "",
        height=draw.height(len(names) * len(data)),
        yaxis={"autorange": "reversed"},
    )
