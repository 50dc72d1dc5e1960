"""What an empty tensor holds: it may be anything, so it is what its readers count for nothing."""

from __future__ import annotations

from collections.abc import Mapping

from xjit.linalg_ext.ir.attributes import SymbolRefAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, OpOperand, Value
from xjit.linalg_ext.structured import as_structured
from xjit.linalg_ext.to_hlo.combiners import combiner_of, neutral_element

__all__ = ["neutral_of_readers"]

_SOFTMAX_NEUTRAL = {1: float("-inf"), 2: 0.0}
"""By number of the init: the maximum and the sum of no elements."""


def neutral_of_readers(empty: Operation, functions: Mapping[str, Operation]) -> float:
    """Returns the number that softmax and scan, which may read the inits of the first tile, do not notice; else 0.

    `functions` are those of the module, by name: tensors are followed into calls.
    """
    wanted: set[float] = set()
    values: list[Value] = [empty.result]
    seen: set[Value] = set()
    while values:
        value = values.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            wanted.update(_wanted(use, value is empty.result))
            values += _still_undefined(use, functions)
    if len(wanted) > 1:
        raise LinalgError(f"cannot compile 'tensor.empty': inits of different ops, {sorted(wanted)}", empty.location)
    return wanted.pop() if wanted else 0.0


def _wanted(use: OpOperand, is_whole: bool) -> list[float]:
    """`is_whole`: the operand is the empty tensor itself, which topk leaves out."""
    op = as_structured(use.owner)
    number = -1 if op is None else use.index - len(op.inputs)
    if op is None or number < 0:
        return []
    if op.operation.name == "linalg_ext.softmax" and number in _SOFTMAX_NEUTRAL:
        return [_SOFTMAX_NEUTRAL[number]]
    if op.operation.name == "linalg_ext.topk" and number == 0 and not is_whole:
        raise LinalgError("cannot compile 'linalg_ext.topk' with parts of an empty tensor", op.operation.location)
    if op.operation.name == "linalg_ext.scan" and number == 1:
        opcode = combiner_of(op.body)
        if opcode is None:
            raise LinalgError("cannot compile 'linalg_ext.scan' with an empty accumulator", op.operation.location)
        return [neutral_element(opcode, op.body.arguments[0].type)]
    return []


_VIEWS = frozenset({"tensor.extract_slice", "tensor.cast", "tensor.expand_shape", "tensor.collapse_shape"})


def _still_undefined(use: OpOperand, functions: Mapping[str, Operation]) -> list[Value]:
    """Returns values that have elements of the used one."""
    op = use.owner
    if op.name == "func.call":
        return _behind_call(use, functions)
    if op.name in _VIEWS or (op.name == "tensor.insert_slice" and use.index == 1):
        return list(op.results)
    if op.name == "scf.for" and use.index >= 3:
        return [op.results[use.index - 3], op.body.arguments[use.index - 2]]
    if op.name == "scf.forall":
        number = len(op.results) - len(op.operands) + use.index
        return [op.results[number], op.body.arguments[number - len(op.results)]] if number >= 0 else []
    parent = op.parent_op
    if op.name == "scf.yield" and parent is not None and parent.name in ("scf.for", "scf.if"):
        inside = [parent.body.arguments[use.index + 1]] if parent.name == "scf.for" else []
        return [parent.results[use.index], *inside]
    return []


def _behind_call(use: OpOperand, functions: Mapping[str, Operation]) -> list[Value]:
    """Returns the argument of the function, and the results that it returns just as they came."""
    callee = use.owner.attributes["callee"]
    function = functions.get(callee.name) if isinstance(callee, SymbolRefAttr) else None
    if function is None or not function.regions or len(function.regions[0].blocks) != 1:
        return []
    argument = function.body.arguments[use.index]
    returned = [u.index for u in argument.uses if u.owner.name == "func.return"]
    return [argument, *(use.owner.results[number] for number in returned)]
