"""The toys, the same in every run, and the real data: their shapes and supports."""

import re
import runpy
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io

from motleygp import datasets
from motleygp.datasets import _files, _human, _raw, _toys
from motleygp.likelihoods import HetGaussian
from motleygp.tables import frames


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
    problem = datasets.load("t1", num_inputs=20, num_rows=40)
    assert problem.x_train.shape == (30, 20)
    problem = datasets.load("t1", num_inputs=3)
    x = np.concatenate([problem.x_train, problem.x_test])
    for column in x.T:
        np.testing.assert_allclose(np.sort(column), np.linspace(0, 1, 2000))


def test_draws_are_fixed_and_depend_on_the_seed():
    first, again = datasets.load("t1"), datasets.load("t1")
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert not np.array_equal(first.y_train, datasets.load("t1", seed=1).y_train)


def test_toys_have_as_many_rows_as_asked():
    sizes = {1: 100, 2: 100, 3: 101}
    for num_inputs, num_rows in sizes.items():
        problem = datasets.load("t2", num_inputs=num_inputs, num_rows=num_rows)
        assert len(problem.x_train) + len(problem.x_test) == num_rows
    # The largest square grid within 50 points.
    square = datasets.load("t1", num_inputs=2, num_rows=50)
    assert len(square.x_train) + len(square.x_test) == 49
    assert len(datasets.load("houses", num_rows=40).x_train) == 30
    with pytest.raises(ValueError, match="a whole number, 4 or more; got 3"):
        datasets.load("t1", num_rows=3)
    with pytest.raises(ValueError, match="for the toys and 'houses'; got 9 for 'jura'"):
        datasets.load("jura", num_rows=9)


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
    for number in (0, 1.5, True, "2"):
        with pytest.raises(
            ValueError, match=f"`num_inputs` must be a whole number.* got {number!r}"
        ):
            datasets._check_whole("num_inputs", number, 1)
    with pytest.raises(ValueError, match="`num_inputs` must be a whole number, 1 or"):
        datasets.load("t1", num_inputs=0)
    with pytest.raises(ValueError, match="`seed` must be a whole number, 0 or more"):
        datasets.load("t1", seed=-1)


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
            "Ytype": rng.integers(0, 2, (n, 1)),
        },
    )
    np.savetxt(tmp_path / "naval/naval.txt", rng.random((n, 18)))
    for stem in ("sarcos_inv", "sarcos_inv_test"):
        arm = {stem: 5.0 + rng.random((n, 28))}
        scipy.io.savemat(tmp_path / f"sarcos/{stem}.mat", arm)
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
        ("london-flat", 2, 2),
        ("naval", 15, 2),
        ("sarcos", 21, 7),
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
    binary = {"Ycontract": price > 0, "Ytype": price > 0}
    held = {"X": rng.random((2, 2)), "Yprice": price, **binary}
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
    with pytest.raises(
        FileNotFoundError, match=r"needs the file .*naval.txt.*fetch naval"
    ):
        datasets.load("naval", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="'human-synthetic' is a stand-in"):
        datasets.load("human", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "words"),
    [
        ("mocap7", "mocap/mocap7_paper.npz", "must be an npz file of arrays"),
        ("london", "london/london.mat", "must be a MATLAB file"),
        ("naval", "naval/naval.txt", "must hold numbers"),
        ("jura", "jura/jura.val.csv", "must be a CSV file with the columns Xloc, "),
        ("seattle-weather", "seattle_weather/seattle-weather.csv", "must hold dates"),
    ],
)
def test_broken_files_are_named(folder, name, file, words):
    (folder / file).write_text("<html>")
    with pytest.raises(ValueError, match=rf"{file}' {words}"):
        datasets.load(name, data_dir=folder)


def test_files_of_another_form_are_refused(folder, rng):
    scipy.io.savemat(folder / "london/london.mat", {"X": rng.random((3, 2))})
    with pytest.raises(ValueError, match="must have the array 'Yprice'"):
        datasets.load("london", data_dir=folder)
    short = {"sarcos_inv": rng.random((5, 27))}
    scipy.io.savemat(folder / "sarcos/sarcos_inv.mat", short)
    with pytest.raises(ValueError, match=r"must have 28 columns; got .* \(5, 27\)"):
        datasets.load("sarcos", data_dir=folder)
    np.savetxt(folder / "naval/naval.txt", rng.random((5, 17)))
    with pytest.raises(ValueError, match=r"must have 18 columns; got .* \(5, 17\)"):
        datasets.load("naval", data_dir=folder)
    cells: dict[str, Any] = {"X": rng.random((3, 2)), "Yprice": 1.0, "Ytype": 1.0}
    cells["Ycontract"] = np.array([[1.0], ["a"]], dtype=object)
    scipy.io.savemat(folder / "london/london.mat", cells)
    with pytest.raises(ValueError, match=r"the array 'Ycontract' of .* numbers"):
        datasets.load("london", data_dir=folder)
    path = folder / "traffic/traffic_paperlike.npz"
    names = np.array([f"c{i}" for i in range(6)])
    np.savez(path, X=rng.random((3, 3)), Y=rng.random((4, 6)), y_names=names)
    with pytest.raises(ValueError, match=r"3 inputs .* got the shapes \(3, 3\) and"):
        datasets.load("traffic-8am", data_dir=folder)
    # An array of objects would have to be unpickled.
    objects = np.array([None])
    np.savez(folder / "mocap/mocap7_paper.npz", X=objects, Y=objects, channels=objects)
    with pytest.raises(ValueError, match="must be an npz file of arrays"):
        datasets.load("mocap7", data_dir=folder)


