"""The installed command, in processes of its own: pipes, signals, disks and shells."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import motleygp as mg
from motleygp.files import modelfile
from motleygp.training import checkpoints
from motleygp_cli import main, tables
from motleygp_cli.errors import FAILED, GOOD, INTERRUPTED, WRONG_USE
from motleygp_cli.parser.data import NAMES

COMMAND = str(Path(sys.executable).with_name("motleygp"))
FITTING = ["--inputs", "east,north", "--outputs", "change:gaussian,sold:bernoulli"]
SMALL = [*FITTING, "--num-inducing", "6", "--quiet"]
linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc here")
# A fit that is still running when the signal comes: minibatches, so that it does not
# end because it has converged.
LONG = ["--optimizer", "hybrid", "--batch-size", "20", "--max-iter", "100000000"]

pytestmark = pytest.mark.skipif(not Path(COMMAND).exists(), reason="not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with data as CSV and as Parquet, and with broken files."""
    folder = tmp_path_factory.mktemp("command")
    X, Y = mg.datasets.houses(60)
    table = pd.concat([X, Y[["change", "sold"]]], axis=1)
    for name in ("data.csv", "data.parquet"):
        tables.write(folder / name, {column: table[column] for column in table})
    (folder / "empty.csv").write_text("")
    (folder / "torn.parquet").write_bytes(b"PAR1 and no more")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)))
    (folder / "odd.csv").write_text("east,visits\n1,0\n2,3\n3,-1\n4,2\n")
    return folder


@pytest.fixture(scope="module")
def fitted(folder) -> Path:
    """The same folder with a model of the data, `m.motley`."""
    said = run(
        folder,
        "fit",
        "data.csv",
        *SMALL,
        "-o",
        "m.motley",
        "--max-iter",
        "20",
        "--json",
    )
    assert said.returncode == GOOD, said.stderr
    assert json.loads(said.stdout)["outputs"]["sold"] == "bernoulli"
    return folder


def settings(folder: Path) -> dict[str, Any]:
    """Settings of a process: it compiles quickly, and for later processes too."""
    names = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    left = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return {"cwd": folder, "env": left | names, "text": True}


