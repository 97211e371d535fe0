"""A fitted estimator as one file, and back.

The container is that of `modelfile`. The header is a JSON object:

| key | what |
| --- | --- |
| `kind` | "model" |
| `library` | the version of MotleyGP that wrote the file |
| `settings` | the arguments but `outputs` and `start`; a scheme object is null |
| `outputs` | for each its `name`, `likelihood`, `classes` of labels and `seen` |
| `choices` | what `outputs="auto"` chose, for each output it chose for, and why |
| `features` | the names of the input columns, or null |
| `prior` | `form`, `normalised`, `rank`, `jitter` |
| `fixed`, `ended`, `restarts` | as in the estimator |

The arrays are the leaves of the model, of q(u) and of q(theta)'s standard deviations
by their place in the tree (`model.prior.weights`, `q.mean`, `std.prior.weights`),
`scaling.x_shift` and the like, `input_range`, and `trace.nelbo` and the like;
`restarts.0.trace.nelbo` belongs to the first restart.
"""

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from motleygp import likelihoods as lik, optim, priors
from motleygp._version import __version__
from motleygp.files import modelfile
from motleygp.files.modelfile import ModelFileError
from motleygp.inference.model import FIXABLE, Model, trainable
from motleygp.inference.posterior import Posterior
from motleygp.inference.scaling import Scaling
from motleygp.kernels import EQ
from motleygp.prediction.seen import Seen
from motleygp.tables.infer import Choice

_FORMS = {
    form.__name__: form
    for form in (priors.LMC, priors.Convolution, priors.LatentConvolution)
}


# Trees as named arrays.


def named_leaves(tree: PyTree, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a tree by their place in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        _place(prefix, path): np.asarray(_raw(leaf))
        for path, leaf in leaves
        if _is_array(leaf)
    }


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _raw(leaf: Any) -> Any:
    """A random key as its numbers; anything else as it is."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def filled(tree: PyTree, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """The tree with its arrays replaced by those of `named_leaves`.

    A `ModelFileError` where one is absent, or of another shape or type.
    """

    def one(path: tuple, leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        name = _place(prefix, path)
        if name not in arrays:
            raise ModelFileError(f"the array {name!r} is absent.")
        found, like = arrays[name], _raw(leaf)
        if (found.shape, found.dtype) != (like.shape, like.dtype):
            raise ModelFileError(
                f"the array {name!r} must be {like.dtype} of shape {like.shape}; "
                f"got {found.dtype} of shape {found.shape}."
            )
        if _is_key(leaf):
            return jax.random.wrap_key_data(jnp.asarray(found))
        return jnp.asarray(found)

    return jax.tree_util.tree_map_with_path(one, tree)


def _place(prefix: str, path: tuple) -> str:
    return prefix + jax.tree_util.keystr(path)


# The estimator.


def save(estimator: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator; the old file stays whole until the new one is."""
    model: Model = estimator.model_
    header = {
        "kind": "model",
        "library": __version__,
        "settings": _settings(estimator),
        "outputs": [
            {
                "name": name,
                "likelihood": _likelihood_spec(name, likelihood.in_units(1.0 / scale)),
                "classes": plain(estimator.classes_[name]),
                "seen": _seen_spec(name, estimator.seen_[name]),
            }
            for name, likelihood, scale in zip(
                estimator.output_names_,
                model.likelihoods,
                estimator.scaling_.y_scale,
                strict=True,
            )
        ],
        "choices": [plain(choice) for choice in estimator.choices_],
        "features": plain(getattr(estimator, "feature_names_in_", None)),
        "prior": _prior_spec(model.prior),
        "fixed": list(model.fixed),
        "ended": estimator.ended_,
        "restarts": [
            {key: plain(start[key]) for key in ("score", "ended", "error")}
            for start in estimator.restarts_
        ],
    }
    arrays = {
        **named_leaves(model, "model"),
        **named_leaves(estimator.q_, "q"),
        **named_leaves(estimator.theta_std_, "std"),
        **named_leaves(estimator.scaling_, "scaling"),
        "input_range": estimator.input_range_,
        **{f"trace.{key}": value for key, value in estimator.trace_.items()},
    }
    for number, start in enumerate(estimator.restarts_):
        for key, value in start["trace"].items():
            arrays[f"restarts.{number}.trace.{key}"] = value
    modelfile.write(path, header, arrays)


