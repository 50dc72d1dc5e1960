"""Operations of scripts that go from operations of the program to those around and beside them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import ArrayAttr, DenseArrayAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow

__all__ = ["NEIGHBOUR_ROWS"]


def _number(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    if isinstance(attribute, ArrayAttr) and len(attribute.elements) == 1:
        attribute = attribute.elements[0]
    if isinstance(attribute, DenseArrayAttr) and len(attribute.values) == 1:
        return attribute.ints[0]
    if not isinstance(attribute, IntegerAttr):
        raise LinalgError(f"'{op.name}' op expects a number as '{name}', found {attribute}", op.location)
    return attribute.value


def get_producer_of_operand(script: Script, op: Operation) -> Handles:
    """The operation that gives operand n of each payload operation."""
    number = _number(op, "operand_number")
    found: list[Operation] = []
    for target in script.payload(op):
        if not -len(target.operands) <= number < len(target.operands):
            raise LinalgError(f"'{target.name}' op has no operand {number}", op.location)
        producer = target.operands[number].defining_op
        if producer is None:
            raise LinalgError(f"operand {number} of '{target.name}' is an argument: nothing produces it", op.location)
        found.append(producer)
    return [found]


def get_consumers_of_result(script: Script, op: Operation) -> Handles:
    number = _number(op, "result_number")
    targets = script.payload(op)
    if len(targets) != 1 or not 0 <= number < len(targets[0].results):
        raise LinalgError(f"'{op.name}' op expects one operation with a result {number}", op.location)
    return [targets[0].results[number].users]


def get_parent_op(script: Script, op: Operation) -> Handles:
    """The n-th operation around each payload operation, of those with a name, or those that are isolated.

    Each once if it is asked to `deduplicate`.
    """
    name, nth = op.attributes.get("op_name"), op.attributes.get("nth_parent")
    count = nth.value if isinstance(nth, IntegerAttr) else 1
    if count < 1:
        raise LinalgError(f"'{op.name}' op expects 'nth_parent' to be 1 or more, found {count}", op.location)
    isolated = "isolated_from_above" in op.attributes
    found: list[Operation] = []
    for target in script.payload(op):
        around = (
            parent
            for parent in target.ancestors()
            if (not isinstance(name, StringAttr) or parent.name == name.value)
            and (not isolated or has_trait(parent, "isolated"))
        )
        parent = next(islice(around, count - 1, None), None)
        if parent is not None:
            found.append(parent)
        elif "allow_empty_results" not in op.attributes:
            raise LinalgError(f"'{target.name}' op has no such operation around it", op.location)
    return [list(dict.fromkeys(found)) if "deduplicate" in op.attributes else found]


def get_closest_isolated_parent(script: Script, op: Operation) -> Handles:
    """What `get_parent_op` finds if it is asked for isolated operations, each once: an older name of that."""
    found = [next((p for p in t.ancestors() if has_trait(p, "isolated")), None) for t in script.payload(op)]
    return [list(dict.fromkeys(parent for parent in found if parent is not None))]


def _picked(op: Operation, target: Operation, values: Sequence[Value]) -> list[Value]:
    """Returns the values at the positions that the script's operation lists, from the end if they are negative."""
    if "is_all" in op.attributes:
        return list(values)
    positions = op.attributes.get("raw_position_list")
    if not isinstance(positions, DenseArrayAttr):
        raise LinalgError(f"'{op.name}' op expects a list of positions, found {positions}", op.location)
    for position in positions.ints:
        if not -len(values) <= position < len(values):
            raise LinalgError(f"'{target.name}' op has {len(values)} values, none at position {position}", op.location)
    chosen = [position % len(values) for position in positions.ints]
    if "is_inverted" in op.attributes:
        return [v for i, v in enumerate(values) if i not in chosen]
    return [values[i] for i in chosen]


def get_operand(script: Script, op: Operation) -> Handles:
    return [[v for target in script.payload(op) for v in _picked(op, target, target.operands)]]


def get_result(script: Script, op: Operation) -> Handles:
    return [[v for target in script.payload(op) for v in _picked(op, target, target.results)]]


def get_defining_op(script: Script, op: Operation) -> Handles:
    """The operations whose results the payload's values are; LinalgError for arguments."""
    found: list[Operation] = []
    for value in script.lookup(op):
        producer = value.defining_op if isinstance(value, Value) else None
        if producer is None:
            raise LinalgError("cannot get defining ops of block argument", op.location)
        found.append(producer)
    return [found]


NEIGHBOUR_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.get_producer_of_operand", get_producer_of_operand),
    TransformRow("transform.get_consumers_of_result", get_consumers_of_result),
    TransformRow("transform.get_parent_op", get_parent_op),
    TransformRow("transform.get_closest_isolated_parent", get_closest_isolated_parent),
    TransformRow("transform.get_operand", get_operand),
    TransformRow("transform.get_result", get_result),
    TransformRow("transform.get_defining_op", get_defining_op),
)
