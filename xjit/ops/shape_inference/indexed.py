"""Shape rules of the opcodes whose positions are data: dynamic slices, gather, scatter, dimension sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    S32_SCALAR,
    array_operand,
    check_dimension,
    check_distinct_dimensions,
    check_reducer,
    dynamic_marks,
    fail,
    make_shape,
    same_type,
    scalar_operand,
    show,
    show_dims,
    tuple_or_single,
)


def _check_start_indices(instruction: HloInstruction, first: int, rank: int) -> None:
    """Start indices: one integer scalar per dimension, all of one type; or (old form) one vector of them."""
    count = instruction.operand_count - first
    if count == 1 and instruction.operand(first).shape.rank == 1:
        indices = array_operand(instruction, first)
        if not indices.element_type.is_integer or indices.dimensions[0] != rank:
            fail(instruction, f"the start indices must be {rank} integers, but have shape {show(indices)}")
        return
    if count != rank:
        fail(instruction, f"needs {rank} start indices, got {count}")
    for i in range(first, instruction.operand_count):
        index = scalar_operand(instruction, i, f"start index {i - first}")
        if not index.element_type.is_integer:
            fail(instruction, f"start index {i - first} must be an integer, but has shape {show(index)}")
        if index.element_type is not instruction.operand(first).shape.element_type:
            first_index = instruction.operand(first).shape
            fail(instruction, f"the start indices have different types, {show(first_index)} and {show(index)}")


def infer_dynamic_slice(instruction: HloInstruction) -> Shape:
    """`dynamic_slice_sizes`, each at most the operand's size."""
    sizes = instruction.attributes_as(at.DynamicSliceAttributes).dynamic_slice_sizes
    if instruction.operand_count == 0:
        fail(instruction, "needs an operand")
    operand = array_operand(instruction, 0)
    _check_start_indices(instruction, 1, operand.rank)
    if len(sizes) != operand.rank:
        fail(instruction, f"dynamic_slice_sizes={show_dims(sizes)} needs {operand.rank} entries for {show(operand)}")
    for i, (size, bound) in enumerate(zip(sizes, operand.dimensions, strict=True)):
        if not 0 <= size <= bound:
            fail(instruction, f"slice size {size} of dimension {i} does not lie in [0, {bound}]")
    marks = [d and s == b for d, s, b in zip(dynamic_marks(operand), sizes, operand.dimensions, strict=True)]
    return make_shape(operand.element_type, sizes, marks)


def infer_dynamic_update_slice(instruction: HloInstruction) -> Shape:
    """The operand's shape; the update fits into it. Updating a whole dynamic dimension makes it dynamic."""
    if instruction.operand_count < 2:
        fail(instruction, "needs an operand and an update")
    operand, update = array_operand(instruction, 0), array_operand(instruction, 1)
    _check_start_indices(instruction, 2, operand.rank)
    if not same_type(operand.element_type, update.element_type):
        fail(instruction, f"operand {show(operand)} and update {show(update)} have different element types")
    if update.rank != operand.rank or any(u > d for u, d in zip(update.dimensions, operand.dimensions, strict=True)):
        fail(instruction, f"update {show(update)} does not fit into operand {show(operand)}")
    if not update.dynamic_dimensions:
        return operand
    marks = tuple(
        mark or (update.is_dynamic_dimension(i) and update.dimensions[i] == operand.dimensions[i])
        for i, mark in enumerate(dynamic_marks(operand))
    )
    return Shape(operand.element_type, operand.dimensions, operand.layout, marks)


def _index_rows(instruction: HloInstruction, indices: Shape, vector_dim: int) -> tuple[list[int], list[bool], int]:
    """Returns sizes and marks of the dimensions that count index vectors, and the length of a vector."""
    if not indices.element_type.is_integer:
        fail(instruction, f"the indices must be integers, but have shape {show(indices)}")
    if not 0 <= vector_dim <= indices.rank:
        fail(instruction, f"index_vector_dim={vector_dim} is out of range for indices {show(indices)}")
    dims, marks = list(indices.dimensions), list(dynamic_marks(indices))
    if vector_dim == indices.rank:
        return dims, marks, 1
    length = dims.pop(vector_dim)
    marks.pop(vector_dim)
    return dims, marks, length


