"""The report: its contents, and that it needs no other file."""

import dataclasses
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import motleygp as mg
from motleygp.estimator import door
from motleygp.numerics.chunks import some_places
from motleygp.prediction import inspection
from motleygp.prediction.seen import Seen
from motleygp.reporting import _facts, _figures, _labels, _page, _remarks

pytestmark = pytest.mark.usefixtures("quick_compilation")

NO_LABELS = _labels.Labels({}, frozenset())
SETTINGS = {
    "num_inducing": 6,
    "num_latents": 2,
    "max_iter": 20,
    "batch_size": 16,
    "random_state": 0,
    "progress": False,
}


class Page(HTMLParser):
    """The elements of a page, their texts, its tables and its scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.open: list[str] = []
        self._rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data
        if self.open and self.open[-1] in ("td", "th"):
            self._rows[-1][-1] += data
        elif self.open and self.open[-1] == "caption":
            self._caption = data
        elif self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    X, Y = mg.datasets.houses(60)
    X, Y = X, Y[["change", "sold", "visits"]]
    outputs = {"change": "gaussian", "sold": "bernoulli", "visits": "poisson"}
    model = mg.MotleyGP(outputs, **SETTINGS).fit(X, Y)
    path = tmp_path_factory.mktemp("report") / "r.html"
    model.report(path, X, Y, title="Fish & <chips>")
    return model, X, Y, path.read_text()


def test_the_page_is_whole_and_needs_nothing_else(written):
    *_, text = written
    page = Page(text)
    assert not page.open
    assert page.all("html")[0]["lang"] == "en"
    for tag in ("script", "img", "iframe"):
        assert not any("src" in attributes for attributes in page.all(tag))
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert "Fish &amp; &lt;chips&gt;" in text and "<chips>" not in text
    anchors = [a["href"][1:] for a in page.all("a")]
    ids = {a["id"] for _, a in page.elements if "id" in a}
    assert anchors and set(anchors) <= ids
    for attributes in page.all("figure") + page.all("td"):
        assert "style" not in attributes
    policy = page.all("meta")[1]["content"]
    assert policy is not None and "default-src 'none'" in policy


def test_every_place_has_its_figure_and_plotly_knows_all_of_it(written):
    *_, text = written
    page = Page(text)
    (found,) = [s for s in page.scripts if s.startswith('[{"data"')]
    figures = json.loads(found)
    places = [a for a in page.all("div") if a.get("class") == "plot"]
    assert [int(p["data-figure"] or -1) for p in places] == list(range(len(figures)))
    assert all(p["aria-label"] and p["role"] == "img" for p in places)
    names = set(re.findall(r"--([a-z-]+):", text))
    for figure in figures:
        # Colours of the page by their names, which plotly then takes for colours.
        plain = re.sub(r'"@(\w+)"', '"#123456"', json.dumps(figure))
        assert go.Figure(json.loads(plain)).data
        for colour in re.findall(r'"@(\w+)"', json.dumps(figure)):
            assert colour.replace("_", "-") in names


def test_scores_of_the_page_are_those_of_the_model(written):
    model, X, Y, text = written
    rows = Page(text).tables["Scores, in the units of the data"]
    header, *body = rows
    scores = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in body}
    metrics, marginal = model.metrics(X, Y), model.marginal_nlpd(X, Y)
    for name in model.output_names_:
        own = scores[name]
        assert own["NLPD"] == f"{metrics.nlpd[name]:.4g}"
        assert own["marginal"] == f"{marginal[name]:.4g}"
        assert own["RMSE"] == f"{metrics.rmse[name]:.4g}"
        assert own["CRPS"] == f"{metrics.crps[name]:.4g}"
        share = float(own["coverage 95 %"].rstrip("% \u00a0")) / 100.0
        assert abs(share - metrics.coverage95[name]) < 0.0051
        assert own["values"] == str(int(Y[name].notna().sum()))
    assert scores["sold"]["accuracy"].endswith("%")
    assert scores["change"]["accuracy"] == "not binary"


def test_a_report_without_data_tells_of_the_model(written, tmp_path):
    model, *_ = written
    model.report(tmp_path / "m.html")
    page = Page((tmp_path / "m.html").read_text())
    assert "Scores, in the units of the data" not in page.tables
    outputs = page.tables["Outputs of the model"]
    assert [row[0] for row in outputs[1:]] == model.output_names_
    assert page.tables["How the model was trained"]


# Escaping.

STRANGE = """<b>&"'"""
STRANGER = """</script><!--<b>&"'"""


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> str:
    """A page whose title, outputs, inputs and classes have HTML in their names."""
    X, Y = mg.datasets.houses(60)
    X = X.set_axis([f"{name}{STRANGE}" for name in X], axis=1)
    # The rarest class and the largest value are named in remarks.
    sold = np.where(np.arange(60) == 7, f"yes{STRANGE}", f"no{STRANGE}")
    visits = Y["visits"].fillna(1.0).to_numpy()
    Y = pd.DataFrame({f"sold{STRANGER}": sold, f"visits{STRANGE}": visits})
    likelihoods = ["bernoulli", "poisson"]
    outputs = dict(zip(Y, likelihoods, strict=True))
    model = mg.MotleyGP(outputs, **SETTINGS).fit(X, Y)
    path = tmp_path_factory.mktemp("report") / "r.html"
    Y.loc[9, f"visits{STRANGE}"] = 500.0
    model.report(path, X + 100.0 * (np.arange(60) < 30)[:, None], Y, title=STRANGER)
    return path.read_text()


