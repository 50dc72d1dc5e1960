"""Row-major arrays from the caller's memory to buffers, as native code: in place, or as one copy.

What is stored otherwise, and all errors, are left to Python (`xjit.jax_backend.transfers`), which can do everything.
"""

from __future__ import annotations

import numpy as np

from xjit.jax_backend.c_api import BUFFER_TYPES, FUNCTIONS, HostBufferSemantics
from xjit.jax_backend.element_types import BYTE_WIDTHS
from xjit.jax_backend.native.buffers import READY_EVENT
from xjit.jax_backend.native.device_data import is_host
from xjit.jax_backend.records import ARRAY, EVENT, MEMORY
from xjit.llvm import Module, Value
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

ALIASING_ALIGNMENT = 64
"""Bytes. Arrays of NumPy's that are less aligned are copied, as in XLA: who owns them may write while a call runs."""

FROM_HOST = "Client_BufferFromHostBuffer"
"""The function that this module defines."""


def define_from_host(module: Module, otherwise: Function) -> None:
    """Defines it; `otherwise` is called with the same request. The module must have buffers."""
    _define_is_dense(module)
    widths = np.array([BYTE_WIDTHS.get(name, 0) for name in BUFFER_TYPES], np.int64)
    _FromHost(module, otherwise, module.add_constant_array(widths, 8, "widths")).emit()


def _define_is_dense(module: Module) -> None:
    """`i64 xjit_dense_bytes(sizes, strides, i64 rank, i64 width)`: its bytes if it is row-major, else, or empty: -1.

    No strides are row-major ones; those of dimensions of size 1 say nothing.
    """
    params = [(PTR, "sizes"), (PTR, "strides"), (I64, "rank"), (I64, "width")]
    builder = define(module, "xjit_dense_bytes", params, return_type=I64)
    sizes, strides, rank, width = builder.function.args
    expected = builder.alloca(I64, align=8, name="expected")
    builder.store(width, expected, align=8)
    last = builder.sub(rank, builder.i64(1))
    with builder.loop(builder.i64(0), rank) as i:
        dimension = builder.sub(last, i)
        size = builder.load(I64, builder.gep(I64, sizes, dimension), align=8)
        now = builder.load(I64, expected, align=8)
        with builder.when(builder.icmp_signed("==", size, builder.i64(0))):
            builder.ret(builder.i64(-1))
        given, matters = builder.not_(builder.is_null(strides)), builder.icmp_signed("!=", size, builder.i64(1))
        with builder.when(builder.and_(given, matters)):
            stride = builder.load(I64, builder.gep(I64, strides, dimension), align=8)
            with builder.when(builder.icmp_signed("!=", stride, now)):
                builder.ret(builder.i64(-1))
        builder.store(builder.mul(now, size), expected, align=8)
    builder.ret(builder.load(I64, expected, align=8))


