"""Does the steps that a GPU's program leaves to the host, on buffers in the host's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo.call_registered import call_registered
from xjit.hlo.diagnostics import ExecutionError
from xjit.runtime.collectives.communicator import Communicator
from xjit.runtime.collectives.movement import Places
from xjit.thunks import CollectiveCall, DeviceIdCall, HostCall, RegisteredCall


@dataclass(frozen=True, slots=True)
class Device:
    """One of the devices that run a program, by its number among all, and what it meets the others with."""

    communicator: Communicator
    number: int
    replica: int
    partition: int


def do_on_host(call: HostCall, operands: Sequence[int], results: Sequence[int], sizes: Sequence[int],
               device: Device | None) -> None:  # fmt: skip
    """Does a step. Addresses of the operands and the results; `sizes`: bytes of the operands.

    Errors: ExecutionError of the function, or of a collective; StoppedError if another device failed.
    """
    match call:
        case RegisteredCall():
            given = [operands[number] for number in call.operands]
            for operand, result in call.aliases:
                if given[operand] != results[result]:
                    ctypes.memmove(results[result], given[operand], sizes[call.operands[operand]])
                given[operand] = results[result]
            call_registered(call.target, call.api_version, call.opaque, given, results, call.is_tuple)
        case CollectiveCall():
            places = Places(tuple(operands[number] for number in call.operands), tuple(results))
            here = _required(device)
            here.communicator.run(here.number, call.spec, places)
        case DeviceIdCall():
            here = _required(device)
            number = here.replica if call.symbol == "replica-id" else here.partition
            ctypes.c_uint32.from_address(results[0]).value = number


def _required(device: Device | None) -> Device:
    if device is None:
        raise ExecutionError("a program of several devices was called on one: call execute_sharded")
    return device
