"""The client, its devices and their memory spaces, as native structs."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.jax_backend.platforms import CPU, Platform
from xjit.jax_backend.records import CLIENT, DEVICE, MEMORY, PTHREAD_SIZE, QUEUE
from xjit.jax_backend.requests import Memory, Request
from xjit.llvm.host_cpu import host_features
from xjit.llvm.struct_layout import StructLayout
from xjit.version import __version__

NUM_DEVICES_VARIABLE: Final = "XJIT_NUM_DEVICES"
"""Environment variable: how many devices the backend shows, all of them this machine's CPU, or simulated GPUs."""

MAX_DEVICES: Final = 1024

PLATFORM_NAME: Final = "cpu"
"""What JAX lowers for, for GPUs too: its rules for CPUs, whose custom calls xjit has. Its own name is a platform's."""

MEMORY_KINDS: Final = ("device", "pinned_host", "unpinned_host")
"""As of JAX's own CPU devices; the first is the default. All of them are the same memory."""


_MEMORY_NAMES: Final = (
    ("CPU_DEVICE", "CpuDeviceMemory"),
    ("PINNED_HOST", "PinnedHostMemory"),
    ("UNPINNED_HOST", "UnpinnedHostMemorySpace"),
)
"""How XLA's print, short and long, without their numbers."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client's structs by address, which `keep_alive` holds.

    `topology` is what code depends on besides the program: a key of JAX's cache of compiled programs.
    """

    address: int
    platform: Platform
    topology: Memory
    devices: tuple[int, ...]
    queues: tuple[int, ...]
    keep_alive: tuple[Memory, ...]


def device_of_memory(memory: int) -> int:
    """The device that has a memory space."""
    return Request(MEMORY, memory).numbers("devices", "num_devices")[0]


def default_memory(device: int) -> int:
    """The memory space where a device's buffers are, if nobody says another."""
    return Request(DEVICE, device)["default_memory"]


def default_device(client: int) -> int:
    """The first device of a client."""
    return Request(CLIENT, client).numbers("devices", "num_devices")[0]


def num_devices(platform: Platform = CPU) -> int:
    """The number that the environment asks for, else JAX's `jax_num_cpu_devices`, else that of XLA's flag
    `--xla_force_host_platform_device_count`, else 1. Of real GPUs: all, or as many as the environment asks for.

    Errors: InvalidArgument; FailedPrecondition without a GPU.
    """
    import jax
    from jaxlib import xla_client

    if platform.has_own_memory:
        from xjit.runtime.cuda import cuda_device_count  # for GPUs alone

        number = cuda_device_count()
        return _asked_for(number, number)
    settings: Any = jax.config
    if (count := settings.jax_num_cpu_devices) < 0:
        flags = xla_client.CompileOptions().executable_build_options.debug_options
        count = flags.xla_force_host_platform_device_count
    return _asked_for(max(count, 1), MAX_DEVICES)


def _asked_for(default: int, maximum: int) -> int:
    text = os.environ.get(NUM_DEVICES_VARIABLE) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= maximum:
        names = f"{NUM_DEVICES_VARIABLE}, jax_num_cpu_devices"
        raise InvalidArgument(f"the number of devices ({names}) must be from 1 to {maximum}, got {text!r}")
    return int(text)


def is_asynchronous() -> bool:
    """Whether calls may return before their results are there: JAX's `jax_cpu_enable_async_dispatch`."""
    import jax

    settings: Any = jax.config
    return settings._read("jax_cpu_enable_async_dispatch")


class ClientBuilder:
    """Makes the structs of a client of a platform with a number of devices."""

    def __init__(self, platform: Platform, count: int) -> None:
        self._platform = platform
        self._kept: list[Memory] = []
        self._queues: list[int] = []
        self._count = count

    def build(self) -> Client:
        """The client."""
        devices = [self._keep(b"\0" * DEVICE.size).address for _ in range(self._count)]
        memories: list[int] = []
        for number, device in enumerate(devices):
            table = self._keep_numbers([device])
            own = [self._memory(number, kind, table) for kind in range(len(MEMORY_KINDS))]
            self._fill_device(device, number, own)
            memories += own
        version = f"xjit {__version__}"
        address = self._struct(
            CLIENT,
            num_devices=len(devices),
            devices=self._keep_numbers(devices),
            memories=self._keep_numbers(memories),
            num_memories=len(memories),
            **self._text("platform_name", PLATFORM_NAME),
            **self._text("platform_version", version),
        )
        target = f"{self._platform.target}, " if self._platform.is_gpu else ""
        topology = Memory(f"{version}, {target}{len(devices)} devices: {host_features()}")
        return Client(address, self._platform, topology, tuple(devices), tuple(self._queues), tuple(self._kept))

    def _memory(self, device: int, kind: int, devices: int) -> int:
        name = MEMORY_KINDS[kind]
        number = device * len(MEMORY_KINDS) + kind
        short, long = _MEMORY_NAMES[kind]
        return self._struct(
            MEMORY,
            id=number,
            kind_id=kind,
            devices=devices,
            num_devices=1,
            **self._text("kind", name),
            **self._text("debug_string", f"{long}(id={number}, process_index=0, client=xjit)"),
            **self._text("to_string", f"{short}_{number}"),
        )

    def _fill_device(self, address: int, number: int, memories: list[int]) -> None:
        self._fill(
            address,
            DEVICE,
            id=number,
            is_addressable=1,
            memories=self._keep_numbers(memories),
            num_memories=len(memories),
            default_memory=memories[0],
            own_address=address,
            queue=self._queue(),
            is_host=not self._platform.has_own_memory,
            **self._text("kind", self._platform.device_kind),
            **self._text("debug_string", f"{self._platform.device_kind}:{number}"),
            **self._text("to_string", f"{self._platform.device_class}(id={number})"),
        )

    def _queue(self) -> int:
        mutex, changed = (self._keep(b"\0" * PTHREAD_SIZE).address for _ in range(2))
        self._queues.append(self._struct(QUEUE, mutex=mutex, changed=changed))
        return self._queues[-1]

    def _struct(self, layout: StructLayout, **fields: int) -> int:
        return self._keep(layout.pack(**fields)).address

    def _fill(self, address: int, layout: StructLayout, **fields: int) -> None:
        packed = layout.pack(**fields)
        ctypes.memmove(address, packed, len(packed))

    def _text(self, field: str, text: str) -> dict[str, int]:
        kept = self._keep(text.encode())
        return {field: kept.address, f"{field}_size": kept.size}

    def _keep_numbers(self, numbers: list[int]) -> int:
        return self._keep(Memory.of_numbers(numbers)).address

    def _keep(self, data: bytes | Memory) -> Memory:
        self._kept.append(data if isinstance(data, Memory) else Memory(data))
        return self._kept[-1]
