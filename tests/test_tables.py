"""Any table gives a finite model that answers every question, or a one-line refusal."""

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import motleygp as mg

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_ROWS = 12
SCALES = [1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12]
WILD = [np.nan, np.inf, -np.inf, 1e300, 1e150, 1e9, -1e9, -1.0, 0.0, 0.5, 1.0]
# Outputs of each kind, and the likelihoods that a user might ask for.
KINDS = {
    "real": ("gaussian", "hetgaussian"),
    "positive": ("gamma", "exponential"),
    "count": ("poisson",),
    "proportion": ("beta",),
    "binary": ("bernoulli",),
}


class Structure(NamedTuple):
    """The part of a table for which a program is compiled; the rest is values."""

    kinds: tuple[str, ...]
    missing: bool
    weighted: bool
    prior: str = "lmc"


STRUCTURES = [
    Structure(kinds, missing, weighted)
    for kinds in (("real",), ("count", "positive"), ("binary", "proportion"))
    for missing in (False, True)
    for weighted in (False, True)
]
STRUCTURES += [Structure(("real", "count"), True, True, "convolution")]
NAMES = st.sampled_from(
    [
        ["a", "b"],
        ["price in \u20ac", "line\nbreak"],
        ["x0", "y1"],
        ["y1", "y0"],
        [1, 0],
        ["", " "],
        ["same", "same"],
    ]
)


class Drawn(NamedTuple):
    """A table, and the arguments of its fit."""

    outputs: Any
    prior: str
    X: Any
    Y: Any
    sample_weight: Any
    new: np.ndarray


def _values(draw, rng: np.random.Generator, kind: str) -> np.ndarray:
    scale, z = draw(st.sampled_from(SCALES)), rng.normal(size=NUM_ROWS)
    match kind:
        case "real":
            return scale * (draw(st.sampled_from([0.0, 1.0, 1e6])) + z)
        case "positive":
            return scale * np.exp(draw(st.sampled_from([0.1, 1.0, 4.0])) * z)
        case "count":
            return rng.poisson(max(scale, 0.5), NUM_ROWS).astype(float)
        case "proportion":
            return 1.0 / (1.0 + np.exp(-draw(st.sampled_from([0.1, 1.0, 9.0])) * z))
    return (z > 0).astype(float)


def _spoiled(draw, column: np.ndarray) -> np.ndarray:
    """The column with one wild value; most columns stay as they are."""
    if draw(st.integers(0, 5)) == 0:
        column[draw(st.integers(0, NUM_ROWS - 1))] = draw(st.sampled_from(WILD))
    return column


def _typed(draw, column: np.ndarray, kind: str) -> pd.Series:
    """The column in one of the types that frames have."""
    series = pd.Series(column)
    if kind == "binary" and np.isin(column, [0.0, 1.0]).all() and draw(st.booleans()):
        labels = draw(st.sampled_from([("no", "yes"), (False, True), ("b", "a")]))
        return series.map(dict(enumerate(labels)))
    types = ["float64", "float32", "object", "Float64", "Int64", "string"]
    try:
        with np.errstate(all="ignore"):
            return series.astype(draw(st.sampled_from(types)))
    except (TypeError, ValueError, OverflowError):
        return series


def _contained(draw, frame: pd.DataFrame, kinds: Sequence[str] = ()) -> Any:
    """The frame as a user may have it."""
    kind = draw(
        st.sampled_from(["pandas", "polars", "array", "masked", "list", *kinds])
    )
    match kind:
        case "polars" if frame.columns.is_unique:
            return pl.DataFrame(
                {str(c): frame[c].tolist() for c in frame}, strict=False
            )
        case "dict" if frame.columns.is_unique:
            return {name: frame[name].to_numpy() for name in frame}
        case "array":
            return frame.to_numpy()
        case "list":
            return frame.to_numpy().tolist()
        case "masked":
            values = pd.DataFrame(frame.to_numpy()).apply(
                pd.to_numeric, errors="coerce"
            )
            return np.ma.masked_invalid(values.to_numpy(dtype=float, na_value=np.nan))
    match draw(st.sampled_from(["none", "text", "reversed", "repeated", "dates"])):
        case "text":
            return frame.set_axis([f"r{i}" for i in range(len(frame))])
        case "reversed":
            return frame[::-1]
        case "repeated":
            return frame.set_axis([0] * len(frame))
        case "dates":
            return frame.set_axis(pd.date_range("2024-01-01", periods=len(frame)))
    return frame


