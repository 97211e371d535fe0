"""One iteration of each scheme against the paper's formulas.

The bound here is written from the paper once more, in the plain variables: q(u) itself,
A = K_fu K_uu^-1, no whitening. Its gradients come by automatic differentiation; the
updates are the formulas in NumPy, and optax for Adam.
"""

import functools as ft

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.scipy.special import gammaln

from motleygp import likelihoods as lik, optim
from motleygp.inference.data import make_dataset
from motleygp.inference.model import Model, trainable
from motleygp.inference.posterior import from_precision
from motleygp.kernels import EQ
from motleygp.optim import (
    FactorDescent,
    NaturalGradient,
    Point,
    Scheme,
    Variational,
    _checks,
    descent,
)
from motleygp.priors import LMC
from motleygp.training import init, minibatch, solution, step
from schedules import Shrinking

pytestmark = pytest.mark.usefixtures("quick_compilation")

NUM_LATENTS, NUM_INDUCING, NUM_INPUTS, JITTER, BATCH = 2, 5, 2, 1e-4, 6
ALPHA, BETA, GAMMA, UPSILON, LAMBDA, P0 = 0.05, 0.2, 0.6, 0.4, 1.5, 3.0
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def build(rng):
    """Het-Gaussian, Poisson and Bernoulli outputs; a model and a q(u)."""
    x = rng.normal(size=(14, NUM_INPUTS))
    ys = [rng.normal(size=14), rng.poisson(2.0, size=14), rng.integers(2, size=14)]
    likelihoods = (lik.HetGaussian(), lik.Poisson(), lik.Bernoulli())
    data = make_dataset([x] * 3, [np.asarray(y, float) for y in ys], likelihoods)
    prior = LMC(
        EQ(rng.uniform(0.8, 1.5, size=(NUM_LATENTS, NUM_INPUTS))),
        rng.normal(size=(4, NUM_LATENTS)),
        1.5 * rng.normal(size=(NUM_LATENTS, NUM_INDUCING, NUM_INPUTS)),
        jitter=JITTER,
    )
    model = Model(prior, jnp.zeros(4), likelihoods, fixed=("offset",))
    root = rng.normal(size=(NUM_LATENTS, NUM_INDUCING, NUM_INDUCING))
    precision = root @ root.swapaxes(1, 2) + NUM_INDUCING * np.eye(NUM_INDUCING)
    mean = rng.normal(size=(NUM_LATENTS, NUM_INDUCING))
    return data, model, from_precision(jnp.asarray(mean), jnp.asarray(precision))


def plain_nelbo(theta, m, V, batch):
    """Minus the bound in (Z, log length-scales, weights), m and V."""
    Z, log_l, W = theta
    (block,) = batch
    means, variances, kl = [], [], 0.0
    for q in range(NUM_LATENTS):

        def kernel(a, b, q=q):
            scaled = (a[:, None, :] - b[None, :, :]) / jnp.exp(log_l[q])
            return jnp.exp(-0.5 * jnp.sum(scaled**2, axis=2))

        K = kernel(Z[q], Z[q]) + JITTER * jnp.eye(NUM_INDUCING)
        K_inv = jnp.linalg.inv(K)
        A = kernel(block.x, Z[q]) @ K_inv
        means.append(A @ m[q])
        variances.append(1.0 - jnp.sum(A * (A @ (K - V[q])), axis=1))
        log_ratio = jnp.linalg.slogdet(K)[1] - jnp.linalg.slogdet(V[q])[1]
        square = m[q] @ K_inv @ m[q]
        kl += 0.5 * (jnp.sum(K_inv * V[q].T) + square - NUM_INDUCING + log_ratio)
    f = W @ jnp.stack(means)
    v = W**2 @ jnp.stack(variances)
    c = (W[0] * W[1]) @ jnp.stack(variances)
    y1, y2, y3 = block.y
    square = ((y1 - f[0] + c) ** 2 + v[0]) * jnp.exp(-f[1] + 0.5 * v[1])
    het = -0.5 * (jnp.log(2 * jnp.pi) + f[1] + square)
    poisson = y2 * f[2] - jnp.exp(f[2] + 0.5 * v[2]) - gammaln(y2 + 1.0)
    values = f[3][:, None] + jnp.sqrt(v[3])[:, None] * NODES
    signed = (2.0 * y3 - 1.0)[:, None] * values
    bernoulli = -jnp.logaddexp(0.0, -signed) @ (WEIGHTS / WEIGHTS.sum())
    return -block.scale * jnp.sum(het + poisson + bernoulli) + kl


