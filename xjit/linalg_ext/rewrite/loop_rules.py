"""Rules of scf: loops that run never or once, values that loops carry in vain, branches that are known."""

from __future__ import annotations

from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.rewrite.rule import Rule, replace

__all__ = ["LOOP_RULES", "inline_before"]


def inline_before(block: Block, anchor: Operation, arguments: list[Value]) -> list[Value]:
    """Moves a block's operations before `anchor`; returns what its terminator, which goes, was given."""
    for argument, value in zip(block.arguments, arguments):
        argument.replace_all_uses_with(value)
    terminator = block.terminator
    results = list(terminator.operands)
    terminator.erase()
    for op in block.operations:
        op.move_before(anchor)
    return results


def known_trips(op: Operation) -> bool:
    """A loop that does not run gives what it began with; one that runs once is its body."""
    lower, upper, step = (constant_value(v) for v in op.operands[:3])
    inits = list(op.operands[3:])
    if op.operands[0] is op.operands[1]:
        return replace(op, inits)
    if lower is None or upper is None:
        return False
    if lower >= upper:
        return replace(op, inits)
    if step is None or lower + step < upper or step <= 0:
        return False
    return replace(op, inline_before(op.body, op, [op.operands[0], *inits]))


def carried_in_vain(op: Operation) -> bool:
    """Values that no iteration changes come from outside; those that nobody reads go."""
    block = op.body
    yielded = block.terminator.operands
    keep: list[int] = []
    for i, (init, argument, result) in enumerate(zip(op.operands[3:], block.arguments[1:], op.results)):
        if yielded[i] is argument or yielded[i] is init:
            argument.replace_all_uses_with(init)
            result.replace_all_uses_with(init)
        elif argument.has_uses or result.has_uses:
            keep.append(i)
    if len(keep) == len(op.results):
        return False
    _keep_carried(op, keep)
    return True


def _keep_carried(op: Operation, keep: list[int]) -> None:
    """Replaces a loop by one that carries only some of its values."""
    assert op.block is not None
    old = op.body
    new_block = Block()
    new_block.add_argument(old.arguments[0].type)
    old.arguments[0].replace_all_uses_with(new_block.arguments[0])
    for i in keep:
        argument = new_block.add_argument(old.arguments[1 + i].type)
        old.arguments[1 + i].replace_all_uses_with(argument)
    terminator = old.terminator
    terminator.set_operands([terminator.operands[i] for i in keep])
    for inner in old.operations:
        inner.remove()
        new_block.append(inner)
    new = Operation(
        op.name,
        [*op.operands[:3], *(op.operands[3 + i] for i in keep)],
        [op.results[i].type for i in keep],
        op.attributes,
        [Region([new_block])],
        op.location,
    )
    op.block.insert_before(op, new)
    for result, i in zip(new.results, keep):
        op.results[i].replace_all_uses_with(result)
    op.erase()


def known_branch(op: Operation) -> bool:
    """A branch on a constant is the side that is taken."""
    condition = constant_value(op.operands[0])
    if condition is None:
        return False
    region = op.regions[0 if condition else 1] if len(op.regions) > 1 or condition else Region()
    if not region.blocks:
        return not op.results and replace(op, [])
    return replace(op, inline_before(region.block, op, []))


def chosen_values(op: Operation) -> bool:
    """Branches that do nothing are no branches; values from outside that they give are selected."""
    blocks = [region.block for region in op.regions if region.blocks]
    if any(len(block.operations) > 1 for block in blocks):
        return False
    if not op.results:
        return replace(op, [])
    pairs = list(zip(*(block.terminator.operands for block in blocks)))
    builder = Builder.before(op)
    return replace(
        op,
        [a if a is b else builder.create("arith.select", (op.operands[0], a, b), (a.type,)).result for a, b in pairs],
    )


LOOP_RULES: tuple[Rule, ...] = (
    Rule(("scf.for",), known_trips),
    Rule(("scf.for",), carried_in_vain),
    Rule(("scf.if",), known_branch),
    Rule(("scf.if",), chosen_values),
)
