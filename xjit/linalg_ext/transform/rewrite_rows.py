"""Operations of scripts that rewrite single ops without loops: split, padded, written into what is there, scalar."""

from __future__ import annotations

from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, FloatAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, element_type
from xjit.linalg_ext.transform.state import Handles, Script, TransformRow
from xjit.linalg_ext.transform.structured_rows import each_target, integers, located, tile_sizes
from xjit.linalg_ext.transforms.destination_passing import insert_slice_to_copy, rewrite_in_destination_passing_style
from xjit.linalg_ext.transforms.detensorize import detensorize
from xjit.linalg_ext.transforms.pad_operands import pad
from xjit.linalg_ext.transforms.split import split

__all__ = ["REWRITE_ROWS"]


def split_op(script: Script, op: Operation) -> Handles:
    """The parts of each target: one handle of all, or one of the first and one of the second parts."""
    dimension = op.attributes.get("dimension")
    loop = dimension.value if isinstance(dimension, IntegerAttr) else 0
    first: list[Operation] = []
    second: list[Operation] = []
    for number, target in enumerate(script.payload(op)):
        [point] = tile_sizes(script, op, number, "static_chunk_sizes", 1)
        parts = located(op, lambda target=target, point=point: split(target, loop, point))
        first.append(parts[0])
        second += parts[1:]
    return [first, second] if len(op.results) == 2 else [[*first, *second]]


def _values(op: Operation, target: Operation) -> list[Attribute]:
    """Returns one padding value per operand of the target; zero if none are given."""
    attribute = op.attributes.get("padding_values")
    given = attribute.elements if isinstance(attribute, ArrayAttr) else ()
    if given:
        return list(given)
    kinds = [element_type(value.type) for value in target.operands]
    return [FloatAttr(0.0, k) if isinstance(k, FloatType) else IntegerAttr(0, k) for k in kinds]


def pad_op(script: Script, op: Operation) -> Handles:
    """The padded ops, the pads of their operands, and the copies of results into their destinations: there are none."""
    copy = op.attributes.get("copy_back_op")
    if isinstance(copy, StringAttr) and copy.value != "none":
        raise LinalgError(f"'{op.name}' op copies nothing back: copy_back_op is \"none\"", op.location)
    loops = integers(op, "padding_dimensions")
    nofold = integers(op, "nofold_flags") or integers(op, "pack_paddings")
    padded: list[Operation] = []
    pads: list[Operation] = []
    for target in script.payload(op):

        def one(target: Operation = target) -> list[Operation]:
            result = pad(target, _values(op, target), loops, nofold)
            return [result.op, *result.pads]

        new, *made = located(op, one)
        padded.append(new)
        pads += made
    return [padded, pads, []][: len(op.results)]


def copies(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda target, number: (insert_slice_to_copy(target),))


def in_destination(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda target, number: (rewrite_in_destination_passing_style(target),))


def detensorize_op(script: Script, op: Operation) -> Handles:
    """The tensors that the scalar results become again, if the script asks for them."""
    made: list[Operation] = []
    for target in script.payload(op):

        def one(target: Operation = target) -> list[Operation]:
            return [value.defining_op for value in detensorize(target) if value.defining_op is not None]

        made += located(op, one)
    return [made][: len(op.results)]


_PREFIX = "transform.structured."

REWRITE_ROWS: tuple[TransformRow, ...] = (
    TransformRow(_PREFIX + "split", split_op, (0,)),
    TransformRow(_PREFIX + "pad", pad_op, (0,)),
    TransformRow(_PREFIX + "insert_slice_to_copy", copies, (0,)),
    TransformRow(_PREFIX + "rewrite_in_destination_passing_style", in_destination, (0,)),
    TransformRow(_PREFIX + "detensorize", detensorize_op, (0,)),
)
