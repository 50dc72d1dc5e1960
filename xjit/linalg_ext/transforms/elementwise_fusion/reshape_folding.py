"""Reshapes of reshapes: those that undo each other go, those of a kind become one."""

from __future__ import annotations

from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, expand_shape, groups_of

__all__ = ["fold_reshape"]

_COLLAPSE, _EXPAND = "tensor.collapse_shape", "tensor.expand_shape"


def fold_reshape(op: Operation) -> bool:
    """Replaces the result of a reshape whose operand is a reshape, if that is simpler; says if it was."""
    source = op.operands[0].defining_op
    if op.operands[0].type == op.result.type and op.result.has_uses:
        op.result.replace_all_uses_with(op.operands[0])
        return True
    if source is None or source.name not in (_COLLAPSE, _EXPAND) or not op.result.has_uses:
        return False
    original = source.operands[0]
    if source.name != op.name:
        if original.type != op.result.type or (None in shape_of(original) and groups_of(source) != groups_of(op)):
            return False
        op.result.replace_all_uses_with(original)
        return True
    outer, inner = (groups_of(op), groups_of(source))
    coarse, fine = (outer, inner) if op.name == _COLLAPSE else (inner, outer)
    groups = [tuple(axis for number in group for axis in fine[number]) for group in coarse]
    builder = Builder.before(op)
    if op.name == _COLLAPSE:
        new = collapse_shape(builder, original, groups)
    else:
        new = expand_shape(builder, original, groups, shape_of(op.result), op.operands[1:])
    op.result.replace_all_uses_with(new)
    return True
