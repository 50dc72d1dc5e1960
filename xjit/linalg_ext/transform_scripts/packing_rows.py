"""Operations of scripts that pack the operands of structured ops, and lower packing."""

from __future__ import annotations

from collections.abc import Callable

from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow
from xjit.linalg_ext.transform_scripts.structured_rows import each_target, integers, located, tile_sizes
from xjit.linalg_ext.transforms.packing.lower_packing import lower_pack, lower_unpack
from xjit.linalg_ext.transforms.packing.pack import pack
from xjit.linalg_ext.transforms.packing.pack_greedily import pack_greedily
from xjit.linalg_ext.transforms.packing.transpose_packing import pack_transpose

__all__ = ["PACKING_ROWS"]


def pack_op(script: Script, op: Operation) -> Handles:
    def one(target: Operation, number: int) -> list[Operation]:
        return [pack(target, tile_sizes(script, op, number, "static_packed_sizes", 1)).op]

    return each_target(script, op, one)


def pack_greedily_op(script: Script, op: Operation) -> Handles:
    order = integers(op, "matmul_inner_dims_order") or (0, 1, 2)
    multiples = integers(op, "matmul_padded_sizes_next_multiple_of")

    def one(target: Operation, number: int) -> list[Operation]:
        sizes = tile_sizes(script, op, number, "static_matmul_packed_sizes", 1)
        return [pack_greedily(target, sizes, order, multiples).op]

    return each_target(script, op, one)


def pack_transpose_op(script: Script, op: Operation) -> Handles:
    """The op on packed operands, the pack, and the unpack, if there is one."""
    packings, targets = script.payload(op, 0), script.payload(op, 1)
    if len(packings) != 1 or len(targets) != 1:
        raise LinalgError(
            f"'{op.name}' op requires handles of one op each, found {len(packings)} and {len(targets)}", op.location
        )
    outer, inner = integers(op, "outer_perm"), integers(op, "inner_perm")
    [found] = located(op, lambda: (pack_transpose(packings[0], targets[0], outer, inner),))
    return [[found.op], [found.pack], [] if found.unpack is None else [found.unpack]]


def _lowered(lower: Callable[[Operation], tuple[Operation, ...]]) -> Callable[[Script, Operation], Handles]:
    """Handles of what a pack or unpack has become; those of what was not needed stand for nothing."""

    def apply(script: Script, op: Operation) -> Handles:
        found: list[list[Operation]] = [[] for _ in op.results]
        for target in script.payload(op):
            for group, made in zip(found, located(op, lambda target=target: lower(target))):
                group.append(made)
        return found

    return apply


_PREFIX = "transform.structured."

PACKING_ROWS: tuple[TransformRow, ...] = (
    TransformRow(_PREFIX + "pack", pack_op, (0,)),
    TransformRow(_PREFIX + "pack_greedily", pack_greedily_op, (0,)),
    TransformRow(_PREFIX + "pack_transpose", pack_transpose_op, (0, 1)),
    TransformRow(_PREFIX + "lower_pack", _lowered(lower_pack), (0,)),
    TransformRow(_PREFIX + "lower_unpack", _lowered(lower_unpack), (0,)),
)
