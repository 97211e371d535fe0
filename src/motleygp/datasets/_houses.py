"""Synthetic house sales: four columns of four types, for first trials."""

import numpy as np
import pandas as pd

from motleygp.datasets._problem import Problem, Table, split_rows
from motleygp.likelihoods import Bernoulli, Gamma, HetGaussian, Poisson

NUM_ROWS = 400


def houses(
    num_rows: int = NUM_ROWS, *, missing: float = 0.2, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Synthetic house sales, as two frames.

    X has `east` and `north`, in km. Y has `change` in price since last year (per cent,
    real), `sold` (yes or no), `visits` (a count) and `days` on the market (positive),
    which all depend on the place of the house. A random share `missing` of the values
    in Y is missing.
    """
    if not 0.0 <= missing < 1.0:
        raise ValueError(f"`missing` must be at least 0 and below 1; got {missing}.")
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(10.0 * rng.random((num_rows, 2)), columns=["east", "north"])
    centre = np.exp(-((X["east"] - 4.0) ** 2 + (X["north"] - 6.0) ** 2) / 8.0)
    river = np.sin(X["east"] + 0.5 * X["north"])
    wanted = 2.0 * centre - 0.7 + 0.5 * river
    Y = pd.DataFrame(
        {
            "change": 3.0 + 8.0 * wanted + rng.normal(size=num_rows),
            "sold": rng.random(num_rows) < 1.0 / (1.0 + np.exp(-2.5 * wanted)),
            "visits": rng.poisson(np.exp(1.0 + wanted)),
            "days": rng.gamma(3.0, np.exp(2.5 - wanted)),
        }
    )
    Y["sold"] = np.where(Y["sold"], "yes", "no")
    return X, Y.mask(rng.random(Y.shape) < missing)


def problem(num_rows: int = NUM_ROWS, *, seed: int = 0) -> Problem:
    """House sales with the likelihoods that fit them; `sold` is 1 for yes."""
    X, Y = houses(num_rows, seed=seed)
    sold = np.where(Y["sold"].isna(), np.nan, Y["sold"] == "yes")
    y = Y.assign(sold=sold).to_numpy(dtype=float)
    likelihoods = (HetGaussian(), Bernoulli(), Poisson(), Gamma())
    table = Table(X.to_numpy(), y, likelihoods, tuple(Y.columns))
    return split_rows(np.random.default_rng([seed, 75]), table)
