"""forall_to_parallel: a `scf.forall` on memrefs as a `scf.parallel`."""

from __future__ import annotations

from xjit.linalg_ext.ir import Block, Builder, DenseArrayAttr, IndexType, LinalgError, Operation, Region
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.loops.forall_to_for import forall_bounds

__all__ = ["forall_to_parallel"]


def forall_to_parallel(loop: Operation) -> Operation:
    """Replaces a `scf.forall` without shared outputs by a `scf.parallel` of the same iterations; returns that.

    LinalgError, with the operation's place, for other operations.
    """
    if loop.name != "scf.forall" or loop.results:
        raise LinalgError(
            f"'{loop.name}' op is no scf.forall without shared outputs: only those are parallel", loop.location
        )
    index = IndexBuilder(Builder.before(loop))
    bounds = [[index.value(n) for n in along] for along in forall_bounds(loop)]
    block = Block([IndexType()] * len(bounds[0]))
    attributes = {"operandSegmentSizes": DenseArrayAttr.i32([*map(len, bounds), 0])}
    operands = [value for along in bounds for value in along]
    made = index.builder.create("scf.parallel", operands, (), attributes, [Region([block])], loop.location)
    for old, new in zip(loop.body.arguments, block.arguments):
        old.replace_all_uses_with(new)
    inside = Builder(block, location=loop.location)
    for op in loop.body.operations[:-1]:
        op.remove()
        inside.insert(op)
    inside.create("scf.reduce", ())
    loop.erase()
    return made
