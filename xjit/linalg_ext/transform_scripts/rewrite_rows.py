"""Operations of scripts that rewrite single ops without loops: split, padded, written into what is there, scalar."""

from __future__ import annotations

from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, FloatAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, IntegerType, element_type
from xjit.linalg_ext.transform_scripts.state import Handles, Payload, Script, TransformRow
from xjit.linalg_ext.transform_scripts.structured_rows import each_target, flag, integers, located, point_of, tile_sizes
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.reductions.split_reduction import split_reduction
from xjit.linalg_ext.transforms.single_ops.collapse_dims import flatten_elementwise
from xjit.linalg_ext.transforms.single_ops.decompose import decompose, decompose_window
from xjit.linalg_ext.transforms.single_ops.destination_passing import (
    insert_slice_to_copy,
    rewrite_in_destination_passing_style,
)
from xjit.linalg_ext.transforms.single_ops.detensorize import detensorize
from xjit.linalg_ext.transforms.single_ops.img2col import convert_conv2d_to_img2col
from xjit.linalg_ext.transforms.single_ops.promote import promote
from xjit.linalg_ext.transforms.single_ops.transposed_operands import transpose_conv2d, transpose_matmul
from xjit.linalg_ext.transforms.tilable import as_tilable
from xjit.linalg_ext.transforms.tiling.continuous_sizes import continuous_tile_sizes
from xjit.linalg_ext.transforms.tiling.multitile import multitile_sizes
from xjit.linalg_ext.transforms.tiling.pad_operands import pad
from xjit.linalg_ext.transforms.tiling.split import split
from xjit.linalg_ext.transforms.tiling.tile import tile

__all__ = ["REWRITE_ROWS"]


def split_op(script: Script, op: Operation) -> Handles:
    """The parts of each target: one handle of all, or one of the first and one of the second parts.

    `multiway` splits one target at several points, each told from the last one, and gives one handle.
    """
    if flag(op, "multiway"):
        return [_split_multiway(script, op), *[[] for _ in op.results[1:]]]
    dimension = op.attributes.get("dimension")
    loop = dimension.value if isinstance(dimension, IntegerAttr) else 0
    first: list[Operation] = []
    second: list[Operation] = []
    for number, target in enumerate(script.payload(op)):
        points = tile_sizes(script, op, number, "static_chunk_sizes", 1)
        if len(points) != 1:
            raise LinalgError(f"'{op.name}' op expects one point to split at, found {len(points)}", op.location)
        point = points[0]
        parts = located(op, lambda target=target, point=point: split(target, loop, point))
        first.append(parts[0])
        second += parts[1:]
    return [first, second] if len(op.results) == 2 else [[*first, *second]]


def _split_multiway(script: Script, op: Operation) -> list[Operation]:
    targets = script.payload(op)
    if len(targets) != 1:
        raise LinalgError(f"'{op.name}' op splits one operation at several points, found {len(targets)}", op.location)
    dimension = op.attributes.get("dimension")
    loop = dimension.value if isinstance(dimension, IntegerAttr) else 0
    points: list[Payload] = list(script.lookup(op, 1)) if len(op.operands) > 1 else []
    points = points or [IntegerAttr(n, IntegerType(64)) for n in integers(op, "static_chunk_sizes")]
    found = targets
    for point in points:
        size, rest = point_of(op, point), found[-1]
        parts = located(op, lambda size=size, rest=rest: split(rest, loop, size))
        found = [*found[:-1], *parts]
        if len(parts) == 1:
            break
    return found


def _values(op: Operation, target: Operation) -> list[Attribute]:
    """Returns one padding value per operand of the target; zero if none are given."""
    attribute = op.attributes.get("padding_values")
    given = attribute.elements if isinstance(attribute, ArrayAttr) else ()
    if given:
        return list(given)
    kinds = [element_type(value.type) for value in target.operands]
    return [FloatAttr(0.0, k) if isinstance(k, FloatType) else IntegerAttr(0, k) for k in kinds]


def pad_op(script: Script, op: Operation) -> Handles:
    """The padded ops, the pads of their operands, and the copies of results into their destinations."""
    copy = op.attributes.get("copy_back_op")
    copy_back = copy.value if isinstance(copy, StringAttr) else "none"
    loops, multiples = integers(op, "padding_dimensions"), integers(op, "pad_to_multiple_of")
    nofold = integers(op, "nofold_flags") or integers(op, "pack_paddings")
    padded: list[Operation] = []
    pads: list[Operation] = []
    copies: list[Operation] = []
    for target in script.payload(op):

        def one(target: Operation = target) -> list[Operation]:
            result = pad(target, _values(op, target), loops, nofold, multiples, copy_back)
            pads.extend(result.pads)
            copies.extend(result.copies)
            return [result.op]

        padded += located(op, one)
    return [padded, pads, copies][: len(op.results)]


def split_reduction_op(script: Script, op: Operation) -> Handles:
    """The tensors of partial results, their fills, the reductions into them, and the reductions of them."""
    for name in ("use_alloc", "use_scaling_algorithm"):
        if flag(op, name):
            raise LinalgError(f"'{op.name}' op reshapes inputs only: {name} is not supported", op.location)
    numbers = [op.attributes.get(name) for name in ("split_factor", "insert_split_dimension")]
    factor, position = (n.value if isinstance(n, IntegerAttr) else 0 for n in numbers)

    def one(target: Operation, number: int) -> list[Operation]:
        made = split_reduction(target, factor, position, flag(op, "inner_parallel"))
        return [made.empty, made.fill, made.split, made.merge]

    return each_target(script, op, one)


