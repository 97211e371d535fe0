"""The parameter functions of a model at new inputs: marginals, conditionals, draws."""

import numbers
import warnings
from collections.abc import Callable, Iterable, Sequence

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from motleygp.inference.conditioning import (
    Observed,
    condition,
    warn_if_stuck,
    warn_if_unfinished,
)
from motleygp.inference.joint import draw_functions, row_moments
from motleygp.inference.model import Model
from motleygp.inference.objective import function_moments
from motleygp.inference.posterior import Posterior
from motleygp.numerics.chunks import in_chunks
from motleygp.numerics.compiled import compiled
from motleygp.numerics.packed import entries
from motleygp.priors import pairs_within

# The most columns of a group in joint draws; their covariance takes half a gigabyte.
MAX_JOINT = 8192
# A share of the variance that joint draws may have in addition without a warning.
_MUCH_JITTER = 1e-4

Watch = Callable[[list[slice]], Iterable[slice]]

_function_moments = compiled(function_moments)
_row_moments = compiled(row_moments)
_draw_functions = compiled(draw_functions)


def moments(
    model: Model,
    q: Posterior,
    x: Float[np.ndarray, "N P"],
    observed: Sequence[Observed] = (),
    watch: Watch = iter,
) -> tuple[Float[np.ndarray, "J N"], Float[np.ndarray, "V N"]]:
    """Means of all functions at x, and their variances with the covariances within each
    output (`numerics.packed`), in chunks of rows. Each row is conditioned on its own
    values of the `observed` outputs."""
    size = len(model.offset)
    if not observed:
        program = _function_moments.for_rows(len(x))
        both = in_chunks(
            lambda x: jnp.concatenate(program(model, q, x.T)), x.T, watch=watch
        )
        return both[:size], both[size:]
    of_rows = _row_moments.for_rows(len(x))

    def conditioned(x, ys, log_exposures) -> np.ndarray:
        mean, cov = of_rows(model, q, x.T)
        rows = zip(observed, np.asarray(ys), np.asarray(log_exposures), strict=True)
        seen = [o._replace(y=y, log_exposure=e) for o, y, e in rows]
        found = condition(np.asarray(mean), np.asarray(cov), seen)
        first, second = entries(size, pairs)
        var = found.cov[:, first, second].T
        flags = found.stuck, found.unfinished
        return np.concatenate([found.mean, var, np.stack(flags)])

    ys, log_exposures = (
        np.stack(columns)
        for columns in ([o.y for o in observed], [o.log_exposure for o in observed])
    )
    pairs = pairs_within(model.joint_blocks())
    *both, stuck, unfinished = in_chunks(
        conditioned, x.T, ys, log_exposures, watch=watch
    )
    # Counted here: the last chunk is padded with copies of a row.
    warn_if_stuck(stuck > 0)
    warn_if_unfinished(unfinished > 0)
    return np.stack(both[:size]), np.stack(both[size:])


def check_number_of_draws(n: int) -> None:
    """Raise a `ValueError` unless n is a whole number above 0."""
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"`n` must be a whole number above 0; got {n!r}.")


def draws(
    model: Model, q: Posterior, x: Float[np.ndarray, "N P"], num: int, seed: int
) -> Float[np.ndarray, "num J N"]:
    """Joint draws of all functions at all rows of x."""
    check_number_of_draws(num)
    most = MAX_JOINT // model.prior.columns_per_row
    if len(x) > most:
        raise ValueError(
            f"`X` must have at most {most} rows to be drawn jointly; got {len(x)}."
        )
    drawn, jitter = _draw_functions(model, q, jr.key(seed), jnp.asarray(x), num)
    found = np.asarray(drawn)
    if not np.isfinite(found).all():
        raise FloatingPointError("the joint covariance at `X` cannot be factorised.")
    if float(jitter) > _MUCH_JITTER:
        warnings.warn(
            f"the joint draws have {float(jitter):.1%} more variance than the model, "
            "added to factorise the covariance at `X`: its rows may nearly coincide.",
            stacklevel=4,
        )
    return found
