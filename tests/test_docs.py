"""What the README and the docs show is run."""

import functools as ft
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import motleygp as mg
import motleygp_cli as cli

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[1]
SHORT = {"max_iter": 5}
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


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


@pytest.mark.parametrize("name", ["README.md", "docs/command.md"])
def test_the_commands_shown_are_commands(name):
    lines = re.findall(r"^\$ (motleygp .*)$", (ROOT / name).read_text(), re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        assert cli._parser().parse_args(line.split()[1:]).command in line


@pytest.mark.slow
def test_the_manual_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(BLOCK.findall((ROOT / "docs/estimator.md").read_text()))
    quick = ft.partial(mg.MotleyGP, num_inducing=8, progress=False)
    monkeypatch.setattr(mg, "MotleyGP", lambda *a, **k: quick(*a, **(k | SHORT)))
    exec(compile(code, "estimator.md", "exec"), {})


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
