"""The code, the commands and the names in the README and the docs are right."""

import dataclasses
import functools as ft
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import motleygp as mg
import motleygp_cli as cli
import motleygp_reproduce
from motleygp import named
from motleygp.prediction import Fitted
from motleygp_reproduce import reproduce
from motleygp_reproduce.methods import named as named_method
from motleygp_reproduce.records import Record
from motleygp_reproduce.studies import Study

pytestmark = pytest.mark.usefixtures("quick_compilation", "library_names")

ROOT = Path(__file__).parents[1]
SHORT = {"max_iter": 5}
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def library_names():
    """Each test begins with the library's classes alone: pages define their own."""
    before = {kind: dict(known) for kind, known in named._KNOWN.items()}
    for known in named._KNOWN.values():
        for name, cls in list(known.items()):
            if not cls.__module__.startswith("motleygp."):
                del known[name]
    yield
    for kind, known in named._KNOWN.items():
        known.clear()
        known.update(before.get(kind, {}))


def test_the_readme_shows_the_table_that_its_script_prints():
    measured = (ROOT / "README.md").read_text().split("## Measured")[1].split("##")[0]
    script = (ROOT / "benchmarks" / "readme.py").read_text()
    header, rule, *rows = [line for line in measured.splitlines() if line[:1] == "|"]
    assert header in script and rule in script
    assert len(rows) == 2 and all(re.search(r"\*\*[\d.]+( ms)?\*\*", r) for r in rows)


