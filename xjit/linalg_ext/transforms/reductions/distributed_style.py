"""shared_output_to_distributed_style: a parallel reduction where each thread keeps its part, and all exchange them."""

from __future__ import annotations

from xjit.affine import AffineMap
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    ArrayAttr,
    Attribute,
    Block,
    Builder,
    DenseArrayAttr,
    EnumAttr,
    LinalgError,
    Operation,
    Region,
    TensorType,
    Value,
)
from xjit.linalg_ext.structured import PARALLEL, shape_of, structured
from xjit.linalg_ext.transforms.building_blocks.collectives import all_reduced, combiner_of
from xjit.linalg_ext.transforms.building_blocks.slices import insert_tile_in_parallel
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["shared_output_to_distributed_style"]


def shared_output_to_distributed_style(
    loop: Operation, init: Operation, merge: Operation
) -> tuple[Operation, Operation]:
    """Rewrites what `tile_reduction_using_forall` made: `loop`, the fill before it and the merge behind it.

    In the new loop a thread reduces its share into a tensor of the result's shape, `ccl.all_reduce` puts the shares
    together, and each thread merges the sum with the init. Returns the new loop and the new fill. LinalgError if the
    three do not belong together.
    """
    split = _check(loop, init, merge)
    view = structured(merge)
    target = view.inits[0]
    kind = target.type
    assert isinstance(kind, TensorType)
    new_init = _private_init(loop, init, kind)
    body = Block([a.type for a in loop.body.arguments[:1]] + [kind])
    mapping: dict[Value, Value] = {loop.body.arguments[0]: body.arguments[0]}
    mapping[split.operands[-1]] = new_init.result
    inside = Builder(body, location=loop.location)
    for op in loop.body.operations[:-1]:
        if op is not split.operands[-1].defining_op:
            inside.clone(op, mapping)
    part = mapping[split.result]
    assert part.defining_op is not None
    count = _threads(loop)
    reduced = all_reduced(part.defining_op, count)
    if reduced is None:
        raise LinalgError(f"'{split.name}' op is no reduction with a known combiner", split.location)
    merged = _elementwise(inside, merge, reduced, target)
    ends = Block()
    whole = Tile.of((0, n if n is not None else 0, True) for n in shape_of(target))
    insert_tile_in_parallel(Builder(ends), merged, body.arguments[1], whole)
    inside.create("scf.forall.in_parallel", (), (), {}, [Region([ends])])
    new_loop = Builder.before(merge).create(
        "scf.forall", (_empty(merge, kind),), (kind,), loop.attributes, [Region([body])], loop.location
    )
    merge.replace_all_uses_with(new_loop.results)
    for op in (merge, loop, init):
        op.erase()
    return new_loop, new_init


def _check(loop: Operation, init: Operation, merge: Operation) -> Operation:
    """Returns the reduction in the loop."""
    names = (loop.name, init.name, merge.name)
    belong = names == ("scf.forall", "linalg.fill", "linalg.generic") and len(loop.results) == 1
    belong = belong and loop.operands[-1:] == init.results and merge.operands[0] is loop.result
    split = [op for op in loop.body.operations if op.dialect == "linalg"] if belong else []
    if len(split) != 1 or len(loop.result.uses) != 1 or split[0].operands[-1].defining_op is None:
        raise LinalgError(
            f"'{loop.name}' op is no loop of a parallel reduction with this init and merge", loop.location
        )
    kind = merge.operands[-1].type
    if not isinstance(kind, TensorType) or None in kind.shape or combiner_of(structured(merge)) is None:
        raise LinalgError(f"'{merge.name}' op merges no tensors of static shapes", merge.location)
    if len(loop.body.arguments) != 2 or split[0].result.type != kind:
        raise LinalgError(f"'{loop.name}' op does not have one share per thread", loop.location)
    return split[0]


def _empty(merge: Operation, kind: TensorType) -> Value:
    return Builder.before(merge).create("tensor.empty", (), (kind,)).result


def _private_init(loop: Operation, init: Operation, kind: TensorType) -> Operation:
    before = Builder.before(loop)
    empty = before.create("tensor.empty", (), (kind,)).result
    return before.create("linalg.fill", (init.operands[0], empty), (kind,), init.attributes)


def _threads(loop: Operation) -> int | None:
    bounds = loop.attributes["staticUpperBound"]
    assert isinstance(bounds, DenseArrayAttr)
    return bounds.ints[0] if bounds.ints[0] > 0 else None


def _elementwise(builder: Builder, merge: Operation, reduced: Value, target: Value) -> Value:
    """Combines the sum of all parts with what the reduction began with."""
    rank = len(shape_of(target))
    identity = AffineMapAttr(AffineMap.identity(rank))
    attributes: dict[str, Attribute] = {
        "indexing_maps": ArrayAttr((identity, identity)),
        "iterator_types": ArrayAttr((EnumAttr("linalg.iterator_type", PARALLEL),) * rank),
        "operandSegmentSizes": DenseArrayAttr.i32((1, 1)),
    }
    body = merge.regions[0].clone({})
    return builder.create("linalg.generic", (reduced, target), (target.type,), attributes, [body]).result
