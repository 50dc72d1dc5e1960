"""Python functions that programs call: JAX's pure_callback, io_callback, debug.print, debug.callback, buffer_callback.

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
from xjit.hlo.custom_call_registry import custom_call_status_set_failure, register_custom_call_target
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.callback_buffers import Buffer, CallbackContext
from xjit.jax_backend.transfers import row_major_strides, view
from xjit.ops.custom_call_targets import STATUS_RETURNING_UNIFIED

_BUFFER_TARGET: Final = "xla_buffer_python_cpu_callback"

JAX_TARGETS: Final = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback", _BUFFER_TARGET)
"""The targets that JAX writes."""

ATTRIBUTE: Final = "xjit_callbacks"
"""The frontend attribute of a module that holds the number of its list of functions."""

_TARGET: Final = "xjit_python_callback"
_INDEX: Final = re.compile(r"index\s*=\s*(\d+)")


@dataclass(frozen=True, slots=True)
class _Callback:
    function: Callable[..., Sequence[Any]]
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    has_tuple: bool  # the results are elements of a tuple
    takes_buffers: bool  # it writes results itself, to buffers that it gets after those of the operands


_lists: dict[int, Sequence[Callable[..., Any]]] = {}
_callbacks: dict[int, _Callback] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


class Callbacks:
    """The callbacks of one program; they are forgotten with it."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)

    def __del__(self) -> None:
        for number in self.numbers:
            _callbacks.pop(number, None)


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
    made: list[int] = []
    for computation in module.computations():
        for call in tuple(computation.instructions):
            attributes = call.attributes
            if isinstance(attributes, CustomCallAttributes) and attributes.custom_call_target in JAX_TARGETS:
                made.append(_bind(call, functions))
    if made:
        _register()
    return Callbacks(made)


def _bind(call: HloInstruction, functions: Sequence[Callable[..., Any]] | None) -> int:
    found = _INDEX.search(call.raw_backend_config)
    if functions is None or found is None or int(found[1]) >= len(functions):
        raise InvalidArgument("a callback without its function: only JAX in this process can compile it", call.span)
    number = next(_numbers)
    results = tuple(call.shape.tuple_shapes) if call.shape.is_tuple else (call.shape,)
    operands = tuple(operand.shape for operand in call.operands)
    arrays = tuple(shape for shape in results if shape.is_array)
    is_tuple = call.shape.is_tuple or not arrays
    attributes = call.attributes_as(CustomCallAttributes)
    takes_buffers = attributes.custom_call_target == _BUFFER_TARGET
    _callbacks[number] = _Callback(functions[int(found[1])], operands, results, is_tuple, takes_buffers)
    native = HloInstruction.create_custom_call(
        Shape.tuple_of(arrays) if is_tuple else call.shape,
        [operand for operand in call.operands if operand.shape.is_array],
        (),
        _TARGET,
        custom_call_has_side_effect=True,
        output_to_operand_aliasing=attributes.output_to_operand_aliasing,
        operand_layout_constraints=tuple(shape for shape in operands if shape.is_array),
        api_version=STATUS_RETURNING_UNIFIED,
    )
    native.raw_backend_config = str(number)
    native.metadata = call.metadata
    _replace(call, native, results)
    return number


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


def _register() -> None:
    with _lock:
        register_custom_call_target(_TARGET, _call_python)


_POINTER_SIZE: Final = ctypes.sizeof(ctypes.c_void_p)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
def _call_python(result: int, operands: int, opaque: int, length: int, status: int) -> None:
    """The target of all callbacks: `opaque` is a number of one. What the function raises fails the program."""
    try:
        callback = _callbacks[int(ctypes.string_at(opaque, length))]
        sources = _arrays(callback.operands, operands)
        targets = _arrays(callback.results, result) if callback.has_tuple else [_array(result, callback.results[0])]
        if callback.takes_buffers:
            inputs = [Buffer(array, writeable=False) for array in sources if array is not None]
            outputs = [Buffer(array, writeable=True) for array in targets if array is not None]
            callback.function(CallbackContext(), *inputs, *outputs)
            return
        values = callback.function(*(None if array is None else array.copy() for array in sources))
        for target, value in zip(targets, values, strict=True):
            if target is not None:
                target[...] = value
    except BaseException as error:
        text = "".join(traceback.format_exception(error)).encode("utf-8", "replace")
        custom_call_status_set_failure(status, ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))


def _arrays(shapes: Sequence[Shape], table: int) -> list[np.ndarray[Any, Any] | None]:
    """The arrays behind a table of pointers; tokens are None and have none."""
    places = itertools.count(table, _POINTER_SIZE)  # only arrays have one
    pointers = (ctypes.c_void_p.from_address(next(places)).value if shape.is_array else 0 for shape in shapes)
    return [_array(pointer or 0, shape) if shape.is_array else None for pointer, shape in zip(pointers, shapes)]


def _array(address: int, shape: Shape) -> np.ndarray[Any, Any]:
    dtype = shape.element_type.dtype
    assert dtype is not None
    memory = view(address, shape.dimensions, row_major_strides(shape.dimensions, dtype.itemsize), dtype.itemsize)
    return memory.view(dtype)
