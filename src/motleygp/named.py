"""Classes known by a name, in arguments, files and reports.

Defining a class registers its name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import equinox as eqx

_KNOWN: dict[str, dict[str, type["Named"]]] = {}


class Named(eqx.Module):
    """A module whose class has a `kind`, such as "likelihood", and a `name` within it.

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
    """Register a class. It may replace itself, as when a notebook cell runs again."""
    known = _KNOWN.setdefault(cls.kind, {})
    other = known.get(name)
    if other is not None and _place(other) != _place(cls):
        raise ValueError(
            f"`name` must be unique among classes of kind {cls.kind!r}; got {name!r}, "
            f"the name of {'.'.join(_place(other))}."
        )
    known[name] = cls


def _place(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def known(kind: str) -> Mapping[str, Any]:
    """The classes of one kind by name: a view, in which later classes appear too."""
    return MappingProxyType(_KNOWN.setdefault(kind, {}))
