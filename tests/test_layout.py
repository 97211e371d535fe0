"""The shape of the code: rooms that keep their private parts, and nothing too long."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("motleygp", "motleygp_cli", "motleygp_reproduce")
FILES = [path for name in PACKAGES for path in (ROOT / "src" / name).rglob("*.py")]
SCRIPTS = [
    path
    for folder in ("benchmarks", "docs", "examples", "experiments", "tools")
    for path in (ROOT / folder).rglob("*.py")
]
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 350, 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# The classes that belong to a package: elsewhere, dispatch is by their methods.
CONCRETE = {
    "likelihoods": {
        *("Gaussian", "HetGaussian", "Bernoulli", "Beta", "Gamma", "Exponential"),
        "Poisson",
    },
    "kernels": {"EQ"},
    "priors": {"LMC", "Convolution", "LatentConvolution", "AbstractConvolution"},
}


def room_of(path: Path) -> str:
    """The package in which a file lies, or its own name at the top."""
    return path.relative_to(ROOT / "src").parts[1]


def names_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_was_found():
    assert len(FILES) > 100
    assert {room_of(path) for path in FILES} > {"likelihoods", "training", "estimator"}


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=names_of)
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES_OF_A_FILE
    long = {
        node.name: length
        for node in ast.walk(ast.parse(text))
        if isinstance(node, FUNCTIONS)
        and (length := node.end_lineno - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    }
    assert not long


@pytest.mark.parametrize("path", FILES, ids=names_of)
def test_private_modules_and_names_stay_in_their_room(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        parts = node.module.split(".")
        if parts[0] not in PACKAGES:
            continue
        names = [*parts[1:], *(alias.name for alias in node.names)]
        private = [n for n in names if n.startswith("_") and not n.startswith("__")]
        at_home = len(parts) > 1 and parts[1] == room_of(path)
        # The vocabulary of shapes and the version belong to all.
        shared = parts[1:2] in (["_types"], ["_version"])
        assert not private or at_home or shared, f"{ast.unparse(node)}"


@pytest.mark.parametrize("path", FILES, ids=names_of)
def test_no_room_asks_for_a_concrete_class_of_another(path):
    foreign = {
        name
        for package, names in CONCRETE.items()
        if package != room_of(path)
        for name in names
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("isinstance", "issubclass"):
            asked = {
                getattr(part, "id", getattr(part, "attr", None))
                for part in ast.walk(node.args[1])
            }
            assert not asked & foreign, ast.unparse(node)
