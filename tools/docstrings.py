"""An extension of Griffe: one form for the docstrings of the reference.

Most docstrings list their arguments as Markdown, under "**Arguments:**"; those of the
estimators are in NumPy's form, which scikit-learn's users know. Here the second becomes
the first, so that both look alike and types stay as they were written.
"""

import inspect
import re
from typing import Any

import griffe

_HEADING = re.compile(r"^(Parameters|Attributes)\n-+\n", re.MULTILINE)
_TITLES = {"Parameters": "Arguments", "Attributes": "Attributes"}


class Lists(griffe.Extension):
    """Sections of NumPy's form as lists; Griffe calls `on_object` for everything."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _listed(obj.docstring.value)


def _listed(text: str) -> str:
    """A docstring whose sections are lists."""
    # The split gives what comes before, then a title and its section in turn.
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
