"""Functions that programs call: of JAX's pure_callback, io_callback, debug.callback, buffer_callback and ffi_call.

JAX lowers them to custom calls with a number, and hands the functions to the backend's compiler beside the program.
What is lowered for this backend gets, on the way (`xjit.jax_backend.registration`), a number of this process instead.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import STATUS_RETURNING_UNIFIED, custom_call_status_set_failure
from xjit.hlo.diagnostics import ExecutionError, HloError, InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.c_api import ErrorCode
from xjit.jax_backend.callback_buffers import Buffer, CallbackContext
from xjit.jax_backend.ffi.calls import FfiCall, handler
from xjit.jax_backend.requests import CodedError
from xjit.jax_backend.transfers import row_major_strides, view

_BUFFER_TARGET: Final = "xla_buffer_python_cpu_callback"

PARTITIONED_TARGET: Final = "xla_ffi_partitioned_python_cpu_callback"
"""The target of calls that each device makes with its part of the operands."""

JAX_TARGETS: Final = ("xla_ffi_python_cpu_callback", PARTITIONED_TARGET, _BUFFER_TARGET)
"""The targets that JAX writes."""

_TYPED_FFI: Final = "API_VERSION_TYPED_FFI"

ATTRIBUTE: Final = "xjit_callbacks"
"""The frontend attribute of a module that holds the number of its list of functions."""

TARGET: Final = "xjit_python_callback"
"""The name of the native target that all calls get, which calls `call_python`."""
_INDEX: Final = re.compile(r"index\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class _Callback:
    """Calls a Python function with arrays; tokens are None."""

    function: Callable[..., Sequence[Any]]
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    takes_buffers: bool  # it writes results itself, to buffers that it gets after those of the operands

    def __call__(self, operands: Sequence[int], results: Sequence[int]) -> None:
        """Calls it with memory at these addresses, which tokens have none of."""
        sources, targets = _arrays(self.operands, operands), _arrays(self.results, results)
        if self.takes_buffers:
            inputs = [Buffer(array, writeable=False) for array in sources if array is not None]
            outputs = [Buffer(array, writeable=True) for array in targets if array is not None]
            self.function(CallbackContext(), *inputs, *outputs)
            return
        values = self.function(*(None if array is None else array.copy() for array in sources))
        for target, value in zip(targets, values, strict=True):
            if target is not None:
                target[...] = value


@dataclass(frozen=True, slots=True)
class _Target:
    """What a call runs, and how many addresses it has for it. Without a tuple the one result is given as such."""

    run: Callable[[Sequence[int], Sequence[int]], None]
    num_operands: int
    num_results: int
    has_tuple: bool


_lists: dict[int, Sequence[Callable[..., Any]]] = {}
_targets: dict[int, _Target] = {}
_numbers = itertools.count(1)


class _Failed(threading.local):
    """The error of the last function that has failed on this thread."""

    error: CodedError | None = None


_failed = _Failed()


def failure_of_function(error: BaseException) -> BaseException:
    """What ended a program on this thread: the error of a function that it called, if there is one, with its place."""
    failed, _failed.error = _failed.error, None
    if failed is None:
        return error
    notes = error.notes if isinstance(error, HloError) else ()
    return CodedError(failed.code, "\n".join([str(failed), *(f"  note: {note}" for note in notes)]))


class Callbacks:
    """The callbacks of one program; they are forgotten with it."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def __del__(self) -> None:
        for number in self.numbers:
            _targets.pop(number, None)


def announce(functions: Sequence[Callable[..., Any]]) -> int:
    """Keeps the functions of a program that is about to be compiled; returns their number."""
    number = next(_numbers)
    _lists[number] = functions
    return number


def withdraw(number: int) -> None:
    """Forgets what was announced: the program is compiled."""
    _lists.pop(number, None)


def bind_callbacks(module: HloModule) -> Callbacks:
    """Turns JAX's custom calls of a module to native ones of ours. Errors: InvalidArgument for unknown functions."""
    number = module.frontend_attributes.pop(ATTRIBUTE, "")
    functions = _lists.get(int(number)) if number else None
    made = Callbacks()
    for computation in module.computations():
        for call in tuple(computation.instructions):
            attributes = call.attributes
            if not isinstance(attributes, CustomCallAttributes):
                continue
            is_typed = attributes.api_version == _TYPED_FFI and handler(attributes.custom_call_target) is not None
            if is_typed or attributes.custom_call_target in JAX_TARGETS:
                made.numbers.append(_bind(call, functions))
    return made


