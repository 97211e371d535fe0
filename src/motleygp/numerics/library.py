"""One formula for NumPy and JAX: the library that its arguments belong to.

Training needs JAX. Answers are few numbers at a time, which NumPy gives at once where
JAX would compile a program first.
"""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def library_of(x: Any) -> ModuleType:
    """NumPy for its arrays, and JAX's NumPy for all else."""
    return np if isinstance(x, np.ndarray | np.generic) else jnp


def softplus(x: Any) -> Any:
    """log(1 + exp x)."""
    if library_of(x) is jnp:
        return jax.nn.softplus(x)
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    if library_of(x) is jnp:
        return jax.nn.sigmoid(x)
    # SciPy's is for real numbers.
    return 1.0 / (1.0 + np.exp(-x)) if np.iscomplexobj(x) else scipy.special.expit(x)
