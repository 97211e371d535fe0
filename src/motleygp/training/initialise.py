"""Where training starts: inducing points, length-scales, weights and offsets."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from motleygp.inference.data import Dataset
from motleygp.inference.model import Model
from motleygp.inference.posterior import Posterior, from_precision
from motleygp.kernels import EQ
from motleygp.likelihoods import AbstractLikelihood, Gaussian
from motleygp.prediction.seen import see
from motleygp.priors import LMC, AbstractConvolution, AbstractPrior, Convolution
from motleygp.priors._base import DEFAULT_JITTER

# k-means on more rows than this only costs time.
_MAX_CLUSTERED = 20_000
# Length-scales of the latent processes, in standard deviations of the inputs: drawn
# from short to long, so that some process is near whatever the data need.
_LENGTHSCALES = (0.1, 1.0)
# Those of the smoothing kernels: short, so that a convolution starts near the linear
# model with the same processes, and lengthens where a function wants it.
_SMOOTHING = 0.05
# Latent processes by default: one per output between these, and so many where they are
# no more than the scales that every function has at hand.
_MIN_LATENTS, _MAX_LATENTS = 4, 10
_SCALES = 4


def usual_num_latents(
    form: type[AbstractPrior], likelihoods: Sequence[AbstractLikelihood]
) -> int:
    """Q where the user names none; never more than there are functions."""
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    if issubclass(form, Convolution):
        return min(_SCALES, num_functions)
    return min(max(len(likelihoods), _MIN_LATENTS), _MAX_LATENTS, num_functions)


def data_driven_start(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    **settings: Any,
) -> tuple[Model, None]:
    """`initial_model`, with q(u) at its prior."""
    return initial_model(rng, data, likelihoods, **settings), None


def initial_model(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    *,
    num_latents: int,
    rank: tuple[int, ...],
    num_inducing: int,
    form: type[AbstractPrior] = LMC,
    offset: str = "marginal",
    jitter: float = DEFAULT_JITTER,
) -> Model:
    """A model fitted to the outputs' marginals and to the spread of the inputs."""
    fitted, offsets = marginal_fits(data, likelihoods)
    if offset == "zero":
        offsets = np.zeros_like(offsets)
    x = np.concatenate([np.asarray(block.x) for block in data])
    num_copies = sum(rank)
    inducing = [
        cluster_centres(rng, rows, num_inducing)
        for rows in _rows_of_groups(form, data, likelihoods, num_copies)
    ]
    spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0) * np.sqrt(x.shape[1])
    lengthscale = draw_lengthscales(rng, num_latents)
    weights = rng.normal(size=(len(offsets), num_copies))
    if issubclass(form, Convolution):
        # A function of its own inducing values sees the squares alone, as its kernel's
        # mixture of scales: all of them, to begin with.
        weights = np.sign(weights)
    prior = _make_prior(
        form,
        kernel=EQ(lengthscale[:, None] * spread),
        weights=weights / np.sqrt(num_copies),
        smoothing=np.tile(_SMOOTHING * spread, (len(offsets), 1)),
        inducing=np.stack(inducing),
        rank=rank,
        jitter=jitter,
    )
    return Model(
        prior=prior,
        offset=jnp.asarray(offsets),
        likelihoods=fitted,
        fixed=("offset",) if offset == "zero" else (),
    )


def _make_prior(
    form: type[AbstractPrior], *, smoothing: np.ndarray, **arguments: Any
) -> AbstractPrior:
    if issubclass(form, AbstractConvolution):
        return form(smoothing=smoothing, **arguments)
    return form(**arguments)


def _rows_of_groups(
    form: type[AbstractPrior],
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    num_copies: int,
) -> list[np.ndarray]:
    """The inputs among which each group's inducing points lie: all of them, or those of
    its own output where a group belongs to a function."""
    if not issubclass(form, Convolution):
        every = np.concatenate([np.asarray(block.x) for block in data])
        return [every] * num_copies
    own = {d: np.asarray(block.x) for block in data for d in block.outputs}
    return [
        own[d]
        for d, likelihood in enumerate(likelihoods)
        for _ in range(likelihood.num_functions)
    ]


# The paper's own start, as its authors' code has it.
_PAPER_JITTER = 1e-6


