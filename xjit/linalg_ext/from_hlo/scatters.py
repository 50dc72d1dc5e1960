"""Updates at places that are data: `linalg_ext.scatter`, of whole windows."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.gathers import loop_index
from xjit.linalg_ext.from_hlo.reshaping import reshaped
from xjit.linalg_ext.from_hlo.scalars import code_of, is_scalar_code
from xjit.linalg_ext.from_hlo.scatter_bounds import are_inside, places_inside, with_further_row
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IntegerType, element_type
from xjit.linalg_ext.structured.scalars import cast
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["SCATTER_RULES"]


def _scatter(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """A scatter whose windows are whole along the dimensions that no index names.

    Those that indices name come first, the others behind them; a batch dimension of source and indices is named by an
    index that counts it. Updates outside of the source go to a row behind it, which is cut off again.
    """
    if instruction.operand_count != 3 or not is_scalar_code(instruction.to_apply):
        return None
    source, indices, updates = instruction.operands
    a = instruction.attributes_as(at.ScatterAttributes)
    named = [*a.scatter_dims_to_operand_dims, *a.input_batching_dims]
    windows = [d for d in range(source.shape.rank) if d not in named]
    sizes = [updates.shape.dimensions[d] for d in a.update_window_dims]
    whole = (
        sorted(a.inserted_window_dims) == sorted(a.scatter_dims_to_operand_dims)
        and sizes == [source.shape.dimensions[d] for d in windows]
        and len(a.scatter_dims_to_operand_dims) > 0
    )
    shapes = [o.shape for o in instruction.operands]
    if not whole or not all(has_scalar_code(s) for s in shapes) or any(0 in s.dimensions for s in shapes):
        return None
    order = [*named, *windows]
    batch = [d for d in range(updates.shape.rank) if d not in a.update_window_dims]
    kind = raised_element(source.shape.element_type)
    region = scope.region([kind, kind], code_of(instruction.to_apply), "linalg_ext.yield")
    moved = scope.transposed(scope.value(source), order)
    places, sizes = _places(scope, indices, a), [n or 0 for n in shape_of(moved)]
    known = are_inside(indices, a.index_vector_dim, sizes[: len(a.scatter_dims_to_operand_dims)])
    if not known:
        places = places_inside(scope, places, sizes[: len(named)], indices.shape.element_type.is_signed)
        moved = with_further_row(scope, moved)
    inputs = (places, scope.transposed(scope.value(updates), [*batch, *a.update_window_dims]))
    result: Value = scope.named("linalg_ext.scatter", inputs, (moved,), {}, region)[0]
    if not known:
        result = scope.slice(result, [0] * len(sizes), sizes)
    return scope.transposed(result, [order.index(d) for d in range(len(order))])


def _places(scope: Scope, indices: HloInstruction, a: at.ScatterAttributes) -> Value:
    """Returns the indices with their components last, those that count batches behind the others."""
    value, vector = scope.value(indices), a.index_vector_dim
    rank = indices.shape.rank
    axes = [d for d in range(rank) if d != vector]
    rows = [indices.shape.dimensions[d] for d in axes]
    count = len(a.scatter_dims_to_operand_dims)
    value = scope.transposed(value, [*axes, vector]) if vector < rank else reshaped(scope.builder, value, [*rows, 1])
    if not a.scatter_indices_batching_dims:
        return value
    kind = element_type(value.type)
    found = scope.empty([*rows, count + len(a.scatter_indices_batching_dims)], kind)
    found = scope.slice(value, [0] * (len(rows) + 1), [*rows, count], into=found)
    for number, axis in enumerate(a.scatter_indices_batching_dims):
        counted = _counted(scope, [*rows, 1], axes.index(axis), value)
        start = [*[0] * len(rows), count + number]
        found = scope.slice(counted, start, [*rows, 1], into=found)
    return found


def _counted(scope: Scope, sizes: Sequence[int], axis: int, like: Value) -> Value:
    """Returns a tensor of the index along a dimension, in the type of another tensor."""
    kind = element_type(like.type)

    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        return [cast(builder, cast(builder, loop_index(builder, axis, sizes), IntegerType(64)), kind)]

    return scope.elements([], sizes, kind, body)


SCATTER_RULES: dict[str, Rule] = {"scatter": _scatter}
