"""The start of training: inducing points, length-scales, weights and offsets."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from motleygp.inference.data import Dataset, columns_of
from motleygp.inference.model import Model
from motleygp.inference.posterior import Posterior, from_precision, joined
from motleygp.kernels import EQ, AbstractKernel
from motleygp.likelihoods import AbstractLikelihood, fit_constant
from motleygp.numerics.chunks import some_places
from motleygp.numerics.moments import mean_and_variance
from motleygp.priors import DEFAULT_JITTER, LMC, AbstractPrior, Drawn

# The most rows of a block that show the spread of the inputs.
_MAX_ROWS = 1 << 17
# k-means on more rows than this only costs time.
_MAX_CLUSTERED = 20_000
# Neighbours of more rows than this cost more time than they add to an average.
_MAX_NEIGHBOURS = 5_000
# The limits of the unexplained share at the start: few rows may agree by chance.
_SHARES = (1e-4, 1.0)
# The range of the length-scales of the latent processes, in distances between
# neighbouring inducing points. Longer ones often end in an optimum in which functions
# miss the finer variation; shorter ones are beyond the reach of the inducing points.
_LENGTHSCALES = (0.5, 1.5)
# That distance is at least this many standard deviations of the inputs: along a line,
# inducing points lie closer than functions turn.
_CLOSEST = 0.15
# The most inducing values of all groups, and the most rows, for which "auto" takes a
# joint q(u): beyond, it costs more than twice the time, or gains nothing.
_MAX_JOINT, _MAX_JOINT_ROWS = 400, 4000
# What a value may add to the precision of the inducing value near it.
_CURVATURE = 10.0
# The jitter of the authors' code.
_PAPER_JITTER = 1e-6

Start: TypeAlias = Callable[
    [np.random.Generator, Dataset, Sequence[AbstractLikelihood]],
    tuple[Model, Posterior | None],
]


def data_driven_start(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    **settings: Any,
) -> tuple[Model, None]:
    """`initial_model`, and `None` for a q(u) at its prior."""
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
    kernel: type[AbstractKernel] = EQ,
    offset: str = "marginal",
    jitter: float = DEFAULT_JITTER,
) -> Model:
    """A model fitted to the outputs' marginals and to the spread of the inputs."""
    fits = marginal_fits(data, likelihoods)
    offsets = np.concatenate([fit.offset for fit in fits])
    if offset == "zero":
        offsets = np.zeros_like(offsets)
    owners = form.group_functions(len(offsets), sum(rank))
    inducing = [
        cluster_centres(rng, rows, num_inducing, weight)
        for rows, weight in _rows_of_groups(owners, data, likelihoods)
    ]
    _, variance = mean_and_variance(*_all_rows(data))
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    spacing = float(np.median([spacing_of(centres / scale) for centres in inducing]))
    sizes = tuple(likelihood.num_functions for likelihood in likelihoods)
    lengthscale = draw_lengthscales(rng, sizes, num_latents, max(spacing, _CLOSEST))
    return Model(
        prior=form.start(
            Drawn(
                kernel=kernel,
                lengthscale=lengthscale[:, None] * scale,
                weights=rng.normal(size=(len(offsets), sum(rank))),
                sizes=sizes,
                inducing=np.stack(
                    [padded(rng, centres, num_inducing) for centres in inducing]
                ),
                spread=scale * np.sqrt(len(scale)),
                reach=np.concatenate([fit.reach for fit in fits]),
                rank=rank,
                jitter=jitter,
            )
        ),
        offset=jnp.asarray(offsets),
        likelihoods=tuple(fit.likelihood for fit in fits),
        fixed=("offset",) if offset == "zero" else (),
    )


def with_form(
    inner: Start,
    form: str,
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
) -> tuple[Model, Posterior | None]:
    """A start with this form of q(u): "factorised", "joint", or "auto", which is joint
    where its steps are cheap enough to gain more than they cost."""
    model, q = inner(rng, data, likelihoods)
    if form == "auto" and model.prior.shares_inducing and not model.factorised:
        num_groups, num_inducing, _ = model.prior.inducing.shape
        form = "joint" if joint_pays(num_groups * num_inducing, data) else form
    if form == "joint":
        model = dataclasses.replace(model, joint_q=True)
        q = None if q is None else joined(q)
    return model, q


