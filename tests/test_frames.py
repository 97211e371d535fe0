"""Columns of every kind, from NumPy, pandas and polars."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from motleygp.tables import frames


def column(y, classes=None) -> frames.Column:
    return frames.as_table(np.zeros((3, 1)), {"a": y}, {"a": classes}).columns[0]


INTEGERS = [
    np.array([1, 2, 3]),
    pd.Series([1, 2, 3]),
    pl.Series([1, 2, 3]),
]
BOOLS = [
    np.array([True, False, True]),
    pd.Series([True, False, None], dtype="boolean"),
    pd.Series([True, False, None], dtype=object),
    pl.Series([True, False, None]),
]
REALS = [
    np.array([1.5, np.nan, 2.0]),
    pd.Series([1.5, None, 2.0]),
    pd.Series([1.5, pd.NA, 2.0], dtype="Float64"),
    pd.Series([1.5, None, 2.0], dtype=object),
    pl.Series([1.5, None, 2.0]),
    np.array([1.5, None, 2.0], dtype=object),
]
LABELS = [
    np.array(["yes", "no", "yes"]),
    pd.Series(["yes", "no", None]),
    pd.Series(["yes", "no", None], dtype="category"),
    pl.Series(["yes", "no", None]),
    pl.Series(["yes", "no", None], dtype=pl.Categorical),
]


@pytest.mark.parametrize("y", INTEGERS, ids=lambda y: type(y).__module__)
def test_integers(y):
    found = column(y)
    np.testing.assert_array_equal(found.values, [1.0, 2.0, 3.0])
    assert found.kind == "integer" and found.classes is None


@pytest.mark.parametrize("y", BOOLS)
def test_bools(y):
    found = column(y)
    # An array has no missing bools; its last one is true.
    last = 1.0 if isinstance(y, np.ndarray) else np.nan
    np.testing.assert_array_equal(found.values, [1.0, 0.0, last])
    assert found.kind == "bool" and found.classes == (False, True)


@pytest.mark.parametrize("y", REALS)
def test_missing_values_are_nan(y):
    found = column(y)
    np.testing.assert_array_equal(found.values, [1.5, np.nan, 2.0])
    assert found.kind == "real"


@pytest.mark.parametrize("y", LABELS)
def test_two_labels_are_0_and_1(y):
    found = column(y)
    np.testing.assert_array_equal(found.values[:2], [1.0, 0.0])
    assert found.classes == ("no", "yes") and found.kind == "bool"
    # New data are read by the classes of the fit, whichever of them are there.
    again = column(["no", "no", "no"], classes=("no", "yes"))
    np.testing.assert_array_equal(again.values, np.zeros(3))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.Series(["a", "b", "c"]), "two classes; got 3 classes: 'a', 'b', 'c'"),
        (pl.Series([dt.date(2020, 1, 1)] * 3), "got dates or times"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), "got dates or times"),
        (np.array([[1], "x", None], dtype=object), "must hold numbers"),
        ({"x": 1}, "must hold numbers"),
    ],
)
def test_other_outputs_are_refused_by_name(y, message):
    with pytest.raises(ValueError, match=f"output 'a' .*{message}"):
        column(y)


def test_unknown_labels_in_new_data():
    with pytest.raises(ValueError, match=r"the classes \['no', 'yes'\].*got 'maybe'"):
        column(["maybe", "no", "yes"], classes=("no", "yes"))


DATES = [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 2, 12)]


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_inputs_of_every_kind(library):
    frame = library.DataFrame(
        {"when": DATES, "flag": [True, False], "size": [1, 2], "x": [0.5, None]}
    )
    expected = [[0.0, 1.0, 1.0, 0.5], [1.5, 0.0, 2.0, np.nan]]
    np.testing.assert_array_equal(frames.as_matrix(frame), expected)
    assert frames.features(frame) == ["when", "flag", "size", "x"]
    with pytest.raises(ValueError, match=r"column 'city' holds .*: encode it"):
        frames.as_matrix(library.DataFrame({"city": ["a", "b"]}))


def test_dates_in_arrays_count_days():
    days = frames.as_matrix(np.array([["1970-01-03"], ["NaT"]], dtype="datetime64[D]"))
    np.testing.assert_array_equal(days, [[2.0], [np.nan]])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_come_back_as_they_went_in(library):
    frame = library.DataFrame({"x": [0.0, 1.0], "z": [2.0, 3.0]})
    made = frames.like(frame, {"a": np.array([1.0, 2.0])})
    assert isinstance(made, library.DataFrame) and list(made["a"]) == [1.0, 2.0]
    chosen = frames.select(frame, ["z", "x"])
    assert isinstance(chosen, library.DataFrame) and list(chosen.columns) == ["z", "x"]


def test_columns_may_be_named_by_numbers_but_not_twice_alike():
    values = np.arange(6.0).reshape(3, 2)
    frame = pd.DataFrame(values)
    np.testing.assert_array_equal(frames.as_matrix(frame), values)
    assert frames.features(frame) == ["0", "1"]
    np.testing.assert_array_equal(frames.select(frame, ["1", "0"]), values[:, ::-1])
    np.testing.assert_array_equal(frames.as_columns(frame)["1"].values, values[:, 1])
    with pytest.raises(ValueError, match="distinct column names; got 'a' twice"):
        frames.as_matrix(pd.DataFrame(values, columns=["a", "a"]))
    with pytest.raises(ValueError, match=r"`Y` must have distinct .* names; .* twice"):
        frames.as_columns(pd.DataFrame(values, columns=[0, "0"]))


def test_sparse_and_complex_values_are_refused():
    with pytest.raises(ValueError, match=r"sparse input is not supported; .*toarray"):
        frames.as_table(scipy.sparse.dok_array(np.eye(2)), np.eye(2))
    with pytest.raises(ValueError, match=r"`X` must hold real numbers\. Complex data"):
        frames.as_matrix(np.eye(2) * 1j)
    with pytest.raises(ValueError, match=r"'y0' must hold real numbers\. Complex data"):
        frames.as_columns(np.eye(2) * 1j)
