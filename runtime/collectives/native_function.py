"""`xjit_collective`: what generated code calls at a collective.

`i32 xjit_collective(ptr context, ptr spec, i64 spec_bytes, ptr operands, ptr results)` takes the text of a
`CollectiveSpec` and arrays of addresses. Not 0: the call is to end; why is kept by the communicator.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.runtime.collectives.communicator import StoppedError, communicator_of
from xjit.runtime.collectives.movement import Places
from xjit.thunks.collective_spec import CollectiveSpec, collective_spec_from_text

_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


@functools.cache
def collective_function() -> tuple[Any, int]:
    """The function, to be kept, and its address."""
    function = _FUNCTION(_collective)
    return function, ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=4096)
def _spec(text: bytes) -> CollectiveSpec:
    return collective_spec_from_text(text.decode())


def _collective(context: int, spec_address: int, spec_bytes: int, operands: int, results: int) -> int:
    fields = EXECUTION_CONTEXT.unpack(ctypes.string_at(context, EXECUTION_CONTEXT.size))
    try:
        communicator, device = communicator_of(fields)
    except Exception:
        return 1
    try:
        spec = _spec(ctypes.string_at(spec_address, spec_bytes))
        places = Places(_addresses(operands, len(spec.operands)), _addresses(results, _num_results(spec)))
        communicator.run(device, spec, places)
    except StoppedError:
        return 1
    except BaseException as error:
        communicator.stop(error)
        return 1
    return 0


def _num_results(spec: CollectiveSpec) -> int:
    return 1 if spec.opcode == "ragged-all-to-all" else len(spec.operands)


def _addresses(table: int, count: int) -> tuple[int, ...]:
    return tuple(address or 0 for address in (ctypes.c_void_p * count).from_address(table)) if count else ()