def decompose_op(script: Script, op: Operation) -> Handles:
    """The last ones of the ops that targets have become."""
    return each_target(script, op, lambda target, number: (decompose(target),))


def decompose_window_op(script: Script, op: Operation) -> Handles:
    """The ops with a spatial dimension less."""
    return each_target(script, op, lambda target, number: (decompose_window(target),))


def scalarize(script: Script, op: Operation) -> Handles:
    """The ops on single elements: each loop that is known to have one iteration stays."""

    def one(target: Operation, number: int) -> list[Operation]:
        root = as_tilable(target)
        index = IndexBuilder(Builder.before(target))
        sizes = [0 if n == 1 else 1 for n in root.extents(index)]
        index.discard_unused()
        return [tile(target, sizes).tiled_op]

    return each_target(script, op, one)


def transpose_matmul_op(script: Script, op: Operation) -> Handles:
    """The matmuls that read an operand transposed: the left one, if the script does not say."""
    side = op.attributes.get("inputToTranspose")
    number = side.value if isinstance(side, IntegerAttr) else 0
    return each_target(script, op, lambda target, _: (transpose_matmul(target, number),))


def transpose_conv2d_op(script: Script, op: Operation) -> Handles:
    return each_target(script, op, lambda target, number: (transpose_conv2d(target),))


def img2col_op(script: Script, op: Operation) -> Handles:
    """What gathers the windows, and what makes the results."""
    return each_target(script, op, lambda target, number: convert_conv2d_to_img2col(target))


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


def flatten(script: Script, op: Operation) -> Handles:
    """The ops with one loop instead of all."""
    return each_target(script, op, lambda target, number: (flatten_elementwise(target),))


def promote_op(script: Script, op: Operation) -> Handles:
    """The ops, in place, with the listed operands, or all, in buffers of their own."""
    space = op.attributes.get("memory_space")

    def one(target: Operation, number: int) -> list[Operation]:
        listed = integers(op, "operands_to_promote") or range(len(target.operands))
        return [promote(target, dict.fromkeys(listed, space), flag(op, "use_alloca"))]

    return each_target(script, op, one)


def multitile_op(script: Script, op: Operation) -> Handles:
    """Two sizes of tiles and the point where one gives way to the other: parameters, or ops that compute them."""
    numbers = [op.attributes.get(name) for name in ("dimension", "target_size", "divisor")]
    dimension, target_size, divisor = (n.value if isinstance(n, IntegerAttr) else 1 for n in numbers)
    found: list[list[Payload]] = [[], [], []]
    for target in script.payload(op):
        sizes = located(op, lambda target=target: multitile_sizes(target, dimension, target_size, divisor))
        index = IndexBuilder(Builder.before(target))
        for group, size in zip(found, sizes):
            group.append(_size_payload(op, index, size))
    return found


def continuous_op(script: Script, op: Operation) -> Handles:
    """The sizes of tiles, and how much of the loop each covers: parameters, or ops that compute them."""
    targets = script.payload(op)
    if len(targets) != 1:
        raise LinalgError(f"'{op.name}' op requires exactly one target, found {len(targets)}", op.location)
    numbers = [op.attributes.get(name) for name in ("dimension", "target_size")]
    dimension, target_size = (n.value if isinstance(n, IntegerAttr) else 1 for n in numbers)
    [target] = targets
    found = located(op, lambda: continuous_tile_sizes(target, dimension, target_size))
    index = IndexBuilder(Builder.before(target))
    return [[_size_payload(op, index, size) for size in sizes] for sizes in zip(*found)] or [[], []]


def _size_payload(op: Operation, index: IndexBuilder, size: Index) -> Payload:
    if "param" not in str(op.result_types[0]):
        made = index.value(size).defining_op
        assert made is not None
        return made
    if not isinstance(size, int):
        raise LinalgError(f"'{op.name}' op gives parameters for loops of known lengths only", op.location)
    return IntegerAttr(size, IntegerType(64))


_PREFIX = "transform.structured."

REWRITE_ROWS: tuple[TransformRow, ...] = (
    TransformRow(_PREFIX + "split", split_op, (0,)),
    TransformRow(_PREFIX + "pad", pad_op, (0,)),
    TransformRow(_PREFIX + "split_reduction", split_reduction_op, (0,)),
    TransformRow(_PREFIX + "decompose_interface", decompose_op, (0,)),
    TransformRow(_PREFIX + "decompose", decompose_window_op, (0,)),
    TransformRow(_PREFIX + "scalarize", scalarize, (0,)),
    TransformRow(_PREFIX + "flatten_elementwise", flatten, (0,)),
    TransformRow(_PREFIX + "transpose_matmul", transpose_matmul_op, (0,)),
    TransformRow(_PREFIX + "transpose_conv2d", transpose_conv2d_op, (0,)),
    TransformRow(_PREFIX + "convert_conv2d_to_img2col", img2col_op, (0,)),
    TransformRow(_PREFIX + "promote", promote_op, (0,)),
    TransformRow(_PREFIX + "multitile_sizes", multitile_op),
    TransformRow(_PREFIX + "continuous_tile_sizes", continuous_op),
    *(TransformRow(_PREFIX + name, copies, (0,)) for name in ("insert_slice_to_copy", "insert_slice_to_copy_ext")),
    TransformRow(_PREFIX + "rewrite_in_destination_passing_style", in_destination, (0,)),
    TransformRow(_PREFIX + "detensorize", detensorize_op, (0,)),
)
