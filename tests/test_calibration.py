"""Calibration on data drawn from the model: `experiments/calibration.py`."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from motleygp.prediction import metrics

NUM_DRAWS = 8


@pytest.fixture(scope="module")
def experiment() -> ModuleType:
    path = Path(__file__).parents[1] / "experiments" / "calibration.py"
    spec = importlib.util.spec_from_file_location("calibration", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pooled(draws: list, name: str, what: str) -> np.ndarray:
    return np.concatenate([draw[name][what] for draw in draws])


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_two_outputs_of_one_draw(experiment, monkeypatch):
    monkeypatch.setattr(experiment, "NUM_ROWS", 500)
    monkeypatch.setattr(experiment, "NUM_TEST", 200)
    kept = [o for o in experiment.OUTPUTS if o.name in ("gaussian", "poisson")]
    monkeypatch.setattr(experiment, "OUTPUTS", tuple(kept))
    draw = experiment.scored(0, max_iter=300, num_inducing=20)
    # Of 200 values, 95 % give or take four standard errors.
    assert 0.885 < np.mean(draw["gaussian"]["covered"]) <= 1.0
    assert 0.885 < np.mean(draw["poisson"]["covered"]) <= 1.0
    for name in ("gaussian", "poisson"):
        assert metrics.uniformity(draw[name]["pit"]).pvalue > 1e-3
    assert "| gaussian | 200 |" in experiment.table([draw])


@pytest.mark.slow
def test_every_likelihood(experiment):
    draws = [experiment.scored(seed, max_iter=1000) for seed in range(NUM_DRAWS)]
    print(experiment.table(draws))
    for name in draws[0]:
        covered = np.mean(pooled(draws, name, "covered"))
        if name == "bernoulli":
            every = {k: pooled(draws, name, k) for k in ("probability", "label")}
            assert experiment._reliability(every) > 0.01
        else:
            assert 0.93 <= covered <= (0.99 if name == "poisson" else 0.97)
        assert metrics.uniformity(pooled(draws, name, "pit")).pvalue > 0.01
