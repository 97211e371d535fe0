"""The page of a report: one HTML file that needs nothing else."""

import datetime
import json
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from motleygp._version import __version__
from motleygp.optim import Scheme
from motleygp.prediction import inspection
from motleygp.reporting import _figures
from motleygp.reporting._facts import Facts, Output
from motleygp.reporting._figures import Figure
from motleygp.reporting._remarks import Remark, percent, remarks, surprising

_ENDED = {
    "horizon": "all iterations done, or no more to gain",
    "held-out": "held-out rows no longer improved",
    "time": "the time limit",
    "interrupted": "interrupted",
}
_SURPRISING = 5
# The browser itself refuses to load anything.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:"
)
_WORDS = {
    "NLPD": "Minus the mean log density of the values that came; lower is better. Of a "
    "real output it depends on the unit, so compare it with the marginal's.",
    "marginal": "The best distribution of an output that does not look at the inputs, "
    "fitted to the same data.",
    "RMSE": "The root of the mean squared error of the predictive mean.",
    "CRPS": "The continuous ranked probability score: an absolute error that rewards "
    "honest uncertainty; lower is better, in the unit of the output.",
    "coverage": "The share of values inside the central 95 % interval; for counts and "
    "classes it may be larger.",
    "latent process": "The outputs are mixtures of a few random functions, which they "
    "share: that is how one output helps another.",
    "refused step": "A step of training that would have led where the model is not "
    "defined; it was not taken.",
}


def page(
    facts: Facts,
    title: str,
    ys: list[np.ndarray],
    watch: Callable[[Sequence[Any]], Iterable[Any]],
) -> str:
    """The whole document."""
    drawn: list[Figure] = []
    body = "\n".join(
        [
            _summary(facts),
            _remarks(remarks(facts)),
            _data(facts, ys, drawn),
            _scores(facts, drawn),
            _outputs(facts, drawn, watch),
            _training(facts, drawn),
            _model(facts, drawn),
            _words(),
        ]
    )
    figures = json.dumps(
        [{"data": f.data, "layout": f.layout} for f in drawn],
        allow_nan=False,
        separators=(",", ":"),
    )
    made = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_resource("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="soft">Made by MotleyGP {__version__} on {made}.</p>
<nav aria-label="Contents"><ul>{_contents(facts)}</ul></nav>
<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>
</header>
<main>
{body}
</main>
<footer><p>Pictures answer the pointer: hover for values, drag to zoom, double-click to
go back, click a name in a legend to hide it.</p></footer>
<script type="application/json" id="figures">{_inside_script(figures)}</script>
<script>{_inside_script(get_plotlyjs())}</script>
<script>
{_resource("page.js")}</script>
</body>
</html>
"""


def _resource(name: str) -> str:
    return resources.files("motleygp.reporting").joinpath(name).read_text("utf-8")


def _inside_script(text: str) -> str:
    """Nothing in it may end the script."""
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")


# Pieces of HTML.


def _section(anchor: str, title: str, *parts: str) -> str:
    inner = "\n".join(part for part in parts if part)
    return f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{inner}\n</section>'


def _table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    texts: Sequence[int] = (0,),
) -> str:
    """Numbers at the right, the columns in `texts` at the left; the first names its
    row."""

    def cell(place: int, value: Any, scope: str | None = None) -> str:
        kind = ' class="text"' if place in texts else ""
        if scope:
            return f'<th scope="{scope}"{kind}>{escape(_shown(value))}</th>'
        return f"<td{kind}>{escape(_shown(value))}</td>"

    head = "".join(cell(place, name, "col") for place, name in enumerate(header))
    body = "\n".join(
        "<tr>"
        + "".join(cell(p, value, None if p else "row") for p, value in enumerate(row))
        + "</tr>"
        for row in rows
    )
    said = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f"<table><caption>{said}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _shown(value: Any) -> str:
    """A number as people read it; a dash for none."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}" if np.isfinite(value) else "\u2013"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return "\u2013" if value is None else str(value)


def _percent(share: float) -> str:
    if not np.isfinite(share):
        return "\u2013"
    # A share that is not quite all or nothing must not look so.
    fine = 0.0 < share < 0.01 or 0.99 < share < 1.0
    return percent(share, 1 if fine else 0)


def _gallery(drawn: list[Figure], figures: Iterable[Figure | None]) -> str:
    """Places for figures, which are numbered in the order they come."""
    parts = []
    for figure in figures:
        if figure is None:
            continue
        caption, kind = escape(figure.caption), ' class="wide"' if figure.wide else ""
        parts.append(
            f'<figure{kind}><div class="plot" role="img" aria-label="{caption}" '
            f'data-figure="{len(drawn)}" style="height:{figure.layout["height"]}px">'
            f"</div><figcaption>{caption}</figcaption></figure>"
        )
        drawn.append(figure)
    return f'<div class="figures">{"".join(parts)}</div>' if parts else ""


def _contents(facts: Facts) -> str:
    parts = [("remarks", "What to look at"), ("data", "Data")]
    if facts.with_data:
        parts.append(("scores", "Scores"))
    parts += [("outputs", "Outputs"), ("training", "Training"), ("model", "Model")]
    parts.append(("words", "Words"))
    return "".join(f'<li><a href="#{a}">{escape(name)}</a></li>' for a, name in parts)


# Sections.


def _summary(facts: Facts) -> str:
    seen = [output.seen for output in facts.outputs]
    entries: dict[str, Any] = {
        "outputs": len(facts.outputs),
        "inputs": len(facts.fitted.inputs),
        "rows of the fit": max(s.rows for s in seen),
        "iterations": len(facts.fitted.trace["iteration"]),
    }
    scored = [o.scored for o in facts.outputs if o.scored is not None]
    if scored:
        entries["rows scored"] = facts.num_scored
        entries["mean NLPD"] = float(np.mean([-s.log_prob.mean() for s in scored]))
        marginal = float(np.mean([-s.log_marginal.mean() for s in scored]))
        entries["NLPD of marginals"] = marginal
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(_shown(value))}</dd></div>"
        for name, value in entries.items()
    )
    return f'<dl class="facts">{cells}</dl>'