def test_the_readme_runs(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (code,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 12
    quick = ft.partial(mg.MotleyGP, max_iter=5, num_inducing=8)
    monkeypatch.setattr(mg, "MotleyGP", quick)
    _, Y = mg.datasets.houses()
    assert 0.15 < Y.isna().to_numpy().mean() < 0.25 and len(Y.columns) == 4
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr()
    assert "coverage95" in said.out and re.search(r"visits +│ poisson", said.err)


def _one_run(study: Study, folder: Path, **given: Any) -> list[Record]:
    """The first run of an experiment, with a few iterations."""
    short = dict(sets=study.sets[:1], iterations=20, marks=(), num_starts=1)
    method = named_method("paper-fng")
    study = study._replace(**short, methods=(method,), batch_sizes=(50,))
    return reproduce(study, folder, **given)


@pytest.mark.slow
def test_the_commands_shown_are_commands(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    quick = ft.partial(mg.MotleyGP, max_iter=5, num_inducing=8)
    monkeypatch.setattr(mg, "MotleyGP", quick)
    monkeypatch.setattr(motleygp_reproduce, "reproduce", _one_run)
    shown: dict[str, None] = {}
    for name in ("README.md", "docs/command.md", "docs/report.md"):
        text = (ROOT / name).read_text()
        lines = re.findall(r"^\$ (motleygp .*)$", text, re.MULTILINE)
        assert len(lines) >= 3
        shown |= dict.fromkeys(lines)
    # Each once, in the order of the pages.
    for line in shown:
        assert cli.main(shlex.split(line)[1:]) == cli.GOOD, line


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
SCRIPTS = [*(ROOT / "experiments").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]


def test_the_scripts_and_targets_shown_are_there():
    text = "\n".join(page.read_text() for page in PAGES)
    scripts = re.findall(r"python ((?:experiments|benchmarks)/\w+\.py)([^`\n]*)", text)
    assert len(scripts) > 8
    for path, arguments in scripts:
        script = (ROOT / path).read_text()
        for flag in re.findall(r"--[a-z-]+", arguments):
            assert f'"{flag}"' in script, (path, flag)
    targets = set(re.findall(r"`make ([a-z-]+)`", text))
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets and targets <= set(known)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_scripts_start(path):
    if path.stem == "gpflow_step":
        pytest.skip("it runs where GPflow is installed")
    if "__main__" not in path.read_text():
        pytest.skip("a module of other scripts")
    command = [sys.executable, str(path), "--help"]
    assert "usage" in subprocess.run(command, capture_output=True, text=True).stdout


def test_the_completions_shown_are_printed(capsys):
    text = (ROOT / "docs/command.md").read_text()
    shells = re.findall(r"^.*motleygp completion (\w+)", text, re.MULTILINE)
    assert shells == ["bash", "zsh", "fish"]
    for shell in shells:
        assert cli.main(["completion", shell]) == cli.GOOD
    assert "motleygp" in capsys.readouterr().out


def _python(page: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / page).read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    ["datasets.md", "estimator.md", "extending.md", "getting-started.md", "report.md"],
)
def test_the_manuals_run(page, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    short, usual = SHORT | {"num_inducing": 8, "progress": False}, mg.MotleyGP
    monkeypatch.setattr(mg, "MotleyGP", lambda *a, **k: usual(*a, **(k | short)))
    names = {"__name__": page, "mg": mg}
    exec(compile("\n".join(_python(page)), page, "exec"), names)
    assert capsys.readouterr().out or page == "report.md"


@pytest.mark.parametrize("page", ["training.md", "variational-optimisation.md"])
def test_the_pages_about_schemes_run(page):
    exec(compile("\n".join(_python(page)), page, "exec"), {"__name__": page})


def test_a_new_likelihood_is_as_short_as_the_page_says_and_passes_its_checks():
    written, checks = _python("extending.md")[:2]
    _, _, body = written.partition("\nclass ")
    length = sum(bool(line.strip()) for line in body.splitlines())
    assert f"{length} lines" in (ROOT / "docs" / "extending.md").read_text()
    assert checks.count("assert") == 4
    names = {"__name__": "extending.md"}
    exec(compile(written + checks, "extending.md", "exec"), names)
    assert mg.likelihoods.BY_NAME["negative_binomial"] is names["NegativeBinomial"]


def test_the_parts_of_a_new_class_are_those_of_the_base_classes():
    text = (ROOT / "docs" / "extending.md").read_text()
    likelihoods, _, rest = text.partition("\n## A kernel\n")
    kernels, _, rest = rest.partition("\n## A prior\n")
    priors, _, _ = rest.partition("\n## Save and load\n")
    for part, base in (
        (likelihoods, mg.likelihoods.AbstractLikelihood),
        (priors, mg.priors.AbstractPrior),
    ):
        rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
        listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        assert listed <= {"name", *base.__annotations__, *dir(base)}
        assert base.__abstractmethods__ <= listed
    for method in mg.kernels.AbstractKernel.__abstractmethods__:
        assert f"`{method}`" in kernels


def test_the_fields_of_a_fitted_model_are_those_of_the_page_on_files():
    _, _, text = (ROOT / "docs" / "files.md").read_text().partition("`fitted` has")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("Arrays are")[0], re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(f.name for f in dataclasses.fields(Fitted))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem
)
def test_no_placeholder_is_left_in_the_docs(path):
    assert not re.search(r"\b[A-Z]+_TABLE\b", path.read_text())


def test_the_prior_can_be_looked_at_as_the_docs_say():
    (code,) = BLOCK.findall((ROOT / "docs/convolution.md").read_text())
    prior = mg.priors.Convolution(
        mg.kernels.EQ([[1.0]]), [[1.0], [2.0]], [[0.1], [0.2]], np.zeros((2, 3, 1))
    )
    x, z = jnp.zeros((4, 1)), jnp.ones((5, 1))
    names = {"mg": mg, "jax": jax, "x": x, "z": z}
    names["model"] = SimpleNamespace(model_=SimpleNamespace(prior=prior))
    first, covariance, draws = code.strip().splitlines()
    exec(first, names)
    assert eval(covariance, names).shape == (2, 4, 2, 5)
    assert eval(draws, names).shape == (3, 2, 4)


def test_likelihoods_of_the_docs_are_those_of_the_library():
    text = (ROOT / "docs" / "index.md").read_text()
    listed = set(re.findall(r"\| `(\w+)` \|", text))
    assert listed == set(mg.likelihoods.BY_NAME)


def _in_nav(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [page for part in inner for page in _in_nav(part)]


def test_every_page_is_in_the_navigation_once():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert sorted(_in_nav(settings["nav"])) == sorted(pages)


# Public names of modules that no reader needs: helpers of the library's own classes.
NOT_IN_THE_REFERENCE = {
    "motleygp.kernels": {"eq_values"},
    "motleygp.likelihoods": {"constant_log_prob", "fit_constant"},
    "motleygp.optim": {"Descent", "NatGradState", "OptaxSchedule", "paper_initial_p"},
    "motleygp.priors": {
        *("apart", "everywhere", "families", "get", "join", "pairs_within", "pick"),
    },
}


def _resolved(name: str) -> Any:
    """An object by its dotted name."""
    return ft.reduce(getattr, name.split(".")[1:], mg)


def test_the_names_in_the_reference_exist_and_are_all_there_are():
    text = (ROOT / "docs" / "api.md").read_text()
    shown = re.findall(r"^::: (motleygp[\w.]+)$", text, re.MULTILINE)
    assert len(shown) == len(set(shown))
    for name in shown:
        assert callable(_resolved(name)), name
    for module in (
        *("core", "datasets", "kernels", "likelihoods", "metrics", "optim"),
        *("plotting", "priors"),
    ):
        place, members = f"motleygp.{module}", vars(_resolved(f"motleygp.{module}"))
        # The core has its names from elsewhere; the others have their own.
        home = "motleygp." if module == "core" else members["__name__"]
        public = {
            name
            for name, value in members.items()
            if (inspect.isfunction(value) or inspect.isclass(value))
            and value.__module__.startswith(home)
            and not name.startswith("_")
        }
        listed = {n.rpartition(".")[2] for n in shown if n.startswith(f"{place}.")}
        assert public - NOT_IN_THE_REFERENCE.get(place, set()) <= listed, place


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run(
        [*build, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=300,
    )
    pages = {path: path.read_text() for path in tmp_path.rglob("*.html")}
    assert len(pages) > len(list((ROOT / "docs").glob("*.md")))
    loads = r"<(?!a\b)\w[^>]*\b(?:src|srcset|href|data)=[\"']?(?:https?:)?//"
    for path, text in pages.items():
        assert not re.search(loads, text), path
        assert "arithmatex" not in text, path
    for path in tmp_path.rglob("*.css"):
        assert not re.search(
            r"(?:url\(|@import )[\"']?(?:https?:)?//", path.read_text()
        )
    assert "<math" in pages[tmp_path / "model" / "index.html"]
    reference = pages[tmp_path / "api" / "index.html"]
    assert "<strong>Arguments:</strong>" in reference and "-----" not in reference
