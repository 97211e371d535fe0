"""The estimator's arguments: their checks, and the objects that they name."""

import dataclasses
import functools as ft
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from motleygp import kernels, likelihoods as lik, optim, priors
from motleygp.estimator.plan import EFFORTS
from motleygp.inference import Dataset, Model, Posterior, Scaling, with_fixed
from motleygp.inference.parameters import begun_at
from motleygp.likelihoods import AbstractLikelihood
from motleygp.training import (
    Start,
    data_driven_start,
    joint_pays,
    paper_start,
    with_form,
)

_CHOICES: dict[str, tuple] = {
    "preset": (None, "paper"),
    "offset": ("marginal", "zero"),
    "posterior": ("auto", "factorised", "joint"),
    "effort": tuple(EFFORTS),
}
# Entries of `MotleyGP.parameters()` beyond theta that `start` may have.
_STARTABLE = ("q_mean", "q_cov", "output_shift", "output_scale", "jitter")
# The number of iterations before quasi-Newton steps, and the largest product of rows
# and inducing values for them: with minibatches, whose iterations cost less, and
# without.
_BEFORE_POLISH, _MAX_POLISHED, _MAX_WITHOUT = 300, 200_000, 400_000
_COUNTS = ("num_inducing", "max_iter", "batch_size", "restarts", "num_latents")


