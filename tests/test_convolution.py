"""The convolution prior against integrals, against NumPy, and against the LMC."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import paper_convolution as convolution
import paper_numpy as paper
from motleygp import kernels, likelihoods as lik, optim, priors
from motleygp.inference.data import Dataset, make_dataset
from motleygp.inference.model import Model
from motleygp.inference.objective import (
    elbo,
    full_elbo,
    function_moments,
    held_out_nlpd,
)
from motleygp.inference.posterior import Posterior, from_prior
from motleygp.training import init, initial_model, step

FORMS = {
    "function": (priors.Convolution, convolution.FUNCTION),
    "latent": (priors.LatentConvolution, convolution.LATENT),
}
forms = pytest.mark.parametrize("form", FORMS)
normalisations = pytest.mark.parametrize("normalised", [False, True])

_elbo = eqx.filter_jit(elbo)


pytestmark = pytest.mark.usefixtures("quick_compilation")


def make_prior(form: str, parameters: dict[str, Any], normalised: bool = False) -> Any:
    return FORMS[form][0](
        kernels.EQ(parameters["lengthscale"], normalised=normalised),
        parameters["weights"],
        parameters["smoothing"],
        parameters["inducing"],
    )


def small_parameters(num_inputs: int) -> dict[str, Any]:
    """Three functions and two processes, for covariances."""
    rng = np.random.default_rng(0)
    return {
        "lengthscale": rng.uniform(0.4, 0.6, size=(2, num_inputs)),
        "smoothing": rng.uniform(0.3, 0.5, size=(3, num_inputs)),
        "weights": rng.normal(size=(3, 2)),
        "inducing": rng.random((3, 4, num_inputs)),
    }


# Covariances.


def line(num_inputs: int) -> np.ndarray:
    """A grid on which the trapezoidal rule is exact to rounding for the integrands
    below: smooth, and gone at its ends."""
    side = np.linspace(-2.5, 3.5, 61 if num_inputs == 1 else 41)
    axes = np.meshgrid(*[side] * num_inputs, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, num_inputs)


def latent_pair(num_inputs: int, normalised: bool) -> tuple[Any, convolution.Prior]:
    """The prior with inducing values of u, and its reference."""
    parameters = small_parameters(num_inputs)
    parameters["inducing"] = parameters["inducing"][:2]
    reference = convolution.Prior(parameters, normalised)
    return make_prior("latent", parameters, normalised), reference


@normalisations
@pytest.mark.parametrize("num_inputs", [1, 2])
def test_covariance_is_the_double_convolution_integral(num_inputs, normalised):
    prior, reference = latent_pair(num_inputs, normalised)
    rng = np.random.default_rng(1)
    x, z = rng.random((2, num_inputs)), rng.random((2, num_inputs))
    r = line(num_inputs)
    cell = (r[1, -1] - r[0, -1]) ** num_inputs
    covariance = np.asarray(prior.covariance(jnp.asarray(x), jnp.asarray(z)))
    integral = np.zeros_like(covariance)
    for q in range(2):
        k = reference.latent(q, r[:, None] - r[None])
        left, right = (
            np.stack([reference.smoothing(j, q, at[:, None] - r) for j in range(3)])
            for at in (x, z)
        )
        integral += cell**2 * np.einsum("jnr,ikr->jnik", left @ k, right)
    np.testing.assert_allclose(covariance, integral, atol=1e-8)
    assert np.abs(covariance).max() > 0.1


@normalisations
@pytest.mark.parametrize("num_inputs", [1, 2])
def test_columns_of_a_process_are_the_single_convolution_integral(
    num_inputs, normalised
):
    prior, reference = latent_pair(num_inputs, normalised)
    x = np.random.default_rng(1).random((2, num_inputs))
    r = line(num_inputs)
    cell = (r[1, -1] - r[0, -1]) ** num_inputs
    sites = priors.everywhere(jnp.asarray(x), 3)
    total = np.zeros((3, 2))
    for q, Z in enumerate(np.asarray(prior.inducing)):
        k = prior.covariances(jax.tree.map(lambda a, q=q: a[q], prior.groups()), sites)
        along = reference.latent(q, r[:, None] - Z[None])
        for j in range(3):
            smoothing = reference.smoothing(j, q, x[:, None] - r)
            actual = reference.S[j, q] * k.ug[:, 2 * j : 2 * j + 2]
            np.testing.assert_allclose(actual, (cell * smoothing @ along).T, atol=1e-8)
        np.testing.assert_allclose(k.uu, reference.uu(q, Z), rtol=1e-12)
        total += reference.S[:, q, None] ** 2 * np.asarray(k.gg).reshape(3, 2)
    own = prior.covariance(jnp.asarray(x), jnp.asarray(x))
    np.testing.assert_allclose(total, np.einsum("jnjn->jn", own), rtol=1e-12)


@normalisations
def test_each_functions_covariances_are_those_of_the_joint_prior(rng, normalised):
    prior = make_prior("function", small_parameters(2), normalised)
    x = jnp.asarray(rng.random((5, 2)))
    sites = priors.everywhere(x, 3)
    for j in range(3):
        group = jax.tree.map(lambda leaf, j=j: leaf[j], prior.groups())
        k, z = prior.covariances(group, sites), prior.inducing[j]
        for actual, expected in (
            (k.uu, prior.covariance(z, z)[j, :, j]),
            (k.ug, prior.covariance(z, x)[j, :, j]),
            (k.gg, jnp.diagonal(prior.covariance(x, x)[j, :, j])),
        ):
            np.testing.assert_allclose(actual, expected, rtol=1e-12)


@normalisations
@pytest.mark.parametrize("num_inputs", [1, 3])
def test_the_joint_covariance_is_positive_semi_definite(num_inputs, normalised):
    parameters = small_parameters(num_inputs)
    prior = make_prior("function", parameters, normalised)
    x = jnp.asarray(np.random.default_rng(2).random((30, num_inputs)))
    joint = np.asarray(prior.covariance(x, x)).reshape(90, 90)
    np.testing.assert_allclose(joint, joint.T, atol=1e-14)
    assert np.linalg.eigvalsh(joint).min() > -1e-12 * np.trace(joint)
    if not normalised:
        variances = np.sum(parameters["weights"] ** 2, axis=1)
        np.testing.assert_allclose(np.diag(joint), np.repeat(variances, 30))


@normalisations
def test_without_smoothing_it_is_the_lmc(rng, normalised):
    parameters = small_parameters(2)
    parameters["inducing"] = parameters["inducing"][:2]
    kernel = kernels.EQ(parameters["lengthscale"], normalised=normalised)
    lmc = priors.LMC(kernel, parameters["weights"], parameters["inducing"])
    parameters["smoothing"] = np.full((3, 2), 1e-8)
    prior = make_prior("latent", parameters, normalised)
    x, z = jnp.asarray(rng.random((6, 2))), jnp.asarray(rng.random((4, 2)))
    np.testing.assert_allclose(
        prior.covariance(x, z), lmc.covariance(x, z), rtol=1e-10, atol=1e-14
    )
    # With inducing values of u the posteriors agree as well.
    q = from_prior(lmc)
    q = Posterior(jnp.asarray(rng.normal(size=q.mean.shape)), q.precision, 0.5 * q.half)
    likelihoods = (lik.HetGaussian(), lik.Poisson())
    offset = jnp.zeros(3)
    moments = [
        function_moments(Model(p, offset, likelihoods), q, x) for p in (prior, lmc)
    ]
    for actual, expected in zip(*moments, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-8)


def test_draws_have_the_joint_covariance():
    prior = make_prior("function", small_parameters(1))
    x = jnp.asarray([[0.1], [0.4]])
    draws = priors.sample(prior, jr.key(0), x, num=40_000)
    joint = np.asarray(prior.covariance(x, x)).reshape(6, 6)
    # Four standard errors of a covariance.
    error = 4.0 * np.sqrt(
        (joint**2 + np.outer(np.diag(joint), np.diag(joint))) / 40_000
    )
    assert (np.abs(np.cov(draws.reshape(-1, 6).T) - joint) < error).all()


# The bound.


class Problem(NamedTuple):
    model: Model
    q: Posterior
    data: Dataset
    parameters: dict[str, Any]
    outputs: list[paper.Output]


def make_problem(
    form: str,
    names: tuple[str, ...],
    *,
    normalised: bool = False,
    separate: bool = False,
    num_inducing: int = 9,
) -> Problem:
    """Outputs that share their rows, or have rows of their own of different number."""
    rng = np.random.default_rng(0)
    reference = FORMS[form][1]
    parameters = convolution.random_parameters(
        rng,
        names,
        reference,
        normalised=normalised,
        num_inducing=num_inducing,
        jitter=1e-8,
    )
    xs = [rng.random((12 + 2 * d * separate, 2)) for d in range(len(names))]
    xs = xs if separate else [xs[0]] * len(names)
    ys = [paper.random_values(rng, n, len(x)) for n, x in zip(names, xs, strict=True)]
    likelihoods = tuple(
        lik.Gaussian(parameters["noise"][f"y{d}"]) if n == "gaussian" else lik.get(n)
        for d, n in enumerate(names)
    )
    K = np.stack(reference.inducing_covariances(parameters, 1, normalised))
    prior = make_prior(form, parameters, normalised)
    return Problem(
        Model(prior, jnp.asarray(parameters["offset"]), likelihoods),
        Posterior(*map(jnp.asarray, paper.whitened(parameters, K))),
        make_dataset(xs, ys, likelihoods),
        parameters,
        [
            paper.Output(f"y{d}", n, x, y)
            for d, (n, x, y) in enumerate(zip(names, xs, ys, strict=True))
        ],
    )


MIX = ("poisson", "hetgaussian", "gaussian", "beta")


@forms
@pytest.mark.parametrize(("normalised", "separate"), [(False, True), (True, False)])
def test_bound_equals_paper(form, normalised, separate):
    problem = make_problem(form, MIX, normalised=normalised, separate=separate)
    options: dict[str, Any] = dict(normalised=normalised, form=FORMS[form][1])
    expected = paper.nelbo(problem.parameters, problem.outputs, nodes=60, **options)
    terms = _elbo(problem.model, problem.q, problem.data)
    np.testing.assert_allclose(-float(terms.elbo), expected, rtol=1e-9)
    whole = full_elbo(problem.model, problem.q, problem.data)
    np.testing.assert_allclose(-whole, expected, rtol=1e-9)
    # A minibatch: the first rows of each output stand for all of them.
    data = tuple(block.take(jnp.arange(5)) for block in problem.data)
    outputs = [
        output._replace(x=output.x[:5], y=output.y[:5], total=len(output.y))
        for output in problem.outputs
    ]
    expected = paper.nelbo(problem.parameters, outputs, nodes=60, **options)
    actual = -float(_elbo(problem.model, problem.q, data).elbo)
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


@forms
def test_held_out_rows_of_their_own_are_scored_where_they_are(form):
    problem = make_problem(form, ("gaussian", "bernoulli"), separate=True)
    scores = held_out_nlpd(problem.model, problem.q, problem.data)
    blocks = problem.model.blocks
    for d, output in enumerate(problem.outputs):
        x, y = jnp.asarray(output.x), np.asarray(output.y)
        moments = function_moments(problem.model, problem.q, x)
        mean, var = (np.asarray(a) for a in moments)
        own = np.asarray(blocks[d])
        likelihood = problem.model.likelihoods[d]
        log_prob = likelihood.log_predictive(y, mean[own], var[own])
        np.testing.assert_allclose(scores[d], -np.mean(log_prob), rtol=1e-10)


# The size of the program.


def lowered_lines(form: str, num_outputs: int) -> int:
    """Lines of one training step before compilation."""
    rng = np.random.default_rng(0)
    x = rng.random((20, 1))
    likelihoods = [lik.HetGaussian()] * num_outputs
    data = make_dataset(
        [x] * num_outputs, list(rng.normal(size=(num_outputs, 20))), likelihoods
    )
    settings: Any = dict(num_latents=2, rank=(1, 1), num_inducing=4)
    model = initial_model(rng, data, likelihoods, form=FORMS[form][0], **settings)
    scheme = optim.fng()
    state = init(jr.key(0), model, scheme, num_steps=10)
    arrays, static = eqx.partition((state, data), eqx.is_array)

    def one(arrays: tuple) -> tuple:
        new = step(scheme, *eqx.combine(arrays, static), batch_size=10)
        return eqx.filter(new, eqx.is_array)

    return jax.jit(one).lower(arrays).as_text().count("\n")


@pytest.mark.slow
@forms
def test_the_program_does_not_grow_with_the_functions(form):
    assert lowered_lines(form, 12) < 1.05 * lowered_lines(form, 6)


# Wrong arguments.


def test_shapes_are_checked():
    good = small_parameters(2)
    with pytest.raises(ValueError, match=r"`smoothing` must have one row per row"):
        make_prior("function", good | {"smoothing": np.ones((2, 2))})
    with pytest.raises(ValueError, match=r"one matrix for each row of `weights`, 3"):
        make_prior("function", good | {"inducing": np.ones((2, 4, 2))})
    with pytest.raises(ValueError, match=r"one matrix for each column of `weights`, 2"):
        make_prior("latent", good)
    with pytest.raises(ValueError, match="one column for each copy"):
        priors.Convolution(
            kernels.EQ(good["lengthscale"]),
            good["weights"],
            good["smoothing"],
            good["inducing"],
            rank=(1, 2),
        )
