"""A model as plain arrays in the user's units, and back."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from motleygp.inference.model import Model
from motleygp.inference.posterior import (
    Posterior,
    from_factor,
    prior_factors,
    unwhiten,
    whiten,
)
from motleygp.inference.scaling import Scaling
from motleygp.likelihoods import AbstractLikelihood
from motleygp.numerics.compiled import compiled
from motleygp.numerics.linalg import cholesky

_unwhiten, _whiten = compiled(unwhiten), compiled(whiten)
_prior_factors = compiled(prior_factors)
# Entries that are derived from others or are units, and so not part of a start.
_DERIVED = ("jitter", "output_shift", "output_scale")


def to_arrays(
    model: Model, q: Posterior, scaling: Scaling, names: Sequence[str]
) -> dict[str, Any]:
    """All parameters of the model by name: constrained, unwhitened, and with positions
    and distances of inputs in the user's units.

    `q_mean` has one row per group. `q_cov` has one matrix per group or, if q(u) is
    joint, is the matrix of all values, group by group.
    """
    mean, cov = _unwhiten(model.prior, q)
    mean = mean.reshape(model.prior.inducing.shape[:2])
    cov = cov[0] if q.is_joint(model.prior) else cov
    return theta_arrays(model, scaling, names) | {
        "jitter": np.asarray(_prior_factors(model.prior)[1]),
        "q_mean": np.asarray(mean),
        "q_cov": np.asarray(cov),
        "output_shift": scaling.y_shift.copy(),
        "output_scale": scaling.y_scale.copy(),
    }


def theta_arrays(
    model: Model, scaling: Scaling, names: Sequence[str]
) -> dict[str, Any]:
    """The entries of `to_arrays` that belong to theta.

    A parameter of likelihoods, such as the noise, is a dict by output.
    """
    prior = {k: np.asarray(v) for k, v in model.prior.parameters().items()}
    distances = {k: prior[k] * scaling.x_scale for k in model.prior.distances}
    inducing = prior["inducing"] * scaling.x_scale + scaling.x_shift
    own: dict[str, dict[str, float]] = {"noise": {}}
    for name, likelihood in zip(names, model.likelihoods, strict=True):
        for key, value in likelihood.parameters().items():
            own.setdefault(key, {})[name] = float(value)
    offset = np.asarray(model.offset)
    return prior | distances | {"inducing": inducing, "offset": offset} | own


def replaced(
    model: Model, current: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    """`current` with the entries of `new`; a `ValueError` names an entry that is wrong.

    The jitter follows from the kernel: it may be given unchanged, but not set.
    """
    for name, value in new.items():
        if name not in current:
            raise ValueError(
                f"`{name}` is not a parameter; known: {', '.join(current)}."
            )
        if name == "jitter" and not np.array_equal(value, current["jitter"]):
            raise ValueError(
                f"`jitter` follows from the kernel and cannot be set; got {value}."
            )
        if isinstance(current[name], Mapping):
            _check_names(name, value, current[name])
        elif np.shape(value) != current[name].shape:
            raise ValueError(
                f"`{name}` must have shape {current[name].shape}; "
                f"got {np.shape(value)}."
            )
    together = {
        name: {**value, **new.get(name, {})}
        if isinstance(value, Mapping)
        else new.get(name, value)
        for name, value in current.items()
    }
    model.prior.check_parameters(together)
    return together


def _check_names(name: str, given: Any, known: Iterable[str]) -> None:
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        found = list(given) if isinstance(given, Mapping) else given
        rule = f"must be a dict whose keys are outputs among {list(known)}"
        if not list(known):
            rule = "is a parameter of no output of this model"
        raise ValueError(f"`{name}` {rule}; got {found}.")


def from_arrays(
    model: Model, scaling: Scaling, names: Sequence[str], values: Mapping[str, Any]
) -> tuple[Model, Posterior, Scaling]:
    """The inverse of `to_arrays`, with the structure of `model`."""
    scaling = dataclasses.replace(
        scaling,
        y_shift=np.array(values["output_shift"], dtype=float),
        y_scale=np.array(values["output_scale"], dtype=float),
    )
    new = with_theta(model, scaling, names, values)
    q = _whiten(new.prior, *_in_parts(new, values))
    _check_covariance(q)
    return new, q, scaling


def _in_parts(model: Model, values: Mapping[str, Any]) -> tuple[Array, Array]:
    """`q_mean` and `q_cov` as the parts of q(u) have them."""
    mean, cov = (jnp.asarray(values[name]) for name in ("q_mean", "q_cov"))
    if model.joint_q:
        return mean.reshape(1, -1), cov.reshape(1, mean.size, mean.size)
    return mean, cov


def with_theta(
    model: Model, scaling: Scaling, names: Sequence[str], values: Mapping[str, Any]
) -> Model:
    """The inverse of `theta_arrays`."""
    given = {name: np.asarray(values[name]) for name in model.prior.parameters()}
    distances = {k: given[k] / scaling.x_scale for k in model.prior.distances}
    inducing = scaling.inputs(given["inducing"].astype(float))
    return dataclasses.replace(
        model,
        prior=model.prior.with_parameters(given | distances | {"inducing": inducing}),
        offset=jnp.asarray(values["offset"], dtype=float),
        likelihoods=tuple(
            _with_own(likelihood, name, values)
            for name, likelihood in zip(names, model.likelihoods, strict=True)
        ),
    )


def _with_own(
    likelihood: AbstractLikelihood, output: str, values: Mapping[str, Any]
) -> AbstractLikelihood:
    """The likelihood of one output with its own parameters from `values`."""
    own = likelihood.parameters()
    if not own:
        return likelihood
    return likelihood.with_parameters({name: values[name][output] for name in own})


def _check_covariance(q: Posterior) -> None:
    if not np.isfinite(np.asarray(q.half)).all():
        raise ValueError("`q_cov` must be positive definite for every group.")


def begun_at(
    model: Model,
    q: Posterior | None,
    scaling: Scaling,
    names: Sequence[str],
    values: Mapping[str, Any],
) -> tuple[Model, Posterior | None]:
    """A start with some entries of `to_arrays` replaced by `values`. `q` is over the
    inducing values themselves, or `None` for the prior."""
    num_groups, num_inducing = model.prior.inducing.shape[:2]
    size = num_groups * num_inducing
    together = model.joint_q and num_groups > 1
    wanted = {
        "q_mean": np.zeros((num_groups, num_inducing)),
        "q_cov": np.zeros(
            (size, size) if together else (num_groups, num_inducing, num_inducing)
        ),
    }
    new = {name: value for name, value in values.items() if name not in _DERIVED}
    arrays = replaced(model, theta_arrays(model, scaling, names) | wanted, new)
    model = with_theta(model, scaling, names, arrays)
    if ("q_mean" in new) != ("q_cov" in new):
        raise ValueError("`start` must have both `q_mean` and `q_cov`, or neither.")
    if "q_mean" in new:
        mean, cov = _in_parts(model, arrays)
        q = from_factor(mean, jnp.stack([cholesky(part) for part in cov]))
        _check_covariance(q)
    return model, q
