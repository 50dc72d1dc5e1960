"""The loops of `real_halves` as functions of libraries, which programs share: lengths are arguments.

They read, or write, the spectrum X[k] for k <= m where it is, in a row of complex numbers; the transform Z[k] for k < m
of the pairs has its parts apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, join_halves, split_halves
from xjit.emitters.kernels.fft.parts import emit_vectors, load_parts, store_parts
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.types import I64, PTR, VOID, LLVMType, vector
from xjit.llvm.values import Value, const_float, const_int

_POINTERS = ("first", "row", "re", "im", "roots_re", "roots_im")
_PARAMS = (*((PTR, name) for name in _POINTERS), (I64, "m"))


def emit_spectrum(
    builder: IRBuilder, kind: PrimitiveType, row: Value, halves: Sequence[Value], roots: Sequence[Value], m: int
) -> None:
    """Emits row[k] = X[k] for k <= m, of Z in `halves`, parts of `kind`; the roots are w^k for k < m.

    There must be a vector of numbers between X[0] and X[m].
    """
    _emit_call(builder, _spectrum_module, "spectrum", kind, [row, row, *halves, *roots], m)


def emit_halves(
    builder: IRBuilder,
    kind: PrimitiveType,
    spectrum: tuple[Value, Value],
    halves: Sequence[Value],
    roots: Sequence[Value],
    m: int,
) -> None:
    """Emits the way back, 2 Z[k] for k < m, of the real part X[0] at spectrum[0], and of X[k] at spectrum[1][k].

    The imaginary parts of X[0] and X[m] are not read.
    """
    _emit_call(builder, _halves_module, "halves", kind, [*spectrum, *halves, *roots], m)


def _emit_call(
    builder: IRBuilder,
    make_module: Callable[[str, PrimitiveType, Target], Module],
    role: str,
    kind: PrimitiveType,
    pointers: Sequence[Value],
    m: int,
) -> None:
    module, name = builder.module, f"xjit_fft_{role}_{kind.text}"
    module.libraries.setdefault(name, Library.of(name, make_module, name, kind, module.target))
    function = module.declare(name, VOID, [type for type, _ in _PARAMS])
    builder.call(function, [*pointers, const_int(I64, m)])


def _spectrum_module(name: str, kind: PrimitiveType, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    builder = define(module, name, _PARAMS, linkage="")
    _, row, re, im, *roots, m = builder.function.args
    lanes, size = _lanes(kind, target), kind.byte_width
    first, second = (builder.load(lanes.elem, part, size) for part in (re, im))
    for place, value in (
        (row, builder.fadd(first, second)),
        (_at(builder, row, m, 2 * size), builder.fsub(first, second)),
    ):
        builder.store(value, place, size)
        builder.store(const_float(lanes.elem, 0.0), builder.offset(place, builder.i64(size)), size)

    def vectors(k: Value) -> None:
        here, root = (_load(builder, parts, k, lanes) for parts in ((re, im), roots))
        there = _reversed(builder, _load(builder, (re, im), _opposite(builder, m, k, lanes), lanes))
        store_parts(builder, _at(builder, row, k, 2 * size), join_halves(builder, here, there, root))

    emit_vectors(builder, (builder.i64(1), m), lanes.width, vectors)
    builder.ret_void()
    return module


def _halves_module(name: str, kind: PrimitiveType, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    builder = define(module, name, _PARAMS, linkage="")
    first, row, re, im, *roots, m = builder.function.args
    lanes, size = _lanes(kind, target), kind.byte_width
    start, end = (builder.load(lanes.elem, place, size) for place in (first, _at(builder, row, m, 2 * size)))
    builder.store(builder.fadd(start, end), re, size)
    builder.store(builder.fsub(start, end), im, size)

    def vectors(k: Value) -> None:
        opposite = _opposite(builder, m, k, lanes)
        here = load_parts(builder, _at(builder, row, k, 2 * size), lanes)
        there = _reversed(builder, load_parts(builder, _at(builder, row, opposite, 2 * size), lanes))
        value = split_halves(builder, here, there, _load(builder, roots, k, lanes))
        for place, part in zip((re, im), value, strict=True):
            builder.store(part, _at(builder, place, k, size), size)

    emit_vectors(builder, (builder.i64(1), m), lanes.width, vectors)
    builder.ret_void()
    return module


def _opposite(builder: StructuredBuilder, m: Value, k: Value, lanes: LLVMType) -> Value:
    """Where the vector of numbers m - k starts, in falling order of k."""
    return builder.sub(builder.sub(m, builder.i64(lanes.width - 1)), k)


def _lanes(kind: PrimitiveType, target: Target) -> LLVMType:
    element = register_type(kind)
    return vector(element, target.vector_width(element))


def _at(builder: StructuredBuilder, base: Value, number: Value, size: int) -> Value:
    return builder.offset(base, builder.mul(number, builder.i64(size)))


def _load(builder: StructuredBuilder, parts: Sequence[Value], number: Value, lanes: LLVMType) -> Pair:
    size = lanes.elem.bits // 8
    re, im = (builder.load(lanes, _at(builder, part, number, size), size) for part in parts)
    return re, im


def _reversed(builder: StructuredBuilder, value: Pair) -> Pair:
    order = range(value[0].type.width - 1, -1, -1)
    return builder.shuffle_vector(value[0], None, order), builder.shuffle_vector(value[1], None, order)
