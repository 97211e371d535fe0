"""The command and its demonstration, run as a user runs them."""

import shlex
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import motleygp_cli as cli
from motleygp import datasets, plotting
from motleygp.demos import demo
from motleygp.likelihoods import Poisson
from motleygp.prediction.predictive import Predictive

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.slow
def test_demo_prints_scores_and_commands_that_run(tmp_path, capsys, monkeypatch):
    whole = datasets.load("t1")
    # Fewer rows, and without the beta output, which takes longest to compile.
    few = whole._replace(
        x_test=whole.x_test[:40],
        y_train=whole.y_train[:, [0, 2]],
        y_test=whole.y_test[:40, [0, 2]],
        likelihoods=(whole.likelihoods[0], whole.likelihoods[2]),
        names=(whole.names[0], whole.names[2]),
    )
    monkeypatch.setattr(demo.datasets, "load", lambda _: few)
    folder = tmp_path / "my toy"
    assert cli.main(["demo", "-o", str(folder), "--max-iter", "60", "--quiet"]) == 0
    printed = capsys.readouterr().out
    for word in ("river", "rain", "mean", "constant fit", "held-out"):
        assert word in printed
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    _, after = printed.split("Commands to try next:")
    commands = [shlex.split(line)[1:] for line in after.strip().splitlines()]
    assert [command[0] for command in commands] == [
        "evaluate",
        "predict",
        "fit",
        "report",
    ]
    # What was printed, on fewer rows and for a moment.
    quick = ["--max-iter", "2", "--num-inducing", "6", "--quiet"]
    assert cli.main(commands[0]) == 0
    assert cli.main(commands[2] + quick) == 0
    assert {"model.motley", "my.motley", "test.csv", "train.csv"} <= {
        path.name for path in folder.iterdir()
    }


def test_marginal_scores_are_those_of_scipy():
    problem = datasets.load("t1")
    scores = problem.constant_nlpd()
    y, test = problem.y_train[:, 0], problem.y_test[:, 0]
    gaussian = (
        0.5 * np.log(2 * np.pi * y.var()) + 0.5 * (test - y.mean()) ** 2 / y.var()
    )
    np.testing.assert_allclose(scores["hetgaussian1"], gaussian.mean(), rtol=1e-9)
    share, b = problem.y_train[:, 2].mean(), problem.y_test[:, 2].mean()
    entropy = -b * np.log(share) - (1 - b) * np.log(1 - share)
    np.testing.assert_allclose(scores["bernoulli3"], entropy, rtol=1e-9)


def test_wrong_use_is_one_line(tmp_path, capsys):
    assert cli.main(["demo", "-o", str(tmp_path / "nowhere" / "toy")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert cli.main(["juggle"]) == 2
    assert cli.main(["demo", "--max-iter", "0", "-o", str(tmp_path / "t.png")]) == 2
    assert "must be a whole number, 1 or more" in capsys.readouterr().err


def test_ctrl_c_has_its_exit_code(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    assert cli.main(["demo", "-o", str(tmp_path / "t.png")]) == 130


def test_the_command_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "motleygp", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "demo" in done.stdout


def test_plots_refuse_what_does_not_match():
    predictive = Predictive(Poisson(), np.zeros((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="`x` must have one value per row"):
        plotting.predictive_curve(Figure().subplots(), np.zeros(2), predictive)


def test_observations_leave_out_missing_values():
    ax = Figure().subplots()
    plotting.observations(ax, [0.0, 1.0, 2.0], [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[0, 1], [2, 3]])
    plotting.observations(ax, [0.0, 1.0, 2.0], [1.0, np.nan, 3.0], bars=True)
    stems = ax.collections[1].get_segments()
    np.testing.assert_array_equal(stems, [[[0, 0], [0, 1]], [[2, 0], [2, 3]]])