def _remarks(found: list[Remark]) -> str:
    if not found:
        said = "<p>Nothing unusual was found.</p>"
    else:
        items = "\n".join(
            f'<li class="warning"><strong>Warning</strong>{escape(r.text)}</li>'
            if r.warning
            else f"<li><strong>Note</strong>{escape(r.text)}</li>"
            for r in found
        )
        said = f'<ul class="remarks">\n{items}\n</ul>'
    return _section("remarks", "What to look at", said)


def _data(facts: Facts, ys: list[np.ndarray], drawn: list[Figure]) -> str:
    outputs = _table(
        "Outputs of the model",
        ("output", "likelihood", "values of the fit", "missing", "chosen because"),
        [
            (
                o.name,
                o.likelihood.name,
                o.seen.observed,
                _percent(1.0 - o.seen.observed / o.seen.rows),
                o.choice.reason if o.choice else "it was named",
            )
            for o in facts.outputs
        ],
        texts=(0, 1, 4),
    )
    low, high = facts.fitted.input_range
    header = ["input", "smallest in the fit", "largest"]
    columns: list[Sequence[Any]] = [facts.fitted.inputs, low.tolist(), high.tolist()]
    if facts.with_data:
        header += ["smallest here", "largest", "rows outside"]
        columns += [facts.rows.min(axis=0).tolist(), facts.rows.max(axis=0).tolist()]
        columns.append([_percent(share) for share in facts.outside])
    inputs = _table("Inputs", header, zip(*columns, strict=True))
    values = ""
    if facts.with_data:
        values = _table(
            "Values in the table of this report",
            ("output", "values", "missing", "smallest", "median", "largest", "mean"),
            [_described(o, y) for o, y in zip(facts.outputs, ys, strict=True)],
        )
    names = [o.name for o in facts.outputs]
    picture = _gallery(drawn, [_figures.missing(names, ys)])
    return _section("data", "Data", outputs, inputs, values, picture)


def _described(output: Output, y: np.ndarray) -> tuple[Any, ...]:
    known = y[~np.isnan(y)]
    absent = _percent(1.0 - len(known) / len(y))
    if not len(known):
        return (output.name, 0, absent, None, None, None, None)
    middle = float(np.median(known))
    ends = float(known.min()), float(known.max())
    return (output.name, len(known), absent, ends[0], middle, ends[1], known.mean())


def _scores(facts: Facts, drawn: list[Figure]) -> str:
    if not facts.with_data:
        return ""
    alone = any(
        o.scored and o.scored.log_independent is not None for o in facts.outputs
    )
    header = ["output", "values", "NLPD", "marginal", "gain"]
    header += ["independent"] if alone else []
    header += ["RMSE", "CRPS", "coverage 95 %", "accuracy"]
    rows = [_score_row(o, alone) for o in facts.outputs]
    some = ""
    if facts.num_scored < facts.num_rows:
        some = (
            f"<p>The table has {facts.num_rows:,} rows, of which {facts.num_scored:,} "
            "were scored, chosen at random.</p>"
        )
    said = (
        "<p>Scores mean something on rows that the fit has not seen. The marginal is "
        "the best distribution that does not look at the inputs"
    )
    said += (
        "; the independent models learn each output alone.</p>" if alone else ".</p>"
    )
    table = _table("Scores, in the units of the data", header, rows)
    return _section(
        "scores", "Scores", said, some, table, _gallery(drawn, [_figures.gains(facts)])
    )


