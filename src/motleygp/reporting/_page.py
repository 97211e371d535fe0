"""The page of a report: one HTML file that needs nothing else."""

import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import Any

import jinja2
import numpy as np
from plotly.offline import get_plotlyjs

from motleygp._version import __version__
from motleygp.reporting import _sections, _tables
from motleygp.reporting._facts import Facts
from motleygp.reporting._remarks import remarks


def page(
    facts: Facts,
    title: str,
    ys: list[np.ndarray],
    watch: Callable[[Sequence[Any]], Iterable[Any]],
) -> str:
    """The whole document; `ys` are the values of the data, for each output."""
    album = _sections.Album()
    # In the order of the page, in which the album numbers the figures.
    sections = {
        "data": _sections.data(facts, ys, album),
        "scores": _sections.scores(facts, album),
        "sharing": _sections.sharing(facts),
        "outputs": _sections.outputs(facts, album, watch),
        "training": _sections.training(facts, album),
        "model": _sections.model(facts, album),
    }
    template = environment().get_template("page.html.j2")
    return template.render(
        title=title,
        version=__version__,
        made=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        summary=_tables.summary(facts),
        remarks=remarks(facts),
        **sections,
        figures=[{"data": f.data, "layout": f.layout} for f in album.figures],
        css=_resource("page.css"),
        code=_resource("page.js"),
        plotly=get_plotlyjs(),
    )


@functools.cache
def environment() -> jinja2.Environment:
    """The templates: they escape every text, and refuse undefined variables."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("motleygp.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["script"] = _script
    # NaN is not JSON: the browser could not read the figures.
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return found


def _script(code: str) -> str:
    """JavaScript as the content of a <script> element, which no text in it may end."""
    return code.replace("</", "<\\/").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    folder = resources.files("motleygp.reporting") / "templates"
    return folder.joinpath(name).read_text("utf-8")
