"""What a fitted model says of its outputs: correlations, relevance, a summary."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from motleygp.inference.model import Model
from motleygp.inference.scaling import Scaling


def function_names(model: Model, names: Sequence[str]) -> list[str]:
    """One name per parameter function: the output's, and which parameter it makes."""
    return [
        f"{name}: {function}"
        for name, likelihood in zip(names, model.likelihoods, strict=True)
        for function in likelihood.functions
    ]


_prior_covariance = eqx.filter_jit(lambda prior, x, z: prior.covariance(x, z))


def _covariance(model: Model) -> np.ndarray:
    """The prior's covariance of the functions at one input, whichever: (J, J)."""
    origin = jnp.zeros((1, model.prior.inducing.shape[-1]))
    return np.asarray(_prior_covariance(model.prior, origin, origin))[:, 0, :, 0]


def function_correlation(model: Model) -> np.ndarray:
    """The prior's correlation between the functions at one input: (J, J).

    corr[f_j(x), f_i(x)] is the same at every x. A function that never varies correlates
    with itself alone.
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
    standard deviation of the input as the model sees it: sqrt(-d^2 k / dx_p^2) of the
    prior's kernel k of f_j with k(0) = 1. An input of no use has a slope near 0.
    """
    prior, size = model.prior, model.prior.inducing.shape[-1]
    step = 1e-3 * float(jnp.min(prior.kernel.lengthscale))
    points = jnp.concatenate([jnp.zeros((1, size)), step * jnp.eye(size)])
    covariance = np.asarray(_prior_covariance(prior, points[:1], points))
    own = np.einsum("jnjk->jk", covariance)
    variance = np.where(own[:, :1] > 0.0, own[:, :1], 1.0)
    return np.sqrt(np.maximum(2.0 * (1.0 - own[:, 1:] / variance), 0.0)) / step


def summary_table(
    model: Model, scaling: Scaling, names: Sequence[str], features: Sequence[str]
) -> Table:
    """One row per parameter function: its mean, its spread and what it varies with."""
    table = Table(title="parameter functions")
    table.add_column("output: parameter")
    for column in ("offset", "spread", "varies most with"):
        table.add_column(column, justify="right")
    relevance = input_relevance(model)
    covariance = _covariance(model)
    labels = function_names(model, names)
    for j, label in enumerate(labels):
        first = int(np.argmax(relevance[j]))
        table.add_row(
            label,
            f"{float(model.offset[j]):.3g}",
            f"{np.sqrt(covariance[j, j]):.3g}",
            f"{features[first]} ({scaling.x_scale[first] / relevance[j, first]:.3g})",
        )
    return table
