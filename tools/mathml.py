"""A hook of MkDocs: the equations of a page as MathML, which browsers draw themselves.

`pymdownx.arithmatex` finds them between dollars and leaves their LaTeX in the page;
here it becomes MathML when the site is built, so that no page needs a script for it.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """The page with its equations converted; MkDocs calls this."""
    return _EQUATION.sub(_converted, content)


def _converted(found: re.Match[str]) -> str:
    # arithmatex writes \( .. \) around an inline equation and \[ .. \] around another.
    latex = html.unescape(found[2]).strip()[2:-2]
    if found[1] == "span":
        return convert(latex, display="inline")
    return f'<div class="equation">{convert(latex, display="block")}</div>'
