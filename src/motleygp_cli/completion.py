"""Scripts that complete the command in a shell, written by shtab from the parser.

The scripts are static: they do not run this package while somebody types.
"""

from pathlib import Path
from typing import Any

import shtab

from motleygp_cli.parser import Parser, folder


def script(parser: Parser, shell: str) -> str:
    """The script for "bash", "zsh" or "fish"."""
    kinds = {Path: shtab.FILE, folder: shtab.DIRECTORY}
    for command in parser.commands.values():
        argument: Any  # shtab reads an attribute that argparse does not declare
        for argument in command.arguments:
            if argument.type in kinds:
                argument.complete = kinds[argument.type]
    return shtab.complete(parser, shell)
