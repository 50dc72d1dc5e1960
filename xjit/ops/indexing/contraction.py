"""Output-to-input rules of dots, convolutions, transforms and linear algebra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.affine import UNKNOWN, AffineExpr, IndexingMap, constant, dim, symbol
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import Constraints, Maps, Rule, make_map, scalar_map, whole_map
from xjit.ops.indexing.reductions import along, window_access


def _side(
    shape: Shape, batch: Sequence[int], contract: Sequence[int], first: int, absent: Sequence[int] = ()
) -> tuple[list[AffineExpr], int]:
    """Index of one dot operand: batch dims first, contracting ones as symbols, free ones from output dim `first` on.

    `absent` dims (groups) stay constant 0 for the caller to fill. Returns the results and the next output dim.
    """
    results: list[AffineExpr] = [constant(0)] * shape.rank
    for i, d in enumerate(batch):
        results[d] = dim(i)
    for i, d in enumerate(contract):
        results[d] = symbol(i)
    taken = {*batch, *contract, *absent}
    for d in range(shape.rank):
        if d not in taken:
            results[d] = dim(first)
            first += 1
    return results, first


def _dot(instruction: HloInstruction) -> list[Maps]:
    attrs = instruction.attributes_as(at.DotAttributes)
    lhs, rhs = instruction.operand(0).shape, instruction.operand(1).shape
    left, right = _dot_maps(instruction, attrs, lhs, rhs)
    return [(left,), (right,)] + [(UNKNOWN,)] * (instruction.operand_count - 2)


def _dot_maps(
    instruction: HloInstruction, attrs: at.DotAttributes, lhs: Shape, rhs: Shape
) -> tuple[IndexingMap, IndexingMap]:
    out = instruction.shape.dimensions
    contracting = [lhs.dimensions[d] for d in attrs.lhs_contracting_dims]
    left, position = _side(lhs, attrs.lhs_batch_dims, attrs.lhs_contracting_dims, len(attrs.lhs_batch_dims))
    right, _ = _side(rhs, attrs.rhs_batch_dims, attrs.rhs_contracting_dims, position)
    return make_map(out, left, contracting), make_map(out, right, contracting)


def _scaled_dot(instruction: HloInstruction) -> list[Maps]:
    """Operands lhs, rhs and their scales; a scale has one element per block of its operand."""
    attrs = instruction.attributes_as(at.DotAttributes)
    lhs, rhs, lhs_scale, rhs_scale = [o.shape for o in instruction.operands]
    left, right = _dot_maps(instruction, attrs, lhs, rhs)
    return [(left,), (right,), (_scale(left, lhs, lhs_scale),), (_scale(right, rhs, rhs_scale),)]


def _scale(operand: IndexingMap, shape: Shape, scale: Shape) -> IndexingMap:
    out = [b.upper + 1 for b in operand.dim_bounds]
    if not scale.rank:
        return scalar_map(out)
    blocks = [n // s for n, s in zip(shape.dimensions, scale.dimensions, strict=True)]
    results = [e.floordiv(block) for e, block in zip(operand.results, blocks, strict=True)]
    return make_map(out, results, [v.bounds.upper + 1 for v in operand.range_vars]).simplify()


def _ragged_dot(instruction: HloInstruction) -> list[Maps]:
    """As dot; which group a row belongs to is only known at run time, so every group's rhs may be read."""
    attrs = instruction.attributes_as(at.RaggedDotAttributes)
    lhs, rhs, sizes = [o.shape for o in instruction.operands]
    out = instruction.shape.dimensions
    contracting = [lhs.dimensions[d] for d in attrs.lhs_contracting_dims]
    grouped = attrs.lhs_ragged_dims[0] in attrs.lhs_contracting_dims  # the output has a leading dim of groups
    inner = out[1:] if grouped else out
    left, position = _side(lhs, attrs.lhs_batch_dims, attrs.lhs_contracting_dims, len(attrs.lhs_batch_dims))
    right, _ = _side(rhs, attrs.rhs_batch_dims, attrs.rhs_contracting_dims, position, attrs.rhs_group_dims)
    groups = [rhs.dimensions[d] for d in attrs.rhs_group_dims]
    for n, d in enumerate(attrs.rhs_group_dims):
        right[d] = symbol(len(contracting) + n)
    maps = [make_map(inner, left, contracting), make_map(inner, right, contracting + groups)]
    if grouped:
        maps = [_below_groups(m, out) for m in maps]
    return [(maps[0],), (maps[1],), (whole_map(out, sizes),)]


