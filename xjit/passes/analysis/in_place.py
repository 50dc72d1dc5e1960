"""Which operand buffer an instruction may overwrite with its result while it still reads it.

That is safe when element i of the operand is read only to compute element i of the result, or when the instruction
updates its operand in place (dynamic-update-slice, scatter). The emitters rely on nothing else: they compare the
slices of operand and result.
"""

from __future__ import annotations

from functools import cache

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.custom_call_registry import registered_targets
from xjit.indexing.operand_reads import reads_of
from xjit.ops.custom_call_targets import operand_aliases
from xjit.ops.lapack_targets import LAPACK_TARGETS

_KEEPS_SUMS = frozenset({"dot", "convolution"})
"""Opcodes that keep partial sums in a result of their fusion, if it is no operand's buffer; else in scratch memory,
which is slower.
"""


@dataclass(frozen=True, slots=True)
class InPlacePair:
    """Leaf `operand_leaf` of operand `operand` may share its buffer with leaf `result_leaf` of the result."""

    operand: int
    operand_leaf: int = 0
    result_leaf: int = 0


_at_operand = cache(InPlacePair)
"""The pair of an operand and a result that are arrays: there are few of them, and they are asked for all the time."""


def in_place_pairs(instruction: HloInstruction) -> tuple[InPlacePair, ...]:
    """Returns the operands that the instruction may overwrite; candidates for updating in place come first."""
    opcode = instruction.opcode
    if opcode == "dynamic-update-slice":
        return (_at_operand(0),)
    if opcode == "scatter":
        return tuple(InPlacePair(i, 0, i) for i in range(instruction.operand_count // 2))
    if opcode == "fusion":
        return _fusion_pairs(instruction)
    if opcode == "custom-call":
        return _lapack_pairs(instruction) or _declared_pairs(instruction)
    if not instruction.op.has(Trait.ELEMENTWISE) or not instruction.shape.is_array:
        return ()
    shape = instruction.shape
    return tuple([_at_operand(i) for i, o in enumerate(instruction.operands) if same_positions(o.shape, shape)])


def _declared_pairs(call: HloInstruction) -> tuple[InPlacePair, ...]:
    """Operands that a registered function overwrites, as `output_to_operand_aliasing` says."""
    attributes = call.attributes_as(at.CustomCallAttributes)
    if not attributes.output_to_operand_aliasing or attributes.custom_call_target not in registered_targets():
        return ()
    leaves = [leaf for _, leaf in call.shape.leaves()]
    return tuple(
        InPlacePair(operand, 0, result)
        for operand, result in operand_aliases(call).items()
        if same_positions(call.operand(operand).shape, leaves[result])
    )


def _lapack_pairs(call: HloInstruction) -> tuple[InPlacePair, ...]:
    """Operands that LAPACK overwrites: matrix i of the operand is read only to compute matrix i of the result."""
    row = LAPACK_TARGETS.get(call.attributes_as(at.CustomCallAttributes).custom_call_target)
    if row is None or call.operand_count != len(row.operands):
        return ()
    places = {array.name: i for i, array in enumerate(row.results)}
    leaves = [leaf for _, leaf in call.shape.leaves()]
    return tuple(
        InPlacePair(i, 0, places[array.name])
        for i, array in enumerate(row.operands)
        if array.name in places
        and len(leaves) == len(row.results)
        and same_positions(call.operand(i).shape, leaves[places[array.name]])
    )


def updates_in_place(instruction: HloInstruction) -> bool:
    """Whether the instruction writes only a part of its result if that shares the buffer of operand 0."""
    if instruction.opcode in ("dynamic-update-slice", "scatter"):
        return True
    return instruction.opcode == "fusion" and _root_update(instruction.fused_instructions_computation) is not None


def same_positions(a: Shape, b: Shape) -> bool:
    """Whether element i of two arrays lies at the same bytes: dimensions, layout and element width agree."""
    return (
        a.is_array
        and b.is_array
        and a.dimensions == b.dimensions
        and (a.layout is b.layout or a.layout == b.layout)
        and a.element_type.byte_width == b.element_type.byte_width
    )


def _is_plain_row_major(shape: Shape) -> bool:
    return shape.is_array and (shape.layout is None or (shape.layout.is_row_major() and not shape.layout.tiles))


def _fusion_pairs(fusion: HloInstruction) -> tuple[InPlacePair, ...]:
    computation = fusion.fused_instructions_computation
    if not fusion.shape.is_array:
        return _loop_pairs(fusion, computation)
    update = _root_update(computation)
    if update is not None:
        target = _skip_bitcasts(update.operand(0))
        if target.opcode != "parameter" or not _only_updated(target, update):
            return ()
        return (InPlacePair(target.attributes_as(at.ParameterAttributes).parameter_number),)
    candidates = [
        (i, p)
        for i, p in enumerate(computation.parameter_instructions)
        if _may_lie_at_same_place(p.shape, fusion.shape)
    ]
    if candidates and any(i.opcode in _KEEPS_SUMS for i in computation.instructions):
        candidates = [(i, p) for i, p in candidates if _is_state(fusion.operand(i))]
    linear = _linear_identities(computation) if candidates else set()
    return tuple([_at_operand(i) for i, p in candidates if p in linear])


def _loop_pairs(fusion: HloInstruction, computation: HloComputation) -> tuple[InPlacePair, ...]:
    """Pairs of a loop with several results: all elements with one index are computed before any of them is stored."""
    shapes = fusion.shape.tuple_shapes
    is_loop = fusion.attributes_as(at.FusionAttributes).kind == "kLoop"
    if not is_loop or any(s.dimensions != shapes[0].dimensions or s.layout != shapes[0].layout for s in shapes):
        return ()
    linear = _linear_identities(computation)
    return tuple(
        InPlacePair(i, 0, leaf)
        for i, p in enumerate(computation.parameter_instructions)
        for leaf, shape in enumerate(shapes)
        if p in linear and same_positions(p.shape, shape)
    )


def _may_lie_at_same_place(a: Shape, b: Shape) -> bool:
    """Whether element i of two arrays, in row-major order, lies at the same bytes, if there are as many."""
    if not a.is_array or a.element_type.byte_width != b.element_type.byte_width or a.num_elements != b.num_elements:
        return False
    return same_positions(a, b) or (_is_plain_row_major(a) and _is_plain_row_major(b))


def _is_state(operand: HloInstruction) -> bool:
    """Whether an operand is a parameter, or a part of one: overwriting it may save a copy of what a loop carries."""
    return operand.opcode in ("parameter", "get-tuple-element")


def _linear_identities(computation: HloComputation) -> set[HloInstruction]:
    """Returns the instructions of which element i is read only to compute element i of the root, or of all roots.

    Element i means the i-th in row-major order: reshapes and bitcasts may stand between, if all layouts are row-major.
    Several roots are of equal dimensions.
    """
    found: set[HloInstruction] = {computation.root_instruction}
    for instruction in reversed(computation.make_instruction_post_order()):
        users = instruction.users
        if not users or instruction in found or not found.issuperset(users) or not instruction.shape.is_array:
            continue
        for user in users:
            if not _keeps_position(instruction, user):
                break
        else:
            found.add(instruction)
    return found


def _keeps_position(operand: HloInstruction, user: HloInstruction) -> bool:
    """Whether every read of `operand` by `user` is of the element with the result's index, or the result's number."""
    if user.op.has(Trait.ELEMENTWISE) and operand.shape.dimensions == user.shape.dimensions:
        return True  # needs no maps
    if user.opcode == "tuple":  # the results of a fusion
        return True
    how = [read for o, read in zip(user.operands, reads_of(user), strict=True) if o is operand]
    if all(read.is_identity for read in how):
        return True
    same_width = operand.shape.element_type.byte_width == user.shape.element_type.byte_width
    plain = _is_plain_row_major(operand.shape) and _is_plain_row_major(user.shape)
    return same_width and plain and all(read.keeps_number for read in how)


def _skip_bitcasts(instruction: HloInstruction) -> HloInstruction:
    while instruction.opcode == "bitcast":
        instruction = instruction.operand(0)
    return instruction


def _root_update(computation: HloComputation) -> HloInstruction | None:
    root = _skip_bitcasts(computation.root_instruction)
    return root if root.opcode in ("dynamic-update-slice", "scatter") else None


def _only_updated(target: HloInstruction, update: HloInstruction) -> bool:
    """Whether, besides being updated, the target is read at most at the very elements that are being overwritten."""
    views = [target]
    while views:
        view = views.pop()
        for user in view.users:
            if user is update:
                allowed = update.operands.count(view) == 1
            elif user.opcode == "bitcast":
                allowed = user.user_count == 1
                views.append(user)
            else:
                allowed = view is update.operand(0) and _reads_what_is_overwritten(user, update)
            if not allowed:
                return False
    return True


_PARTS = frozenset({"dynamic-slice", "gather", "slice"})


def parts_read_elsewhere(update: HloInstruction) -> set[HloInstruction]:
    """Returns what reads a smaller part of the array that a dynamic-update-slice changes, at another place than the
    update's: computed while the update is stored, they would keep it from being in place.
    """
    target = update.operand(0)
    found: set[HloInstruction] = set()
    views = [_skip_bitcasts(target)]
    while views:
        view = views.pop()
        for user in view.users:
            if user.opcode == "bitcast":
                views.append(user)
                continue
            is_part = 2 * user.shape.num_elements <= target.shape.num_elements if user.opcode in _PARTS else False
            in_place = view is target and _reads_what_is_overwritten(user, update)
            if is_part and not in_place and user.operand(0) is view:
                found.add(user)
    return found


def _reads_what_is_overwritten(user: HloInstruction, update: HloInstruction) -> bool:
    """Whether a reader of the target is a slice at the place of the update, of which it computes element by element."""
    if (user.opcode, update.opcode) != ("dynamic-slice", "dynamic-update-slice"):
        return False
    if user.operands[1:] != update.operands[2:]:
        return False
    same_size = user.shape.dimensions == update.operand(1).shape.dimensions
    return same_size and _reaches_identically(user, update.operand(1), update)


def _reaches_identically(source: HloInstruction, sink: HloInstruction, update: HloInstruction) -> bool:
    """Whether element i of `source` is read only on the way to element i of `sink`, the update operand."""
    stack, seen = [source], {source}
    while stack:
        instruction = stack.pop()
        for user in instruction.users:
            if user is update:
                if instruction is not sink or update.operands.count(instruction) != 1:
                    return False
            elif not _keeps_position(instruction, user):
                return False
            elif user not in seen:
                seen.add(user)
                stack.append(user)
    return True
