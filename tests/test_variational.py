"""Variational optimisation: the three schemes against NumPy, and as optimisers."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import motleygp as mg
from motleygp.optim import GaussianGradients
from schedules import Shrinking

pytestmark = pytest.mark.usefixtures("quick_compilation")

EXACT = {"rtol": 1e-12, "atol": 1e-14}
NUM_SAMPLES = 3


def a_tree(rng: np.random.Generator) -> dict:
    return {"a": rng.normal(size=4), "b": {"c": rng.normal(size=(2, 3))}}


def some_gradients(rng: np.random.Generator, num_steps: int) -> list[dict]:
    draw = lambda *shape: 2.0 * rng.normal(size=(NUM_SAMPLES, *shape))  # noqa: E731
    return [{"a": draw(4), "b": {"c": draw(2, 3)}} for _ in range(num_steps)]


def flat(tree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def flat_samples(tree) -> np.ndarray:
    stacked = [np.reshape(leaf, (NUM_SAMPLES, -1)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(stacked, axis=1)


def states_after(optimiser, theta, gradients):
    """The states after each of the gradients, by one compiled scan."""

    @jax.jit
    def run(theta, stacked):
        def step(state, g):
            state = optimiser.update(g, state)
            return state, state

        return jax.lax.scan(step, optimiser.init(theta), stacked)[1]

    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *gradients)
    states = jax.device_get(run(theta, stacked))
    return [
        jax.tree.map(lambda a, i=i: jnp.asarray(a[i]), states)
        for i in range(len(gradients))
    ]


# --- the diagonal scheme


@pytest.mark.parametrize(
    "root, prior_mean, precision_step",
    [(True, "zero", None), (True, "initial", 0.03), (False, "initial", None)],
)
def test_diagonal_steps_equal_the_papers_formulas(
    rng, root, prior_mean, precision_step
):
    alpha, gamma, lam, p0 = 0.2, 0.7, 1.3, 0.4
    theta, gradients = a_tree(rng), some_gradients(rng, 4)
    optimiser = mg.optim.Variational(
        alpha,
        momentum=gamma,
        precision_step=precision_step,
        prior_precision=lam,
        prior_mean=prior_mean,
        initial_p=p0,
        root=root,
    )
    states = states_after(optimiser, theta, gradients)
    rho = alpha if precision_step is None else precision_step
    mu = before = flat(theta)
    centre = mu if prior_mean == "initial" else 0.0 * mu
    p = np.full_like(mu, p0)
    for state, g in zip(states, map(flat_samples, gradients), strict=True):
        new_p = (1 - rho) * p + rho * np.mean(g * g, axis=0)
        s, new_s = (np.sqrt(p), np.sqrt(new_p)) if root else (p, new_p)
        force = g.mean(axis=0) + lam * (mu - centre)
        new = mu - alpha * force / (new_s + lam)
        new = new + gamma * (s + lam) / (new_s + lam) * (mu - before)
        mu, before, p = new, mu, new_p
        np.testing.assert_allclose(flat(state.mean), mu, **EXACT)
        np.testing.assert_allclose(flat(state.previous), before, **EXACT)
        np.testing.assert_allclose(flat(state.inner.p), p, **EXACT)
    assert int(states[-1].num_steps) == len(gradients)


def test_units_are_a_change_of_variables(rng):
    """Moving theta in units u is moving phi = u theta, whose gradients are g / u."""
    theta, gradients = a_tree(rng), some_gradients(rng, 3)
    units = {"a": np.full(4, 2.0), "b": {"c": np.full((2, 3), 0.5)}}
    times = lambda tree, u: jax.tree.map(jnp.multiply, tree, u)  # noqa: E731
    inverse = jax.tree.map(lambda u: 1.0 / u, units)
    for make in (mg.optim.Variational, mg.optim.VariationalAdam):
        plain = make(0.1, initial_p=0.5)
        scaled = make(
            0.1, initial_p=0.5, units=mg.optim.ByName(1.0, (("a", 2.0), ("c", 0.5)))
        )
        there = states_after(
            plain, times(theta, units), [times(g, inverse) for g in gradients]
        )[-1]
        here = states_after(scaled, theta, gradients)[-1]
        np.testing.assert_allclose(
            flat(times(here.mean, units)), flat(there.mean), **EXACT
        )
        np.testing.assert_allclose(flat(here.inner.p), flat(there.inner.p), **EXACT)
        draws = [o.sample(jr.key(0), s, 3) for o, s in ((plain, there), (scaled, here))]
        np.testing.assert_allclose(
            flat(times(draws[1], units)), flat(draws[0]), rtol=1e-10, atol=1e-12
        )


def test_precision_per_leaf_is_that_of_separate_problems(rng):
    theta, gradients = a_tree(rng), some_gradients(rng, 2)
    lam = mg.optim.ByName(1.0, (("a", 0.3), ("c", 2.0)))
    both = mg.optim.Variational(0.1, prior_precision=lam)
    mean = states_after(both, theta, gradients)[-1].mean
    for pick, value in ((lambda t: t["a"], 0.3), (lambda t: t["b"]["c"], 2.0)):
        alone = mg.optim.Variational(0.1, prior_precision=value)
        state = states_after(alone, pick(theta), [pick(g) for g in gradients])[-1]
        np.testing.assert_allclose(pick(mean), state.mean, **EXACT)


def test_a_leaf_that_nothing_pushes_stays():
    optimiser = mg.optim.Variational(0.1, prior_precision=0.0, max_std=0.1)
    (state,) = states_after(optimiser, np.ones(2), [np.zeros((NUM_SAMPLES, 2))])
    np.testing.assert_array_equal(state.mean, np.ones(2))


@pytest.mark.parametrize("make", [mg.optim.Variational, mg.optim.VariationalAdam])
def test_diagonal_draws_have_the_spread_of_q(make):
    spread = {"prior_precision": 1.5, "initial_p": 2.5}
    for std, settings in ((0.5, spread), (0.1, spread | {"max_std": 0.1})):
        optimiser = make(0.1, **settings)
        draws = optimiser.sample(jr.key(0), optimiser.init(np.full(3, 3.0)), 40_000)
        assert draws.shape == (40_000, 3)
        np.testing.assert_allclose(np.mean(draws, axis=0), 3.0, atol=0.02)
        np.testing.assert_allclose(np.std(draws, axis=0), std, rtol=0.03)


# --- the full covariance


def random_precision(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.normal(size=(size, size))
    return root @ root.T + size * np.eye(size)


@pytest.mark.parametrize(
    "lam, prior_mean", [(None, "zero"), (0.0, "zero"), (0.8, "zero"), (0.8, "initial")]
)
def test_full_steps_equal_the_formulas(rng, lam, prior_mean):
    a_mu, a_sigma, gamma = 0.3, 0.05, 0.4
    theta = a_tree(rng)
    size = len(flat(theta))
    start = random_precision(rng, size)
    optimiser = mg.optim.FullVariational(
        a_mu,
        momentum=gamma,
        precision_step=a_sigma,
        prior_precision=lam,
        prior_mean=prior_mean,
        initial_precision=jnp.asarray(start),
    )
    gradients = [
        GaussianGradients(a_tree(rng), 0.5 * random_precision(rng, size))
        for _ in range(4)
    ]
    states = states_after(optimiser, theta, gradients)
    mu = before = flat(theta)
    centre = mu if prior_mean == "initial" else 0.0 * mu
    sigma = np.linalg.inv(start)
    for state, (g, g_sigma) in zip(states, gradients, strict=True):
        g = flat(g)
        if lam is not None:
            g = g + lam * (mu - centre)
            g_sigma = g_sigma + 0.5 * (lam * np.eye(size) - np.linalg.inv(sigma))
        new_sigma = np.linalg.inv(np.linalg.inv(sigma) + 2 * a_sigma * g_sigma)
        new = mu - a_mu * new_sigma @ g
        new = new + gamma * new_sigma @ np.linalg.inv(sigma) @ (mu - before)
        mu, before, sigma = new, mu, new_sigma
        np.testing.assert_allclose(flat(state.mean), mu, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(state.inner.cov, sigma, rtol=1e-11, atol=1e-12)
    assert int(states[-1].inner.refused) == 0


def test_in_one_dimension_the_full_and_the_diagonal_scheme_agree(rng):
    """With a KL term, s = p and Gauss-Newton curvature they are one formula."""
    settings = {"momentum": 0.5, "precision_step": 0.02, "prior_precision": 1.5}
    diagonal = mg.optim.Variational(0.2, root=False, initial_p=1 / 9 - 1.5, **settings)
    full = mg.optim.FullVariational(0.2, initial_precision=1 / 9, **settings)
    gradients = [rng.normal(size=NUM_SAMPLES) for _ in range(5)]
    one = states_after(diagonal, -3.0, gradients)[-1]
    estimates = [mg.optim.gauss_newton(g) for g in gradients]
    other = states_after(full, -3.0, estimates)[-1]
    np.testing.assert_allclose(one.mean, other.mean, **EXACT)
    np.testing.assert_allclose(one.inner.p + 1.5, other.inner.precision[0, 0], **EXACT)


def test_full_draws_have_the_covariance_of_q(rng):
    theta = {"a": jnp.zeros(2), "b": jnp.asarray(5.0)}
    precision = random_precision(rng, 3)
    optimiser = mg.optim.FullVariational(0.1, initial_precision=jnp.asarray(precision))
    state = optimiser.init(theta)
    draws = optimiser.sample(jr.key(0), state, 40_000)
    assert draws["b"].shape == (40_000,)
    together = np.column_stack([draws["a"], draws["b"]])
    np.testing.assert_allclose(together.mean(axis=0), [0, 0, 5], atol=0.01)
    np.testing.assert_allclose(np.cov(together.T), np.linalg.inv(precision), atol=0.01)
    np.testing.assert_allclose(state.inner.cov, np.linalg.inv(precision), rtol=1e-10)


def quadratic(theta):
    """1/2 theta^T A theta - b^T theta over a tree."""
    x = jnp.concatenate([theta["a"], theta["b"][None]])
    return 0.5 * x @ A @ x - B @ x


A = jnp.array([[3.0, 1.0, 0.2], [1.0, 2.0, -0.5], [0.2, -0.5, 1.5]])
B = jnp.array([1.0, -2.0, 0.5])
START = {"a": jnp.array([4.0, -3.0]), "b": jnp.asarray(2.0)}


def test_full_scheme_finds_the_posterior_of_a_quadratic_loss():
    """E_q[loss] + KL is least at N((A + lambda I)^-1 b, (A + lambda I)^-1)."""
    lam = 0.7
    optimiser = mg.optim.FullVariational(0.5, momentum=0.1, prior_precision=lam)

    @jax.jit
    def step(state):
        mean = jax.grad(quadratic)(state.mean)  # exact: a quadratic's is linear
        return optimiser.update(GaussianGradients(mean, 0.5 * A), state)

    state = optimiser.init(START)
    for _ in range(80):
        state = step(state)
    best = np.linalg.inv(A + lam * np.eye(3))
    np.testing.assert_allclose(state.inner.cov, best, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(flat(state.mean), best @ B, rtol=1e-9, atol=1e-10)


def test_estimates_agree_with_exact_expectations(rng):
    """For a quadratic loss, whose expected gradients are known."""
    precision = random_precision(rng, 3)
    optimiser = mg.optim.FullVariational(0.1, initial_precision=jnp.asarray(precision))
    state = optimiser.init(START)
    draws = optimiser.sample(jr.key(1), state, 40_000)
    gradients = jax.jit(jax.vmap(jax.grad(quadratic)))(draws)
    hessians = jax.jit(jax.vmap(jax.hessian(quadratic)))(draws)
    expected = A @ flat(START) - B
    gauss_newton = mg.optim.gauss_newton(gradients)
    by_hessian = mg.optim.exact_hessian(gradients, hessians)
    error = 4.0 * np.sqrt(np.diag(A @ state.inner.cov @ A) / 40_000)
    for estimate in (gauss_newton, by_hessian):
        assert np.all(np.abs(flat(estimate.mean) - expected) < error)
    np.testing.assert_allclose(by_hessian.cov, 0.5 * A, rtol=1e-12, atol=1e-12)
    # E[g g^T] = E[g] E[g]^T + A Sigma A.
    second = np.outer(expected, expected) + A @ state.inner.cov @ A
    np.testing.assert_allclose(gauss_newton.cov, 0.5 * second, rtol=0.02, atol=0.02)


def test_hessians_of_trees_are_laid_out_like_the_gradients(rng):
    """Leaves of several shapes, and a Hessian with no zero block."""
    weights = jnp.asarray(rng.normal(size=10))
    theta = jax.tree.map(jnp.asarray, a_tree(rng))

    def loss(t):
        return jnp.exp(0.3 * weights @ jnp.concatenate([t["a"], t["b"]["c"].ravel()]))

    @jax.jit
    def estimate_at(draws):
        gradients = jax.vmap(jax.grad(loss))(draws)
        return mg.optim.exact_hessian(gradients, jax.vmap(jax.hessian(loss))(draws))

    estimate = estimate_at(jax.tree.map(lambda leaf: leaf[None], theta))
    expected = 0.5 * 0.09 * loss(theta) * jnp.outer(weights, weights)
    np.testing.assert_allclose(estimate.cov, expected, rtol=1e-10)


def test_leaving_the_cone_is_refused_and_counted():
    optimiser = mg.optim.FullVariational(0.1, prior_precision=None)
    gradients = GaussianGradients(jnp.ones(2), jnp.diag(jnp.array([1.0, -20.0])))
    inside = GaussianGradients(jnp.ones(2), jnp.eye(2))
    refused, taken = states_after(optimiser, np.zeros(2), [gradients, inside])
    assert int(refused.inner.refused) == int(taken.inner.refused) == 1
    np.testing.assert_array_equal(refused.inner.precision, np.eye(2))
    # The mean moves all the same, by the precision that was kept.
    np.testing.assert_allclose(refused.mean, [-0.1, -0.1], **EXACT)
    np.testing.assert_allclose(taken.inner.precision, 1.2 * np.eye(2), **EXACT)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("broken", ["mean", "cov"])
def test_gradients_that_are_not_finite_leave_q_alone(size, broken):
    optimiser = mg.optim.FullVariational(0.1)
    good = GaussianGradients(jnp.ones(size), jnp.eye(size))
    bad = good._replace(**{broken: jnp.nan * getattr(good, broken)})
    first, second = states_after(optimiser, np.ones(size), [good, bad])
    np.testing.assert_array_equal(second.mean, first.mean)
    np.testing.assert_array_equal(second.inner.precision, first.inner.precision)
    assert (int(first.inner.refused), int(second.inner.refused)) == (0, 1)


def test_no_batched_factorisation_under_vmap():
    """A batch of LAPACK calls can deadlock a CPU: see `linalg`."""
    optimiser = mg.optim.FullVariational(0.1)

    @jax.jit
    @jax.vmap
    def one(theta):
        gradients = GaussianGradients(theta, jnp.eye(3))
        return optimiser.update(gradients, optimiser.init(theta)).mean

    starts = jnp.arange(12.0).reshape(4, 3)
    text = one.lower(starts).compile().as_text()
    calls = re.findall(r"= \(?(\w+\[[\d,]*\]).*custom_call_target=\"lapack_", text)
    assert calls and all(call.count(",") <= 1 for call in calls)
    alone = optimiser.update(
        GaussianGradients(starts[2], jnp.eye(3)), optimiser.init(starts[2])
    )
    np.testing.assert_allclose(one(starts)[2], alone.mean, **EXACT)


# --- in Adam's shape


@pytest.mark.parametrize(
    "bias_correction, prior_mean", [(True, "zero"), (False, "initial")]
)
def test_adam_shaped_steps_equal_the_formulas(rng, bias_correction, prior_mean):
    alpha, gamma, rho, lam, p0 = 0.05, 0.9, 0.001, 0.6, 20.0
    theta, gradients = a_tree(rng), some_gradients(rng, 5)
    optimiser = mg.optim.VariationalAdam(
        alpha,
        prior_precision=lam,
        prior_mean=prior_mean,
        initial_p=p0,
        bias_correction=bias_correction,
    )
    states = states_after(optimiser, theta, gradients)
    mu = flat(theta)
    centre = mu if prior_mean == "initial" else 0.0 * mu
    m, p = 0.0 * mu, np.full_like(mu, p0)
    for t, (state, tree) in enumerate(zip(states, gradients, strict=True), start=1):
        g = flat_samples(tree)
        m = gamma * m + (1 - gamma) * (g.mean(axis=0) + lam * (mu - centre))
        p = (1 - rho) * p + rho * np.mean(g * g, axis=0)
        b = np.sqrt(1 - (1 - rho) ** t) / (1 - gamma**t) if bias_correction else 1.0
        mu = mu - alpha * b * m / (np.sqrt(p) + lam)
        np.testing.assert_allclose(flat(state.mean), mu, **EXACT)
        np.testing.assert_allclose(flat(state.inner.p), p, **EXACT)
        np.testing.assert_allclose(flat(state.inner.average), m, **EXACT)


# --- all three


CONVEX = {
    "diagonal": mg.optim.Variational(
        Shrinking(0.05, 0.01),
        momentum=0.5,
        precision_step=0.05,
        prior_precision=1e-3,
        initial_p=10.0,
    ),
    "adam": mg.optim.VariationalAdam(
        Shrinking(0.05, 0.01),
        prior_precision=1e-3,
        initial_p=10.0,
        bias_correction=False,
    ),
    "full": mg.optim.FullVariational(
        Shrinking(0.5, 0.01),
        precision_step=0.02,
        prior_precision=None,
        initial_precision=4.0,
    ),
}


@pytest.mark.parametrize("name", CONVEX)
def test_a_convex_problem_converges_to_its_minimum(name):
    optimiser = CONVEX[name]
    estimate = mg.optim.gauss_newton if name == "full" else (lambda g: g)

    @jax.jit
    def run(key):
        def step(state, key):
            draws = optimiser.sample(key, state, 8)
            gradients = estimate(jax.vmap(jax.grad(quadratic))(draws))
            return optimiser.update(gradients, state), None

        return jax.lax.scan(step, optimiser.init(START), jr.split(key, 2000))[0]

    state = run(jr.key(0))
    best = np.linalg.solve(A, B)
    np.testing.assert_allclose(flat(state.mean), best, atol=0.05)


@pytest.mark.parametrize(
    "optimiser, gradients",
    [
        (mg.optim.Variational(0.1), np.ones((1, 2))),
        (mg.optim.VariationalAdam(0.1, bias_correction=False), np.ones((1, 2))),
        (
            mg.optim.FullVariational(0.1, momentum=0.5),
            GaussianGradients(jnp.ones(2), jnp.eye(2)),
        ),
    ],
    ids=["diagonal", "adam", "full"],
)
def test_retract_takes_back_a_step_and_halves_the_next(optimiser, gradients):
    start = optimiser.init(np.array([2.0, 3.0]))
    update = jax.jit(optimiser.update)
    gradients = jax.tree.map(jnp.asarray, gradients)
    moved = update(gradients, start)
    back = mg.optim.retract(moved)
    np.testing.assert_array_equal(back.mean, start.mean)
    assert float(back.length) == 0.5
    # The same state at full length moves twice as far.
    full = update(gradients, back._replace(length=jnp.ones(())))
    short = update(gradients, back)
    np.testing.assert_allclose(
        full.mean - start.mean, 2.0 * (short.mean - start.mean), **EXACT
    )
    np.testing.assert_allclose(short.length, 0.55, **EXACT)
    for _ in range(10):
        short = update(gradients, short)
    assert float(short.length) == 1.0


@pytest.mark.parametrize(
    "make", [mg.optim.Variational, mg.optim.VariationalAdam, mg.optim.FullVariational]
)
def test_schedules_and_pace_scale_the_step_of_the_mean(make):
    """Half the step, by any of the three ways; the first has no momentum yet."""
    gradients = jnp.ones((1, 2))
    if make is mg.optim.FullVariational:
        gradients = mg.optim.gauss_newton(gradients)
    rest = {"precision_step": 0.01}
    moves = []
    for size, pace in ((0.1, 1.0), (Shrinking(0.1), 1.0), (0.2, 0.5)):
        optimiser = make(size, **rest)
        start = optimiser.init(np.array([2.0, 3.0]))
        moves.append(optimiser.update(gradients, start, pace).mean - start.mean)
    np.testing.assert_allclose(moves[1], moves[0], **EXACT)
    np.testing.assert_allclose(moves[2], moves[0], **EXACT)


def test_plain_numbers_will_do_for_theta():
    for make in (
        mg.optim.Variational,
        mg.optim.VariationalAdam,
        mg.optim.FullVariational,
    ):
        state = make(0.1).init({"a": 1, "b": 2.0})
        assert state.mean["a"].dtype == state.mean["b"].dtype == jnp.float64


DIAGONAL = (mg.optim.Variational, mg.optim.VariationalAdam)
ALL = (*DIAGONAL, mg.optim.FullVariational)


@pytest.mark.parametrize(
    "makes, settings, message",
    [
        (ALL, {"step_size": -0.1}, "`step_size` must be above 0"),
        (ALL, {"step_size": float("nan")}, "`step_size` must be above 0"),
        (ALL, {"precision_step": -0.1}, "`precision_step` must be"),
        (DIAGONAL, {"precision_step": 1.1}, "`precision_step` must be between 0 and 1"),
        (DIAGONAL[:1], {"step_size": 1.5}, "`step_size` must be between 0 and 1"),
        (DIAGONAL[1:], {"precision_step": 0.0}, "`precision_step` must be above 0"),
        (ALL, {"momentum": 1.0}, "`momentum` must be at least 0 and below 1"),
        (ALL, {"momentum": -0.1}, "`momentum` must be at least 0 and below 1"),
        (ALL, {"prior_precision": -1.0}, "`prior_precision` must be at least 0"),
        (DIAGONAL, {"max_std": 0.0}, "`max_std` must be above 0"),
        (DIAGONAL, {"units": 0.0}, "`units` must be above 0"),
        (DIAGONAL, {"initial_p": -0.1}, "`initial_p` must be at least 0"),
        (
            DIAGONAL,
            {"initial_p": 0.0, "prior_precision": 0.0},
            "got 0, an infinite standard deviation",
        ),
        (
            DIAGONAL[:1],
            {"initial_p": -2.0, "root": False},
            "the precision, must not be negative; got -1.0",
        ),
        (ALL[2:], {"initial_precision": 0.0}, "`initial_precision` must be above 0"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(makes, settings, message):
    for make in makes:
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            make(**{"step_size": 0.1} | settings)
        assert "\n" not in str(caught.value)


def test_wrong_starts_and_draws_are_refused():
    shape = mg.optim.FullVariational(0.1, initial_precision=jnp.eye(3))
    with pytest.raises(ValueError, match="must be a number or 2 x 2"):
        shape.init(np.zeros(2))
    indefinite = jnp.array([[1.0, 2.0], [2.0, 1.0]])
    cone = mg.optim.FullVariational(0.1, initial_precision=indefinite)
    with pytest.raises(ValueError, match="symmetric positive definite"):
        cone.init(np.zeros(2))
    for make in ALL:
        optimiser = make(0.1)
        with pytest.raises(ValueError, match="`num_samples` must be above 0"):
            optimiser.sample(jr.key(0), optimiser.init(np.zeros(2)), 0)


def test_the_snippet_of_the_docs_runs(capsys):
    page = Path(__file__).parents[1] / "docs" / "variational-optimisation.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    found: dict = {}
    exec(compile(code, page.name, "exec"), found)
    mean = found["state"].mean
    np.testing.assert_allclose(mean["x"], 1.0, atol=0.2)
    assert np.sin(5.0 * mean["y"]) < -0.8
    assert "'x'" in capsys.readouterr().out
