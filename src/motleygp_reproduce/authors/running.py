"""Whole runs, of one seed or of several."""

import functools as ft
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Key

from motleygp._types import RandomKey
from motleygp.datasets import Problem
from motleygp.numerics.compiled import compiled
from motleygp_reproduce import clock
from motleygp_reproduce.authors import schemes
from motleygp_reproduce.authors.covariances import Theta
from motleygp_reproduce.authors.preparation import Prepared, Rows, prepared
from motleygp_reproduce.authors.schemes import Spec, State
from motleygp_reproduce.authors.scoring import nlpd
from motleygp_reproduce.authors.settings import SCHEMES, Settings
from motleygp_reproduce.authors.start import literal_noise, start

# Iterations in one call of a program, at most.
_LONGEST_CHUNK = 500


class Run(NamedTuple):
    """What a run gave.

    **Attributes:**

    - `nelbo`: minus the bound as the code reports it, of every iteration: on one
      minibatch, and for "fng" at one draw of theta.
    - `scores`: the NLPD of every output at the iterations that were asked for. For
      "fng" it is that of the draw of theta at which the next iteration will be.
    - `seconds`: of training, compilation included; shared where seeds ran together.
    - `diverged`: whether `nelbo` has a value that is not finite.
    - `variance`: for "fng", sigma^2 of every entry of theta at the end; else empty.
    """

    nelbo: Float[np.ndarray, " I"]
    scores: dict[int, dict[str, float]]
    seconds: float
    diverged: bool
    variance: Float[np.ndarray, " T"]


def fit(
    problem: Problem,
    settings: Settings,
    *,
    scheme: str = "fng",
    seed: int = 0,
    iterations: int = 2000,
    score_at: Sequence[int] = (),
    literal: bool = False,
) -> Run:
    """Train from one start, as the published code does.

    `literal` takes the rows of each output in the order of the problem, and the noise
    of theta from the stream behind the start: on the code's own rows, a seed then
    gives the code's own run.
    """
    _check(scheme, iterations, score_at)
    data = prepared(problem, settings, shuffled=not literal)
    return _fit(data, settings, scheme, [seed], iterations, score_at, literal)[0]


def fit_seeds(
    problem: Problem,
    settings: Settings,
    *,
    scheme: str = "fng",
    seeds: Sequence[int],
    iterations: int = 2000,
    score_at: Sequence[int] = (),
    literal: bool = False,
) -> list[Run]:
    """`fit` for several seeds: all at once on an accelerator, one after another on a
    CPU, where a batch of factorisations can deadlock."""
    _check(scheme, iterations, score_at)
    data = prepared(problem, settings, shuffled=not literal)
    alone = jax.default_backend() == "cpu"
    together = [[seed] for seed in seeds] if alone else [list(seeds)][: len(seeds)]
    groups = [
        _fit(data, settings, scheme, some, iterations, score_at, literal)
        for some in together
    ]
    return [run for group in groups for run in group]


def _check(scheme: str, iterations: int, score_at: Sequence[int]) -> None:
    if scheme not in SCHEMES:
        known = ", ".join(SCHEMES)
        raise ValueError(f"`scheme` must be one of {known}; got {scheme!r}.")
    if iterations < 1:
        raise ValueError(f"`iterations` must be 1 or more; got {iterations}.")
    outside = [i for i in score_at if not 0 <= i <= iterations]
    if outside:
        raise ValueError(
            f"`score_at` must lie between 0 and {iterations}; got {outside[0]}."
        )


