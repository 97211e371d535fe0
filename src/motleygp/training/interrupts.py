"""Ctrl-C and errors beside a run: they end it, but its model so far is kept."""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from motleygp.training.journal import Callback, Report


class Beside:
    """What happens beside a fit: warnings, and errors of a callback.

    An error ends the runs as Ctrl-C does. It is raised when the `with` block ends, in
    which the caller keeps the model.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def __enter__(self) -> "Beside":
        return self

    def __exit__(self, *_: object) -> None:
        if self._error is not None:
            raise self._error

    def heard(self, callback: Callback | None) -> Callback | None:
        """The callback, with errors that wait."""
        if callback is None:
            return None

        def tell(report: Report) -> bool | None:
            with self._waiting():
                return callback(report)

        return tell

    def warn(self, message: str) -> None:
        """Warn at once, also where warnings are errors."""
        with self._waiting():
            warnings.warn(message, stacklevel=2)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            self._error = error
            raise KeyboardInterrupt from error


@contextlib.contextmanager
def noted(first: Callable[[], Any]) -> Iterator[None]:
    """Call `first` at the first Ctrl-C; the second one raises `KeyboardInterrupt`.

    Ctrl-C stays as it is in other threads, and where it has another handler.
    """
    usual = signal.default_int_handler
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def note(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        first()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended, in which the model is kept."""
    came: list[bool] = []
    with noted(lambda: came.append(True)):
        yield
    if came:
        raise KeyboardInterrupt
