"""A Griffe extension: one form for all docstrings of the reference.

Most docstrings list their arguments in Markdown, under "**Arguments:**". The docstrings
of the estimators have NumPy's form, which users of scikit-learn know. This extension
turns the second form into the first, so that both look the same.
"""

import inspect
import re
from typing import Any

import griffe

_HEADING = re.compile(r"^(Parameters|Attributes)\n-+\n", re.MULTILINE)
_TITLES = {"Parameters": "Arguments", "Attributes": "Attributes"}


class Lists(griffe.Extension):
    """Turns sections into lists. Griffe calls `on_object` for every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _listed(obj.docstring.value)


def _listed(text: str) -> str:
    """The docstring with its sections as lists."""
    # The split gives the text before the sections, then titles and sections by turns.
    before, *rest = _HEADING.split(inspect.cleandoc(text))
    parts = [before]
    for title, section in zip(rest[::2], rest[1::2], strict=True):
        entries = re.split(r"\n(?=\S)", section.strip())
        items = [_item(*entry.partition("\n")[::2]) for entry in entries]
        parts.append(f"**{_TITLES[title]}:**\n\n" + "\n".join(items))
    return "\n\n".join(parts)


def _item(head: str, description: str) -> str:
    """`name : type` and the indented lines below it as one item of a list."""
    names, _, kind = (part.strip() for part in head.partition(" : "))
    name = ", ".join(f"`{one}`" for one in names.split(", "))
    kind = f" ({kind})" if kind else ""
    text = inspect.cleandoc(description).replace("\n", "\n  ")
    return f"- {name}{kind}" + (f": {text}" if text else "")
