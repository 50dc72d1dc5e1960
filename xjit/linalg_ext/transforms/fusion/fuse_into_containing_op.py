"""fuse_into_containing_op: computes a producer inside a loop, where the loop takes tiles of it."""

from __future__ import annotations

from xjit.linalg_ext.ir import (
    Builder,
    LinalgError,
    Operation,
    OpResult,
    TensorType,
    Value,
)
from xjit.linalg_ext.structured import REDUCTION
from xjit.linalg_ext.transforms.building_blocks.coverage import covers_all, writes_all
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.rollback import taking_back
from xjit.linalg_ext.transforms.building_blocks.slices import extract_tile, slice_lists
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, same_tile
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiling.forall import add_shared_output

__all__ = ["fuse_into_containing_op"]


def fuse_into_containing_op(producer: Operation, containing: Operation) -> tuple[Operation, ...]:
    """Replaces the slices that `containing`, a loop, takes of `producer` by the producer on tiles; returns these.

    Where the loop uses all of it, a copy goes into the loop. Users behind a `scf.forall` get a result of the loop, if
    the tiles are known to be all of the producer's; else the producer stays where it is for them.
    LinalgError if the loop does not use it, or if none of its uses can be fused.
    """
    if not containing.regions or producer.block is not containing.block or not producer.is_before(containing):
        raise LinalgError(f"'{producer.name}' op is no producer of '{containing.name}'", producer.location)
    fusion = _Fusion(as_tilable(producer), containing)
    fusion.start_from_inits()
    inside = [use for r in producer.results for use in r.uses if containing.is_ancestor_of(use.owner)]
    inside = [use for use in inside if use.owner is not containing]
    if not inside:
        raise LinalgError(f"'{producer.name}' op is not used inside of '{containing.name}'", producer.location)
    refused: LinalgError | None = None
    for use in inside:
        if use.owner.name == "tensor.extract_slice" and use.index == 0:
            index = IndexBuilder(Builder.before(use.owner))
            try:
                with taking_back(index, ()):
                    fusion.fuse_slice(use.owner, index)
            except LinalgError as error:
                refused = error
        elif use.owner.name != "tensor.dim":
            fusion.fused.append(_copy_for(producer, use.owner, use.index))
    if refused is not None and not fusion.fused:
        raise refused
    fusion.yield_to_later_users()
    if not any(result.has_uses for result in producer.results):
        producer.erase()
    return tuple(op for op in fusion.fused if op is not None)


class _Fusion:
    """A producer that goes into a loop: what has been fused, and the tiles of its results that there are then."""

    def __init__(self, tilable: Tilable, containing: Operation) -> None:
        self.tilable, self.containing = tilable, containing
        self.fused: list[Operation | None] = []
        self.tiles: dict[OpResult, tuple[Value, Tile]] = {}
        self.sources = list(tilable.op.operands)

    def start_from_inits(self) -> None:
        """A producer that the loop writes into: the loop starts with the producer's own init, and slices of its
        argument that it reads become slices of the producer, which reads its init from the argument.
        """
        loop, tilable = self.containing, self.tilable
        for use in [u for r in tilable.op.results for u in r.uses if u.owner is loop]:
            source = use.value
            assert isinstance(source, OpResult)
            init = tilable.init_of(source)
            number = use.index - (len(loop.operands) - len(loop.results))
            block = loop.body
            argument = block.arguments[len(block.arguments) - len(loop.results) + number]
            slices = [u for u in argument.uses if u.owner.name == "tensor.extract_slice" and u.index == 0]
            written = [u for u in argument.uses if u.owner.name == "tensor.parallel_insert_slice" and u.index == 1]
            if loop.name != "scf.forall" or init is None or tilable.reads_init(source.index):
                continue
            only = len(slices) == 1 and len(written) == 1 and len(argument.uses) == 2
            if only and writes_all(loop, written[0].owner):
                loop.set_operand(use.index, tilable.op.operands[init])
                slices[0].set(source)
                self.sources[init] = argument

    def fuse_slice(self, slice_op: Operation, index: IndexBuilder) -> None:
        """Puts the producer of a slice in its place."""
        source, tilable = slice_op.operands[0], self.tilable
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
        operands = [v if t is None else extract_tile(index.builder, v, t) for v, t in zip(self.sources, tiles)]
        values = tilable.emit(index, domain, operands)
        found = [tilable.result_tile(index, number, domain) for number in range(len(values))]
        if not same_tile(found[source.index], tile):
            raise tilable.error("cannot compute this tile of its result alone")
        for result, tile_value, where in zip(tilable.op.results, values, found):
            if slice_op.parent_op is self.containing:
                self.tiles.setdefault(result, (tile_value, where))
        value = values[source.index]
        self.fused.append(value.defining_op)
        if value.type != slice_op.result.type:  # the slice dropped dimensions of size one
            kept = Tile.of((0, s, False) for s in tile.sizes)
            assert isinstance(slice_op.result.type, TensorType)
            value = extract_tile(index.builder, value, kept, slice_op.result.type)
        slice_op.result.replace_all_uses_with(value)
        slice_op.erase()

    def yield_to_later_users(self) -> None:
        """What the iterations compute of a result, if it is all of it, is a result of the loop."""
        loop = self.containing
        for result, (value, tile) in self.tiles.items():
            init = self.tilable.init_of(result)
            later = [use for use in result.uses if _is_behind(use.owner, loop)]
            if loop.name != "scf.forall" or init is None or not later or not covers_all(loop, tile, result):
                continue
            new = add_shared_output(loop, self.tilable.op.operands[init], value, tile)
            for use in later:
                use.set(new)


def _is_behind(op: Operation, loop: Operation) -> bool:
    """Whether an operation, or what it is in, stands behind the loop in its block."""
    at = next((o for o in (op, *op.ancestors()) if o.block is loop.block), None)
    return at is not None and at is not loop and loop.is_before(at)


def _copy_for(producer: Operation, user: Operation, index: int) -> Operation:
    used = user.operands[index]
    assert isinstance(used, OpResult)
    copy = Builder.before(user).clone(producer)
    user.set_operand(index, copy.results[used.index])
    return copy
