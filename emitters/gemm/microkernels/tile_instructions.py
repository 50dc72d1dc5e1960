"""The instructions of matrix units (AMX) on eight tiles of 16 rows of 64 bytes, and plain IR that does what they do.

Where a target only emulates them, tiles lie on the stack, and each instruction is a call of a function: slow, but with
the bits of the hardware, so that everything around it is tested on any machine. A product of bf16 tiles treats
subnormals as zeros and sums even and odd elements of k apart, in f32 by fused multiply-adds, before their sum goes to
the destination (Intel's Software Developer's Manual, TDPBF16PS).
"""

from __future__ import annotations

import numpy as np

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.storage import UNSIGNED
from xjit.emitters.gemm.blocking.units import TILE_LANES, Unit
from xjit.llvm import Function, LLVMType, Module, Target, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import FLOAT, I8, I32, I64, PTR, VOID, vector
from xjit.llvm.values import const_int, zero

ROW_BYTES = 64
_TILE_BYTES = TILE_LANES * ROW_BYTES
_NUM_TILES = 8
_ROW = vector(I32, TILE_LANES)


def configure_tiles(builder: StructuredBuilder, target: Target) -> None:
    """Makes all tiles 16 x 64 bytes, before the first one is used by a thread."""
    if target.has("amx-tile"):
        config = np.zeros(64, np.uint8)
        config[0] = 1  # the palette
        config[16:32:2] = ROW_BYTES
        config[48:56] = TILE_LANES
        builder.intrinsic("x86.ldtilecfg", VOID, (builder.module.add_constant_array(config, hint="tile_config"),), ())


def release_tiles(builder: StructuredBuilder, target: Target) -> None:
    """Gives the tiles back, so that switching threads need not save them."""
    if target.has("amx-tile"):
        builder.intrinsic("x86.tilerelease", VOID, (), ())


class Tiles:
    """The tiles as a function that is being emitted sees them. Strides are in bytes."""

    def __init__(self, builder: StructuredBuilder, types: GemmTypes) -> None:
        self.builder = builder
        self.product = _product_name(types)
        self.real = builder.target.has("amx-tile")
        self.memory = None if self.real else builder.alloca(I8, _NUM_TILES * _TILE_BYTES, align=64, name="tiles")

    def zero(self, tile: int) -> None:
        """Sets a tile to zeros."""
        if self.real:
            self.builder.intrinsic("x86.tilezero", VOID, (const_int(I8, tile),), ())
        else:
            self.builder.memset(self._place(tile), const_int(I8, 0), self.builder.i64(_TILE_BYTES), 64)

    def load(self, tile: int, source: Value, stride: Value) -> None:
        """Reads 16 rows of 64 bytes."""
        if self.real:
            self.builder.intrinsic("x86.tileloadd64", VOID, (const_int(I8, tile), source, stride), ())
        else:
            rows = self.builder.i64(ROW_BYTES)
            self.builder.call(_copy_function(self.builder.module), (self._place(tile), rows, source, stride))

    def store(self, tile: int, target: Value, stride: Value) -> None:
        """Writes 16 rows of 64 bytes."""
        if self.real:
            self.builder.intrinsic("x86.tilestored64", VOID, (const_int(I8, tile), target, stride), ())
        else:
            rows = self.builder.i64(ROW_BYTES)
            self.builder.call(_copy_function(self.builder.module), (target, stride, self._place(tile), rows))

    def multiply(self, sums: int, a: int, b: int) -> None:
        """sums += a * b."""
        if self.real:
            numbers = [const_int(I8, tile) for tile in (sums, a, b)]
            self.builder.intrinsic(f"x86.{self.product}", VOID, numbers, ())
        else:
            places = [self._place(tile) for tile in (sums, a, b)]
            self.builder.call(_product_function(self.builder.module, self.product), places)

    def _place(self, tile: int) -> Value:
        assert self.memory is not None
        return self.builder.offset(self.memory, self.builder.i64(tile * _TILE_BYTES))


def _product_name(types: GemmTypes) -> str:
    if types.unit is not Unit.BYTE_TILES:
        return "tdpbf16ps"
    signs = ["u" if storage is UNSIGNED else "s" for storage in (types.lhs, types.rhs)]
    return f"tdpb{''.join(signs)}d"