class _FromHost:
    """Emits `ptr Client_BufferFromHostBuffer(args)`."""

    def __init__(self, module: Module, otherwise: Function, widths: Value) -> None:
        self._functions = module.functions
        self._otherwise = otherwise
        self._widths = widths
        self._layout = FUNCTIONS[FROM_HOST]
        self.builder: StructuredBuilder = define(module, FROM_HOST, [(PTR, "args")], linkage="", return_type=PTR)
        (self._request,) = self.builder.function.args

    def emit(self) -> None:
        builder = self.builder
        kind = builder.sext(self._asked("type"), I64)
        known = builder.icmp_unsigned("<", kind, builder.i64(len(BUFFER_TYPES)))
        memory = self._asked("memory")
        simple = builder.and_(builder.is_null(self._asked("device_layout")), builder.not_(builder.is_null(memory)))
        self._ask_unless(builder.and_(known, simple))
        self._ask_unless(is_host(builder, self._device(memory)))
        width = builder.load(I64, builder.gep(I64, self._widths, kind), align=8)
        self._ask_unless(builder.icmp_signed("!=", width, builder.i64(0)))
        rank, sizes = self._asked("num_dims"), self._asked("dims")
        num_strides = self._asked("num_byte_strides")
        has_none = builder.icmp_signed("==", num_strides, builder.i64(0))
        strides = builder.select(has_none, zero(PTR), self._asked("byte_strides"))
        shape = [sizes, strides, rank, width]
        num_bytes = builder.call(self._functions["xjit_dense_bytes"], shape, name="num_bytes")
        self._ask_unless(builder.icmp_signed(">=", num_bytes, builder.i64(0)))
        array = builder.alloca(I8, ARRAY.size, align=8, name="array")
        for field, value in {
            "type": kind,
            "num_bytes": num_bytes,
            "rank": rank,
            "dimensions": sizes,
            "minor_to_major": zero(PTR),
            "tiles": zero(PTR),
        }.items():
            ARRAY.store(builder, array, field, value)
        self._make(array, num_bytes, memory)

    def _make(self, array: Value, num_bytes: Value, memory: Value) -> None:
        builder = self.builder
        source = self._asked("data")
        misaligned = builder.and_(builder.ptrtoint(source, I64), builder.i64(ALIASING_ALIGNMENT - 1))
        semantics = builder.sext(self._asked("host_buffer_semantics"), I64)
        kept = builder.icmp_signed("==", semantics, builder.i64(HostBufferSemantics.IMMUTABLE_ZERO_COPY))
        in_place = builder.and_(kept, builder.icmp_signed("==", misaligned, builder.i64(0)))
        ready = builder.load(PTR, Value(PTR, f"@{READY_EVENT}"), align=8, name="ready")
        with builder.when(in_place):
            done = builder.call(builder.module.declare("malloc", PTR, [I64]), [builder.i64(EVENT.size)], name="done")
            self._ask_unless(builder.not_(builder.is_null(done)))
            builder.memset(done, const_int(I8, 0), builder.i64(EVENT.size), align=8)
            EVENT.store(builder, done, "references", builder.i64(2))  # the caller's and the buffer's
            self._answer(array, source, memory, ready, done, done, ("free", done))
        allocate = builder.module.declare("xjit_scratch_alloc", PTR, [I64])
        data = builder.call(allocate, [num_bytes], name="data")
        self._ask_unless(builder.not_(builder.is_null(data)))
        builder.memcpy(data, source, num_bytes)
        self._answer(array, data, memory, ready, zero(PTR), ready, ("xjit_scratch_free", data))

    def _answer(
        self,
        array: Value,
        data: Value,
        memory: Value,
        ready: Value,
        host_event: Value,
        done: Value,
        unless: tuple[str, Value],
    ) -> None:
        """`unless`: what frees what, where there is no memory for the buffer's struct."""
        builder = self.builder
        made = [array, data, self._device(memory), memory, ready, host_event]
        buffer = builder.call(self._functions["xjit_buffer_new"], made, name="buffer")
        with builder.when(builder.is_null(buffer)):
            free, allocated = unless
            builder.call(builder.module.declare(free, VOID, [PTR]), [allocated])
            self._ask_unless(const_int(I1, 0))
        self._layout.store(builder, self._request, "buffer", buffer)
        self._layout.store(builder, self._request, "done_with_host_buffer", done)
        builder.ret(zero(PTR))

    def _device(self, memory: Value) -> Value:
        return self.builder.load(PTR, MEMORY.load(self.builder, memory, "devices"), align=8, name="device")

    def _asked(self, field: str) -> Value:
        return self._layout.load(self.builder, self._request, field)

    def _ask_unless(self, condition: Value) -> None:
        """Has Python answer where a condition does not hold."""
        builder = self.builder
        with builder.when(builder.not_(condition)):
            builder.ret(builder.call(self._otherwise, [self._request], name="answer"))
