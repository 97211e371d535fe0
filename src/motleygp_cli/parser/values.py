"""Readers of the arguments' values."""

import argparse
from collections.abc import Callable
from pathlib import Path


def names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def outputs(text: str) -> dict[str, str]:
    """Likelihoods by output, from "price:hetgaussian,flat"; the default is "auto"."""
    found: dict[str, str] = {}
    for left, _, right in (name.rpartition(":") for name in names(text)):
        name = left or right
        if name in found:
            raise argparse.ArgumentTypeError(
                f"each column must be named once; got {name!r} twice"
            )
        found[name] = right if left else "auto"
    return found


def levels(text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(level) for level in names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be numbers between 0 and 1, such as 0.05,0.95; got {text!r}"
        ) from None


def folder(text: str) -> Path:
    """A folder; a type of its own, so that shells complete folders alone."""
    return Path(text)


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            if (number := int(text)) >= least:
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(
            f"must be a whole number, {least} or more; got {text!r}"
        )

    return read


count, seed = _whole(1), _whole(0)


def address(text: str) -> str:
    """The address of a folder; the library asks that of http is on this machine."""
    if not text.startswith(("https://", "http://localhost", "http://127.", "http://[")):
        raise argparse.ArgumentTypeError(f"must begin with https://; got {text!r}")
    return text
