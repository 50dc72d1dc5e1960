"""A program that needs more memory than the machine has compiles; its calls are refused before they allocate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from xjit.hlo.diagnostics import ResourceExhausted
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.program import CpuProgram


def _physical_memory() -> int:
    """Bytes of memory of this machine; 2^40 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


PHYSICAL_MEMORY = _physical_memory()


def refused_call(program: CpuProgram | GpuModule) -> Callable[..., Any] | None:
    """Returns what stands for a call, on this machine, of a program that needs too much: it raises ResourceExhausted.

    None for others.
    """
    sizes = {
        "arguments": sum(signature.byte_size for signature in program.parameters),
        "results": sum(signature.byte_size for signature in program.results),
        "temporary values": program.arena_size,
    }
    needed = sum(sizes.values())
    if needed <= PHYSICAL_MEMORY:
        return None
    parts = ", ".join(f"{size:,} of {what}" for what, size in sizes.items())

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise ResourceExhausted(
            f"program {program.name!r} failed: RESOURCE_EXHAUSTED: a call needs {needed:,} bytes ({parts}); "
            f"this machine has {PHYSICAL_MEMORY:,}"
        )

    return refuse
