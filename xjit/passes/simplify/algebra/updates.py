"""Dynamic slices and updates."""

from __future__ import annotations

from itertools import pairwise

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import PaddingDimension, SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.kinds import is_float, is_integer
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.slices import cut


def _starts(instruction: HloInstruction, first: int) -> list[int] | None:
    """Returns the clamped start indices if they are constants; index operands begin at `first`."""
    sizes = instruction.operand(0).shape.dimensions
    taken = instruction.shape.dimensions if first == 1 else instruction.operand(1).shape.dimensions
    if instruction.operand_count != first + len(sizes):
        return None  # one array of indices
    values = [value_of(i) for i in instruction.operands[first:]]
    if any(v is None for v in values):
        return None
    return [min(max(int(v), 0), n - t) for v, n, t in zip(values, sizes, taken, strict=True)]


def _takes_all(slice_: HloInstruction) -> bool:
    return slice_.operand(0).shape.same_dimensions(slice_.shape)


def _updates_all(update: HloInstruction) -> bool:
    return update.operand(1).shape.same_dimensions(update.shape)


def _operand(number: int, match: Match) -> HloInstruction:
    return match.root.operand(number)


def _static(match: Match, into: Expansion) -> HloInstruction | None:
    starts = _starts(match.root, 1)
    if starts is None:
        return None
    sizes = match.root.shape.dimensions
    return cut(into, match.root.operand(0), [SliceDimension(s, s + n) for s, n in zip(starts, sizes, strict=True)])


def _of_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    """dynamic-slice(broadcast(x)): the dimensions that x has, taken of x."""
    root, broadcast = match.root, match.root.operand(0)
    if broadcast.opcode != "broadcast" or root.operand_count != 1 + root.shape.rank:
        return None
    x, dimensions = broadcast.operand(0), dimensions_of(broadcast)
    part = x
    if dimensions:
        sizes = at.DynamicSliceAttributes(tuple(root.shape.dimensions[d] for d in dimensions))
        part = into.make("dynamic-slice", x, *[root.operand(1 + d) for d in dimensions], attributes=sizes)
    return into.like_source("broadcast", [part], at.DimensionsAttributes(dimensions))


def _of_numbers(match: Match, into: Expansion) -> HloInstruction | None:
    """One element of a line of numbers with equal steps is the clamped index, scaled and moved."""
    root, line = match.root, match.root.operand(0)
    steps = _steps(line) if line.shape.rank == 1 and root.shape.dimensions == (1,) else None
    if steps is None or not root.operand(1).shape.is_scalar:
        return None
    index, kind = root.operand(1), root.shape.element_type
    last = line.shape.dimensions[0] - 1
    bits = min(kind.bit_width, index.shape.element_type.bit_width)
    if not (is_integer(root) and is_integer(index)) or last >= 1 << (bits - 1):
        return None
    first, step = steps
    inside = into.make("clamp", into.full(index.shape, 0), index, into.full(index.shape, last))
    number = into.make("convert", inside, shape=index.shape.with_element_type(kind))
    if isinstance(step, HloInstruction):
        number = into.make("multiply", number, step)
    elif step != 1:
        number = into.make("multiply", number, into.full(number.shape, step))
    if first:
        number = into.make("add", number, into.full(number.shape, first))
    return into.like_source("reshape", [number])


def _steps(line: HloInstruction) -> tuple[int, int | HloInstruction] | None:
    """Returns the first of some numbers and the step between them, a number or a scalar: of an iota, of an iota
    times a scalar, and of integer constants.
    """
    if line.opcode == "iota":
        return 0, 1
    if line.opcode == "multiply":
        scalars = [o.operand(0) for o in line.operands if o.opcode == "broadcast" and o.operand(0).shape.is_scalar]
        scaled = len(scalars) == 1 and any(o.opcode == "iota" for o in line.operands)
        return (0, scalars[0]) if scaled else None
    if line.opcode != "constant" or not is_integer(line) or line.shape.num_elements < 2:
        return None
    numbers = [int(n) for n in line.attributes_as(at.ConstantAttributes).literal.array]
    step = numbers[1] - numbers[0]
    same = step > 0 and all(b - a == step for a, b in pairwise(numbers))
    return (numbers[0], step) if same else None