def start_precision(model: Model, data: Dataset) -> float:
    """The precision of the first q(v), relative to the prior's: about that which the
    data will give it.

    At the prior's width, the first steps see averages over functions that vary freely;
    those of exponentials are huge, and the steps away from them go too far.
    """
    num_rows = max(block.total for block in data)
    return 1.0 + _CURVATURE * num_rows / model.prior.inducing.shape[1]


def joint_pays(num_values: int, data: Dataset) -> bool:
    """Whether a joint q(u) of this many inducing values is worth its cost."""
    num_rows = max(block.total for block in data)
    return num_values <= _MAX_JOINT and num_rows <= _MAX_JOINT_ROWS


def _all_rows(data: Dataset) -> tuple[np.ndarray, np.ndarray | None]:
    """The inputs of all rows, and the mean weight of the values of each; of some rows
    if there are very many."""
    rows = [some_places(block.total, _MAX_ROWS) for block in data]
    pairs = list(zip(data, rows, strict=True))
    x = np.concatenate([np.asarray(block.x)[own] for block, own in pairs])
    if all(block.weight is None for block in data):
        return x, None
    weights = [
        np.ones(len(own))
        if block.weight is None
        else np.mean(np.asarray(block.weight)[:, own], axis=0)
        for block, own in pairs
    ]
    return x, np.concatenate(weights)


