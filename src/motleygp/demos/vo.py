"""The demonstration of variational optimisation: the paper's example, and its odds.

g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta) has many minima. From mu = -3, sigma = 3
the paper follows q(theta) = N(mu, sigma^2) without and with a KL term, and Newton's
method beside them. Here the same from many seeds, with exact expectations instead of
samples, and with the exact Hessian instead of the Gauss-Newton curvature.
"""

import functools as ft
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, to_hex
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from motleygp import optim
from motleygp._types import RandomKey, Scalar
from motleygp.numerics.quadrature import dense_rule

START_MEAN, START_STD = -3.0, 3.0
PRIOR_PRECISION = 1.5
NUM_SAMPLES, NUM_STEPS = 50, 80
NUM_NEWTON = 6
# Without noise one can afford to wait until nothing moves any more.
EXACT_STEPS = (80, 400, 2000)
# Minima of g, to which the ends are assigned, and how far off an end may be.
MINIMA = (-4.499, -3.114, -1.730, -0.346)
REACH = 0.2
# Where exact expectations end with the KL term, and the bar for the sampled runs.
PENALISED, TOLERANCE = -0.331, 0.03

_WIDTH, _RATE = 0.09, 4.5
# Resolves sin(9 theta), the square's, at sigma = 3 to rounding.
_NUM_NODES = 1001

Curvature = Literal["gauss-newton", "hessian"]


class Setting(NamedTuple):
    """One way to run the example: the steps of mu and of sigma^-2, and lambda."""

    name: str
    step: float
    precision_step: float
    prior_precision: float | None
    curvature: Curvature = "gauss-newton"

    def optimiser(self) -> optim.VariationalOptimiser:
        """The scheme, from the library."""
        return optim.full_variational(
            self.step,
            precision_step=self.precision_step,
            prior_precision=self.prior_precision,
            initial_precision=1.0 / START_STD**2,
        )


NO_KL = Setting("no KL", 1.0, 0.1, None)
KL = Setting("KL", 0.1, 0.01, PRIOR_PRECISION)
EQUAL_STEPS = Setting("KL, equal steps", 0.1, 0.1, PRIOR_PRECISION)
NO_KL_HESSIAN = NO_KL._replace(curvature="hessian")
KL_HESSIAN = KL._replace(curvature="hessian")
SAMPLED = (NO_KL, KL, NO_KL_HESSIAN, KL_HESSIAN)
EXACT = (NO_KL, KL, EQUAL_STEPS, NO_KL_HESSIAN, KL_HESSIAN)


class Course(NamedTuple):
    """mu and sigma from the start to the end, and the refused steps so far."""

    mean: Float[Array, "*S T"]
    std: Float[Array, "*S T"]
    refused: Int[Array, "*S T"]


@jax.jit
def objective(theta: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta)."""
    return 2.0 * jnp.exp(-_WIDTH * theta**2) * jnp.sin(_RATE * theta)


@jax.jit
def expected(mean: Float[Array, "*N"], var: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """E_q[g] for q = N(mean, var), in closed form.

    A Gaussian times a Gaussian times exp(i b theta): with c = 1 + 2 a var,
    2 c^-1/2 exp(-(a mean^2 + b^2 var / 2) / c) sin(b mean / c).
    """
    c = 1.0 + 2.0 * _WIDTH * var
    damping = jnp.exp(-(_WIDTH * mean**2 + 0.5 * _RATE**2 * var) / c)
    return 2.0 / jnp.sqrt(c) * damping * jnp.sin(_RATE * mean / c)


Estimate = Callable[[RandomKey, optim.FullVariationalState], optim.GaussianGradients]


def sampled(setting: Setting) -> Estimate:
    """The gradients of E_q[g] from draws of q."""
    sample = setting.optimiser().sample

    def estimate(
        key: RandomKey, state: optim.FullVariationalState
    ) -> optim.GaussianGradients:
        draws = sample(key, state, NUM_SAMPLES)
        gradients = jax.vmap(jax.grad(objective))(draws)
        if setting.curvature == "gauss-newton":
            return optim.gauss_newton(gradients)
        hessians = jax.vmap(jax.hessian(objective))(draws)
        return optim.exact_hessian(gradients, hessians)

    return estimate


def exact(setting: Setting) -> Estimate:
    """The gradients of E_q[g] without noise."""
    nodes, weights = (jnp.asarray(a) for a in dense_rule(_NUM_NODES))

    def estimate(
        key: RandomKey, state: optim.FullVariationalState
    ) -> optim.GaussianGradients:
        del key
        mean, var = state.mean, state.cov[0, 0]
        in_mean, in_var = jax.grad(expected, argnums=(0, 1))(mean, var)
        if setting.curvature == "gauss-newton":
            slopes = jax.vmap(jax.grad(objective))(mean + jnp.sqrt(var) * nodes)
            in_var = 0.5 * (weights @ slopes**2)
        return optim.GaussianGradients(in_mean, in_var[None, None])

    return estimate


@ft.partial(jax.jit, static_argnames=("setting", "estimator", "num_steps"))
def follow(
    key: RandomKey,
    setting: Setting,
    estimator: Callable[[Setting], Estimate] = sampled,
    num_steps: int = NUM_STEPS,
) -> Course:
    """One run from the paper's start."""
    optimiser, estimate = setting.optimiser(), estimator(setting)
    start = optimiser.init(jnp.asarray(START_MEAN))

    def step(state: Any, key: RandomKey) -> tuple[Any, Course]:
        state = optimiser.update(estimate(key, state), state)
        return state, _seen(state)

    _, after = jax.lax.scan(step, start, jr.split(key, num_steps))
    joined = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
    return jax.tree.map(joined, _seen(start), after)


