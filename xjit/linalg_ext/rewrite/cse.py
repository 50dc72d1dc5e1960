"""Common subexpressions: of pure operations that compute the same, the first one serves all that it dominates."""

from __future__ import annotations

from collections.abc import Hashable

from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.rewrite.driver import erase_dead
from xjit.linalg_ext.rewrite.effects import is_pure

__all__ = ["eliminate_common_subexpressions"]


def eliminate_common_subexpressions(module: Operation) -> bool:
    """Returns whether anything has changed."""
    changed = erase_dead(module)
    for region in module.regions:
        for block in region.blocks:
            changed |= _run(block, {})
    return erase_dead(module) or changed


def _run(block: Block, known: dict[Hashable, Operation]) -> bool:
    """Runs along a block; `known` is what dominates it. Blocks of one region do not share."""
    changed = False
    known = dict(known)
    for op in block.operations:
        for region in op.regions:
            outside = {} if has_trait(op, "isolated") else known
            for inner in region.blocks:
                changed |= _run(inner, outside)
        if not op.results or not is_pure(op) or any(len(r.blocks) > 1 for r in op.regions):
            continue
        key = _key(op, {})
        first = known.setdefault(key, op)
        if first is not op:
            op.replace_all_uses_with(first.results)
            op.erase()
            changed = True
    return changed


def _key(op: Operation, local: dict[Value, int]) -> Hashable:
    """What operations that compute the same have in common; values from inside are told by their number."""
    operands = tuple(local.get(v, id(v)) for v in op.operands)
    commutes = has_trait(op, "commutative") and len(operands) == 2
    attributes = frozenset(op.attributes.items())
    blocks: list[Hashable] = []
    for region in op.regions:
        for block in region.blocks:
            for value in block.arguments:
                local[value] = -len(local) - 1
            types = tuple(a.type for a in block.arguments)
            inner: list[Hashable] = []
            for each in block.operations:
                inner.append(_key(each, local))
                for value in each.results:
                    local[value] = -len(local) - 1
            blocks.append((types, tuple(inner)))
    return (op.name, tuple(sorted(operands)) if commutes else operands, op.result_types, attributes, tuple(blocks))