def test_constant_outputs_cannot_be_scaled(folder, rng):
    np.savetxt(folder / "naval/naval.txt", np.ones((5, 18)))
    path = folder / "traffic/traffic_paperlike.npz"
    names = np.array([f"c{i}" for i in range(6)])
    np.savez(path, X=rng.random((4, 3)), Y=np.ones((4, 6)), y_names=names)
    for name in ("naval", "traffic-8am"):
        with pytest.raises(ValueError, match="outputs that are scaled must vary"):
            datasets.load(name, data_dir=folder)


def test_members_of_a_file_are_checked(folder, monkeypatch):
    path = folder / "traffic/traffic_paperlike.npz"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.txt", "more")
    with pytest.raises(ValueError, match="must be an npz file of arrays"):
        datasets.load("traffic-8am", data_dir=folder)
    monkeypatch.setattr(_raw, "_MOST_UNPACKED", 1000)
    with pytest.raises(ValueError, match="npz file of arrays, 1000 bytes of them at m"):
        datasets.load("mocap9", data_dir=folder)


def test_the_registry_is_complete():
    for name in datasets.names():
        known = datasets.info(name)
        assert known.name == name and known.outputs
        assert all(
            (known.title, known.preparation, known.differs, known.origin, known.licence)
        )
        assert bool(known.files) == bool(known.downloads)
        if known.files:
            assert known.obstacle if known.address is None else not known.obstacle
            assert (known.address or "https://").startswith("https://")
        unknown = known.files and name not in ("human", "sarcos")
        assert bool(re.fullmatch("[0-9a-f]{64}", known.checksum or "")) == bool(unknown)
    papers = {name: str(datasets.info(name).paper) for name in datasets.names()}
    assert papers["london"] == papers["t2"] == "Q = 3, M = 80, minibatches of 50"
    assert papers["sarcos"] == "Q = 3, minibatches of 200"
    assert papers["mocap7"] == "Q = 3, M = 20, minibatches of 5"
    assert papers["traffic-8am"] == "Q = 4" and papers["jura"] == "None"


def test_the_page_about_data_has_the_registry():
    docs = Path(__file__).parents[1] / "docs"
    script = runpy.run_path(str(docs / "tables/datasets.py"))
    page = (docs / "datasets.md").read_text()
    for table in script["tables"]():
        assert table in page
    for name in datasets.names():
        known = datasets.info(name)
        if known.files and known.address is None:
            assert all(
                f"`{file}`" in page.split("no address, put")[1] for file in known.files
            )


@pytest.mark.parametrize("name", datasets.names())
def test_the_registry_describes_what_load_gives(name):
    known = datasets.info(name)
    if known.absent():
        pytest.skip(f"needs {', '.join(known.absent())} in $MOTLEYGP_DATA")
    problem = datasets.load(name)
    kinds = [likelihood.name for likelihood in problem.likelihoods]
    assert tuple(zip(problem.names, kinds, strict=True)) == known.outputs
    x, y = every_row(problem)
    rows = known.rows if isinstance(known.rows, tuple) else (known.rows,)
    if name != "houses":
        counts = np.sum(~np.isnan(y), axis=0)
        assert tuple(counts) == (rows if len(rows) > 1 else rows * len(counts))
    assert x.shape[1] == (len(known.inputs) or 1)
    still = np.flatnonzero(np.ptp(x, axis=0) == 0.0)
    assert tuple(known.inputs[p] for p in still) == known.constant_inputs
    if known.checksum is not None:
        paths = datasets.fetch(name)  # they are there: checked, not downloaded
        assert len(paths) == len(known.files)


def test_london_has_either_binary_output(folder):
    held = scipy.io.loadmat(folder / "london/london.mat")
    for name, column in (("london", "Ycontract"), ("london-flat", "Ytype")):
        x, y = every_row(datasets.load(name, data_dir=folder))
        order, expected = np.argsort(x[:, 0]), np.argsort(held["X"][:, 0])
        np.testing.assert_array_equal(y[order, 1], held[column].ravel()[expected])


