"""The parser of the command. It needs the standard library alone, to start quickly."""

from motleygp_cli.parser import data, demos, fitting, models, reproduce, shells
from motleygp_cli.parser.base import Parser
from motleygp_cli.parser.values import folder

__all__ = ["Parser", "build", "folder"]

_COMMANDS = (
    demos.DEMO,
    fitting.FIT,
    models.PREDICT,
    models.EVALUATE,
    models.REPORT,
    data.DATASETS,
    demos.VO,
    reproduce.REPRODUCE,
    shells.COMPLETION,
)


def build() -> Parser:
    """The parser with all its commands."""
    parser = Parser(
        prog="motleygp",
        description="Heterogeneous multi-output Gaussian processes.",
        epilog="example: motleygp fit sales.csv --inputs east,north "
        "--outputs change,sold:bernoulli -o sales.motley",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in _COMMANDS:
        made = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=f"example: motleygp {command.name} {command.example}",
        )
        made.set_defaults(parser=made)
        command.add_arguments(made)
        parser.commands[command.name] = made
    return parser
