"""Operations of scripts that find operations of the program, and that do not depend on their structure."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    UnitAttr,
)
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.rewrite.cse import eliminate_common_subexpressions
from xjit.linalg_ext.rewrite.driver import apply_rules, erase_dead
from xjit.linalg_ext.rewrite.rules import CANONICALIZE
from xjit.linalg_ext.structured import as_structured
from xjit.linalg_ext.transform.state import Handles, Script, TransformRow

__all__ = ["HANDLE_ROWS"]

_LOOPS = ("scf.for", "scf.forall", "scf.parallel", "scf.while", "affine.for")
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


def match(script: Script, op: Operation) -> Handles:
    """All operations inside the payload that have one of the names, the attributes, the interface."""
    ops, wanted = op.attributes.get("ops"), op.attributes.get("op_attrs")
    interface, result_type = op.attributes.get("interface"), op.attributes.get("filter_result_type")
    names = {e.value for e in ops.elements if isinstance(e, StringAttr)} if isinstance(ops, ArrayAttr) else None
    entries = wanted.entries if isinstance(wanted, DictAttr) else ()
    found: dict[Operation, None] = {}
    for target in script.payload(op):
        for each in inside_first(target):
            if names is not None and each.name not in names:
                continue
            if any(each.attributes.get(name) != value for name, value in entries):
                continue
            if isinstance(interface, EnumAttr) and not has_interface(each, interface.value):
                continue
            if isinstance(result_type, TypeAttr) and each.result_types != (result_type.type,):
                continue
            found[each] = None
    return [list(found)]


def annotate_ext(script: Script, op: Operation) -> Handles:
    """Gives the payload the attributes of the script's operation."""
    targets = script.payload(op)
    for target in targets:
        target.attributes.update(op.attributes)
    return [targets] if op.results else []


def annotate(script: Script, op: Operation) -> Handles:
    """Gives the payload one attribute, by name, without a value."""
    name = op.attributes.get("name")
    for target in script.payload(op):
        target.attributes[name.value if isinstance(name, StringAttr) else ""] = UnitAttr()
    return []


def cleanup(script: Script, op: Operation) -> Handles:
    """Simplifies the whole program, and erases what is dead."""
    apply_rules(script.root, CANONICALIZE)
    eliminate_common_subexpressions(script.root)
    return []


def apply_patterns(script: Script, op: Operation) -> Handles:
    """Simplifies the payload: sets of patterns that a script may name all are parts of canonicalization here."""
    for target in script.payload(op):
        apply_rules(target, CANONICALIZE)
    return []


def apply_cse(script: Script, op: Operation) -> Handles:
    for target in script.payload(op):
        eliminate_common_subexpressions(target)
    return []


def apply_dce(script: Script, op: Operation) -> Handles:
    for target in script.payload(op):
        erase_dead(target)
    return []


def print_payload(script: Script, op: Operation) -> Handles:
    """Prints the payload, or the program, to the standard error stream."""
    name = op.attributes.get("name")
    title = f" {name.value} " if isinstance(name, StringAttr) else " "
    print(f"[[[ IR printer:{title}]]]", file=sys.stderr)
    for target in script.payload(op) if op.operands else [script.root]:
        print(target, file=sys.stderr)
    return []


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
    """The nearest operation around, with a name if one is given, each once."""
    name = op.attributes.get("op_name")
    found: dict[Operation, None] = {}
    for target in script.payload(op):
        around = target.ancestors()
        parent = next((p for p in around if not isinstance(name, StringAttr) or p.name == name.value), None)
        if parent is None:
            raise LinalgError(f"'{target.name}' op has no such operation around it", op.location)
        found[parent] = None
    return [list(found)]


def get_parent_for(script: Script, op: Operation) -> Handles:
    """The n-th loop around each payload operation."""
    loops = op.attributes.get("num_loops")
    number = loops.value if isinstance(loops, IntegerAttr) else 1
    found: dict[Operation, None] = {}
    for target in script.payload(op):
        around = [p for p in target.ancestors() if p.name in ("scf.for", "affine.for")]
        if len(around) < number:
            raise LinalgError(f"could not find an 'scf.for' parent of '{target.name}'", op.location)
        found[around[number - 1]] = None
    return [list(found)]


def split_handle(script: Script, op: Operation) -> Handles:
    """One handle per operation; what is too many goes to the handle that `overflow_result` names."""
    targets = script.payload(op)
    overflow = op.attributes.get("overflow_result")
    if len(targets) < len(op.results) or (len(targets) > len(op.results) and not isinstance(overflow, IntegerAttr)):
        raise LinalgError(
            f"expected to contain {len(op.results)} payload ops but it contains {len(targets)}", op.location
        )
    groups: list[list[Operation]] = [[target] for target in targets[: len(op.results)]]
    if isinstance(overflow, IntegerAttr) and 0 <= overflow.value < len(groups):
        extra = len(targets) - len(op.results)
        at = overflow.value
        groups = [[t] for t in targets[:at]] + [targets[at : at + extra + 1]] + [[t] for t in targets[at + extra + 1 :]]
    return groups


def merge_handles(script: Script, op: Operation) -> Handles:
    merged = [target for i in range(len(op.operands)) for target in script.payload(op, i)]
    return [list(dict.fromkeys(merged)) if "deduplicate" in op.attributes else merged]


def same_payload(script: Script, op: Operation) -> Handles:
    return [script.payload(op)]


def foreach(script: Script, op: Operation) -> Handles:
    """Runs the body for each payload operation; results are those of all runs."""
    found: list[list[Operation]] = [[] for _ in op.results]
    for target in script.payload(op):
        for group, handles in zip(found, script.run(script, op, [[target]])):
            group.extend(handles)
    return found


def include(script: Script, op: Operation) -> Handles:
    """Runs a named sequence."""
    name = op.attributes.get("target")
    for each in script.root.body.operations:
        same = isinstance(name, SymbolRefAttr) and each.attributes.get("sym_name") == StringAttr(name.name)
        if each.name == "transform.named_sequence" and same:
            return script.run(script, each, [script.payload(op, i) for i in range(len(op.operands))])
    raise LinalgError(f"there is no sequence {name}", op.location)


HANDLE_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.structured.match", match),
    TransformRow("transform.annotate_ext", annotate_ext),
    TransformRow("transform.annotate", annotate),
    TransformRow("transform.cleanup", cleanup),
    TransformRow("transform.apply_patterns", apply_patterns),
    TransformRow("transform.apply_cse", apply_cse),
    TransformRow("transform.apply_dce", apply_dce),
    TransformRow("transform.print", print_payload),
    TransformRow("transform.get_producer_of_operand", get_producer_of_operand),
    TransformRow("transform.get_consumers_of_result", get_consumers_of_result),
    TransformRow("transform.get_parent_op", get_parent_op),
    TransformRow("transform.loop.get_parent_for", get_parent_for),
    TransformRow("transform.split_handle", split_handle),
    TransformRow("transform.merge_handles", merge_handles),
    TransformRow("transform.cast", same_payload),
    TransformRow("transform.foreach", foreach),
    TransformRow("transform.include", include),
)
