"""Requests of the caller as Python sees them, and the memory that answers point into."""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xjit.hlo.diagnostics import (
    ArrayTooLarge,
    CompileError,
    ExecutionError,
    FailedPrecondition,
    HloError,
    InvalidArgument,
    ResourceExhausted,
    Unsupported,
)
from xjit.jax_backend.c_api import ErrorCode
from xjit.jax_backend.records import ANSWER, CALLBACK, ERROR, EVENT, READY
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import PTR

_T = TypeVar("_T")
_FOREVER = 1 << 40
_CTYPES = {8: ctypes.c_int8, 32: ctypes.c_int32, 64: ctypes.c_int64}


class Request:
    """The fields of a struct at an address. Pointers are numbers, 0 for null."""

    __slots__ = ("_layout", "address")

    def __init__(self, layout: StructLayout, address: int) -> None:
        self._layout = layout
        self.address = address

    def __getitem__(self, field: str) -> int:
        return self._place(field).value or 0

    def __setitem__(self, field: str, value: int) -> None:
        self._place(field).value = value

    def _place(self, field: str) -> ctypes.c_int64 | ctypes.c_void_p:
        kind = self._layout.type_of(field)
        ctype = ctypes.c_void_p if kind is PTR else _CTYPES[kind.bits]
        return ctype.from_address(self.address + self._layout.offsets[field])  # pyright: ignore[reportReturnType]

    def bytes(self, field: str, size_field: str) -> bytes:
        """The bytes that a pointer and a length describe."""
        address, size = self[field], self[size_field]
        return ctypes.string_at(address, size) if address else b""

    def numbers(self, field: str, count_field: str) -> tuple[int, ...]:
        """The i64 numbers that a pointer and a count describe."""
        address, count = self[field], self[count_field]
        return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()


