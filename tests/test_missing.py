"""Missing values: outputs with the same inputs share a block, with weights of 0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import small
from motleygp import optim, priors
from motleygp.inference.data import Block, Dataset, columns_of, gather
from motleygp.inference.derivatives import gradients
from motleygp.inference.objective import elbo
from motleygp.inference.posterior import from_prior
from motleygp.likelihoods import Gamma, Gaussian, Poisson
from motleygp.training import init
from motleygp.training.initialise import initial_model
from motleygp.training.one_step import minibatch

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_ROWS = 60
LIKELIHOODS = (Gaussian(0.5), Gamma(), Poisson(), Gaussian(0.3))
_gradients = eqx.filter_jit(gradients)
_expected = eqx.filter_jit(lambda *given: elbo(*given).expected_log_lik)
_minibatch = jax.jit(minibatch, static_argnums=2)


class Table:
    """Four outputs; a third of the values is missing, and no output is complete."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.x = rng.uniform(-2, 2, size=(NUM_ROWS, 1))
        self.exposure = rng.uniform(0.5, 20.0, size=NUM_ROWS)
        self.ys = [
            rng.normal(size=NUM_ROWS),
            rng.gamma(2.0, size=NUM_ROWS),
            rng.poisson(self.exposure).astype(float),
            rng.normal(size=NUM_ROWS),
        ]
        for y in self.ys:
            y[rng.permutation(NUM_ROWS)[:20]] = np.nan
            y[7] = np.nan
        self.weights = [rng.uniform(0.5, 3.0, size=NUM_ROWS) for _ in self.ys]
        ones = np.ones(NUM_ROWS)
        self.exposures = [ones, ones, self.exposure, ones]

    def dataset(self, *, weighted: bool = True) -> Dataset:
        weights = self.weights if weighted else None
        return gather([self.x] * 4, self.ys, weights=weights, exposures=self.exposures)

    def apart(self, *, weighted: bool = True) -> Dataset:
        """The same values, each output in a block of its own, without missing ones."""
        blocks = []
        for d, y in enumerate(self.ys):
            rows = ~np.isnan(y)
            own = [
                None if values is None else jnp.asarray(values[d][None, rows])
                for values in (
                    self.weights if weighted else None,
                    [np.log(e) for e in self.exposures],
                )
            ]
            x, y = jnp.asarray(self.x[rows]), jnp.asarray(y[None, rows])
            blocks.append(Block(x, y, (d,), int(rows.sum()), *own))
        return tuple(blocks)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def test_scattered_gaps_share_one_block(table):
    (block,) = table.dataset()
    assert block.outputs == (0, 1, 2, 3)
    assert block.total == NUM_ROWS - 1  # no output was observed in row 7
    assert block.num_values == sum(np.count_nonzero(~np.isnan(y)) for y in table.ys)
    assert np.isfinite(block.y).all() and np.isfinite(block.log_exposure).all()


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "form", [("lmc", "auto"), ("convolution", "latent"), ("convolution", "function")]
)
def test_a_mask_changes_neither_bound_nor_gradients(table, form, weighted):
    apart = table.apart(weighted=weighted)
    model = initial_model(
        np.random.default_rng(0),
        apart,
        LIKELIHOODS,
        form=priors.get(*form),
        **small.SETTINGS,
    )
    q = from_prior(model.prior)
    found = _gradients(model, q, table.dataset(weighted=weighted))
    expected = _gradients(model, q, apart)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_columns_are_the_observed_values(table):
    for column, y, weight in zip(
        columns_of(table.dataset()), table.ys, table.weights, strict=True
    ):
        rows = ~np.isnan(y)
        np.testing.assert_array_equal(column.y, y[rows])
        np.testing.assert_array_equal(column.x(), table.x[rows])
        np.testing.assert_array_equal(column.weight, weight[rows])
    counts = list(columns_of(table.dataset()))[2]
    rows = ~np.isnan(table.ys[2])
    np.testing.assert_allclose(counts.exposure, table.exposure[rows], rtol=1e-14)


def test_minibatches_estimate_each_output_without_bias(table):
    """The mean over the batches of an epoch is the sum over all rows."""
    (block,) = table.dataset()
    data = (block.part(slice(0, 56)),)  # seven whole batches
    model = initial_model(np.random.default_rng(0), data, LIKELIHOODS, **small.SETTINGS)
    q = from_prior(model.prior)
    state = init(jr.key(0), model, optim.fng(), num_steps=10)
    sums = []
    for step in range(7):
        batch = _minibatch(state, data, 8)
        state = state._replace(iteration=jnp.asarray(step + 1))
        sums.append(_expected(model, q, batch))
    np.testing.assert_allclose(
        np.mean(sums, axis=0), _expected(model, q, data), rtol=1e-10
    )


def test_rare_outputs_have_rows_of_their_own():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, 1))
    full, half, rare, also, same = (rng.normal(size=1000) for _ in range(5))
    half[rng.permutation(1000)[:500]] = np.nan
    for y in (rare, also):
        y[rng.permutation(1000)[10:]] = np.nan
    same[np.isnan(rare)] = np.nan
    blocks = gather([x] * 5, [full, rare, half, same, also])
    assert [block.outputs for block in blocks] == [(0, 2), (1, 3, 4)]
    assert blocks[1].total == np.count_nonzero(~np.isnan(rare) | ~np.isnan(also))
    assert all(np.asarray(c.y).size for c in columns_of(blocks))


def test_other_inputs_have_another_block(table):
    other = table.x + 1.0
    blocks = gather([table.x, other, table.x, other], table.ys)
    assert [block.outputs for block in blocks] == [(0, 2), (1, 3)]


def test_complete_outputs_need_no_weights():
    x, y = np.ones((5, 1)), np.arange(5.0)
    gone = np.where(y == 2, np.nan, y)
    assert gather([x, x], [y, y])[0].weight is None
    # A row that every output lacks is left out.
    (block,) = gather([x, x], [gone, gone])
    assert block.weight is None and block.total == 4
