"""The verifier: values are defined before they are used, operands fit their rows, structured ops their shapes."""

from __future__ import annotations

from xjit.linalg_ext.dialects.registry import definition_of, has_trait
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.ir.ranges import number_out_of_range
from xjit.linalg_ext.structured import as_structured, verify_structured

__all__ = ["verify"]


def verify(module: Operation) -> None:
    """Raises LinalgVerifyError, with the operation's place, for the first rule that does not hold."""
    _verify_operation(module, set(module.operands))


def _verify_block(block: Block, outside: set[Value], one_of_several: bool) -> None:
    """`outside` holds the values that the block may use; of several blocks, any value of the region is let pass."""
    added: list[Value] = [*block.arguments]
    if one_of_several and block.region is not None:
        added += [v for each in block.region.blocks for op in each.operations for v in op.results]
        added += [a for each in block.region.blocks for a in each.arguments]
    added = [value for value in added if value not in outside]
    outside.update(added)
    for op in block.operations:
        _verify_operation(op, outside)
        new = [result for result in op.results if result not in outside]
        outside.update(new)
        added += new
    outside.difference_update(added)


def _verify_operation(op: Operation, visible: set[Value]) -> None:
    for value in op.operands:
        if value not in visible:
            raise LinalgVerifyError(f"operand of '{op.name}' op is not defined before it is used", op.location)
    _verify_numbers(op)
    definition = definition_of(op.name)
    if definition is not None:
        definition.verify(op)
        if "terminator" in definition.traits and op.block is not None and op.block.last is not op:
            raise LinalgVerifyError(f"'{op.name}' op must be the last one of its block", op.location)
    structured = as_structured(op)
    if structured is not None:
        verify_structured(structured)
    isolated = has_trait(op, "isolated")
    for region in op.regions:
        for block in region.blocks:
            _verify_block(block, set() if isolated else visible, len(region.blocks) > 1)


def _verify_numbers(op: Operation) -> None:
    """Passes multiply sizes: no product is larger than what a text can say."""
    arguments = (a.type for region in op.regions for block in region.blocks for a in block.arguments)
    for part in (*op.result_types, *arguments, *op.attributes.values()):
        number = number_out_of_range(part)
        if number is not None:
            raise LinalgVerifyError(
                f"'{op.name}' op needs the number {number}, which is too large for {part}", op.location
            )
