"""The report in a real browser: `make test-browser`.

Screenshots of the tested pages are left in build/screenshots.
"""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import motleygp as mg

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = Path(__file__).parents[1] / "build" / "screenshots"
SETTINGS = {"num_inducing": 8, "max_iter": 60, "random_state": 0, "progress": False}
WIDTHS = (390, 1280)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
    pytest.mark.usefixtures("quick_compilation"),
]


def over_the_line() -> tuple[pd.DataFrame, pd.DataFrame]:
    """One input, and one output for each kind of figure."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.random(150))
    f = np.sin(8.0 * x)
    Y = pd.DataFrame(
        {
            "level": f + 0.3 * rng.normal(size=150),
            "open <b>": np.where(rng.random(150) < 0.5 + 0.4 * f, "yes", "no"),
            "calls": rng.poisson(np.exp(1.0 + f)),
        }
    )
    Y.loc[20:50, "level"] = np.nan
    return pd.DataFrame({"day": x}), Y


def over_many() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four inputs, two of them without effect."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((150, 4)), columns=["a", "b", "c", "d"])
    Y = pd.DataFrame({"y": np.sin(4.0 * X.a) + X.b + 0.1 * rng.normal(size=150)})
    return X, Y


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    """Pages with curves, with maps and independent models, with partial dependences,
    and without data."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, (X, Y) in {
        "curves": over_the_line(),
        "maps": mg.datasets.houses(200),
        "dependences": over_many(),
    }.items():
        starts = 2 if name == "curves" else 1
        held = 0.2 if name == "curves" else 0.0
        model = mg.MotleyGP(restarts=starts, validation_fraction=held, **SETTINGS)
        model.fit(X, Y)
        found[name] = folder / f"{name}.html"
        alone = model.independent().fit(X, Y) if name == "maps" else None
        model.report(found[name], X, Y, independent=alone, title=f"A report: {name}")
    model.report(folder / "bare.html")
    return found | {"bare": folder / "bare.html"}


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def opened(browser, path: Path, width: int, scheme: str = "light"):
    """A page, its messages in the console, and the addresses it asked for."""
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    said, asked = [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    return page, said, asked


def draw_all(page) -> int:
    """Scroll through the page as a reader does, until all figures are drawn."""
    places = page.locator(".plot")
    for number in range(places.count()):
        places.nth(number).scroll_into_view_if_needed()
        page.wait_for_selector(f'.plot[data-figure="{number}"][data-drawn]')
    return places.count()


def until(page, expression: str) -> None:
    """Wait until the expression is true; the page's policy forbids waiting there."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not so after five seconds: {expression}")


DRAWN = """() => [...document.querySelectorAll(".plot")].map((place) => ({
  figure: place.dataset.figure,
  traces: place.querySelectorAll(
    ".trace, .heatmaplayer image, .hm image, .barlayer .point path"
  ).length,
  size: place.querySelector(".main-svg")?.getBoundingClientRect().width ?? 0,
  room: place.clientWidth,
}))"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["curves", "maps", "dependences", "bare"])
def test_all_is_drawn_without_a_network(browser, reports, name, width):
    page, said, asked = opened(browser, reports[name], width)
    assert draw_all(page) >= 3
    for figure in page.evaluate(DRAWN):
        assert figure["traces"] > 0, figure
        assert abs(figure["size"] - figure["room"]) <= 1, figure
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}-{width}.png", full_page=True)
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["curves", "maps", "dependences"])
def test_everybody_can_read_it(browser, reports, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page, said, _ = opened(browser, reports[name], 1280, scheme)
    draw_all(page)
    result = axe.Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
    page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")
    assert said == []
    page.close()


def test_colours_follow_the_scheme(browser, reports):
    page, said, _ = opened(browser, reports["curves"], 1280)
    draw_all(page)
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    until(page, f"{ink} !== {light!r}")
    assert said == []
    page.close()


def test_printing_draws_all_of_it(browser, reports, tmp_path):
    page, said, _ = opened(browser, reports["curves"], 1280)
    page.pdf(path=tmp_path / "r.pdf")
    places = page.locator(".plot").count()
    assert page.locator(".plot[data-drawn]").count() == places
    assert (tmp_path / "r.pdf").stat().st_size > 50_000 and said == []
    page.close()


def test_a_narrower_window_draws_anew(browser, reports):
    page, _, _ = opened(browser, reports["curves"], 1280)
    draw_all(page)
    page.set_viewport_size({"width": 390, "height": 800})
    until(page, "document.querySelector('.plot .main-svg').clientWidth < 390")
    page.close()
