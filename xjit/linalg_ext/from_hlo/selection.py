"""The first elements of rows in some order, and updates at places that are data."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
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
    """Values, alone or with integers that follow them: as many as are read of the front."""
    operands = list(instruction.operands)
    if len(operands) > 2 or not all(has_scalar_code(o.shape) for o in operands):
        return None
    comparator = instruction.to_apply
    if not is_scalar_code(comparator) or any(p.users for p in comparator.parameter_instructions[2:]):
        return None
    if len(operands) == 2 and not operands[1].shape.element_type.is_integer:
        return None
    axis = instruction.attributes_as(at.SortAttributes).sort_dimension
    numbers = operands[1].shape.element_type if len(operands) == 2 else PrimitiveType.S32
    sizes = list(operands[0].shape.dimensions)
    sizes[axis] = _read_of(instruction, axis)
    code = code_of(comparator)

    def is_before(builder: Builder, given: Sequence[Value]) -> Sequence[Value]:
        return code(builder, [*given, *given][: comparator.num_parameters])

    results = _first_elements(scope, [scope.value(o) for o in operands], axis, sizes, numbers, is_before)
    return tuple(results) if instruction.shape.is_tuple else results[0]


def _read_of(sort: HloInstruction, axis: int) -> int:
    """Returns how many of the first elements along a dimension are read, at most; all that there are in doubt."""
    size = sort.operand(0).shape.dimensions[axis]
    results = sort.users if sort.shape.is_tuple else [sort]
    readers = [user for result in results for user in result.users]
    is_root = any(i.parent is not None and i is i.parent.root_instruction for i in (sort, *results))
    if is_root or not readers or any(user.opcode != "slice" for user in readers):
        return size
    return max(user.attributes_as(at.SliceAttributes).limits[axis] for user in readers)


def _scatter(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """A scatter of whole windows whose indices are those of the leading dimensions, in their order."""
    if instruction.operand_count != 3 or not is_scalar_code(instruction.to_apply):
        return None
    source, indices, updates = instruction.operands
    a = instruction.attributes_as(at.ScatterAttributes)
    batch, depth = indices.shape.rank - 1, indices.shape.dimensions[-1] if indices.shape.rank else 0
    leading = tuple(range(depth))
    plain = (
        not a.input_batching_dims
        and a.index_vector_dim == batch
        and a.inserted_window_dims == leading == a.scatter_dims_to_operand_dims
        and a.update_window_dims == tuple(range(batch, updates.shape.rank))
        and source.shape.dimensions[depth:] == updates.shape.dimensions[batch:]
    )
    if not plain or not all(has_scalar_code(o.shape) for o in instruction.operands):
        return None
    kind = raised_element(source.shape.element_type)
    region = scope.region([kind, kind], code_of(instruction.to_apply), "linalg_ext.yield")
    inputs = (scope.value(indices), scope.value(updates))
    return scope.named("linalg_ext.scatter", inputs, (scope.value(source),), {}, region)[0]


SELECTION_RULES: dict[str, Rule] = {
    "custom-call": _library_call,
    "topk": _topk,
    "sort": _sort,
    "scatter": _scatter,
}
