"""The arguments of `motleygp datasets`."""

from pathlib import Path

from motleygp_cli.parser.base import Command, Parser, add_json_and_quiet, add_seed

# The names stand here because the library, which draws the data, is slow to import.
SYNTHETIC = ("houses", "t1", "t2", "t3")


def _add_arguments(datasets: Parser) -> None:
    datasets.add_argument(
        "name",
        nargs="?",
        choices=SYNTHETIC,
        metavar="NAME",
        help=f"one of {', '.join(SYNTHETIC)} (default: list them)",
    )
    datasets.add_argument(
        "-o", "--output", type=Path, metavar="TABLE", help="the table to write"
    )
    add_seed(datasets, "random seed of the data")
    add_json_and_quiet(datasets)


DATASETS = Command(
    "datasets",
    "list the synthetic datasets, or write one",
    "houses -o houses.csv",
    _add_arguments,
)
