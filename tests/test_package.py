"""The package as it is shipped."""

import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import jax
import pytest
from packaging.version import Version

import motleygp

ROOT = Path(__file__).parents[1]


def test_importing_switches_to_float64():
    assert jax.numpy.zeros(()).dtype == jax.numpy.float64


def test_the_metadata_have_the_version():
    assert metadata.version("motleygp") == motleygp.__version__


def test_the_changelog_is_in_order_and_not_ahead_of_the_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (\S+)", text, re.MULTILINE)
    released = [Version(name) for name in headings if name != "Unreleased"]
    assert headings and "Unreleased" not in headings[1:]
    newest_first = [Version(motleygp.__version__), *released]
    assert newest_first == sorted(newest_first, reverse=True)


@pytest.mark.package
def test_the_wheel_installs_into_an_empty_environment(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", tmp_path],
        cwd=ROOT,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True)
    code = (
        "import pathlib, motleygp as mg\n"
        "folder = pathlib.Path(mg.__file__).parent\n"
        "assert 'site-packages' in str(folder), folder\n"
        "assert (folder / 'py.typed').exists()\n"
        "print(mg.MotleyGP(['poisson']))\n"
    )
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "MotleyGP" in done.stdout
