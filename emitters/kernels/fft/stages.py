"""Stages of Stockham's algorithm as functions of libraries, which programs share: sizes are arguments.

A stage makes target[q + s(rp + k)] = w^(pk) sum_j source[q + s(p + mj)] w_r^(jk) for p < m and q < s, its radix being r
and its stride s. Vectors lie along q if their width divides the stride (wide stages), else along p and q (woven ones),
where the outputs of their butterflies are stored in turn, without scatters.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, butterfly, interleave, multiply
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.library import Library
from xjit.llvm.module import Declaration, Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.types import I64, PTR, VOID, LLVMType, vector
from xjit.llvm.values import Value

_POINTERS = ("source_re", "source_im", "target_re", "target_im", "roots_re", "roots_im")
STAGE_POINTERS = tuple((PTR, name) for name in _POINTERS)
STAGE_PARAMS = (*STAGE_POINTERS, (I64, "m"), (I64, "stride"), (I64, "step"))
"""Sizes are in elements. Root number p k step is w^(pk); of a woven stage, number (k - 1) m s + s p + q is."""

WOVEN_RADICES = (2, 4)


def wide_stage(module: Module, radix: int, kind: PrimitiveType) -> Declaration:
    """Declares, with `STAGE_PARAMS`, the stage for strides that are multiples of the vectors' width."""
    return linked_stage(
        module, Library.of(f"xjit_fft_stage_{radix}_{kind.text}", _wide_module, radix, kind, module.target)
    )


def woven_stage(module: Module, radix: int, stride: int, kind: PrimitiveType) -> Declaration:
    """The same for one of `WOVEN_RADICES`, a stride that divides the width, and whole vectors: it divides m s."""
    name = f"xjit_fft_woven_{radix}_{stride}_{kind.text}"
    return linked_stage(module, Library.of(name, _woven_module, radix, stride, kind, module.target))


def weaves(radix: int, m: int, stride: int, width: int) -> bool:
    """Whether vectors along p and q hold whole runs of q: then outputs are stored in turn, not scattered."""
    return radix in WOVEN_RADICES and m * stride % width == 0 and width % stride == 0


def linked_stage(
    module: Module, library: Library, params: Sequence[tuple[LLVMType, str]] = STAGE_PARAMS
) -> Declaration:
    """Declares the function of a library, and lists what defines it."""
    module.libraries.setdefault(library.name, library)
    return module.declare(library.name, VOID, [type for type, _ in params])


def _wide_module(radix: int, kind: PrimitiveType, target: Target) -> Module:
    name = f"xjit_fft_stage_{radix}_{kind.text}"
    module = Module(f"{name}_library", target)
    builder = define(module, name, STAGE_PARAMS, linkage="")
    source_re, source_im, target_re, target_im, roots_re, roots_im, m, stride, step = builder.function.args
    lanes = _lanes(target, kind)
    row = builder.mul(stride, builder.i64(kind.byte_width))
    between = builder.mul(m, row)
    with builder.loop(builder.i64(0), m, name="p") as p:
        roots = _roots(builder, (roots_re, roots_im), builder.mul(p, step), radix, lanes)
        read = builder.mul(p, row)
        written = builder.mul(read, builder.i64(radix))
        with builder.loop(builder.i64(0), row, lanes.width * kind.byte_width, "q") as q:
            source = _load_rows(builder, (source_re, source_im), builder.add(read, q), between, radix, lanes)
            values = _outputs(builder, source, roots)
            places = builder.add(written, q)
            for part, base in enumerate((target_re, target_im)):
                for value, address in zip(values, _rows(builder, base, places, row, radix), strict=True):
                    builder.store(value[part], address, kind.byte_width)
    builder.ret_void()
    return module


def _woven_module(radix: int, stride: int, kind: PrimitiveType, target: Target) -> Module:
    name = f"xjit_fft_woven_{radix}_{stride}_{kind.text}"
    module = Module(f"{name}_library", target)
    builder = define(module, name, STAGE_PARAMS, linkage="")
    source_re, source_im, target_re, target_im, roots_re, roots_im, m, _, _ = builder.function.args
    lanes, unit = _lanes(target, kind), builder.i64(kind.byte_width)
    size = builder.mul(m, builder.i64(stride))
    between = builder.mul(size, unit)
    with builder.loop(builder.i64(0), size, lanes.width, "both") as both:
        place = builder.mul(both, unit)
        source = _load_rows(builder, (source_re, source_im), place, between, radix, lanes)
        roots = _load_rows(builder, (roots_re, roots_im), place, between, radix - 1, lanes)
        values = _outputs(builder, source, roots)
        written = builder.mul(place, builder.i64(radix))
        for base, parts in zip((target_re, target_im), zip(*values, strict=True), strict=True):
            begin = builder.offset(base, written)
            for n, value in enumerate(interleave(builder, parts, stride)):
                distance = builder.i64(n * lanes.width * kind.byte_width)
                builder.store(value, builder.offset(begin, distance), kind.byte_width)
    builder.ret_void()
    return module


def _lanes(target: Target, kind: PrimitiveType) -> LLVMType:
    element = register_type(kind)
    return vector(element, target.vector_width(element))


def _outputs(builder: StructuredBuilder, source: Sequence[Pair], roots: Sequence[Pair]) -> list[Pair]:
    first, *others = butterfly(builder, source)
    return [first, *(multiply(builder, x, root) for x, root in zip(others, roots, strict=True))]


def _roots(
    builder: StructuredBuilder, tables: tuple[Value, Value], first: Value, radix: int, lanes: LLVMType
) -> list[Pair]:
    """The roots number `first` times 1 .. radix - 1, in all lanes."""
    roots: list[Pair] = []
    for k in range(1, radix):
        number = builder.mul(first, builder.i64(k))
        places = (builder.gep(lanes.elem, table, number) for table in tables)
        re, im = (builder.load(lanes.elem, place, lanes.elem.bits // 8) for place in places)
        roots.append((builder.splat(re, lanes.width), builder.splat(im, lanes.width)))
    return roots


def _load_rows(
    builder: StructuredBuilder, parts: tuple[Value, Value], offset: Value, step: Value, count: int, lanes: LLVMType
) -> list[Pair]:
    """Vectors at offset + j * step bytes, for j < count."""
    loaded = [
        [builder.load(lanes, address, lanes.elem.bits // 8) for address in _rows(builder, part, offset, step, count)]
        for part in parts
    ]
    return list(zip(*loaded, strict=True))


def _rows(builder: StructuredBuilder, base: Value, offset: Value, step: Value, count: int) -> Sequence[Value]:
    """Addresses base + offset + j * step for j < count, in forms that an instruction's operand can have."""
    place = builder.offset(base, offset)
    addresses: list[Value] = []
    twice, thrice = builder.shl(step, builder.i64(1)), builder.mul(step, builder.i64(3))
    for j in range(count):
        if j and j % 4 == 0:
            place = builder.offset(place, builder.shl(step, builder.i64(2)))
        addresses.append(builder.offset(place, (step, twice, thrice)[j % 4 - 1]) if j % 4 else place)
    return addresses
