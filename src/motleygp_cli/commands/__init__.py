"""The commands that use the library.

Its import takes seconds. So the functions import it themselves, after all checks that
work without it.
"""

import argparse
from collections.abc import Callable, Mapping

from motleygp_cli.commands.data import datasets
from motleygp_cli.commands.demos import demo, vo
from motleygp_cli.commands.fitting import fit
from motleygp_cli.commands.models import evaluate, predict, report
from motleygp_cli.commands.reproduce import reproduce

__all__ = ["RUN"]

RUN: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "demo": demo,
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "report": report,
    "datasets": datasets,
    "vo": vo,
    "reproduce": reproduce,
}
