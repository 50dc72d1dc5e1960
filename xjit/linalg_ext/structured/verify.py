"""The verifier of structured ops: operands, maps, sizes, body, each with one clear error at the operation's place."""

from __future__ import annotations

from xjit.affine.expr import AffineExprKind
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import MemRefType, TensorType, element_type
from xjit.linalg_ext.structured.row import PARALLEL, REDUCTION, Access
from xjit.linalg_ext.structured.view import StructuredOp, bounds_of, shape_of

__all__ = ["verify_structured"]


_NUMBERS = {1: "one", 2: "two", 3: "three"}


def verify_structured(op: StructuredOp) -> None:
    """Raises LinalgVerifyError for the first rule that does not hold."""
    _check_counts(op)
    for kind in op.iterator_types:
        if kind not in (PARALLEL, REDUCTION):
            raise op.error(f"expected iterator types 'parallel' and 'reduction', found '{kind}'")
    if len(op.accesses) != len(op.operands):
        raise op.error(
            f"expected the number of indexing_map ({len(op.accesses)}) to be equal to the number of "
            f"input/output operands ({len(op.operands)})"
        )
    for number, (value, access) in enumerate(zip(op.operands, op.accesses)):
        _check_access(op, number, value, access)
    op.row.check(op)
    _check_sizes(op)
    _check_results(op)
    if op.row.pointwise:
        _check_body(op)


def _check_counts(op: StructuredOp) -> None:
    row = op.row
    for what, found, expected in (("input", op.inputs, row.num_inputs), ("output", op.inits, row.num_inits)):
        if expected is not None and len(found) != expected:
            raise op.error(f"expected {_NUMBERS.get(expected, expected)} {what} operands, found {len(found)}")
    for value in op.inits:
        if not isinstance(value.type, TensorType | MemRefType):
            raise op.error(f"expected a tensor or memref as output, found {value.type}")


def _check_access(op: StructuredOp, number: int, value: Value, access: Access) -> None:
    rank = len(shape_of(value))
    if len(access) != rank:
        raise op.error(
            f"expected operand rank ({rank}) to match the result rank of indexing_map #{number} ({len(access)})"
        )
    for e in access:
        if e is not None and any(d >= op.num_loops for d in e.dims):
            raise op.error(f"indexing map of operand #{number} uses more than the {op.num_loops} loops")


def _check_sizes(op: StructuredOp) -> None:
    ranges = op.loop_ranges
    for number, (value, access) in enumerate(zip(op.operands, op.accesses)):
        for axis, (e, size) in enumerate(zip(access, shape_of(value))):
            if e is None or size is None:
                continue
            bounds = bounds_of(e, ranges)
            if bounds is None or bounds.is_empty:
                continue
            needed = bounds.upper + 1
            exact = e.kind is AffineExprKind.DIM
            if bounds.lower < 0 or needed > size or (exact and needed != size):
                relation = "" if exact else "greater than or equal to "
                raise op.error(
                    f"inferred input/output operand #{number} has shape's dimension #{axis} to be {relation}{needed}, "
                    f"but found {size}"
                )


def _check_results(op: StructuredOp) -> None:
    results = op.operation.result_types
    expected = tuple(v.type for v in op.inits if isinstance(v.type, TensorType))
    if results != expected:
        found = ", ".join(map(str, results)) or "none"
        raise op.error(f"expected results of the types of the outputs ({', '.join(map(str, expected))}), found {found}")


def _check_body(op: StructuredOp) -> None:
    arguments = op.body.arguments
    operands = op.inputs if op.operation.name == "linalg.map" else op.operands
    if len(arguments) != len(operands) and len(arguments) != len(op.operands):
        raise op.error(
            "expected as many non-induction variable region arguments as the number of input/output operands"
        )
    for number, (argument, value) in enumerate(zip(arguments, operands)):
        if argument.type != element_type(value.type):
            raise op.error(
                f"expected type of bb argument #{number} ('{argument.type}') to match element or self type of the "
                f"corresponding operand ('{element_type(value.type)}')"
            )
    if op.body.last is None or not op.body.last.name.endswith(".yield"):
        raise op.error("expected a yield at the end of the body")
    for inner in op.body.operations:
        asked = inner.attributes.get("dim") if inner.name == "linalg.index" else None
        if isinstance(asked, IntegerAttr) and not 0 <= asked.value < op.num_loops:
            raise op.error(f"has {op.num_loops} loops, its body asks for the index of loop {asked.value}")
    _check_yield(op)


def _check_yield(op: StructuredOp) -> None:
    """Errors stand at the yield."""
    end = op.body.terminator
    values, expected = end.operands, [element_type(v.type) for v in op.inits]
    if len(values) != len(expected):
        raise LinalgVerifyError(
            f"'{end.name}' op expected number of yield values ({len(values)}) to match the number of inits / outs "
            f"operands of the enclosing LinalgOp ({len(expected)})",
            end.location,
        )
    for number, (value, kind) in enumerate(zip(values, expected), 1):
        if value.type != kind:
            raise LinalgVerifyError(
                f"'{end.name}' op type of yield operand {number} ('{value.type}') doesn't match the element type of "
                f"the enclosing {op.operation.name} op ('{kind}')",
                end.location,
            )
