"""The compiled programs of a process."""

import logging
from pathlib import Path

import jax

_log = logging.getLogger(__name__)
_MAPS, _LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
# The share of the memory maps that programs may take before they are dropped.
_SHARE = 0.5


def make_room() -> None:
    """Drop all compiled programs if they leave little room for others.

    XLA maps memory for each program, and the process crashes where Linux allows no
    further map: 65530 by default, after some hundred fits of different shapes.
    """
    try:
        with _MAPS.open("rb") as file:
            used = sum(1 for _ in file)
        limit = int(_LIMIT.read_text())
    except (OSError, ValueError):  # not Linux
        return
    if used > _SHARE * limit:
        _log.info("dropping compiled programs: %d of %d memory maps", used, limit)
        jax.clear_caches()