plain_gradients = jax.jit(jax.grad(plain_nelbo, argnums=(0, 1, 2)))


def leaves_of(theta: Model):
    prior = theta.prior
    return [prior.inducing, prior.kernel.log_lengthscale, prior.weights]


_step = eqx.filter_jit(step)


def run_and_record(scheme, data, model, q, num_steps=2):
    """States before and after each step, with the minibatch and draws it used."""
    state = init(jr.key(3), model, scheme, num_steps=100, q=q)
    records = []
    for _ in range(num_steps):
        batch = minibatch(state, data, BATCH)
        key = jr.fold_in(jr.fold_in(state.key, state.iteration), len(data))
        draws = scheme.theta.sample(key, state.theta, scheme.num_samples)
        new, info = _step(scheme, state, data, batch_size=BATCH)
        records.append((state, batch, draws, new))
        assert not bool(info.refused)
        state = new
    return records


def gradients_at_draws(batch, draws, m, V):
    """The plain gradients at every draw: theta's stacked, q's averaged."""
    stacked = leaves_of(draws)
    each = [
        plain_gradients([leaf[s] for leaf in stacked], m, V, batch)
        for s in range(len(stacked[0]))
    ]
    g = [np.stack([np.asarray(e[0][i]) for e in each]) for i in range(3)]
    dm = np.mean([np.asarray(e[1]) for e in each], axis=0)
    dV = np.mean([0.5 * (e[2] + np.swapaxes(e[2], 1, 2)) for e in each], axis=0)
    return g, dm, dV


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11)


def natural_step(q, previous_mean, dm, dV):
    """V'^-1 = V^-1 + 2 b dF/dV; m' = m - b V' dF/dm + u V' V^-1 (m - m_previous)."""
    m, V = np.asarray(q.mean), np.asarray(q.cov())
    V_inv = np.linalg.inv(V)
    V_new = np.linalg.inv(V_inv + 2.0 * BETA * dV)
    push = -BETA * dm + UPSILON * np.einsum("gij,gj->gi", V_inv, m - previous_mean)
    return m + np.einsum("gij,gj->gi", V_new, push), V_new


@pytest.mark.parametrize(
    ("root", "num_samples"),
    [(True, 1), pytest.param(False, 3, marks=pytest.mark.slow)],
)
def test_fng_is_the_papers_formulas(rng, root, num_samples):
    data, model, q = build(rng)
    scheme = Scheme(
        NaturalGradient(BETA, momentum=UPSILON, guard=None),
        Variational(
            ALPHA,
            momentum=GAMMA,
            prior_precision=LAMBDA,
            initial_p=P0,
            root=root,
            units=optim.PAPER_UNITS,
        ),
        num_samples=num_samples,
        whitened=False,
        refuse=False,
    )
    units = [1.0, 2.0, 1.0]  # theta_L is the logarithm of the squared length-scales.
    mu = mu_before = [
        u * np.asarray(leaf) for u, leaf in zip(units, leaves_of(model), strict=True)
    ]
    p = [np.full_like(leaf, P0) for leaf in mu]
    m_before = np.asarray(q.mean)
    for state, batch, draws, new in run_and_record(scheme, data, model, q):
        m, V = np.asarray(state.q.mean), np.asarray(state.q.cov())
        g, dm, dV = gradients_at_draws(batch, draws, m, V)
        m_new, V_new = natural_step(state.q, m_before, dm, dV)
        assert_close(new.q.mean, m_new)
        assert_close(new.q.cov(), V_new)
        p_new, mu_new = [], []
        for i in range(3):
            scaled = g[i] / units[i]
            p_new.append((1 - ALPHA) * p[i] + ALPHA * np.mean(scaled**2, axis=0))
            s, s_new = (np.sqrt(a) if root else a for a in (p[i], p_new[i]))
            force = scaled.mean(axis=0) + LAMBDA * mu[i]
            momentum = GAMMA * (s + LAMBDA) / (s_new + LAMBDA) * (mu[i] - mu_before[i])
            mu_new.append(mu[i] - ALPHA * force / (s_new + LAMBDA) + momentum)
        for i, leaf in enumerate(leaves_of(new.theta.mean)):
            assert_close(units[i] * leaf, mu_new[i])
        for i, leaf in enumerate(leaves_of(new.theta.inner.p)):
            assert_close(leaf, p_new[i])
        mu, mu_before, p, m_before = mu_new, mu, p_new, m