@pytest.fixture
def phone(tmp_path, rng):
    """A file of HUMAN's form."""
    held = {
        "X": rng.random((40, 1)),
        "Ybin": rng.integers(0, 2, (40, 1)),
        "Yexp": rng.gamma(2.0, size=(40, 1)),
        "Xapp": rng.random((80, 1)),
        "Ycount": rng.integers(0, 9, (80, 1)),
    }
    (tmp_path / "human").mkdir()
    scipy.io.savemat(tmp_path / "human/eb2.mat", held)
    return held


def test_human_is_prepared_as_by_the_authors(tmp_path, phone):
    problem = datasets.load("human", data_dir=tmp_path)
    parts = [part() for part in (problem.train, problem.test)]
    x, y = (
        {n: np.concatenate([part[k][n] for part in parts]) for n in problem.names}
        for k in (0, 1)
    )
    assert {name: len(values) for name, values in y.items()} == {
        **{"at_home": 40, "distance": 40},
        "apps": 80,
    }
    times, expected = x["apps"][:, 0], phone["Xapp"][:, 0]
    np.testing.assert_array_equal(np.sort(times), np.sort(expected))
    log = np.log(phone["Yexp"].ravel())
    expected = np.sort((log - log.mean()) / log.std())
    np.testing.assert_allclose(np.sort(y["distance"]), expected)
    # From the least count, 0.1 / 8.1, to the largest, twice and clipped.
    assert phone["Ycount"].min() == 0 and phone["Ycount"].max() == 8
    assert y["apps"].min() == pytest.approx(2.0 * (0.1 / 8.1 - 1e-4))
    assert y["apps"].max() == 0.99


def test_the_stand_in_has_the_shape_of_human():
    problem, again = datasets.load("human-synthetic"), datasets.load("human-synthetic")
    np.testing.assert_array_equal(problem.y_train, again.y_train)
    other = datasets.load("human-synthetic", seed=1)
    assert not np.array_equal(problem.x_train, other.x_train)
    kinds = [likelihood.name for likelihood in problem.likelihoods]
    assert kinds == ["bernoulli", "hetgaussian", "beta"]
    counts = np.sum(~np.isnan(every_row(problem)[1]), axis=0)
    assert tuple(counts) == datasets.info("human-synthetic").rows
    X, Y = problem.train()
    assert isinstance(X, dict)
    assert X["at_home"] is X["distance"] and len(X["apps"]) > 3 * len(X["at_home"])
    for likelihood, y in zip(problem.likelihoods, Y.values(), strict=True):
        assert likelihood.in_support(y).all()
    assert all(np.isfinite(nlpd) for nlpd in problem.constant_nlpd().values())


def test_the_stand_in_mixes_processes_of_several_lengthscales(rng):
    x = np.array([0.1, 0.15, 0.6])
    draws = np.stack([_human._processes(rng, x) for _ in range(2000)])
    for q, lengthscale in enumerate(_human._LENGTHSCALES):
        expected = np.exp(-0.5 * (x[:, None] - x) ** 2 / lengthscale**2)
        np.testing.assert_allclose(np.cov(draws[:, q].T), expected, atol=0.15)


def test_a_problem_gives_what_fit_takes():
    x, y = np.arange(8.0)[:, None], np.arange(16.0).reshape(8, 2)
    likelihoods = (HetGaussian(), HetGaussian())
    whole = datasets.Problem(x[:6], y[:6], x[6:], y[6:], likelihoods, ("a", "b"))
    X, Y = whole.test()
    np.testing.assert_array_equal(X, x[6:])
    np.testing.assert_array_equal(Y["b"], [13.0, 15.0])
    y[0, 0] = np.nan
    X, Y = whole.train()
    assert isinstance(X, dict)
    np.testing.assert_array_equal(X["a"], x[1:6])
    np.testing.assert_array_equal(X["b"], x[:6])
    np.testing.assert_array_equal(Y["a"], [2.0, 4.0, 6.0, 8.0, 10.0])
    table = frames.as_table(X, Y)
    assert table.names == ("a", "b") or list(table.names) == ["a", "b"]


def test_houses_are_a_problem_too():
    problem = datasets.load("houses", seed=3)
    X, Y = datasets.houses(seed=3)
    x, y = every_row(problem)
    order = np.argsort(x[:, 0])
    expected = np.argsort(X["east"].to_numpy())
    np.testing.assert_array_equal(y[order, 2], Y["visits"].to_numpy()[expected])
    sold = Y["sold"].to_numpy()[expected]
    np.testing.assert_array_equal(y[order, 1] == 1.0, sold == "yes")
    np.testing.assert_array_equal(np.isnan(y[order, 1]), pd.isna(sold))


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