def _check_batching(
    instruction: HloInstruction,
    operand: Shape,
    indices: Shape,
    vector_dim: int,
    dims: tuple[tuple[str, Sequence[int]], tuple[str, Sequence[int]]],
) -> None:
    """Checks the batching dimensions of operand and indices: distinct, paired, equal in size."""
    (operand_name, operand_dims), (indices_name, indices_dims) = dims
    check_distinct_dimensions(instruction, operand_dims, operand.rank, operand_name, ascending=True)
    check_distinct_dimensions(instruction, indices_dims, indices.rank, indices_name)
    if vector_dim in indices_dims:
        fail(instruction, f"{indices_name}={show_dims(indices_dims)} contains index_vector_dim={vector_dim}")
    if len(operand_dims) != len(indices_dims):
        fail(
            instruction,
            f"{operand_name}={show_dims(operand_dims)} and {indices_name}={show_dims(indices_dims)} differ in length",
        )
    for a, b in zip(operand_dims, indices_dims, strict=True):
        if operand.dimensions[a] != indices.dimensions[b]:
            fail(
                instruction,
                f"batching dimension {a} of {show(operand)} and {b} of indices {show(indices)} differ in size",
            )


def _check_disjoint(instruction: HloInstruction, lists: Sequence[tuple[str, Sequence[int]]]) -> None:
    seen: dict[int, str] = {}
    for name, dims in lists:
        for dimension in dims:
            if dimension in seen:
                fail(instruction, f"dimension {dimension} is in both {seen[dimension]} and {name}")
            seen[dimension] = name


def infer_gather(instruction: HloInstruction) -> Shape:
    """Slices at the places that index vectors name: `offset_dims` walk a slice, the other dimensions the vectors."""
    a = instruction.attributes_as(at.GatherAttributes)
    operand, indices = array_operand(instruction, 0), array_operand(instruction, 1)
    rows, row_marks, length = _index_rows(instruction, indices, a.index_vector_dim)
    rank = len(rows) + len(a.offset_dims)
    check_distinct_dimensions(instruction, a.offset_dims, rank, "offset_dims", ascending=True)
    check_distinct_dimensions(instruction, a.collapsed_slice_dims, operand.rank, "collapsed_slice_dims", ascending=True)
    check_distinct_dimensions(instruction, a.start_index_map, operand.rank, "start_index_map")
    if len(a.start_index_map) != length:
        fail(instruction, f"start_index_map={show_dims(a.start_index_map)} needs {length} entries, one per index")
    batching = ("operand_batching_dims", a.operand_batching_dims)
    _check_batching(
        instruction,
        operand,
        indices,
        a.index_vector_dim,
        (batching, ("start_indices_batching_dims", a.start_indices_batching_dims)),
    )
    _check_disjoint(instruction, [("collapsed_slice_dims", a.collapsed_slice_dims), batching])
    _check_disjoint(instruction, [("start_index_map", a.start_index_map), batching])
    _check_slice_sizes(instruction, operand, a)
    dropped = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    window = [d for d in range(operand.rank) if d not in dropped]
    if len(window) != len(a.offset_dims):
        fail(instruction, f"offset_dims={show_dims(a.offset_dims)} needs {len(window)} entries for the slices")
    window_marks = [operand.is_dynamic_dimension(d) and a.slice_sizes[d] == operand.dimensions[d] for d in window]
    dims = _interleave(rank, a.offset_dims, [a.slice_sizes[d] for d in window], rows)
    marks = _interleave(rank, a.offset_dims, window_marks, row_marks)
    return make_shape(operand.element_type, dims, [bool(m) for m in marks])


def _check_slice_sizes(instruction: HloInstruction, operand: Shape, a: at.GatherAttributes) -> None:
    if len(a.slice_sizes) != operand.rank:
        fail(instruction, f"slice_sizes={show_dims(a.slice_sizes)} needs {operand.rank} entries for {show(operand)}")
    for i, (size, bound) in enumerate(zip(a.slice_sizes, operand.dimensions, strict=True)):
        if not 0 <= size <= bound:
            fail(instruction, f"slice size {size} of dimension {i} does not lie in [0, {bound}]")
    for d in (*a.collapsed_slice_dims, *a.operand_batching_dims):
        if a.slice_sizes[d] > 1:
            fail(instruction, f"dimension {d} is dropped, so its slice size must be at most 1, got {a.slice_sizes[d]}")


def _interleave(rank: int, positions: Sequence[int], chosen: Sequence[int], others: Sequence[int]) -> list[int]:
    """Returns `chosen` at the positions and `others` at the rest, each in order."""
    picks, rest, where = iter(chosen), iter(others), set(positions)
    return [next(picks) if i in where else next(rest) for i in range(rank)]


