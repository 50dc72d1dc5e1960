"""The memory of arrays as native code: a block of the warm pool, or of a device that has its own, by way of Python.

* `ptr xjit_data_new(device, i64 bytes)`: a byte at least; null if there is no memory.
* `void xjit_data_free(device, data)`: callers hold locks, so what Python has to give back is only noted.
* `ptr xjit_data_freed(device)`: the list of what was noted, which is the caller's now.
* `ptr xjit_data_copy(source_device, source, target_device, target, i64 bytes)`: a reference to an error, or null.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.native.questions import ask, ask_for_error
from xjit.jax_backend.records import DEVICE, FREED
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

ALLOCATE_DATA: Final = "xjit_allocate_data"
"""The variable of `void (*)(device, i64 bytes, answer)`: the address of memory of a device, or `NO_DATA`."""

COPY_DATA: Final = "xjit_copy_data"
"""The variable of `void (*)(source_device, source, target_device, target, i64 bytes, answer)`: the error or null."""

DATA_FREED: Final = "xjit_data_freed"

NO_DATA: Final = -1


def define_device_data(module: Module) -> None:
    """Defines them. The module must have questions."""
    for name in (ALLOCATE_DATA, COPY_DATA):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_new(module)
    _define_free(module)
    _define_freed(module)
    _define_copy(module)


def is_host(builder: StructuredBuilder, device: Value) -> Value:
    """Emits the question whether the memory of a device is this machine's."""
    return builder.icmp_signed("!=", DEVICE.load(builder, device, "is_host"), const_int(I32, 0))


def _define_new(module: Module) -> None:
    builder = define(module, "xjit_data_new", [(PTR, "device"), (I64, "bytes")], return_type=PTR)
    device, num_bytes = builder.function.args
    wanted = builder.intrinsic("smax", I64, [num_bytes, builder.i64(1)])
    with builder.when(is_host(builder, device)):
        builder.ret(builder.call(module.declare("xjit_scratch_alloc", PTR, [I64]), [wanted], name="data"))
    answer = ask(builder, ALLOCATE_DATA, device, wanted)
    there = builder.icmp_signed("!=", answer, builder.i64(NO_DATA))
    builder.ret(builder.inttoptr(builder.select(there, answer, builder.i64(0)), PTR))


def _define_free(module: Module) -> None:
    """Without memory for the note it is lost."""
    builder = define(module, "xjit_data_free", [(PTR, "device"), (PTR, "data")])
    device, data = builder.function.args
    with builder.when(is_host(builder, device)):
        builder.call(module.declare("xjit_scratch_free", VOID, [PTR]), [data])
        builder.ret_void()
    with builder.when(builder.not_(builder.is_null(data))):
        freed = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(FREED.size)], name="freed")
        with builder.when(builder.not_(builder.is_null(freed))):
            FREED.store(builder, freed, "data", data)
            place = DEVICE.pointer(builder, device, "freed")
            with builder.repeat() as loop:
                first = builder.load_atomic(PTR, place, align=8)
                FREED.store(builder, freed, "next", first)
                _, is_swapped = builder.cmpxchg(place, first, freed)
                loop.leave_if(is_swapped)
    builder.ret_void()


def _define_freed(module: Module) -> None:
    builder = define(module, DATA_FREED, [(PTR, "device")], linkage="", return_type=PTR)
    place = DEVICE.pointer(builder, builder.function.args[0], "freed")
    builder.ret(builder.atomicrmw("xchg", place, zero(PTR), "acq_rel", "freed"))


def _define_copy(module: Module) -> None:
    names = ("source_device", "source", "target_device", "target")
    params = [*((PTR, name) for name in names), (I64, "bytes")]
    builder = define(module, "xjit_data_copy", params, return_type=PTR)
    source_device, source, target_device, target, num_bytes = builder.function.args
    with builder.when(builder.and_(is_host(builder, source_device), is_host(builder, target_device))):
        builder.memcpy(target, source, num_bytes)
        builder.ret(zero(PTR))
    builder.ret(ask_for_error(builder, COPY_DATA, builder.function.args))
