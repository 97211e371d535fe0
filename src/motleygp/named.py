"""Classes known by a name: in arguments, in files and in reports.

Defining such a class is enough to make its name known; nothing is registered by hand.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import equinox as eqx

_KNOWN: dict[str, dict[str, type["Named"]]] = {}


class Named(eqx.Module):
    """A module whose class has a `kind`, such as "likelihood", and a `name` in it.

    `parts` maps the names of a module's own parameters, as users know them, to the
    fields that hold them.
    """

    kind: ClassVar[str]
    name: eqx.AbstractClassVar[str]
    parts: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        name = cls.__dict__.get("name")
        if isinstance(name, str):
            _make_known(cls, name)


def _make_known(cls: type[Named], name: str) -> None:
    """A class may replace itself, as when a notebook's cell is run again."""
    known = _KNOWN.setdefault(cls.kind, {})
    other = known.get(name)
    if other is not None and _place(other) != _place(cls):
        raise ValueError(
            f"`name` must be new among the classes of kind {cls.kind!r}; got {name!r}, "
            f"the name of {'.'.join(_place(other))}."
        )
    known[name] = cls


def _place(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def known(kind: str) -> Mapping[str, Any]:
    """All classes of one kind by name; a view, so later classes appear in it."""
    return MappingProxyType(_KNOWN.setdefault(kind, {}))
