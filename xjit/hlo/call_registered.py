"""Calls a function that a user registered for custom calls, by the interface that the call's `api_version` names."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xjit.hlo.custom_call_registry import (
    STATUS_BYTES,
    STATUS_RETURNING,
    STATUS_RETURNING_UNIFIED,
    custom_call_address,
    take_failure_message,
)
from xjit.hlo.diagnostics import ExecutionError, Span

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_INTERFACES = {
    STATUS_RETURNING: ctypes.CFUNCTYPE(None, _P, _P, _P),
    STATUS_RETURNING_UNIFIED: ctypes.CFUNCTYPE(None, _P, _P, _P, _SIZE, _P),
}
_ORIGINAL = ctypes.CFUNCTYPE(None, _P, _P)


def call_registered(
    target: str,
    api_version: str,
    opaque: bytes,
    operands: Sequence[int],
    results: Sequence[int],
    is_tuple: bool,
    span: Span | None = None,
) -> None:
    """Calls the function of a target on buffers at these addresses. Errors: ExecutionError if it says that it failed.

    `opaque` is the call's backend config. The results are those of a tuple, or there is one.
    """
    address = custom_call_address(target)
    assert address is not None, f"no function for '{target}'"
    table, outputs = _table(operands), _table(results)
    arguments = [ctypes.addressof(outputs) if is_tuple else results[0], ctypes.addressof(table)]
    if api_version not in _INTERFACES:
        _ORIGINAL(address)(*arguments)
        return
    text = ctypes.create_string_buffer(opaque)
    if api_version == STATUS_RETURNING_UNIFIED:
        arguments += [ctypes.addressof(text), len(opaque)]
    status = ctypes.create_string_buffer(STATUS_BYTES)
    _INTERFACES[api_version](address)(*arguments, ctypes.addressof(status))
    if number := int.from_bytes(status.raw, "little"):
        raise ExecutionError(f"custom-call to '{target}' failed: {take_failure_message(number)}", span)


def _table(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
