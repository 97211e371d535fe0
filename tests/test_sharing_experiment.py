"""The joint model against `independent()`: `experiments/sharing.py`."""

import argparse
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import motleygp as mg

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def experiment(experiments):
    return experiments("sharing")


def score(experiment: ModuleType, *, split: int = 0, **values: Any) -> Any:
    usual = dict(name="jura", missing=0.0, settings="", output="Cd", error=0.01)
    return experiment.Score(**usual | dict(split=split) | values)


@pytest.mark.slow
def test_both_models_see_the_same_rows(experiment, monkeypatch, rng):
    x, noise = rng.random((30, 1)), 0.1 * rng.normal(size=(30, 2))
    y = np.sin(6.0 * x) + noise
    likelihoods = (mg.likelihoods.Gaussian(), mg.likelihoods.Gaussian())
    small = mg.datasets.Problem(x[:20], y[:20], x[20:], y[20:], likelihoods, ("a", "b"))
    monkeypatch.setattr(experiment, "load", lambda *_: small)
    settings = {"max_iter": 3, "num_inducing": 4}
    cell = experiment.Cell("small", 1, 0.5, "")
    found = experiment.compare(cell, settings, None)
    assert [(own.cell, own.output) for own in found] == [(cell, "a"), (cell, "b")]
    thin = experiment.thinned(small.y_train, 0.5, 1)
    model = mg.MotleyGP(
        dict(zip("ab", likelihoods, strict=True)), random_state=1, progress=False
    )
    model.set_params(**settings).fit(x[:20], dict(zip("ab", thin.T, strict=True)))
    test = dict(zip("ab", small.y_test.T, strict=True))
    nlpd = model.nlpd(small.x_test, test)
    for own in found:
        np.testing.assert_allclose(own.joint, nlpd[own.output])
        np.testing.assert_allclose(own.difference, own.joint - own.independent)
        assert own.joint != own.independent and own.error > 0.0


def test_a_share_of_every_output_is_removed(experiment, rng):
    y = rng.random((40, 3))
    thin = experiment.thinned(y, 0.3, 0)
    gaps = np.isnan(thin)
    assert (gaps.sum(axis=0) == 12).all() and not np.isnan(y).any()
    assert not (gaps[:, 0] == gaps[:, 1]).all()
    np.testing.assert_array_equal(thin[~gaps], y[~gaps])
    np.testing.assert_array_equal(thin, experiment.thinned(y, 0.3, 0))
    np.testing.assert_array_equal(experiment.thinned(y, 0.0, 0), y)


def test_the_table_marks_what_noise_does_not_explain(experiment):
    # The standard error of the mean over two splits is 0.01: the limit is 0.04.
    error = 0.01 * np.sqrt(2.0)
    scores = [
        score(
            experiment,
            split=split,
            output=output,
            joint=1.0 + difference,
            independent=1.0,
            difference=difference,
            error=error,
        )
        for output, mean in (("Cd", 0.039), ("Co", 0.041), ("Cr", -0.05))
        for split, difference in enumerate((mean - 0.1, mean + 0.1))
    ]
    lines = experiment.table(scores).splitlines()
    assert lines[2:6] == [
        "| jura | Cd | 1.0390 | 1.0000 | +0.0390 | 0.0100 |  |",
        "| jura | Co | 1.0410 | 1.0000 | +0.0410 | 0.0100 | worse |",
        "| jura | Cr | 0.9500 | 1.0000 | -0.0500 | 0.0100 |  |",
        "| jura | **mean** | 1.0100 | 1.0000 | +0.0100 | | |",
    ]
    end = "Mean over all 3 outputs, of which 1 are worse: difference +0.0100"
    assert lines[-1] == end
    by_set = experiment.table_by_set(scores).splitlines()
    assert by_set[2] == "| jura | 3 | 1.0100 | 1.0000 | +0.0100 | +0.0410 | 1 |"
    assert by_set[-1] == "Mean difference over all 3 outputs: +0.0100"
    assert experiment.Mean(np.nan, 1.0, np.nan, np.nan).worse


def test_finished_cells_are_read_back(experiment, tmp_path):
    path = tmp_path / "scores.csv"
    assert experiment.finished(None, experiment.Score) == []
    assert experiment.finished(path, experiment.Score) == []
    values = dict(joint=1 / 3, independent=0.1, difference=1 / 3 - 0.1)
    scores = [
        score(experiment, split=split, settings=settings, **values)
        for split, settings in ((0, ""), (2, "max_iter=20 prior=convolution"))
    ]
    path.touch()
    assert experiment.finished(path, experiment.Score) == []
    for own in scores:
        experiment.write(path, [own])
    assert experiment.finished(path, experiment.Score) == scores
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="--output must be a table of this script"):
        experiment.finished(path, experiment.Score)


def test_names_and_settings(experiment):
    assert experiment.known_sets("jura") == ["jura"]
    assert experiment.known_sets("t2") == ["t2-p1", "t2-p2"]
    assert experiment.known_sets("t3-p2") == ["t3-p2"]
    assert experiment.setting("max_iter=20") == ("max_iter", 20)
    assert experiment.setting("prior=convolution") == ("prior", "convolution")
    for wrong, kind in (("t9", "known_sets"), ("max_iter", "setting"), ("1", "share")):
        with pytest.raises(argparse.ArgumentTypeError, match="must be"):
            getattr(experiment, kind)(wrong)
