"""Inspection of a fitted model: weights, correlations, relevance, a summary."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from rich.table import Table

from motleygp.inference.model import Model
from motleygp.prediction.fitted import Fitted


def function_names(fitted: Fitted) -> list[str]:
    """The name of each parameter function: its output and its parameter."""
    return [
        f"{name}: {function}"
        for name, likelihood in zip(
            fitted.outputs, fitted.model.likelihoods, strict=True
        )
        for function in likelihood.functions
    ]


def correlation(fitted: Fitted) -> pd.DataFrame:
    """`function_correlation` as a frame."""
    labels = function_names(fitted)
    values = function_correlation(fitted.model)
    return pd.DataFrame(values, index=labels, columns=labels)


def weights(fitted: Fitted) -> pd.DataFrame:
    """The weight of each latent process, "u1", "u2", ..., in each parameter function.

    A process of rank R has R columns, all with its name.
    """
    prior = fitted.model.prior
    processes = [f"u{q + 1}" for q in prior.owner]
    values = np.asarray(prior.weights)
    return pd.DataFrame(values, index=function_names(fitted), columns=processes)


def lengthscales(fitted: Fitted) -> pd.DataFrame:
    """The length-scales of the latent processes, in the units of the inputs."""
    values = fitted.theta()["lengthscale"]
    processes = [f"u{q + 1}" for q in range(len(values))]
    return pd.DataFrame(values, index=processes, columns=list(fitted.inputs))


def relevance(fitted: Fitted) -> pd.DataFrame:
    """`input_relevance` as a frame."""
    values = input_relevance(fitted.model)
    labels = function_names(fitted)
    return pd.DataFrame(values, index=labels, columns=list(fitted.inputs))


_prior_covariance = eqx.filter_jit(lambda prior, x, z: prior.covariance(x, z))


def _covariance(model: Model) -> np.ndarray:
    """The prior covariance of the functions at any one input: (J, J)."""
    origin = jnp.zeros((1, model.prior.inducing.shape[-1]))
    return np.asarray(_prior_covariance(model.prior, origin, origin))[:, 0, :, 0]


def function_correlation(model: Model) -> np.ndarray:
    """The prior correlation between the functions at one input: (J, J).

    corr[f_j(x), f_i(x)] is the same at every x. A function without variance correlates
    only with itself.
    """
    covariance = _covariance(model)
    scale = np.sqrt(np.diagonal(covariance))
    scale = np.where(scale > 0.0, scale, 1.0)
    correlation = covariance / scale[:, None] / scale
    np.fill_diagonal(correlation, 1.0)
    return correlation


def input_relevance(model: Model) -> np.ndarray:
    """How much each function varies with each input: (J, P).

    The root mean square slope of f_j along an input, in standard deviations of f_j per
    unit of the input as the model sees it (one standard deviation, if standardised):
    sqrt(-d^2 k / dx_p^2) of the prior's kernel k of f_j, scaled to k(0) = 1. An
    irrelevant input has a slope near 0.
    """
    prior, size = model.prior, model.prior.inducing.shape[-1]
    step = 1e-3 * float(jnp.min(prior.kernel.lengthscale))
    points = jnp.concatenate([jnp.zeros((1, size)), step * jnp.eye(size)])
    covariance = np.asarray(_prior_covariance(prior, points[:1], points))
    own = np.einsum("jnjk->jk", covariance)
    variance = np.where(own[:, :1] > 0.0, own[:, :1], 1.0)
    return np.sqrt(np.maximum(2.0 * (1.0 - own[:, 1:] / variance), 0.0)) / step


def summary_table(fitted: Fitted) -> Table:
    """One row per parameter function: its offset, its prior standard deviation, and the
    input that it varies most with, with the distance over which it changes by one."""
    table = Table(title="parameter functions")
    table.add_column("output: parameter")
    for column in ("offset", "spread", "varies most with"):
        table.add_column(column, justify="right")
    slopes = input_relevance(fitted.model)
    covariance = _covariance(fitted.model)
    for j, label in enumerate(function_names(fitted)):
        first = int(np.argmax(slopes[j]))
        distance = fitted.scaling.x_scale[first] / slopes[j, first]
        table.add_row(
            label,
            f"{float(fitted.model.offset[j]):.3g}",
            f"{np.sqrt(covariance[j, j]):.3g}",
            f"{fitted.inputs[first]} ({distance:.3g})",
        )
    return table
