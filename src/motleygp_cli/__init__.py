"""The command `motleygp`.

It is a package of its own so that `motleygp --help` does not import JAX: the library is
imported when a command needs it.
"""

from motleygp_cli.entry import main
from motleygp_cli.errors import FAILED, GOOD, INTERRUPTED, WRONG_USE

__all__ = ["FAILED", "GOOD", "INTERRUPTED", "WRONG_USE", "main"]
