"""The native launcher: puts kernels and copies on a stream, from tables that were filled when the program was loaded.

One call does a whole sequence. Of a call, only the addresses of its buffers are new; each argument of a kernel is one
of them plus an offset.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from xjit.llvm import Module
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR
from xjit.llvm.values import Value, const_int, zero
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.machine_code.symbols import resolve_symbols

MAX_ARGUMENTS = 1024
"""Arguments of a kernel, at most: CUDA takes 4 KiB of them."""

RUN = "xjit_cuda_run"

STEP = StructLayout(
    "Step",
    (
        ("function", PTR),  # null: a copy, from slot 0 to slot 1
        *((f"blocks.{axis}", I32) for axis in "xyz"),
        *((f"threads.{axis}", I32) for axis in "xyz"),
        ("shared_bytes", I32),
        ("num_slots", I32),
        ("slots", PTR),  # a SLOT for each argument
        ("copy_bytes", I64),
        ("skip_first", I64),  # two slots: if they are one address, there is nothing to do; -1 for none
        ("skip_second", I64),
    ),
)
"""A launch or a copy."""

SLOT = StructLayout("Slot", (("base", I64), ("offset", I64)))
"""An argument: the address number `base` of the call plus `offset`; -1: the number `offset` itself."""

RUN_ARGUMENTS = StructLayout(
    "RunArguments",
    (
        ("steps", PTR),  # a STEP each
        ("order", PTR),  # numbers of steps (i64) in the order in which to do them
        ("count", I64),
        ("bases", PTR),  # addresses (i64)
        ("stream", PTR),
        ("launch", PTR),  # cuLaunchKernel
        ("copy", PTR),  # cuMemcpyDtoDAsync_v2
        ("failed", I64),  # the number of the step that failed
    ),
)
"""What a call of the launcher takes."""


def launcher_address() -> int:
    """The address of `i32 xjit_cuda_run(ptr RUN_ARGUMENTS)`, which returns CUDA's status: 0, or that of `failed`."""
    return _launcher().address(RUN)


@functools.cache
def _launcher() -> LoadedObject:
    """Loaded once, for ever."""
    return load_object(compile_ir_to_object(_module().to_text(), trusted=True), [RUN], resolve_symbols(()))


def _module() -> Module:
    module = Module("cuda_launcher")
    b = define(module, RUN, [(PTR, "call")], linkage="", return_type=I32)
    call = b.function.args[0]

    def argument(field: str) -> Value:
        return RUN_ARGUMENTS.load(b, call, field)

    values = b.alloca(I64, MAX_ARGUMENTS, align=8, name="values")
    pointers = b.alloca(PTR, MAX_ARGUMENTS, align=8, name="pointers")
    with b.loop(b.i64(0), argument("count"), name="number") as number:
        which = b.load(I64, b.offset(argument("order"), b.mul(number, b.i64(8))), 8)
        step = b.offset(argument("steps"), b.mul(which, b.i64(STEP.size)))
        with b.loop(b.i64(0), b.zext(STEP.load(b, step, "num_slots"), I64), name="slot") as slot:
            place = b.offset(values, b.mul(slot, b.i64(8)))
            b.store(_argument_value(b, STEP.load(b, step, "slots"), slot, argument("bases")), place, 8)
            b.store(place, b.offset(pointers, b.mul(slot, b.i64(8))), 8)
        with b.when(b.not_(_is_needless(b, step, values))):
            status = _do(b, step, values, pointers, argument)
            with b.when(b.icmp_signed("!=", status, const_int(I32, 0))):
                RUN_ARGUMENTS.store(b, call, "failed", which)
                b.ret(status)
    b.ret(const_int(I32, 0))
    return module


def _argument_value(b: StructuredBuilder, slots: Value, number: Value, bases: Value) -> Value:
    slot = b.offset(slots, b.mul(number, b.i64(SLOT.size)))
    base, offset = SLOT.load(b, slot, "base"), SLOT.load(b, slot, "offset")
    is_number = b.icmp_signed("<", base, b.i64(0))
    index = b.select(is_number, b.i64(0), base)
    address = b.load(I64, b.offset(bases, b.mul(index, b.i64(8))), 8)
    return b.add(b.select(is_number, b.i64(0), address), offset)


def _is_needless(b: StructuredBuilder, step: Value, values: Value) -> Value:
    numbers = [STEP.load(b, step, field) for field in ("skip_first", "skip_second")]
    has_pair = b.icmp_signed(">=", numbers[0], b.i64(0))
    first, second = (
        b.load(I64, b.offset(values, b.mul(b.select(has_pair, number, b.i64(0)), b.i64(8))), 8) for number in numbers
    )
    return b.and_(has_pair, b.icmp_signed("==", first, second))


def _do(b: StructuredBuilder, step: Value, values: Value, pointers: Value, argument: Callable[[str], Value]) -> Value:
    """Emits the launch, or the copy; returns CUDA's status."""
    function, stream = STEP.load(b, step, "function"), argument("stream")

    def copy() -> list[Value]:
        source, destination = (b.load(I64, b.offset(values, b.i64(8 * n)), 8) for n in range(2))
        size = STEP.load(b, step, "copy_bytes")
        return [b.call_pointer(argument("copy"), I32, [destination, source, size, stream])]

    def launch() -> list[Value]:
        extents = [STEP.load(b, step, f"{kind}.{axis}") for kind in ("blocks", "threads") for axis in "xyz"]
        shared = STEP.load(b, step, "shared_bytes")
        return [b.call_pointer(argument("launch"), I32, [function, *extents, shared, stream, pointers, zero(PTR)])]

    (status,) = b.if_else(b.icmp_signed("==", function, zero(PTR)), copy, launch)
    return status
