"""The figures of an experiment, in the paper's style."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from motleygp_reproduce.intervals import mean_nlpd
from motleygp_reproduce.methods import (
    AUTHORS,
    DEFAULT,
    PAPER,
    SCHEMES,
    VARIANTS,
    Method,
)
from motleygp_reproduce.records import Record
from motleygp_reproduce.studies import Study

# Colours of Okabe and Ito.
_COLOURS = {"sgd": "#999999", "adam": "#E69F00", "hybrid": "#0072B2", "fng": "#D55E00"}
_DEFAULT_COLOUR = "#009E73"
# A box beyond this distance from the others, in their spreads, would hide these.
_SPREADS = 4.0


def draw(study: Study, records: Sequence[Record]) -> dict[str, Figure]:
    """The figures by name: one for each variant of the paper's schemes, with the
    default beside them."""
    kind: Callable[[Study, list[Record], str], Figure]
    kind = {"convergence": _convergence, "sizes": _sizes}[study.figure]
    found, order = {}, study.cells
    # Runs in several processes end in any order.
    records = sorted(records, key=lambda record: order.index(record.cell))
    for variant in VARIANTS:
        own = [r for r in records if r.cell.method.variant in (variant, DEFAULT)]
        if variant != DEFAULT and any(r.cell.method.variant == variant for r in own):
            found[f"{study.name}-{variant}"] = kind(study, own, variant)
    return found


def _convergence(study: Study, records: list[Record], variant: str) -> Figure:
    """The mean NELBO, and boxes of each output's NLPD at several iterations."""
    names = list(next(r.nlpd for r in records if r.nlpd))
    columns = 3
    rows = -(-(1 + len(names)) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    _traces(axes[0], records)
    for ax, name in zip(axes[1:], names, strict=False):
        groups = _by_mark(study, records, name)
        _boxes(ax, groups, _methods(records))
        ax.set(title=name, xlabel="iteration", ylabel="test NLPD")
    for ax in axes[1 + len(names) :]:
        ax.axis("off")
    _finish(figure, study, records, variant)
    return figure


def _sizes(study: Study, records: list[Record], variant: str) -> Figure:
    """Boxes of the mean NLPD over the outputs, by the number of inputs or the size of
    the minibatches."""
    by_batch = len(study.batch_sizes) > 1
    sets = [f"{data}, P = {p}" for data, p in study.sets] if by_batch else []
    names = sets or list(dict.fromkeys(data for data, _ in study.sets))
    figure = Figure(figsize=(4.6 * len(names), 3.6), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        groups: dict[str, dict[Method, list[float]]] = {}
        for record in records:
            cell = record.cell
            own = f"{cell.data}, P = {cell.num_inputs}" if by_batch else cell.data
            if own != name:
                continue
            place = (cell.batch_size or "own") if by_batch else cell.num_inputs
            scores = groups.setdefault(str(place), {}).setdefault(cell.method, [])
            if record.survived:
                scores.append(mean_nlpd(record))
        _boxes(ax, groups, _methods(records))
        ax.set(
            title=name.upper() if not by_batch else name,
            xlabel="rows in a minibatch" if by_batch else "P",
            ylabel="mean test NLPD",
        )
    _finish(figure, study, records, variant)
    return figure


def _traces(ax: Axes, records: list[Record]) -> None:
    """The mean NELBO of each method over the starts that came to the end."""
    lowest = np.inf
    for method in _methods(records):
        own = [r for r in records if r.cell.method == method and r.survived]
        if not own:
            continue
        mean = np.mean([r.nelbo for r in own], axis=0)
        ax.plot(own[0].at, mean, color=_colour(method), label=method.label)
        lowest = min(lowest, mean.min())
    if lowest > 0.0:
        ax.set_yscale("log")
    else:
        ax.set_yscale("symlog", linthresh=max(1.0, abs(lowest) / 10.0))
    ax.set(title="mean NELBO", xlabel="iteration", ylabel="NELBO")


def _by_mark(
    study: Study, records: list[Record], name: str
) -> dict[str, dict[Method, list[float]]]:
    """The scores of one output by iteration and method."""
    groups: dict[str, dict[Method, list[float]]] = {}
    for mark in (*study.marks, study.iterations):
        groups[str(mark)] = own = {}
        for record in records:
            if not record.survived:
                continue
            # A run that ended before the mark stays as it is.
            past = [i for i, at in enumerate(record.scored_at) if at <= mark]
            if past:
                score = record.nlpd[name][past[-1]]
                own.setdefault(record.cell.method, []).append(score)
    return groups


def _boxes(
    ax: Axes,
    groups: Mapping[str, Mapping[Method, list[float]]],
    methods: Sequence[Method],
) -> None:
    """Box plots side by side, in the order of the legend, one group beside another."""
    width = 0.8 / len(methods)
    for place, group in enumerate(groups.values()):
        for number, method in enumerate(methods):
            scores = group.get(method)
            if not scores:
                continue
            at = place + (number - 0.5 * (len(methods) - 1)) * width
            ax.boxplot(
                [scores],
                positions=[at],
                widths=0.85 * width,
                patch_artist=True,
                manage_ticks=False,
                boxprops=dict(facecolor=_colour(method), linewidth=0.6),
                medianprops=dict(color="black", linewidth=0.9),
                whiskerprops=dict(linewidth=0.6),
                capprops=dict(linewidth=0.6),
                flierprops=dict(marker="d", markersize=2.5, linewidth=0.0),
            )
    ax.set_xticks(range(len(groups)), list(groups))
    ax.set_xlim(-0.6, len(groups) - 0.4)
    _limit(ax, groups)


def _limit(ax: Axes, groups: Mapping[str, Mapping[Method, list[float]]]) -> None:
    """Cut the axis above the scores of nearly all methods, and say so."""
    medians = [np.median(s) for group in groups.values() for s in group.values() if s]
    if not medians:
        return
    low, high = np.quantile(medians, (0.0, 0.75))
    top = high + _SPREADS * max(high - low, 0.1)
    every = [s for group in groups.values() for own in group.values() for s in own]
    above = sum(score > top for score in every)
    if above:
        bottom = min(every)
        ax.set_ylim(bottom - 0.05 * (top - bottom), top)
        ax.text(
            *(0.98, 0.97, f"{above} scores lie above"),
            transform=ax.transAxes,
            ha="right",
            va="top",
            fontsize=7,
            color="0.35",
        )


def _methods(records: Iterable[Record]) -> list[Method]:
    """The methods that occur, in the order of the paper's legends."""
    found = {record.cell.method for record in records}
    order = list(SCHEMES)
    return sorted(found, key=lambda m: (m.variant == DEFAULT, order.index(m.scheme)))


def _colour(method: Method) -> str:
    if method.variant == DEFAULT:
        return _DEFAULT_COLOUR
    return _COLOURS[method.scheme]


def _finish(figure: Figure, study: Study, records: list[Record], variant: str) -> None:
    """A legend, and a title that tells the variant."""
    methods = _methods(records)
    patches = [Patch(facecolor=_colour(m), label=_short(m)) for m in methods]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches))
    said = {PAPER: "the paper's schemes", AUTHORS: "the schemes as published"}
    figure.suptitle(f"{study.title} ({said[variant]})", fontsize=11)


def _short(method: Method) -> str:
    return "MotleyGP" if method.variant == DEFAULT else SCHEMES[method.scheme]
