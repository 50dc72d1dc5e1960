"""The memory near the arithmetic units, in which tiles are kept."""

from __future__ import annotations

import functools
from pathlib import Path

from xjit.llvm.target import Target

USUAL_BYTES = 1 << 20
"""Of the second-level cache of a core, where the machine does not tell."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def tile_bytes(target: Target) -> int:
    """Returns how many bytes all tiles of a loop may take: half of a core's second-level cache, or a block's shared
    memory. Of CPUs it is asked of this machine.
    """
    return target.gpu.max_shared_bytes if target.gpu is not None else second_level_bytes(_CACHES) // 2


@functools.cache
def second_level_bytes(folder: Path) -> int:
    """Returns the size of the cache of level 2 that a folder of Linux's tells of."""
    for index in sorted(folder.glob("index*")):
        try:
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
        except OSError:
            continue
        if level == "2" and size.endswith("K") and size[:-1].isdigit():
            return int(size[:-1]) << 10
    return USUAL_BYTES
