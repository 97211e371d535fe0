"""The settings that are not given, planned from the data."""

from collections.abc import Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from motleygp import priors
from motleygp.inference import Dataset
from motleygp.likelihoods import AbstractLikelihood

# Where there are few rows, all of them are in each minibatch: the noise of minibatches
# costs more there than the time that they save.
FEW_ROWS = 1024


class Effort(NamedTuple):
    """How much a fit may cost.

    - `inducing`: the number of inducing points, relative to the prior's usual one.
    - `batch_size`: the rows in a minibatch.
    - `max_iter`: the number of iterations with minibatches, for one output.
    - `most`: the most iterations without minibatches, which end when they converge.
    - `gain`: the gain that is too small to go on, relative to the usual one.
    - `polish`: the most quasi-Newton steps at the end of a fit on few rows.
    """

    inducing: float
    batch_size: int
    max_iter: int
    most: int
    gain: float
    polish: int


EFFORTS: Mapping[str, Effort] = MappingProxyType(
    {
        "quick": Effort(0.4, 256, 500, 1000, 2.0, 0),
        "standard": Effort(1.0, 512, 1000, 2000, 1.0, 200),
        "thorough": Effort(2.0, 1024, 1400, 4000, 0.2, 200),
    }
)
# Iterations for several outputs, relative to those for one: their model has more to
# learn. With fewer, outputs that share nothing are predicted worse than one by one.
_SEVERAL = 1.5


def planned(
    given: Mapping[str, Any],
    likelihoods: Sequence[AbstractLikelihood],
    data: Dataset,
) -> dict[str, Any]:
    """The arguments, without `None` for a size, and with the rank of each process."""
    form = priors.get(given["prior"], given["inducing"])
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    num_latents, num_rows = given["num_latents"], _num_rows(data)
    if num_latents is None:
        num_latents = form.usual_num_latents(len(likelihoods), num_functions, num_rows)
    rank = _ranks(given["rank"], num_latents)
    num_inducing = given["num_inducing"]
    if num_inducing is None:
        num_groups = len(form.group_functions(num_functions, sum(rank)))
        usual = form.usual_num_inducing(num_groups, num_rows)
        num_inducing = ceil(EFFORTS[given["effort"]].inducing * usual)
    sizes = dict(num_latents=num_latents, rank=rank, num_inducing=num_inducing)
    return with_iterations(given, data) | sizes


def with_iterations(given: Mapping[str, Any], data: Dataset) -> dict[str, Any]:
    """The arguments, with a number of iterations and the size of a minibatch."""
    num_rows, effort = _num_rows(data), EFFORTS[given["effort"]]
    if num_rows <= FEW_ROWS:
        usual = {"batch_size": num_rows, "max_iter": effort.most}
    else:
        several = _SEVERAL if sum(len(block.outputs) for block in data) > 1 else 1.0
        max_iter = round(several * effort.max_iter)
        usual = {"batch_size": effort.batch_size, "max_iter": max_iter}
    return dict(given) | {
        name: value if given[name] is None else given[name]
        for name, value in usual.items()
    }


def in_words(given: Mapping[str, Any]) -> str:
    """The planned sizes in a few words."""
    return f"M = {given['num_inducing']}, {given['batch_size']} rows a step"


def _num_rows(data: Dataset) -> int:
    """The rows of the output with the most."""
    return max(block.total for block in data)


def _ranks(rank: Any, num_latents: int) -> tuple[int, ...]:
    """The rank of each latent process."""
    each = (int(rank),) * num_latents if np.ndim(rank) == 0 else tuple(rank)
    if len(each) != num_latents or min(each) < 1:
        raise ValueError(
            f"`rank` must be at least 1 for each of the {num_latents} latent "
            f"processes; got {rank}."
        )
    return each