def _rows_of_groups(
    owners: Sequence[int | None],
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The inputs among which each group's inducing points start, and their weights:
    those of its function's output if the group belongs to a function, otherwise all."""
    own, every = {}, _all_rows(data)
    if any(owner is not None for owner in owners):
        own = {c.output: (c.x(), c.weight) for c in columns_of(data)}
    outputs = np.repeat(
        np.arange(len(likelihoods)),
        [likelihood.num_functions for likelihood in likelihoods],
    )
    return [every if owner is None else own[int(outputs[owner])] for owner in owners]


def paper_start(
    rng: np.random.Generator,
    data: Dataset,
    likelihoods: Sequence[AbstractLikelihood],
    *,
    form: type[AbstractPrior] = LMC,
    kernel: type[AbstractKernel] = EQ,
    num_latents: int,
    rank: tuple[int, ...],
    num_inducing: int,
) -> tuple[Model, Posterior]:
    """The paper's model and q(u): zero offsets, and nothing fitted to the outputs.

    Z is an even grid in each input, in random order except for the first, the same for
    every group; weights are N(0, 1), length-scales c sqrt(P) U(0.001, 1.001) with c = 1
    and, for convolutions, c = 0.1 and smoothing length-scales 0.1 sqrt(P) U U'; q(u)
    has mean 0.2 N(0, 1) and covariance I or, for convolutions, 9 I. With long
    length-scales and irregular Z, the variance of the functions is too large for
    exponential links. The authors' code then clips the exponents, which breaks the
    bound; here such a run ends with an error.
    """
    x = np.concatenate([np.asarray(block.x) for block in data])
    num_inputs = x.shape[1]
    grid = np.linspace(x.min(axis=0), x.max(axis=0), num_inducing)
    for p in range(1, num_inputs):
        grid[:, p] = rng.permutation(grid[:, p])
    lengthscale = np.sqrt(num_inputs) * (rng.uniform(size=(num_latents, 1)) + 0.001)
    num_functions = sum(likelihood.num_functions for likelihood in likelihoods)
    weights = rng.normal(size=(num_functions, sum(rank)))
    num_groups = len(form.group_functions(num_functions, sum(rank)))
    drawn = Drawn(
        kernel=kernel,
        lengthscale=np.tile(lengthscale, (1, num_inputs)),
        weights=weights,
        sizes=tuple(likelihood.num_functions for likelihood in likelihoods),
        inducing=np.tile(grid, (num_groups, 1, 1)),
        spread=np.ones(num_inputs),
        reach=np.ones(num_functions),
        rank=rank,
        jitter=_PAPER_JITTER,
    )
    prior, variance = form.paper_start(rng, drawn)
    model = Model(
        prior=prior,
        offset=jnp.zeros(num_functions),
        likelihoods=tuple(likelihoods),
        fixed=("offset",),
        factorised=True,
    )
    mean = 0.2 * rng.normal(size=(num_groups, num_inducing))
    precisions = np.tile(np.eye(num_inducing) / variance, (num_groups, 1, 1))
    return model, from_precision(jnp.asarray(mean), jnp.asarray(precisions))


def draw_lengthscales(
    rng: np.random.Generator, sizes: Sequence[int], num_latents: int, spacing: float
) -> np.ndarray:
    """Draws from the range around `spacing`: of n processes, one from each of n equal
    parts of it on a log scale, in random order.

    If there are enough processes for each output to have as many as it has functions
    (`sizes`), these and the rest are drawn apart.
    """
    rest = num_latents - sum(sizes)
    low, high = np.log(_LENGTHSCALES)
    places = []
    for number in (*sizes, rest) if rest >= 0 else (num_latents,):
        own = (np.arange(number) + rng.uniform(size=number)) / max(number, 1)
        places.append(rng.permutation(own))
    return spacing * np.exp(low + (high - low) * np.concatenate(places))


def spacing_of(centres: Float[np.ndarray, "K P"]) -> float:
    """The median distance between neighbours; 0 for a single point."""
    if len(centres) < 2:
        return 0.0
    with threadpool_limits(1):
        distances, _ = NearestNeighbors(n_neighbors=1).fit(centres).kneighbors()
    return float(np.median(distances))


class MarginalFit(NamedTuple):
    """One output at the start of training: its likelihood, the offsets of its functions
    and their standard deviations around them."""

    likelihood: AbstractLikelihood
    offset: np.ndarray
    reach: np.ndarray


def marginal_fits(
    data: Dataset, likelihoods: Sequence[AbstractLikelihood]
) -> list[MarginalFit]:
    """The start of each output, from its constant fit."""
    fits: dict[int, MarginalFit] = {}
    for c in columns_of(data):
        constant, f = fit_constant(likelihoods[c.output], c.y, c.exposure, c.weight)
        reach = constant.reach(c.y, f, c.weight)
        share = unexplained_share(c.x(), c.y, c.weight)
        fits[c.output] = MarginalFit(*constant.at_start(f, share), reach)
    return [fits[d] for d in range(len(likelihoods))]


def unexplained_share(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """The share of the variance of y between rows with nearly the same inputs: half the
    mean of (y_n - y_n')^2, with n' the nearest row, over var[y].

    It is near 1 if the inputs explain nothing, or rows are too few to show it.
    """
    some = np.unique(np.linspace(0, len(x) - 1, _MAX_NEIGHBOURS).astype(int))
    x, y = x[some], y[some]
    weight = None if weight is None else weight[some]
    if len(x) < 2 or np.ptp(y) == 0:
        return 1.0
    with threadpool_limits(1):
        nearest = NearestNeighbors(n_neighbors=1).fit(x).kneighbors()[1][:, 0]
    mean, variance = mean_and_variance(y, weight)
    y = (y - mean) / np.sqrt(variance)
    between = 0.5 * np.average((y - y[nearest]) ** 2, weights=weight)
    return float(np.clip(between, *_SHARES))


def cluster_centres(
    rng: np.random.Generator,
    x: np.ndarray,
    num_inducing: int,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """`num_inducing` centres of the rows of x by k-means, or the distinct rows if there
    are no more."""
    rows = rng.permutation(len(x))[:_MAX_CLUSTERED]
    distinct = np.unique(x[rows], axis=0)
    seed = int(rng.integers(2**31))
    if len(distinct) > num_inducing:
        settings: dict[str, Any] = dict(n_init=1, max_iter=20, random_state=seed)
        # On one thread: the order of the sums, and so the result, depends on the number
        # of threads.
        with threadpool_limits(1):
            clusters = KMeans(num_inducing, **settings)
            own = None if weight is None else weight[rows]
            return clusters.fit(x[rows], sample_weight=own).cluster_centers_
    return distinct


def padded(
    rng: np.random.Generator, centres: np.ndarray, num_inducing: int
) -> np.ndarray:
    """`num_inducing` points: the centres, and copies of them with a little noise."""
    extra = centres[rng.integers(len(centres), size=num_inducing - len(centres))]
    noise = 0.1 * centres.std(axis=0) * rng.normal(size=extra.shape)
    return np.concatenate([centres, extra + noise])
