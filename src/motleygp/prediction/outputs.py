"""Predictive distributions of the outputs of a model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float

from motleygp.inference import Model, Posterior, Scaling, no_scaling
from motleygp.inference.conditioning import Observed
from motleygp.numerics.packed import rows_of_blocks
from motleygp.prediction import functions
from motleygp.prediction.fitted import Fitted
from motleygp.prediction.functions import Watch
from motleygp.prediction.predictive import AbstractPredictive, Mixture, Predictive


def predict(
    model: Model,
    q: Posterior,
    x: Float[np.ndarray, "N P"],
    *,
    scaling: Scaling | None = None,
    exposures: Sequence[np.ndarray] | None = None,
    observed: Sequence[Observed] = (),
    classes: Sequence[tuple[Any, Any] | None] | None = None,
    watch: Watch = iter,
) -> list[Predictive]:
    """The predictive distribution of every output at the rows of x.

    **Arguments:**

    - `model`, `q`: the model and its whitened q(u).
    - `scaling`: the units of x and of the outputs; those of the model by default.
    - `exposures`: for counts, one vector per output; ones by default.
    - `observed`: outputs observed at these rows, on which each row is conditioned.
    - `classes`: for each output, the labels of 0 and 1, or `None`.
    - `watch`: iterates over the chunks of rows, and may show progress.
    """
    x = np.asarray(x, dtype=float)
    if scaling is None:
        scaling = no_scaling(x.shape[1], len(model.likelihoods))
    mean, var = functions.moments(model, q, scaling.inputs(x), observed, watch)
    sizes = [likelihood.num_functions for likelihood in model.likelihoods]
    rows = rows_of_blocks(sizes, len(var))
    found = []
    for d, likelihood in enumerate(model.likelihoods):
        own = mean[list(model.blocks[d])]
        if likelihood.counts and exposures is not None:
            own[0] += np.log(exposures[d])
        shift, scale = float(scaling.y_shift[d]), float(scaling.y_scale[d])
        labels = None if classes is None else classes[d]
        units: dict[str, Any] = dict(shift=shift, scale=scale, classes=labels)
        found.append(Predictive(likelihood, own, var[rows[d]], **units))
    return found


def distributions(
    fitted: Fitted,
    x: np.ndarray,
    *,
    exposures: Sequence[np.ndarray] | None = None,
    observed: Sequence[Observed] = (),
    models: Sequence[tuple[Model, Posterior]] | None = None,
    watch: Watch = iter,
) -> dict[str, AbstractPredictive]:
    """The predictive distribution of every output by name, in the user's units: of the
    fitted model, or averaged over `models`, its draws of theta, in each row by their
    probabilities given its `observed` outputs."""
    every, evidence, weights = [], [], None
    models = models or [(fitted.model, fitted.q)]
    for model, q in models:
        seen = [_under(model, output) for output in observed]
        if seen and len(models) > 1:
            evidence.append(_log_evidence(model, q, fitted.scaling.inputs(x), seen))
        every.append(
            predict(
                model,
                q,
                x,
                scaling=fitted.scaling,
                exposures=exposures,
                observed=seen,
                classes=fitted.classes,
                watch=watch,
            )
        )
    if evidence:
        weights = posterior_weights(np.stack(evidence))
    return {
        name: own[0] if len(own) == 1 else Mixture(own, weights)
        for name, *own in zip(fitted.outputs, *every, strict=True)
    }


def _under(model: Model, output: Observed) -> Observed:
    """The observed output with this model's likelihood, such as its noise."""
    d = model.blocks.index(output.functions)
    return output._replace(likelihood=model.likelihoods[d])


def _log_evidence(
    model: Model,
    q: Posterior,
    x: Float[np.ndarray, "N P"],
    observed: Sequence[Observed],
) -> Float[np.ndarray, " N"]:
    """log p(observed values of the row | model), as the sum over the outputs of
    log p(y_d | the values of those before it); x is in the model's units."""
    total = np.zeros(len(x))
    for place, output in enumerate(observed):
        mean, var = functions.moments(model, q, x, observed[:place])
        own = mean[list(output.functions)]
        own[0] += output.log_exposure
        sizes = [likelihood.num_functions for likelihood in model.likelihoods]
        rows = rows_of_blocks(sizes, len(var))[model.blocks.index(output.functions)]
        known = Predictive(output.likelihood, own, var[rows]).log_prob(output.y)
        total += np.where(np.isnan(output.y), 0.0, known)
    return total


def posterior_weights(
    log_evidence: Float[np.ndarray, "S N"],
) -> Float[np.ndarray, "S N"]:
    """The probability of each of S equally probable models given each row's values.

    Where no model gives the values a density, all keep the same weight.
    """
    known = np.where(np.isfinite(log_evidence), log_evidence, -np.inf)
    known[:, np.isinf(known).all(axis=0)] = 0.0
    return scipy.special.softmax(known, axis=0)
