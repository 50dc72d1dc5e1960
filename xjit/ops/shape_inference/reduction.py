"""Shape rules of reduce, reduce-window, select-and-scatter, sort, topk and scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import (
    aligned_operands,
    array_operand,
    array_operands,
    check_dimension,
    check_distinct_dimensions,
    check_predicate_result,
    check_reducer,
    check_scalar_parameters,
    check_signature,
    compatible_up_to_precision,
    dynamic_marks,
    fail,
    make_shape,
    scalar_operand,
    show,
    show_dims,
    tuple_or_single,
    with_dimension,
)


def window_output_dimensions(instruction: HloInstruction, window: at.Window, base: Sequence[int]) -> tuple[int, ...]:
    """Returns the number of window positions per dimension; one window dimension per base dimension.

    Base and window are dilated first (n elements span (n-1)*dilation + 1), then the base is padded.
    """
    if len(window.dimensions) != len(base):
        fail(instruction, f"the window has {len(window.dimensions)} dimensions, expected {len(base)}")
    result: list[int] = []
    for i, (w, size) in enumerate(zip(window.dimensions, base, strict=True)):
        for value, what in (
            (w.size, "size"),
            (w.stride, "stride"),
            (w.window_dilation, "dilation"),
            (w.base_dilation, "base dilation"),
        ):
            if value < 1:
                fail(instruction, f"the window {what} of dimension {i} must be positive, got {value}")
        padded = w.padding_low + _dilated(size, w.base_dilation) + w.padding_high
        span = _dilated(w.size, w.window_dilation)
        result.append(0 if span > padded else (padded - span) // w.stride + 1)
    return tuple(result)


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def _inputs_and_inits(instruction: HloInstruction) -> tuple[list[Shape], list[Shape]]:
    """Splits operands into equally shaped arrays and as many scalar init values."""
    count, odd = divmod(instruction.operand_count, 2)
    if odd or count == 0:
        fail(instruction, f"needs as many init values as inputs, got {instruction.operand_count} operands")
    inputs = [array_operand(instruction, i) for i in range(count)]
    inits = [scalar_operand(instruction, count + i, f"init value {i}") for i in range(count)]
    for i, shape in enumerate(inputs):
        if shape.dimensions != inputs[0].dimensions:
            fail(instruction, f"input {i} has shape {show(shape)}, input 0 has {show(inputs[0])}")
    return inputs, inits


def _reducer_types(
    instruction: HloInstruction, inputs: Sequence[Shape], inits: Sequence[Shape]
) -> tuple[PrimitiveType, ...]:
    return check_reducer(
        instruction, instruction.to_apply, [i.element_type for i in inits], [i.element_type for i in inputs]
    )


def _results(instruction: HloInstruction, shapes: Sequence[Shape]) -> Shape:
    """The result is a tuple exactly if the reducer's is, even one of a single element."""
    return Shape.tuple_of(shapes) if instruction.to_apply.root_instruction.shape.is_tuple else shapes[0]


def infer_reduce(instruction: HloInstruction) -> Shape:
    """The kept dimensions, one result per input, with the types of the reducer's result."""
    dims = instruction.attributes_as(at.DimensionsAttributes).dimensions
    inputs, inits = _inputs_and_inits(instruction)
    check_distinct_dimensions(instruction, dims, inputs[0].rank)
    marks = dynamic_marks(inputs[0])
    kept = [i for i in range(inputs[0].rank) if i not in dims]
    kept_dims, kept_marks = [inputs[0].dimensions[i] for i in kept], [marks[i] for i in kept]
    types = _reducer_types(instruction, inputs, inits)
    return _results(instruction, [make_shape(kind, kept_dims, kept_marks) for kind in types])


def infer_reduce_window(instruction: HloInstruction) -> Shape:
    """One result per input; a dimension has as many elements as the window has positions."""
    inputs, inits = _inputs_and_inits(instruction)
    window = instruction.attributes_as(at.WindowAttributes).window
    dims = window_output_dimensions(instruction, window, inputs[0].dimensions)
    types = _reducer_types(instruction, inputs, inits)
    return _results(instruction, [make_shape(kind, dims, dynamic_marks(inputs[0])) for kind in types])


