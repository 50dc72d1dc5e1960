"""Rules of memref: sizes that are constants become part of types; buffers that nobody reads go."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.dialects.definition import SEGMENTS
from xjit.linalg_ext.dialects.registry import has_trait, operand_group
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, StridedLayoutAttr
from xjit.linalg_ext.ir.builder import Builder, constant_value
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import MemRefType
from xjit.linalg_ext.rewrite.rule import Rule, replace
from xjit.linalg_ext.rewrite.tensor_rules import mixed_list

__all__ = ["MEMREF_RULES"]

_LISTS = ("offsets", "sizes", "strides")


def constant_alloc(op: Operation) -> bool:
    """Sizes of a buffer that are constants are part of its type."""
    t = op.result.type
    if not isinstance(t, MemRefType) or t.layout is not None:
        return False
    values = iter(operand_group(op, "dynamicSizes"))
    shape: list[int | None] = []
    kept: list[Value] = []
    for size in t.shape:
        value = next(values) if size is None else None
        known = size if value is None else constant_value(value)
        if known is None or known < 0:
            assert value is not None
            kept.append(value)
            known = None
        shape.append(known)
    if shape == list(t.shape):
        return False
    symbols = operand_group(op, "symbolOperands")
    attributes = {**op.attributes, SEGMENTS: DenseArrayAttr.i32((len(kept), len(symbols)))}
    new = Builder.before(op).create(
        op.name, (*kept, *symbols), (t.with_shape(tuple(shape)),), attributes, (), op.location
    )
    return replace(op, [_cast(op, new.result)])


def constant_view(op: Operation) -> bool:
    """Offsets, sizes and strides of a view that are constants are numbers, and part of its type."""
    lists = [mixed_list(op, name) for name in _LISTS]
    numbers = [[constant_value(i) if isinstance(i, Value) else i for i in listed] for listed in lists]
    t, source = op.result.type, op.operands[0].type
    if not isinstance(t, MemRefType) or not isinstance(source, MemRefType) or len(numbers[1]) != t.rank:
        return False
    if all(i is n for listed, found in zip(lists, numbers) for i, n in zip(listed, found) if n is not None):
        return False
    kept = [[i for i, n in zip(*each) if n is None and isinstance(i, Value)] for each in zip(lists, numbers)]
    attributes = {
        **op.attributes,
        **{f"static_{n}": DenseArrayAttr.i64(DYNAMIC if i is None else i for i in v) for n, v in zip(_LISTS, numbers)},
        SEGMENTS: DenseArrayAttr.i32((1, *map(len, kept))),
    }
    shape = tuple(old if n is None else n for n, old in zip(numbers[1], t.shape))
    refined = MemRefType(shape, t.element, _layout(source, numbers) or t.layout, t.memory_space)
    operands = (op.operands[0], *(v for values in kept for v in values))
    new = Builder.before(op).create(op.name, operands, (refined,), attributes, (), op.location)
    return replace(op, [_cast(op, new.result)])


def _layout(source: MemRefType, numbers: Sequence[Sequence[int | None]]) -> StridedLayoutAttr | None:
    """The layout of a view of a row-major or strided buffer."""
    if isinstance(source.layout, StridedLayoutAttr):
        strides, offset = list(source.layout.strides), source.layout.offset
    elif source.layout is None:
        strides, offset, step = [], 0, 1
        for size in reversed(source.shape):
            strides.insert(0, step)
            step = None if step is None or size is None else step * size
    else:
        return None
    steps: list[int | None] = []
    for at, stride, step in zip(numbers[0], strides, numbers[2]):
        offset = None if offset is None or at is None or stride is None else offset + at * stride
        steps.append(None if stride is None or step is None else stride * step)
    return StridedLayoutAttr(tuple(steps), offset)


def _cast(op: Operation, value: Value) -> Value:
    t = op.result.type
    return value if value.type == t else Builder.before(op).create("memref.cast", (value,), (t,)).result


def unread_buffer(op: Operation) -> bool:
    """A buffer that is only given back."""
    users = {use.owner for use in op.result.uses}
    if not users or any(user.name != "memref.dealloc" for user in users):
        return False
    for user in users:
        user.erase()
    op.erase()
    return True


def view_of_all(op: Operation) -> bool:
    """A view of all of a buffer is the buffer."""
    t, source = op.result.type, op.operands[0].type
    if not isinstance(t, MemRefType) or not isinstance(source, MemRefType) or None in source.shape:
        return False
    offsets, sizes, strides = (mixed_list(op, name) for name in _LISTS)
    whole = not any(offsets) and sizes == list(source.shape) == list(t.shape) and all(s == 1 for s in strides)
    return whole and replace(op, [_cast(op, op.operands[0])])


def structured_of_what_was_cast(op: Operation) -> bool:
    """A structured op takes a buffer whose layout a cast forgets."""
    return has_trait(op, "structured") and of_what_was_cast(op)


def of_what_was_cast(op: Operation) -> bool:
    """What reads, writes or asks a memref takes one of another type as well."""
    changed = False
    for number, value in enumerate(op.operands):
        cast = value.defining_op
        if cast is not None and cast.name == "memref.cast" and isinstance(cast.operands[0].type, MemRefType):
            op.set_operand(number, cast.operands[0])
            changed = True
    return changed


def cast_twice(op: Operation) -> bool:
    """A cast of a cast is one; one to the same type is none."""
    if op.operands[0].type == op.result.type:
        return replace(op, [op.operands[0]])
    inner = op.operands[0].defining_op
    if inner is None or inner.name != op.name or not isinstance(inner.operands[0].type, MemRefType):
        return False
    op.set_operand(0, inner.operands[0])
    return True


_USERS = ("load", "store", "copy", "dealloc", "dim", "rank", "prefetch", "atomic_rmw")

MEMREF_RULES: tuple[Rule, ...] = (
    Rule(("memref.alloc", "memref.alloca"), constant_alloc),
    Rule(("memref.subview",), constant_view),
    Rule(("memref.subview",), view_of_all),
    Rule(("memref.alloc",), unread_buffer),
    Rule(tuple(f"memref.{name}" for name in _USERS), of_what_was_cast),
    Rule(("",), structured_of_what_was_cast),
    Rule(("memref.cast",), cast_twice),
)
