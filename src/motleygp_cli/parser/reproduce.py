"""The arguments of `motleygp reproduce`."""

from pathlib import Path

from motleygp_cli.parser import values
from motleygp_cli.parser.base import Command, Parser, add_quiet

VO = "vo"
# The names stand here because the experiments import the library, which is slow.
EXPERIMENTS = ("toy-convergence", "toy-dimensions", "toy-batch")


def _add_arguments(reproduce: Parser) -> None:
    reproduce.add_argument(
        "experiment",
        choices=(VO, *EXPERIMENTS),
        metavar="EXPERIMENT",
        help=f"one of {', '.join((VO, *EXPERIMENTS))}",
    )
    reproduce.add_argument(
        "-o",
        "--output-dir",
        type=values.folder,
        default=Path("motleygp-reproduce"),
        metavar="FOLDER",
        help="folder of the experiments, each in a folder of its own, where runs that "
        "are there already are kept (default: %(default)s)",
    )
    reproduce.add_option(
        "--methods",
        values.names,
        "A,B",
        "the methods to run, such as paper-fng,default (default: all)",
    )
    reproduce.add_option(
        "--inits",
        values.count,
        "N",
        "starts of each method (default: 10 of SGD and Adam, 20 of the others)",
    )
    reproduce.add_argument(
        "--jobs",
        type=values.count,
        default=1,
        metavar="N",
        help="processes on a CPU (default: %(default)s)",
    )
    said = "the folder of the data (default: the environment variable MOTLEYGP_DATA)"
    reproduce.add_option("--data-dir", values.folder, "DIR", said)
    reproduce.add_argument(
        "--quick", action="store_true", help="few starts and iterations, in minutes"
    )
    add_quiet(reproduce)


REPRODUCE = Command(
    "reproduce",
    "run an experiment of the paper, and write its runs, figures and a summary",
    "toy-convergence --quick",
    _add_arguments,
)
