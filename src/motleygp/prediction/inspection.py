"""Inspection of a fitted model: weights, correlations, relevance, a summary."""

import dataclasses
import html
import io
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motleygp.inference.model import Model
from motleygp.numerics.compiled import compiled
from motleygp.prediction.fitted import Fitted
from motleygp.priors import AbstractPrior

# The share of a function's variance above which it uses a latent process.
_IN_USE = 0.01


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


_prior_covariance = compiled(lambda prior, x, z: prior.covariance(x, z))


def _covariance(prior: AbstractPrior) -> np.ndarray:
    """The prior covariance of the functions at any one input: (J, J)."""
    origin = jnp.zeros((1, prior.inducing.shape[-1]))
    return np.asarray(_prior_covariance(prior, origin, origin))[:, 0, :, 0]


def function_correlation(model: Model) -> np.ndarray:
    """The prior correlation between the functions at one input: (J, J).

    corr[f_j(x), f_i(x)] is the same at every x. A function without variance correlates
    only with itself.
    """
    covariance = _covariance(model.prior)
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


def process_shares(prior: AbstractPrior) -> np.ndarray:
    """The share of each latent process in the variance of each function: (J, Q).

    Process q, with all its copies, contributes v_jq to the prior variance of f_j, the
    same at every input: sum_i (a^i_jq)^2 k_q(0) in the linear model of
    coregionalisation, and the variance of its smoothed copies in a convolution. The
    share is v_jq / sum_q v_jq, and 0 for a function without variance.
    """
    parts = []
    for q in range(len(prior.rank)):
        own = jnp.where(np.asarray(prior.owner) == q, prior.weights, 0.0)
        alone = eqx.tree_at(lambda prior: prior.weights, prior, own)
        parts.append(np.diagonal(_covariance(alone)))
    variance = np.stack(parts, axis=1)
    total = variance.sum(axis=1, keepdims=True)
    return variance / np.where(total > 0.0, total, 1.0)


def processes(fitted: Fitted) -> str:
    """How many latent processes are in use, in words.

    An output uses a process that has more than 1 % of the variance of one of its
    functions (`process_shares`). Where no inducing values are shared, nothing is said
    about sharing.
    """
    return processes_in_use(fitted.model.prior, fitted.model.blocks)


def processes_in_use(prior: AbstractPrior, blocks: Sequence[tuple[int, ...]]) -> str:
    """`processes` of a prior, with the functions of each output."""
    used = process_shares(prior) > _IN_USE
    by_output = [used[list(own)].any(axis=0) for own in blocks]
    users = np.sum(by_output, axis=0)
    number, unused = len(users), np.sum(users == 0)
    what = f"{number} latent process{'' if number == 1 else 'es'}"
    if len(blocks) == 1 or not prior.shares_inducing:
        return f"{what}: {np.sum(users > 0)} in use, {unused} unused"
    return (
        f"{what}: {np.sum(users > 1)} shared by several outputs, "
        f"{np.sum(users == 1)} used by one, {unused} unused"
    )


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """A table that shows itself: as text when printed, as HTML in a notebook. `head`
    is a sentence above it."""

    head: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        table = Table(title=self.title)
        for place, name in enumerate(self.header):
            table.add_column(name, justify="right" if place else "left")
        for row in self.rows:
            # `Text`, not `str`: brackets in a name are not markup.
            table.add_row(*map(Text, row))
        # As wide as the terminal, and without its colours.
        console = Console(file=io.StringIO(), width=Console().width)
        with console.capture() as captured:
            console.print(Text(self.head))
            console.print(table)
        return captured.get().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return (
            f"<p>{html.escape(self.head)}</p>"
            f"<table><caption>{html.escape(self.title)}</caption><thead><tr>{head}</tr>"
            f"</thead><tbody>{body}</tbody></table>"
        )


def summary(fitted: Fitted) -> Summary:
    """The number of latent processes in use, and a row per parameter function: its
    offset, its prior standard deviation, and the input that it varies most with, with
    the distance over which it changes by one."""
    low, high = fitted.input_range
    # Nothing was learned about an input with one value.
    slopes = np.where(high > low, input_relevance(fitted.model), 0.0)
    covariance = _covariance(fitted.model.prior)
    rows = []
    for j, label in enumerate(_labelled_functions(fitted)):
        first = int(np.argmax(slopes[j]))
        most = "nothing"
        if slopes[j, first] > 0.0:
            distance = fitted.scaling.x_scale[first] / slopes[j, first]
            most = f"{fitted.inputs[first]} ({distance:.3g})"
        offset, spread = float(fitted.model.offset[j]), np.sqrt(covariance[j, j])
        rows.append((label, f"{offset:.3g}", f"{spread:.3g}", most))
    header = ("output: parameter", "offset", "spread", "varies most with")
    head, title = f"{processes(fitted)}.", "parameter functions"
    return Summary(head, title, header, tuple(rows))


def _labelled_functions(fitted: Fitted) -> list[str]:
    """`function_names`, with the label of 1 where an output has labels."""
    labels = [
        "" if classes is None or not likelihood.binary else f" of {classes[1]}"
        for likelihood, classes in zip(
            fitted.model.likelihoods, fitted.classes, strict=True
        )
        for _ in likelihood.functions
    ]
    return [a + b for a, b in zip(function_names(fitted), labels, strict=True)]
