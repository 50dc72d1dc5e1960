"""What a handler of XLA's typed interface keeps: states, which its stages make for later ones, and scratch memory."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from xjit.hlo.diagnostics import InvalidArgument, ResourceExhausted
from xjit.jax_backend.ffi.structs import TypeInfo
from xjit.runtime.thread_pool import running_pool

INSTANTIATE, PREPARE, INITIALIZE, EXECUTE = range(4)  # XLA_FFI_ExecutionStage

_ALIGNMENT: Final = 64
"""Bytes, of scratch memory."""

_DELETE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_deleters: dict[int, Callable[[int], None]] = {}
_contexts: dict[int, Context] = {}
_numbers = itertools.count(1)


def register_type(registration: Mapping[str, Any], address: Callable[[Any], int]) -> None:
    """Keeps how states of a type end, by its number, which XLA has given it; `address` is that in a capsule."""
    number = ctypes.c_int64.from_address(address(registration["type_id"])).value
    info = registration.get("type_info")
    deleter = TypeInfo.from_address(address(info)).deleter if info is not None else None
    if deleter:
        _deleters[number] = _DELETE(deleter)


class States:
    """The states of some stages: of each its type and its address. They end with this object."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, int]] = {}

    def set(self, stage: int, type_id: int, state: int) -> None:
        """Keeps one. Errors: InvalidArgument for a stage that has one."""
        if stage in self._found:
            raise InvalidArgument(f"stage {stage} of a call of XLA's FFI has a state already")
        self._found[stage] = type_id, state

    def get(self, stage: int, type_id: int) -> int | None:
        """That of a stage, None if it has none. Errors: InvalidArgument for one of another type."""
        if stage not in self._found:
            return None
        kind, state = self._found[stage]
        if kind != type_id:
            raise InvalidArgument(f"the state of a call of XLA's FFI has type {kind}, not {type_id}")
        return state

    def __del__(self) -> None:
        for type_id, state in self._found.values():
            if type_id in _deleters:
                _deleters[type_id](state)


class Context:
    """One call of a handler in one stage. `number` stands for it in C; scratch memory that is left ends with it."""

    def __init__(self, shared: States, own: States) -> None:
        """`shared` is what the handler was instantiated with, `own` belongs to the execution."""
        self.number = next(_numbers)
        self._shared, self._own = shared, own
        self._scratch: set[int] = set()
        self._lock = threading.Lock()
        _contexts[self.number] = self

    def states(self, stage: int) -> States:
        """Those that have the one of a stage."""
        return self._shared if stage == INSTANTIATE else self._own

    def allocate(self, size: int, alignment: int) -> int:
        """The address of scratch memory. Errors: InvalidArgument, ResourceExhausted."""
        if alignment > _ALIGNMENT:
            raise InvalidArgument(f"scratch memory that is aligned to {alignment} bytes: at most {_ALIGNMENT}")
        data = running_pool().alloc(max(size, 1))
        if not data:
            raise ResourceExhausted(f"Out of memory allocating {size} bytes of scratch memory")
        with self._lock:
            self._scratch.add(data)
        return data

    def free(self, data: int) -> None:
        """Frees scratch memory. Errors: InvalidArgument for other memory."""
        with self._lock:
            if data not in self._scratch:
                raise InvalidArgument(f"memory at {data:#x} is not scratch memory of this call")
            self._scratch.remove(data)
        running_pool().free(data)

    def end(self) -> None:
        """The call is done."""
        del _contexts[self.number]
        for data in tuple(self._scratch):
            self.free(data)


def context_of(number: int | None) -> Context:
    """The context that a handler names. Errors: InvalidArgument."""
    found = _contexts.get(number or 0)
    if found is None:
        raise InvalidArgument("a call of XLA's FFI that has ended, or of another program")
    return found