def run(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([COMMAND, *arguments], **(settings(folder) | pipes | more))


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    def heed() -> None:
        """Heed Ctrl-C, which pytest's workers and thus their children ignore."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed}
    return subprocess.Popen([COMMAND, *arguments], **settings(folder), **pipes)


def wait_for(process: subprocess.Popen, ready: Any) -> None:
    """Wait until `ready()` holds or the process has ended."""
    while not ready() and process.poll() is None:
        time.sleep(0.02)


def one_line(said: subprocess.CompletedProcess, code: int, *words: str) -> None:
    assert said.returncode == code, said.stderr
    assert said.stderr.startswith("motleygp: ") and said.stderr.count("\n") == 1
    assert all(word in said.stderr for word in words), said.stderr


def listing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"cache"}


# From a table to answers.


@pytest.mark.slow
def test_a_model_answers(fitted):
    out = ["-o", "p.csv", "--quantiles", "0.1,0.9"]
    assert run(fitted, "predict", "m.motley", "data.csv", *out).returncode == GOOD
    predicted = pd.read_csv(fitted / "p.csv")
    X, _ = mg.datasets.houses(60)
    p = mg.load(fitted / "m.motley").predict_dist(X)
    np.testing.assert_allclose(predicted["change"], p["change"].mean)
    np.testing.assert_allclose(predicted["sold_q0.9"], p["sold"].quantile(0.9)[:, 0])
    said = run(fitted, "evaluate", "m.motley", "data.parquet", "--json")
    assert set(json.loads(said.stdout)) == {"change", "sold"}
    assert {"m.motley.run"}.isdisjoint(listing(fitted))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "how"), [("data.csv", signal.SIGKILL), ("data.parquet", signal.SIGTERM)]
)
def test_a_run_that_was_killed_goes_on(folder, tmp_path, data, how):
    """A run from a table to answers, killed on the way."""
    shutil.copy(folder / data, tmp_path / data)
    code, _, done = stopped(tmp_path, data, how)
    assert code == -how
    assert listing(tmp_path) == {data, "m.motley.run"}
    assert gone_on(tmp_path, data) > done
    for arguments in (
        ("predict", "-o", "p.parquet"),
        ("evaluate", "--json"),
        ("report", "-o", "r.html"),
    ):
        name, *rest = arguments
        said = run(tmp_path, name, "m.motley", data, *rest)
        assert said.returncode == GOOD, said.stderr
    assert listing(tmp_path) == {data, "m.motley", "p.parquet", "r.html"}
    assert (tmp_path / "r.html").read_text().endswith("</html>\n")


@pytest.mark.slow
def test_ctrl_c_keeps_the_model_and_the_run(folder, tmp_path):
    shutil.copy(folder / "data.csv", tmp_path / "data.csv")
    code, said, done = stopped(tmp_path, "data.csv", signal.SIGINT)
    assert (code, said) == (INTERRUPTED, "")
    model = mg.load(tmp_path / "m.motley")
    assert model.ended_ == "interrupted" and len(model.trace_["nelbo"]) == done
    assert gone_on(tmp_path, "data.csv") > done
    assert listing(tmp_path) == {"data.csv", "m.motley"}


def stopped(folder: Path, data: str, how: int) -> tuple[int, str, int]:
    """Send a signal to a fit after its first checkpoint.

    Returns its exit code, its standard error and its number of iterations.
    """
    checkpoint = folder / "m.motley.run" / checkpoints.FILE
    process = start(folder, "fit", data, *SMALL, "-o", "m.motley", *LONG)
    wait_for(process, checkpoint.exists)
    process.send_signal(how)
    _, said = process.communicate()
    _, arrays = modelfile.read(checkpoint)
    return process.returncode, said, int(arrays["state.iteration"])


def gone_on(folder: Path, data: str) -> int:
    """Resume a run for a moment; returns its number of iterations."""
    short = ["--time-limit", "0.01", "--resume", "--json"]
    said = run(folder, "fit", data, *SMALL, "-o", "m.motley", *LONG, *short)
    assert said.returncode == GOOD, said.stderr
    assert json.loads(said.stdout)["ended"] == "time"
    return json.loads(said.stdout)["iterations"]


@pytest.mark.slow
def test_a_report_compares_with_independent_models(fitted):
    words = ["report", "m.motley", "data.parquet", "-o", "r.html", "--title", "Mine"]
    said = run(fitted, *words, "--train", "data.csv", "--max-rows", "50", "--json")
    assert (said.returncode, json.loads(said.stdout)) == (GOOD, {"report": "r.html"})
    text = (fitted / "r.html").read_text()
    assert "<title>Mine</title>" in text and "independent" in text
    assert "of which 50 were scored" in text
    (fitted / "r.html").unlink()


@linux
@pytest.mark.parametrize("library", ["numpy", "jaxlib"])
def test_ctrl_c_while_it_starts_is_quiet(folder, library):
    """The model file is a table, but Ctrl-C comes before the command reads it."""
    process = start(folder, "evaluate", "data.csv", "data.csv")
    maps = Path(f"/proc/{process.pid}/maps")
    wait_for(process, lambda: library in maps.read_text())
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "") and process.returncode == INTERRUPTED


# Where nothing can be written.


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_model(fitted):
    """A file may have 1000 bytes at most; a model has more."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    before, model = listing(fitted), (fitted / "m.motley").read_bytes()
    # The compilation cache could not be written either.
    own = settings(fitted)["env"] | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    more = {"preexec_fn": limit, "env": own}
    fit = ["fit", "data.csv", *SMALL, "--max-iter", "20", "-o", "m.motley"]
    said = run(fitted, *fit, **more)
    *warned, last = said.stderr.splitlines()
    assert said.returncode == FAILED and last == "motleygp: 'm.motley': File too large."
    assert all(line.startswith("motleygp: ") for line in warned)
    assert "the checkpoint could not be written, and training goes on" in warned[0]
    predict = ["predict", "m.motley", "data.csv", "-o", "big.parquet"]
    one_line(run(fitted, *predict, **more), FAILED, "'big.parquet': File too large")
    report = ["report", "m.motley", "-o", "r.html", "--quiet"]
    one_line(run(fitted, *report, **more), FAILED, "'r.html': File too large")
    assert listing(fitted) == before and (fitted / "m.motley").read_bytes() == model


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_said(folder):
    with open("/dev/full", "w") as full:
        for arguments in (["datasets"], ["--help"]):
            said = run(folder, *arguments, stdout=full)
            one_line(said, FAILED, "standard output: No space left")
        assert run(folder, "datasets", "mars", stderr=full).returncode == WRONG_USE


def test_nobody_need_read_to_the_end(folder):
    assert_quiet_when_unread(folder, "completion", "bash")


@pytest.mark.slow
def test_nobody_need_read_a_table(fitted):
    assert_quiet_when_unread(fitted, "evaluate", "m.motley", "data.csv")


def assert_quiet_when_unread(folder: Path, *arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    said = run(folder, *arguments, stdout=writing)
    os.close(writing)
    assert (said.returncode, said.stderr) == (FAILED, "")


# Wrong use.


def test_the_command_says_what_it_is(folder):
    alone = run(folder)
    assert alone.returncode == WRONG_USE and "COMMAND" in alone.stderr
    version = f"motleygp {mg.__version__}\n"
    assert run(folder, "--version").stdout == version
    module = [sys.executable, "-m", "motleygp"]
    said = subprocess.run(
        [*module, "--version"], **settings(folder), capture_output=True
    )
    assert (said.returncode, said.stdout) == (GOOD, version)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fitt"], WRONG_USE, "'fitt'"),
        (["fit", "no.csv", "-o", "x.motley"], WRONG_USE, "there is no file 'no.csv'"),
        (["fit", "data.csv", "-o", "no/x"], FAILED, "there is no folder 'no'"),
        (["fit", "data.csv", "-o", "."], WRONG_USE, "got the folder '.'"),
        (
            ["fit", "data.csv", "-o", "x", "--outputs", "up"],
            WRONG_USE,
            "`outputs` must name columns of the table",
        ),
        (["fit", "empty.csv", "-o", "x"], FAILED, "'empty.csv' cannot be read"),
        (["fit", "torn.parquet", "-o", "x"], FAILED, "'torn.parquet' cannot be read"),
        (["fit", "binary.csv", "-o", "x"], FAILED, "'binary.csv' cannot be read"),
        (["predict", "data.csv", "data.csv", "-o", "x"], WRONG_USE, "must end in .csv"),
        (["report", "no.motley", "-o", "r.html"], WRONG_USE, "there is no file"),
    ],
)
def test_wrong_use_is_said_before_jax_is_imported(folder, arguments, code, words):
    script = (
        "import sys, motleygp_cli\n"
        "code = motleygp_cli.main(sys.argv[1:])\n"
        "assert 'jax' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    before = listing(folder)
    command = [sys.executable, "-c", script, *arguments]
    said = subprocess.run(command, **settings(folder), capture_output=True)
    one_line(said, code, words)
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("data", "outputs", "code", "words"),
    [
        ("data.csv", "change:normal", WRONG_USE, ["'change'", "gaussian", "'normal'"]),
        ("odd.csv", "visits:poisson", FAILED, ["output 'visits'", "got -1 in row 2"]),
    ],
)
def test_a_wrong_likelihood_is_said(folder, data, outputs, code, words):
    before = listing(folder)
    said = run(folder, "fit", data, "--outputs", outputs, "-o", "x.motley")
    one_line(said, code, *words)
    assert listing(folder) == before


