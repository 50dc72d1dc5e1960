"""Output-to-input rules of opcodes whose positions are data: dynamic slices, gather, scatter.

A start index is a run-time variable. Its feasible values are the clamped ones for slices and gather; scatter skips what
lies outside, so there it ranges over its type and a constraint says what is not skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.affine import INT64_MAX, INT64_MIN, AffineExpr, AffineMap, Interval, RTVar, constant, dim, symbol
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import Constraints, Maps, Rule, array_shape, identity_map, make_map, whole_map


def _dynamic_slice(instruction: HloInstruction) -> list[Maps]:
    sizes = instruction.shape.dimensions
    source = instruction.operand(0).shape.dimensions
    starts = _start_vars(instruction, 1, [Interval(0, source[i] - sizes[i]) for i in range(len(sizes))], len(sizes))
    results = [dim(i) + symbol(i) for i in range(len(sizes))]
    body = make_map(sizes, results, rt_vars=starts)
    return [(body,), *_start_operand_maps(instruction, 1, sizes)]


def _dynamic_update_slice(instruction: HloInstruction) -> list[Maps]:
    sizes = instruction.shape.dimensions
    update = instruction.operand(1).shape.dimensions
    starts = _start_vars(instruction, 2, [Interval(0, sizes[i] - update[i]) for i in range(len(sizes))], len(sizes))
    shifted = make_map(sizes, [dim(i) - symbol(i) for i in range(len(sizes))], rt_vars=starts)
    return [(identity_map(sizes),), (shifted,), *_start_operand_maps(instruction, 2, sizes)]


def _start_vars(instruction: HloInstruction, first: int, feasible: list[Interval], num_dims: int) -> list[RTVar]:
    """The run-time start indices: scalars from operand `first` on, or one vector operand."""
    operands = instruction.operands[first:]
    if len(operands) == 1 and operands[0].shape.rank == 1:
        return [RTVar(f, operands[0], AffineMap(num_dims, 0, (constant(i),))) for i, f in enumerate(feasible)]
    return [RTVar(f, o, AffineMap(num_dims, 0, ())) for f, o in zip(feasible, operands, strict=True)]


def _start_operand_maps(instruction: HloInstruction, first: int, sizes: Sequence[int]) -> list[Maps]:
    return [(whole_map(sizes, operand.shape),) for operand in instruction.operands[first:]]


def _gather(instruction: HloInstruction) -> list[Maps]:
    attrs = instruction.attributes_as(at.GatherAttributes)
    operand, indices = instruction.operand(0).shape, instruction.operand(1).shape
    out = instruction.shape.dimensions
    batch_dims = [d for d in range(len(out)) if d not in attrs.offset_dims]
    index_dims = [d for d in range(indices.rank) if d != attrs.index_vector_dim]
    index_of: dict[int, AffineExpr] = {d: dim(b) for d, b in zip(index_dims, batch_dims, strict=True)}
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    offsets = iter(attrs.offset_dims)
    results = [constant(0) if d in dropped else dim(next(offsets)) for d in range(operand.rank)]
    for d, s in zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True):
        results[d] = index_of[s]
    rt_vars: list[RTVar] = []
    for i, d in enumerate(attrs.start_index_map):
        element = _index_element(indices, attrs.index_vector_dim, index_of, constant(i))
        feasible = Interval(0, operand.dimensions[d] - attrs.slice_sizes[d])
        rt_vars.append(RTVar(feasible, instruction.operand(1), AffineMap(len(out), 0, tuple(element))))
        results[d] = results[d] + symbol(i)
    has_vector = attrs.index_vector_dim < indices.rank
    read = _index_element(indices, attrs.index_vector_dim, index_of, symbol(0))
    ranges = [indices.dimensions[attrs.index_vector_dim]] if has_vector else []
    return [(make_map(out, results, rt_vars=rt_vars),), (make_map(out, read, ranges),)]


def _index_element(
    indices: Shape, vector_dim: int, index_of: Mapping[int, AffineExpr], entry: AffineExpr
) -> list[AffineExpr]:
    return [entry if k == vector_dim else index_of[k] for k in range(indices.rank)]


def _scatter(instruction: HloInstruction) -> list[Maps]:
    """An element keeps its operand's, combined with the elements of those updates whose window lies over it."""
    attrs = instruction.attributes_as(at.ScatterAttributes)
    count = instruction.operand_count // 2
    operand, indices = instruction.operand(0).shape, instruction.operand(count).shape
    updates = instruction.operand(count + 1).shape
    dims = array_shape(instruction.shape).dimensions
    scatter_dims = [d for d in range(updates.rank) if d not in attrs.update_window_dims]
    index_dims = [d for d in range(indices.rank) if d != attrs.index_vector_dim]
    rows: dict[int, AffineExpr] = {d: symbol(n) for n, d in enumerate(index_dims)}
    first_rt = len(scatter_dims)
    position: list[AffineExpr] = [dim(i) for i in range(operand.rank)]  # inside the window
    constraints: Constraints = []
    rt_vars: list[RTVar] = []
    window_sizes = iter([updates.dimensions[d] for d in attrs.update_window_dims])
    absent = {*attrs.inserted_window_dims, *attrs.input_batching_dims}
    extents = [1 if d in absent else next(window_sizes) for d in range(operand.rank)]
    for i, d in enumerate(attrs.scatter_dims_to_operand_dims):
        element = _index_element(indices, attrs.index_vector_dim, rows, constant(i))
        symbols = first_rt + len(attrs.scatter_dims_to_operand_dims)
        source = instruction.operand(count)
        rt_vars.append(RTVar(_values_of(source.shape), source, AffineMap(len(dims), symbols, tuple(element))))
        position[d] = position[d] - symbol(first_rt + i)
        constraints.append((symbol(first_rt + i), Interval(0, operand.dimensions[d] - extents[d])))
    for d, s in zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True):
        position[d] = position[d] - rows[s]
    constraints += [(position[d], Interval(0, extents[d] - 1)) for d in range(operand.rank)]
    inside = iter([position[d] for d in range(operand.rank) if d not in absent])
    results = [
        next(inside) if d in attrs.update_window_dims else symbol(scatter_dims.index(d)) for d in range(updates.rank)
    ]
    ranges = [updates.dimensions[d] for d in scatter_dims]
    update = (make_map(dims, results, ranges, rt_vars, constraints),)
    return [(identity_map(dims),)] * count + [(whole_map(dims, indices),)] + [update] * count


def _values_of(shape: Shape) -> Interval:
    """The values of an integer element type, as far as int64 goes."""
    kind = shape.element_type
    bits = kind.bit_width
    if not kind.is_integer or bits >= 64:
        return Interval(0 if kind.is_integer and not kind.is_signed else INT64_MIN, INT64_MAX)
    return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.is_signed else Interval(0, (1 << bits) - 1)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": _dynamic_update_slice,
        "gather": _gather,
        "scatter": _scatter,
    }
)
