"""Stages of Stockham's algorithm for strides that no vectors fit, and for roots that are no constants.

Each is a function of a library, as `stages` are, but for one radix and one size: loops, masks and the pattern of lanes
depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, butterfly, interleave, multiply
from xjit.emitters.kernels.fft.stages import STAGE_POINTERS, linked_stage, weaves
from xjit.emitters.kernels.fft.transform import load_pair, split_complex, store_pair
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.library import Library
from xjit.llvm.module import Declaration, Module
from xjit.llvm.target import Target
from xjit.llvm.types import VOID
from xjit.llvm.values import Value


def strided_stage(module: Module, sizes: tuple[int, int, int], step: int, kind: PrimitiveType) -> Declaration:
    """Declares, with `STAGE_POINTERS`, the stage of a radix, m and stride; root number p k step is w^(pk)."""
    name = "_".join(map(str, ("xjit_fft_stage", *sizes, step, kind.text)))
    return linked_stage(module, Library.of(name, _module, name, sizes, step, kind, module.target), STAGE_POINTERS)


def _module(name: str, sizes: tuple[int, int, int], step: int, kind: PrimitiveType, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    function = module.add_function(name, VOID, STAGE_POINTERS)
    nest = LoopNest(module, function, target)
    _Stage(nest, sizes, step, kind).emit()
    nest.builder.ret_void()
    return module


class _Stage:
    """State while one stage is emitted."""

    def __init__(self, nest: LoopNest, sizes: tuple[int, int, int], step: int, kind: PrimitiveType) -> None:
        self.radix, self.m, self.stride = sizes
        self.nest = nest
        self.step = step
        self.width = nest.target.vector_width(register_type(kind))
        self.memory = MemoryAccess(nest)
        arrays = [nest.function.args[first : first + 2] for first in (0, 2, 4)]
        size, roots = self.radix * self.m * self.stride, self.radix * self.m * step
        self.source, self.target, self.roots = (
            split_complex(kind, count, pair) for count, pair in zip((size, size, roots), arrays, strict=True)
        )

    def emit(self) -> None:
        """Emits the loops: over p and q, or over both at once where q is short."""
        nest, stride = self.nest, self.stride
        if stride > self.width:
            p, q = nest.new_variable(self.m), nest.new_variable(stride)
            nest.scalar_loop(p, lambda _: nest.vector_loop(q, self.width, lambda _: self._element(dim(p), dim(q))))
            return
        both = dim(number := nest.new_variable(self.m * stride))
        if weaves(self.radix, self.m, stride, self.width):
            nest.vector_loop(number, self.width, lambda _: self._woven(both))
        else:
            nest.vector_loop(number, self.width, lambda _: self._element(both.floordiv(stride), both.mod(stride)))

    def _load(self, buffers: Sequence[Buffer], index: AffineExpr) -> Pair:
        return load_pair(self.nest, self.memory, buffers, (index,))

    def _outputs(self, p: AffineExpr, q: AffineExpr) -> list[Pair]:
        builder = self.nest.builder
        inputs = [self._load(self.source, q + (p + self.m * j) * self.stride) for j in range(self.radix)]
        first, *others = butterfly(builder, inputs)
        if self.m == 1:
            return [first, *others]
        roots = [self._load(self.roots, p * (k * self.step)) for k in range(1, self.radix)]
        return [first, *(multiply(builder, x, root) for x, root in zip(others, roots, strict=True))]

    def _element(self, p: AffineExpr, q: AffineExpr) -> Sequence[Value]:
        for k, value in enumerate(self._outputs(p, q)):
            store_pair(self.memory, self.target, (q + (p * self.radix + k) * self.stride,), value)
        return ()

    def _woven(self, both: AffineExpr) -> Sequence[Value]:
        radix, width = self.radix, self.width
        pairs = self._outputs(both.floordiv(self.stride), both.mod(self.stride))
        parts = [interleave(self.nest.builder, part, self.stride) for part in zip(*pairs, strict=True)]
        for n, value in enumerate(zip(*parts, strict=True)):
            place = both.floordiv(width) * (radix * width) + both.mod(width) + n * width
            store_pair(self.memory, self.target, (place,), value)
        return ()