class Memory:
    """Bytes that native code may read for as long as this object lives."""

    __slots__ = ("_data", "address", "size")

    def __init__(self, data: bytes | str) -> None:
        raw = data.encode() if isinstance(data, str) else data
        self._data = ctypes.create_string_buffer(raw, len(raw) + 1)
        self.address = ctypes.addressof(self._data)
        self.size = len(raw)

    def __bytes__(self) -> bytes:
        return self._data.raw[: self.size]

    @staticmethod
    def of_numbers(numbers: Sequence[int], bits: int = 64) -> Memory:
        """An array of integers of 32 or 64 bits, or of addresses."""
        return Memory(b"".join((n & (1 << bits) - 1).to_bytes(bits // 8, "little") for n in numbers))


def static_error(code: ErrorCode, message: str) -> tuple[int, tuple[Memory, Memory]]:
    """An error that never ends: its address, and what must be kept alive for ever."""
    text = Memory(message)
    packed = ERROR.pack(references=_FOREVER, code=code, message=text.address, message_size=text.size)
    record = Memory(packed)
    return record.address, (text, record)


def static_ready_event(error: int = 0) -> Memory:
    """An event that is ready, and never ends, with a static error or (0) without."""
    return Memory(EVENT.pack(references=_FOREVER, waiting=READY, error=error))


_system_malloc = ctypes.CDLL(None).malloc
_system_malloc.restype, _system_malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)

_system_free = ctypes.CDLL(None).free
_system_free.restype, _system_free.argtypes = None, (ctypes.c_void_p,)


def _malloc(num_bytes: int) -> int:
    address = _system_malloc(num_bytes)
    if not address:
        raise MemoryError(f"Out of memory allocating {num_bytes} bytes")
    return address


_no_memory, _kept_no_memory = static_error(ErrorCode.RESOURCE_EXHAUSTED, "Out of memory")


def new_error(code: ErrorCode, message: str) -> int:
    """The address of an error with one reference, which native code frees; without memory, of one that never ends."""
    text = message.encode("utf-8", "replace")
    try:
        address = _malloc(ERROR.size + len(text) + 1)
    except MemoryError:
        return _no_memory
    packed = ERROR.pack(references=1, code=code, message=address + ERROR.size, message_size=len(text))
    ctypes.memmove(address, packed + text + b"\0", ERROR.size + len(text) + 1)
    return address


def new_event(error: int = 0, *, is_ready: bool = True, references: int = 1) -> int:
    """The address of an event, which native code frees."""
    address = _malloc(EVENT.size)
    packed = EVENT.pack(references=references, waiting=READY if is_ready else 0, error=error)
    ctypes.memmove(address, packed, EVENT.size)
    return address


def free_struct(address: int) -> None:
    """Frees a struct that native code allocated, or that nobody has seen."""
    _system_free(address)


def free_event(address: int) -> None:
    """Frees an event that nobody has seen, with what it would call and its error."""
    event = Request(EVENT, address)
    waiting, error = event["waiting"], event["error"]
    while waiting not in (0, READY):
        waiting, node = Request(CALLBACK, waiting)["next"], waiting
        free_struct(node)
    if error and error != _no_memory:
        free_struct(error)
    free_struct(address)


def new_ending(function: int, subject: int, argument: int) -> int:
    """The address of an event, not ready, that calls `function(subject, argument)` once it is."""
    event = new_event(is_ready=False)
    try:
        node = _malloc(CALLBACK.size)
    except MemoryError:
        free_struct(event)
        raise
    packed = CALLBACK.pack(function=function, subject=subject, argument=argument)
    ctypes.memmove(node, packed, CALLBACK.size)
    Request(EVENT, event)["waiting"] = node
    return event


class CodedError(Exception):
    """An error of the caller's interface: its code and its text."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def failure_of(error: int) -> CodedError:
    """The exception for what is asked of an array that has failed; `error` is the address of its error."""
    fields = Request(ERROR, error)
    return CodedError(ErrorCode(fields["code"]), fields.bytes("message", "message_size").decode("utf-8", "replace"))


_CODES = (  # the first class that fits decides
    (InvalidArgument, ErrorCode.INVALID_ARGUMENT),
    (Unsupported, ErrorCode.UNIMPLEMENTED),
    (ResourceExhausted, ErrorCode.RESOURCE_EXHAUSTED),
    (MemoryError, ErrorCode.RESOURCE_EXHAUSTED),
    (ArrayTooLarge, ErrorCode.RESOURCE_EXHAUSTED),
    (FailedPrecondition, ErrorCode.FAILED_PRECONDITION),
    (ExecutionError, ErrorCode.INTERNAL),
    (CompileError, ErrorCode.INTERNAL),
    (HloError, ErrorCode.INVALID_ARGUMENT),
)


def error_of(error: BaseException) -> int:
    """The address of a new error for a Python exception: of ours its text, of others the traceback as well."""
    if isinstance(error, CodedError):
        return new_error(error.code, str(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return new_error(code, str(error))
    return new_error(ErrorCode.INTERNAL, "".join(traceback.format_exception(error)))


_questions: dict[int, Any] = {}
"""What was begun for an answer, by the number of the question."""

_MAX_INTERRUPTIONS = 1000


def give_answer(cell: int, begin: Callable[[], _T], go_on: Callable[[_T], int]) -> None:
    """Answers native code, whatever the handlers of signals raise meanwhile: it raises that afterwards.

    `cell` is the address of an ANSWER. Of what was begun once for a question `go_on` makes the answer; where it was
    interrupted it is called again.
    """
    answer = Request(ANSWER, cell)
    number = answer["question"]
    for _ in range(_MAX_INTERRUPTIONS):
        try:
            if not answer["answer"]:  # it may be interrupted when it is done, and nothing begins again
                begun = _questions.setdefault(number, begin())
                answer["answer"] = go_on(begun)
            _questions.pop(number, None)
            return
        except BaseException as error:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))  # of the last one, it is native code's
            answer["raised"] = id(error)
