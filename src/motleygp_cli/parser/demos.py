"""The arguments of the demonstrations: demo and vo."""

from pathlib import Path

from motleygp_cli.parser import values
from motleygp_cli.parser.base import Command, Parser, add_number, add_quiet, add_seed


def _add_demo(demo: Parser) -> None:
    _add_folder(demo, Path("motleygp-demo"), "folder for the files")
    add_number(demo, "--max-iter", 600, "maximum number of iterations")
    add_seed(demo, "random seed of the start and the minibatches")
    add_quiet(demo)


def _add_vo(vo: Parser) -> None:
    _add_folder(vo, Path("motleygp-vo"), "folder for the pictures")
    add_number(vo, "--seeds", 100, "number of runs")
    add_seed(vo, "random seed of the runs")
    vo.add_argument("--quiet", action="store_true", help="print only the results")


def _add_folder(command: Parser, default: Path, help: str) -> None:
    command.add_argument(
        "-o",
        "--output-dir",
        type=values.folder,
        default=default,
        metavar="FOLDER",
        help=f"{help} (default: %(default)s)",
    )


DEMO = Command(
    "demo",
    "fit toy data, print the scores, and write a picture and a report",
    "-o toy",
    _add_demo,
)
VO = Command(
    "vo",
    "run variational optimisation on the paper's example from many seeds",
    "-o pictures --seeds 1000",
    _add_vo,
)
