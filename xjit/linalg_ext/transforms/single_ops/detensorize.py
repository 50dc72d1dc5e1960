"""detensorize: a structured op on tensors without dimensions as scalar code."""

from __future__ import annotations

from xjit.linalg_ext.ir import Builder, LinalgError, Operation, TensorType, Value
from xjit.linalg_ext.structured import as_structured

__all__ = ["detensorize", "detensorize_all", "is_scalar"]


def is_scalar(op: Operation) -> bool:
    """Whether an operation is a structured one without loops, on tensors."""
    view = as_structured(op)
    return view is not None and view.row.pointwise and not view.num_loops and bool(op.results)


def detensorize(op: Operation) -> list[Value]:
    """Replaces an op without loops by its body, on extracted elements; returns the new tensors of its results.

    LinalgError for other operations.
    """
    view = as_structured(op)
    if view is None:
        raise LinalgError(f"detensorize transformation should be applied on linalg op, not on '{op.name}'", op.location)
    if not is_scalar(op):
        raise LinalgError(f"failed to detensorize op: '{op.name}' op is not on tensors without dimensions", op.location)
    builder = Builder.before(op)
    body = view.body
    mapping: dict[Value, Value] = {}
    for argument, value in zip(body.arguments, view.operands):
        if argument.has_uses:
            mapping[argument] = _element(builder, value)
    for inner in body.operations[:-1]:
        builder.clone(inner, mapping)
    results = [
        builder.create("tensor.from_elements", (mapping.get(value, value),), (result.type,)).result
        for value, result in zip(view.yielded, op.results)
    ]
    op.replace_all_uses_with(results)
    op.erase()
    return list(results)


def _element(builder: Builder, value: Value) -> Value:
    if not isinstance(value.type, TensorType):
        return value
    return builder.create("tensor.extract", (value,), (value.type.element,)).result


def detensorize_all(module: Operation) -> None:
    """The pass `linalg-detensorize`: all structured ops on tensors without dimensions become scalar code."""
    for op in list(module.walk()):
        if op.block is not None and is_scalar(op):
            detensorize(op)