def test_draws_have_the_variance_of_q_theta(rng):
    _, model, _ = build(rng)
    explorer = Variational(0.1, prior_precision=LAMBDA, initial_p=P0)
    theta = eqx.filter(model, trainable(model))
    draws = explorer.sample(jr.key(0), explorer.init(theta), 4000)
    for leaf, mean in zip(leaves_of(draws), leaves_of(theta), strict=True):
        np.testing.assert_allclose(leaf.mean(axis=0), mean, atol=0.05)
        np.testing.assert_allclose(leaf.var(axis=0), 1 / (P0 + LAMBDA), rtol=0.15)


def test_hybrid_is_natural_gradient_and_optax(rng):
    data, model, q = build(rng)
    adam = optax.adam(0.03)
    scheme = Scheme(
        NaturalGradient(BETA, momentum=UPSILON, guard=None),
        Point(descent("adam", 0.03)),
        whitened=False,
    )
    theta = [jnp.asarray(leaf) for leaf in leaves_of(model)]
    inner, m_before = adam.init(theta), np.asarray(q.mean)
    for state, batch, draws, new in run_and_record(scheme, data, model, q):
        m, V = np.asarray(state.q.mean), np.asarray(state.q.cov())
        g, dm, dV = gradients_at_draws(batch, draws, m, V)
        m_new, V_new = natural_step(state.q, m_before, dm, dV)
        assert_close(new.q.mean, m_new)
        assert_close(new.q.cov(), V_new)
        moves, inner = adam.update([jnp.asarray(a[0]) for a in g], inner, theta)
        theta = [a + b for a, b in zip(theta, moves, strict=True)]
        for leaf, expected in zip(leaves_of(new.theta.mean), theta, strict=True):
            assert_close(leaf, expected)
        m_before = m


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_adam_and_sgd_move_the_mean_and_the_factor(rng, name):
    data, model, q = build(rng)
    optimiser = getattr(optax, name)(0.002)
    same = descent(name, 0.002)
    scheme = Scheme(FactorDescent(same), Point(same), whitened=False)

    def nelbo(theta, m, C, batch):
        lower = jnp.tril(C)
        return plain_nelbo(theta, m, lower @ jnp.swapaxes(lower, 1, 2), batch)

    gradients = jax.jit(jax.grad(nelbo, argnums=(0, 1, 2)))
    factor = jnp.asarray(np.linalg.cholesky(np.asarray(q.cov())))
    both = ([jnp.asarray(a) for a in leaves_of(model)], (q.mean, factor))
    inner = optimiser.init(both)
    for _, batch, _, new in run_and_record(scheme, data, model, q):
        in_theta, dm, dC = gradients(both[0], *both[1], batch)
        moves, inner = optimiser.update((in_theta, (dm, dC)), inner, both)
        both = jax.tree.map(jnp.add, both, moves)
        for leaf, expected in zip(leaves_of(new.theta.mean), both[0], strict=True):
            assert_close(leaf, expected)
        mean, factor = both[1]
        assert_close(new.q.mean, mean)
        assert_close(new.q.cov(), factor @ jnp.swapaxes(factor, 1, 2))


@pytest.mark.slow
def test_whitened_and_plain_steps_agree_at_one_theta(rng):
    # With theta at rest, the natural gradient does not see the parametrisation of u.
    data, model, q = build(rng)
    still = Point(descent("sgd", 0.0))
    natural = NaturalGradient(BETA, momentum=UPSILON, guard=None)
    ends = []
    for whitened in (True, False):
        scheme = Scheme(natural, still, whitened=whitened)
        last = run_and_record(scheme, data, model, q, num_steps=3)[-1][-1]
        ends.append(solution(scheme, last).q)
    np.testing.assert_allclose(ends[0].mean, ends[1].mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ends[0].cov(), ends[1].cov(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.fng(alpha=-1.0), "`step_size` must be above 0"),
        (lambda: optim.fng(beta=0.0), "`step_size` must be above 0"),
        (lambda: optim.fng(gamma=1.0), "`momentum` must be at least 0 and below 1"),
        (lambda: optim.fng(upsilon=-0.1), "`momentum` must be at least 0 and below 1"),
        (lambda: optim.fng(rho=1.5), "`rho` must be between 0 and 1; got 1.5"),
        (lambda: optim.paper("newton"), "`name` must be one of fng, hybrid, adam, sgd"),
    ],
)
def test_wrong_settings_of_schemes_are_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("share", "beta"), [(1.0, 0.3), (0.9, 0.1), (0.05, 0.065), (0.001, 0.03)]
)
def test_steps_shorten_with_the_share_of_the_rows(share, beta):
    whole = share == 1.0
    end = {"tolerance": 0.001, "patience": 3} if whole else {"patience": None}
    faster = {"fng": {"alpha": 0.002, "warm_up": 30} if whole else {}, "hybrid": {}}
    for name, own in faster.items():
        assert optim.usual(name, share=share).q.step_size == pytest.approx(beta)
        found = optim.usual(name, share=share, beta=0.2)
        assert found == optim.BY_NAME[name](beta=0.2, **own, **end)
    assert optim.usual("adam", share=share) == optim.adam(**end)
    little = optim.usual("fng", share=1.0, gain=0.5, patience=7)
    assert (little.tolerance, little.patience) == (0.0005, 7)


