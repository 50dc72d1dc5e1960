"""Calls of functions that users register with `jax.ffi.register_ffi_target`, by XLA's typed interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xjit.hlo.custom_call_registry import register_custom_call_target
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.ffi.api import API, HANDLER, take_error, wait_for
from xjit.jax_backend.ffi.attribute_list import AttributeList
from xjit.jax_backend.ffi.contexts import EXECUTE, INITIALIZE, INSTANTIATE, PREPARE, Context, States, register_type
from xjit.jax_backend.ffi.structs import Buffer, CallFrame, Values
from xjit.ops.lapack_targets import LAPACK_TARGETS, PERTURBED_TARGET
from xjit.runtime.capsules import capsule_name, capsule_pointer

_STAGES: Final = {"instantiate": INSTANTIATE, "prepare": PREPARE, "initialize": INITIALIZE, "execute": EXECUTE}
_BUFFER: Final = 1  # of XLA_FFI_ArgType and XLA_FFI_RetType

_DATA_TYPES: Final = {
    "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9, "f16": 10, "f32": 11,
    "f64": 12, "c64": 15, "bf16": 16, "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21, "u4": 22,
    "f8e4m3b11fnuz": 23, "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29,
    "f4e2m1fn": 32, "f8e8m0fnu": 33,
}  # fmt: skip
"""XLA_FFI_DataType by HLO's names."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The functions of a target by stage; `kept` is what holds them."""

    stages: Mapping[int, Callable[[int], int | None]]
    kept: Any


_handlers: dict[str, Handler] = {}


def register(name: str, function: Any, api_version: int) -> None:
    """Keeps what JAX registers for CPUs: a capsule, or one per stage. Those of LAPACK are not needed.

    An `api_version` of 0 is that of untyped functions. Errors: InvalidArgument for a name that is taken by another.
    """
    if name in LAPACK_TARGETS or name == PERTURBED_TARGET:
        return
    capsules = function if isinstance(function, dict) else {"execute": function}
    if api_version == 0:
        register_custom_call_target(name, _address(capsules["execute"]))
    else:
        stages = {_STAGES[stage]: HANDLER(_address(capsule)) for stage, capsule in capsules.items()}
        _handlers[name] = Handler(stages, function)


def register_state_type(registration: Mapping[str, Any]) -> None:
    """Keeps what JAX registers: capsules of a `type_id` that XLA has numbered, and of its `type_info`."""
    register_type(registration, _address)


def handler(name: str) -> Handler | None:
    """The typed function for a target."""
    return _handlers.get(name)


def _address(capsule: Any) -> int:
    return capsule_pointer(capsule, capsule_name(capsule)) or 0


@dataclass(frozen=True, slots=True)
class _Side:
    """Operands or results: what the buffers of a call have in common."""

    shapes: tuple[tuple[int, Any, int], ...]  # data type, dimensions, rank

    @staticmethod
    def of(shapes: Sequence[Shape]) -> _Side:
        return _Side(
            tuple(
                (
                    _DATA_TYPES[shape.element_type.text],
                    (ctypes.c_int64 * len(shape.dimensions))(*shape.dimensions),
                    len(shape.dimensions),
                )
                for shape in shapes
            )
        )

    def values(self, pointers: Sequence[int]) -> tuple[Values, list[Any]]:
        """The struct of a call, and what it points to."""
        buffers = [
            Buffer(dtype=dtype, data=pointer, rank=rank, dims=ctypes.addressof(dims))
            for (dtype, dims, rank), pointer in zip(self.shapes, pointers, strict=True)
        ]
        count = len(buffers)
        types = (ctypes.c_int * count)(*[_BUFFER] * count)
        places = (ctypes.c_void_p * count)(*map(ctypes.addressof, buffers))
        made = Values(size=count, types=ctypes.addressof(types), values=ctypes.addressof(places))
        return made, [buffers, types, places]


class FfiCall:
    """Calls a handler with the buffers of an execution. `config` is the call's backend config.

    A stage `instantiate` runs now, with attributes alone; `prepare` and `initialize` run before each execution.
    Errors: Unsupported for attributes that are not read; CodedError where the handler returns an error.
    """

    def __init__(self, handler: Handler, config: str, operands: Sequence[Shape], results: Sequence[Shape]) -> None:
        self._handler = handler
        self._attributes = AttributeList(config)
        self._operands, self._results = _Side.of(operands), _Side.of(results)
        self._states = States()
        nothing = _Side(()).values(())[0]
        self._run(INSTANTIATE, nothing, nothing, States())

    def __call__(self, operands: Sequence[int], results: Sequence[int]) -> None:
        arguments, kept = self._operands.values(operands)
        returned, also_kept = self._results.values(results)
        own = States()
        for stage in (PREPARE, INITIALIZE, EXECUTE):
            self._run(stage, arguments, returned, own)
        del kept, also_kept

    def _run(self, stage: int, arguments: Values, results: Values, own: States) -> None:
        function = self._handler.stages.get(stage)
        if function is None:
            return
        context = Context(self._states, own)
        try:
            frame = CallFrame(
                api=ctypes.addressof(API),
                context=context.number,
                stage=stage,
                arguments=arguments,
                results=results,
                attributes=self._attributes.struct,
            )
            error = function(ctypes.addressof(frame))
            if frame.future:
                error = wait_for(frame.future)
        finally:
            context.end()
        if error:
            raise take_error(error)
