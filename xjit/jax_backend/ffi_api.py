"""The API that handlers of XLA's typed interface are given.

Errors can be made, read and destroyed. Everything else (streams, state, scratch memory, thread pools) is refused with
an error. An error is the address of its message.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

from xjit.jax_backend.ffi_structs import HEADER, ErrorRequest, SizedStruct

_VERSION: Final = (0, 3)
_NUM_FUNCTIONS: Final = 18

HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_errors: dict[int, ctypes.Array[ctypes.c_char]] = {}


def _new_error(message: bytes) -> int:
    text = ctypes.create_string_buffer(message)
    address = ctypes.addressof(text)
    _errors[address] = text
    return address


@HANDLER
def _error_create(request: int) -> int:
    return _new_error(ctypes.string_at(ErrorRequest.from_address(request).subject))


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
def _refuse(_request: int) -> int:
    return _new_error(b"xjit's backend does not have this function of XLA's FFI")


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
    functions = [_error_create, _error_get_message, _error_destroy, *[_refuse] * (_NUM_FUNCTIONS - 3)]
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return _Api(
        version=_Version(major=_VERSION[0], minor=_VERSION[1]), functions=(ctypes.c_void_p * _NUM_FUNCTIONS)(*addresses)
    )


API: Final = _make_api()


def take_message(error: int) -> str:
    """The message of an error, which ends."""
    message = _errors.pop(error, None)
    return message.value.decode("utf-8", "replace") if message is not None else "a failure"