def test_names_with_html_are_escaped_everywhere(strange):
    page = Page(strange)
    assert not page.open
    # No tag and no attribute has come of a name.
    assert {tag for tag, _ in page.elements} == {
        *("html", "head", "meta", "title", "link", "style", "body", "header", "h1"),
        *("p", "nav", "ul", "li", "a", "noscript", "main", "dl", "div", "dt", "dd"),
        *("section", "h2", "h3", "strong", "table", "caption", "thead", "tbody", "tr"),
        *("th", "td", "figure", "figcaption", "span", "footer", "script"),
    }
    assert {name for _, attributes in page.elements for name in attributes} == {
        *("lang", "charset", "http-equiv", "content", "name", "rel", "href", "class"),
        *("aria-label", "tabindex", "role", "scope", "data-figure", "style", "id"),
        "type",
    }
    outside = re.sub(r"(<script.*?>).*?</script>", r"\1", strange, flags=re.DOTALL)
    assert "<b>" not in outside and "<!--" not in outside
    assert "&lt;b&gt;&amp;&#34;&#39;" in outside
    # Nothing is escaped twice.
    assert "&amp;lt;" not in outside and "&amp;amp;" not in outside


def test_names_with_html_come_back_as_they_were(strange):
    page = Page(strange)
    outputs = [f"sold{STRANGER}", f"visits{STRANGE}"]
    assert [row[0] for row in page.tables["Outputs of the model"][1:]] == outputs
    inputs = [row[0] for row in page.tables["Inputs"][1:]]
    assert inputs == [f"east{STRANGE}", f"north{STRANGE}"]
    (scales,) = [rows for name, rows in page.tables.items() if "Length" in name]
    assert scales[0][1:] == inputs
    assert page.texts["title"] == page.texts["h1"] == [STRANGER]
    assert [a for a in page.texts["a"] if a in outputs] == outputs
    assert page.texts["h3"] == [f"{name} " for name in outputs]
    labels = [a["aria-label"] for a in page.all("div") if a.get("role") == "img"]
    assert labels == page.texts["figcaption"]
    assert any(f"probability that {outputs[0]} is yes{STRANGE}" in t for t in labels)
    regions = [a["aria-label"] for a in page.all("div") if a.get("role") == "region"]
    assert regions == page.texts["caption"] and any(outputs[1] in t for t in regions)
    remarks = " ".join(page.texts["li"])
    assert f"{outputs[0]} is yes{STRANGE} in only 1.7" in remarks
    assert f"{outputs[1]} in row 9 is 500" in remarks
    assert f"{STRANGE} is outside its training range" in remarks


