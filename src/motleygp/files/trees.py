"""Trees as named arrays, and frozen modules as a description and named arrays.

No class is special here. A module is described by its kind and name (`motleygp.named`)
and its fields, so a class defined elsewhere is saved like the library's own.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from motleygp.files.fields import check_fields
from motleygp.files.modelfile import ModelFileError
from motleygp.named import Named, known

_SPECIAL = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}


# Trees.


def named_leaves(tree: PyTree, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a tree by their path in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        _place(prefix, path): np.asarray(_raw(leaf))
        for path, leaf in leaves
        if _is_array(leaf)
    }


def filled(tree: PyTree, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """`tree` with its arrays replaced by `arrays`, named as by `named_leaves`.

    Raises a `ModelFileError` if an array is absent or has another shape or type.
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


def check_finite(tree: PyTree, prefix: str) -> None:
    """Raise a `ValueError` that names an array with a NaN or an infinite number."""
    name = not_finite(tree, prefix)
    if name is not None:
        raise ValueError(f"`{name}` must be finite.")


def not_finite(tree: PyTree, prefix: str) -> str | None:
    """The first array with a NaN or an infinite number, named by its path."""
    for name, array in named_leaves(tree, prefix).items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            return name
    return None


def columns(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with the prefix, by the rest of their names."""
    size = len(prefix)
    return {key[size:]: a for key, a in arrays.items() if key.startswith(prefix)}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _raw(leaf: Any) -> Any:
    """The numbers of a random key; any other leaf as it is."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _place(prefix: str, path: tuple) -> str:
    return prefix + jax.tree_util.keystr(path)


# Modules.


def describe(value: Any, place: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A JSON description of a value, and its arrays by their place in it.

    A value is made of named modules, dicts with string keys, tuples, lists, arrays,
    numbers, strings, paths, bools and None. `restored` is the inverse, except that a
    list becomes a tuple and a path a string.
    """
    arrays: dict[str, np.ndarray] = {}

    def one(value: Any, place: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if _is_array(value):
            arrays[place] = np.asarray(value)
            return {"array" if isinstance(value, jax.Array) else "numpy": place}
        if isinstance(value, Named):
            _check_named(value, place)
            names = [field.name for field in dataclasses.fields(value)]
            own = {name: one(getattr(value, name), f"{place}.{name}") for name in names}
            return {"is": [value.kind, value.name], "fields": own}
        if isinstance(value, Mapping):
            return {"dict": {k: one(v, f"{place}.{k}") for k, v in value.items()}}
        if isinstance(value, tuple | list):
            return [one(entry, f"{place}.{i}") for i, entry in enumerate(value)]
        return plain(value, place)

    return one(value, place), arrays


def _check_named(value: Named, place: str) -> None:
    """Refuse a class that inherits its name: a file would restore its parent."""
    if known(value.kind).get(value.name) is not type(value):
        raise ValueError(
            f"`{place}` must be of a class with a `name` of its own to be kept in a "
            f"file; got {type(value).__name__}."
        )


def plain(value: Any, place: str = "a value") -> Any:
    """A number, string, path, bool or None in a form for JSON."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else {"float": str(float(value))}
    raise ValueError(
        f"`{place}` must be data that a file can hold: a number, a string, an array or "
        f"an object of a named class; got {type(value).__name__}."
    )


def restored(spec: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value with this description and these arrays: the inverse of `describe`.

    The classes' own checks run. A `ModelFileError` names a class that is not known.
    """
    if isinstance(spec, list):
        return tuple(restored(entry, arrays) for entry in spec)
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return jnp.asarray(arrays[spec["array"]])
    if "numpy" in spec:
        return arrays[spec["numpy"]]
    if "float" in spec:
        return float(_SPECIAL[spec["float"]])
    if "dict" in spec:
        return {key: restored(value, arrays) for key, value in spec["dict"].items()}
    kind, name = spec["is"]
    found = known(kind).get(name)
    if found is None:
        raise ModelFileError(
            f"the {kind} {name!r} is not known: import the module that defines it "
            "before loading."
        )
    own = {key: restored(value, arrays) for key, value in spec["fields"].items()}
    return _assembled(found, own)


def _assembled(cls: type[Named], fields: Mapping[str, Any]) -> Named:
    """Build a module from its fields; its `__init__` may take other arguments."""
    names = {field.name for field in dataclasses.fields(cls)}
    if set(fields) != names:
        raise ModelFileError(
            f"{cls.name!r} must have the fields {', '.join(sorted(names))}; "
            f"got {', '.join(sorted(fields))}."
        )
    check_fields(cls, fields)
    module = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(module, name, value)
    for parent in cls.__mro__:
        check: Callable[[Any], None] | None = parent.__dict__.get("__check_init__")
        if check is not None:
            check(module)
    return module


def digest(value: Any) -> str:
    """A fingerprint of a value that `describe` can describe, arrays included."""
    spec, arrays = describe(value, "")
    found = hashlib.sha256(json.dumps(spec, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


@contextlib.contextmanager
def refusing(path: str | os.PathLike, what: str) -> Iterator[None]:
    """Turn any error about the contents of a file into a `ModelFileError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, ModelFileError):
            why = str(error)
        raise ModelFileError(f"{os.fsdecode(path)!r} is not a {what}: {why}") from None