def restore(estimator: type, path: str | os.PathLike) -> Any:
    """The estimator that `save` wrote."""
    header, arrays = modelfile.read(path)
    with refusing(path, "model"):
        return _restored(estimator, header, arrays)


@contextlib.contextmanager
def refusing(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Whatever does not fit in the contents of a file becomes a `ModelFileError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelFileError(f"{os.fsdecode(path)!r} is not a {what}: {why}") from None


def _restored(
    estimator: type, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Any:
    if header["kind"] != "model":
        raise ModelFileError(f"its kind is {header['kind']!r}.")
    outputs = header["outputs"]
    likelihoods = tuple(_likelihood(output["likelihood"]) for output in outputs)
    names = [str(output["name"]) for output in outputs]
    made = estimator(
        outputs=dict(zip(names, likelihoods, strict=True)), **_arguments(header)
    )
    made.output_names_ = names
    made.classes_ = {
        name: None if output["classes"] is None else tuple(output["classes"])
        for name, output in zip(names, outputs, strict=True)
    }
    made.model_ = _model(header, arrays, likelihoods)
    made.q_ = _posterior(made.model_.prior, arrays)
    made.theta_std_ = _std(made.model_, arrays)
    made.choices_ = [_choice(*entry) for entry in header["choices"]]
    made.n_features_in_ = int(made.model_.prior.inducing.shape[-1])
    if header["features"] is not None:
        if len(header["features"]) != made.n_features_in_:
            raise ModelFileError("`features` does not fit the inducing points.")
        made.feature_names_in_ = np.asarray(header["features"], dtype=object)
    made.scaling_ = _scaling(arrays, made.n_features_in_, len(names))
    made.seen_ = {
        name: _seen(output["seen"], likelihood)
        for name, output, likelihood in zip(names, outputs, likelihoods, strict=True)
    }
    made.input_range_ = arrays["input_range"]
    if made.input_range_.shape != (2, made.n_features_in_):
        raise ModelFileError("the range of the inputs does not fit them.")
    made.trace_ = columns(arrays, "trace.")
    made.ended_ = header["ended"]
    made.restarts_ = [
        {
            "score": or_infinite(start["score"]),
            "trace": columns(arrays, f"restarts.{number}.trace."),
            "ended": start["ended"],
            "error": start["error"],
        }
        for number, start in enumerate(header["restarts"])
    ]
    return made


def _choice(
    name: str,
    likelihood: str,
    reason: str,
    alternatives: list[str],
    warning: str | None,
) -> Choice:
    return Choice(name, likelihood, reason, tuple(alternatives), warning)


def _std(model: Model, arrays: Mapping[str, np.ndarray]) -> PyTree | None:
    """A tree like theta, where the file has one."""
    if not any(name.startswith("std") for name in arrays):
        return None
    theta, _ = eqx.partition(model, trainable(model))
    return filled(theta, arrays, "std")


def plain(value: Any) -> Any:
    """A value of JSON: infinity is null, arrays and tuples are lists, paths texts."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(entry) for entry in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if np.isfinite(value) else None


def or_infinite(score: float | None) -> float:
    """A score that `plain` may have made null."""
    return np.inf if score is None else float(score)


def _settings(estimator: Any) -> dict[str, Any]:
    given = estimator.get_params(deep=False)
    # The outputs have a place of their own; what training started from is past.
    del given["outputs"], given["start"]
    if isinstance(given["optimizer"], optim.Scheme):
        given["optimizer"] = None
    return {key: plain(value) for key, value in given.items()}


def _arguments(header: dict[str, Any]) -> dict[str, Any]:
    settings = dict(header["settings"])
    if settings["optimizer"] is None:
        settings["optimizer"] = "fng"
        warnings.warn(
            "the model's `optimizer` was an object, which a file does not keep: set it "
            "again before you fit again; until then it is 'fng'.",
            stacklevel=5,
        )
    for name in ("rank", "fixed"):
        if isinstance(settings[name], list):
            settings[name] = tuple(settings[name])
    return settings


def _likelihood_spec(name: str, likelihood: lik.AbstractLikelihood) -> dict[str, Any]:
    if type(likelihood) is not lik.BY_NAME.get(likelihood.name):
        raise ValueError(
            f"output {name!r} must have a likelihood of the library to be saved; got "
            f"{type(likelihood).__name__}."
        )
    spec: dict[str, Any] = {
        "name": likelihood.name,
        "num_nodes": likelihood.num_nodes,
    }
    if isinstance(likelihood, lik.Gaussian):
        spec |= {"fixed": likelihood.fixed, "noise": float(likelihood.noise)}
    return spec


def _likelihood(spec: dict[str, Any]) -> lik.AbstractLikelihood:
    arguments: dict[str, Any] = {"num_nodes": int(spec["num_nodes"])}
    if not 1 <= arguments["num_nodes"] <= 1000:
        raise ModelFileError(f"`num_nodes` is {arguments['num_nodes']}.")
    if "fixed" in spec:
        arguments |= {"fixed": bool(spec["fixed"]), "noise": float(spec["noise"])}
    return lik.BY_NAME[spec["name"]](**arguments)


def _seen_spec(name: str, seen: Seen) -> dict[str, Any]:
    return {
        "rows": seen.rows,
        "observed": seen.observed,
        "likelihood": _likelihood_spec(name, seen.likelihood),
        "f": plain(seen.f),
    }


def _seen(spec: dict[str, Any], likelihood: lik.AbstractLikelihood) -> Seen:
    fitted = _likelihood(spec["likelihood"])
    f = np.array([np.nan if value is None else value for value in spec["f"]], float)
    if type(fitted) is not type(likelihood) or f.shape != (fitted.num_functions,):
        raise ModelFileError("the constant fit does not fit the likelihood.")
    return Seen(int(spec["rows"]), int(spec["observed"]), fitted, f)


def _prior_spec(prior: priors.AbstractPrior) -> dict[str, Any]:
    kernel = prior.kernel
    return {
        "form": type(prior).__name__,
        "normalised": isinstance(kernel, EQ) and kernel.normalised,
        "rank": list(prior.rank),
        "jitter": prior.jitter,
    }


def _model(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    likelihoods: tuple[lik.AbstractLikelihood, ...],
) -> Model:
    """The model: first with arrays of the right shapes, then with those of the file.

    Shapes are those of the file's own arrays, so a header cannot ask for memory.
    """
    spec = header["prior"]
    found = {
        key: arrays[f"model.prior.{key}"]
        for key in ("kernel.log_lengthscale", "weights", "inducing")
    }
    arguments: dict[str, Any] = dict(
        kernel=EQ(
            np.ones_like(found["kernel.log_lengthscale"]),
            normalised=bool(spec["normalised"]),
        ),
        weights=found["weights"],
        inducing=found["inducing"],
        rank=tuple(int(r) for r in spec["rank"]),
        jitter=float(spec["jitter"]),
    )
    form = _FORMS[spec["form"]]
    if issubclass(form, priors.AbstractConvolution):
        arguments["smoothing"] = np.ones_like(arrays["model.prior.log_smoothing"])
    prior = form(**arguments)
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    lengthscales = (len(prior.rank), prior.inducing.shape[-1])
    if prior.inducing.ndim != 3 or prior.kernel.lengthscale.shape != lengthscales:
        raise ModelFileError("the prior's arrays do not fit one another.")
    if prior.num_functions != num_functions:
        raise ModelFileError("the weights do not fit the likelihoods.")
    blank = Model(
        prior,
        jnp.zeros(num_functions),
        likelihoods,
        fixed=tuple(name for name in FIXABLE if name in header["fixed"]),
    )
    return filled(blank, arrays, "model")


def _posterior(prior: priors.AbstractPrior, arrays: dict[str, np.ndarray]) -> Posterior:
    groups, size, _ = prior.inducing.shape
    found = [arrays[f"q.{key}"] for key in ("mean", "precision", "half")]
    expected = [(groups, size), (groups, size, size), (groups, size, size)]
    if [array.shape for array in found] != expected:
        raise ModelFileError("q(u) does not fit the inducing points.")
    return filled(Posterior(*map(jnp.asarray, found)), arrays, "q")


def _scaling(
    arrays: dict[str, np.ndarray], num_inputs: int, num_outputs: int
) -> Scaling:
    scaling = Scaling(*(arrays[f"scaling.{key}"] for key in Scaling._fields))
    shapes = [(num_inputs,)] * 2 + [(num_outputs,)] * 2
    if [array.shape for array in scaling] != shapes:
        raise ModelFileError("the scales do not fit the inputs and outputs.")
    return scaling


def columns(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by the rest of their names."""
    size = len(prefix)
    return {key[size:]: a for key, a in arrays.items() if key.startswith(prefix)}
