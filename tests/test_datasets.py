"""The toys, the same in every run, and the real data: their shapes and supports."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io

from motleygp import datasets
from motleygp.datasets import _files, _toys


@pytest.mark.parametrize(("name", "num_outputs"), [("t1", 3), ("t2", 5), ("t3", 10)])
def test_toys_have_the_papers_outputs(name, num_outputs):
    problem = datasets.load(name)
    assert problem.x_train.shape == (1500, 1) and problem.x_test.shape == (500, 1)
    assert problem.y_train.shape == (1500, num_outputs)
    for likelihood, y in zip(problem.likelihoods, problem.y_train.T, strict=True):
        assert likelihood.in_support(y).all()
        if likelihood.real:
            assert abs(y.mean()) < 0.1 and 0.8 < y.std() < 1.2


def test_inputs_by_dimension():
    assert len(datasets.load("t1", num_inputs=2).x_train) == int(0.75 * 44**2)
    problem = datasets.load("t1", num_inputs=3)
    x = np.concatenate([problem.x_train, problem.x_test])
    for column in x.T:
        np.testing.assert_allclose(np.sort(column), np.linspace(0, 1, 2000))


def test_draws_are_fixed_and_depend_on_the_seed():
    first, again = datasets.load("t1"), datasets.load("t1")
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert not np.array_equal(first.y_train, datasets.load("t1", seed=1).y_train)


def test_functions_have_the_covariance_of_the_toy(rng):
    # Over many draws, cov[f_j(x), f_k(x')] = sum_q a_jq a_kq k_q(x, x').
    x = np.array([[0.1], [0.17], [0.9]])
    draws = np.stack([_toys._draw_functions(rng, x, 5) for _ in range(20_000)])
    flat = draws.reshape(len(draws), -1)
    kernels = [np.exp(-0.5 * (x - x.T) ** 2 / s**2) for s in (0.5, 0.05, 0.1)]
    weights = _toys._WEIGHTS[:5]
    expected = sum(
        np.kron(np.outer(a, a), k) for a, k in zip(weights.T, kernels, strict=True)
    )
    np.testing.assert_allclose(np.cov(flat.T), expected, atol=0.2)


def test_unknown_names_and_sizes():
    with pytest.raises(ValueError, match="no dataset is named 't9'; known: t1, t2"):
        datasets.load("t9")
    with pytest.raises(ValueError, match="`num_inputs` must be at least 1"):
        datasets.load("t1", num_inputs=0)


# The real data are not part of the project: small files of the same form stand in.


@pytest.fixture
def folder(tmp_path, rng):
    for name in ("london", "naval", "sarcos", "mocap", "traffic"):
        (tmp_path / name).mkdir()
    n = 40
    scipy.io.savemat(
        tmp_path / "london/london.mat",
        {
            "X": rng.random((n, 2)),
            "Yprice": rng.integers(100, 10**6, (n, 1)),
            "Ycontract": rng.integers(0, 2, (n, 1)),
        },
    )
    np.savetxt(tmp_path / "naval/naval.txt", rng.random((n, 18)))
    np.savez(
        tmp_path / "sarcos/sarcos_inv_test.npz",
        X=rng.random((n, 21)),
        Y=5.0 + rng.random((n, 7)),
    )
    y = rng.random((n, 40))
    y[:, 3] = 7.0 + 1e-14 * rng.random(n)
    np.savez(
        tmp_path / "mocap/mocap7_paper.npz",
        X=rng.random((n, 1)),
        Y=y,
        channels=np.array([f"c{i}" for i in range(40)]),
    )
    runs: dict[str, Any] = {f"m09_{i:02d}": rng.random((8, 62)) for i in range(1, 8)}
    channels = np.array([f"c{i}" for i in range(62)])
    np.savez(tmp_path / "mocap/mocap09.npz", channels=channels, fps=120.0, **runs)
    np.savez(
        tmp_path / "traffic/traffic_paperlike.npz",
        X=rng.random((n, 3)),
        Y=rng.poisson(30.0, (n, 6)),
        y_names=np.array([f"c{i}" for i in range(6)]),
    )
    write_jura(tmp_path / "jura", rng)
    write_weather(tmp_path / "seattle_weather", rng)
    return tmp_path


METALS = ["Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn"]


def write_jura(folder, rng):
    folder.mkdir()
    for name, rows in (("pred", 28), ("val", 12)):
        columns = {"Xloc": rng.random(rows), "Yloc": rng.random(rows)}
        columns |= {"Landuse": ["Meadow"] * rows, "Rock": ["Argovian"] * rows}
        columns |= {metal: np.exp(rng.normal(size=rows)) for metal in METALS}
        pd.DataFrame(columns).to_csv(folder / f"jura.{name}.csv", index=False)


def write_weather(folder, rng):
    folder.mkdir()
    days = pd.DataFrame(
        {
            "date": pd.date_range("2012-12-20", periods=40).strftime("%Y/%m/%d"),
            "precipitation": rng.choice([0.0, 0.3, 10.9], 40),
            "temp_max": rng.normal(16.0, 7.0, 40),
            "temp_min": rng.normal(8.0, 5.0, 40),
            "wind": rng.gamma(4.0, size=40),
            "weather": ["drizzle"] * 40,
        }
    )
    days.to_csv(folder / "seattle-weather.csv", index=False)


@pytest.mark.parametrize(
    ("name", "num_inputs", "num_outputs"),
    [
        ("london", 2, 2),
        ("naval", 15, 2),
        ("sarcos-4449", 21, 7),
        ("mocap7", 1, 39),
        ("mocap9", 1, 20),
        ("traffic-8am", 3, 4),
        ("traffic-8am-unscaled", 3, 4),
        ("jura", 2, 7),
        ("seattle-weather", 2, 4),
    ],
)
def test_real_data_are_prepared_as_in_the_paper(folder, name, num_inputs, num_outputs):
    problem = datasets.load(name, data_dir=folder)
    assert problem.x_train.shape == (30, num_inputs)
    assert problem.y_test.shape == (10, num_outputs)
    for likelihood, y in zip(problem.likelihoods, problem.y_train.T, strict=True):
        assert likelihood.in_support(y).all()
        if likelihood.real:
            assert abs(y.mean()) < 1.0 and 0.5 < y.std() < 1.5
    again = datasets.load(name, data_dir=folder)
    np.testing.assert_array_equal(problem.x_train, again.x_train)
    other = datasets.load(name, data_dir=folder, split=1)
    assert not np.array_equal(problem.x_train, other.x_train)


def test_scaled_counts_spread_by_five_hundred(folder):
    raw, scaled = (
        datasets.load(name, data_dir=folder)
        for name in ("traffic-8am-unscaled", "traffic-8am")
    )
    assert (scaled.y_train == np.floor(scaled.y_train)).all()
    every = np.concatenate([raw.y_train, raw.y_test])
    expected = 500.0 * raw.y_train / every.std(axis=0)
    np.testing.assert_allclose(scaled.y_train, expected, atol=1.0)


def test_motions_restart_their_clock(folder):
    problem = datasets.load("mocap9", data_dir=folder)
    x = np.concatenate([problem.x_train, problem.x_test])[:, 0]
    times, counts = np.unique(x, return_counts=True)
    np.testing.assert_allclose(times, np.arange(8) / 120.0)
    assert (counts == 5).all()


def every_row(problem):
    return (
        np.concatenate([problem.x_train, problem.x_test]),
        np.concatenate([problem.y_train, problem.y_test]),
    )


def test_jura_joins_its_two_files(folder):
    problem = datasets.load("jura", data_dir=folder)
    assert problem.names == tuple(METALS)
    files = [pd.read_csv(folder / f"jura/jura.{name}.csv") for name in ("pred", "val")]
    samples = pd.concat(files).sort_values("Xloc")
    x, y = every_row(problem)
    order = np.argsort(x[:, 0])
    np.testing.assert_array_equal(x[order], samples[["Xloc", "Yloc"]])
    logs = np.log(samples[METALS].to_numpy())
    expected = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    np.testing.assert_allclose(y[order], expected)
    (folder / "jura/jura.val.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"'jura' needs the file .*val.csv"):
        datasets.load("jura", data_dir=folder)


def test_the_weather_counts_its_days(folder):
    problem = datasets.load("seattle-weather", data_dir=folder)
    assert problem.names == ("temp_max", "temp_min", "wind", "rain")
    kinds = [likelihood.name for likelihood in problem.likelihoods]
    assert kinds == ["hetgaussian", "hetgaussian", "gamma", "bernoulli"]
    days = pd.read_csv(folder / "seattle_weather/seattle-weather.csv")
    x, y = every_row(problem)
    order = np.argsort(x[:, 0])
    np.testing.assert_array_equal(x[order, 0], np.arange(40))
    # 2012 is a leap year, and its last twelve days are the file's first.
    np.testing.assert_array_equal(x[order, 1], [*range(355, 367), *range(1, 29)])
    np.testing.assert_allclose(y[order, 2], days["wind"])
    np.testing.assert_array_equal(y[order, 3], days["precipitation"] > 0.0)


@pytest.mark.parametrize("cell", ["", "none", "inf"])
@pytest.mark.parametrize(
    ("name", "file", "column"),
    [
        ("jura", "jura/jura.val.csv", "Cu"),
        ("seattle-weather", "seattle_weather/seattle-weather.csv", "precipitation"),
    ],
)
def test_cells_without_a_number_are_refused(folder, name, file, column, cell):
    held = pd.read_csv(folder / file, dtype=str)
    held.loc[3, column] = cell
    held.to_csv(folder / file, index=False)
    with pytest.raises(ValueError, match=rf"number in every row of '{column}'"):
        datasets.load(name, data_dir=folder)


def test_logarithms_need_positive_values(folder, rng):
    path = folder / "jura/jura.pred.csv"
    samples = pd.read_csv(path)
    samples.loc[3, "Pb"] = 0.0
    samples.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"outputs of .* must be positive; got 0.0"):
        datasets.load("jura", data_dir=folder)
    price = np.array([[100], [0]])
    held = {"X": rng.random((2, 2)), "Yprice": price, "Ycontract": price > 0}
    scipy.io.savemat(folder / "london/london.mat", held)
    with pytest.raises(ValueError, match=r"outputs of .* must be positive; got 0.0"):
        datasets.load("london", data_dir=folder)


def test_the_folder_may_come_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("MOTLEYGP_DATA", str(folder))
    assert datasets.load("london").names == ("log_price", "contract")


def test_absent_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("MOTLEYGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="give its folder as `data_dir`"):
        datasets.load("naval")
    with pytest.raises(FileNotFoundError, match=r"needs the file .*naval.txt"):
        datasets.load("naval", data_dir=tmp_path)


def test_splits_are_fixed(folder):
    with pytest.raises(ValueError, match="`split` must be one of"):
        datasets.load("naval", data_dir=folder, split=7)
    assert _files.SPLITS == (0, 1, 2)


def test_houses_have_four_types_and_gaps():
    X, Y = datasets.houses(200, missing=0.3, seed=1)
    assert list(X.columns) == ["east", "north"] and len(X) == len(Y) == 200
    assert set(Y["sold"].dropna()) == {"yes", "no"}
    assert (Y["visits"].dropna() % 1 == 0).all() and (Y["days"].dropna() > 0).all()
    assert 0.2 < Y.isna().to_numpy().mean() < 0.4
    assert not datasets.houses(missing=0.0)[1].isna().to_numpy().any()
    with pytest.raises(ValueError, match="`missing` must be at least 0 and below 1"):
        datasets.houses(missing=1.0)