def _copy_function(module: Module) -> Function:
    """Defines `void (dst, dst_stride, src, src_stride)` for a tile, once per module."""
    name = "xjit_emulated_tile_copy"
    if name in module.functions:
        return module.functions[name]
    builder = define(module, name, ((PTR, "dst"), (I64, "dst_stride"), (PTR, "src"), (I64, "src_stride")))
    dst, dst_stride, src, src_stride = builder.function.args
    with builder.loop(builder.i64(0), builder.i64(TILE_LANES), name="row") as row:
        value = builder.load(_ROW, builder.offset(src, builder.mul(row, src_stride)), 1)
        builder.store(value, builder.offset(dst, builder.mul(row, dst_stride)), 1)
    builder.ret_void()
    return builder.function


def _product_function(module: Module, product: str) -> Function:
    """Defines `void (sums, a, b)` on tiles in memory, once per module."""
    name = f"xjit_emulated_{product}"
    if name in module.functions:
        return module.functions[name]
    builder = define(module, name, ((PTR, "sums"), (PTR, "a"), (PTR, "b")))
    sums, a, b = builder.function.args
    is_float = product == "tdpbf16ps"
    type = vector(FLOAT, TILE_LANES) if is_float else _ROW
    parts = 2 if is_float else 1
    with builder.loop(builder.i64(0), builder.i64(TILE_LANES), name="row") as row:
        place = builder.offset(sums, builder.mul(row, builder.i64(ROW_BYTES)))
        a_row = builder.offset(a, builder.mul(row, builder.i64(ROW_BYTES)))
        start = [zero(type)] * parts
        with builder.loop_with(builder.i64(0), builder.i64(TILE_LANES), start, 1, "k") as (k, carried, following):
            lane = builder.load(I32, builder.offset(a_row, builder.mul(k, builder.i64(4))), 4)
            factors = builder.splat(lane, TILE_LANES), _load_row(builder, b, k)
            following.extend((_add_bf16 if is_float else _add_bytes)(builder, product, factors, list(carried)))
        old = builder.load(type, place, 4)
        if is_float:
            new = flush(builder, builder.fadd(old, flush(builder, builder.fadd(carried[0], carried[1]))))
        else:
            new = builder.add(old, carried[0])
        builder.store(new, place, 4)
    builder.ret_void()
    return builder.function


def _load_row(builder: StructuredBuilder, tile: Value, row: Value) -> Value:
    return builder.load(_ROW, builder.offset(tile, builder.mul(row, builder.i64(ROW_BYTES))), 4)


def _add_bf16(builder: StructuredBuilder, _: str, factors: tuple[Value, Value], sums: list[Value]) -> list[Value]:
    """Adds the products of the even elements to the first sum, of the odd ones to the second."""
    result: list[Value] = []
    for part, total in enumerate(sums):
        a, b = (bf16_part(builder, lanes, part) for lanes in factors)
        result.append(flush(builder, builder.fma(a, b, total)))
    return result


def bf16_part(builder: StructuredBuilder, lanes: Value, part: int) -> Value:
    """The even (0) or odd (1) bf16 of each lane as f32; subnormals are zeros."""
    type = lanes.type
    bits = builder.and_(lanes, const_int(type, -0x10000)) if part else builder.shl(lanes, const_int(type, 16))
    return flush(builder, builder.bitcast(bits, FLOAT))


def flush(builder: StructuredBuilder, value: Value) -> Value:
    """Subnormal numbers as zeros of their sign, whatever the mode of the CPU."""
    bits = builder.bitcast(value, I32)
    type: LLVMType = bits.type
    is_small = builder.icmp_signed("==", builder.and_(bits, const_int(type, 0x7F800000)), zero(type))
    sign = builder.and_(bits, const_int(type, -0x80000000))
    return builder.bitcast(builder.select(is_small, sign, bits), FLOAT)


def _add_bytes(
    builder: StructuredBuilder, product: str, factors: tuple[Value, Value], sums: list[Value]
) -> list[Value]:
    total = sums[0]
    for part in range(4):
        numbers: list[Value] = []
        for lanes, sign in zip(factors, product[4:6], strict=True):
            high = builder.shl(lanes, const_int(_ROW, 24 - 8 * part))
            numbers.append((builder.ashr if sign == "s" else builder.lshr)(high, const_int(_ROW, 24)))
        total = builder.add(total, builder.mul(numbers[0], numbers[1]))
    return [total]