def _of_reshape(match: Match, into: Expansion) -> HloInstruction | None:
    """dynamic-slice(reshape(x)) where the reshape only adds and drops dimensions of size 1."""
    root, x = match.root, match.root.operand(0).operand(0)
    before, after = x.shape.dimensions, root.operand(0).shape.dimensions
    wide = [d for d, n in enumerate(before) if n != 1]
    kept = [d for d, n in enumerate(after) if n != 1]
    if [before[d] for d in wide] != [after[d] for d in kept] or root.operand_count != 1 + len(after) or not wide:
        return None
    source = dict(zip(wide, kept, strict=True))
    zero = into.full(root.operand(1).shape, 0)
    starts = [root.operand(1 + source[d]) if d in source else zero for d in range(len(before))]
    sizes = tuple(root.shape.dimensions[source[d]] if d in source else 1 for d in range(len(before)))
    part = into.make("dynamic-slice", x, *starts, attributes=at.DynamicSliceAttributes(sizes))
    return into.like_source("reshape", [part])


def _puts_back(update: HloInstruction) -> bool:
    """Whether what is written was read from the same place."""
    part = update.operand(1)
    same = part.opcode == "dynamic-slice" and part.operand(0) is update.operand(0)
    return same and part.operands[1:] == update.operands[2:]


def _hides_another(update: HloInstruction) -> bool:
    """Whether an update writes all that the one before wrote."""
    before = update.operand(0)
    if before.opcode != "dynamic-update-slice" or before.user_count != 1:
        return False
    return before.operands[2:] == update.operands[2:] and before.operand(1).shape.same_dimensions(
        update.operand(1).shape
    )


def _last(match: Match, into: Expansion) -> HloInstruction:
    root = match.root
    return into.make("dynamic-update-slice", root.operand(0).operand(0), *root.operands[1:])


def _comes_from_host(update: HloInstruction) -> bool:
    """Whether an update is annotated to lie in the host's memory, where the whole array must lie, too."""
    while update.opcode in ("reshape", "bitcast", "copy"):
        update = update.operand(0)
    return update.opcode == "custom-call" and (
        update.attributes_as(at.CustomCallAttributes).custom_call_target == "MoveToHost"
    )


def _is_one_value(x: HloInstruction) -> bool:
    """Whether an array is one scalar everywhere."""
    return x.opcode == "broadcast" and x.operand(0).shape.is_scalar


def _as_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """An update, at a constant place, of an array with one value."""
    root, filler = match.root, match.root.operand(0)
    starts = _starts(root, 2)
    if (
        starts is None
        or not _is_one_value(filler)
        or not root.operand(1).shape.num_elements
        or _comes_from_host(root.operand(1))
    ):
        return None
    sizes, taken = root.shape.dimensions, root.operand(1).shape.dimensions
    padding = [PaddingDimension(s, n - t - s) for s, n, t in zip(starts, sizes, taken, strict=True)]
    return into.make("pad", root.operand(1), filler.operand(0), attributes=at.PadAttributes(tuple(padding)))


def _is_update_of_zeros(update: HloInstruction) -> bool:
    value = value_of(update.operand(0))
    return value is not None and is_zero(value, update.shape.element_type)


def _added_in_place(match: Match, into: Expansion) -> HloInstruction:
    update, y = match["update"], match["y"]
    part = update.operand(1)
    sizes = at.DynamicSliceAttributes(part.shape.dimensions)
    old = into.make("dynamic-slice", y, *update.operands[2:], attributes=sizes)
    return into.make("dynamic-update-slice", y, into.make("add", part, old), *update.operands[2:])


