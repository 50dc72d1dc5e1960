"""Layouts for NVIDIA's libraries: where each wants which dimension to be the most minor one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xjit.hlo import HloInstruction, Layout, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.passes.gpu.conv_calls import is_conv_call, result_shape
from xjit.passes.layout.layout_assignment import Constraints, LayoutAssignment

Order = Sequence[int]
"""Dimensions from the most major to the most minor one."""


@dataclass
class GpuLayoutAssignment(LayoutAssignment):
    """Layout assignment with the needs of GPU libraries: column-major matrices for cuSOLVER, operands of products
    that are matrices, batch after batch, cuDNN's orders of an image, and collectives whose parts are one piece each.

    Features are the most minor dimension of convolutions of types of 16 bits and less, for tensor cores; of wider
    ones they lie between batch and space. Where they come in vectors, these are the most minor dimension. What is
    summed up is the most minor dimension of products of s8 that are s32, and of those of f8.
    """

    name = "gpu-layout-assignment"

    def constraints(self, instruction: HloInstruction) -> Constraints | None:
        """Returns the shapes, with layouts, of the result and the operands of an instruction that needs its own."""
        if is_conv_call(instruction):
            return _convolution(instruction)
        rule = _RULES.get(instruction.opcode)
        return super().constraints(instruction) if rule is None else rule(instruction)


def _ordered(shape: Shape, order: Order) -> Shape:
    return shape.with_layout(Layout(tuple(order)[::-1]))


def _column_major(shape: Shape) -> Shape:
    return _ordered(shape, [*range(shape.rank - 2), shape.rank - 1, shape.rank - 2])


def _matrices(instruction: HloInstruction) -> Constraints:
    """Result and operands with their last dimension but one as the most minor one."""
    return _column_major(instruction.shape), [_column_major(o.shape) for o in instruction.operands]


def _major(shape: Shape, dimension: int) -> Shape:
    """Returns the shape, or all of a tuple, with one dimension as the most major one."""
    if shape.is_tuple:
        return Shape.tuple_of([_major(s, dimension) for s in shape.tuple_shapes])
    return _ordered(shape, [dimension, *(d for d in range(shape.rank) if d != dimension)])


def _collective(collective: HloInstruction) -> Constraints | None:
    """What each device gives or gets is one piece of memory."""
    a = collective.attributes_as(at.CollectiveAttributes)
    if collective.opcode == "all-to-all" and collective.shape.is_tuple:
        return None
    (dimension,) = a.dimensions
    return _major(collective.shape, dimension), [_major(o.shape, dimension) for o in collective.operands]


def _dot(dot: HloInstruction) -> Constraints | None:
    """Operands whose batch, free and contracted dimensions don't lie side by side are put in that order."""
    a = dot.attributes_as(at.DotAttributes)
    lhs, rhs = dot.operand(0).shape, dot.operand(1).shape
    kinds = (dot.shape.element_type, lhs.element_type, rhs.element_type)
    last = kinds == (PrimitiveType.S32, PrimitiveType.S8, PrimitiveType.S8) or _F8.issuperset(kinds[1:])
    operands = [
        _product_operand(lhs, a.lhs_batch_dims, a.lhs_contracting_dims, last),
        _product_operand(rhs, a.rhs_batch_dims, a.rhs_contracting_dims, last),
    ]
    row_major = [s.with_layout(Layout.row_major(s.rank)) for s in (dot.shape, lhs, rhs)]
    return None if operands == row_major[1:] else (row_major[0], operands)


_F8 = frozenset({PrimitiveType.F8E4M3FN, PrimitiveType.F8E5M2FNUZ})
"""The types whose products are made with what is summed up as the most minor dimension, as XLA has them."""


def _product_operand(shape: Shape, batch: Order, contracted: Order, contracted_last: bool) -> Shape:
    free = [d for d in range(shape.rank) if d not in (*batch, *contracted)]
    for order in ([*batch, *free, *contracted], [*batch, *contracted, *free]):
        if order == list(range(shape.rank)) and (order[-len(contracted) :] == list(contracted) or not contracted_last):
            return _ordered(shape, order)
    return _ordered(shape, [*batch, *free, *contracted])


def _convolution(call: HloInstruction) -> Constraints:
    numbers = call.attributes_as(at.CustomCallAttributes).dim_labels
    assert numbers is not None
    n = numbers
    image = (n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions)
    filters = (n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, n.kernel_spatial_dimensions)
    output = (n.output_batch_dimension, n.output_feature_dimension, n.output_spatial_dimensions)
    roles = {
        "__cudnn$convBackwardInput": (image, output, filters),
        "__cudnn$convBackwardFilter": (filters, image, output),
    }.get(call.attributes_as(at.CustomCallAttributes).custom_call_target, (output, image, filters))
    features_last = call.operand(0).shape.element_type.bit_width <= 16
    shapes = [result_shape(call), call.operand(0).shape, call.operand(1).shape]
    in_vectors = result_shape(call).rank > len(n.output_spatial_dimensions) + 2
    orders = [(o, *space, f) if features_last and not in_vectors else (o, f, *space) for o, f, space in roles]
    orders = [(*o, *(d for d in range(s.rank) if d not in o)) for s, o in zip(shapes, orders, strict=True)]
    result, *operands = (_ordered(shape, order) for shape, order in zip(shapes, orders, strict=True))
    sides = [o.shape if o.shape.rank != result.rank else _ordered(o.shape, orders[0]) for o in call.operands[2:]]
    return Shape.tuple_of([result, *call.shape.tuple_shapes[1:]]), [*operands, *sides]


_RULES: Mapping[str, Callable[[HloInstruction], Constraints | None]] = MappingProxyType(
    {
        "cholesky": _matrices,
        "triangular-solve": _matrices,
        "dot": _dot,
        **dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all"), _collective),
    }
)
