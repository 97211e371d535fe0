"""What the README and the docs show is run."""

import functools as ft
import re
from pathlib import Path

import pytest

import motleygp as mg

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_readme_runs(monkeypatch, capsys):
    (code,) = BLOCK.findall((ROOT / "README.md").read_text())
    quick = ft.partial(mg.MotleyGP, max_iter=5, num_inducing=8, progress=False)
    monkeypatch.setattr(mg, "MotleyGP", quick)
    exec(compile(code, "README.md", "exec"), {})
    assert "'visits':" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["index", "model", "training", "results", "expectations", "speed"],
)
def test_no_placeholder_is_left_in_the_docs(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    assert not re.search(r"\b[A-Z]+_TABLE\b", text)


def test_likelihoods_of_the_docs_are_those_of_the_library():
    text = (ROOT / "docs" / "index.md").read_text()
    listed = set(re.findall(r"\| `(\w+)` \|", text))
    assert listed == set(mg.likelihoods.BY_NAME)
