"""Saving an estimator to one file, and loading it.

The container is that of `files.modelfile`. Its header is a JSON object:

| key | value |
| --- | --- |
| `kind` | "model" |
| `library` | the version of MotleyGP that wrote the file |
| `settings` | the estimator's arguments, without those in `_LEFT_OUT` |
| `fitted` | the fitted model, as `files.trees.describe` writes it |

The arrays are those of the fitted model and of the settings, named by their place
(`fitted.model.prior.weights`, `fitted.q.mean`, `fitted.trace.nelbo`).
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax

from motleygp._version import __version__
from motleygp.files import modelfile
from motleygp.files.modelfile import ModelFileError
from motleygp.files.trees import describe, refusing, restored
from motleygp.prediction import Fitted
from motleygp.tables.infer import Choice

# The fitted model has the outputs, a start is of no use after training, and the folder
# of checkpoints belongs to one fit on one machine.
_LEFT_OUT = ("outputs", "start", "checkpoint_dir")


def save(settings: Mapping[str, Any], fitted: Fitted, path: str | os.PathLike) -> None:
    """Write a fitted estimator; an old file is replaced by a complete new one."""
    kept = {key: value for key, value in settings.items() if key not in _LEFT_OUT}
    arguments, own = describe(kept, "settings")
    spec, arrays = describe(fitted, "fitted")
    header = {
        "kind": "model",
        "library": __version__,
        "settings": arguments,
        "fitted": spec,
    }
    modelfile.write(path, header, arrays | own)


def load(path: str | os.PathLike) -> tuple[dict[str, Any], Fitted]:
    """The arguments and the fitted model that `save` wrote.

    The argument `outputs` names the likelihoods of the fit, in the user's units.
    """
    header, arrays = modelfile.read(path)
    with refusing(path, "model"):
        if header["kind"] != "model":
            raise ModelFileError(f"its kind is {header['kind']!r}.")
        fitted = _checked(restored(_with_draws(header["fitted"]), arrays))
        likelihoods = [
            likelihood.in_units(1.0 / scale)
            for likelihood, scale in zip(
                fitted.model.likelihoods, fitted.scaling.y_scale, strict=True
            )
        ]
        outputs = dict(zip(fitted.outputs, likelihoods, strict=True))
        settings = restored(header["settings"], arrays)
        if not all(isinstance(key, str) for key in settings):
            raise ModelFileError("its settings have no names.")
        kept = {key: settings[key] for key in settings if key not in _LEFT_OUT}
        return kept | {"outputs": outputs}, fitted


def _with_draws(spec: dict[str, Any]) -> dict[str, Any]:
    """A description with draws of theta: earlier files have the `std` of training."""
    fields = {"draws": [], **spec["fields"]}
    fields.pop("std", None)
    return {**spec, "fields": fields}


def _checked(fitted: Any) -> Fitted:
    """The fitted model of a file; a `ModelFileError` if it is none, or not float64."""
    if not isinstance(fitted, Fitted):
        raise ModelFileError(f"it holds a {type(fitted).__name__}.")
    for leaf in jax.tree.leaves((fitted.model, fitted.q, fitted.draws)):
        if isinstance(leaf, jax.Array) and leaf.dtype != float:
            raise ModelFileError(f"its arrays must be float64; got {leaf.dtype}.")
    choices = tuple(Choice(*choice) for choice in fitted.choices)
    return dataclasses.replace(fitted, choices=choices)
