"""pack_transpose: the dimensions of a packed operand in another order, in its pack, its user, and what unpacks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.affine import AffineMap
from xjit.linalg_ext.dialects.packing import PACK, UNPACK, packing_of
from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.ir import Builder, LinalgError, Operation, TensorType, Value
from xjit.linalg_ext.structured import StructuredOp, as_structured
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty
from xjit.linalg_ext.transforms.packing.pack import create_packing
from xjit.linalg_ext.transforms.single_ops.generalize import generic_body

__all__ = ["TransposedPacking", "pack_transpose"]


@dataclass(frozen=True)
class TransposedPacking:
    """What has become of the pack, of the op on packed operands, and of the unpack of its result, if there is one."""

    pack: Operation
    op: Operation
    unpack: Operation | None


def pack_transpose(
    packing: Operation, operation: Operation, outer: Sequence[int] = (), inner: Sequence[int] = ()
) -> TransposedPacking:
    """Permutes the outer and the inner dimensions of what a `pack` gives a structured op, or an `unpack` takes of it.

    Dimension i is what dimension `outer[i]`, or `inner[i]`, was. LinalgError, with the operation's place, for lists
    that are no permutations, and where pack, op and unpack are not each other's only users; then nothing has changed.
    """
    op = as_structured(operation)
    if op is None or not op.row.pointwise:
        raise LinalgError(f"'{operation.name}' op is no nest of loops", operation.location)
    pack, number = _pack_of(packing, op)
    how = packing_of(pack)
    outer, inner = list(outer) or range(len(how.outer)), list(inner) or range(len(how.inner))
    for word, found, kind in (("outer", outer, how.outer), ("inner", inner, how.inner)):
        if sorted(found) != list(range(len(kind))):
            message = f"'{pack.name}' op expects a permutation as {word}_perm, found {list(found)}"
            raise LinalgError(message, pack.location)
    unpack = _unpack_of(op, number)
    order = [*outer, *(len(how.outer) + i for i in inner)]
    new_pack = _permuted(pack, pack.operands[0], None, outer, inner)
    operands = [new_pack.result if i == number else v for i, v in enumerate(op.operands)]
    maps = list(op.indexing_maps)
    old = maps[number]
    maps[number] = AffineMap(old.num_dims, 0, tuple(old.results[i] for i in order))
    count = len(op.inputs)
    builder = Builder.before(operation)
    new = create_generic(builder, operands[:count], operands[count:], maps, op.iterator_types, generic_body(op))
    new_unpack = None
    for i, result in enumerate(operation.results):
        if unpack is not None and count + i == number:
            new_unpack = _permuted(unpack, new.results[i], unpack.operands[1], outer, inner)
            unpack.replace_all_uses_with(new_unpack.results)
            unpack.erase()
        else:
            result.replace_all_uses_with(new.results[i])
    operation.erase()
    pack.erase()
    return TransposedPacking(new_pack, new, new_unpack)


def _pack_of(packing: Operation, op: StructuredOp) -> tuple[Operation, int]:
    """Returns the pack, and which operand of the op it gives."""
    pack: Operation | None = packing
    if packing.name in UNPACK:
        results: list[Value] = [*op.operation.results]
        if packing.operands[0] not in results:
            raise LinalgError(f"'{packing.name}' op does not take a result of the compute op", packing.location)
        number = len(op.inputs) + results.index(packing.operands[0])
        pack = op.operands[number].defining_op
    elif packing.name not in PACK:
        raise LinalgError(f"'{packing.name}' op requires target to map to a pack or unpack", packing.location)
    if pack is None or pack.name not in PACK or len(pack.result.uses) != 1 or pack.result not in op.operands:
        raise LinalgError(f"'{packing.name}' op: not a single use by the compute op", packing.location)
    return pack, op.operands.index(pack.result)


def _unpack_of(op: StructuredOp, number: int) -> Operation | None:
    """Returns what unpacks the result that an init becomes; None for an input."""
    if number < len(op.inputs):
        return None
    result = op.operation.results[number - len(op.inputs)]
    users = result.users
    if len(result.uses) != 1 or users[0].name not in UNPACK or users[0].operands[0] is not result:
        message = f"'{op.operation.name}' op has a packed init, and its result has another user than one unpack"
        raise LinalgError(message, op.operation.location)
    return users[0]


def _permuted(
    packing: Operation, source: Value, dest: Value | None, outer: Sequence[int], inner: Sequence[int]
) -> Operation:
    """Makes the pack or unpack with dimensions in another order; a pack into an empty tensor."""
    how = packing_of(packing)
    index = IndexBuilder(Builder.before(packing))
    if dest is None:
        kind, rank = packing.result.type, len(how.outer)
        assert isinstance(kind, TensorType)
        sizes = [index.dim_of(packing.operands[1], i) for i in (*outer, *(rank + i for i in inner))]
        dest = create_empty(index.builder, sizes, kind)
    padding = operand_group(packing, "padding_value") if packing.name in PACK else ()
    dims, tiles = [how.inner[i] for i in inner], [how.tiles[i] for i in inner]
    order = [how.outer[i] for i in outer]
    return create_packing(index.builder, packing.name, source, dest, dims, tiles, padding, order)
