"""Pictures of the runs: the paper's three, and one of all seeds.

Iterates are grey in all of them, from pale (early) to black (late).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, to_hex
from matplotlib.figure import Figure

from motleygp.demos.vo.example import KL, MINIMA, NO_KL, Setting, expected, objective
from motleygp.demos.vo.runs import Course, ends, newton
from motleygp.demos.vo.summary import labels

_SPAN = (-5.2, 2.2)
_TOP_STD, _STD_TICKS = 3.3, (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
_CURVE, _GUIDE = "#2a6f97", "#c1121f"
# Guides closer than this, and paths beyond this number, would only cover one another.
_APART, _MAX_PATHS = 0.04, 25


def pictures(
    runs: dict[Setting, Course], exact_runs: dict[Setting, Course]
) -> dict[str, Figure]:
    """The figures by name: the paper's three for the first seed, and all seeds."""
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
    """The values, without those close to an earlier one."""
    kept: list[float] = []
    for value in values:
        if all(abs(value - other) > _APART for other in kept):
            kept.append(float(value))
    return kept


def _shades(count: int) -> list[str]:
    """Greys from pale to black, one per iteration, which change most at the start."""
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
    # The square root gives most of the room to small sigma, where the minima are.
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    root = np.linspace(0.0, np.sqrt(_TOP_STD), 200)
    mu, sigma = np.meshgrid(np.linspace(*_SPAN, 300), root**2)
    value = expected(jnp.asarray(mu), jnp.asarray(sigma**2))
    # Most of the plane is flat: levels that crowd around zero show its structure.
    above = np.array([0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0])
    levels = np.concatenate([-above[::-1], above])
    even = BoundaryNorm(levels, 256)
    filled = ax.contourf(mu, sigma, value, levels=levels, cmap="viridis", norm=even)
    ax.plot(mean, std, color="white", lw=0.9, zorder=3)
    _dots(ax, mean, std)
    ax.set(ylim=(0.0, _TOP_STD), ylabel=r"$\sigma$", yticks=_STD_TICKS)
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
    """mu by iteration with and without KL, for both curvatures, and all ends."""
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
        kl, curvature, steps = labels(setting)
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
