"""The first elements of rows in some order."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.gathers import taken_along
from xjit.linalg_ext.from_hlo.scalars import code_of, is_scalar_code
from xjit.linalg_ext.from_hlo.scope import Body, Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import OpResult, Value
from xjit.linalg_ext.ir.types import FloatType, IntegerType, element_type
from xjit.linalg_ext.structured.scalars import compare
from xjit.passes.simplify.topk_rewriter import TARGET

__all__ = ["SELECTION_RULES"]


def _first_elements(
    scope: Scope, inputs: Sequence[Value], axis: int, sizes: Sequence[int], numbers: PrimitiveType, is_before: Body
) -> tuple[OpResult, ...]:
    """Writes a top-k: values and their numbers, which count from 0 if `inputs` has none."""
    kind = element_type(inputs[0].type)
    inits = [scope.empty(sizes, kind), scope.empty(sizes, raised_element(numbers))]
    region = scope.region([kind, kind], is_before, "linalg_ext.yield")
    return scope.named("linalg_ext.topk", inputs, inits, {"dimension": IntegerAttr(axis, IntegerType(64))}, region)


def _compared(is_float: str, is_signed: str, is_unsigned: str, signed: bool) -> Body:
    def write(builder: Builder, given: Sequence[Value]) -> list[Value]:
        wanted = is_float if isinstance(given[0].type, FloatType) else is_signed if signed else is_unsigned
        return [compare(builder, wanted, *given)]

    return write


def _topk(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """The largest or smallest along the last dimension, with their places."""
    data, shape = instruction.operand(0), instruction.shape
    if not shape.is_tuple or not all(has_scalar_code(s) for s in (data.shape, *shape.tuple_shapes)):
        return None
    largest = instruction.opcode != "topk" or instruction.attributes_as(at.TopKAttributes).largest
    names = ("ogt", "sgt", "ugt") if largest else ("olt", "slt", "ult")
    order = _compared(*names, data.shape.element_type.is_signed)
    values, places = shape.tuple_shapes
    return _first_elements(
        scope, [scope.value(data)], data.shape.rank - 1, values.dimensions, places.element_type, order
    )


def _library_call(scope: Scope, instruction: HloInstruction) -> Raised | None:
    is_topk = instruction.attributes_as(at.CustomCallAttributes).custom_call_target == TARGET
    return _topk(scope, instruction) if is_topk and instruction.operand_count == 1 else None


def _sort(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """Values, alone or with others that follow them: as many as are read of the front."""
    operands = list(instruction.operands)
    if not all(has_scalar_code(o.shape) for o in operands):
        return None
    comparator = instruction.to_apply
    if not is_scalar_code(comparator) or any(p.users for p in comparator.parameter_instructions[2:]):
        return None
    if len(operands) > 2 or (len(operands) == 2 and not operands[1].shape.element_type.is_integer):
        return _sort_followed(scope, instruction, code_of(comparator))
    axis = instruction.attributes_as(at.SortAttributes).sort_dimension
    numbers = operands[1].shape.element_type if len(operands) == 2 else PrimitiveType.S32
    sizes = list(operands[0].shape.dimensions)
    sizes[axis] = _read_of(instruction, axis)
    code = code_of(comparator)

    def is_before(builder: Builder, given: Sequence[Value]) -> Sequence[Value]:
        return code(builder, [*given, *given][: comparator.num_parameters])

    results = _first_elements(scope, [scope.value(o) for o in operands], axis, sizes, numbers, is_before)
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _sort_followed(scope: Scope, instruction: HloInstruction, code: Body) -> Raised:
    """What follows the values is taken from the places where these were."""
    values, *others = instruction.operands
    axis = instruction.attributes_as(at.SortAttributes).sort_dimension
    sizes = list(values.shape.dimensions)
    sizes[axis] = _read_of(instruction, axis)
    count = instruction.to_apply.num_parameters

    def is_before(builder: Builder, given: Sequence[Value]) -> Sequence[Value]:
        return code(builder, [*given, *[given[0]] * count][:count])

    first, places = _first_elements(scope, [scope.value(values)], axis, sizes, PrimitiveType.S32, is_before)
    return (first, *(taken_along(scope, scope.value(o), places, axis, sizes) for o in others))


def _read_of(sort: HloInstruction, axis: int) -> int:
    """Returns how many of the first elements along a dimension are read, at most; all that there are in doubt."""
    size = sort.operand(0).shape.dimensions[axis]
    results = sort.users if sort.shape.is_tuple else [sort]
    readers = [user for result in results for user in result.users]
    is_root = any(i.parent is not None and i is i.parent.root_instruction for i in (sort, *results))
    if is_root or not readers or any(user.opcode != "slice" for user in readers):
        return size
    return max(user.attributes_as(at.SliceAttributes).limits[axis] for user in readers)


SELECTION_RULES: dict[str, Rule] = {
    "custom-call": _library_call,
    "topk": _topk,
    "sort": _sort,
}
