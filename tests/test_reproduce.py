"""The experiments of the paper: records, runs that go on, figures, summaries."""

import csv
import runpy
from pathlib import Path

import numpy as np
import pytest

import motleygp as mg
from motleygp_cli import main
from motleygp_cli.parser.reproduce import EXPERIMENTS
from motleygp_reproduce import STUDIES, cells, records, reproduce, running
from motleygp_reproduce.cells import load, run_cell, thinned
from motleygp_reproduce.claims import (
    CLAIMS,
    CONFIRMED,
    NLPD,
    OPEN,
    REFUTED,
    Claim,
    Comparison,
    Place,
    judge,
    smallest_variances,
)
from motleygp_reproduce.courses import Course, nlpd_by_output
from motleygp_reproduce.figures import draw
from motleygp_reproduce.library import Sizes, paper_setup
from motleygp_reproduce.methods import METHODS, Method, method_name, named
from motleygp_reproduce.records import Cell, Record
from motleygp_reproduce.studies import Study
from motleygp_reproduce.summary import differences, scores

ROOT = Path(__file__).parents[1]
FNG, HYBRID = Method("paper", "fng"), Method("paper", "hybrid")
SMALL = Study(
    name="small",
    title="A small experiment",
    figure="convergence",
    sets=(("t1", 1),),
    iterations=20,
    marks=(10,),
    num_starts=2,
    methods=(FNG, HYBRID),
)


def record(method=FNG, seed=0, nlpd=1.0) -> Record:
    return Record(
        cell=Cell("t1", 1, 50, method),
        seed=seed,
        iterations=20,
        ended="horizon",
        seconds=1.25,
        settings={"Q": 3, "initial_p": 1e4},
        at=[10, 20],
        nelbo=[123.456789, -0.5],
        scored_at=[10, 20],
        nlpd={"a": [2.0, nlpd], "b": [0.5, nlpd + 1.0]},
        variance=[1e-9, 1e-4, 1e-3],
    )


def test_records_come_back(tmp_path):
    path = tmp_path / "runs.csv"
    first, second = (
        record(),
        record(HYBRID, 1)._replace(ended="diverged", nlpd={}, variance=[]),
    )
    records.add(path, [first], "a processor")
    records.add(path, [second], "a processor")
    found = records.read(path)
    assert found[0] == first._replace(nelbo=[123.457, -0.5])
    assert found[1] == second._replace(nelbo=[123.457, -0.5])
    with path.open("a") as file:
        file.write('t1,1,50,paper,fng,2,"{""Q')
    assert len(records.read(path)) == 2
    records.add(path, [first], "a processor")
    assert records.read(path) == [*found, found[0]]


def test_another_table_is_refused(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not a table of runs"):
        records.read(path)


def test_the_command_knows_every_experiment():
    assert set(EXPERIMENTS) == set(STUDIES)


def test_names_of_methods():
    assert [named(method_name(method)) for method in METHODS] == list(METHODS)
    with pytest.raises(ValueError, match="must be one of authors-sgd"):
        named("fng")


def test_every_experiment_has_a_quick_form():
    for study in STUDIES.values():
        quick = study.quick()
        assert 10 * quick.iterations == study.iterations
        assert len(quick.cells) <= len(study.cells)
        assert all(len(quick.seeds(cell)) == 2 for cell in quick.cells)
        assert {cell.method for cell in quick.cells} == set(METHODS)


def test_the_trace_is_thinned_by_means():
    at, nelbo = thinned(np.arange(100.0))
    assert (len(at), at[-1]) == (50, 100)
    np.testing.assert_allclose(nelbo, np.arange(100.0).reshape(50, 2).mean(axis=1))
    assert thinned(np.zeros(0)) == ([], [])


def test_an_experiment_goes_on(tmp_path, monkeypatch, capsys):
    whole = run_cell
    ran = []

    def once(study, cell, seeds, data_dir):
        if ran:
            raise KeyboardInterrupt
        ran.append(cell)
        return whole(study, cell, seeds, data_dir)

    monkeypatch.setattr(running, "run_cell", once)
    with pytest.raises(KeyboardInterrupt):
        reproduce(SMALL, tmp_path, quiet=True)
    assert len(records.read(tmp_path / "runs.csv")) == 2
    monkeypatch.setattr(running, "run_cell", whole)
    found = reproduce(SMALL, tmp_path, quiet=True)
    assert [(own.cell.method, own.seed) for own in found] == [
        *((FNG, 0), (FNG, 1), (HYBRID, 0), (HYBRID, 1))
    ]
    assert all(own.survived and own.scored_at == [10, 20] for own in found)
    assert len(found[0].variance) == 3 and not found[-1].variance
    assert (tmp_path / "small-paper.png").stat().st_size > 10_000
    text = (tmp_path / "summary.md").read_text()
    assert "| t1 | 1 | 50 | HYB, paper | 2 of 2 |" in text
    assert "2 runs, predicted" in capsys.readouterr().out
    with (tmp_path / "runs.csv").open(newline="") as file:
        line = next(csv.DictReader(file))
    assert "motleygp " in line["versions"] and line["hardware"]


def test_figures_have_the_order_of_the_experiment():
    study = STUDIES["toy-dimensions"]._replace(sets=(("t1", 1), ("t1", 5), ("t1", 20)))
    own = [
        record(seed=seed)._replace(cell=cell)
        for seed, cell in enumerate(c for c in study.cells if c.method == FNG)
    ]
    figure = draw(study, own[::-1])["toy-dimensions-paper"]
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "5", "20"]
    assert "(the paper's schemes)" in figure.get_suptitle()


