"""The command `motleygp`, as `python -m motleygp`."""

import sys

from motleygp_cli import main

if __name__ == "__main__":
    sys.exit(main())