def _score_row(output: Output, alone: bool) -> list[Any]:
    scored = output.scored
    if scored is None:
        return [output.name, 0] + [None] * (8 if alone else 7)
    ours, marginal = -scored.log_prob.mean(), -scored.log_marginal.mean()
    row: list[Any] = [output.name, len(scored.y), ours, marginal, marginal - ours]
    if alone:
        assert scored.log_independent is not None
        row.append(-scored.log_independent.mean())
    scores = scored.scores
    row += [scores["rmse"], scores["crps"], _percent(scores["coverage95"])]
    return [*row, _percent(scores["accuracy"]) if "accuracy" in scores else None]


def _outputs(
    facts: Facts,
    drawn: list[Figure],
    watch: Callable[[Sequence[Any]], Iterable[Any]],
) -> str:
    grid = _figures.grids(facts)
    links = "".join(
        f'<li><a href="#output-{number}">{escape(output.name)}</a></li>'
        for number, output in enumerate(facts.outputs)
    )
    parts = [f'<nav aria-label="Outputs"><ul>{links}</ul></nav>']
    for number, output in enumerate(watch(facts.outputs)):
        figures = [*_figures.predictions(facts, output, grid)]
        figures += _figures.calibration(output)
        parts += [
            f'<section id="output-{number}"><h3>{escape(output.name)} '
            f'<span class="soft">({output.likelihood.name})</span></h3>',
            _gallery(drawn, figures),
            _surprises(output),
            "</section>",
        ]
    return _section("outputs", "Outputs", *parts)


def _surprises(output: Output) -> str:
    """The values that were least expected."""
    scored = output.scored
    if scored is None or output.likelihood.binary:
        return ""
    places = surprising(scored, _SURPRISING)
    return _table(
        f"The values of {output.name} that were least expected, and how likely one so "
        "far out was",
        ("row", "value", "predicted", "chance of it"),
        [
            (
                str(scored.rows[place]),
                scored.y[place],
                scored.mean[place],
                2.0 * min(scored.pit[place], 1.0 - scored.pit[place]),
            )
            for place in places
        ],
    )


def _scheme_name(scheme: Scheme) -> str:
    moves = (scheme.q, "q(u)"), (scheme.theta, "theta")
    return ", ".join(f"{by.name.replace('_', ' ')} on {what}" for by, what in moves)


def _training(facts: Facts, drawn: list[Figure]) -> str:
    fitted, trace = facts.fitted, facts.fitted.trace
    prior = fitted.model.prior
    groups, num_inducing, _ = prior.inducing.shape
    rows = [
        ("prior", prior.name),
        ("latent processes", len(prior.rank)),
        ("inducing points", f"{num_inducing} in each of {groups} groups"),
        ("optimizer", _scheme_name(fitted.scheme)),
        ("iterations", len(trace["iteration"])),
        ("ended by", _ENDED.get(fitted.ended, fitted.ended)),
        ("steps of q(u) shortened", int(np.sum(trace["shrunk"] > 0))),
        ("steps of q(u) refused", int(np.sum(trace["refused"] > 0))),
        ("draws of theta refused", int(np.sum(trace["theta_refused"] > 0))),
        ("starts", len(fitted.starts)),
        ("seed", None if facts.seed is None else str(facts.seed)),
    ]
    table = _table("How the model was trained", ("what", "value"), rows, texts=(0, 1))
    pictures = [_figures.trace(trace), _figures.restarts(fitted.starts)]
    return _section("training", "Training", table, _gallery(drawn, pictures))


def _model(facts: Facts, drawn: list[Figure]) -> str:
    fitted = facts.fitted
    correlation = _figures.heat_map(
        "The prior's correlation between the functions at one input: what the outputs "
        "share.",
        inspection.correlation(fitted),
        1.0,
    )
    weights = _figures.heat_map(
        "The weight of each latent process in each function.",
        inspection.weights(fitted),
    )
    scales = inspection.lengthscales(fitted)
    table = _table(
        "Length-scales of the latent processes, in the units of the inputs",
        ("process", *facts.fitted.inputs),
        [(name, *row) for name, *row in scales.itertuples()],
    )
    pictures = [
        correlation,
        weights,
        _figures.relevance(facts),
        _figures.inducing(facts),
    ]
    return _section("model", "Model", _gallery(drawn, pictures), table)


def _words() -> str:
    entries = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        for name, text in _WORDS.items()
    )
    return _section("words", "Words", f'<dl class="words">{entries}</dl>')
