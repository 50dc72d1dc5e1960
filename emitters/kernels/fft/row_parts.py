"""A group of rows and its columns: rows of real or complex numbers are transposed to real and imaginary parts of which
a vector has one number of each row, and back, by code of libraries that programs share.

A complex number is two real ones: of the rows of a transposed block, those for real and imaginary parts take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.dataclass import dataclass
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.parts import emit_vectors
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I64, PTR, VOID, LLVMType, vector
from xjit.llvm.values import Value, const_float, const_int


@dataclass(frozen=True, slots=True)
class Rows:
    """The address of a first row, how many follow it up to the last one, and how many numbers each has.

    `kind` is that of a number's parts.
    """

    place: Value
    following: Value
    numbers: int
    kind: PrimitiveType
    is_complex: bool


def emit_split_rows(builder: IRBuilder, rows: Rows, parts: Sequence[Value]) -> None:
    """Emits parts[0][i, r], parts[1][i, r] = rows[r][i]; of real rows only the first. Lanes without a row repeat the
    last one."""
    _emit_call(builder, rows, parts, None)


def emit_join_rows(builder: IRBuilder, rows: Rows, parts: Sequence[Value], scale: float) -> None:
    """Emits the way back, times `scale`."""
    _emit_call(builder, rows, parts, scale)


def _emit_call(builder: IRBuilder, rows: Rows, parts: Sequence[Value], scale: float | None) -> None:
    module, kind = builder.module, rows.kind
    move, element = "split" if scale is None else "join", "complex" if rows.is_complex else "real"
    name = f"xjit_fft_{move}_{element}_rows_{kind.text}"
    library = Library.of(name, _module, name, kind, rows.is_complex, scale is not None, module.target)
    module.libraries.setdefault(name, library)
    function = module.declare(name, VOID, [type for type, _ in _params(kind)])
    size = kind.byte_width * (2 if rows.is_complex else 1) * rows.numbers
    numbers = const_int(I64, size), const_int(I64, rows.numbers)
    factor = const_float(register_type(kind), 1.0 if scale is None else scale)
    builder.call(function, [rows.place, *parts, rows.following, *numbers, factor])


def _params(kind: PrimitiveType) -> Sequence[tuple[LLVMType, str]]:
    sizes = ((I64, name) for name in ("following", "distance", "numbers"))
    return (PTR, "rows"), (PTR, "re"), (PTR, "im"), *sizes, (register_type(kind), "scale")


def _module(name: str, kind: PrimitiveType, is_complex: bool, joins: bool, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    builder = define(module, name, _params(kind), linkage="")
    base, re, im, following, distance, numbers, scale = builder.function.args
    lanes = vector(scale.type, target.vector_width(scale.type))
    rows: list[Value] = []
    for r in range(lanes.width):
        number = builder.i64(r)
        number = builder.min(number, following)
        rows.append(builder.offset(base, builder.mul(number, distance)))
    move = _Moves(builder, rows, (re, im) if is_complex else (re,), lanes, kind.byte_width, scale)
    block, single = (move.join_block, move.join_one) if joins else (move.split_block, move.split_one)
    taken = lanes.width // len(move.parts)  # numbers of a block
    is_long = builder.icmp_signed(">=", numbers, builder.i64(taken))
    with builder.when(is_long):
        emit_vectors(builder, (builder.i64(0), numbers), taken, block)
    with builder.when(builder.not_(is_long)), builder.loop(builder.i64(0), numbers, name="i") as number:
        single(number)
    builder.ret_void()
    return module


class _Moves:
    """Emits what a library does for a number, or a block of them, from one on. A number's parts lie side by side."""

    def __init__(
        self,
        builder: StructuredBuilder,
        rows: Sequence[Value],
        parts: Sequence[Value],
        lanes: LLVMType,
        unit: int,
        scale: Value,
    ) -> None:
        self.builder, self.rows, self.parts, self.lanes, self.unit = builder, rows, parts, lanes, unit
        self.scale, self.factor = scale, builder.splat(scale, lanes.width)

    def _in_rows(self, number: Value) -> list[Value]:
        distance = self.builder.mul(number, self.builder.i64(self.unit * len(self.parts)))
        return [self.builder.offset(row, distance) for row in self.rows]

    def _in_parts(self, number: Value, count: int) -> list[Value]:
        """Addresses of `count` numbers from one on, their parts in turn."""
        size = self.unit * self.lanes.width
        distance = self.builder.mul(number, self.builder.i64(size))
        places = [self.builder.offset(part, distance) for part in self.parts]
        return [self.builder.offset(place, self.builder.i64(n * size)) for n in range(count) for place in places]

    def split_block(self, number: Value) -> None:
        loaded = [self.builder.load(self.lanes, place, self.unit) for place in self._in_rows(number)]
        columns = transpose_blocks(self.builder, loaded)
        for value, place in zip(columns, self._in_parts(number, len(columns) // len(self.parts)), strict=True):
            self.builder.store(value, place, self.unit)

    def join_block(self, number: Value) -> None:
        places = self._in_parts(number, self.lanes.width // len(self.parts))
        columns = [self.builder.fmul(self.builder.load(self.lanes, p, self.unit), self.factor) for p in places]
        for value, place in zip(transpose_blocks(self.builder, columns), self._in_rows(number), strict=True):
            self.builder.store(value, place, self.unit)

    def _each(self, number: Value, move: Callable[[Value, Value], None]) -> None:
        """Calls `move` with the place in a row and that in a part for each number of one place."""
        for lane, row in enumerate(self._in_rows(number)):
            for n, part in enumerate(self._in_parts(number, 1)):
                near, far = (self.builder.i64(k * self.unit) for k in (lane, n))
                move(self.builder.offset(row, far), self.builder.offset(part, near))

    def split_one(self, number: Value) -> None:
        element = self.lanes.elem
        self._each(
            number, lambda row, part: self.builder.store(self.builder.load(element, row, self.unit), part, self.unit)
        )

    def join_one(self, number: Value) -> None:
        def move(row: Value, part: Value) -> None:
            value = self.builder.load(self.lanes.elem, part, self.unit)
            self.builder.store(self.builder.fmul(value, self.scale), row, self.unit)

        self._each(number, move)
