"""The toys by every scheme: the three stages of `experiments/toys.py`, made small."""

import sys

import pytest

pytestmark = pytest.mark.slow


def test_stages_follow_one_another(experiments, tmp_path, monkeypatch, capsys):
    toys = experiments("toys")
    sizes = ["--starts", "2", "--num-inducing", "6", "--iterations", "5"]
    for stage, jobs in (
        ("prepare", ["fng:t1:1"]),
        ("run", ["fng:t1:1"]),
        ("table", []),
    ):
        own = ["toys.py", stage, *jobs, "--folder", str(tmp_path), *sizes]
        monkeypatch.setattr(sys, "argv", own)
        toys.main()
    shown = capsys.readouterr().out
    assert "failed" not in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("| T1 | 1 |")]
    assert float(row.split("|")[4]) < 10.0  # the median NLPD of FNG
