"""Shuffled orders without a table."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats as st

from motleygp.numerics.shuffling import shuffled

pytestmark = pytest.mark.usefixtures("quick_compilation")

_shuffled = jax.jit(shuffled, static_argnums=2)


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 16, 17, 100, 1025])
def test_an_order_has_every_row_once(total):
    order = _shuffled(jr.key(total), jnp.arange(total), total)
    np.testing.assert_array_equal(np.sort(order), np.arange(total))


def test_parts_of_an_order_belong_together_and_keys_differ():
    whole = _shuffled(jr.key(0), jnp.arange(300), 300)
    part = _shuffled(jr.key(0), jnp.arange(100, 200), 300)
    np.testing.assert_array_equal(part, whole[100:200])
    other = _shuffled(jr.key(1), jnp.arange(300), 300)
    assert np.sum(np.asarray(other == whole)) < 10


def test_every_row_comes_equally_often_to_every_place():
    total, num = 12, 3000
    orders = jax.vmap(lambda key: shuffled(key, jnp.arange(total), total))(
        jr.split(jr.key(0), num)
    )
    counts = np.stack([np.bincount(place, minlength=total) for place in orders.T])
    # The counts of a uniform permutation: rows and columns add up to `num`.
    statistic = np.sum((counts - num / total) ** 2) / (num / total)
    assert 0.001 < st.chi2.sf(statistic, (total - 1) ** 2) < 0.999
    # Neighbours in the data are no neighbours in the order.
    steps = np.asarray(orders[:, 1:] - orders[:, :-1]) % total
    share = np.bincount(steps.ravel(), minlength=total)[1:] / steps.size
    np.testing.assert_allclose(share, 1 / (total - 1), atol=0.01)


def test_orders_of_many_rows_look_random():
    total = 1_000_003
    rows = np.asarray(_shuffled(jr.key(5), jnp.arange(20_000), total))
    assert len(np.unique(rows)) == len(rows) and rows.max() < total
    assert st.kstest(rows / total, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(rows[1:], rows[:-1])[0, 1]) < 0.03


def test_too_many_rows_are_refused():
    with pytest.raises(ValueError, match="`total` must be at most 4294967296 rows"):
        shuffled(jr.key(0), jnp.arange(2), 2**32 + 1)