def infer_scatter(instruction: HloInstruction) -> Shape:
    """The operands' shapes, one per (operand, updates) pair; operands are (inputs..., indices, updates...)."""
    a = instruction.attributes_as(at.ScatterAttributes)
    count, odd = divmod(instruction.operand_count, 2)
    if not odd or count == 0:
        fail(instruction, f"takes inputs, indices and as many updates, got {instruction.operand_count} operands")
    inputs = [array_operand(instruction, i) for i in range(count)]
    indices = array_operand(instruction, count)
    updates = [array_operand(instruction, count + 1 + i) for i in range(count)]
    rows, _, length = _index_rows(instruction, indices, a.index_vector_dim)
    if len(a.scatter_dims_to_operand_dims) != length:
        dims = show_dims(a.scatter_dims_to_operand_dims)
        fail(instruction, f"scatter_dims_to_operand_dims={dims} needs {length} entries, one per index")
    for i in range(count):
        if inputs[i].dimensions != inputs[0].dimensions or updates[i].dimensions != updates[0].dimensions:
            fail(instruction, f"pair {i}, {show(inputs[i])} and {show(updates[i])}, differs in dimensions from pair 0")
    _check_scatter_numbers(instruction, a, inputs[0], indices)
    _check_updates(instruction, a, inputs[0], updates[0], rows)
    input_types = [u.element_type for u in updates]
    check_reducer(instruction, instruction.to_apply, [s.element_type for s in inputs], input_types, "combiner")
    return tuple_or_single(inputs)


def _check_scatter_numbers(
    instruction: HloInstruction, a: at.ScatterAttributes, operand: Shape, indices: Shape
) -> None:
    mapped = ("scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims)
    inserted = ("inserted_window_dims", a.inserted_window_dims)
    batching = ("input_batching_dims", a.input_batching_dims)
    check_distinct_dimensions(instruction, mapped[1], operand.rank, mapped[0])
    check_distinct_dimensions(instruction, inserted[1], operand.rank, inserted[0], ascending=True)
    _check_batching(
        instruction,
        operand,
        indices,
        a.index_vector_dim,
        (batching, ("scatter_indices_batching_dims", a.scatter_indices_batching_dims)),
    )
    _check_disjoint(instruction, [inserted, batching])
    _check_disjoint(instruction, [mapped, batching])


def _check_updates(
    instruction: HloInstruction, a: at.ScatterAttributes, operand: Shape, update: Shape, rows: Sequence[int]
) -> None:
    """Checks the updates: window dimensions fit into the operand, the others count index vectors."""
    dropped = {*a.inserted_window_dims, *a.input_batching_dims}
    window = [d for d in range(operand.rank) if d not in dropped]
    if len(window) != len(a.update_window_dims):
        dims = show_dims(a.update_window_dims)
        fail(instruction, f"update_window_dims={dims} needs {len(window)} entries, one per window dimension")
    rank = len(rows) + len(window)
    if update.rank != rank:
        fail(instruction, f"the updates must have rank {rank}, but have shape {show(update)}")
    check_distinct_dimensions(instruction, a.update_window_dims, rank, "update_window_dims", ascending=True)
    for position, d in zip(a.update_window_dims, window, strict=True):
        if update.dimensions[position] > operand.dimensions[d]:
            fail(
                instruction,
                f"dimension {position} of updates {show(update)} exceeds dimension {d} of operand {show(operand)}",
            )
    counted = [d for d in range(rank) if d not in a.update_window_dims]
    if [update.dimensions[d] for d in counted] != list(rows):
        fail(instruction, f"updates {show(update)} do not have one window per index vector, {list(rows)}")


def infer_get_dimension_size(instruction: HloInstruction) -> Shape:
    """s32[]."""
    operand = array_operand(instruction, 0)
    _check_sized_dimension(instruction, operand)
    return S32_SCALAR


def infer_set_dimension_size(instruction: HloInstruction) -> Shape:
    """The operand's shape with that dimension dynamic."""
    operand = array_operand(instruction, 0)
    dimension = _check_sized_dimension(instruction, operand)
    size = instruction.operand(1).shape
    if not size.compatible(S32_SCALAR):
        fail(instruction, f"the size must be s32[], but has shape {show(size)}")
    marks = tuple(mark or i == dimension for i, mark in enumerate(dynamic_marks(operand)))
    return Shape(operand.element_type, operand.dimensions, operand.layout, marks)


def _check_sized_dimension(instruction: HloInstruction, operand: Shape) -> int:
    dimension = instruction.attributes_as(at.DimensionAttributes).dimension
    check_dimension(instruction, dimension, operand.rank)
    if operand.dimensions[dimension] > 2**31 - 1:
        fail(instruction, f"dimension {dimension} of {show(operand)} does not fit into s32")
    return dimension


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "dynamic-slice": infer_dynamic_slice,
        "dynamic-update-slice": infer_dynamic_update_slice,
        "gather": infer_gather,
        "scatter": infer_scatter,
        "get-dimension-size": infer_get_dimension_size,
        "set-dimension-size": infer_set_dimension_size,
    }
)
