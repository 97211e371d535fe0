"""The bare calls of one of MotleyGP's steps: BLAS, LAPACK and special functions alone.

The list follows the default step (`core.step` with `optim.fng()`) on one block of rows
and a factorised q(u). There is nothing else here: no elementwise arithmetic, no sums,
no copies between the calls, and everything is in the caches. Where more than one call
would do, all are timed, and the fastest counts.

Matrices are in Fortran's order, as BLAS wants them. Triangular factors are the
identity, so that repeated calls keep their values; the time does not depend on them.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from scipy.linalg import blas, lapack

from libraries.served import Arrays, Settings, serve
from motleygp.numerics.quadrature import hermite_rule
from motleygp.numerics.special import stirling_remainder, stirling_remainder_slope

Call = Callable[[], Any]

# Of f2py, whose types are not known.
_blas: Any = blas
_lapack: Any = lapack


class Part(NamedTuple):
    """Calls of one kind: how often a step makes them, and the ways to do it."""

    label: str
    times: int
    ways: tuple[Call, ...]


def _random(*shape: int) -> np.ndarray:
    return np.asfortranarray(np.random.default_rng(0).uniform(0.5, 1.5, shape))


def _triangular_times(other: np.ndarray) -> tuple[Call, ...]:
    """A triangular M x M matrix times another one."""
    eye = np.asfortranarray(np.eye(len(other)))
    work, out = other.copy(order="F"), np.zeros_like(other, order="F")
    return (
        lambda: _blas.dtrmm(1.0, eye, work, lower=1, overwrite_b=1),
        lambda: _blas.dgemm(1.0, eye, other, c=out, overwrite_c=1),
    )


def _product(a: np.ndarray, b: np.ndarray, trans_b: int = 0) -> tuple[Call, ...]:
    shape = (a.shape[0], b.shape[0] if trans_b else b.shape[1])
    out = np.zeros(shape, order="F")
    return (lambda: _blas.dgemm(1.0, a, b, trans_b=trans_b, c=out, overwrite_c=1),)


def factorisations(m: int, groups: int) -> list[Part]:
    """Of K_uu and of the new precision, with their inverses."""
    matrix = np.asfortranarray(np.eye(m) + 0.1 / m)
    work, eye = matrix.copy(order="F"), np.asfortranarray(np.eye(m))

    def factorise() -> None:
        np.copyto(work, matrix)
        _lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)

    def invert() -> None:
        _lapack.dtrtri(eye, lower=1, overwrite_c=1)

    return [
        Part("Cholesky, M x M", 2 * groups, (factorise,)),
        Part("triangular inverse, M x M", 2 * groups, (invert,)),
    ]


def products(m: int, b: int, p: int, groups: int, functions: int) -> list[Part]:
    """The matrix products. L is the factor of K_uu, B = L^-1 K_uf, H of q(u)."""
    wide, vector, in_square = _random(m, b), _random(b), _random(m)
    square, out = _random(m, m), _random(m, b)
    mixing, few = _random(functions, groups), _random(groups, b)
    own = _with_many_columns if b >= 2 * m else _with_few_columns
    return [
        *own(wide, square, groups),
        *_of_kernel(m, b, p, groups),
        # B^T m and B g_m, and the rank-one term of B'; then H twice and P twice.
        Part(
            "M x B times a vector",
            2 * groups,
            (lambda: _blas.dgemv(1.0, wide, vector),),
        ),
        Part(
            "rank-one update, M x B",
            groups,
            (lambda: _blas.dger(1e-30, in_square, vector, a=out, overwrite_a=1),),
        ),
        Part(
            "M x M times a vector",
            4 * groups,
            (lambda: _blas.dgemv(1.0, square, in_square),),
        ),
        # Means and variances of the functions, and back to processes and weights.
        Part("mixing, J x Q times Q x B", 6, _product(mixing, few)),
    ]


def _with_many_columns(wide: np.ndarray, square: np.ndarray, groups: int) -> list[Part]:
    return [
        # L^-1 K_uf, H B; L^-T (V - I) times the weighted B; B diag(g_v) B^T.
        Part("triangular M x M times M x B", 2 * groups, _triangular_times(wide)),
        Part("M x M times M x B", groups, _product(square, wide)),
        Part("M x B times B x M", groups, _product(wide, wide, trans_b=1)),
        # V, L^-T (V - I), L^-T Phi and that by L^-1, and H P in the length of the step;
        # V - I times B diag(g_v) B^T.
        Part("triangular M x M times M x M", 5 * groups, _triangular_times(square)),
        Part("M x M times M x M", groups, _product(square, square)),
    ]


def _with_few_columns(wide: np.ndarray, square: np.ndarray, groups: int) -> list[Part]:
    return [
        # L^-1 K_uf, H B, H^T (H B)', L^-T B'.
        Part("triangular M x M times M x B", 4 * groups, _triangular_times(wide)),
        # B' B^T for K_uu', B diag(g_v) B^T for q(u).
        Part("M x B times B x M", 2 * groups, _product(wide, wide, trans_b=1)),
        # L^-T Phi and that by L^-1 for K_uu', H P in the length of the step.
        Part("triangular M x M times M x M", 3 * groups, _triangular_times(square)),
    ]


def _of_kernel(m: int, b: int, p: int, groups: int) -> list[Part]:
    """The distances, and their derivatives in both sides."""
    sites, points, both = _random(p + 2, m + b), _random(m, p + 2), _random(m, m + b)
    names = ("M x P times P x (M + B)", "M x (M + B) times (M + B) x P")
    return [
        Part(f"kernel, {names[0]}", groups, _product(points, sites)),
        Part(f"kernel, {names[1]}", groups, _product(both, sites, trans_b=1)),
        Part(
            "kernel, P x M times M x (M + B)", groups, _product(_random(p + 2, m), both)
        ),
    ]


def kernels_and_draws(
    m: int, b: int, p: int, groups: int, functions: int
) -> list[Part]:
    """The exponentials of the kernels, and the draw of theta."""
    distance, rng = -_random(m, m + b), np.random.default_rng(0)
    out = np.empty_like(distance)
    size = groups * (m * p + p + functions)
    return [
        Part("exp, M x (M + B)", groups, (lambda: np.exp(distance, out=out),)),
        Part("normal draws of theta", 1, (lambda: rng.standard_normal(size),)),
    ]


def expectations(b: int, nodes: int) -> list[Part]:
    """The special functions of the five types, and their derivatives."""
    line = len(hermite_rule(3 * nodes, trim=True)[0])
    side = len(hermite_rule(nodes, trim=True)[0])
    # Beta: both functions on a line, and their sum on a plane. Gamma: one on a line.
    gammas = _random(b * (2 * side + side**2 + line)) * 3.0
    exps = _random(b * (4 * side + line + 6))
    softplus = _random(3 * b * line)

    def of_scipy() -> None:
        np.multiply(gammas, np.log(gammas))
        scipy.special.gammaln(gammas)
        scipy.special.psi(gammas)

    def of_ours() -> None:
        stirling_remainder(gammas)
        stirling_remainder_slope(gammas)

    def smooth() -> None:
        np.log1p(np.exp(softplus))

    return [
        Part("log-gamma and digamma at the nodes", 1, (of_scipy, of_ours)),
        Part("softplus at the nodes", 1, (smooth,)),
        Part("exp at the nodes", 1, (lambda: np.exp(exps),)),
    ]


class BareCalls:
    """Runs all calls of a step, as often as a step makes them."""

    def __init__(self, arrays: Arrays, settings: Settings):
        groups, m, p = arrays["Z"].shape
        b, functions = settings["batch"], len(arrays["weights"])
        self.parts = [
            *factorisations(m, groups),
            *products(m, b, p, groups, functions),
            *kernels_and_draws(m, b, p, groups, functions),
        ]
        if settings["kind"] == "mixed":
            self.parts += expectations(b, settings["nodes"])
        self.seconds: list[list[float]] = [[0.0] * len(x.ways) for x in self.parts]

    def run(self, rows: np.ndarray) -> None:
        """The calls of so many steps, way by way."""
        for part, seconds in zip(self.parts, self.seconds, strict=True):
            for place, way in enumerate(part.ways):
                begun = time.perf_counter()
                for _ in range(len(rows) * part.times):
                    way()
                seconds[place] = (time.perf_counter() - begun) / len(rows)

    def bound(self) -> float:
        """Nothing is trained."""
        return float("nan")

    def parameters(self) -> Arrays:
        """Seconds per step of the last run by part, the fastest way of each."""
        return {
            part.label: np.array([part.times, min(seconds)])
            for part, seconds in zip(self.parts, self.seconds, strict=True)
        }


if __name__ == "__main__":
    serve(BareCalls)