# Completion.

COMPLETE = """
eval "$(motleygp completion bash)"
complete -p motleygp
while IFS= read -r line; do
  read -ra COMP_WORDS <<< "$line"
  [[ $line == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  _shtab_motleygp
  echo "${COMPREPLY[*]}"
done
"""
COMPLETED = {
    "motleygp f": "fit",
    "motleygp fit da": "data.csv data.parquet",
    "motleygp fit data.csv --prior ": "lmc convolution",
    "motleygp fit data.csv --optimizer h": "hybrid",
    "motleygp fit data.csv --num-i": "--num-inducing",
    "motleygp predict data.csv data.p": "data.parquet",
    "motleygp datasets ": " ".join((*NAMES, "fetch")),
    "motleygp datasets houses -o data.c": "data.csv",
    "motleygp completion z": "zsh",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(folder):
    own = settings(folder)
    own["env"]["PATH"] = f"{Path(COMMAND).parent}:{own['env']['PATH']}"
    lines = "\n".join(COMPLETED) + "\n"
    said = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE], input=lines, capture_output=True, **own
    )
    assert said.stderr == "" and "motleygp" in said.stdout.splitlines()[0]
    found = dict(zip(COMPLETED, said.stdout.splitlines()[1:], strict=True))
    found["motleygp fit da"] = " ".join(sorted(found["motleygp fit da"].split()))
    assert found == COMPLETED


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_a_script(shell, tmp_path, capsys):
    path = tmp_path / f"script.{shell}"
    assert main(["completion", shell]) == GOOD
    path.write_text(capsys.readouterr().out)
    assert "convolution" in path.read_text() and "houses" in path.read_text()
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(path)], check=True)