@pytest.mark.parametrize(
    ("weights_per_value", "lambda_1"),
    [(0.0, 1.0), (0.02, 2.0), (0.06, 10.0), (1.0, 30.0)],
)
def test_the_prior_of_theta_narrows_where_values_are_few(weights_per_value, lambda_1):
    scheme = optim.usual("fng", share=0.5, weights_per_value=weights_per_value)
    assert scheme == optim.fng(lambda_1=lambda_1, patience=None)


@pytest.mark.parametrize(
    "check",
    [
        ft.partial(_checks.check_positive, "momentum"),
        ft.partial(_checks.check_not_negative, "momentum"),
        ft.partial(_checks.check_share, "momentum"),
        _checks.check_momentum,
    ],
)
def test_a_plain_function_is_no_schedule(check):
    # The check itself: in the tests, the types of arguments are checked before it.
    with pytest.raises(ValueError, match=r"`momentum` must be .*; got the function 'f"):
        check(flat_rate)
    check(Shrinking(0.1))


def flat_rate(count):
    return 0.1


@pytest.mark.slow
def test_schedules_reach_every_step_size(rng):
    """A step by schedules is the step by the numbers that they give at its count."""
    data, model, q = build(rng)
    rising = optim.schedule(
        "linear_schedule", init_value=0.0, end_value=1.0, transition_steps=10
    )
    scheme = optim.fng(
        alpha=Shrinking(0.01), beta=Shrinking(0.5), gamma=rising, upsilon=rising
    )

    def moved(state, count, **others):
        """q(u), mu and p after a step by numbers: arrays, so that it compiles once."""
        alpha, beta, momentum = 0.01 / (count + 1), 0.5 / (count + 1), 0.1 * count
        given = dict(alpha=alpha, beta=beta, gamma=momentum, upsilon=momentum) | others
        by_numbers = optim.fng(**{name: jnp.asarray(v) for name, v in given.items()})
        return parts(_step(by_numbers, state, data, batch_size=BATCH)[0])

    def parts(state):
        return jax.tree.leaves((state.q, state.theta.mean, state.theta.inner.p))

    def same(some, others):
        pairs = zip(some, others, strict=True)
        return all(np.allclose(a, b, rtol=1e-9, atol=1e-11) for a, b in pairs)

    records = run_and_record(scheme, data, model, q, num_steps=3)
    for count, (state, _, _, new) in enumerate(records):
        assert same(parts(new), moved(state, count))
    # Any of them at the value of the first step gives another third one.
    first = dict(alpha=0.01, beta=0.5, gamma=0.0, upsilon=0.0)
    for name, value in first.items():
        state, _, _, new = records[-1]
        assert not same(parts(new), moved(state, 2, **{name: value})), name


def test_draws_without_a_limit_are_not_refused(rng):
    """Flat priors have no spread before their first gradients."""
    data, model, _ = build(rng)
    model = Model(model.prior, model.offset, model.likelihoods)
    scheme = optim.fng(max_std=None)
    state = init(jr.key(0), model, scheme, num_steps=100)
    start = state.theta.mean.offset

    @jax.jit
    def five(state):
        def one(state, _):
            return step(scheme, state, data, batch_size=BATCH)

        return jax.lax.scan(one, state, None, length=5)

    state, info = five(state)
    assert not info.refused.any() and np.isfinite(info.nelbo).all()
    assert not np.array_equal(state.theta.mean.offset, start)
    for leaf in jax.tree.leaves(solution(scheme, state).std):
        assert (leaf > 0).all() and np.isfinite(leaf).all()
