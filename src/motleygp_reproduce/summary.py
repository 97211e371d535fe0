"""The summary of an experiment, in Markdown."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from motleygp_reproduce.intervals import (
    LEVEL,
    mean_nlpd,
    paired,
    unpaired,
    values_of,
)
from motleygp_reproduce.methods import DEFAULT, Method
from motleygp_reproduce.records import Cell, Record
from motleygp_reproduce.studies import Study

# The NLPD of the constant fit by set and number of inputs.
Constants = Mapping[tuple[str, int], float]


def summary(
    study: Study,
    records: Sequence[Record],
    constants: Constants,
    figures: Iterable[str],
) -> str:
    """All of it: figures, scores, paired differences, variances."""
    parts = [f"# {study.title}", _about(records)]
    parts += [f"![{name}]({name}.png)" for name in figures]
    parts += ["## Scores", scores(study, records, constants)]
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


def scores(study: Study, records: Sequence[Record], constants: Constants) -> str:
    """The final scores, one line per cell, after the constant fit of each set."""
    lines = [
        "| set | P | minibatch | method | survive | median NLPD | mean | sd | worst "
        "| median NELBO | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    told = set()
    for cell, own in by_cell(study, records):
        if cell[:2] not in told:
            told.add(cell[:2])
            lines.append(_constant_line(cell, constants))
        alive = [record for record in own if record.survived]
        start = f"{_start(cell)} | {len(alive)} of {len(own)} "
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


def _start(cell: Cell) -> str:
    """The first columns of a line."""
    size, inputs = cell.batch_size or "own", cell.num_inputs or "-"
    return f"| {cell.data} | {inputs} | {size} | {cell.method.label}"


def _constant_line(cell: Cell, constants: Constants) -> str:
    """The score of parameters that do not depend on the inputs."""
    start = f"| {cell.data} | {cell.num_inputs or '-'} | | constant fit | "
    return f"{start}| {constants[cell[:2]]:.4f} | | | | | |"


def differences(study: Study, records: Sequence[Record]) -> str:
    """The NLPD of each scheme minus that of FNG of the same variant, paired by start;
    and that of the default minus that of FNG."""
    lines = [
        "The NLPD minus that of FNG in the same variant, paired by the start, with "
        f"{100 * LEVEL:.0f} % intervals by Student's t over the starts that survive "
        "with both methods; above 0, FNG is better. The last lines of a set compare "
        "the default, whose starts are its own, with FNG: their intervals are not "
        "paired (Welch).",
        "",
        "| set | P | minibatch | method | against | difference | n |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    held = dict(by_cell(study, records))
    for cell, own in held.items():
        for other in _rivals(cell, held):
            against = other.method.label
            first, second = values_of(own), values_of(held[other])
            if cell.method.variant != DEFAULT:
                found = paired(first, second)
            else:
                found = unpaired([*first.values()], [*second.values()])
                if len(study.batch_sizes) > 1:
                    against += f" ({other.batch_size})"
            count = ", ".join(map(str, found.counts))
            lines.append(f"{_start(cell)} | {against} | {found} | {count} |")
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


def variances(study: Study, records: Sequence[Record]) -> str:
    """How small sigma^2 is at the end: medians over the runs."""
    lines = []
    for cell, own in by_cell(study, records):
        found = np.array([r.variance for r in own if r.survived and r.variance])
        if len(found):
            shown = " | ".join(f"{value:.1e}" for value in np.median(found, axis=0))
            lines.append(f"{_start(cell)} | {shown} |")
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


def by_cell(study: Study, records: Sequence[Record]) -> list[tuple[Cell, list[Record]]]:
    """The records of each cell that has any, in the order of the experiment."""
    held: dict[Cell, list[Record]] = {cell: [] for cell in study.cells}
    for record in records:
        held[record.cell].append(record)
    return [(cell, own) for cell, own in held.items() if own]
