"""Compilation with options of the library's own, program by program.

On a CPU, most of the wait for a first answer is XLA's compiler. Its older emitters and
a lower level of optimisation compile these programs three times as fast, at nearly the
same speed; for programs that run a few times, no optimisation at all is faster still.
The options apply to the library's own programs, and leave the process as it is.
"""

import contextlib
import functools as ft
import gc
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import equinox as eqx
import jax
from jax.core import Tracer
from threadpoolctl import ThreadpoolController

_LEVEL = "xla_backend_optimization_level"
_NO_OPTIMISATION = "jax_disable_most_optimizations"
_USUAL = {
    "xla_cpu_use_fusion_emitters": False,
    _LEVEL: 1,
    # It makes two programs of each sum, for threads that these programs do not use.
    "xla_disable_hlo_passes": "tree_reduction_rewriter",
}
_QUICK = _USUAL | {_LEVEL: 0}
# Up to so many rows, a call takes less time than the optimisations would.
_FEW_ROWS = 1024

_Options: TypeAlias = tuple[tuple[str, Any], ...]


# Equinox passes further arguments on to JAX, which its types do not say.
_jit: Any = eqx.filter_jit


class _OneThread:
    """One thread for LAPACK while programs run, in any number of Python's threads.

    XLA calls the LAPACK of SciPy, whose threads wait for one another by spinning. Two
    make a small factorisation no faster, and sixty times as slow where other processes
    keep the cores busy.
    """

    def __init__(self) -> None:
        self._lock, self._running, self._limit = threading.Lock(), 0, None

    @ft.cached_property
    def _libraries(self) -> ThreadpoolController:
        # To find them takes longer than a short program.
        return ThreadpoolController()

    def __enter__(self) -> None:
        with self._lock:
            if not self._running:
                self._limit = self._libraries.limit(limits=1, user_api="blas")
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running and self._limit is not None:
                self._limit.restore_original_limits()


_ONE_THREAD = _OneThread()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector, which takes an eighth of the time of tracing
    and finds nothing: what tracing makes is kept."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Compiled:
    """`equinox.filter_jit` of a function, with the library's compile options."""

    def __init__(self, fn: Callable[..., Any], options: Mapping[str, Any]):
        ft.update_wrapper(self, fn)
        self._fn, self._options = fn, tuple(options.items())
        self._programs: dict[_Options, Callable[..., Any]] = {}

    @ft.cached_property
    def quick(self) -> "Compiled":
        """The same for a few calls on few numbers: nothing is optimised."""
        return Compiled(self._fn, _QUICK)

    def for_rows(self, num_rows: int, few: int = _FEW_ROWS) -> "Compiled":
        """The program for one call on so many rows: `quick` if they are few."""
        return self.quick if num_rows <= few else self

    def __call__(self, *args: Any) -> Any:
        # Inside a program of the caller's, whose options are in force.
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(args)):
            return self._fn(*args)
        options = _in_force(self._options)
        if options not in self._programs:
            self._programs[options] = _jit(self._fn, compiler_options=dict(options))
        with _ONE_THREAD, _no_collection():
            return jax.block_until_ready(self._programs[options](*args))


def compiled(fn: Callable[..., Any]) -> Compiled:
    """`fn` as a program of the library's."""
    return Compiled(fn, _USUAL)


def usual_options() -> dict[str, Any]:
    """The options of `compiled`, for programs compiled ahead of their calls."""
    return dict(_in_force(tuple(_USUAL.items())))


def _in_force(options: _Options) -> _Options:
    return () if _left_alone() else _known(options)


def setting_of_jax(name: str) -> Any:
    """A setting of JAX: some are attributes of its configuration, others are read."""
    try:
        return getattr(jax.config, name)
    except AttributeError:
        return jax.config.read(name)


def _left_alone() -> bool:
    """Whether options of JAX's own are in force: another device, or no optimisation."""
    return jax.default_backend() != "cpu" or setting_of_jax(_NO_OPTIMISATION)


@ft.cache
def _known(options: _Options) -> _Options:
    """The options that this version of JAX knows, without those that the user set."""
    own = os.environ.get("XLA_FLAGS", "")
    options = tuple(option for option in options if option[0] not in own)
    if _accepted(options):
        return options
    return tuple(option for option in options if _accepted((option,)))


def _accepted(options: _Options) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
