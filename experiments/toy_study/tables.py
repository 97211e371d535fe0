"""The tables of docs/results.md."""

import numpy as np
import scipy.stats

from toy_study.methods import CELLS, METHODS, PAPER_CELLS, SGD_STEPS
from toy_study.scores import constant_nlpd, diverged, median


def default_table(held) -> str:
    lines = [
        "| toy | P | constant fit | FNG | worst of 20 | within 0.03 of best | diverged "
        "or above constant | hybrid | paper preset (diverged) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    gains: dict[str, list[float]] = {"hybrid": [], "paper-fng": []}
    for toy, p in CELLS:
        own = held.get(f"fng:{toy}:{p}")
        if own is None:
            continue
        constant = constant_nlpd(METHODS["fng"], toy, p)
        nlpd = own["nlpd"]
        bad = diverged(own) | (nlpd > constant + 0.03)
        within = int(np.sum(nlpd < np.nanmin(nlpd) + 0.03))
        row = [toy.upper(), str(p), f"{constant:.3f}", f"{median(nlpd):.4f}"]
        row += [f"{np.max(nlpd):.4f}", str(within), str(int(bad.sum()))]
        for other in gains:
            values = held.get(f"{other}:{toy}:{p}")
            if values is None:
                row.append("-")
                continue
            number = int(diverged(values).sum())
            score = median(np.where(diverged(values), np.inf, values["nlpd"]))
            gains[other].append(score - median(nlpd))
            note = f" ({number})" if other == "paper-fng" else ""
            row.append(f"{score:.4f}{note}")
        lines.append("| " + " | ".join(row) + " |")
    for other, gain in gains.items():
        finite = np.array(gain)[np.isfinite(gain)]
        if len(finite):
            lines.append(
                f"\nMedian NLPD of {other} minus that of FNG: mean {finite.mean():.4f} "
                f"over {len(finite)} cells, smallest {finite.min():.4f}."
            )
    return "\n".join(lines)


def paper_table(held) -> str:
    lines = [
        "| P | scheme | diverged | median NELBO | median NLPD | NLPD minus FNG's |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for toy, p in PAPER_CELLS:
        base = held.get(f"paper-fng:{toy}:{p}")
        step = largest_sgd_step(held, toy, p)
        names = ["paper-fng", "paper-hybrid", "paper-adam", f"paper-sgd-{step:g}"]
        for name in [*names, "paper-fng-still"]:
            values = held.get(f"{name}:{toy}:{p}")
            if values is None or base is None:
                continue
            bad = diverged(values, frozen="sgd" in name)
            both = ~bad & ~diverged(base)
            pairs = (values["nlpd"] - base["nlpd"])[both]
            row = [
                str(p),
                name.removeprefix("paper-"),
                f"{int(bad.sum())} of {len(bad)}",
            ]
            row += [f"{np.median(values['nelbo'][~bad]):.1f}" if (~bad).any() else "-"]
            row += [f"{np.median(values['nlpd'][~bad]):.4f}" if (~bad).any() else "-"]
            row += ["-" if name == "paper-fng" else interval(pairs)]
            lines.append("| " + " | ".join(row) + " |")
        constant = constant_nlpd(METHODS["paper-fng"], toy, p)
        lines.append(f"| {p} | constant fit | | | {constant:.4f} | |")
    return "\n".join(lines)


def largest_sgd_step(held, toy: str, p: int) -> float:
    """The largest of the steps that lose the fewest runs."""
    lost = {
        step: int(diverged(values, frozen=True).sum())
        for step in SGD_STEPS
        if (values := held.get(f"paper-sgd-{step:g}:{toy}:{p}")) is not None
    }
    return min(lost, key=lambda step: (lost[step], -step)) if lost else SGD_STEPS[-1]


def interval(pairs: np.ndarray) -> str:
    """The mean paired difference and its 95 % interval by Student's t."""
    if len(pairs) < 2:
        return "-"
    half = scipy.stats.t.ppf(0.975, len(pairs) - 1) * scipy.stats.sem(pairs)
    mean = pairs.mean()
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}] (n = {len(pairs)})"


def extra_table(held) -> str:
    lines = ["| method | toy | P | median NLPD | worst | median NELBO |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for job, values in held.items():
        name, toy, p = job.split(":")
        if name == "unwhitened" or name.startswith("long"):
            row = [name, toy.upper(), p, f"{median(values['nlpd']):.4f}"]
            row += [
                f"{np.max(values['nlpd']):.4f}",
                f"{np.median(values['nelbo']):.1f}",
            ]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)
