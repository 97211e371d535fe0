"""The clock by which runs are timed."""

import time

import jax


def seconds() -> float:
    """The processor's time of this process, in which pauses and other processes do not
    count; the passing time where an accelerator does the work."""
    on_cpu = jax.default_backend() == "cpu"
    return time.process_time() if on_cpu else time.perf_counter()
