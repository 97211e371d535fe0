"""The exit codes, and the error for wrong use."""

# Scripts may rely on these.
GOOD, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


class UsageError(ValueError):
    """The request cannot be right: it names an unknown column, file or setting."""
