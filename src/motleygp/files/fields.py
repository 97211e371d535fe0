"""Checks of a module's fields against their annotations, for modules from files."""

import collections.abc
import types
import typing
from typing import Any, Literal, Union

from motleygp.files.modelfile import ModelFileError

_NUMBERS: dict[Any, tuple[type, ...]] = {float: (int, float), int: (int,)}


def check_fields(cls: type, fields: collections.abc.Mapping[str, Any]) -> None:
    """Raise a `ModelFileError` that names a field whose value has another type."""
    hints = typing.get_type_hints(cls)
    for name, value in fields.items():
        if not fits(value, hints.get(name, Any)):
            raise ModelFileError(
                f"`{name}` of {cls.__name__} must be {_words(hints[name])}; "
                f"got {type(value).__name__}."
            )


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has the type of an annotation; True for forms not known here."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _entries_fit(value, arguments)
    if isinstance(origin, type):
        return isinstance(value, origin)
    if isinstance(hint, type) and issubclass(hint, tuple):
        # A named tuple is a plain one in a file.
        own = tuple(typing.get_type_hints(hint).values())
        return isinstance(value, tuple) and _entries_fit(value, own)
    return not isinstance(hint, type) or isinstance(value, hint)


def _entries_fit(value: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(fits(entry, hints[0]) for entry in value)
    if len(value) != len(hints):
        return False
    return all(fits(entry, hint) for entry, hint in zip(value, hints, strict=True))


def _words(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint))
