"""What operations of StableHLO are as HLO: a table by name. What is not in it, the converter reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xjit.frontends.stablehlo_reader.convolutions import CONVOLUTION_ATTRIBUTES, read_convolution
from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.frontends.stablehlo_reader.scope import Scope, Value
from xjit.frontends.stablehlo_reader.values import Constant, constant_of, is_set, precisions_of
from xjit.hlo import attributes as at
from xjit.hlo.attributes.values import PaddingDimension, SliceDimension
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

Rule = Callable[[Scope, Any, list[Value], Shape], Value]
"""(scope, operation, operands, the result's shape) -> the result."""

_COMPLEX: Final = frozenset({PrimitiveType.C64, PrimitiveType.C128})
_COMPLEX_OR_FLOAT: Final = _COMPLEX | {kind for kind in PrimitiveType if kind.is_float}


@dataclass(frozen=True, slots=True)
class Reader:
    """How an operation of one result is read, and the attributes that it may have."""

    rule: Rule
    attributes: frozenset[str] = frozenset()


def read_operation(scope: Scope, op: Any, name: str, shape: Shape) -> Value:
    """Returns the result of an operation. Errors: Declined."""
    reader = READERS.get(name)
    if reader is None:
        raise Declined(name)
    attributes = op.attributes
    if len(attributes) and not reader.attributes.issuperset(attributes):
        raise Declined(f"{name} with attributes {list(attributes)}")
    return reader.rule(scope, op, scope.operands(op), shape)


def _elementwise(opcode: str) -> Rule:
    def rule(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
        if shape.element_type in _COMPLEX and opcode not in _COMPLEX_TOO:
            raise Declined(f"complex {opcode}")
        if any(operand.shape.dimensions != shape.dimensions for operand in operands):
            raise Declined(f"{opcode} of scalars and arrays")
        if any(isinstance(operand, Constant) for operand in operands):
            operands = _constants_last(opcode, operands)
            known = _known(opcode, operands)
            if known is not None:
                return known
        elif opcode in ("subtract", "xor") and operands[0] is operands[1] and not shape.element_type.is_float:
            raise Declined(f"{opcode} of a value and itself")
        return scope.make(opcode, shape, operands)

    return rule


def _constants_last(opcode: str, operands: list[Value]) -> list[Value]:
    if opcode not in _COMMUTATIVE or not isinstance(operands[0], Constant):
        return operands
    return [*(x for x in operands if not isinstance(x, Constant)), *(x for x in operands if isinstance(x, Constant))]


def _known(opcode: str, operands: list[Value]) -> Value | None:
    """What an operation on constants is without it: zeros and ones that change nothing, or decide alone."""
    constants = [operand for operand in operands if isinstance(operand, Constant)]
    if len(constants) == len(operands) and opcode not in _NEVER_COMPUTED:
        return _computed(_FUNCTIONS.get(opcode), constants, constants[0].shape, opcode)
    last = operands[-1]
    if opcode not in _NEUTRAL or not isinstance(last, Constant):
        return None
    kind = last.shape.element_type
    ones = -1 if kind.is_signed else kind is PrimitiveType.PRED or 2**kind.bit_width - 1
    neutral = ones if _NEUTRAL[opcode] is None else _NEUTRAL[opcode]
    if last.literal.is_all(neutral):
        return operands[0]
    if opcode in _ABSORBING and not kind.is_float and last.literal.is_all(ones if opcode == "or" else 0):
        return last
    return None


def _computed(function: Callable[..., Any] | None, constants: list[Constant], shape: Shape, name: str) -> Constant:
    """What a function gives for numbers that are repeated, exactly. Errors: Declined for others."""
    kind = constants[0].shape.element_type
    if function is None or not all(c.is_splat for c in constants) or not (kind in _COMPUTED or kind.is_unsigned):
        raise Declined(f"{name} of constants")
    with np.errstate(all="ignore"):
        found = np.asarray(function(*(constant.literal.array for constant in constants))).astype(shape.dtype)
    if not np.isfinite(found) or (kind.is_float and not found and name in ("maximum", "minimum")):
        raise Declined(f"{name} of constants")  # NumPy takes either of two zeros
    return Constant(Literal(Shape.array(shape.element_type), found), shape)


def _constant(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    if shape.element_type in _COMPLEX:
        raise Declined("a complex constant, which Python cannot read")
    return constant_of(op.attributes["value"], shape)


def _compare(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    from jaxlib.mlir.dialects import stablehlo

    constants = [operand for operand in operands if isinstance(operand, Constant)]
    given = op.attributes
    kind = stablehlo.ComparisonTypeAttr(given["compare_type"]).value if "compare_type" in given else ""
    direction = stablehlo.ComparisonDirectionAttr(given["comparison_direction"]).value
    if len(constants) == 2:
        return _computed(_COMPARISONS[direction], constants, shape, "compare")
    if any(constant.shape.element_type is PrimitiveType.PRED for constant in constants):
        raise Declined("compare of a truth that is known")
    if operands[0] is operands[1] and operands[0].shape.element_type not in _COMPLEX_OR_FLOAT:
        return Constant(Literal(Shape.array(PrimitiveType.PRED), np.asarray(_COMPARISONS[direction](0, 0))), shape)
    return scope.make("compare", shape, operands, at.CompareAttributes(direction, kind if kind == "TOTALORDER" else ""))


def _select(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    which, *values = operands
    if isinstance(which, Constant) and which.is_splat:
        return values[0] if which.literal.item() else values[1]
    are_known = all(isinstance(value, Constant) for value in values)
    if isinstance(which, Constant) or values[0] == values[1] or (are_known and not shape.element_type.is_float):
        raise Declined("select that may be known")
    if which.shape.dimensions != shape.dimensions:
        which = scope.make(
            "broadcast", shape.with_element_type(PrimitiveType.PRED), [which], at.DimensionsAttributes(())
        )
    return scope.make("select", shape, [which, *values])


def _convert(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    (operand,) = operands
    if isinstance(operand, Constant):
        return _converted(operand, shape)
    if operand.shape.element_type in _COMPLEX and shape.element_type not in _COMPLEX:
        raise Declined("convert that takes the real part")
    return operand if operand.shape == shape else scope.make("convert", shape, operands)


def _converted(constant: Constant, shape: Shape) -> Constant:
    """A number that is repeated, of another type: integers wrap around, others are what they were, or declined."""
    kinds = constant.shape.element_type, shape.element_type
    if not constant.is_splat or any(kind in _COMPLEX for kind in kinds):
        raise Declined("convert of a constant array")
    given = constant.literal.array
    with np.errstate(all="ignore"):
        found = given.astype(shape.dtype)
        is_exact = np.isfinite(given) and found.astype(given.dtype).tobytes() == given.tobytes()
    if any(kind.is_float for kind in kinds) and not is_exact:
        raise Declined("convert of a constant that rounds")
    return Constant(Literal(Shape.array(shape.element_type), found), shape)


def _bitcast_convert(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    (operand,) = operands
    if isinstance(operand, Constant) or operand.shape.element_type is shape.element_type:
        raise Declined("bitcast_convert that is known")
    return scope.make("bitcast-convert", shape, operands)


def _reshape(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    (operand,) = operands
    if isinstance(operand, Constant):
        if operand.is_splat:
            return Constant(operand.literal, shape)
        return Constant(type(operand.literal)(shape, operand.literal.array.reshape(shape.dimensions)), shape)
    if operand.opcode == "reshape":
        scope.after(operand)
        operand = operand.operand(0)
    return operand if operand.shape == shape else scope.make("reshape", shape, [operand])


def _broadcast_in_dim(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    (operand,) = operands
    dimensions = tuple(op.attributes["broadcast_dimensions"])
    if isinstance(operand, Constant):
        if not operand.is_splat:
            raise Declined("broadcast_in_dim of a constant array")
        return Constant(operand.literal, shape)
    given = operand.shape.dimensions
    if sorted(dimensions) != list(dimensions) or not shape.num_elements:
        raise Declined("broadcast_in_dim that transposes")
    if operand.opcode == "broadcast" and operand.metadata.op_name:
        raise Declined("broadcast_in_dim of another")
    if given == shape.dimensions:
        return operand
    if operand.shape.num_elements == shape.num_elements:
        return _reshape(scope, op, operands, shape)
    sizes = [1] * len(shape.dimensions)
    for size, dimension in zip(given, dimensions, strict=True):
        sizes[dimension] = size
    kept = [d for d in dimensions if sizes[d] == shape.dimensions[d]]
    if len(kept) == len(dimensions):
        return scope.make("broadcast", shape, [operand], at.DimensionsAttributes(dimensions))
    in_place = [shape.dimensions[d] if d not in dimensions else sizes[d] for d in range(len(sizes))]
    first = scope.make("broadcast", shape.with_dimensions(in_place), [operand], at.DimensionsAttributes(dimensions))
    rest = [d for d, size in enumerate(in_place) if size == shape.dimensions[d]]
    reshaped = scope.make("reshape", Shape.array(shape.element_type, [in_place[d] for d in rest]), [first])
    return scope.make("broadcast", shape, [reshaped], at.DimensionsAttributes(tuple(rest)))


def _transpose(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    (operand,) = operands
    permutation = tuple(op.attributes["permutation"])
    if isinstance(operand, Constant):
        if operand.is_splat:
            return Constant(operand.literal, shape)
        raise Declined("transpose of a constant")
    if operand.opcode == "transpose":
        raise Declined("transpose of a transpose")
    if permutation == tuple(range(len(permutation))):
        return operand
    moved = [d for d in permutation if shape.num_elements and operand.shape.dimensions[d] != 1]
    if moved == sorted(moved):
        raise Declined("transpose that is a reshape")
    return scope.make("transpose", shape, operands, at.DimensionsAttributes(permutation))


def _iota(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    dimension = op.attributes["iota_dimension"].value
    if shape.element_type in _COMPLEX or shape.dimensions[dimension] <= 1:
        raise Declined("iota of ones")
    if len(shape.dimensions) == 1:
        return scope.make("iota", shape, [], at.IotaAttributes(0))
    line = Shape.array(shape.element_type, [shape.dimensions[dimension]])
    numbers = scope.make("iota", line, [], at.IotaAttributes(0))
    if line.num_elements == shape.num_elements:
        return scope.make("reshape", shape, [numbers])
    return scope.make("broadcast", shape, [numbers], at.DimensionsAttributes((dimension,)))


def _slice(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    names = "start_indices", "limit_indices", "strides"
    rows = [SliceDimension(*row) for row in zip(*(op.attributes[name] for name in names), strict=True)]
    (operand,) = operands
    if not isinstance(operand, Constant) and operand.opcode == "concatenate":
        operand = _sliced_part(scope, operand, rows)
    if isinstance(operand, Constant):
        if operand.is_splat:
            return Constant(operand.literal, shape)
        raise Declined("slice of a constant array")
    if operand.shape == shape:
        return operand
    return scope.make("slice", shape, [operand], at.SliceAttributes(tuple(rows)))


def _sliced_part(scope: Scope, whole: HloInstruction, rows: list[SliceDimension]) -> Value:
    """The operand of a concatenate that a slice takes all its elements from; the slice becomes one of that."""
    dimension = whole.attributes_as(at.ConcatenateAttributes).dimension
    row, start = rows[dimension], 0
    for part in whole.operands:
        end = start + part.shape.dimensions[dimension]
        if start <= row.start and row.limit <= end:
            rows[dimension] = SliceDimension(row.start - start, row.limit - start, row.stride)
            return scope.value_of(part)
        start = end
    raise Declined("slice of several parts")


def _concatenate(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    if len(operands) == 1 or any(not operand.shape.num_elements for operand in operands):
        raise Declined("concatenate of nothing")
    if all(isinstance(operand, Constant) for operand in operands):
        raise Declined("concatenate of constants")
    if any(not isinstance(operand, Constant) and operand.opcode in ("concatenate", "slice") for operand in operands):
        raise Declined("concatenate of parts")
    return scope.make("concatenate", shape, operands, at.ConcatenateAttributes(op.attributes["dimension"].value))


def _pad(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    if isinstance(operands[0], Constant) or operands[0].shape.dimensions == shape.dimensions:
        raise Declined("pad that is known")
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    rows = zip(*(op.attributes[name] for name in names), strict=True)
    return scope.make("pad", shape, operands, at.PadAttributes(tuple(PaddingDimension(*row) for row in rows)))


def _reverse(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    dimensions = tuple(op.attributes["dimensions"])
    if isinstance(operands[0], Constant) or any(shape.dimensions[d] <= 1 for d in dimensions) or not dimensions:
        raise Declined("reverse that is known")
    return scope.make("reverse", shape, operands, at.DimensionsAttributes(dimensions))


def _dynamic_slice(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    if all(isinstance(operand, Constant) for operand in operands[1:]) or isinstance(operands[0], Constant):
        raise Declined("dynamic_slice that is known")
    sizes = tuple(op.attributes["slice_sizes"])
    return scope.make("dynamic-slice", shape, operands, at.DynamicSliceAttributes(sizes))


def _dynamic_update_slice(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    if all(isinstance(operand, Constant) for operand in operands[2:]) or operands[1].shape == shape:
        raise Declined("dynamic_update_slice that is known")
    return scope.make("dynamic-update-slice", shape, operands)


def _dot_general(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    from jaxlib.mlir.dialects import stablehlo

    given = op.attributes
    numbers = stablehlo.DotDimensionNumbers(given["dot_dimension_numbers"])
    if all(isinstance(operand, Constant) for operand in operands):
        raise Declined("dot_general of constants")
    attributes = at.DotAttributes(
        lhs_batch_dims=tuple(numbers.lhs_batching_dimensions),
        lhs_contracting_dims=tuple(numbers.lhs_contracting_dimensions),
        rhs_batch_dims=tuple(numbers.rhs_batching_dimensions),
        rhs_contracting_dims=tuple(numbers.rhs_contracting_dimensions),
        operand_precision=precisions_of(given),
    )
    return scope.make("dot", shape, operands, attributes)


def _fft(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    from jaxlib.mlir.dialects import stablehlo

    kind = stablehlo.FftTypeAttr(op.attributes["fft_type"]).value
    return scope.make("fft", shape, operands, at.FftAttributes(kind, tuple(op.attributes["fft_length"])))


def _gather(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    from jaxlib.mlir.dialects import stablehlo

    given = op.attributes
    numbers = stablehlo.GatherDimensionNumbers(given["dimension_numbers"])
    attributes = at.GatherAttributes(
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        start_index_map=tuple(numbers.start_index_map),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        slice_sizes=tuple(given["slice_sizes"]),
        indices_are_sorted=is_set(given, "indices_are_sorted"),
    )
    return scope.make("gather", shape, operands, attributes)


_COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
"""All exact, or rounded once."""

_NEVER_COMPUTED: Final = frozenset((
    "atan2", "cbrt", "ceil", "count-leading-zeros", "exponential-minus-one", "floor", "log-plus-one", "popcnt", "power",
    "shift-left", "shift-right-arithmetic", "shift-right-logical",
))  # fmt: skip
"""Opcodes that the converter leaves as they are, whatever their operands."""

_COMPUTED: Final = frozenset(kind for kind in PrimitiveType if kind.is_signed) | {
    PrimitiveType.PRED,
    PrimitiveType.F32,
    PrimitiveType.F64,
}
"""Types, besides unsigned ones, whose constants are computed."""

_COMPLEX_TOO: Final = frozenset(["add", "subtract", "multiply", "negate", "complex"])

_COMMUTATIVE: Final = frozenset(["add", "multiply", "maximum", "minimum", "and", "or", "xor"])

_NEUTRAL: Final = {"add": 0, "subtract": 0, "multiply": 1, "and": None, "or": 0, "xor": 0}
"""The second operand that changes nothing; None: all bits."""

_ABSORBING: Final = frozenset(("multiply", "and", "or"))
"""Opcodes that give zero for zero, and all bits for all bits, whatever the other operand, of integers."""

_ELEMENTWISE: Final = [
    "abs",
    "add",
    "and",
    "atan2",
    "cbrt",
    "ceil",
    "clamp",
    "complex",
    "cosine",
    "count_leading_zeros",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
]

READERS: Final[dict[str, Reader]] = {
    f"stablehlo.{name}": reader
    for name, reader in {
        **{name: Reader(_elementwise(name.replace("_", "-"))) for name in _ELEMENTWISE},
        "bitcast_convert": Reader(_bitcast_convert),
        "broadcast_in_dim": Reader(_broadcast_in_dim, frozenset({"broadcast_dimensions"})),
        "compare": Reader(_compare, frozenset({"comparison_direction", "compare_type"})),
        "concatenate": Reader(_concatenate, frozenset({"dimension"})),
        "constant": Reader(_constant, frozenset({"value"})),
        "convert": Reader(_convert),
        "convolution": Reader(read_convolution, CONVOLUTION_ATTRIBUTES),
        "dot_general": Reader(_dot_general, frozenset({"dot_dimension_numbers", "precision_config"})),
        "dynamic_slice": Reader(_dynamic_slice, frozenset({"slice_sizes"})),
        "dynamic_update_slice": Reader(_dynamic_update_slice),
        "fft": Reader(_fft, frozenset({"fft_length", "fft_type"})),
        "gather": Reader(_gather, frozenset({"dimension_numbers", "slice_sizes", "indices_are_sorted"})),
        "iota": Reader(_iota, frozenset({"iota_dimension"})),
        "pad": Reader(_pad, frozenset({"edge_padding_low", "edge_padding_high", "interior_padding"})),
        "reshape": Reader(_reshape),
        "reverse": Reader(_reverse, frozenset({"dimensions"})),
        "select": Reader(_select),
        "slice": Reader(_slice, frozenset({"start_indices", "limit_indices", "strides"})),
        "transpose": Reader(_transpose, frozenset({"permutation"})),
    }.items()
}
