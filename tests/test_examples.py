"""The worked examples run, print their tables and save their pictures."""

import importlib.util
from pathlib import Path
from types import ModuleType

import matplotlib.image
import pytest

pytestmark = pytest.mark.usefixtures("quick_compilation")

EXAMPLES = Path(__file__).parents[1] / "examples"
# The rows of the table that each one prints.
ROWS = {
    "health_table": ["diabetes", "visits", "triglycerides", "pressure"],
    "london_map": ["change", "flat"],
    "missing_sensor": ["joint", "alone"],
}


def _imported(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_an_example_runs(name, capsys, tmp_path):
    _imported(name).main(max_iter=3, folder=tmp_path, num_inducing=6)
    printed = capsys.readouterr().out.splitlines()
    assert "nlpd" in printed[0]
    assert [line.split()[0] for line in printed[1:]] == ROWS[name]
    assert matplotlib.image.imread(tmp_path / f"{name}.png").std() > 0.05


def test_every_example_is_tested_short_and_in_the_docs():
    paths = sorted(EXAMPLES.glob("*.py"))
    # `test_core.py` runs the code of the core's example, which has no picture.
    assert [path.stem for path in paths] == sorted(["core", *ROWS])
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    for path in paths:
        assert len(path.read_text().splitlines()) < 80
        assert f"examples/{path.name}" in page
        assert f"]({path.stem}.png)" in page or path.stem == "core"