def _below_groups(m: IndexingMap, out: Sequence[int]) -> IndexingMap:
    shifted = m.map.replace({i: dim(i + 1) for i in range(m.num_dims)}, None, len(out), m.num_symbols)
    return make_map(out, shifted.results, [v.bounds.upper + 1 for v in m.range_vars])


def _convolution(instruction: HloInstruction) -> list[Maps]:
    attrs = instruction.attributes_as(at.ConvolutionAttributes)
    numbers, window = attrs.dim_labels, attrs.window.dimensions
    source, kernel = instruction.operand(0).shape, instruction.operand(1).shape
    out = instruction.shape
    batch, feature = dim(numbers.output_batch_dimension), dim(numbers.output_feature_dimension)
    spatial = len(numbers.kernel_spatial_dimensions)
    channels = kernel.dimensions[numbers.kernel_input_feature_dimension]
    out_features = kernel.dimensions[numbers.kernel_output_feature_dimension]
    ranges = [kernel.dimensions[d] for d in numbers.kernel_spatial_dimensions] + [channels]
    inputs: list[AffineExpr] = [constant(0)] * source.rank
    weights: list[AffineExpr] = [constant(0)] * kernel.rank
    constraints: Constraints = []
    for i in range(spatial):
        in_dim, out_dim = numbers.input_spatial_dimensions[i], numbers.output_spatial_dimensions[i]
        index, conditions = window_access(window[i], source.dimensions[in_dim], dim(out_dim), symbol(i))
        inputs[in_dim] = index
        constraints += conditions
        weights[numbers.kernel_spatial_dimensions[i]] = symbol(i)
    group = feature.floordiv(max(1, out_features // attrs.feature_group_count))
    inputs[numbers.input_feature_dimension] = group * channels + symbol(spatial)
    batch_group = feature.floordiv(max(1, out_features // attrs.batch_group_count))
    group_size = source.dimensions[numbers.input_batch_dimension] // attrs.batch_group_count
    inputs[numbers.input_batch_dimension] = batch_group * group_size + batch if attrs.batch_group_count > 1 else batch
    if attrs.feature_group_count == 1:
        inputs[numbers.input_feature_dimension] = symbol(spatial)
    weights[numbers.kernel_input_feature_dimension] = symbol(spatial)
    weights[numbers.kernel_output_feature_dimension] = feature
    return [  # not simplified: both maps keep all range variables, so that they mean the same
        (make_map(out.dimensions, inputs, ranges, constraints=constraints),),
        (make_map(out.dimensions, weights, ranges),),
    ]


def _triangular_solve(instruction: HloInstruction) -> list[Maps]:
    """A column of the solution (a row, from the right) depends on all of its matrix and on that column of b."""
    a, b = instruction.operand(0).shape, instruction.operand(1).shape
    out, rank = instruction.shape.dimensions, instruction.shape.rank
    batch: list[AffineExpr] = [dim(i) for i in range(rank - 2)]
    matrix = make_map(out, [*batch, symbol(0), symbol(1)], a.dimensions[-2:])
    left = instruction.attributes_as(at.TriangularSolveAttributes).left_side
    vector: list[AffineExpr] = [symbol(0), dim(rank - 1)] if left else [dim(rank - 2), symbol(0)]
    return [(matrix,), (make_map(out, [*batch, *vector], [b.dimensions[-2 if left else -1]]),)]


def _fft_dimensions(instruction: HloInstruction) -> list[int]:
    length = len(instruction.attributes_as(at.FftAttributes).fft_length)
    return list(range(instruction.shape.rank - length, instruction.shape.rank))


def _last_two(instruction: HloInstruction) -> list[int]:
    return [instruction.shape.rank - 2, instruction.shape.rank - 1]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "dot": _dot,
        "scaled-dot": _scaled_dot,
        "ragged-dot": _ragged_dot,
        "convolution": _convolution,
        "fft": along(_fft_dimensions),
        "cholesky": along(_last_two),
        "triangular-solve": _triangular_solve,
    }
)
