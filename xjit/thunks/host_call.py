"""Steps of a GPU's program that the host does, as data: registered functions, collectives, numbers of devices."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.thunks.collective_spec import CollectiveSpec


@dataclass(frozen=True, slots=True)
class RegisteredCall:
    """A custom call to a function that a user registered. `operands` are the numbers of its operands.

    `aliases` are (operand of the function, result) pairs that are one buffer; `opaque` is the call's backend config.
    """

    target: str
    api_version: str
    opaque: bytes
    operands: tuple[int, ...]
    is_tuple: bool
    aliases: tuple[tuple[int, int], ...] = ()

    kind = "custom-call"
    flops = 0
    workspace_bytes = 0

    @property
    def symbol(self) -> str:
        """The target."""
        return self.target

    def __str__(self) -> str:
        return "on the host"


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective: the host moves the data of the devices of a group. `operands` are the numbers of its operands."""

    spec: CollectiveSpec
    operands: tuple[int, ...]

    kind = "collective"
    flops = 0
    workspace_bytes = 0

    @property
    def symbol(self) -> str:
        """The opcode."""
        return self.spec.opcode

    def __str__(self) -> str:
        return self.spec.devices


@dataclass(frozen=True, slots=True)
class DeviceIdCall:
    """The number of the replica, or of the partition, that runs the program. `symbol`: the opcode."""

    symbol: str

    kind = "device-id"
    flops = 0
    workspace_bytes = 0

    def __str__(self) -> str:
        return "of the execution"


HostCall = RegisteredCall | CollectiveCall | DeviceIdCall