def _selected_in_place(match: Match, into: Expansion) -> HloInstruction | None:
    """select(p, update(x, u), x) = update(x, select(part of p, u, part of x)), and with x and the update swapped."""
    update, x, p = match["update"], match["x"], match["p"]
    if update.operand(0) is not x or update.user_count != 1:
        return None
    u, indices = update.operand(1), update.operands[2:]
    sizes = at.DynamicSliceAttributes(u.shape.dimensions)
    old = into.make("dynamic-slice", x, *indices, attributes=sizes)
    choice = into.make("dynamic-slice", p, *indices, attributes=sizes) if p.shape.rank else p
    chosen = [u, old] if match.root.operand(1) is update else [old, u]
    return into.make("dynamic-update-slice", x, into.make("select", choice, *chosen), *indices)


_DS, _DUS = m.op("dynamic-slice"), m.op("dynamic-update-slice")
_ZEROS_UPDATED = m.op("dynamic-update-slice", name="update").where(_is_update_of_zeros).one_use()

UPDATES = (
    AlgebraRule("R124", "dynamic-slice(x) of everything = x",
                _DS.where(_takes_all), lambda match, _: _operand(0, match)),
    AlgebraRule("R125", "dynamic-slice(x, constants) = slice(x)", _DS, _static,
                option="!disable_dynamic_slice_to_slice_conversion"),
    AlgebraRule("R126", "dynamic-slice(broadcast(x)) = broadcast(dynamic-slice(x))", _DS, _of_broadcast),
    AlgebraRule("R127", "dynamic-slice(numbers, i) of one element = first + step * clamp(0, i, last)",
                _DS.where(lambda i: i.operand(0).opcode in ("iota", "constant", "multiply")), _of_numbers),
    AlgebraRule("N13", "dynamic-slice(reshape(x)) = reshape(dynamic-slice(x)) around dimensions of size 1",
                _DS.where(lambda i: i.operand(0).opcode == "reshape" and i.operand(0).user_count == 1), _of_reshape),
    AlgebraRule("R128", "dynamic-update-slice(x, u) of everything = u",
                _DUS.where(_updates_all), lambda match, _: _operand(1, match)),
    AlgebraRule("R129", "dynamic-update-slice(x, nothing) = x",
                _DUS.where(lambda i: not i.operand(1).shape.num_elements), lambda match, _: _operand(0, match)),
    AlgebraRule("R130", "dynamic-update-slice(x, dynamic-slice(x, i), i) = x",
                _DUS.where(_puts_back), lambda match, _: _operand(0, match)),
    AlgebraRule("R132", "dynamic-update-slice(dynamic-update-slice(x, u, i), v, i) = dynamic-update-slice(x, v, i)",
                _DUS.where(_hides_another), _last),
    AlgebraRule("R131", "dynamic-update-slice(broadcast(c), u, constants) = pad(u, c)", _DUS, _as_pad,
                option="enable_dynamic_update_slice_to_pad_replacement"),
    AlgebraRule("R17", "add(dynamic-update-slice(0, u, i), y) = dynamic-update-slice(y, u + part of y, i)",
                m.op("add", _ZEROS_UPDATED, m.any("y")).where(is_integer), _added_in_place),
    AlgebraRule("R17x", "add(dynamic-update-slice(0, u, i), y) = dynamic-update-slice(y, u + part of y, i) of floats",
                m.op("add", _ZEROS_UPDATED, m.any("y")).where(is_float), _added_in_place, Exactness.XLA),
    AlgebraRule("N1", "select(p, dynamic-update-slice(x, u, i), x) = dynamic-update-slice(x, select(p, u, x), i)",
                m.op("select", m.any("p"), m.op("dynamic-update-slice", name="update"), m.any("x")),
                _selected_in_place),
    AlgebraRule("N1b", "select(p, x, dynamic-update-slice(x, u, i)) = dynamic-update-slice(x, select(p, x, u), i)",
                m.op("select", m.any("p"), m.any("x"), m.op("dynamic-update-slice", name="update")),
                _selected_in_place),
)  # fmt: skip
