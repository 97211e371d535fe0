"""The tables of the page about the reproduction, from `results/`, as Markdown.

    python docs/tables/reproduction.py            # print them
    python docs/tables/reproduction.py --write    # put them into docs/reproduction.md

Each table stands between two comments that name it. The figures are copied, too.
"""

import argparse
import csv
import re
import shutil
from pathlib import Path

from motleygp_reproduce import STUDIES, records
from motleygp_reproduce.claims import CLAIMS, Verdict, judge, smallest_variances
from motleygp_reproduce.methods import METHODS
from motleygp_reproduce.records import Record
from motleygp_reproduce.running import RUNS, constants_of
from motleygp_reproduce.summary import differences, scores, variances

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "reproduction.md"
_PUBLISHED, _CODE_SEED = ("lmc", "fng", "2000"), 101
_HEADER = [
    "| the paper says | variant | mark | evidence |",
    "| --- | --- | --- | --- |",
]
_SIGMA = (
    "The covariance of q(theta) converged to very small values, in general "
    "sigma^2 <= 1e-15"
)


def read(study: str) -> list[Record]:
    """The records of an experiment."""
    return records.read(RESULTS / study / RUNS)


def tables() -> dict[str, str]:
    """All tables by name."""
    found = {}
    for name, study in STUDIES.items():
        if own := read(name):
            found[f"{name} scores"] = scores(study, own, constants_of(own))
            found[f"{name} differences"] = differences(study, own)
            found[f"{name} variances"] = variances(study, own)
    found["claims"] = claims()
    found["published"] = published()
    return found


def published() -> str:
    """The final scores of FNG with the linear model, as published, seed by seed."""
    scores: dict[tuple[str, str], dict[int, list[float]]] = {}
    with (RESULTS / "authors.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            if (line["prior"], line["scheme"], line["iteration"]) == _PUBLISHED:
                own = scores.setdefault((line["name"], line["rows"]), {})
                own.setdefault(int(line["seed"]), []).append(float(line["nlpd"]))
    lines = [
        "| set | rows | seed 101 | seeds 0 to 4 |",
        "| --- | --- | --- | --- |",
    ]
    for (name, rows), own in sorted(scores.items()):
        means = {seed: f"{sum(v) / len(v):.3f}" for seed, v in sorted(own.items())}
        first = means.pop(_CODE_SEED, "")
        lines.append(f"| {name} | {rows} | {first} | {', '.join(means.values())} |")
    return "\n".join(lines)


def claims() -> str:
    """Each statement of the paper, with a mark and the evidence of each variant."""
    every = {name: read(name) for name in STUDIES}
    runs = [own for each in every.values() for own in each]
    variants = dict.fromkeys(m.variant for m in METHODS if m.variant != "default")
    lines = _HEADER.copy()
    for claim in CLAIMS:
        verdicts = {v: judge(claim, every[claim.study], v) for v in variants}
        lines += _lines(claim.says, verdicts)
    verdicts = {v: smallest_variances(runs, v) for v in variants}
    return "\n".join(lines + _lines(_SIGMA, verdicts))


def _lines(said: str, verdicts: dict[str, Verdict]) -> list[str]:
    """The lines of one statement: it stands in the first."""
    lines = []
    for variant, (mark, evidence) in verdicts.items():
        lines.append(f"| {said} | {variant} | {mark} | {evidence} |")
        said = ""
    return lines


def filled(page: str) -> str:
    """The page with the present tables."""
    for name, table in tables().items():
        pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
        page = re.sub(
            pattern,
            lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="change the page")
    if not parser.parse_args().write:
        for name, table in tables().items():
            print(f"{name}\n\n{table}\n")
        return
    PAGE.write_text(filled(PAGE.read_text()))
    for study in STUDIES:
        for picture in sorted((RESULTS / study).glob("*.png")):
            shutil.copy(picture, PAGE.parent / picture.name)


if __name__ == "__main__":
    main()
