"""Rows of complex numbers taken apart into real and imaginary parts, and put together again, by code of a library.

Programs share it, so that what a kernel of long rows has of its own is calls, which need no optimizing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Declaration, Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.types import I1, I64, PTR, VOID, LLVMType, vector
from xjit.llvm.values import Value, const_float, const_int

MIN_ROW = 128
"""Numbers: shorter rows are copied by code of their kernel, as its own instructions would count."""

Move = Callable[[StructuredBuilder, Value, Sequence[Value], Value], None]


def emit_split(
    builder: IRBuilder, kind: PrimitiveType, array: Value, parts: Sequence[Value], sizes: tuple[int, int, int]
) -> None:
    """Emits parts[0][r, c], parts[1][r, c] = array[r, c]: `sizes` are rows, columns, and the distance of the array's
    rows. Parts have `kind`; their rows follow each other. There must be a vector of columns.
    """
    _emit_call(builder, kind, array, parts, sizes, 1.0, joins=False)


def emit_join(
    builder: IRBuilder,
    kind: PrimitiveType,
    array: Value,
    parts: Sequence[Value],
    sizes: tuple[int, int, int],
    scale: float,
) -> None:
    """Emits the way back, array[r, c] = scale (parts[0][r, c], parts[1][r, c])."""
    _emit_call(builder, kind, array, parts, sizes, scale, joins=True)


def _emit_call(
    builder: IRBuilder,
    kind: PrimitiveType,
    array: Value,
    parts: Sequence[Value],
    sizes: tuple[int, int, int],
    scale: float,
    *,
    joins: bool,
) -> None:
    numbers = [const_int(I64, size) for size in sizes]
    factor = const_float(register_type(kind), scale)
    function = _link(builder.module, kind)
    builder.call(function, [array, *parts, *numbers, factor, const_int(I1, int(joins))])


def _link(module: Module, kind: PrimitiveType) -> Declaration:
    library = Library.of(f"xjit_fft_parts_{kind.text}", _module, kind, module.target)
    module.libraries.setdefault(library.name, library)
    return module.declare(library.name, VOID, [type for type, _ in _params(kind)])


def _params(kind: PrimitiveType) -> Sequence[tuple[LLVMType, str]]:
    pointers, sizes = ("array", "re", "im"), ("rows", "columns", "distance")
    scale = register_type(kind), "scale"
    return (*((PTR, name) for name in pointers), *((I64, name) for name in sizes), scale, (I1, "joins"))


def _module(kind: PrimitiveType, target: Target) -> Module:
    name = f"xjit_fft_parts_{kind.text}"
    module = Module(f"{name}_library", target)
    builder = define(module, name, _params(kind), linkage="")
    array, re, im, rows, columns, distance, scale, joins = builder.function.args
    lanes = vector(scale.type, target.vector_width(scale.type))
    unit, complex_unit = builder.i64(kind.byte_width), builder.i64(2 * kind.byte_width)
    factor = builder.splat(scale, lanes.width)
    with builder.loop(builder.i64(0), rows, name="row") as row:
        far = builder.offset(array, builder.mul(builder.mul(row, distance), complex_unit))
        first = builder.mul(builder.mul(row, columns), unit)
        near = builder.offset(re, first), builder.offset(im, first)
        for condition, move in ((joins, _join), (builder.not_(joins), _split)):

            def vectors(at: Value, move: Move = move) -> None:
                place = builder.offset(far, builder.mul(at, complex_unit))
                move(builder, place, [builder.offset(part, builder.mul(at, unit)) for part in near], factor)

            with builder.when(condition):
                emit_vectors(builder, (builder.i64(0), columns), lanes.width, vectors)
    builder.ret_void()
    return module


def emit_vectors(
    builder: StructuredBuilder, bounds: tuple[Value, Value], width: int, body: Callable[[Value], None]
) -> None:
    """Calls `body(first)` for vectors that cover lower <= i < upper, by a loop and for the last one.

    That may overlap the one before. There must be a vector of numbers.
    """
    lower, upper = bounds
    last = builder.sub(upper, builder.i64(width))
    with builder.loop(lower, last, width, "v") as first:
        body(first)
    body(last)


def load_parts(builder: StructuredBuilder, place: Value, lanes: LLVMType) -> Pair:
    """Loads a vector of complex numbers that lie side by side."""
    size = lanes.elem.bits // 8
    low, high = (builder.load(lanes, p, size) for p in (place, _behind(builder, place, lanes)))
    re, im = (builder.shuffle_vector(low, high, range(first, 2 * lanes.width, 2)) for first in range(2))
    return re, im


def store_parts(builder: StructuredBuilder, place: Value, value: Pair) -> None:
    """Stores a vector of complex numbers side by side."""
    (re, im), lanes = value, value[0].type
    size = lanes.elem.bits // 8
    order = [n for lane in range(lanes.width) for n in (lane, lanes.width + lane)]
    builder.store(builder.shuffle_vector(re, im, order[: lanes.width]), place, size)
    builder.store(builder.shuffle_vector(re, im, order[lanes.width :]), _behind(builder, place, lanes), size)


def _split(builder: StructuredBuilder, place: Value, parts: Sequence[Value], factor: Value) -> None:
    """Moves a vector of numbers to its parts."""
    lanes = factor.type
    for value, part in zip(load_parts(builder, place, lanes), parts, strict=True):
        builder.store(value, part, lanes.elem.bits // 8)


def _join(builder: StructuredBuilder, place: Value, parts: Sequence[Value], factor: Value) -> None:
    """The way back, times the factor."""
    lanes = factor.type
    re, im = (builder.fmul(builder.load(lanes, part, lanes.elem.bits // 8), factor) for part in parts)
    store_parts(builder, place, (re, im))


def _behind(builder: StructuredBuilder, place: Value, lanes: LLVMType) -> Value:
    return builder.offset(place, builder.i64(lanes.width * lanes.elem.bits // 8))
