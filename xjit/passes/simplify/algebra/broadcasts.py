"""Broadcasts, iotas and constants with one value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjit.hlo import HloInstruction, Literal, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.ops import build
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import splat
from xjit.passes.simplify.algebra.dimensions import dimensions_of, inverse, kept_dimensions
from xjit.passes.simplify.algebra.kinds import is_integer, is_real
from xjit.passes.simplify.algebra.rule import AlgebraRule, filled


def _broadcast_to(into: Expansion, x: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    return into.like_source("broadcast", [x], at.DimensionsAttributes(tuple(dimensions)))


def _reshaped(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(broadcast(x)): every dimension of x must still be one."""
    broadcast = match["broadcast"]
    if not broadcast.shape.num_elements:
        return None
    kept = kept_dimensions(broadcast.shape.dimensions, match.root.shape.dimensions)
    old = dimensions_of(broadcast)
    return _broadcast_to(into, match["x"], [kept[d] for d in old]) if all(d in kept for d in old) else None


def _transposed(match: Match, into: Expansion) -> HloInstruction | None:
    """transpose(broadcast(x)), where the dimensions of x stay in order."""
    new = inverse(dimensions_of(match.root))
    dimensions = [new[d] for d in dimensions_of(match["broadcast"])]
    return _broadcast_to(into, match["x"], dimensions) if dimensions == sorted(dimensions) else None


@m.of_shapes
def _permutes(broadcast: HloInstruction) -> bool:
    """Whether a broadcast has every dimension of its operand, in another order, and no other."""
    dimensions = dimensions_of(broadcast)
    return len(dimensions) == broadcast.shape.rank and list(dimensions) != sorted(dimensions)


def _as_transpose(match: Match, into: Expansion) -> HloInstruction:
    return into.like_source("transpose", [match["x"]], at.DimensionsAttributes(inverse(dimensions_of(match.root))))


def _reshaped_iota(match: Match, into: Expansion) -> HloInstruction | None:
    old = match["iota"]
    if not old.shape.num_elements:
        return None
    kept = kept_dimensions(old.shape.dimensions, match.root.shape.dimensions)
    dimension = kept.get(old.attributes_as(at.IotaAttributes).iota_dimension)
    return None if dimension is None else into.like_source("iota", [], at.IotaAttributes(dimension))


def _iota_size(iota: HloInstruction) -> int:
    return iota.shape.dimensions[iota.attributes_as(at.IotaAttributes).iota_dimension]


def _flat_iota(match: Match, into: Expansion) -> HloInstruction:
    shape = match.root.shape
    line = HloInstruction.create(
        "iota", Shape.array(shape.element_type, [_iota_size(match.root)]), [], at.IotaAttributes(0)
    )
    return _broadcast_to(into, into.add(line), [match.root.attributes_as(at.IotaAttributes).iota_dimension])


def _one_value(match: Match, into: Expansion) -> HloInstruction | None:
    literal = match.root.attributes_as(at.ConstantAttributes).literal
    array = literal.array
    if array.size < 2 or array.flat[0].tobytes() != array.flat[array.size - 1].tobytes():
        return None  # most are told apart by this
    value = literal.splat_value()
    return None if value is None else _broadcast_to(into, into.constant(Literal.from_array(value)), ())


def _numbers(match: Match, into: Expansion) -> HloInstruction | None:
    """0, n, 2n, ..: an iota, of integers times n."""
    root = match.root
    array = root.attributes_as(at.ConstantAttributes).literal.array
    if array.size < 2 or array[1] == array[0] or np.signbit(array.astype(np.float64)[0]):
        return None
    step = array[1] if is_integer(root) else array.dtype.type(1)
    if not (array == np.arange(array.size).astype(array.dtype) * step).all():
        return None
    line = into.add(HloInstruction.create("iota", root.shape, [], at.IotaAttributes(0)))
    return line if step == 1 else into.make("multiply", line, splat(into, step, root.shape))