def test_figures_with_html_in_names_neither_end_the_script_nor_show_tags(strange):
    (found,) = [s for s in Page(strange).scripts if s.startswith('[{"data"')]
    assert "<" not in found and ">" not in found
    figures = json.loads(found)
    titles = [figure["layout"]["xaxis"]["title"]["text"] for figure in figures]
    assert "east&lt;b&gt;&amp;\"'" in titles
    assert "<b>" not in str(figures) and "<!--" not in str(figures)


def test_no_script_holds_the_end_of_one(strange):
    bodies = re.findall(r"<script[^>]*>(.*?)</script>", strange, flags=re.DOTALL)
    assert len(bodies) == strange.count("<script") - sum(
        body.count("<script") for body in bodies
    )
    for body in bodies:
        assert "</" not in body and "<!--" not in body


def test_an_undefined_variable_raises():
    environment = _page.environment()
    with pytest.raises(jinja2.UndefinedError, match="'nothing' is undefined"):
        environment.from_string("{{ nothing }}").render()
    with pytest.raises(jinja2.UndefinedError, match="is undefined"):
        environment.get_template("page.html.j2").render()


def test_templates_escape_texts_and_refuse_numbers_that_json_lacks():
    environment = _page.environment()
    said = environment.from_string("{{ name }}").render(name=STRANGE)
    assert said == "&lt;b&gt;&amp;&#34;&#39;"
    with pytest.raises(ValueError, match="not JSON compliant"):
        environment.from_string("{{ value | tojson }}").render(value=np.nan)


@pytest.fixture(scope="module")
def alone():
    """A model of one output and three inputs."""
    X, Y = mg.datasets.houses(60)
    wide = X.assign(up=np.random.default_rng(0).random(len(X)))
    model = mg.MotleyGP({"change": "gaussian"}, **SETTINGS)
    return model.fit(wide, Y[["change"]]), wide, Y[["change"]]


def test_more_inputs_are_shown_by_partial_dependence(alone):
    other, wide, _ = alone
    facts = _facts.gather(other.fitted_, None, NO_LABELS, None, None, 0, iter)
    grid = _figures.grids(facts)
    figures = list(_figures.predictions(facts, facts.outputs[0], grid))
    assert len(figures) == 2
    place = _figures.most_relevant(facts, facts.outputs[0])[0]
    x, average = figures[0].data[-1]["x"], figures[0].data[-1]["y"]
    # The average over the rows, predicted one value of the input at a time.
    rows = facts.rows[some_places(len(facts.rows), 60)].copy()
    rows[:, place] = x[7]
    expected = other.predict(pd.DataFrame(rows, columns=wide.columns))
    np.testing.assert_allclose(average[7], np.mean(expected), rtol=1e-3, atol=1e-3)


def test_some_rows_are_enough_and_the_page_says_so(written, tmp_path):
    model, X, Y, _ = written
    model.report(tmp_path / "s.html", X, Y, max_rows=25)
    text = " ".join((tmp_path / "s.html").read_text().split())
    assert "The table has 60 rows, of which 25 were scored, chosen at random." in text


def test_independent_models_are_compared(alone, tmp_path):
    model, X, Y = alone
    independent = model.independent()
    # Of one output, the model itself will do for its own comparison.
    independent.models_, independent.output_names_ = {"change": model}, ["change"]
    model.report(tmp_path / "i.html", X, Y, independent=independent)
    text = (tmp_path / "i.html").read_text()
    header, row = Page(text).tables["Scores, in the units of the data"]
    expected = independent.nlpd(X, Y)["change"]
    assert row[header.index("independent")] == f"{expected:.4g}"
    assert "the independent models learn each output alone" in text


