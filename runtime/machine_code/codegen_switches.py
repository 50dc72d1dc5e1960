"""LLVM's switches of code generation: the whole process's. Who generates code sets them, and is alone meanwhile.

Numba and others that share llvmlite see them, too. Those for CPUs trade nothing that was measurable in the speed of
explicit-vector code for half the compile time; GPUs get LLVM's own.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import llvmlite.binding as llvm

_DISABLED: Final = (
    "lsr", "cgp", "post-ra", "postra-machine-sink", "mergeicmps", "constant-hoisting", "partial-libcall-inlining",
)  # fmt: skip
"""Passes that find nothing to do in code of explicit vectors, or nothing that CPUs with reordering gain by."""

_ALIGNED_LOOPS: Final = ("-x86-experimental-pref-innermost-loop-alignment=6",)
"""Innermost loops start at a line of 64 bytes: where a short one lies decides up to 12 % of its speed otherwise."""

FOR_CPUS: Final = (
    *(f"-disable-{name}=true" for name in _DISABLED),
    "-enable-misched=false",
    "-enable-shrink-wrap=false",
    *(_ALIGNED_LOOPS if platform.machine() == "x86_64" else ()),
)
FOR_GPUS: Final = tuple(f"-disable-{name}=false" for name in _DISABLED)
"""The other switches mean nothing there."""

_lock = threading.RLock()
_current: Sequence[str] = ()


def _after_fork_in_child() -> None:
    """Other threads, which may have held the lock, or were setting switches, do not exist in the child."""
    global _lock, _current
    _lock = threading.RLock()
    _current = ()


os.register_at_fork(after_in_child=_after_fork_in_child)


@contextmanager
def generating_code(switches: Sequence[str] = FOR_CPUS) -> Generator[None]:
    """Until its end these switches hold, and no other thread generates code."""
    global _current
    with _lock:  # which a fork meanwhile does not exchange here
        if _current != switches:
            for switch in switches:
                llvm.set_option("xjit", switch)
            _current = switches
        yield
