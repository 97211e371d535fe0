"""A fitted model as plain arrays, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from motleygp.inference.model import Model
from motleygp.inference.posterior import (
    Posterior,
    from_factor,
    prior_factors,
    unwhiten,
    whiten,
)
from motleygp.inference.scaling import Scaling
from motleygp.likelihoods import AbstractLikelihood, Gaussian
from motleygp.numerics.linalg import cholesky
from motleygp.priors import Convolution

# Parameters of a prior that are distances between inputs.
_DISTANCES = ("lengthscale", "smoothing")

_unwhiten, _whiten = eqx.filter_jit(unwhiten), eqx.filter_jit(whiten)
_prior_factors = eqx.filter_jit(prior_factors)


def to_arrays(
    model: Model, q: Posterior, scaling: Scaling, names: Sequence[str]
) -> dict[str, Any]:
    """All numbers of the model by name: constrained, unwhitened, in the user's units
    where they live in the space of the inputs."""
    mean, cov = _unwhiten(model.prior, q)
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
    """The part of `to_arrays` that is theta."""
    prior = {k: np.asarray(v) for k, v in model.prior.parameters().items()}
    distances = {k: prior[k] * scaling.x_scale for k in _DISTANCES if k in prior}
    inducing = prior["inducing"] * scaling.x_scale + scaling.x_shift
    return (
        prior
        | distances
        | {
            "inducing": inducing,
            "offset": np.asarray(model.offset),
            "noise": {
                name: float(likelihood.noise)
                for name, likelihood in zip(names, model.likelihoods, strict=True)
                if isinstance(likelihood, Gaussian)
            },
        }
    )


def replaced(current: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """`current` with some entries replaced, or a `ValueError` that says what is wrong.

    The jitter follows from the kernel: it may be given as it is, but not changed.
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
        if name == "noise":
            if not set(value) <= set(current["noise"]):
                raise ValueError(
                    f"`noise` must name Gaussian outputs, of "
                    f"{list(current['noise'])}; got {list(value)}."
                )
            _check_positive("noise", list(value.values()))
        elif np.shape(value) != current[name].shape:
            raise ValueError(
                f"`{name}` must have shape {current[name].shape}; "
                f"got {np.shape(value)}."
            )
        if name in _DISTANCES:
            _check_positive(name, value)
    noise = {**current["noise"], **new.get("noise", {})}
    return {**current, **new, "noise": noise}


def _check_positive(name: str, value: Any) -> None:
    if not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}` must be positive; got {np.min(value):g}.")


def from_arrays(
    model: Model, scaling: Scaling, names: Sequence[str], values: Mapping[str, Any]
) -> tuple[Model, Posterior, Scaling]:
    """The inverse of `to_arrays`, with the structure of `model`."""
    scaling = scaling._replace(
        y_shift=np.array(values["output_shift"], dtype=float),
        y_scale=np.array(values["output_scale"], dtype=float),
    )
    new = with_theta(model, scaling, names, values)
    q = _whiten(new.prior, jnp.asarray(values["q_mean"]), jnp.asarray(values["q_cov"]))
    _check_covariance(q)
    return new, q, scaling


def with_theta(
    model: Model, scaling: Scaling, names: Sequence[str], values: Mapping[str, Any]
) -> Model:
    """The inverse of `theta_arrays`."""
    given = {name: np.asarray(values[name]) for name in model.prior.parameters()}
    _check_weights(model, given["weights"])
    distances = {k: given[k] / scaling.x_scale for k in _DISTANCES if k in given}
    inducing = scaling.inputs(given["inducing"].astype(float))
    prior = model.prior.with_parameters(given | distances | {"inducing": inducing})
    return Model(
        prior,
        jnp.asarray(values["offset"], dtype=float),
        _with_noise(model.likelihoods, names, values["noise"]),
        fixed=model.fixed,
    )


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
    """A start with some entries of `to_arrays` given; `q` is of the inducing values
    themselves, or `None` for the prior.

    The jitter follows from the kernel, and the outputs' units are those of `scaling`.
    """
    prior = model.prior
    num_groups, num_inducing = prior.inducing.shape[:2]
    wanted = {
        "q_mean": np.zeros((num_groups, num_inducing)),
        "q_cov": np.zeros((num_groups, num_inducing, num_inducing)),
    }
    skipped = ("jitter", "output_shift", "output_scale")
    new = {name: value for name, value in values.items() if name not in skipped}
    arrays = replaced(theta_arrays(model, scaling, names) | wanted, new)
    model = with_theta(model, scaling, names, arrays)
    if ("q_mean" in new) != ("q_cov" in new):
        raise ValueError("`start` must have both of `q_mean` and `q_cov`, or neither.")
    if "q_mean" in new:
        factor = jnp.stack([cholesky(jnp.asarray(v)) for v in arrays["q_cov"]])
        q = from_factor(jnp.asarray(arrays["q_mean"]), factor)
        _check_covariance(q)
    return model, q


def _check_weights(model: Model, weights: np.ndarray) -> None:
    """A function with inducing values of its own must vary."""
    silent = ~np.any(weights, axis=1)
    if isinstance(model.prior, Convolution) and silent.any():
        raise ValueError(
            "`weights` must have a weight other than 0 in every row; row "
            f"{np.argmax(silent)} has none."
        )


def _with_noise(
    likelihoods: Sequence[AbstractLikelihood],
    names: Sequence[str],
    noise: Mapping[str, float],
) -> tuple[AbstractLikelihood, ...]:
    return tuple(
        eqx.tree_at(lambda l: l.log_noise, likelihood, jnp.log(float(noise[name])))
        if isinstance(likelihood, Gaussian)
        else likelihood
        for name, likelihood in zip(names, likelihoods, strict=True)
    )
