"""The API that handlers of XLA's typed interface are given.

Errors can be made, read and destroyed; an error is the address of its message. The pool of threads is the caller's
thread, which the interface allows. A handler may return before its work is done, with a future that it completes
later. States and scratch memory belong to a context (`contexts`). What is not known here is refused with an error:
streams, user data of an execution, and the numbers of run and device.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final

from xjit.hlo.diagnostics import HloError, ResourceExhausted
from xjit.jax_backend.c_api import ErrorCode
from xjit.jax_backend.ffi.contexts import context_of
from xjit.jax_backend.ffi.structs import (
    HEADER,
    AllocateRequest,
    ErrorRequest,
    FreeRequest,
    FutureRequest,
    NumThreadsRequest,
    ScheduleRequest,
    SizedStruct,
    StateRequest,
)
from xjit.jax_backend.requests import CodedError

_VERSION: Final = (0, 3)
_NUM_FUNCTIONS: Final = 18

HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_TASK: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_errors: dict[int, tuple[ErrorCode, ctypes.Array[ctypes.c_char]]] = {}


class _Future:
    """Work of a handler that may end after it returned, with an error or (0) without."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error = 0


_futures: dict[int, _Future] = {}
_future_numbers = itertools.count(1)


def _new_error(message: bytes, code: int = ErrorCode.UNIMPLEMENTED) -> int:
    text = ctypes.create_string_buffer(message)
    address = ctypes.addressof(text)
    _errors[address] = ErrorCode(code) if code in tuple(ErrorCode) else ErrorCode.UNKNOWN, text
    return address


@HANDLER
def _error_create(request: int) -> int:
    fields = ErrorRequest.from_address(request)
    return _new_error(ctypes.string_at(fields.subject), fields.code)


@HANDLER
def _error_get_message(request: int) -> int:
    fields = ErrorRequest.from_address(request)
    fields.message = fields.subject  # an error is its message
    return 0


@HANDLER
def _error_destroy(request: int) -> int:
    _errors.pop(ErrorRequest.from_address(request).subject, None)
    return 0


@HANDLER
def _schedule(request: int) -> int:
    fields = ScheduleRequest.from_address(request)
    _TASK(fields.task)(fields.data)
    return 0


@HANDLER
def _num_threads(request: int) -> int:
    NumThreadsRequest.from_address(request).num_threads[0] = 1
    return 0


@HANDLER
def _future_create(request: int) -> int:
    number = next(_future_numbers)
    _futures[number] = _Future()
    FutureRequest.from_address(request).future = number
    return 0


@HANDLER
def _future_set_available(request: int) -> int:
    _futures[FutureRequest.from_address(request).future].done.set()
    return 0


@HANDLER
def _future_set_error(request: int) -> int:
    fields = FutureRequest.from_address(request)
    future = _futures[fields.future]
    future.error = fields.error
    future.done.set()
    return 0


def _answering(answer: Callable[[int], None]) -> Any:
    """A function of the interface whose exceptions are its errors."""

    @HANDLER
    def answered(request: int) -> int:
        try:
            answer(request)
        except ResourceExhausted as error:
            return _new_error(str(error).encode(), ErrorCode.RESOURCE_EXHAUSTED)
        except HloError as error:
            return _new_error(str(error).encode(), ErrorCode.INVALID_ARGUMENT)
        return 0

    return answered


@_answering
def _state_set(request: int) -> None:
    fields = StateRequest.from_address(request)
    context_of(fields.context).states(fields.stage).set(fields.stage, fields.type_id[0], fields.state)


@_answering
def _state_get(request: int) -> None:
    fields = StateRequest.from_address(request)
    fields.state = context_of(fields.context).states(fields.stage).get(fields.stage, fields.type_id[0])


@_answering
def _memory_allocate(request: int) -> None:
    fields = AllocateRequest.from_address(request)
    fields.data = context_of(fields.context).allocate(fields.size, fields.alignment)


@_answering
def _memory_free(request: int) -> None:
    fields = FreeRequest.from_address(request)
    context_of(fields.context).free(fields.data)


@HANDLER
def _refuse(_request: int) -> int:
    return _new_error(b"xjit's backend does not have this function of XLA's FFI")


_FUNCTIONS: Final = {
    place: function
    for first, functions in (
        (0, (_error_create, _error_get_message, _error_destroy)),
        (7, (_state_set, _state_get, _memory_allocate, _memory_free)),
        (11, (_schedule, _num_threads, _future_create, _future_set_available, _future_set_error)),
    )
    for place, function in enumerate(functions, first)
}
"""By their places among the functions of XLA_FFI_Api."""


class _Version(SizedStruct):
    _fields_: ClassVar = [*HEADER, ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Api(SizedStruct):
    _fields_: ClassVar = [
        *HEADER,
        ("version", _Version),
        ("internal_api", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * _NUM_FUNCTIONS),
    ]


def _make_api() -> _Api:
    functions = [_FUNCTIONS.get(place, _refuse) for place in range(_NUM_FUNCTIONS)]
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return _Api(
        version=_Version(major=_VERSION[0], minor=_VERSION[1]), functions=(ctypes.c_void_p * _NUM_FUNCTIONS)(*addresses)
    )


API: Final = _make_api()


def wait_for(future: int) -> int:
    """Waits for a future, which ends; returns its error, 0 for none."""
    work = _futures[future]
    work.done.wait()
    del _futures[future]
    return work.error


def take_error(error: int) -> CodedError:
    """The exception for an error, which ends."""
    code, message = _errors.pop(error, (ErrorCode.UNKNOWN, None))
    return CodedError(code, message.value.decode("utf-8", "replace") if message is not None else "a failure")
