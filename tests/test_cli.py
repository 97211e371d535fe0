"""The command, from a table to a model to its answers."""

import gzip
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import motleygp as mg
import motleygp_cli as cli
from motleygp_cli import tables

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL = ["--max-iter", "5", "--num-inducing", "6", "--quiet"]
OUTPUTS = "change:gaussian,sold:bernoulli"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Data as CSV and as Parquet, and a model of the first."""
    folder = tmp_path_factory.mktemp("cli")
    X, Y = mg.datasets.houses(60)
    table = pd.concat([X, Y[["change", "sold"]]], axis=1)
    table.to_csv(folder / "data.csv", index=False)
    tables.write(folder / "data.parquet", {c: table[c] for c in table})
    code = fit(folder, "data.csv", "--outputs", OUTPUTS)
    assert code == cli.GOOD
    return folder


def fit(folder: Path, data: str, *arguments: str, to: str = "m.motley") -> int:
    return cli.main(
        ["fit", str(folder / data), "-o", str(folder / to), *SMALL, *arguments]
    )


def test_help_is_quick_and_does_not_import_jax():
    code = (
        "import sys, motleygp_cli\n"
        "try: motleygp_cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    took = []
    for _ in range(3):
        began = time.perf_counter()
        run = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        took.append(time.perf_counter() - began)
    assert "evaluate" in run.stdout and min(took) < 0.5


@pytest.mark.parametrize(
    "command", ["demo", "fit", "predict", "evaluate", "datasets", "vo"]
)
def test_every_command_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"example: motleygp {command}" in " ".join(capsys.readouterr().out.split())


def test_a_table_becomes_a_model_and_a_model_answers(folder, capsys):
    assert not list(folder.glob("*.run"))
    out = folder / "predicted.csv"
    arguments = ["predict", str(folder / "m.motley"), str(folder / "data.csv")]
    assert cli.main([*arguments, "-o", str(out), "--quantiles", "0.1,0.9"]) == cli.GOOD
    assert "60 rows" in capsys.readouterr().out
    predicted = pd.read_csv(out)
    X, _ = mg.datasets.houses(60)
    p = mg.load(folder / "m.motley").predict_dist(X)
    np.testing.assert_allclose(predicted["change"], p["change"].mean)
    np.testing.assert_allclose(predicted["sold_std"], p["sold"].std)
    np.testing.assert_allclose(
        predicted["change_q0.9"], p["change"].quantile(0.9)[:, 0]
    )
    evaluate = ["evaluate", str(folder / "m.motley"), str(folder / "data.csv")]
    assert cli.main([*evaluate, "--json"]) == cli.GOOD
    scores = json.loads(capsys.readouterr().out)
    assert set(scores) == {"change", "sold"} and "accuracy" not in scores["change"]
    assert scores["sold"]["nlpd"] > 0.0
    assert cli.main(evaluate) == cli.GOOD
    assert "coverage95" in capsys.readouterr().out


def test_parquet_goes_in_and_comes_out(folder, capsys):
    arguments = ["predict", str(folder / "m.motley"), str(folder / "data.parquet")]
    for name in ("p.parquet", "p.tsv.gz", "p.csv"):
        assert cli.main([*arguments, "-o", str(folder / name), "--json"]) == cli.GOOD
    assert json.loads(capsys.readouterr().out.splitlines()[0])["rows"] == 60
    first = pl.read_parquet(folder / "p.parquet")
    text = gzip.decompress((folder / "p.tsv.gz").read_bytes()).decode()
    second = pd.read_csv(io.StringIO(text), sep="\t")
    np.testing.assert_allclose(first["change"].to_numpy(), second["change"])
    given = [*arguments, "-o", str(folder / "g.csv"), "--given"]
    assert cli.main(given) == cli.GOOD
    moved = pd.read_csv(folder / "g.csv")["change"]
    assert not np.allclose(moved, pd.read_csv(folder / "p.csv")["change"])


def test_a_configuration_says_what_flags_say(folder, capsys):
    (folder / "c.toml").write_text(
        'inputs = ["east", "north"]\nnum_inducing = 7\nseed = 3\n'
        '[outputs]\nchange = "gaussian"\nsold = "auto"\n'
    )
    code = fit(
        folder,
        "data.parquet",
        "--config",
        str(folder / "c.toml"),
        "--json",
        to="c.motley",
    )
    assert code == cli.GOOD
    said = json.loads(capsys.readouterr().out)
    assert said["outputs"] == {"change": "gaussian", "sold": "bernoulli"}
    assert said["iterations"] == 5 and said["ended"] == "horizon"
    # A flag has the last word.
    model = mg.load(folder / "c.motley")
    assert (model.num_inducing, model.random_state) == (6, 3)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(folder):
    script = (
        "import sys\n"
        "from motleygp import checkpoints\n"
        "import motleygp_cli\n"
        "checkpoints.SECONDS = 0.0\n"
        "sys.exit(motleygp_cli.main(sys.argv[1:]))\n"
    )
    arguments = ["fit", str(folder / "data.csv"), "--outputs", "change:gaussian"]
    arguments += [
        "--inputs",
        "east,north",
        "-o",
        str(folder / "k.motley"),
        "--num-inducing",
        "6",
        "--quiet",
    ]
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen([*command, "--max-iter", "100000"])
    checkpoint = folder / "k.motley.run" / "checkpoint.motley"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert checkpoint.exists() and not (folder / "k.motley").exists()
    again = [
        *command,
        "--max-iter",
        "100000",
        "--time-limit",
        "0.1",
        "--resume",
        "--json",
    ]
    run = subprocess.run(again, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["ended"] == "time"
    assert mg.load(folder / "k.motley").trace_["iteration"][0] == 1
    assert not checkpoint.exists()


def test_ctrl_c_keeps_a_usable_model(folder, monkeypatch, capsys):
    real = mg.MotleyGP.fit

    def interrupted(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.ended_ = "interrupted"
        return self

    monkeypatch.setattr(mg.MotleyGP, "fit", interrupted)
    code = fit(folder, "data.csv", "--outputs", OUTPUTS, to="i.motley")
    assert code == cli.INTERRUPTED
    assert mg.load(folder / "i.motley").ended_ == "interrupted"


def wrong(folder: Path) -> dict[str, tuple[list[str], int, str]]:
    """Arguments, the exit code, and what is said."""
    (folder / "empty.csv").write_text("")
    (folder / "bare.csv").write_text("east,north,change\n")
    (folder / "torn.parquet").write_bytes(b"PAR1 and no more")
    (folder / "odd.csv").write_text("east,visits\n1,0\n2,3\n3,-1\n4,2\n")
    (folder / "bad.toml").write_text("outputs = [")
    (folder / "odd.toml").write_text('speed = 1\noutputs = ["change"]\n')
    data, model = str(folder / "data.csv"), str(folder / "m.motley")
    to = ["-o", str(folder / "no.motley")]

    def fitting(path: str, *arguments: str) -> list[str]:
        return ["fit", path if "/" in path else str(folder / path), *to, *arguments]

    outputs = ["--outputs", OUTPUTS]
    return {
        "column": (fitting(data, "--outputs", "price"), 2, "got 'price'"),
        "input": (fitting(data, *outputs, "--inputs", "up"), 2, "got 'up'"),
        "both": (fitting(data, *outputs, "--inputs", "sold"), 2, "got 'sold'"),
        "none": (fitting(data), 2, "--outputs must name the columns to learn"),
        "likelihood": (fitting(data, "--outputs", "change:normal"), 2, "got 'normal'"),
        "support": (
            fitting("odd.csv", "--outputs", "visits:poisson"),
            1,
            "output 'visits' must be 0, 1, 2, ... for the poisson likelihood; "
            "got -1 in row 2.",
        ),
        "empty": (fitting("empty.csv", *outputs), 1, "cannot be read"),
        "bare": (fitting("bare.csv", "--outputs", "change"), 1, "must have rows"),
        "torn": (fitting("torn.parquet", *outputs), 1, "cannot be read"),
        "missing": (fitting("nowhere.csv", *outputs), 2, "there is no file"),
        "ending": (fitting("data.xls", *outputs), 2, "must end in .csv"),
        "toml": (
            fitting(data, "--config", str(folder / "bad.toml")),
            2,
            "cannot be read",
        ),
        "setting": (
            fitting(data, "--config", str(folder / "odd.toml")),
            2,
            "there is no setting 'speed'",
        ),
        "model": (["evaluate", str(folder / "no.m"), data], 2, "there is no file"),
        "not a model": (["evaluate", data, data], 1, "data.csv"),
        "no inputs": (
            ["evaluate", model, str(folder / "odd.csv")],
            2,
            "the model's inputs must name columns of the table, east, visits; got",
        ),
        "levels": (
            ["predict", model, data, "-o", str(folder / "p.csv"), "--quantiles", "2"],
            2,
            "--quantiles must lie between 0 and 1",
        ),
        "folder": (
            ["predict", model, data, "-o", str(folder / "no" / "p.csv")],
            1,
            "there is no folder",
        ),
        "dataset": (["datasets", "mars", "-o", str(folder / "p.csv")], 2, "got 'mars'"),
        "nowhere": (["datasets", "t1"], 2, "-o must say where the table goes"),
    }


def test_what_is_wrong_is_said_in_one_line(folder, capsys):
    before = {path.name for path in folder.iterdir()}
    cases = wrong(folder)
    made = {path.name for path in folder.iterdir()} - before
    for name, (arguments, expected, message) in cases.items():
        assert cli.main(arguments) == expected, name
        said = capsys.readouterr().err
        assert said.startswith("motleygp: ") and said.count("\n") == 1, name
        assert message in said, name
    left = {path.name for path in folder.iterdir()} - before - made
    assert left <= {"no.motley.run"}  # nothing half-written
    assert cli.main([*cases["column"][0], "--json"]) == 2
    assert "got 'price'" in json.loads(capsys.readouterr().err)["error"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["predict", "m", "d", "-o", "p.csv", "--quantiles", "low"])
    assert ended.value.code == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_leaves_the_old_table(folder, monkeypatch, capsys):
    path = folder / "old.csv"
    path.write_text("old")

    def full(there: Path) -> None:
        there.write_text("half")
        Path("/dev/full").write_text("no room")

    with pytest.raises(OSError, match="No space left"):
        tables.replace(path, full)
    assert path.read_text() == "old" and not list(folder.glob(".old*"))


def test_drawn_data_are_listed_and_written(folder, capsys):
    assert cli.main(["datasets"]) == 0
    assert "houses" in capsys.readouterr().out.split()
    for name in ("houses", "t1"):
        path = folder / f"{name}.csv"
        assert cli.main(["datasets", name, "-o", str(path)]) == 0
        assert len(pd.read_csv(path)) >= 400
    assert cli.main(["datasets", "--json"]) == 0
    assert "t3" in json.loads(capsys.readouterr().out.splitlines()[-1])
