"""A problem in the form in which the published code takes it.

Each output has rows of its own, in an order of its own, cut into consecutive slices
that are never reshuffled; the last slice is shorter.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from motleygp.datasets import Problem
from motleygp_reproduce.authors.settings import Settings

# The seed that orders the rows, whatever the seed of a run.
_ORDER_SEED = 101
# Longitudes and latitudes of Greater London, which the code's unit square spans.
_LONDON_LOW, _LONDON_HIGH = (-0.5105, 51.2871), (0.3336, 51.6925)
# A column that varies less than this, relative to its size, holds one value.
_CONSTANT = 1e-9


class Outputs(NamedTuple):
    """The likelihoods, by name; `sigmas` are the noises of Gaussian outputs, 1 for the
    others."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sigmas: tuple[float, ...]
    counts: tuple[int, ...]
    """The number of parameter functions of each output."""

    @property
    def owners(self) -> Int[np.ndarray, " J"]:
        """The output of each parameter function."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def num_functions(self) -> int:
        return sum(self.counts)


class Rows(NamedTuple):
    """Rows of each output in slices: S of B rows, as many as the longest output needs.

    `weight` is N_d over the rows of the slice, and 0 where there is no row: output d
    has `lengths[d]` slices.
    """

    x: Float[Array, "D S B P"]
    y: Float[Array, "D S B"]
    weight: Float[Array, "D S B"]
    lengths: Int[Array, " D"]

    def slice_at(self, iteration: Int[Array, ""]) -> "Batch":
        """The slices of an iteration: the next one of each output, and after its last
        its first. The first of all is spent on building the model."""
        number = iteration % self.lengths
        place = jnp.arange(len(self.lengths))
        return Batch(*(a[place, number] for a in (self.x, self.y, self.weight)))


class Batch(NamedTuple):
    """Some rows of each output, and the weights of their terms in the bound."""

    x: Float[Array, "D B P"]
    y: Float[Array, "D B"]
    weight: Float[Array, "D B"]


class Prepared(NamedTuple):
    """Training rows in slices, test rows in one slice, and the limits of the training
    inputs of the first output, between which the inducing points start."""

    outputs: Outputs
    train: Rows
    test: Batch
    low: Float[np.ndarray, " P"]
    high: Float[np.ndarray, " P"]


def prepared(
    problem: Problem, settings: Settings, *, shuffled: bool = True
) -> Prepared:
    """The rows of a problem, with the inputs scaled as the code scales them; those of
    each output in an order of its own, or as they come."""
    rng = np.random.RandomState(_ORDER_SEED)
    trained, tested = [], []
    for d in range(len(problem.names)):
        held, left = (~np.isnan(y[:, d]) for y in (problem.y_train, problem.y_test))
        x, x_test = PREPARATIONS[settings.inputs](
            problem.x_train[held], problem.x_test[left]
        )
        order = rng.permutation(len(x)) if shuffled else slice(None)
        trained.append((x[order], problem.y_train[held, d][order]))
        tested.append((x_test, problem.y_test[left, d]))
    first = trained[0][0]
    rows = _in_slices(trained, settings.batch_size)
    whole = _in_slices(tested, max(len(y) for _, y in tested))
    return Prepared(
        _outputs(problem),
        rows,
        Batch(whole.x[:, 0], whole.y[:, 0], whole.weight[:, 0]),
        first.min(axis=0),
        first.max(axis=0),
    )


def _outputs(problem: Problem) -> Outputs:
    likelihoods = problem.likelihoods
    return Outputs(
        problem.names,
        tuple(lik.name for lik in likelihoods),
        tuple(float(lik.parameters().get("noise", 1.0)) for lik in likelihoods),
        tuple(lik.num_functions for lik in likelihoods),
    )


def _in_slices(
    columns: list[tuple[Float[np.ndarray, "_ P"], Float[np.ndarray, "_"]]], size: int
) -> Rows:
    lengths = [-(-len(y) // size) for _, y in columns]
    most, num_inputs = max(lengths), columns[0][0].shape[1]
    x = np.zeros((len(columns), most * size, num_inputs))
    y, weight = np.zeros((2, len(columns), most * size))
    for d, (inputs, values) in enumerate(columns):
        number = len(values)
        # Rows beyond the last one repeat the first: their values must be valid.
        x[d], y[d] = inputs[0], values[0]
        x[d, :number], y[d, :number] = inputs, values
        rows = np.arange(number) // size
        weight[d, :number] = number / np.bincount(rows)[rows]
    shape = (len(columns), most, size)
    return Rows(
        jnp.asarray(x.reshape(*shape, num_inputs)),
        jnp.asarray(y.reshape(shape)),
        jnp.asarray(weight.reshape(shape)),
        jnp.asarray(lengths),
    )


_Inputs = Float[np.ndarray, "_ P"]


def _raw(train: _Inputs, test: _Inputs) -> tuple[_Inputs, _Inputs]:
    return train, test


def _tenfold(train: _Inputs, test: _Inputs) -> tuple[_Inputs, _Inputs]:
    """[-5, 5] for [0, 1]: the code draws T1 from length-scales ten times as long, on
    [-10, 10]."""
    return 10.0 * train - 5.0, 10.0 * test - 5.0


def _london(train: _Inputs, test: _Inputs) -> tuple[_Inputs, _Inputs]:
    """Latitude and longitude become longitude and latitude in the unit square."""
    low, high = np.array(_LONDON_LOW), np.array(_LONDON_HIGH)
    first, second = ((x[:, ::-1] - low) / (high - low) for x in (train, test))
    return first, second


def _standardised(train: _Inputs, test: _Inputs) -> tuple[_Inputs, _Inputs]:
    """Mean 0 and variance 1 over training and test rows together.

    A constant column of NAVAL becomes 1 in the code, by rounding; here all do.
    """
    every = np.concatenate([train, test])
    mean, std = every.mean(axis=0), every.std(axis=0)
    still = std <= _CONSTANT * (1.0 + np.abs(mean))
    shift, scale = np.where(still, mean - 1.0, mean), np.where(still, 1.0, std)
    return (train - shift) / scale, (test - shift) / scale


PREPARATIONS: dict[str, Callable[[_Inputs, _Inputs], tuple[_Inputs, _Inputs]]] = {
    "raw": _raw,
    "tenfold": _tenfold,
    "london": _london,
    "standardised": _standardised,
}