def check(given: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first invalid argument."""
    prior = priors.get(given["prior"], given["inducing"])
    known_kernels = prior.kernels or tuple(kernels.BY_NAME)
    _check_among("kernel", given["kernel"], known_kernels)
    if not isinstance(given["optimizer"], optim.Scheme):
        _check_among("optimizer", given["optimizer"], tuple(optim.BY_NAME))
    for name, known in _CHOICES.items():
        _check_among(name, given[name], known)
    if given["posterior"] == "joint" and not prior.shares_inducing:
        raise ValueError(
            "`posterior` must be 'auto' or 'factorised' with inducing values of "
            "functions; got 'joint'."
        )
    _check_parameters(given)
    _check_numbers(given)
    check_random_state(given["random_state"])
    folder = given["checkpoint_dir"]
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise ValueError(f"`checkpoint_dir` must be a path or None; got {folder!r}.")


def check_random_state(value: Any) -> None:
    """Raise a `ValueError` unless a seed is None or a whole number from 0 on."""
    if value is not None and (not _is_whole(value) or value < 0):
        raise ValueError(
            f"`random_state` must be None or a whole number from 0 on; got {value!r}."
        )


def _check_among(name: str, value: Any, known: Sequence[Any]) -> None:
    if value not in known:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(str, known))}; got {value!r}."
        )


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name in _COUNTS:
        value = given[name]
        if value is None and name != "restarts":
            continue
        if not _is_whole(value) or value < 1:
            raise ValueError(f"`{name}` must be a whole number above 0; got {value!r}.")
    fraction, limit, n_jobs = (
        given[name] for name in ("validation_fraction", "time_limit", "n_jobs")
    )
    if not (_is_number(fraction) and 0.0 <= fraction <= 0.5):
        raise ValueError(
            f"`validation_fraction` must be between 0 and 0.5; got {fraction!r}."
        )
    if limit is not None and not (_is_number(limit) and limit > 0.0):
        raise ValueError(f"`time_limit` must be above 0 seconds; got {limit!r}.")
    rank = given["rank"]
    if not _is_whole(rank) and not (
        isinstance(rank, Iterable) and all(_is_whole(r) for r in rank)
    ):
        raise ValueError(
            "`rank` must be a whole number, or one for each latent process; "
            f"got {rank!r}."
        )
    if not isinstance(given["standardize"], bool | np.bool_):
        raise ValueError(
            f"`standardize` must be True or False; got {given['standardize']!r}."
        )
    if n_jobs is not None and (not _is_whole(n_jobs) or n_jobs == 0):
        raise ValueError(
            f"`n_jobs` must be None or a whole number other than 0; got {n_jobs!r}."
        )


def _check_parameters(given: Mapping[str, Any]) -> None:
    """Check the names in `fixed` and `start`."""
    theta = parameter_names(given)
    fixed, start = given["fixed"], given["start"]
    if isinstance(fixed, str) or not isinstance(fixed, Iterable):
        raise ValueError(f"`fixed` must be a list of names; got {fixed!r}.")
    if start is not None and not isinstance(start, Mapping):
        raise ValueError(f"`start` must be a dict of values by name; got {start!r}.")
    for argument, names, known in (
        ("fixed", list(fixed), theta),
        ("start", list(start or ()), (*theta, *_STARTABLE)),
    ):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(
                f"`{argument}` must name parameters among {', '.join(known)}; "
                f"got {unknown[0]!r}."
            )


def parameter_names(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters that a model with these arguments may have."""
    prior = priors.get(given["prior"], given["inducing"])
    owners = (prior, kernels.BY_NAME[given["kernel"]], *lik.BY_NAME.values())
    own = [name for owner in owners for name in owner.parts]
    return tuple(dict.fromkeys([*own, "offset"]))


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def scheme(
    given: Mapping[str, Any],
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
) -> optim.Scheme:
    """The training scheme."""
    optimizer = given["optimizer"]
    if isinstance(optimizer, optim.Scheme):
        return optimizer
    if given["preset"] == "paper":
        initial_p = optim.paper_initial_p(data[0].x.shape[1])
        return optim.paper(optimizer, initial_p=initial_p)
    share = given["batch_size"] / max(block.total for block in data)
    num_weights = _num_functions(likelihoods) * sum(given["rank"])
    num_values = sum(block.num_values for block in data)
    few = {"polish": EFFORTS[given["effort"]].polish} if _few_rows(given, data) else {}
    return optim.usual(
        optimizer,
        share=min(share, 1.0),
        weights_per_value=num_weights / num_values,
        gain=EFFORTS[given["effort"]].gain,
        **few,
    )


def num_steps(given: Mapping[str, Any], scheme: optim.Scheme) -> int:
    """The number of iterations, without those that polish theta."""
    if scheme.polish and isinstance(given["optimizer"], str):
        return _BEFORE_POLISH
    return given["max_iter"]


def _few_rows(given: Mapping[str, Any], data: Dataset) -> bool:
    """Whether quasi-Newton steps are cheaper than the iterations that they replace:
    with a joint q(u), whose best value takes a few steps, and few rows."""
    form = priors.get(given["prior"], given["inducing"])
    num_inducing = sum(given["rank"]) * given["num_inducing"]
    pays = {"auto": joint_pays(num_inducing, data), "joint": True, "factorised": False}
    num_rows = sum(block.total for block in data)
    whole = given["batch_size"] >= max(block.total for block in data)
    return (
        given["optimizer"] == "fng"
        and given["max_iter"] > _BEFORE_POLISH
        and not given["validation_fraction"]
        and form.shares_inducing
        and pays[_form(given)]
        and num_inducing * num_rows <= (_MAX_WITHOUT if whole else _MAX_POLISHED)
    )


def start(given: Mapping[str, Any], scaling: Scaling, names: Sequence[str]) -> Start:
    """The function that makes a model from a seed."""
    inner = ft.partial(with_form, _drawn_start(given), _form(given))
    if not (given["start"] or given["fixed"]):
        return inner
    values, fixed = dict(given["start"] or {}), tuple(given["fixed"])
    return ft.partial(_begin_at, inner, values, fixed, scaling, tuple(names))


def _form(given: Mapping[str, Any]) -> str:
    """The form of q(u), which a q(u) in `start` has already."""
    if given["posterior"] == "auto" and "q_cov" in (given["start"] or {}):
        return "joint" if np.ndim(given["start"]["q_cov"]) == 2 else "factorised"
    return given["posterior"]


def started_units(values: Mapping[str, Any] | None, scaling: Scaling) -> Scaling:
    """The scaling, with the units of the outputs in `start` if it has them."""
    for name, field in (("output_shift", "y_shift"), ("output_scale", "y_scale")):
        if name in (values or {}):
            value = np.array((values or {})[name], dtype=float)
            if value.shape != scaling.y_scale.shape:
                raise ValueError(
                    f"`{name}` must have shape {scaling.y_scale.shape}; "
                    f"got {value.shape}."
                )
            scaling = dataclasses.replace(scaling, **{field: value})
    return scaling


def _begin_at(
    inner: Start,
    values: Mapping[str, Any],
    fixed: tuple[str, ...],
    scaling: Scaling,
    names: tuple[str, ...],
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
) -> tuple[Model, Posterior | None]:
    """A drawn start with some given values, and with some parts of theta fixed."""
    model, q = inner(rng, data, likelihoods)
    model, q = begun_at(model, q, scaling, names, values)
    return with_fixed(model, {*fixed, *model.fixed}), q


def _drawn_start(given: Mapping[str, Any]) -> Start:
    shape: dict[str, Any] = dict(
        num_latents=given["num_latents"],
        rank=given["rank"],
        num_inducing=given["num_inducing"],
        form=priors.get(given["prior"], given["inducing"]),
        kernel=kernels.BY_NAME[given["kernel"]],
    )
    if given["preset"] == "paper":
        return ft.partial(paper_start, **shape)
    return ft.partial(data_driven_start, offset=given["offset"], **shape)


def _num_functions(likelihoods: Sequence[AbstractLikelihood]) -> int:
    return sum(likelihood.num_functions for likelihood in likelihoods)