def test_scores_are_those_of_the_library():
    problem = load(SMALL.cells[0], None)
    sizes = Sizes(3, 10, 20, 5)
    setup = paper_setup(problem, "fng", sizes, initial_p=1e4)
    assert setup.settings == {"Q": 3, "M": 10, "initial_p": 1e4}
    state = mg.training.restarts.begin(setup.task, 0)
    solved = mg.training.solution(setup.task.scheme, state)
    found = nlpd_by_output(problem, setup.scaling, solved)
    predicted = mg.core.predict(solved.model, solved.q, problem.x_test)
    for own, name, y in zip(predicted, problem.names, problem.y_test.T, strict=True):
        assert found[name] == pytest.approx(-own.log_prob(y).mean(), rel=1e-12)


def test_the_start_of_the_paper_variant_is_whitened():
    """q(v) = N(., 0.01 I), and nothing else of the paper's scheme is changed."""
    problem = load(SMALL.cells[0], None)
    sizes = Sizes(3, 40, 20, 5)
    task = paper_setup(problem, "fng", sizes, initial_p=1e4).task
    state = mg.training.restarts.begin(task, 0)
    q = mg.training.solution(task.scheme, state).q
    np.testing.assert_allclose(
        q.cov(), 0.01 * np.broadcast_to(np.eye(40), (3, 40, 40)), atol=1e-9
    )
    assert not task.scheme.refuse and task.scheme.q.guard is None


def test_a_run_that_diverges_is_recorded():
    course = Course(0, np.zeros(0), {}, np.zeros(0), 1.0, "diverged")
    found = cells.record(SMALL.cells[0], course, {})
    assert not found.survived and found.nlpd == {} and found.at == []


def test_differences_are_paired_by_start():
    rng = np.random.default_rng(0)
    base = rng.normal(size=6)
    own = [record(FNG, s, nlpd=float(b)) for s, b in enumerate(base)]
    gap = rng.normal(0.5, 0.01, size=6)
    other = [
        record(HYBRID, s, nlpd=float(b + g))
        for s, (b, g) in enumerate(zip(base, gap, strict=True))
    ]
    other[5] = other[5]._replace(ended="diverged")
    text = differences(SMALL, [*own, *other])
    mean, error = gap[:5].mean(), gap[:5].std(ddof=1) / np.sqrt(5)
    reach = 2.7764451 * error
    shown = f"{mean:+.4g} [{mean - reach:+.4g}, {mean + reach:+.4g}] | 5 |"
    assert shown in text
    table = scores(SMALL, [*own, *other], {("t1", 1): 0.5})
    assert "| 5 of 6 |" in table and "constant fit | | 0.5000 |" in table


def place_of_t1(more, less, **kinds) -> Claim:
    place = Place("t1", 1)
    return Claim("", "small", (Comparison(place, NLPD, more, less, **kinds),))


def test_claims_are_judged_by_their_intervals():
    rng = np.random.default_rng(1)
    base = rng.normal(size=8)
    own = [record(FNG, s, nlpd=float(b)) for s, b in enumerate(base)]
    worse = [record(HYBRID, s, nlpd=float(b) + 1.0) for s, b in enumerate(base)]
    every = [
        *own,
        *(
            w._replace(nlpd={"a": [2.0, w.nlpd["a"][-1] + e]})
            for w, e in zip(worse, rng.normal(0.0, 0.01, size=8), strict=True)
        ),
    ]
    marks = {
        ("hybrid", "fng", False): CONFIRMED,
        ("fng", "hybrid", False): REFUTED,
        ("hybrid", "fng", True): REFUTED,
        ("adam", "fng", False): OPEN,
    }
    for (more, less, level), mark in marks.items():
        verdict = judge(place_of_t1(more, less, level=level), every, "paper")
        assert verdict.mark == mark, (more, less, level, verdict)
    alike = judge(place_of_t1("hybrid", "fng", spread=True), every, "paper")
    assert alike.mark == REFUTED and alike.evidence.startswith("spread of the mean")
    assert smallest_variances(every, "paper").mark == REFUTED


def test_every_claim_names_cells_of_its_experiment():
    for claim in CLAIMS:
        cells_of = {cell[:3] for cell in STUDIES[claim.study].cells}
        assert {tuple(each.place) for each in claim.comparisons} <= cells_of


def test_the_page_has_the_tables_of_the_results():
    path = ROOT / "docs" / "tables" / "reproduction.py"
    script = runpy.run_path(str(path))
    page = script["PAGE"].read_text()
    assert page.count("<!-- end -->") == len(script["tables"]())
    assert script["filled"](page) == page


@pytest.mark.parametrize("method", ["paper-fng", "authors-fng"])
def test_a_committed_run_is_repeated(method):
    """The scores at the first mark; later ones differ by the growth of rounding."""
    study = STUDIES["toy-convergence"]
    mark = study.marks[0]
    cell = next(c for c in study.cells if c.method == named(method))
    committed = records.read(ROOT / "results" / study.name / "runs.csv")
    old = next(own for own in committed if (own.cell, own.seed) == (cell, 0))
    (new,) = run_cell(study._replace(iterations=mark, marks=()), cell, [0])
    assert new.scored_at == [mark] == old.scored_at[:1]
    for name, found in new.nlpd.items():
        assert found[0] == pytest.approx(old.nlpd[name][0], rel=1e-4)


def test_wrong_use(tmp_path, capsys):
    assert main(["reproduce", "toy-convergence", "--methods", "fng"]) == 2
    assert "--methods: a method must be one of" in capsys.readouterr().err
    assert main(["reproduce", "table9"]) == 2
    assert "EXPERIMENT" in capsys.readouterr().err
