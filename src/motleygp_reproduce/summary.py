"""The summary of an experiment, in Markdown."""

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.stats

from motleygp_reproduce.methods import DEFAULT, SCHEMES, Method
from motleygp_reproduce.records import Cell, Record
from motleygp_reproduce.studies import Study

_LEVEL = 0.95


def summary(study: Study, records: Sequence[Record], figures: Iterable[str]) -> str:
    """All of it: scores, paired differences, variances, figures."""
    parts = [f"# {study.title}", _about(records)]
    parts += [f"![{name}]({name}.png)" for name in figures]
    parts += ["## Scores", scores(study, records)]
    parts += ["## Paired differences", differences(study, records)]
    parts += ["## The variances of q(theta)", variances(study, records)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(records: Sequence[Record]) -> str:
    most = max(record.iterations for record in records)
    return (
        f"{len(records)} runs of at most {most} iterations. `runs.csv` has every run. "
        "A run survives if its bound and its scores are finite to the end; means, "
        "medians and intervals are over the runs that survive. The NLPD of a run is "
        "the mean over its outputs on the test rows."
    )


def scores(study: Study, records: Sequence[Record]) -> str:
    """The final scores, one line per cell."""
    lines = [
        "| set | P | minibatch | method | survive | median NLPD | mean | sd | worst "
        "| median NELBO | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell, own in by_cell(study, records):
        alive = [record for record in own if record.survived]
        size, inputs = cell.batch_size or "own", cell.num_inputs or "-"
        start = f"| {cell.data} | {inputs} | {size} | {cell.method.label} "
        start += f"| {len(alive)} of {len(own)} "
        if not alive:
            lines.append(start + "| - | - | - | - | - | - |")
            continue
        nlpd = np.array([mean_nlpd(record) for record in alive])
        nelbo = np.median([record.nelbo[-1] for record in alive])
        seconds = np.median([record.seconds for record in alive])
        sd = nlpd.std(ddof=1) if len(nlpd) > 1 else 0.0
        figures = (np.median(nlpd), nlpd.mean(), sd, nlpd.max())
        shown = " | ".join(f"{value:.4f}" for value in figures)
        lines.append(f"{start}| {shown} | {nelbo:.5g} | {seconds:.1f} |")
    return "\n".join(lines)


def differences(study: Study, records: Sequence[Record]) -> str:
    """The NLPD of each scheme minus that of FNG of the same variant, paired by start;
    and that of the default minus that of FNG."""
    lines = [
        "The NLPD minus that of FNG in the same variant, paired by the start, with "
        f"{_LEVEL:.0%} intervals by Student's t over the starts that survive with both "
        "methods; above 0, FNG is better. The last lines of a set compare the default, "
        "whose starts are its own, with FNG: their intervals are not paired (Welch).",
        "",
        "| set | P | minibatch | method | against | difference | n |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    held = dict(by_cell(study, records))
    for cell, own in held.items():
        for other in _rivals(cell, held):
            start = f"| {cell.data} | {cell.num_inputs or '-'} | "
            start += f"{cell.batch_size or 'own'} | {cell.method.label} "
            paired = cell.method.variant != DEFAULT
            found = (_paired if paired else _unpaired)(own, held[other])
            against = other.method.label
            if not paired and len(study.batch_sizes) > 1:
                against += f" ({other.batch_size})"
            lines.append(f"{start}| {against} | {found} |")
    return "\n".join(lines)


def _rivals(cell: Cell, held: Iterable[Cell]) -> list[Cell]:
    """The cells of FNG that a cell is compared with."""
    own = [c for c in held if c.method.scheme == "fng" and c[:2] == cell[:2]]
    if cell.method.variant == DEFAULT:
        return [c for c in own if c.method.variant != DEFAULT]
    same = Method(cell.method.variant, "fng")
    if cell.method == same:
        return []
    return [c for c in own if c.method == same and c.batch_size == cell.batch_size]


def _paired(own: Sequence[Record], other: Sequence[Record]) -> str:
    """The mean difference of the starts that survive in both, and its interval."""
    first, second = _by_seed(own), _by_seed(other)
    both = sorted(first.keys() & second.keys())
    values = np.array([first[seed] - second[seed] for seed in both])
    if len(values) < 2:
        return f"- | {len(values)}"
    error = values.std(ddof=1) / np.sqrt(len(values))
    reach = scipy.stats.t.ppf(0.5 + _LEVEL / 2, len(values) - 1) * error
    return _interval(values.mean(), reach) + f" | {len(values)}"


def _unpaired(own: Sequence[Record], other: Sequence[Record]) -> str:
    """The difference of the means, and Welch's interval."""
    first, second = (np.array(list(_by_seed(each).values())) for each in (own, other))
    if min(len(first), len(second)) < 2:
        return f"- | {len(first)}, {len(second)}"
    found = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = found.confidence_interval(_LEVEL)
    middle = first.mean() - second.mean()
    count = f"{len(first)}, {len(second)}"
    return _interval(middle, 0.5 * (high - low)) + f" | {count}"


def _interval(middle: float, reach: float) -> str:
    return f"{middle:+.4f} [{middle - reach:+.4f}, {middle + reach:+.4f}]"


def _by_seed(records: Iterable[Record]) -> dict[int, float]:
    """The NLPD of the runs that survive, by seed."""
    return {r.seed: mean_nlpd(r) for r in records if r.survived}


def variances(study: Study, records: Sequence[Record]) -> str:
    """How small sigma^2 is at the end: medians over the runs."""
    lines = []
    for cell, own in by_cell(study, records):
        found = np.array([r.variance for r in own if r.survived and r.variance])
        if len(found):
            shown = " | ".join(f"{value:.1e}" for value in np.median(found, axis=0))
            size, inputs = cell.batch_size or "own", cell.num_inputs or "-"
            label = cell.method.label
            lines.append(f"| {cell.data} | {inputs} | {size} | {label} | {shown} |")
    if not lines:
        return ""
    head = [
        "The smallest, the median and the largest sigma^2 of a run at its end; medians "
        "over the runs.",
        "",
        "| set | P | minibatch | method | smallest | median | largest |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(head + lines)


def mean_nlpd(record: Record) -> float:
    """The mean over the outputs at the end."""
    return float(np.mean(list(record.last.values())))


def by_cell(study: Study, records: Sequence[Record]) -> list[tuple[Cell, list[Record]]]:
    """The records of each cell that has any, in the order of the experiment."""
    held: dict[Cell, list[Record]] = {cell: [] for cell in study.cells}
    for record in records:
        held[record.cell].append(record)
    order = {scheme: place for place, scheme in enumerate(SCHEMES)}
    for own in held.values():
        own.sort(key=lambda r: (order[r.cell.method.scheme], r.seed))
    return [(cell, own) for cell, own in held.items() if own]