def test_the_page_tells_how_many_processes_are_in_use(written):
    model, *_, text = written
    assert f"The model has {inspection.processes(model.fitted_)}." in text


def sharing_table(*gains):
    index = [*["change", "sold", "visits"][: len(gains) - 1], "mean over outputs"]
    columns = ("values", "nlpd", "independent", "gain", "standard_error")
    rows = [(1200, 1.5, 1.5 + gain, gain, 0.1) for gain in gains]
    return pd.DataFrame(rows, index=index, columns=columns)


def test_the_page_tells_what_sharing_is_worth(written, tmp_path):
    model, *_, without = written
    assert "What sharing is worth" not in without
    table = sharing_table(0.3, -0.25, 0.19, np.nan)
    model.report(tmp_path / "s.html", sharing=table)
    page = Page((tmp_path / "s.html").read_text())
    (caption,) = (name for name in page.tables if name.startswith("The joint model"))
    header, *rows = page.tables[caption]
    assert header[:4] == ["output", "values", "NLPD", "independent"]
    assert rows[0] == ["change", "1,200", "1.5", "1.8", "0.3", "0.1", "helps"]
    said = [row[-1] for row in rows]
    assert said == ["helps", "harms", "no clear difference", "unknown"]
    text = " ".join(page.texts["p"])
    assert "Of the 3 outputs, sharing clearly helps 1 and harms 1." in text
    assert {"href": "#sharing"} in page.all("a")


@pytest.mark.parametrize(
    "wrong",
    [
        sharing_table(0.0, 0.1),
        sharing_table(0, 0, 0, 0).iloc[::-1],
        sharing_table(0, 0, 0, 0)[["gain"]],
        pd.DataFrame(),
        "helps",
    ],
)
def test_a_table_of_other_outputs_is_refused(written, tmp_path, wrong):
    with pytest.raises(ValueError, match=r"`sharing` must be the table .*; got") as e:
        written[0].report(tmp_path / "n.html", sharing=wrong)
    assert "\n" not in str(e.value) and not list(tmp_path.iterdir())


def test_wrong_arguments_are_named(written, tmp_path):
    model, X, Y, _ = written
    with pytest.raises(ValueError, match="`X` and `Y` must be given together"):
        model.report(tmp_path / "n.html", X)
    with pytest.raises(ValueError, match="`max_rows` must be at least 1; got 0"):
        model.report(tmp_path / "n.html", X, Y, max_rows=0)
    with pytest.raises(OSError, match="No such file"):
        model.report(tmp_path / "no" / "n.html")
    assert not list(tmp_path.iterdir())


# The user's own labels.


@pytest.fixture(scope="module")
def labelled():
    """A model over dates and a constant input, of a level and an answer with labels."""
    rng = np.random.default_rng(0)
    index = [f"P{n:03d}" for n in range(60)]
    days = pd.date_range("2023-01-01", periods=60, freq="D")
    X = pd.DataFrame({"site": 4.0, "day": days}, index=index)
    answer = np.where(rng.random(60) < 0.5, "yes", "no")
    Y = pd.DataFrame({"level": rng.normal(size=60), "answer": answer}, index=index)
    model = mg.MotleyGP({"level": "gaussian"}, **SETTINGS).fit(X, Y)
    return model, X, Y


@pytest.fixture(scope="module")
def own_words(labelled, tmp_path_factory) -> str:
    model, X, Y = labelled
    Y = Y.assign(level=Y["level"].where(Y.index != "P017", 1e3))
    Y.loc["P003", "level"] = np.nan
    path = tmp_path_factory.mktemp("report") / "r.html"
    model.report(path, X, Y)
    return path.read_text()


def test_rows_have_the_labels_of_the_users_index(own_words):
    page = Page(own_words)
    (surprises,) = [t for name, t in page.tables.items() if "least expected" in name]
    assert surprises[1][0] == "P017"
    remarks = " ".join(page.texts["li"])
    assert "row P017 costs" in remarks and "level in row P017 is 1000" in remarks


