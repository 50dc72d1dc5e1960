"""Native functions that users register as targets of custom calls.

They have one of XLA's interfaces for CPUs; the call's `api_version` says which:

    API_VERSION_ORIGINAL                  void f(void* result, const void** operands)
    API_VERSION_STATUS_RETURNING          void f(void* result, const void** operands, XlaCustomCallStatus* status)
    API_VERSION_STATUS_RETURNING_UNIFIED  void f(void* result, const void** operands, const char* opaque,
                                                 size_t opaque_length, XlaCustomCallStatus* status)

`operands` points to one buffer per operand; `result` is the buffer of an array, or an array of the buffers of a tuple's
elements; `opaque` is the call's backend config. Arrays have the layouts of the instruction: row-major, unless
`operand_layout_constraints` say otherwise. Calls may come from any thread. A function fails by a call of
`custom_call_status_set_failure` with its status; the message becomes that of a Python error.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from typing import Any

from xjit.hlo.diagnostics import InvalidArgument

STATUS_RETURNING, STATUS_RETURNING_UNIFIED = "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED"

SYMBOL_PREFIX = "xjit_custom_call_"
"""What generated code calls a target, before the target's name."""

_CTYPES_FUNCTION: Any = ctypes.CFUNCTYPE(None).__base__
_NAME = re.compile(r"[A-Za-z0-9_.$-]+")
_addresses: dict[str, int] = {}
_kept_alive: list[Any] = []  # code that must stay: compiled programs call it


def register_custom_call_target(name: str, function: Any) -> None:
    """Lets custom calls to `name` run a native function, in compiled programs and in the evaluator.

    `function` is an address, a ctypes function, or anything with an `address` (a numba.cfunc). A name keeps its
    function for the life of the process. Errors: InvalidArgument for other functions and for names that are taken.
    """
    address = function if isinstance(function, int) else getattr(function, "address", None)
    if address is None and isinstance(function, _CTYPES_FUNCTION):
        address = ctypes.cast(function, ctypes.c_void_p).value
    if not isinstance(address, int) or isinstance(address, bool) or address <= 0:
        raise InvalidArgument(
            f"custom-call target '{name}' must be an address or a native function, found {function!r}"
        )
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"custom-call target {name!r}: expected letters, digits and _ . $ -")
    if _addresses.setdefault(name, address) != address:
        raise InvalidArgument(f"custom-call target '{name}' is registered already, with another function")
    _kept_alive.append(function)


def custom_call_address(name: str) -> int | None:
    """The address of the function of a registered target."""
    return _addresses.get(name)


def registered_targets() -> list[str]:
    """The names of the registered targets."""
    return sorted(_addresses)


STATUS_BYTES = 8
"""The size of an `XlaCustomCallStatus`: an integer that is 0 until the function fails, then the number of a message."""

MAX_MESSAGES = 1000
_messages: dict[int, str] = {}
_numbers = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
def custom_call_status_set_failure(status: int, message: int, length: int) -> None:
    """`void(XlaCustomCallStatus* status, const char* message, size_t length)`: the custom call has failed.

    A native function, as XLA's `XlaCustomCallStatusSetFailure`; `ctypes.cast(_, c_void_p).value` is its address. It may
    be called from any thread, without the GIL. The message is copied.
    """
    number = next(_numbers)
    _messages[number] = ctypes.string_at(message, length).decode("utf-8", "replace")
    while len(_messages) > MAX_MESSAGES:  # of failures that other failures of the same call hid
        _messages.pop(next(iter(_messages)), None)
    ctypes.c_int64.from_address(status).value = number


def take_failure_message(number: int) -> str:
    """Returns the message that a status holds the number of; it is given once."""
    return _messages.pop(number, "")
