"""A hook of MkDocs: equations as MathML, which browsers render without a script.

`pymdownx.arithmatex` marks the LaTeX between dollar signs, and this hook converts it to
MathML when the site is built.
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
    # arithmatex writes \( .. \) around an inline equation and \[ .. \] around a block.
    latex = html.unescape(found[2]).strip()[2:-2]
    if found[1] == "span":
        return convert(latex, display="inline")
    return f'<div class="equation">{convert(latex, display="block")}</div>'