def _fit(
    data: Prepared,
    settings: Settings,
    scheme: str,
    seeds: Sequence[int],
    iterations: int,
    score_at: Sequence[int],
    literal: bool,
) -> list[Run]:
    spec = Spec(scheme, settings, data.outputs)
    starts = [start(data, settings, seed) for seed in seeds]
    sources = [
        _Source(jr.key(seed), begun.rng if literal else None)
        for seed, begun in zip(seeds, starts, strict=True)
    ]
    states = _stacked([schemes.init(spec, s.theta, s.q) for s in starts])
    chunk, seconds, bounds = _chunk_length(iterations, score_at), 0.0, []
    scores: list[dict[int, dict[str, float]]] = [{} for _ in seeds]
    for now in range(0, iterations + 1, chunk):
        if now in score_at:
            for r, source in enumerate(sources):
                state = jax.tree.map(lambda a, r=r: a[r], states)
                scores[r][now] = _score(spec, state, source, data)
        if now < iterations:
            began = clock.seconds()
            keys, noise = jnp.stack([source.theta for source in sources]), None
            if literal:
                shape = starts[0].theta
                noise = _stacked([source.next(shape, chunk) for source in sources])
            states, found = _run_chunk(spec, states, data.train, keys, noise, chunk)
            bounds.append(np.asarray(found))
            seconds += clock.seconds() - began
    nelbo = np.concatenate(bounds, axis=1)
    return [
        Run(
            of_seed,
            scored,
            seconds,
            not bool(np.isfinite(of_seed).all()),
            schemes.variances(spec, jax.tree.map(lambda a, r=r: a[r], states)),
        )
        for r, (of_seed, scored) in enumerate(zip(nelbo, scores, strict=True))
    ]


class _Source(NamedTuple):
    """The random numbers of one seed behind its start; `rng` is for literal runs."""

    key: RandomKey
    rng: np.random.RandomState | None

    @property
    def theta(self) -> RandomKey:
        return jr.fold_in(self.key, 0)

    def next(self, theta: Theta, length: int) -> Theta:
        """The noise of the next iterations of a literal run."""
        assert self.rng is not None
        return literal_noise(self.rng, theta, length)

    def ahead(self, theta: Theta, iteration: Int[Array, ""]) -> Theta:
        """The noise of an iteration that is still to come."""
        if self.rng is None:
            return schemes.noise_of(self.theta, iteration, theta)
        kept = self.rng.get_state()
        noise = literal_noise(self.rng, theta, 1)
        self.rng.set_state(kept)
        return jax.tree.map(lambda a: a[0], noise)

    def of_score(self, iteration: Int[Array, ""]) -> RandomKey:
        return jr.fold_in(jr.fold_in(self.key, 1), iteration)


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _chunk_length(iterations: int, score_at: Sequence[int]) -> int:
    """The longest chunk at whose ends all scores are due."""
    common = ft.reduce(math.gcd, score_at, iterations)
    parts = range(-(-common // _LONGEST_CHUNK), common + 1)
    return common // next(n for n in parts if common % n == 0)


@compiled
def _run_chunk(
    spec: Spec,
    states: State,
    rows: Rows,
    keys: Key[Array, " S"],
    noise: Theta | None,
    length: int,
) -> tuple[State, Float[Array, "S I"]]:
    """The next iterations of every seed, and their reported minus bounds."""

    def one(
        state: State, key: RandomKey, noise: Theta | None
    ) -> tuple[State, Float[Array, " I"]]:
        def iterate(state: State, given: Theta | None) -> tuple[State, Array]:
            number = state.iteration + 1
            if given is None:
                given = schemes.noise_of(key, number, state.theta)
            return schemes.step(spec, state, rows.slice_at(number), given)

        return jax.lax.scan(iterate, state, noise, length=length)

    if len(keys) > 1:
        return jax.vmap(one)(states, keys, noise)
    # One seed is no batch: its factorisations are those of single matrices.
    alone = jax.tree.map(lambda a: a[0], (states, keys, noise))
    return jax.tree.map(lambda a: a[None], one(*alone))


def _score(
    spec: Spec, state: State, source: _Source, data: Prepared
) -> dict[str, float]:
    """At theta of the next iteration, where the code leaves the model."""
    noise = source.ahead(state.theta, state.iteration + 1)
    theta = schemes.evaluated_theta(spec, state, noise)
    key = source.of_score(state.iteration)
    values = np.asarray(nlpd(spec, theta, state.q, data.test, key))
    return dict(zip(data.outputs.names, values.tolist(), strict=True))
