"""Operations of scripts that look for operations of the program, or ask what an operation is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xjit.linalg_ext.dialects.attribute_kinds import MATCH_INTERFACES, PARAMETER_COMPARISONS, word_of
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import ArrayAttr, Attribute, DictAttr, IntegerAttr, StringAttr, TypeAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.structured import as_structured
from xjit.linalg_ext.transform_scripts.state import Handles, Script, TransformRow

__all__ = ["MATCH_ROWS", "inside_first"]

_LOOPS = ("scf.for", "scf.forall", "scf.parallel", "scf.while", "affine.for", "affine.parallel")
_TILABLE = ("tensor.pad", "tensor.expand_shape", "tensor.collapse_shape", "tensor.extract_slice", "tensor.insert_slice")


def inside_first(op: Operation) -> Iterator[Operation]:
    """Yields what is inside an operation, then the operation."""
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                yield from inside_first(each)
    yield op


def has_interface(op: Operation, interface: str) -> bool:
    """Whether an operation is a LinalgOp, has a TilingInterface, or is LoopLike."""
    if interface == "LoopLikeInterface":
        return op.name in _LOOPS
    if interface == "LinalgOp":
        return op.dialect == "linalg" and as_structured(op) is not None
    return has_trait(op, "structured") or op.name in _TILABLE


def _has_operand_types(op: Operation, kinds: Sequence[Attribute]) -> bool:
    """Whether the operands are of these types, or all of them of the only one."""
    wanted = [kind.type for kind in kinds if isinstance(kind, TypeAttr)]
    found = [value.type for value in op.operands]
    return found == (wanted * len(found) if len(wanted) == 1 else wanted)


def match(script: Script, op: Operation) -> Handles:
    """All operations inside the payload that have one of the names, the attributes, the interface."""
    ops, wanted = op.attributes.get("ops"), op.attributes.get("op_attrs")
    interface, result_type = op.attributes.get("interface"), op.attributes.get("filter_result_type")
    operand_types = op.attributes.get("filter_operand_types")
    kinds = operand_types.elements if isinstance(operand_types, ArrayAttr) else ()
    names = {e.value for e in ops.elements if isinstance(e, StringAttr)} if isinstance(ops, ArrayAttr) else None
    entries = wanted.entries if isinstance(wanted, DictAttr) else ()
    found: dict[Operation, None] = {}
    for target in script.payload(op):
        for each in inside_first(target):
            if names is not None and each.name not in names:
                continue
            if any(each.attributes.get(name) != value for name, value in entries):
                continue
            if interface is not None and not has_interface(each, word_of(interface, MATCH_INTERFACES)):
                continue
            if isinstance(result_type, TypeAttr) and each.result_types != (result_type.type,):
                continue
            if operand_types is not None and not _has_operand_types(each, kinds):
                continue
            found[each] = None
    return [list(found)]


def operation_name(script: Script, op: Operation) -> Handles:
    """Fails for payload with a name that is not in the list."""
    names = op.attributes.get("op_names")
    wanted = {e.value for e in names.elements if isinstance(e, StringAttr)} if isinstance(names, ArrayAttr) else set()
    for target in script.payload(op):
        if target.name not in wanted:
            raise LinalgError(f"wrong operation name: '{target.name}'", op.location)
    return []


_COMPARISONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "le": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "gt": lambda a, b: a > b,
}


def compare_parameters(script: Script, op: Operation) -> Handles:
    """Fails unless the comparison holds for each pair of integers of two parameters."""
    predicate = word_of(op.attributes.get("predicate"), PARAMETER_COMPARISONS)
    pairs = [script.lookup(op, 0), script.lookup(op, 1)]
    if len(pairs[0]) != len(pairs[1]):
        raise LinalgError(f"'{op.name}' op compares {len(pairs[0])} with {len(pairs[1])} parameters", op.location)
    compare = _COMPARISONS[predicate]
    for left, right in zip(*pairs):
        if not isinstance(left, IntegerAttr) or not isinstance(right, IntegerAttr):
            raise LinalgError(f"'{op.name}' op expects parameters that are integers", op.location)
        if not compare(left.value, right.value):
            raise LinalgError(f"expected parameter {left.value} {predicate} {right.value}", op.location)
    return []


def select(script: Script, op: Operation) -> Handles:
    """Those of the payload that have a name."""
    name = op.attributes.get("op_name")
    return [[target for target in script.payload(op) if StringAttr(target.name) == name]]


MATCH_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.structured.match", match),
    TransformRow("transform.match.operation_name", operation_name),
    TransformRow("transform.match.param.cmpi", compare_parameters),
    TransformRow("transform.select", select),
)