@ft.partial(jax.jit, static_argnames="setting")
def without_noise(setting: Setting) -> Course:
    """One run with exact expectations, long enough to settle."""
    return follow(jr.key(0), setting, exact, EXACT_STEPS[-1])


def _seen(state: optim.FullVariationalState) -> Course:
    return Course(state.mean, jnp.sqrt(state.cov[0, 0]), state.refused)


@ft.partial(jax.jit, static_argnames=("num_seeds", "setting"))
def many(seed: int | Int[Array, ""], num_seeds: int, setting: Setting) -> Course:
    """Runs from samples, one per seed; a run is the same whatever their number."""

    def one(i: Int[Array, ""]) -> Course:
        return follow(jr.fold_in(jr.key(seed), i), setting)

    return jax.vmap(one)(jnp.arange(num_seeds))


@jax.jit
def newton() -> Course:
    """Newton's method on g itself: a q(theta) of no width."""

    def step(theta: Scalar, _: None) -> tuple[Scalar, Scalar]:
        theta = theta - jax.grad(objective)(theta) / jax.hessian(objective)(theta)
        return theta, theta

    start = jnp.asarray(START_MEAN)
    _, after = jax.lax.scan(step, start, length=NUM_NEWTON)
    mean = jnp.concatenate([start[None], after])
    return Course(mean, jnp.zeros_like(mean), jnp.zeros(mean.shape, int))


def run(folder: Path, *, seeds: int = 100, seed: int = 0, quiet: bool = False) -> None:
    """Run everything, print where it ends, save the pictures into `folder`."""
    if seeds < 1:
        raise ValueError(f"`seeds` must be at least 1; got {seeds}.")
    if seed < 0:
        raise ValueError(f"`seed` must not be negative; got {seed}.")
    folder.mkdir(exist_ok=True)
    console = Console(markup=False)  # E[...] is no markup
    if not quiet:
        console.print(
            "g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta), from mu = -3, sigma = 3; "
            f"{NUM_SAMPLES} samples, {NUM_STEPS} iterations, lambda = "
            f"{PRIOR_PRECISION}. Minima: {', '.join(f'{m:.3f}' for m in MINIMA)}."
        )
    runs = {s: jax.device_get(many(seed, seeds, s)) for s in SAMPLED}
    exact_runs = {s: jax.device_get(without_noise(s)) for s in EXACT}
    console.print(sampled_table(runs))
    console.print(exact_table(exact_runs))
    console.print(f"Newton's method ends at {float(newton().mean[-1]):.3f}.")
    near = int(np.sum(np.abs(ends(runs[KL]) - PENALISED) <= TOLERANCE))
    console.print(
        f"With KL, {near} of {seeds} end within {TOLERANCE} of {PENALISED}; "
        f"without, {int(shares(ends(runs[NO_KL]))[1])} of {seeds} stay at "
        f"{MINIMA[1]}."
    )
    for name, figure in pictures(runs, exact_runs).items():
        figure.savefig(folder / f"vo-{name}.png", dpi=90)
    console.print(f"Pictures: {folder}", soft_wrap=True)


def ends(course: Course) -> np.ndarray:
    """The last mu of every run."""
    return np.asarray(course.mean)[..., -1]


def shares(last: np.ndarray) -> np.ndarray:
    """How many runs end near each of `MINIMA`, and how many elsewhere."""
    near = np.abs(last[:, None] - np.array(MINIMA)) <= REACH
    counts = near.sum(axis=0)
    return np.append(counts, len(last) - counts.sum())


def _columns(table: Table, *names: str) -> Table:
    for name in names:
        table.add_column(name, justify="right")
    return table


