"""Ctrl-C during imports and inside hooks."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from motleygp_cli.errors import INTERRUPTED


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process without clean-up.

    This is for imports, which write nothing. Some extension modules crash when Ctrl-C
    interrupts their import.
    """
    usual = signal.default_int_handler
    main_thread = threading.current_thread() is threading.main_thread()
    # Another handler stays: the signal may be ignored, as in background processes.
    if not main_thread or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Send Ctrl-C again when a hook has swallowed it.

    JAX has a hook on the garbage collector. Python reports a `KeyboardInterrupt` in
    such a hook and then forgets it.
    """
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if lost.exc_type is KeyboardInterrupt:
            # The delay is needed: an error raised here would be forgotten as well.
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