@st.composite
def tables(draw, structure: Structure) -> Drawn:
    kinds, missing, weighted, prior = structure
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale, shift = draw(st.sampled_from(SCALES)), draw(st.sampled_from([0.0, 1.0, 1e6]))
    x = scale * (shift + rng.normal(size=(NUM_ROWS, 2)))
    x[:, 0] = _spoiled(draw, x[:, 0])
    if draw(st.integers(0, 9)) == 0:
        x[:, 1] = x[0, 1]
    X = pd.DataFrame(
        {place: _typed(draw, x[:, place], "real") for place in range(2)}
    ).set_axis(draw(NAMES), axis=1)
    columns = {}
    for place, kind in enumerate(kinds):
        column = _spoiled(draw, _values(draw, rng, kind))
        if missing and place == len(kinds) - 1:
            column[:3] = np.nan
        columns[place] = _typed(draw, column, kind)
    Y = pd.DataFrame(columns).set_axis(draw(NAMES)[: len(kinds)], axis=1)
    outputs: Any = [draw(st.sampled_from(KINDS[kind])) for kind in kinds]
    if draw(st.integers(0, 7)) == 0:
        outputs = "auto"
    weight = None
    if weighted:
        weight = _spoiled(
            draw, draw(st.sampled_from(SCALES)) * rng.uniform(size=NUM_ROWS)
        )
    new = scale * (shift + 2.0 * rng.normal(size=(3, 2)))
    new[0, 0] = draw(st.sampled_from([0.0, 1e9, -1e150]))
    return Drawn(
        outputs, prior, _contained(draw, X), _contained(draw, Y, ["dict"]), weight, new
    )


def _fitted(table: Drawn) -> mg.MotleyGP | None:
    """The model, or `None` if the table was refused in one line."""
    model = mg.MotleyGP(
        table.outputs,
        prior=table.prior,
        num_inducing=4,
        num_latents=1,
        max_iter=3,
        batch_size=6,
        random_state=0,
        progress=False,
    )
    try:
        return model.fit(table.X, table.Y, sample_weight=table.sample_weight)
    except ValueError as error:
        assert "\n" not in str(error), error
        assert len(str(error)) > 10
        return None


def _questions(model: mg.MotleyGP, table: Drawn) -> dict[str, Any]:
    """The answers to every question about the rows of the fit and about new ones."""
    new: Any = table.new
    if model.fitted_.inputs_named:
        new = pd.DataFrame(table.new, columns=list(model.fitted_.inputs))
    found: dict[str, Any] = {"predict": np.asarray(model.predict(new))}
    for name, p in model.predict_dist(new).items():
        found[f"mean of {name}"] = p.mean
        found[f"variance of {name}"] = p.variance
        found[f"quantiles of {name}"] = p.quantile([0.01, 0.5, 0.99])
        found[f"density of {name}"] = p.log_prob(p.quantile(0.5)[:, 0])
        found[f"cdf of {name}"] = p.cdf(p.mean)
        found[f"draws of {name}"] = p.sample(2, random_state=0)
    drawn = model.sample(new, 2, random_state=0)
    found |= {f"joint draws of {name}": values for name, values in drawn.items()}
    found["probabilities"] = list(model.predict_proba(new).values())
    found["nlpd"] = list(model.nlpd(table.X, table.Y).values())
    found["score"] = model.score(table.X, table.Y)
    found["elbo"] = model.elbo(table.X, table.Y)
    metrics = model.metrics(table.X, table.Y)
    found["metrics"] = metrics[["nlpd", "rmse"]].to_numpy()
    filled = model.impute(table.X, table.Y)
    assert not pd.isna(np.asarray(filled, dtype=object)).any()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.mgp"))
        again = mg.load(Path(folder, "model.mgp"))
    np.testing.assert_array_equal(again.predict(new), found["predict"])
    return found


def _check(table: Drawn) -> bool:
    """Whether the table was taken."""
    with warnings.catch_warnings():
        # The model's own warnings are expected here; those of NumPy are not.
        warnings.simplefilter("ignore", UserWarning)
        model = _fitted(table)
        if model is None:
            return False
        for question, answer in _questions(model, table).items():
            for part in answer if isinstance(answer, list) else [answer]:
                assert np.isfinite(part).all(), question
    return True


def _check_many(structure: Structure, number: int) -> None:
    taken = []

    @settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(tables(structure))
    def check(table: Drawn) -> None:
        taken.append(_check(table))

    check()
    # Refusing everything would be no feat.
    assert len(taken) == number and sum(taken) >= 0.2 * number


def test_five_tables():
    _check_many(STRUCTURES[1], 5)


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: "-".join(map(str, s)))
def test_five_hundred_tables(structure):
    _check_many(structure, 40)