def _three_digits(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # never -0.000


def _labels(setting: Setting) -> tuple[str, str, str]:
    curvature = "E[g'^2]" if setting.curvature == "gauss-newton" else "E[g'']"
    kl = "no" if setting.prior_precision is None else "yes"
    return kl, curvature, f"{setting.step:g}, {setting.precision_step:g}"


def sampled_table(runs: dict[Setting, Course]) -> Table:
    """Over the seeds: how many end near which minimum of g."""
    some = next(iter(runs.values()))
    table = Table(title=f"ends of {some.mean.shape[0]} seeds, by the minimum of g")
    columns = ("KL", "curvature", "steps", *(f"{m:.1f}" for m in MINIMA))
    _columns(table, *columns, "other", "refused")
    for setting, course in runs.items():
        refused = np.asarray(course.refused)[:, -1].mean()
        counts = (str(int(c)) for c in shares(ends(course)))
        table.add_row(*_labels(setting), *counts, f"{refused:.1f}")
    table.caption = "refused: steps of sigma^-2 that would leave it negative, per seed"
    return table


def exact_table(runs: dict[Setting, Course]) -> Table:
    """With exact expectations: mu along the way, and sigma^2 at the end."""
    table = Table(title="exact expectations: mu after so many iterations")
    _columns(table, "KL", "curvature", "steps", *(str(n) for n in EXACT_STEPS))
    _columns(table, f"sigma^2 after {EXACT_STEPS[-1]}")
    for setting, course in runs.items():
        means = (_three_digits(float(course.mean[n])) for n in EXACT_STEPS)
        last = _three_digits(float(course.std[-1]) ** 2)
        table.add_row(*_labels(setting), *means, last)
    return table


# Pictures. Iterates are grey in all of them, from early (pale) to late (black).

_SPAN = (-5.2, 2.2)
_TOP_STD, _STD_TICKS = 3.3, (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
_CURVE, _GUIDE = "#2a6f97", "#c1121f"
# Guides and paths that would only cover one another are left out.
_APART, _MAX_PATHS = 0.04, 25


def pictures(
    runs: dict[Setting, Course], exact_runs: dict[Setting, Course]
) -> dict[str, Figure]:
    """The figures by name: the paper's three, of the first seed, and the seeds."""
    first = {s: jax.tree.map(lambda a: a[0], runs[s]) for s in (NO_KL, KL)}
    return {
        "no-kl": three_rows(first[NO_KL], "Variational optimisation without KL"),
        "kl": three_rows(first[KL], "Variational optimisation with KL"),
        "newton": three_rows(jax.device_get(newton()), "Newton's method"),
        "seeds": seeds_picture(runs, exact_runs),
    }


def three_rows(course: Course, title: str) -> Figure:
    """The paper's figure: g with mu on it, E_q[g] with the path, and the densities."""
    figure = Figure(figsize=(7.5, 8.5), layout="constrained")
    tall = {"height_ratios": [1.0, 1.15, 1.0]}
    axes = figure.subplots(3, 1, sharex=True, gridspec_kw=tall)
    mean, std = np.asarray(course.mean), np.asarray(course.std)
    for ax in axes:
        for at in _apart(mean):
            ax.axvline(at, color=_GUIDE, lw=0.7, ls="--", alpha=0.5, zorder=1)
    _function_row(axes[0], mean)
    filled = _bound_row(axes[1], mean, std)
    _density_row(axes[2], mean, std)
    label = r"$E_q[g]$"
    figure.colorbar(filled, ax=axes[1], label=label, pad=0.01, format="%g")
    figure.suptitle(
        f"{title}: from {mean[0]:.0f} to {mean[-1]:.3f} in {len(mean) - 1} iterations"
    )
    return figure


def _apart(values: np.ndarray) -> list[float]:
    """Those that are not close to one before them."""
    kept: list[float] = []
    for value in values:
        if all(abs(value - other) > _APART for other in kept):
            kept.append(float(value))
    return kept


def _shades(count: int) -> list[str]:
    """Greys from pale to black, one per iteration, most of the change early on."""
    levels = 0.82 * (1.0 - np.linspace(0.0, 1.0, count) ** 0.5)
    return [to_hex((level,) * 3) for level in levels]


def _dots(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    style = {"s": 30, "edgecolors": "black", "linewidths": 0.5, "zorder": 4}
    ax.scatter(x, y, c=_shades(len(x)), clip_on=False, **style)


def _function_row(ax: Axes, mean: np.ndarray) -> None:
    theta = np.linspace(*_SPAN, 600)
    ax.plot(theta, objective(jnp.asarray(theta)), color=_CURVE, lw=1.8, zorder=2)
    _dots(ax, mean, np.asarray(objective(jnp.asarray(mean))))
    ax.set(xlim=_SPAN, ylim=(-2.3, 2.3), ylabel=r"$g(\theta)$")
    ax.set_title(
        r"$g$, and $\mu$ at each iteration: early pale, late black", fontsize=10
    )


def _bound_row(ax: Axes, mean: np.ndarray, std: np.ndarray) -> Any:
    # The root gives the small sigma, where the minima are, most of the room.
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    root = np.linspace(0.0, np.sqrt(_TOP_STD), 200)
    mu, sigma = np.meshgrid(np.linspace(*_SPAN, 300), root**2)
    value = expected(jnp.asarray(mu), jnp.asarray(sigma**2))
    # Most of the plane is flat: levels that crowd around zero show what there is.
    above = np.array([0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0])
    levels = np.concatenate([-above[::-1], above])
    even = BoundaryNorm(levels, 256)
    filled = ax.contourf(mu, sigma, value, levels=levels, cmap="viridis", norm=even)
    ax.plot(mean, std, color="white", lw=0.9, zorder=3)
    _dots(ax, mean, std)
    ax.set(
        ylim=(0.0, _TOP_STD), ylabel=r"$\sigma$", yticks=[0, 0.1, 0.25, 0.5, 1, 2, 3]
    )
    ax.set_title(r"$E_q[g]$ over $\mu$ and $\sigma$, and the path", fontsize=10)
    return filled


def _density_row(ax: Axes, mean: np.ndarray, std: np.ndarray) -> None:
    theta = np.linspace(*_SPAN, 1200)
    shades = _shades(len(mean))
    points = bool(np.all(std == 0.0))
    for i in range(0, len(mean), 1 if points else 2):
        if points:
            ax.vlines(mean[i], 0.0, 1.0, color=shades[i], lw=1.6, zorder=2)
            continue
        z = (theta - mean[i]) / std[i]
        density = np.exp(-0.5 * z**2) / (std[i] * np.sqrt(2.0 * np.pi))
        ax.plot(theta, density, color=shades[i], lw=0.9, zorder=2)
    ax.set(xlabel=r"$\theta$ and $\mu$", ylabel=r"$q(\theta)$", xlim=_SPAN)
    ax.set_ylim(bottom=0.0, top=1.3 if points else None)
    if points:
        ax.set_yticks([])
    words = "a point at every iteration" if points else "every second iteration"
    ax.set_title(rf"$q(\theta)$, {words}", fontsize=10)


def seeds_picture(
    runs: dict[Setting, Course], exact_runs: dict[Setting, Course]
) -> Figure:
    """mu by iteration, with and without KL, for both curvatures, and all the ends."""
    figure = Figure(figsize=(9.6, 7.0), layout="constrained")
    wide = {"width_ratios": [4, 1, 4, 1]}
    grid = figure.subplots(2, 4, sharey=True, gridspec_kw=wide)
    for setting, (ax, side) in zip(runs, grid.reshape(4, 2), strict=True):
        mean = np.asarray(runs[setting].mean)
        for m in MINIMA:
            ax.axhline(m, color=_GUIDE, lw=0.7, alpha=0.7, ls=":")
            side.axhline(m, color=_GUIDE, lw=0.7, alpha=0.7, ls=":")
        ax.plot(mean[:_MAX_PATHS].T, color=_CURVE, lw=0.8, alpha=0.4)
        along = np.asarray(exact_runs[setting].mean)[: mean.shape[1]]
        ax.plot(along, color="black", lw=1.8, ls="--", label="exact expectations")
        ax.set(xlabel="iteration", ylabel=r"$\mu$", ylim=_SPAN)
        ax.set_xlim(0, mean.shape[1] - 1)
        ax.tick_params(labelleft=True)
        kl, curvature, steps = _labels(setting)
        words = "with KL" if kl == "yes" else "without KL"
        ax.set_title(f"{words}, curvature {curvature}, steps {steps}", fontsize=10)
        _end_histogram(side, mean[:, -1])
    grid[0, 0].legend(loc="upper right", frameon=False)
    total = len(ends(runs[NO_KL]))
    figure.suptitle(
        rf"$\mu$ by iteration ({min(_MAX_PATHS, total)} seeds), and the ends of all "
        rf"{total}; dotted: minima of $g$"
    )
    return figure


def _end_histogram(ax: Axes, last: np.ndarray) -> None:
    bins = np.linspace(*_SPAN, 75).tolist()
    ax.hist(last, bins=bins, orientation="horizontal", color=_CURVE)
    ax.set_xlabel("seeds")
    ax.set_title("ends", fontsize=10)
    outside = {"top": (last > _SPAN[1], 0.98), "bottom": (last < _SPAN[0], 0.02)}
    for side, (beyond, height) in outside.items():
        if beyond.any():
            words = f"{int(beyond.sum())} {'above' if side == 'top' else 'below'}"
            place = {"transform": ax.transAxes, "va": side, "ha": "center"}
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            ax.text(0.5, height, words, bbox=box, **place)