def test_dates_are_dates_on_axes_and_in_tables(own_words):
    page = Page(own_words)
    inputs = {row[0]: row[1:] for row in page.tables["Inputs"]}
    assert inputs["day"][:2] == ["2023-01-01", "2023-03-01"]
    (scales,) = [rows for name, rows in page.tables.items() if "Length" in name]
    assert scales[0] == ["process", "site", "day (days)"]
    (found,) = [s for s in page.scripts if s.startswith('[{"data"')]
    figures = [
        figure
        for figure in json.loads(found)
        if figure["layout"]["xaxis"]["title"]["text"] == "day"
    ]
    # Bars of rows with the same date lie over one another, and are not added up.
    assert {figure["layout"]["barmode"] for figure in figures} == {"overlay"}
    curves = [figure["data"] for figure in figures]
    # The input that is constant has no axis, so the outputs are curves over the other.
    assert len(curves) == 2
    for trace in (trace for data in curves for trace in data):
        assert all(x.startswith("2023-0") for x in trace["x"])


def test_a_constant_input_is_told_of(own_words):
    assert "site has one value in all training rows" in own_words


def test_labels_of_classes_are_named_and_no_cell_is_a_dash(own_words):
    page = Page(own_words)
    outputs = {row[0]: row[-1] for row in page.tables["Outputs of the model"]}
    assert outputs["answer"].endswith("yes counts as 1 (true), no as 0 (false)")
    cells = [cell for rows in page.tables.values() for row in rows for cell in row]
    assert not {"\u2013", "-", "None", "nan", ""} & set(cells)


def test_outputs_without_values_say_so(labelled, tmp_path):
    model, X, Y = labelled
    model.report(tmp_path / "r.html", X, Y[["level"]])
    tables = Page((tmp_path / "r.html").read_text()).tables
    scores = tables["Scores, in the units of the data"]
    assert scores[2] == ["answer", "0", *["no values"] * 7]
    assert scores[1][-1] == "not binary"