def paper_start(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    *,
    num_latents: int,
    rank: tuple[int, ...],
    num_inducing: int,
    form: type[AbstractPrior] = LMC,
) -> tuple[Model, Posterior]:
    """The paper's model and q(u): zero offsets, and nothing fitted to the outputs.

    Z is an even grid in each input, in random order but for the first, the same for
    every group; weights are N(0, 1), length-scales c sqrt(P) U(0.001, 1.001) with c = 1
    and, for convolutions, c = 0.1 and smoothing length-scales 0.1 sqrt(P) U U'; q(u)
    has mean 0.2 N(0, 1) and covariance I or, for convolutions, 9 I. Where long
    length-scales meet irregular Z this makes functions of a variance that no
    exponential link can bear: the authors' code clips the exponents there, which breaks
    the bound; here such a run ends.
    """
    x = np.concatenate([np.asarray(block.x) for block in data])
    num_inputs, num_copies = x.shape[1], sum(rank)
    convolved = issubclass(form, AbstractConvolution)
    grid = np.linspace(x.min(axis=0), x.max(axis=0), num_inducing)
    for p in range(1, num_inputs):
        grid[:, p] = rng.permutation(grid[:, p])
    lengthscale = np.sqrt(num_inputs) * (rng.uniform(size=(num_latents, 1)) + 0.001)
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    weights = rng.normal(size=(num_functions, num_copies))
    scale = 0.1 if convolved else 1.0
    draws = rng.uniform(size=(2, num_functions, 1)) if convolved else np.ones((2, 1, 1))
    num_groups = len(_rows_of_groups(form, data, likelihoods, num_copies))
    model = Model(
        prior=_make_prior(
            form,
            kernel=EQ(np.tile(scale * lengthscale, (1, num_inputs))),
            weights=weights,
            smoothing=np.tile(
                scale * np.sqrt(num_inputs) * draws.prod(axis=0), (1, num_inputs)
            ),
            inducing=np.tile(grid, (num_groups, 1, 1)),
            rank=rank,
            jitter=_PAPER_JITTER,
        ),
        offset=jnp.zeros(num_functions),
        likelihoods=tuple(likelihoods),
        fixed=("offset",),
    )
    mean = 0.2 * rng.normal(size=(num_groups, num_inducing))
    precision = np.eye(num_inducing) / (9.0 if convolved else 1.0)
    precisions = np.tile(precision, (num_groups, 1, 1))
    return model, from_precision(jnp.asarray(mean), jnp.asarray(precisions))


def draw_lengthscales(rng: np.random.Generator, num_latents: int) -> np.ndarray:
    """One draw from each of `num_latents` equal parts of the range, in logarithms."""
    low, high = np.log(_LENGTHSCALES)
    places = (np.arange(num_latents) + rng.uniform(size=num_latents)) / num_latents
    return np.exp(low + (high - low) * places)


def marginal_fits(
    data: Dataset, likelihoods: Sequence[AbstractLikelihood]
) -> tuple[tuple[AbstractLikelihood, ...], np.ndarray]:
    """Each output's constant fit: the likelihoods, and the constants as one vector."""
    fits: dict[int, tuple[AbstractLikelihood, np.ndarray]] = {}
    for block in data:
        for place, d in enumerate(block.outputs):
            exposure = None
            if block.log_exposure is not None:
                exposure = np.exp(block.log_exposure[place])
            seen = see(np.asarray(block.y[place]), likelihoods[d], exposure)
            fits[d] = seen.likelihood, seen.f
    ordered = [fits[d] for d in range(len(likelihoods))]
    starts = tuple(_less_noise(likelihood) for likelihood, _ in ordered)
    return starts, np.concatenate([f for _, f in ordered])


def _less_noise(likelihood: AbstractLikelihood) -> AbstractLikelihood:
    """The constant fit calls everything noise; leave some of it for the functions."""
    if isinstance(likelihood, Gaussian) and not likelihood.fixed:
        halved = likelihood.log_noise - jnp.log(2.0)
        return eqx.tree_at(lambda lik: lik.log_noise, likelihood, halved)
    return likelihood


def cluster_centres(
    rng: np.random.Generator, x: np.ndarray, num_inducing: int
) -> np.ndarray:
    """`num_inducing` centres of the rows of x by k-means.

    Where there are fewer distinct rows than centres, rows with a little noise fill up.
    """
    rows = rng.permutation(len(x))[:_MAX_CLUSTERED]
    distinct = np.unique(x[rows], axis=0)
    seed = int(rng.integers(2**31))
    if len(distinct) > num_inducing:
        settings: dict[str, Any] = dict(n_init=1, max_iter=20, random_state=seed)
        # On one thread: the order of its sums, and so a run, depends on their number.
        with threadpool_limits(1):
            return KMeans(num_inducing, **settings).fit(x[rows]).cluster_centers_
    extra = distinct[rng.integers(len(distinct), size=num_inducing - len(distinct))]
    noise = 0.1 * x.std(axis=0) * rng.normal(size=extra.shape)
    return np.concatenate([distinct, extra + noise])
