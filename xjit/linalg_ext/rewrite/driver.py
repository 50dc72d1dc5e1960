"""The greedy driver: rules are tried on all operations until none applies; what is dead goes, constants are shared."""

from __future__ import annotations

from collections.abc import Iterable

from xjit.affine import IndexingBudgetError
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import Attribute
from xjit.linalg_ext.ir.operation import Block, Operation
from xjit.linalg_ext.ir.types import Type
from xjit.linalg_ext.rewrite.effects import is_dead
from xjit.linalg_ext.rewrite.rule import Rule

__all__ = ["RuleTable", "apply_rules", "erase_dead", "share_constants"]

MAX_ROUNDS = 32


class RuleTable:
    """Rules by the name of the operation; those for "" are tried on all."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_name: dict[str, list[Rule]] = {}
        for rule in rules:
            for name in rule.names:
                self._by_name.setdefault(name, []).append(rule)

    def of(self, name: str) -> list[Rule]:
        return [*self._by_name.get(name, ()), *self._by_name.get("", ())]


def apply_rules(root: Operation, rules: RuleTable) -> bool:
    """Rewrites what is inside `root`; returns whether anything has changed."""
    changed = False
    for _ in range(MAX_ROUNDS):
        again = erase_dead(root)
        again |= share_constants(root)
        for region in root.regions:
            for block in region.blocks:
                again |= _rewrite_block(block, rules)
        if not again:
            break
        changed = True
    return changed


def _rewrite_block(block: Block, rules: RuleTable) -> bool:
    """Tries the rules on the operations that the block has now, and on what is inside those that stay."""
    changed = False
    for op in block.operations:
        if op.block is not block or not _rewrite(op, rules):
            for inner in _blocks_inside(op) if op.block is block else ():
                changed |= _rewrite_block(inner, rules)
        else:
            changed = True
    return changed


def _blocks_inside(op: Operation) -> list[Block]:
    return [block for region in op.regions for block in region.blocks]


def _rewrite(op: Operation, rules: RuleTable) -> bool:
    """Tries the rules on an operation; index arithmetic whose numbers outgrow 64 bits stays as it is."""
    try:
        return any(rule.rewrite(op) for rule in rules.of(op.name))
    except IndexingBudgetError:
        return False


def erase_dead(root: Operation) -> bool:
    """Erases what nobody needs, users before what they use."""
    changed = False
    for region in root.regions:
        for block in region.blocks:
            for op in reversed(block.operations):
                if is_dead(op):
                    op.erase()
                    changed = True
                else:
                    changed |= erase_dead(op)
    return changed


def share_constants(root: Operation) -> bool:
    """Moves constants to the start of the isolated operation around them, each once."""
    changed = False
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                if has_trait(op, "isolated"):
                    changed |= _share_constants_inside(op) if op.name == "func.func" else share_constants(op)
    return changed


def _share_constants_inside(func: Operation) -> bool:
    if not func.regions[0].blocks:
        return False
    entry = func.regions[0].blocks[0]
    known: dict[tuple[Attribute, Type], Operation] = {}
    changed = False
    leading = True
    last: Operation | None = None
    for op in list(func.walk()):
        if op.name != "arith.constant":
            leading = leading and op is func
            continue
        key = (op.attributes["value"], op.result.type)
        first = known.setdefault(key, op)
        if first is not op and len(op.attributes) == 1:
            op.replace_all_uses_with(first.results)
            op.erase()
            changed = True
        elif first is op:
            if not leading:
                op.remove()
                entry.insert(0, op) if last is None else entry.insert_after(last, op)
                changed = True
            last = op
    return changed
