"""Loops and branches of the structured builder, compiled and called."""

from __future__ import annotations

import ctypes

from xjit.llvm import Module
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I1, I32, I64, PTR
from xjit.llvm.values import const_int
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import load_object

PAIR = StructLayout("Pair", (("key", I32), ("value", I64)))


def _load(module: Module):
    loaded = load_object(compile_ir_to_object(module.to_text()), ["f"], {})
    return loaded, loaded.address("f")


def test_repeat_leaves_and_starts_over() -> None:
    """f(n): the first multiple of 7 above n that no number 2..6 divides."""
    module = Module("repeat")
    builder = define(module, "f", [(I64, "n")], linkage="", return_type=I64)
    (n,) = builder.function.args
    slot = builder.alloca(I64, align=8)
    builder.store(n, slot, 8)
    with builder.repeat() as outer:
        number = builder.add(builder.load(I64, slot, 8), builder.i64(1))
        builder.store(number, slot, 8)
        outer.again_if(builder.icmp_signed("!=", builder.urem(number, builder.i64(7)), builder.i64(0)))
        with builder.loop(const_int(I32, 2), const_int(I32, 7)) as divisor:
            rest = builder.urem(number, builder.zext(divisor, I64))
            outer.again_if(builder.icmp_signed("==", rest, builder.i64(0)))
        outer.leave_if(const_int(I1, 1))
    builder.ret(builder.load(I64, slot, 8))
    library, address = _load(module)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    expected = [
        next(m for m in range(n + 1, 1000) if m % 7 == 0 and all(m % d for d in range(2, 7))) for n in range(60)
    ]
    assert [call(n) for n in range(60)] == expected
    del library


def test_a_repeat_inside_a_loop_runs_once_per_turn() -> None:
    """f(pairs, n): halves each value until it is odd, atomically; returns how often."""
    module = Module("nested")
    builder = define(module, "f", [(PTR, "pairs"), (I64, "n")], linkage="", return_type=I64)
    pairs, n = builder.function.args
    total = builder.alloca(I64, align=8)
    builder.store(builder.i64(0), total, 8)
    with builder.loop(builder.i64(0), n) as i, builder.repeat() as halving:
        pair = PAIR.element(builder, pairs, i)
        value = PAIR.load_atomic(builder, pair, "value", "monotonic")
        halving.leave_if(builder.icmp_signed("==", builder.and_(value, builder.i64(1)), builder.i64(1)))
        PAIR.store_atomic(builder, pair, "value", builder.lshr(value, builder.i64(1)), "monotonic")
        builder.store(builder.add(builder.load(I64, total, 8), builder.i64(1)), total, 8)
    builder.ret(builder.load(I64, total, 8))
    library, address = _load(module)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
    data = bytearray(b"".join(PAIR.pack(key=i, value=(2 * i + 1) << i) for i in range(10)))
    assert call((ctypes.c_char * len(data)).from_buffer(data), 10) == sum(range(10))
    found = [PAIR.unpack(bytes(data[k : k + PAIR.size])) for k in range(0, len(data), PAIR.size)]
    assert found == [{"key": i, "value": 2 * i + 1} for i in range(10)]
    del library
