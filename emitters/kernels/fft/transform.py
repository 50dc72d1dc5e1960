"""Complex Fourier transforms of one length, as functions of the module: what their algorithms have in common.

Real and imaginary parts are separate arrays.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, PTR, VOID
from xjit.llvm.values import Value, const_int

ALIGNMENT = 64


def split_complex(kind: PrimitiveType, size: int, pointers: Sequence[Value]) -> tuple[Buffer, Buffer]:
    """Buffers of the real and the imaginary parts of an array."""
    shape = Shape.array(kind, (size,))
    return Buffer(shape, pointers[0]), Buffer(shape, pointers[1])


def spread(nest: LoopNest, value: Value) -> Value:
    """Returns the value in all lanes, if there are any."""
    width = nest.vector.width if nest.vector is not None else 0
    return nest.builder.splat(value, width) if width and not value.type.is_vector else value


def load_pair(nest: LoopNest, memory: MemoryAccess, buffers: Sequence[Buffer], index: Sequence[AffineExpr]) -> Pair:
    """Loads a complex element from memory that changes while the kernel runs; a vector if there are lanes."""
    offset = physical_offset(nest.table, buffers[0].shape, index)
    guard = EVERYWHERE if nest.uses_vector(offset) or nest.depth_of(offset) == nest.level.depth else here(nest)
    parts = [memory.load(b, index, guard) for b in buffers]
    real, imag = parts
    assert isinstance(real, Value) and isinstance(imag, Value)
    return spread(nest, real), spread(nest, imag)


def store_pair(memory: MemoryAccess, buffers: Sequence[Buffer], index: Sequence[AffineExpr], value: Pair) -> None:
    """Stores a complex element, or one per lane if the index differs between lanes."""
    nest = memory.nest
    varies = nest.uses_vector(physical_offset(nest.table, buffers[0].shape, index))
    for buffer, part in zip(buffers, value, strict=True):
        memory.store(buffer, index, part if varies else nest.builder.extract_element(part, 0))


@dataclass(frozen=True, slots=True)
class Transform:
    """A forward transform of one length. `prepare(work)` fills the tables, if there are any; `apply(re, im, work)`
    transforms.

    `apply` transforms the columns of arrays [length, columns], in place or to the start of `work` (`result`).
    `work_bytes` of memory belong to one user at a time.
    """

    length: int
    kind: PrimitiveType
    work_bytes: int
    prepare: Function | None
    apply: Function
    part_bytes: int = 0
    """Of a part of the result in `work`; 0 if it is in place."""

    def emit_prepare(self, builder: IRBuilder, work: Value) -> None:
        """Emits what must be done once before `apply`."""
        if self.prepare is not None:
            builder.call(self.prepare, [work])

    def result(self, builder: IRBuilder, parts: Sequence[Value], work: Value) -> Sequence[Value]:
        """Where `apply` leaves the real and the imaginary parts."""
        if not self.part_bytes:
            return parts
        return work, StructuredBuilder(builder.block).offset(work, const_int(I64, self.part_bytes))


class TransformMaker(abc.ABC):
    """State while the functions of one length are emitted."""

    def __init__(self, context: KernelContext, length: int, kind: PrimitiveType) -> None:
        self.context = context
        self.length = length
        self.kind = kind
        self.register = register_type(kind)
        self.width = context.target.vector_width(self.register)
        self.name = f"fft.{length}.{kind.text}"

    def build(self) -> Transform:
        prepare = self._function("prepare", ["work"], self.emit_prepare) if self.fills_tables() else None
        apply = self._function("apply", ["re", "im", "work"], self.emit_apply)
        return Transform(self.length, self.kind, self.work_bytes(), prepare, apply, self.part_bytes())

    def _function(self, role: str, pointers: Sequence[str], emit: Callable[[LoopNest], None]) -> Function:
        """One of the functions, emitted once."""
        module, name = self.context.module, f"{self.name}.{role}"
        function = module.functions.get(name)
        if function is None:
            function = module.add_function(name, VOID, [(PTR, p) for p in pointers], linkage="internal")
            function.is_cold = self.only_calls(role)
            nest = LoopNest(module, function, self.context.target)
            emit(nest)
            nest.builder.ret_void()
        return function

    def fills_tables(self) -> bool:
        """Whether there are tables in memory for one user, which "prepare" fills."""
        return True

    def only_calls(self, role: str) -> bool:
        """Whether "prepare", or "apply", does nothing but long calls."""
        return False

    @abc.abstractmethod
    def work_bytes(self) -> int:
        """Bytes of memory for one user."""

    def part_bytes(self) -> int:
        """See `Transform`."""
        return 0

    @abc.abstractmethod
    def emit_prepare(self, nest: LoopNest) -> None:
        """Emits the body of `prepare`."""

    @abc.abstractmethod
    def emit_apply(self, nest: LoopNest) -> None:
        """Emits the body of `apply`."""

    def array_bytes(self, size: int) -> int:
        """Bytes of an array of real parts, rounded up so that the next one is aligned."""
        return -(-size * self.kind.byte_width // ALIGNMENT) * ALIGNMENT

    def pieces(self, builder: IRBuilder, work: Value, sizes: Sequence[int]) -> list[Value]:
        """Addresses of consecutive arrays of those sizes."""
        structured_builder = StructuredBuilder(builder.block)
        found: list[Value] = []
        offset = 0
        for size in sizes:
            found.append(structured_builder.offset(work, const_int(I64, offset)))
            offset += self.array_bytes(size)
        return found

    def vector_loop(self, nest: LoopNest, size: int, body: Callable[[AffineExpr], None]) -> None:
        """Calls `body(index)` for every index below size, in vectors."""
        position = nest.new_variable(size)

        def run(_: Sequence[Value]) -> Sequence[Value]:
            body(dim(position))
            return ()

        nest.vector_loop(position, self.width, run)
