"""Fuses two elementwise generics that read the same tensor."""

from __future__ import annotations

from xjit.affine import AffineMap
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.structured import StructuredOp, structured
from xjit.linalg_ext.transforms.elementwise_fusion.draft import Draft, Operand, copy_body
from xjit.linalg_ext.transforms.elementwise_fusion.moving import dependents_before, move_behind
from xjit.linalg_ext.transforms.elementwise_fusion.producers import inverse_permutation, is_yield_only

__all__ = ["fuse_siblings"]


def fuse_siblings(value: Value) -> Operation | None:
    """Fuses two of the generics that read a value, the first two that fit; returns the new generic.

    Both have parallel loops only and read each element of the value in one iteration; what uses the first one's results
    is moved behind the second. None if there are no two.
    """
    users = [op for op in value.users if op.name == "linalg.generic" and _index_of(op, value) is not None]
    for number, first in enumerate(users):
        for second in users[number + 1 :]:
            if first.block is not second.block:
                continue
            early, late = (first, second) if first.is_before(second) else (second, first)
            fused = _fuse(structured(early), structured(late), value)
            if fused is not None:
                return fused
    return None


def _index_of(op: Operation, value: Value) -> int | None:
    """Returns the first input that is the value, of an op with parallel loops that computes something."""
    view = structured(op)
    if not view.has_tensor_semantics or not view.is_elementwise or is_yield_only(view) or value not in view.inputs:
        return None
    index = view.inputs.index(value)
    return index if view.indexing_maps[index].is_permutation else None


def _fuse(early: StructuredOp, late: StructuredOp, value: Value) -> Operation | None:
    moved = dependents_before(early.operation.results, late.operation)
    if moved is None or any(user is late.operation for r in early.operation.results for user in r.users):
        return None
    read_early, read_late = (op.indexing_maps[op.inputs.index(value)] for op in (early, late))
    loops = inverse_permutation(read_late).compose(read_early)  # of the late op, in those of the early one
    fused = _build(early, late, loops)
    move_behind(moved, fused)
    for old, new in zip((*early.operation.results, *late.operation.results), fused.results):
        old.replace_all_uses_with(new)
    late.operation.erase()
    early.operation.erase()
    return fused


def _build(early: StructuredOp, late: StructuredOp, loops: AffineMap) -> Operation:
    identity = AffineMap.identity(early.num_loops)
    inputs: list[Operand] = []
    inits: list[Operand] = []
    for op, of in ((early, identity), (late, loops)):
        maps = [m.compose(of) for m in op.indexing_maps]
        inputs += zip(op.inputs, maps)
        inits += zip(op.inits, maps[len(op.inputs) :])
    fused, block = Draft(early.iterator_types, inputs, inits).build(Builder.before(late.operation))
    body = Builder(block, location=late.operation.location)
    arguments = iter(block.arguments)
    mapping: dict[Value, Value] = {}
    for op in (early, late):
        mapping.update(zip(op.body.arguments[: len(op.inputs)], arguments))
    for op in (early, late):
        mapping.update(zip(op.body.arguments[len(op.inputs) :], arguments))
    yielded = [v for op, of in ((early, identity), (late, loops)) for v in copy_body(body, op, mapping, of)]
    body.create("linalg.yield", yielded)
    return fused
