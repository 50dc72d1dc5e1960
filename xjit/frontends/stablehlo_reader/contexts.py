"""The context of MLIR that is kept: to make one takes longer than to read a small program in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from xjit.frontends.stablehlo_reader.values import Types

_PROGRAMS_PER_CONTEXT: Final = 256
"""A context never forgets a type, a constant or a location."""

MAX_BYTES: Final = 1 << 16
"""Larger programs are rare, and their constants would be kept."""


class KeptContext:
    """The context of MLIR, and the shapes of its types. Used by one thread at a time."""

    def __init__(self) -> None:
        from jax.interpreters import mlir

        self.context = mlir.make_ir_context()
        self.types = Types()
        self.programs = 0


_lock = threading.Lock()
_kept: list[KeptContext] = []
_lost: list[KeptContext] = []
"""Contexts in the middle of something that no thread will ever end: neither to be used nor to be freed."""


def _after_fork_in_child() -> None:
    global _lock
    if _lock.locked():  # by a thread that does not exist in the child
        _lost.extend(_kept)
        _kept.clear()
        _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


@contextmanager
def kept_context(num_bytes: int) -> Generator[KeptContext]:
    """Lends the context for one program of that size, to one thread at a time. A large one has a context of its own."""
    if num_bytes > MAX_BYTES:
        yield KeptContext()
        return
    with _lock:
        if not _kept or _kept[0].programs >= _PROGRAMS_PER_CONTEXT:
            _kept[:] = [KeptContext()]
        kept = _kept[0]
        kept.programs += 1
        yield kept


def parse_program(kept: KeptContext, data: bytes) -> Any:
    """Returns the module of MLIR of a text, of bytecode, or of a portable artifact. Errors: jaxlib's."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    if b"StableHLO_v" in data[:64]:
        return stablehlo.deserialize_portable_artifact(kept.context, data)
    return ir.Module.parse(data, kept.context)
