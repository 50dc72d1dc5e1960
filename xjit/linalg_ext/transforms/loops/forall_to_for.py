"""forall_to_for: the iterations of a `scf.forall` one after the other, in a nest of `scf.for`."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.ir import Block, Builder, DenseArrayAttr, IndexType, LinalgError, Operation, Region, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import mixed, slice_lists

__all__ = ["forall_bounds", "forall_to_for"]


def forall_to_for(loop: Operation) -> list[Operation]:
    """Replaces a `scf.forall` by loops, one per index, which are returned, outermost first.

    Shared outputs go through the loops, and what is inserted in parallel is inserted. An iteration reads of an output
    what was there before all of them: reads of the tile that it inserts itself, and that no other one has, may see the
    output that goes through. LinalgError for other operations.
    """
    if loop.name != "scf.forall":
        raise LinalgError(f"'{loop.name}' op is no scf.forall", loop.location)
    lower, upper, step = forall_bounds(loop)
    outer = IndexBuilder(Builder.before(loop))
    shared = list(loop.operands[len(loop.operands) - len(loop.results) :])
    builder, carried, found = outer.builder, shared, list[Operation]()
    variables: list[Value] = []
    for bounds in [[outer.value(n) for n in bounds] for bounds in zip(lower, upper, step)]:
        block = Block([IndexType(), *(v.type for v in shared)])
        found.append(
            builder.create("scf.for", [*bounds, *carried], loop.result_types, {}, [Region([block])], loop.location)
        )
        if len(found) > 1:
            builder.create("scf.yield", found[-1].results)
        builder = Builder(block, location=loop.location)
        variables.append(block.arguments[0])
        carried = block.arguments[1:]
    if not found:
        raise LinalgError("'scf.forall' op has no loops", loop.location)
    _move_body(loop, builder, variables, shared, carried)
    loop.replace_all_uses_with(found[0].results)
    loop.erase()
    return found


def forall_bounds(loop: Operation) -> list[list[Index]]:
    """Returns the lower bounds, the upper bounds and the steps of a `scf.forall`."""
    rest: Sequence[Value] = loop.operands[: len(loop.operands) - len(loop.results)]
    lists: list[list[Index]] = []
    for name in ("LowerBound", "UpperBound", "Step"):
        attribute = loop.attributes[f"static{name}"]
        assert isinstance(attribute, DenseArrayAttr)
        indices, rest = mixed(attribute.ints, rest)
        lists.append(indices)
    return lists


def _move_body(
    loop: Operation, builder: Builder, variables: Sequence[Value], shared: Sequence[Value], carried: Sequence[Value]
) -> None:
    """Moves the body behind the variables of the innermost loop, and closes that."""
    old, end = loop.body, loop.body.terminator
    ids, outs = old.arguments[: len(variables)], old.arguments[len(variables) :]
    insertions = list(end.body.operations) if end.regions and end.regions[0].blocks else []
    tiles = {op.operands[1]: slice_lists(op, 2) for op in insertions}
    for out, init, through in zip(outs, shared, carried):
        for use in list(out.uses):
            reader = use.owner
            own = reader.name == "tensor.extract_slice" and slice_lists(reader, 1) == tiles.get(out)
            if reader not in insertions:
                use.set(through if own else init)
    for argument, variable in zip(ids, variables):
        argument.replace_all_uses_with(variable)
    for op in old.operations[:-1]:
        op.remove()
        builder.insert(op)
    results: dict[Value, Value] = dict(zip(outs, carried))
    for op in insertions:
        source, out, *rest = op.operands
        created = builder.create(
            "tensor.insert_slice", (source, results[out], *rest), (out.type,), op.attributes, location=op.location
        )
        results[out] = created.result
    builder.create("scf.yield", [results[out] for out in outs])