def _mixed_radix(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(iota) of a line that is cut: the sum of one iota per dimension, each times what lies behind it."""
    root, behind = match.root, 1
    total: HloInstruction | None = None
    for d in reversed(range(root.shape.rank)):
        size = root.shape.dimensions[d]
        if size == 1:
            continue
        part = into.add(HloInstruction.create("iota", root.shape, [], at.IotaAttributes(d)))
        if total is None:
            total = part
        else:
            total = into.make("add", total, into.make("multiply", part, into.full(root.shape, behind)))
        behind *= size
    return total


def _source(operand: HloInstruction) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The dimensions, and the operand's sizes, of a broadcast that repeats something."""
    if operand.opcode != "broadcast" or operand.operand(0).shape.num_elements >= operand.shape.num_elements:
        return None
    return dimensions_of(operand), operand.operand(0).shape.dimensions


@m.of_shapes
def _is_of_broadcasts(instruction: HloInstruction) -> bool:
    return all(o.opcode == "broadcast" for o in instruction.operands)


def _sinks(instruction: HloInstruction) -> bool:
    """Whether all operands are broadcasts in one way, or of scalars, not all of constants; those of arrays must have
    no other user.
    """
    sources = {_source(o) for o in instruction.operands}
    if None in sources or len(sources - {((), ())}) > 1 or not instruction.is_elementwise():
        return False
    if all(o.operand(0).opcode == "constant" for o in instruction.operands):
        return False
    return all(o.operand(0).shape.is_scalar or o.user_count == 1 for o in instruction.operands)


def _sunk(match: Match, into: Expansion) -> HloInstruction:
    root = match.root
    widest = max(root.operands, key=lambda o: o.operand(0).shape.rank)
    shape = widest.operand(0).shape
    operands: list[HloInstruction] = []
    for small in (o.operand(0) for o in root.operands):
        wide = shape.with_element_type(small.shape.element_type)
        repeats = small.shape.rank < shape.rank
        operands.append(into.add(build.broadcast_scalar(small, wide)) if repeats else small)
    result = shape.with_element_type(root.shape.element_type)
    computed = into.add(HloInstruction.create(root.opcode, result, operands, root.attributes))
    return _broadcast_to(into, computed, dimensions_of(widest))


_X = m.any("x")
_BROADCAST = m.op("broadcast", _X, name="broadcast")
_NOT_SUNK = frozenset({"copy", "convert"})
_SUNK = "|".join(name for name, row in OPCODES.items() if row.has(Trait.ELEMENTWISE) and name not in _NOT_SUNK)

BROADCASTS = (
    AlgebraRule("R102b", "broadcast(x) that only permutes = transpose(x)",
                m.op("broadcast", _X).where(_permutes), _as_transpose),
    AlgebraRule("R107b", "reshape(broadcast(x)) = broadcast(x) where the dimensions of x stay whole",
                m.op("reshape", _BROADCAST), _reshaped),
    AlgebraRule("R110,R113", "transpose(broadcast(x)) = broadcast(x)", m.op("transpose", _BROADCAST), _transposed,
                option="!is_layout_sensitive"),
    AlgebraRule("R108", "reshape(iota) = iota where its dimension stays whole",
                m.op("reshape", m.op("iota", name="iota")), _reshaped_iota),
    AlgebraRule("R114", "iota of one element = 0",
                m.op("iota").where(lambda i: _iota_size(i) == 1), filled(0)),
    AlgebraRule("R114b", "iota of several dimensions = broadcast(iota)",
                m.op("iota").where(lambda i: i.shape.num_elements > _iota_size(i) > 1), _flat_iota),
    AlgebraRule("R117", "constant of one value = broadcast(scalar)",
                m.op("constant").where(lambda i: i.shape.is_array and i.shape.rank > 0), _one_value),
    AlgebraRule("N88", "constant of 0, n, 2n, .. = multiply(iota, n)",
                m.op("constant").where(lambda i: i.shape.is_array and i.shape.rank == 1 and is_real(i)), _numbers,
                option="xla_compatible_fp"),
    AlgebraRule("N89", "reshape(iota) of a line = the sum of an iota per dimension",
                m.op("reshape", m.op("iota").where(lambda i: i.shape.rank == 1 and i.shape.num_elements > 1))
                .where(is_integer), _mixed_radix, option="xla_compatible_fp"),
    AlgebraRule("R105", "op(broadcast(a), broadcast(b)) = broadcast(op(a, b))",
                m.op(_SUNK).where(_is_of_broadcasts).where(_sinks), _sunk, option="enable_sink_broadcast"),
)  # fmt: skip