def _bind(call: HloInstruction, functions: Sequence[Callable[..., Any]] | None) -> int:
    number = next(_numbers)
    results = tuple(call.shape.tuple_shapes) if call.shape.is_tuple else (call.shape,)
    arrays = tuple(shape for shape in results if shape.is_array)
    operands = [operand for operand in call.operands if operand.shape.is_array]
    is_tuple = call.shape.is_tuple or not arrays
    attributes = call.attributes_as(CustomCallAttributes)
    run = _function_of(call, results, functions)
    native = HloInstruction.create_custom_call(
        Shape.tuple_of(arrays) if is_tuple else call.shape,
        operands,
        (),
        TARGET,
        custom_call_has_side_effect=True,
        output_to_operand_aliasing=attributes.output_to_operand_aliasing,
        operand_layout_constraints=_layouts_of(call),
        api_version=STATUS_RETURNING_UNIFIED,
    )
    native.raw_backend_config = str(number)
    native.metadata = call.metadata
    _replace(call, native, results)
    _targets[number] = _Target(run, len(operands), len(arrays), is_tuple)
    return number


def _layouts_of(call: HloInstruction) -> tuple[Shape, ...]:
    """The operands as the call takes them: row-major unless it says otherwise."""
    given = call.attributes_as(CustomCallAttributes).operand_layout_constraints
    shapes = given if given is not None else [operand.shape for operand in call.operands]
    return tuple(shape for shape in shapes if shape.is_array)


def _function_of(
    call: HloInstruction, results: tuple[Shape, ...], functions: Sequence[Callable[..., Any]] | None
) -> Callable[[Sequence[int], Sequence[int]], None]:
    target = call.attributes_as(CustomCallAttributes).custom_call_target
    operands = tuple(operand.shape for operand in call.operands)
    typed = handler(target)
    if typed is not None:
        arrays = [[shape for shape in shapes if shape.is_array] for shapes in (operands, results)]
        return FfiCall(typed, call.raw_backend_config, *arrays)
    found = _INDEX.search(call.raw_backend_config)
    if functions is None or found is None or int(found[1]) >= len(functions):
        raise InvalidArgument("a callback without its function: only JAX in this process can compile it", call.span)
    return _Callback(functions[int(found[1])], operands, results, target == _BUFFER_TARGET)


def _replace(call: HloInstruction, native: HloInstruction, results: Sequence[Shape]) -> None:
    """Puts a call without tokens into the place of one with them: control edges keep what the tokens ordered."""
    computation = call.parent
    assert computation is not None
    computation.add_instruction(native)
    token = next((shape for shape in results if shape.is_token), None)
    done: HloInstruction | None = None
    if token is not None:
        done = computation.add_instruction(HloInstruction.create_after_all(token, ()))
        native.add_control_dependency_to(done)
    for operand in call.operands:
        if operand.shape.is_token:
            operand.add_control_dependency_to(native)
    value = native
    if done is not None:
        value = done
        if call.shape.is_tuple:
            numbers = itertools.count()
            parts = [
                computation.add_instruction(HloInstruction.create_get_tuple_element(native, next(numbers)))
                if shape.is_array
                else done
                for shape in results
            ]
            value = computation.add_instruction(HloInstruction.create_tuple(parts))
    computation.replace_instruction(call, value)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def call_python(result: int, operands: int, opaque: int, length: int, status: int) -> None:
    """Does a call: `opaque` is the number of one. What the function raises fails the program."""
    try:
        target = _targets[int(ctypes.string_at(opaque, length))]
        results = _addresses(result, target.num_results) if target.has_tuple else [result]
        target.run(_addresses(operands, target.num_operands), results)
        ctypes.c_int64.from_address(status).value = 0
    except BaseException as error:
        _failed.error = error if isinstance(error, CodedError) else CodedError(ErrorCode.INTERNAL, _text_of(error))
        text = str(_failed.error).encode("utf-8", "replace")
        custom_call_status_set_failure(status, ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))


def _text_of(error: BaseException) -> str:
    """An exception of a user's function as XLA says it, from that function's frames on."""
    if isinstance(error, ExecutionError):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return f"CpuCallback error calling callback: {''.join(lines).rstrip()}"


def _addresses(table: int, count: int) -> list[int]:
    return [address or 0 for address in (ctypes.c_void_p * count).from_address(table)] if count else []


def _arrays(shapes: Sequence[Shape], addresses: Sequence[int]) -> list[np.ndarray[Any, Any] | None]:
    """The arrays at addresses; tokens are None and have none."""
    places = iter(addresses)
    return [_array(next(places), shape) if shape.is_array else None for shape in shapes]


def _array(address: int, shape: Shape) -> np.ndarray[Any, Any]:
    dtype = shape.element_type.dtype
    assert dtype is not None
    memory = view(address, shape.dimensions, row_major_strides(shape.dimensions, dtype.itemsize), dtype.itemsize)
    return memory.view(dtype)