def infer_select_and_scatter(instruction: HloInstruction) -> Shape:
    """The operand's shape; the source has one element per window position."""
    operand, source = array_operand(instruction, 0), array_operand(instruction, 1)
    init = scalar_operand(instruction, 2, "the init value")
    select, scatter = instruction.called_computations
    check_scalar_parameters(instruction, select, [operand.element_type] * 2, "select")
    check_predicate_result(instruction, select, "select")
    check_reducer(instruction, scatter, [init.element_type], [source.element_type], "scatter")
    window = instruction.attributes_as(at.WindowAttributes).window
    dims = window_output_dimensions(instruction, window, operand.dimensions)
    expected = make_shape(operand.element_type, dims)
    if not compatible_up_to_precision(source, expected):
        fail(instruction, f"the source has shape {show(source)}, but the window has {show(expected)} positions")
    return operand


def infer_sort(instruction: HloInstruction) -> Shape:
    """The operands' shapes; the comparator takes two scalars per operand and returns a pred."""
    dims = instruction.attributes_as(at.SortAttributes).dimensions
    shapes = aligned_operands(instruction)
    if len(dims) != 1:
        fail(instruction, f"sorts along exactly one dimension, got dimensions={show_dims(dims)}")
    check_dimension(instruction, dims[0], shapes[0].rank)
    comparator = instruction.to_apply
    types = [s.element_type for s in shapes for _ in range(2)]
    check_scalar_parameters(instruction, comparator, types, "comparator")
    check_predicate_result(instruction, comparator, "comparator")
    return tuple_or_single(shapes)


def infer_topk(instruction: HloInstruction) -> Shape:
    """(values, s32 indices) with k elements in the last dimension."""
    k = instruction.attributes_as(at.TopKAttributes).k
    operand = array_operand(instruction, 0)
    if operand.rank == 0:
        fail(instruction, "the operand must not be a scalar")
    if not 0 <= k <= operand.dimensions[-1]:
        fail(instruction, f"k={k} does not lie in [0, {operand.dimensions[-1]}], the size of the last dimension")
    values = with_dimension(operand, operand.rank - 1, k)
    return Shape.tuple_of([values, values.with_element_type(PrimitiveType.S32)])


def infer_scan(instruction: HloInstruction) -> Shape:
    """(outputs..., final carries...) of operands (inputs..., initial carries...).

    The computation maps (slices of the inputs..., carries...) to (slices of the outputs..., carries...); a slice lacks
    the scanned dimension.
    """
    attributes = instruction.attributes_as(at.ScanAttributes)
    shapes = array_operands(instruction)
    carries = attributes.num_carries
    if not 0 <= carries < len(shapes):
        fail(instruction, f"num_carries={carries} leaves no input among {len(shapes)} operands")
    inputs, inits = shapes[: len(shapes) - carries], shapes[len(shapes) - carries :]
    if len(attributes.dimensions) != 1:
        fail(instruction, f"scans along exactly one dimension, got dimensions={show_dims(attributes.dimensions)}")
    dimension = attributes.dimensions[0]
    for shape in inputs:
        check_dimension(instruction, dimension, shape.rank)
        if shape.dimensions[dimension] != inputs[0].dimensions[dimension]:
            fail(instruction, f"inputs {show(inputs[0])} and {show(shape)} differ in the scanned dimension {dimension}")
    slices = [_without(shape, dimension) for shape in inputs]
    check_signature(instruction, instruction.to_apply, [*slices, *inits], "computation")
    return _scan_result(instruction, inits, dimension, inputs[0].dimensions[dimension])


def _scan_result(instruction: HloInstruction, inits: Sequence[Shape], dimension: int, length: int) -> Shape:
    root = instruction.to_apply.root_instruction.shape
    results = root.tuple_shapes if root.is_tuple else (root,)
    count = len(results) - len(inits)
    if count < 0 or not all(r.compatible(c) for r, c in zip(results[count:], inits, strict=True)):
        fail(
            instruction,
            f"computation {instruction.to_apply.name} returns {show(root)}, which must end with the carries "
            f"{show(Shape.tuple_of(inits))}",
        )
    outputs: list[Shape] = []
    for shape in results[:count]:
        if not shape.is_array or dimension > shape.rank:
            fail(instruction, f"a slice of shape {show(shape)} cannot be stacked along dimension {dimension}")
        dims = (*shape.dimensions[:dimension], length, *shape.dimensions[dimension:])
        outputs.append(make_shape(shape.element_type, dims))
    return Shape.tuple_of([*outputs, *inits]) if root.is_tuple else tuple_or_single([*outputs, *inits])


def _without(shape: Shape, dimension: int) -> Shape:
    return make_shape(shape.element_type, (*shape.dimensions[:dimension], *shape.dimensions[dimension + 1 :]))


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "reduce": infer_reduce,
        "reduce-window": infer_reduce_window,
        "select-and-scatter": infer_select_and_scatter,
        "sort": infer_sort,
        "topk": infer_topk,
        "scan": infer_scan,
    }
)
