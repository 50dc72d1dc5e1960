"""The pass `linalg-prefetch`: marked copies of buffers in loops are made some iterations before they are needed."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim, symbol
from xjit.linalg_ext.ir import Block, Builder, IntegerAttr, IntegerType, LinalgError, Operation, Region, Value
from xjit.linalg_ext.rewrite.effects import is_pure
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder

__all__ = ["PREFETCH", "prefetch"]

PREFETCH = "__byteir_prefetch__"
"""The attribute of copies to be made earlier: by how many iterations, or as many as the pass says."""

_LESS_THAN = 2
"""`slt`, the predicate of `arith.cmpi`."""


def prefetch(module: Operation, count: int = 1, unroll: bool = False) -> None:
    """Copies what iteration `i + count` of a loop reads in iteration `i`, into further buffers.

    These are shifted by copies at the end of an iteration, or, with `unroll`, `count + 1` iterations become one in
    which they take turns. A count below 1 leaves a copy as it is. LinalgError for copies that are not directly in an
    `scf.for` without results, that read something else than a view of the iteration, or write no buffer from outside;
    and for buffers that something else sees, which would find other tiles. A mark promises that the loop does not write
    what the copy reads.
    """
    for op in [op for op in module.walk() if op.name == "linalg.copy" and PREFETCH in op.attributes]:
        mark = op.attributes.pop(PREFETCH)
        ahead = mark.value if isinstance(mark, IntegerAttr) else count
        if ahead > 0:
            _Prefetch(op, ahead).run(unroll)


class _Prefetch:
    """`buffers`: where the next iterations find their data, the next one first; this one finds it in `target`."""

    def __init__(self, copy: Operation, count: int) -> None:
        self.copy, self.count = copy, count
        loop, source, target = copy.parent_op, copy.operands[0].defining_op, copy.operands[1].defining_op
        if loop is None or loop.name != "scf.for" or loop.results:
            raise self._error("is not directly in an scf.for without results")
        if source is None or source.block is not copy.block or not is_pure(source) or not self._only_variable(source):
            raise self._error("reads no view that the loop's variable alone moves")
        if target is None or target.name != "memref.alloc" or loop.is_ancestor_of(target):
            raise self._error("writes no buffer that is allocated outside of the loop")
        self.loop, self.source, self.target = loop, source, target
        if not all(self._finds_the_copy(use.owner) for use in target.result.uses):
            raise self._error("writes a buffer that is used before it in the loop, or outside of that")
        self.buffers: list[Value] = []

    def _error(self, why: str) -> LinalgError:
        return LinalgError(f"'linalg.copy' op cannot be prefetched: it {why}", self.copy.location)

    def _only_variable(self, op: Operation) -> bool:
        """Whether an operation of the loop's body uses nothing that others there compute."""
        block = self.copy.block
        return all(v.defining_op is None or v.defining_op.block is not block for v in op.operands)

    def _finds_the_copy(self, user: Operation) -> bool:
        """Whether what uses the buffer does so behind the copy in each iteration, or frees it."""
        around = next((op for op in (user, *user.ancestors()) if op.block is self.copy.block), None)
        if around is None:
            return user.name == "memref.dealloc"
        return around is self.copy or self.copy.is_before(around)

    def run(self, unroll: bool) -> None:
        outside = Builder.before(self.loop)
        self.buffers = [outside.clone(self.target).result for _ in range(self.count)]
        lower, block = self.loop.operands[0], self.loop.body
        for i, buffer in enumerate([self.target.result, *self.buffers[:-1]]):
            self._copy_ahead(outside, lower, i, buffer)
        body, variable = list(block.operations[:-1]), block.arguments[0]
        self._copy_ahead(Builder.before(self.copy), variable, self.count, self.buffers[-1])
        if unroll:
            self._unroll(body)
        else:
            self._shift(Builder.before(block.terminator))
        self.copy.erase()

    def _guarded(self, builder: Builder, start: Value, steps: int) -> tuple[Builder, Value]:
        """Returns the inside of an `scf.if` that there is the iteration `steps` behind `start`, and its index."""
        upper, step = self.loop.operands[1:3]
        index = IndexBuilder(builder)
        at = index.value(index.apply(dim(0) + symbol(0) * steps, (start,), (step,)))
        attributes = {"predicate": IntegerAttr(_LESS_THAN, IntegerType(64))}
        inside = builder.create("arith.cmpi", (at, upper), (IntegerType(1),), attributes).result
        block = Block()
        Builder(block, location=self.copy.location).create("scf.yield")
        builder.create("scf.if", (inside,), (), {}, [Region([block]), Region([])])
        return Builder(block, block.terminator, self.copy.location), at

    def _copy_ahead(self, builder: Builder, start: Value, steps: int, buffer: Value) -> None:
        inside, at = self._guarded(builder, start, steps)
        view = inside.clone(self.source, {self.loop.body.arguments[0]: at}).result
        inside.clone(self.copy, {self.copy.operands[0]: view, self.copy.operands[1]: buffer})

    def _shift(self, builder: Builder) -> None:
        for buffer, before in zip(self.buffers, [self.target.result, *self.buffers]):
            builder.clone(self.copy, {self.copy.operands[0]: buffer, self.copy.operands[1]: before})

    def _unroll(self, body: Sequence[Operation]) -> None:
        """Runs the next `count` iterations, too, each on its own buffer, which the one after it fills again."""
        loop = self.loop
        variable, free = loop.body.arguments[0], self.target.result
        for i, buffer in enumerate(self.buffers):
            inside, at = self._guarded(Builder.before(loop.body.terminator), variable, i + 1)
            mapping: dict[Value, Value] = {variable: at, self.target.result: buffer}
            for op in body:
                if op is self.copy:
                    self._copy_ahead(inside, variable, self.count + 1 + i, free)
                else:
                    inside.clone(op, mapping)
            free = buffer
        index = IndexBuilder(Builder.before(loop))
        loop.set_operand(
            2, index.builder.affine_apply(AffineMap(0, 1, (symbol(0) * (self.count + 1),)), loop.operands[2:3])
        )
