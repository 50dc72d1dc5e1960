"""Operations of scripts that pass handles and parameters on, mark what they stand for, or simplify it."""

from __future__ import annotations

import sys

from xjit.linalg_ext.ir.attributes import Attribute, IntegerAttr, StringAttr, UnitAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import IntegerType
from xjit.linalg_ext.rewrite.cse import eliminate_common_subexpressions
from xjit.linalg_ext.rewrite.driver import apply_rules, erase_dead
from xjit.linalg_ext.rewrite.rules import CANONICALIZE
from xjit.linalg_ext.transform_scripts.state import Handles, Payload, Script, TransformRow
from xjit.linalg_ext.verify import verify

__all__ = ["HANDLE_ROWS"]


def annotate_ext(script: Script, op: Operation) -> Handles:
    """Gives the payload the attributes of the script's operation."""
    targets = script.payload(op)
    for target in targets:
        target.attributes.update(op.attributes)
    return [targets] if op.results else []


def annotate(script: Script, op: Operation) -> Handles:
    """Gives the payload one attribute, by name: the value of a parameter, or no value."""
    name = op.attributes.get("name")
    value: Payload = UnitAttr()
    if len(op.operands) > 1:
        parameters = script.lookup(op, 1)
        if len(parameters) != 1:
            raise LinalgError(f"'{op.name}' op expects one parameter, found {len(parameters)}", op.location)
        value = parameters[0]
    if not isinstance(value, Attribute):
        raise LinalgError(f"'{op.name}' op expects a parameter", op.location)
    for target in script.payload(op):
        target.attributes[name.value if isinstance(name, StringAttr) else ""] = value
    return []


def cleanup(script: Script, op: Operation) -> Handles:
    """Simplifies the whole program, and erases what is dead."""
    apply_rules(script.root, CANONICALIZE)
    eliminate_common_subexpressions(script.root)
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
    merged = [target for i in range(len(op.operands)) for target in script.lookup(op, i)]
    return [list(dict.fromkeys(merged)) if "deduplicate" in op.attributes else merged]


def same_payload(script: Script, op: Operation) -> Handles:
    return [script.lookup(op)]


def param_constant(script: Script, op: Operation) -> Handles:
    return [[op.attributes["value"]]]


def num_associations(script: Script, op: Operation) -> Handles:
    """A parameter: how much a handle stands for."""
    return [[IntegerAttr(len(script.lookup(op)), IntegerType(64))]]


def verify_payload(script: Script, op: Operation) -> Handles:
    """Verifies the whole program."""
    verify(script.root)
    return []


HANDLE_ROWS: tuple[TransformRow, ...] = (
    TransformRow("transform.annotate_ext", annotate_ext),
    TransformRow("transform.annotate", annotate),
    TransformRow("transform.cleanup", cleanup),
    TransformRow("transform.apply_cse", apply_cse),
    TransformRow("transform.apply_dce", apply_dce),
    TransformRow("transform.print", print_payload),
    TransformRow("transform.split_handle", split_handle),
    TransformRow("transform.merge_handles", merge_handles),
    TransformRow("transform.cast", same_payload),
    TransformRow("transform.param.constant", param_constant),
    TransformRow("transform.num_associations", num_associations),
    TransformRow("transform.verify", verify_payload),
)
