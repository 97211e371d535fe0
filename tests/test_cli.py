"""The command, from a table to a model to its answers."""

import dataclasses
import datetime
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import shtab

import motleygp as mg
import motleygp_cli as cli
from motleygp.tables import frames, infer
from motleygp_cli import commands, completion, parser, places, signals, tables
from motleygp_cli.commands import fitting
from motleygp_cli.errors import FAILED, GOOD, INTERRUPTED, WRONG_USE

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL = ["--max-iter", "5", "--num-inducing", "6", "--quiet"]
OUTPUTS = "change:gaussian,sold:bernoulli"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with data as CSV and as Parquet, and a model of the CSV file."""
    folder = tmp_path_factory.mktemp("cli")
    X, Y = mg.datasets.houses(60)
    table = pd.concat([X, Y[["change", "sold"]]], axis=1)
    table.to_csv(folder / "data.csv", index=False)
    tables.write(folder / "data.parquet", {c: table[c] for c in table})
    code = fit(folder, "data.csv", "--outputs", OUTPUTS)
    assert code == GOOD
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
        "assert not {'jax', 'numpy', 'pandas'} & set(sys.modules)\n"
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
    "command",
    ["demo", "fit", "predict", "evaluate", "report", "datasets", "vo", "completion"],
)
def test_every_command_has_an_example(command, capsys):
    assert cli.main([command, "--help"]) == GOOD
    assert f"example: motleygp {command}" in " ".join(capsys.readouterr().out.split())


def test_every_argument_is_explained():
    commands = parser.build().commands
    assert {"fit", "predict", "completion"} <= set(commands)
    for name, command in commands.items():
        assert "--help" in command.flags
        for action in command.arguments:
            assert action.help, (name, action.dest)


def test_paths_are_completed_as_files_or_folders():
    built = parser.build()
    completion.script(built, "bash")
    found = {
        (name, action.dest): getattr(action, "complete", None)
        for name, command in built.commands.items()
        for action in command.arguments
    }
    assert found["demo", "output_dir"] == shtab.DIRECTORY
    for path in (("fit", "data"), ("fit", "config"), ("report", "train")):
        assert found[path] == shtab.FILE
    assert found["fit", "inputs"] is None


def test_a_table_becomes_a_model_and_a_model_answers(folder, capsys):
    assert not list(folder.glob("*.run"))
    out = folder / "predicted.csv"
    arguments = ["predict", str(folder / "m.motley"), str(folder / "data.csv")]
    assert cli.main([*arguments, "-o", str(out), "--quantiles", "0.1,0.9"]) == GOOD
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
    assert cli.main([*evaluate, "--json"]) == GOOD
    scores = json.loads(capsys.readouterr().out)
    assert set(scores) == {"change", "sold"} and "accuracy" not in scores["change"]
    assert scores["sold"]["nlpd"] > 0.0
    assert cli.main(evaluate) == GOOD
    assert "coverage95" in capsys.readouterr().out


def test_parquet_goes_in_and_comes_out(folder, capsys):
    arguments = ["predict", str(folder / "m.motley"), str(folder / "data.parquet")]
    for name in ("p.parquet", "p.tsv.gz", "p.csv"):
        assert cli.main([*arguments, "-o", str(folder / name), "--json"]) == GOOD
    assert json.loads(capsys.readouterr().out.splitlines()[0])["rows"] == 60
    first = pl.read_parquet(folder / "p.parquet")
    text = gzip.decompress((folder / "p.tsv.gz").read_bytes()).decode()
    second = pd.read_csv(io.StringIO(text), sep="\t")
    np.testing.assert_allclose(first["change"].to_numpy(), second["change"])
    given = [*arguments, "-o", str(folder / "g.csv"), "--given"]
    assert cli.main(given) == GOOD
    moved = pd.read_csv(folder / "g.csv")["change"]
    assert not np.allclose(moved, pd.read_csv(folder / "p.csv")["change"])


def test_a_configuration_replaces_flags(folder, capsys):
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
    assert code == GOOD
    said = json.loads(capsys.readouterr().out)
    assert said["outputs"] == {"change": "gaussian", "sold": "bernoulli"}
    assert said["iterations"] == 5 and said["ended"] == "horizon"
    # A flag overrides the configuration.
    model = mg.load(folder / "c.motley")
    assert (model.num_inducing, model.random_state) == (6, 3)


def test_ctrl_c_keeps_a_usable_model(folder, monkeypatch, capsys):
    real = mg.MotleyGP.fit

    def interrupted(self, *args, **kwargs):
        real(self, *args, **kwargs)
        ends = {"ended": "interrupted"}
        starts = tuple(start | ends for start in self.fitted_.starts)
        self.fitted_ = dataclasses.replace(self.fitted_, starts=starts, **ends)
        return self

    monkeypatch.setattr(mg.MotleyGP, "fit", interrupted)
    code = fit(folder, "data.csv", "--outputs", OUTPUTS, to="i.motley")
    assert code == INTERRUPTED
    assert mg.load(folder / "i.motley").ended_ == "interrupted"
    assert "--resume" not in capsys.readouterr().err
    fit(folder, "data.csv", "--outputs", OUTPUTS, to="i.motley")
    assert "--resume would continue it" in capsys.readouterr().err


def wrong(folder: Path) -> dict[str, tuple[list[str], int, str]]:
    """The arguments, the exit code and a part of the message for each error."""
    (folder / "empty.csv").write_text("")
    (folder / "bare.csv").write_text("east,north,change\n")
    (folder / "torn.parquet").write_bytes(b"PAR1 and no more")
    (folder / "odd.csv").write_text("east,visits\n1,0\n2,3\n3,-1\n4,2\n")
    (folder / "places.csv").write_text("east,north\n1,2\n")
    (folder / "bad.toml").write_text("outputs = [")
    settings = {
        "odd": 'speed = 1\noutputs = ["change"]',
        "many": 'max_iter = "many"\noutputs = ["change"]',
        "three": "outputs = 3",
        "text": 'inputs = "east"\noutputs = ["change"]',
        "zero": 'restarts = 0\noutputs = ["change"]',
        "again": 'outputs = ["change", "change"]',
        "own": 'progress = false\noutputs = ["change"]',
        "seed": 'seed = "x"\noutputs = ["change"]',
        "list": "[outputs]\nchange = ['gaussian']",
        "standard": 'standardize = "no"\noutputs = ["change"]',
        "rank": 'rank = "x"\ninputs = ["east", "north"]\noutputs = ["change"]',
    }
    for name, text in settings.items():
        (folder / f"{name}.toml").write_text(text)
    for name, text in {
        "plain": "east,north,change\n1,2,3\n2,3,4\n",
        "red": "east,change\n1,2\nred,3\n4,5\n",
        "gap": "east,change\n1,2\n,3\n4,5\n",
        "twice": "east,east,change\n1,2,3\n2,3,4\n",
        "semicolon": "east;change\n1,5;2\n2,5;3\n",
        "long": "east,change\n1,2\n2,3,4\n",
        "longer": "east,change\n1,2,3\n2,3,4\n",
    }.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "latin.csv").write_bytes("e\xe4st,change\n1,2\n".encode("latin-1"))
    (folder / "folder.csv").mkdir(exist_ok=True)
    (folder / "february.csv").write_text("day,change\n2020-02-29,1\n2020-02-30,2\n")
    for name, values in {
        "list": [[1.0], [2.0, 3.0]],
        "array": pl.Series([[1.0], [2.0]], dtype=pl.Array(pl.Float64, 1)),
        "struct": [{"a": 1.0}, {"a": 2.0}],
        "binary": [b"a", b"b"],
        "duration": [datetime.timedelta(1), datetime.timedelta(2)],
        "time": [datetime.time(1), datetime.time(2)],
        "category": pl.Series(["a", "b"], dtype=pl.Categorical),
        "text": ["1", "2"],
    }.items():
        odd = pl.DataFrame({name: values, "change": [1.0, 2.0]})
        odd.write_parquet(folder / f"{name}.parquet")
    pl.DataFrame({"east": [1.0, None], "change": [1.0, 2.0]}).write_parquet(
        folder / "gap.parquet"
    )
    data, model = str(folder / "data.csv"), str(folder / "m.motley")
    to = ["-o", str(folder / "no.motley")]

    def fitting(path: str, *arguments: str) -> list[str]:
        return ["fit", path if "/" in path else str(folder / path), *to, *arguments]

    def configured(name: str) -> list[str]:
        return fitting("plain.csv", "--config", str(folder / f"{name}.toml"))

    outputs = ["--outputs", OUTPUTS]
    change = ["--outputs", "change"]
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
            "got -1 in row 2. Rows count from 0, without the header.",
        ),
        "empty": (fitting("empty.csv", *outputs), 1, "cannot be read"),
        "bare": (fitting("bare.csv", "--outputs", "change"), 1, "must have rows"),
        "torn": (fitting("torn.parquet", *outputs), 1, "cannot be read"),
        "missing": (fitting("nowhere.csv", *outputs), 2, "there is no file"),
        "ending": (fitting("data.xls", *outputs), 2, "must end in .csv"),
        "red": (fitting("red.csv", *change), 1, "input 'east' must have a finite num"),
        "row": (fitting("red.csv", *change), 1, "got 'red' in row 1."),
        "gap": (fitting("gap.csv", *change), 1, "got nothing in row 1."),
        "null": (fitting("gap.parquet", *change), 1, "'east' must have a finite num"),
        "twice": (fitting("twice.csv", *change), 1, "got 'east' twice"),
        "semicolon": (fitting("semicolon.csv", *change), 1, "must be separated by ','"),
        "long": (fitting("long.csv", *change), 1, "Expected 2 fields in line 3, saw 3"),
        "longer": (fitting("longer.csv", *change), 1, "one value per column, 2"),
        "latin": (
            fitting("latin.csv", *change),
            1,
            "must be text in UTF-8; got the byte 0xe4",
        ),
        "folder as data": (fitting("folder.csv", *change), 2, "there is no file"),
        **{
            f"{name} column": (
                fitting(f"{name}.parquet", *change),
                1,
                f"input {name!r} must hold numbers or dates; got the type",
            )
            for name in ("list", "array", "struct", "binary", "duration", "time")
        },
        "list output": (
            fitting("list.parquet", "--outputs", "list", "--inputs", "change"),
            1,
            "output 'list' must hold numbers",
        ),
        "category": (fitting("category.parquet", *change), 1, "got 'a' in row 0 and 1"),
        "text column": (fitting("text.parquet", *change), 1, "or dates; got text."),
        "february": (
            fitting("february.csv", *change),
            1,
            "input 'day' must have a date in ISO form (2024-03-31) in every row; "
            "got '2020-02-30' in row 1.",
        ),
        "output twice": (
            fitting(data, "--outputs", "sold,change:beta,sold:bernoulli"),
            2,
            "each column must be named once; got 'sold' twice",
        ),
        "input twice": (
            fitting(data, *change, "--inputs", "east,east"),
            2,
            "got 'east' twice",
        ),
        "toml": (configured("bad"), 2, "cannot be read"),
        "no toml": (configured("none"), 2, "cannot be read"),
        "setting": (configured("odd"), 2, "there is no setting 'speed'"),
        "many": (configured("many"), 2, "`max_iter` must be a whole number"),
        "three": (configured("three"), 2, "`outputs` must be a list of names; got 3"),
        "text": (configured("text"), 2, "`inputs` must be a list of names; got 'east'"),
        "zero": (configured("zero"), 2, "`restarts` must be a whole number above 0"),
        "again": (configured("again"), 2, "`outputs` must name each column once"),
        "own": (configured("own"), 2, "there is no setting 'progress'"),
        "seed": (configured("seed"), 2, "`seed` must be a whole number, 0 or more"),
        "list": (configured("list"), 2, "the likelihood of 'change' must be one of"),
        "standard": (configured("standard"), 2, "`standardize` must be True or False"),
        "rank": (configured("rank"), 2, "`rank` must be a whole number"),
        "iterations": (fitting(data, *change, "--max-iter", "0"), 2, "got '0'"),
        "restarts": (fitting(data, *change, "--restarts", "0"), 2, "1 or more"),
        "limit": (
            fitting("plain.csv", *change, "--time-limit", "-1"),
            2,
            "`time_limit` must",
        ),
        "seconds": (fitting(data, *change, "--time-limit", "x"), 2, "--time-limit"),
        "flag": (fitting(data, "--max-itr", "5"), 2, "did you mean '--max-iter'?"),
        "strange": (fitting(data, "more"), 2, "`motleygp fit` has no argument 'more'."),
        "command": (["fitt"], 2, "invalid choice: 'fitt'"),
        "to a folder": (
            ["fit", data, *change, "-o", str(folder)],
            2,
            "-o must name a file; got the folder",
        ),
        "to the data": (
            ["fit", data, *change, "-o", data],
            2,
            "that the command reads",
        ),
        "to no table": (["predict", model, data, "-o", "p"], 2, "must end in .csv"),
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
        "dataset": (["datasets", "mars", "-o", str(folder / "p.csv")], 2, "'mars'"),
        "low": (
            ["predict", model, data, "-o", "p.csv", "--quantiles", "low"],
            2,
            "--quantiles: must be numbers between 0 and 1",
        ),
        "train": (
            ["report", model, "-o", str(folder / "r.html"), "--train", data],
            2,
            "--train needs a table to score the models on",
        ),
        "nothing to score": (
            ["report", model, str(folder / "places.csv"), "-o", str(folder / "r.html")],
            2,
            "a report needs a table with outputs of the model, change, sold; got none",
        ),
        "no data set": (["datasets", "-o", "p.csv"], 2, "-o must follow a data set"),
        "two data sets": (["datasets", "t1", "t2"], 2, "one data set must be named"),
        "fetch what": (["datasets", "fetch"], 2, "'fetch' must be followed by"),
        "fetch from": (
            ["datasets", "t1", "--from", "https://localhost"],
            2,
            "--from must follow 'fetch'; got 'https://localhost'",
        ),
        "fetch openly": (
            ["datasets", "fetch", "naval", "--from", "http://data.test"],
            2,
            "--from: must begin with https://; got 'http://data.test'",
        ),
        "fetch a toy": (["datasets", "fetch", "t1"], 1, "there is nothing to fetch"),
    }


def test_errors_are_one_line(folder, capsys):
    before = {path.name for path in folder.iterdir()}
    cases = wrong(folder)
    made = {path.name for path in folder.iterdir()} - before
    for name, (arguments, expected, message) in cases.items():
        assert cli.main(arguments) == expected, name
        said = capsys.readouterr().err
        assert said.startswith("motleygp: ") and said.count("\n") == 1, name
        assert message in said, name
    left = {path.name for path in folder.iterdir()} - before - made
    assert not left  # no incomplete file
    assert cli.main([*cases["column"][0], "--json"]) == 2
    assert "got 'price'" in json.loads(capsys.readouterr().err)["error"]
    assert cli.main(["fit", "--json"]) == 2
    assert "required: data" in json.loads(capsys.readouterr().err)["error"]


def test_a_command_is_needed(capsys):
    assert cli.main([]) == WRONG_USE and "COMMAND" in capsys.readouterr().err
    assert cli.main(["--version"]) == GOOD
    assert capsys.readouterr().out == f"motleygp {mg.__version__}\n"


def test_ctrl_c_that_a_hook_swallows_comes_again(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    others = []
    monkeypatch.setattr(sys, "unraisablehook", others.append)
    try:
        with pytest.raises(KeyboardInterrupt), signals.no_interrupt_lost():
            sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt))  # pyright: ignore
            for _ in range(1000):
                time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    with signals.no_interrupt_lost():
        sys.unraisablehook(SimpleNamespace(exc_type=OSError))  # pyright: ignore
    assert len(others) == 1 and sys.unraisablehook == others.append


def test_imports_end_at_once_on_ctrl_c_alone(monkeypatch):
    ended = []
    monkeypatch.setattr(signals.os, "_exit", ended.append)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with signals.ending_at_once():
            signal.raise_signal(signal.SIGINT)
        assert ended == [INTERRUPTED]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with signals.ending_at_once():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_output_without_a_reader_is_dropped(monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(["datasets"]) == FAILED
    assert capsys.readouterr().err == ""


def test_text_from_spreadsheets_is_read(tmp_path):
    text = b"\xef\xbb\xbfeast,change\r\n1,2\r\n3\r\n"
    (tmp_path / "excel.csv").write_bytes(text)
    table = tables.read(tmp_path / "excel.csv")
    assert tables.names(table) == ["east", "change"]
    assert table["east"].tolist() == [1, 3]
    assert table["change"].isna().tolist() == [False, True]


def test_dates_may_be_inputs():
    days = {"day": [datetime.datetime(2020, 1, 1), None]}
    for table in (pd.DataFrame(days), pl.DataFrame(days)):
        with pytest.raises(ValueError, match="got nothing in row 1"):
            tables.check_inputs(table)
        tables.check_inputs(table[:1])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_text_in_iso_form_becomes_dates(tmp_path, form):
    columns = {
        "day": ["2023-12-31", "2024-02-29", None],
        "month": ["2024-01", "2024-02", "2024-03"],
        "time": ["2024-01-01T10:30:00Z", "2024-01-01 12:30+02:00", None],
        "either": ["2024-01-01", "2024-01-01T00:00Z", None],
        "worse": ["2024-02-29", "2024-02-30", None],
        "text": ["2024", "a", None],
    }
    path = tmp_path / f"t.{form}"
    tables.write(path, {name: np.array(c, object) for name, c in columns.items()})
    table = tables.read(path)
    for name in ("day", "month", "time"):
        assert "datetime" in str(table[name].dtype).lower(), name
        tables.check_inputs(table[:2][[name]])
    days = frames.as_matrix(table[["day"]])[:2, 0]
    np.testing.assert_array_equal(days, [19722, 19782])
    assert len(set(frames.as_matrix(table[["time"]])[:2, 0])) == 1
    for name in ("either", "worse", "text"):
        assert "datetime" not in str(table[name].dtype).lower(), name


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("json_wanted", [False, True])
def test_warnings_are_one_line_in_the_words_of_the_command(
    monkeypatch, capsys, json_wanted
):
    doubtful = np.array([0.0, 0.0, 1.5, 2.0, 7.0] * 5)

    def warn(_) -> int:
        infer.warn(infer.infer_outputs({"my visits": (doubtful, "real")}))
        return GOOD

    monkeypatch.setitem(commands.RUN, "datasets", warn)  # pyright: ignore
    assert cli.main(["datasets", *(["--json"] if json_wanted else [])]) == GOOD
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and ".py" not in said and "outputs={" not in said
    assert "--outputs 'my visits:" in said
    if json_wanted:
        assert "is modelled as" in json.loads(said)["warning"]
    else:
        assert said.startswith("motleygp: ")


def test_a_run_that_is_not_there_is_not_resumed_in_silence(folder, capsys):
    (folder / "minus.csv").write_text("east,visits\n1,0\n2,3\n3,-1\n4,2\n")
    code = fit(folder, "minus.csv", "--outputs", "visits:poisson", "--resume")
    note, error = capsys.readouterr().err.splitlines()
    assert code == FAILED and "output 'visits' must be" in error
    assert note.startswith("motleygp: there is no interrupted run in ")
    assert note.endswith("m.motley.run to resume; the fit starts anew")


def test_the_labels_of_0_and_1_are_said():
    line = fitting._line(
        {"iterations": 5, "refused": 0, "model": "m", "labels": {"sold": ["no", "yes"]}}
    )
    assert "sold: yes counts as 1, no as 0" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write all")
def test_a_refused_permission_is_named(folder, capsys):
    shut = folder / "shut"
    shut.mkdir(mode=0o500)
    (folder / "shut.csv").write_text("east,change\n1,2\n")
    (folder / "shut.csv").chmod(0)
    for data, to in (("shut.csv", "no.motley"), ("data.csv", "shut/no.motley")):
        assert fit(folder, data, "--outputs", "change", to=to) == FAILED
        assert "shut" in capsys.readouterr().err


def test_a_folder_that_is_not_writable_is_noticed_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(places.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=tmp_path.name):
        places.check_place(tmp_path / "no.motley")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_leaves_the_old_table(folder, monkeypatch, capsys):
    path = folder / "old.csv"
    path.write_text("old")

    def full(there: Path) -> None:
        there.write_text("half")
        Path("/dev/full").write_text("no room")

    with pytest.raises(OSError, match="No space left"):
        places.replace(path, full)
    assert path.read_text() == "old" and not list(folder.glob(".old*"))


def test_synthetic_data_are_listed_and_written(folder, capsys):
    assert cli.main(["datasets"]) == 0
    assert "houses" in capsys.readouterr().out.split()
    for name in ("houses", "t1"):
        path = folder / f"{name}.csv"
        assert cli.main(["datasets", name, "-o", str(path)]) == 0
        assert len(pd.read_csv(path)) >= 400
    assert cli.main(["datasets", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert tuple(listed) == mg.datasets.names() == parser.data.NAMES
    assert listed["human-synthetic"]["title"].startswith("a synthetic stand-in")


def test_a_data_set_is_described(folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for name in mg.datasets.names():
        known = mg.datasets.info(name)
        assert cli.main(["datasets", name, "--data-dir", str(folder)]) == GOOD
        said = capsys.readouterr().out
        words = " ".join(said.split())
        assert ("data absent" if known.files else "data drawn") in words
        assert known.checksum is None or known.checksum[:50] in words
    assert cli.main(["datasets", "naval", "--data-dir", str(folder), "--json"]) == GOOD
    said = json.loads(capsys.readouterr().out)
    assert said["paper"] == {"num_latents": 4, "num_inducing": 80, "batch_size": 50}
    assert said["state"] == "absent; fetch not tried"
