"""The settings that are not given, planned from the data."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motleygp import priors
from motleygp.inference import Dataset
from motleygp.likelihoods import AbstractLikelihood

_MAX_ITER = 2000
# Minibatches of this size; where there are few rows, all of them: the noise of
# minibatches costs more there than the time that they save.
_BATCH, _FEW_ROWS = 256, 1024


def planned(
    given: Mapping[str, Any],
    likelihoods: Sequence[AbstractLikelihood],
    data: Dataset,
) -> dict[str, Any]:
    """The arguments, without `None` for a size, and with the rank of each process."""
    form = priors.get(given["prior"], given["inducing"])
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    num_latents = given["num_latents"]
    if num_latents is None:
        num_latents = form.usual_num_latents(
            len(likelihoods), num_functions, _num_rows(data)
        )
    rank = _ranks(given["rank"], num_latents)
    num_inducing = given["num_inducing"]
    if num_inducing is None:
        num_groups = len(form.group_functions(num_functions, sum(rank)))
        num_inducing = form.usual_num_inducing(num_groups)
    sizes = dict(num_latents=num_latents, rank=rank, num_inducing=num_inducing)
    return with_iterations(given, data) | sizes


def with_iterations(given: Mapping[str, Any], data: Dataset) -> dict[str, Any]:
    """The arguments, with a number of iterations and the size of a minibatch."""
    num_rows = _num_rows(data)
    usual = {
        "max_iter": _MAX_ITER,
        "batch_size": num_rows if num_rows <= _FEW_ROWS else _BATCH,
    }
    return dict(given) | {
        name: value if given[name] is None else given[name]
        for name, value in usual.items()
    }


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
