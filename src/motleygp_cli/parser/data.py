"""The arguments of `motleygp datasets`."""

from pathlib import Path

from motleygp_cli.parser import values
from motleygp_cli.parser.base import Command, Parser, add_json_and_quiet, add_seed

FETCH = "fetch"
# The names stand here because the library, which has the data, is slow to import.
NAMES = (
    *("t1", "t2", "t3", "london", "london-flat", "naval", "human", "human-synthetic"),
    *("sarcos", "sarcos-4449", "mocap7", "mocap9"),
    *("traffic-8am", "traffic-8am-unscaled", "jura", "seattle-weather", "houses"),
)


def _add_arguments(datasets: Parser) -> None:
    datasets.add_argument(
        "name",
        nargs="?",
        choices=(*NAMES, FETCH),
        metavar="NAME",
        help="a data set to describe, or with -o to write (default: list them all), "
        f"or the word {FETCH!r} before one to download",
    )
    datasets.add_argument(
        "wanted",
        nargs="?",
        choices=NAMES,
        metavar="NAME",
        help=f"the data set to download, after {FETCH!r}",
    )
    datasets.add_argument(
        "-o", "--output", type=Path, metavar="TABLE", help="the table to write"
    )
    said = "the folder of the data (default: the environment variable MOTLEYGP_DATA)"
    datasets.add_option("--data-dir", values.folder, "DIR", said)
    said = "download from this folder instead of the known one"
    datasets.add_option("--from", values.address, "URL", said)
    add_seed(datasets, "random seed of data that are drawn")
    add_json_and_quiet(datasets)


DATASETS = Command(
    "datasets",
    "list the data sets, describe one, write it as a table, or fetch its files",
    "houses -o houses.csv",
    _add_arguments,
)
