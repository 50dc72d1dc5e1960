"""fuse_into_containing_op: computes a producer inside a loop, where the loop takes tiles of it."""

from __future__ import annotations

from xjit.affine import AffineExpr, constant, dim
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    Builder,
    DenseArrayAttr,
    LinalgError,
    Operation,
    OpResult,
    TensorType,
    Value,
)
from xjit.linalg_ext.structured import REDUCTION, shape_of
from xjit.linalg_ext.transforms.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.rollback import taking_back
from xjit.linalg_ext.transforms.slices import extract_tile, slice_lists
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiles import Tile, same_tile

__all__ = ["fuse_into_containing_op"]


def fuse_into_containing_op(producer: Operation, containing: Operation) -> tuple[Operation, ...]:
    """Replaces the slices that `containing`, a loop, takes of `producer` by the producer on tiles; returns these.

    Where the loop uses all of it, a copy goes into the loop. The producer stays where it is if it has other users.
    LinalgError if the loop does not use it, or if none of its uses can be fused.
    """
    if not containing.regions or producer.block is not containing.block or not producer.is_before(containing):
        raise LinalgError(f"'{producer.name}' op is no producer of '{containing.name}'", producer.location)
    tilable = as_tilable(producer)
    _start_from_init(tilable, containing)
    inside = [use for r in producer.results for use in r.uses if containing.is_ancestor_of(use.owner)]
    inside = [use for use in inside if use.owner is not containing]
    if not inside:
        raise LinalgError(f"'{producer.name}' op is not used inside of '{containing.name}'", producer.location)
    fused: list[Operation | None] = []
    refused: LinalgError | None = None
    for use in inside:
        if use.owner.name == "tensor.extract_slice" and use.index == 0:
            index = IndexBuilder(Builder.before(use.owner))
            try:
                with taking_back(index, ()):
                    fused.append(_fuse_slice(tilable, use.owner, index))
            except LinalgError as error:
                refused = error
        elif use.owner.name == "tensor.dim":
            continue
        else:
            fused.append(_copy_for(producer, use.owner, use.index))
    if refused is not None and not fused:
        raise refused
    if not any(result.has_uses for result in producer.results):
        producer.erase()
    return tuple(op for op in fused if op is not None)


def _fuse_slice(tilable: Tilable, slice_op: Operation, index: IndexBuilder) -> Operation | None:
    """Puts the producer of a slice in its place."""
    source = slice_op.operands[0]
    assert isinstance(source, OpResult)
    offsets, sizes, strides = slice_lists(slice_op, 1)
    if any(s != 1 for s in strides):
        raise tilable.error("is fused only where it is sliced with steps of one")
    tile = Tile.of((o, s, False) for o, s in zip(offsets, sizes))
    domain = tilable.domain_of(index, source.index, tile)
    whole = [] if domain is None else tilable.whole_loops(index, domain)
    fixed = [kind == REDUCTION or i in tilable.fixed_loops for i, kind in enumerate(tilable.iterator_types)]
    if domain is None or any(not w and f for w, f in zip(whole, fixed)):
        raise tilable.error("cannot compute this tile of its result alone")
    tiles = tilable.operand_tiles(index, domain)
    operands = [v if t is None else extract_tile(index.builder, v, t) for v, t in zip(tilable.op.operands, tiles)]
    value = tilable.emit(index, domain, operands)[source.index]
    found = tilable.result_tile(index, source.index, domain)
    if not same_tile(found, tile):
        raise tilable.error("cannot compute this tile of its result alone")
    tiled = value.defining_op
    if value.type != slice_op.result.type:  # the slice dropped dimensions of size one
        kept = Tile.of((0, s, False) for s in tile.sizes)
        assert isinstance(slice_op.result.type, TensorType)
        value = extract_tile(index.builder, value, kept, slice_op.result.type)
    slice_op.result.replace_all_uses_with(value)
    slice_op.erase()
    return tiled


def _copy_for(producer: Operation, user: Operation, index: int) -> Operation:
    used = user.operands[index]
    assert isinstance(used, OpResult)
    copy = Builder.before(user).clone(producer)
    user.set_operand(index, copy.results[used.index])
    return copy


def _start_from_init(tilable: Tilable, containing: Operation) -> None:
    """A producer that the loop writes into: the loop starts with the producer's own init, and slices of its argument
    that it reads become slices of the producer.
    """
    for use in [u for r in tilable.op.results for u in r.uses if u.owner is containing]:
        source = use.value
        assert isinstance(source, OpResult)
        init = tilable.init_of(source)
        number = use.index - (len(containing.operands) - len(containing.results))
        block = containing.body
        argument = block.arguments[len(block.arguments) - len(containing.results) + number]
        slices = [u for u in argument.uses if u.owner.name == "tensor.extract_slice" and u.index == 0]
        written = [u for u in argument.uses if u.owner.name == "tensor.parallel_insert_slice" and u.index == 1]
        if containing.name != "scf.forall" or init is None or tilable.reads_init(source.index):
            continue
        only = len(slices) == 1 and len(written) == 1 and len(argument.uses) == 2
        if only and _is_written_whole(containing, written[0].owner):
            containing.set_operand(use.index, tilable.op.operands[init])
            slices[0].set(source)


def _is_written_whole(loop: Operation, insertion: Operation) -> bool:
    """Whether the iterations of a `scf.forall` are known to write all of a shared output."""
    bounds = loop.attributes["staticUpperBound"]
    assert isinstance(bounds, DenseArrayAttr)
    count = {id(v): n for v, n in zip(loop.body.arguments, bounds.ints)}
    offsets, sizes, _ = slice_lists(insertion, 2)
    return all(
        _is_dimension_written(count, offset, size, extent)
        for offset, size, extent in zip(offsets, sizes, shape_of(insertion.operands[1]))
    )


def _is_dimension_written(count: dict[int, int], offset: Index, size: Index, extent: int | None) -> bool:
    """All of it at once, or shares of a static size from a multiple of the loop variable on."""
    if extent is None:
        return False
    if offset == 0 and size == extent:
        return True
    share = _affine_of(offset, "affine.apply")
    variable, results = share if share is not None else (offset, (dim(0),))
    number = count.get(id(variable), 0)
    if len(results) != 1 or number <= 0:
        return False
    [(term, step)] = results[0].terms if len(results[0].terms) == 1 else [(results[0], 0)]
    if term is not dim(0) or results[0].constant_term or step <= 0:
        return False
    rest = _affine_of(size, "affine.min")
    is_cut = rest is not None and rest[0] is variable and set(rest[1]) == {extent - dim(0) * step, constant(step)}
    return (size == step and number * step == extent) or (is_cut and number * step >= extent)


def _affine_of(index: Index, name: str) -> tuple[Value, tuple[AffineExpr, ...]] | None:
    """The operand and the results of an affine op of one operand."""
    op = None if isinstance(index, int) else index.defining_op
    if op is None or op.name != name or len(op.operands) != 1:
        return None
    attribute = op.attributes["map"]
    assert isinstance(attribute, AffineMapAttr)
    return op.operands[0], attribute.map.results
