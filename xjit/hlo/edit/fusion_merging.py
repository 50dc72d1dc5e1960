"""Growing fusions: merging a fusion into another, and fusions (or calls) with several outputs.

The fusion stays the same instruction. Values that both sides read become one parameter. What was merged and is not
read any more is removed from the computation around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.fusion import (
    append_clone,
    callee_of,
    fuse_instruction_into,
    parameter_for,
    remove_if_unused,
    substitute_operand,
)
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.hlo.ir.paths import instruction_between
from xjit.hlo.ir.use_def import replace_users_operand
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def fuse_instruction_into_multi_output(fusion: HloInstruction, other: HloInstruction) -> HloInstruction:
    """Clones `other`, an operand or a sibling, into a fusion as a further output; returns the clone.

    Readers of `other` read that output from now on. Errors: InvalidArgument if `other` is a fusion itself, or if it
    and the fusion depend on each other otherwise than by being its operand.
    """
    if other.opcode == "fusion":
        raise InvalidArgument(f"{other.name} is a fusion: use merge_fusion_instruction_into_multi_output")
    _check_no_cycle(fusion, [other])
    clone = append_clone(fusion, other)
    substitute_operand(fusion, other, clone)
    first = _append_outputs(fusion, [clone])
    _read_output(fusion, other, first)
    remove_if_unused(other)
    return clone


def append_instruction_into_called_computation(
    caller: HloInstruction, other: HloInstruction, add_output: bool = False
) -> HloInstruction:
    """Clones an instruction into what a fusion or call calls; returns the clone.

    With `add_output` it is a further output, else it must be an operand of the caller.
    """
    return fuse_instruction_into_multi_output(caller, other) if add_output else fuse_instruction_into(caller, other)


def merge_fusion_instruction(fusion: HloInstruction, producer: HloInstruction) -> None:
    """Inlines a fusion that `fusion` reads into it; the producer goes if nothing else reads it.

    Elements of a producer with several outputs may be operands, too. Errors: InvalidArgument if the producer is not a
    fusion or not read.
    """
    if producer.opcode != "fusion":
        raise InvalidArgument(f"{producer.name} is a {producer.opcode}, not a fusion: use fuse_instruction")
    readers = _outputs_outside(producer)
    if not any(fusion.is_user_of(reader) for reader in readers):
        raise InvalidArgument(f"{fusion.name} does not read {producer.name}")
    clones = _inline(fusion, producer)
    for reader, index in readers.items():
        substitute_operand(fusion, reader, _element(fusion, clones, producer, index))
    unread = clones[producer.fused_expression_root]
    for reader in reversed(readers):
        remove_if_unused(reader)
    if unread.is_dead():  # the tuple of a producer of which single elements were read
        computation = callee_of(fusion)
        computation.remove_instruction_and_unused_operands(unread)
        if fusion.opcode == "fusion":
            computation.remove_unused_parameters_from_fused_computation()


def merge_fusion_instruction_into_multi_output(fusion: HloInstruction, other: HloInstruction) -> None:
    """Inlines a fusion, a producer or a sibling, into `fusion`; all its outputs become outputs, and it is removed.

    Errors: InvalidArgument if `other` is not a fusion, or if the two depend on each other otherwise than by `fusion`
    reading outputs of `other`.
    """
    if other.opcode != "fusion" or other is fusion:
        raise InvalidArgument(f"{other.name} is not another fusion")
    readers = _outputs_outside(other)
    _check_no_cycle(fusion, list(readers))
    clones = _inline(fusion, other)
    root = clones[other.fused_expression_root]
    tupled = root.opcode == "tuple"
    outputs = list(root.operands) if tupled else [root]
    for reader, index in readers.items():
        substitute_operand(fusion, reader, _element(fusion, clones, other, index))
    first = _append_outputs(fusion, outputs)
    for reader, index in readers.items():
        if index is not None:
            _read_output(fusion, reader, first + index)
    if tupled and (other.users or other.is_root()):
        _replace_tuple(fusion, other, first, len(outputs))
    elif not tupled:
        _read_output(fusion, other, first)
    for reader in reversed(readers):
        remove_if_unused(reader)
    if tupled and root.is_dead():
        callee_of(fusion).remove_instruction(root)


def _outputs_outside(fusion: HloInstruction) -> dict[HloInstruction, int | None]:
    """The fusion (index None) and the get-tuple-elements of it, with their index."""
    readers: dict[HloInstruction, int | None] = {fusion: None}
    if fusion.is_multi_output_fusion():
        readers.update(
            (user, int(user.attributes_as(at.GetTupleElementAttributes).index))
            for user in fusion.users
            if user.opcode == "get-tuple-element"
        )
    return readers


def _element(
    fusion: HloInstruction, clones: dict[HloInstruction, HloInstruction], source: HloInstruction, index: int | None
) -> HloInstruction:
    """What stands inside `fusion` for an output of the inlined fusion `source`."""
    root = source.fused_expression_root
    return clones[root] if index is None else clones[root.operand(index)]


def _inline(fusion: HloInstruction, source: HloInstruction) -> dict[HloInstruction, HloInstruction]:
    """Clones the body of one fusion into another; returns what became what."""
    computation = callee_of(fusion)
    clones: dict[HloInstruction, HloInstruction] = {}
    for old in callee_of(source).make_instruction_post_order():
        if old.opcode == "parameter":
            clones[old] = parameter_for(
                fusion, source.operand(old.attributes_as(at.ParameterAttributes).parameter_number)
            )
        else:
            new = old.clone_with_new_operands(old.shape, [clones[o] for o in old.operands])
            clones[old] = computation.add_instruction(new)
    for old, new in clones.items():
        if old.opcode != "parameter":
            for successor in old.control_successors:
                new.add_control_dependency_to(clones[successor])
    return clones


def _append_outputs(fusion: HloInstruction, outputs: Sequence[HloInstruction]) -> int:
    """Makes values inside a fusion its last outputs; returns the index of the first of them.

    A fusion with one output gets a tuple, of which its readers read element 0. Its sharding and its origin are that
    element's then; those of a tuple do not hold for a longer one.
    """
    computation = callee_of(fusion)
    root, old_shape, sharding, origin = computation.root_instruction, fusion.shape, fusion.sharding, fusion.origin
    present = list(root.operands) if root.opcode == "tuple" else [root]
    tuple_root = fusion.create_tuple([*present, *outputs])
    computation.add_instruction(tuple_root)
    computation.set_root_instruction(tuple_root, accept_different_shape=True)
    fusion.mutable_shape = Shape.tuple_of([*_output_shapes(old_shape, root), *(o.shape for o in outputs)])
    if root.opcode == "tuple":
        others = [u for u in fusion.users if u.opcode != "get-tuple-element"]
        if others or fusion.is_root():
            _replace_tuple(fusion, fusion, 0, len(present), others)
        if root.is_dead():
            computation.remove_instruction(root)
    else:
        element = _read_output(fusion, fusion, 0)
        if element is not None:
            element.sharding, element.origin = sharding, origin
    fusion.sharding, fusion.origin = None, ""
    return len(present)


def _output_shapes(shape: Shape, root: HloInstruction) -> tuple[Shape, ...]:
    return shape.tuple_shapes if root.opcode == "tuple" else (shape,)


def _read_output(fusion: HloInstruction, old: HloInstruction, index: int) -> HloInstruction | None:
    """Lets all readers of `old` read output `index` of the fusion instead; returns that, None if there are none."""
    computation = fusion.parent
    assert computation is not None
    users, was_root = old.users, old.is_root()
    if not users and not was_root:
        return None
    element = computation.add_instruction(fusion.create_get_tuple_element(fusion, index))
    inherit_annotations(element, old, same_value=True)
    _redirect(old, users, was_root, element)
    return element


def _replace_tuple(
    fusion: HloInstruction, old: HloInstruction, first: int, count: int, users: Sequence[HloInstruction] | None = None
) -> None:
    """Lets readers of the whole tuple `old` (all, or `users` only) read a tuple of outputs of the fusion."""
    computation = fusion.parent
    assert computation is not None
    users, was_root = old.users if users is None else users, old.is_root()
    create = fusion.create_get_tuple_element
    elements = [computation.add_instruction(create(fusion, first + i)) for i in range(count)]
    _redirect(old, users, was_root, computation.add_instruction(fusion.create_tuple(elements)))


def _redirect(old: HloInstruction, users: Sequence[HloInstruction], was_root: bool, new: HloInstruction) -> None:
    replace_users_operand(old, users, new)
    if was_root and old.parent is not None:
        old.parent.set_root_instruction(new, accept_different_shape=True)


def _check_no_cycle(fusion: HloInstruction, others: Sequence[HloInstruction]) -> None:
    """Refuses what would make the fusion depend on itself: `others` need it, or it needs one of their readers."""
    if any(other is fusion or other.parent is not fusion.parent for other in others):
        raise InvalidArgument(f"{others[0].name} cannot be fused into {fusion.name}: not another instruction beside it")
    if between := instruction_between((fusion, *others)):
        raise InvalidArgument(f"{others[0].name} cannot be fused into {fusion.name}: {between.name} lies between them")
    if fusion in {n for other in others for n in (*other.operands, *other.control_predecessors)}:
        raise InvalidArgument(f"{others[0].name} cannot be fused into {fusion.name}: it reads the fusion")