def test_labels_are_those_of_either_table(labelled):
    model, X, Y = labelled
    fitted, numbers = model.fitted_, np.array([0, 2])
    plain = X.assign(day=np.arange(60.0)).to_numpy()
    assert _labels.labels(fitted, plain, Y).rows("level", numbers) == ["P000", "P002"]
    bare = _labels.labels(fitted, plain, Y.to_numpy())
    assert bare.rows("level", numbers) == ["0", "2"]
    # The fit knows its dates, with and without data.
    day = model.fitted_.inputs.index("day")
    assert bare.dates == _labels.labels(fitted, None, None).dates == {day}
    times = pd.DatetimeIndex(["2023-01-01 10:30", "2023-01-02"], tz="Europe/Berlin")
    for index, expected in (
        (times, ["2023-01-01 10:30", "2023-01-02"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["a, 1", "b, 2"]),
        (pd.RangeIndex(300, 302), ["300", "301"]),
    ):
        found = _labels.labels(fitted, X[:2].set_index(index), Y[:2])
        assert found.rows("level", np.arange(2)) == expected


# Remarks on a fit and its data; those on one output are tested apart.


@pytest.mark.parametrize(
    "drop, ended, expected",
    [
        (30.0, "horizon", "still improved the bound by"),
        (1.0, "horizon", ""),
        (30.0, "held-out", ""),
    ],
)
def test_a_late_gain_is_told_of_if_it_is_worth_more_iterations(
    written, drop, ended, expected
):
    model, *_ = written
    facts = _facts.gather(model.fitted_, None, NO_LABELS, None, None, 0, iter)
    trace = {
        "iteration": np.arange(1000),
        "nelbo": 500.0 - drop * (np.arange(1000) >= 900),
        "refused": np.zeros(1000),
        "theta_refused": np.zeros(1000),
    }
    changed = dataclasses.replace(model.fitted_, trace=trace, ended=ended)
    text = " ".join(
        r.text for r in _remarks._of_training(facts._replace(fitted=changed))
    )
    values = sum(seen.observed for seen in model.seen_.values())
    if expected:
        expected += f" {drop / values:.2g} nats per value"
    assert expected in text and ("improved the bound" in text) == bool(expected)
    assert "`" not in text


def test_training_is_told_of(written):
    model, *_ = written
    facts = _facts.gather(model.fitted_, None, NO_LABELS, None, None, 0, iter)
    trace = dict(model.trace_)
    trace["refused"] = np.ones_like(trace["refused"])
    changed = dataclasses.replace(
        model.fitted_,
        trace=trace,
        ended="time",
        starts=(*model.restarts_, {"error": "it exploded"}),
    )
    texts = [r.text for r in _remarks._of_training(facts._replace(fitted=changed))]
    assert any("time limit ended training after" in text for text in texts)
    assert any("100\u00a0% of the steps were refused" in text for text in texts)
    assert any("1 of 2 starts failed: it exploded" in text for text in texts)


def test_rows_beyond_the_fit_are_told_of(written):
    model, X, Y, _ = written
    far = X + np.where(np.arange(len(X)) < len(X) // 2, 100.0, 0.0)[:, None]
    observed = door.new_observations(model.fitted_, far, Y)
    facts = _facts.gather(model.fitted_, observed, NO_LABELS, None, 30, 0, iter)
    texts = [remark.text for remark in _remarks._of_data(facts)]
    expected = r"(east|north) is outside its training range .* in 50\u00a0% of the rows"
    assert any(re.search(expected, text) for text in texts)


def test_missing_values_are_counted_by_their_rows():
    long, short = np.zeros(120), np.full(60, np.nan)
    long[110:] = np.nan
    own = _labels.Labels({"long": pd.Index([f"r{n}" for n in range(120)])}, frozenset())
    figure = _figures.missing(["long", "short"], [long, short], own)
    assert figure is not None
    first, second = figure.data[0]["z"]
    assert first == [0] * 55 + [1] * 5
    # The short one ends in the middle of the picture.
    assert second == [1] * 30 + [None] * 30
    assert [names[1] for names in figure.data[0]["text"]] == ["r2", "2"]


# Numbers.


def test_numbers_are_short_and_never_nan():
    assert _figures.numbers([1.0, np.nan, 2.5]) == [1, None, 2.5]
    assert _figures.numbers([1.7e9, 1.7e9 + 1.0]) == [1700000000, 1700000001]
    assert _figures.numbers([0.0, 0.0]) == [0.0, 0.0]
    exact = np.random.default_rng(0).normal(size=50)
    short = _figures.numbers(exact)
    assert np.max(np.abs(np.asarray(short) - exact)) < 1e-5 * np.ptp(exact)


def test_what_was_seen_comes_back_from_a_file(written, tmp_path):
    model, X, Y, _ = written
    model.save(tmp_path / "m.motley")
    back = mg.load(tmp_path / "m.motley")
    np.testing.assert_array_equal(back.input_range_, model.input_range_)
    for name, seen in model.seen_.items():
        other: Seen = back.seen_[name]
        assert (other.rows, other.observed) == (seen.rows, seen.observed)
        np.testing.assert_array_equal(other.f, seen.f)
    assert back.marginal_nlpd(X, Y) == model.marginal_nlpd(X, Y)


@pytest.mark.slow
def test_a_large_report_is_quick_and_small():
    """Twice the 30 seconds that it may take alone: another test runs beside it."""
    script = Path(__file__).parents[1] / "benchmarks" / "report.py"
    run = subprocess.run([sys.executable, script], capture_output=True, check=True)
    found = json.loads(run.stdout)
    assert found["megabytes"] < 10.0 and found["seconds"] < 60.0
