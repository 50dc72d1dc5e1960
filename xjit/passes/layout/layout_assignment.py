"""Layouts: callers see the layouts they asked for, everything in between is row-major.

Emitters read any layout through symbolic maps, so this is a choice for speed, not a need: row-major everywhere lets
reshapes be free and keeps index maps small.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloComputation, HloInstruction, HloModule, Layout, Shape
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.hlo.ir.module import ComputationLayout
from xjit.hlo.ir.use_def import replace_users_operand
from xjit.passes.expand.bitcast_expander import expand_bitcasts
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.simplify.algebra.memory_order import source_in_memory

Constraints = tuple[Shape, Sequence[Shape]]
"""The shapes, with layouts, of a result and of the first operands."""


@dataclass
class LayoutAssignment(HloModulePass):
    """Gives every array a layout and inserts copies where the entry's parameters and results ask for another one.

    Row-major without tiles everywhere inside; `keep_intermediate_layouts` leaves the layouts of the text and only
    completes missing ones. Custom calls with `operand_layout_constraints`, and transfers with the host and between
    devices, keep their layouts behind copies. A
    bitcast whose meaning depends on a layout is first written as transposes and a reshape. A backend's own needs are
    what a derived class adds to `constraints`.
    """

    name = "layout-assignment"
    is_required = True
    keep_intermediate_layouts: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Assigns layouts, callees first; True if something changed."""
        wanted, entry = module.entry_computation_layout, module.entry_computation
        shapes = [s.with_default_layouts() for s in wanted.parameter_shapes]
        parameters = dict(zip(entry.parameter_instructions, shapes, strict=True))
        result = wanted.result_shape.with_default_layouts()
        every = module.make_computation_post_order()
        chosen = [c for c in every if not execution_threads or c.execution_thread in execution_threads]
        has_entry = any(c is entry for c in chosen)
        changed = has_entry and _complete_entry_layout(module, shapes, result)
        kept = _result_copies(entry.root_instruction, result)
        for computation in chosen:
            if not self.keep_intermediate_layouts:
                changed |= expand_bitcasts(computation)
            if self.keep_intermediate_layouts and computation is entry:
                changed |= _copy_parameters(parameters)
            order = computation.make_instruction_post_order()
            for instruction in order:
                new = self._shape_of(instruction, parameters, kept)
                if new is not instruction.shape:
                    changed |= new != instruction.shape
                    instruction.shape = new
            for instruction in order:
                if self.keep_intermediate_layouts:
                    changed |= _untile_lines(instruction)
                else:
                    changed |= self._shield_users(instruction, kept)
        changed |= self._constrain_operands(chosen)
        root = entry.root_instruction
        if has_entry and root.shape != result:
            entry.set_root_instruction(copy_to_layout(root, result))
            if root.opcode == "tuple" and not (root.users or root.control_predecessors or root.control_successors):
                entry.remove_instruction(root)
            changed = True
        return changed

    def constraints(self, instruction: HloInstruction) -> Constraints | None:
        """Returns the shapes, with layouts, of the result and the operands of an instruction that needs its own."""
        if instruction.opcode in _TRANSFERS:
            return instruction.shape.with_default_layouts(), _sent(instruction)
        if instruction.opcode != "custom-call":
            return None
        operands = instruction.attributes_as(at.CustomCallAttributes).operand_layout_constraints
        if operands is None:
            return None
        return instruction.shape.with_default_layouts(), [o.with_default_layouts() for o in operands]

    def _shape_of(
        self, i: HloInstruction, parameters: Mapping[HloInstruction, Shape], kept: Collection[HloInstruction]
    ) -> Shape:
        """Returns the shape with the layout that the instruction should have; its operands have theirs already."""
        if i in parameters:
            return parameters[i]
        if i.opcode == "get-tuple-element":
            return i.operand(0).shape.tuple_shapes[i.attributes_as(at.GetTupleElementAttributes).index]
        keeps = self.keep_intermediate_layouts or i in kept or self._is_only_for_constraints(i)
        if i.opcode == "tuple" and keeps:
            return Shape.tuple_of([o.shape for o in i.operands])
        if keeps:
            return i.shape.with_default_layouts()
        constraints = self.constraints(i)
        return row_major(i.shape) if constraints is None else constraints[0]

    def _is_only_for_constraints(self, i: HloInstruction) -> bool:
        """Whether this is a copy into the layout that all of its users need, or a tuple that they need as it is."""
        return i.opcode in ("copy", "tuple") and i.user_count > 0 and all(self._takes(user, i) for user in i.users)

    def _takes(self, user: HloInstruction, value: HloInstruction) -> bool:
        """Whether a user needs a value in just the layout that it has."""
        if user.opcode == "tuple":
            return self._is_only_for_constraints(user)
        constraints = self.constraints(user)
        if constraints is None:
            return False
        needed = zip(user.operands, constraints[1], strict=False)
        return all(shape == value.shape for operand, shape in needed if operand is value)

    def _shield_users(self, instruction: HloInstruction, kept: Collection[HloInstruction]) -> bool:
        """Lets the users of a value that keeps another layout read a row-major copy."""
        inner = row_major(instruction.shape)
        if inner == instruction.shape or instruction in kept:
            return False
        users = [u for u in instruction.users if u.opcode not in ("copy", "get-tuple-element") and u not in kept]
        users = [u for u in users if not self._takes(u, instruction)]
        if not users:
            return False
        replace_users_operand(instruction, users, copy_to_layout(instruction, inner))
        return True

    def _constrain_operands(self, computations: Sequence[HloComputation]) -> bool:
        """Puts copies before the operands of what needs other layouts."""
        changed = False
        for computation in computations:
            for instruction in computation.instructions if not computation.is_fusion_computation() else ():
                constraints = self.constraints(instruction)
                for i, wanted in enumerate(() if constraints is None else constraints[1]):
                    operand = instruction.operand(i)
                    if operand.shape != wanted and operand.shape.compatible(wanted):
                        instruction.replace_operand_with(i, copy_to_layout(operand, wanted))
                        changed = True
        return changed


def _copy_parameters(wanted: Mapping[HloInstruction, Shape]) -> bool:
    """Gives parameters the entry's layouts, and those who read them copies in the layouts that the text gives them."""
    changed = False
    for parameter, shape in wanted.items():
        own, users = parameter.shape, list(parameter.users)
        if own == shape or own != own.with_default_layouts():
            continue
        parameter.shape = shape
        if users:
            replace_users_operand(parameter, users, copy_to_layout(parameter, own))
        changed = True
    return changed


_TRANSFERS = frozenset(["infeed", "outfeed"])
"""The layouts of what they transfer are agreed with the host. Both ends of a channel are ours, and row-major."""


def _sent(transfer: HloInstruction) -> list[Shape]:
    """Returns the shape, with layouts, of the operand that a transfer sends; nothing if it sends none."""
    if transfer.opcode == "infeed":
        return []
    shape = transfer.attributes_as(at.OutfeedAttributes).outfeed_shape
    return [] if shape is None else [shape.with_default_layouts()]


def _complete_entry_layout(module: HloModule, parameters: list[Shape], result: Shape) -> bool:
    wanted = module.entry_computation_layout
    if parameters == list(wanted.parameter_shapes) and result == wanted.result_shape:
        return False
    module.config.entry_computation_layout = ComputationLayout(parameters, result)
    return True


def _result_copies(root: HloInstruction, result: Shape) -> set[HloInstruction]:
    """Returns what already gives the results their layouts: the root, and the tuples and copies that only it reads."""
    if root.shape != result:
        return set()
    kept: set[HloInstruction] = set()
    stack = [root]
    while stack:
        instruction = stack.pop()
        if instruction.opcode in ("tuple", "copy") and all(u in kept for u in instruction.users):
            kept.add(instruction)
            if instruction.opcode == "tuple":
                stack.extend(instruction.operands)
    return kept


_WHOLE_LINES = frozenset(["sort", "topk", "fft", "cholesky", "triangular-solve"])


def _untile_lines(instruction: HloInstruction) -> bool:
    """Puts copies around an opcode that works on whole lines of memory, which tiles cut to pieces."""
    shapes = [instruction.shape, *[o.shape for o in instruction.operands]]
    leaves = [leaf for s in shapes for _, leaf in s.leaves()]
    if instruction.opcode not in _WHOLE_LINES or not any(s.layout is not None and s.layout.tiles for s in leaves):
        return False
    for i, operand in enumerate(instruction.operands):
        instruction.replace_operand_with(i, copy_to_layout(operand, row_major(operand.shape)))
    old = instruction.shape
    instruction.shape = row_major(old)
    instruction.replace_all_uses_with_different_shape(copy_to_layout(instruction, old))
    return True


def row_major(shape: Shape) -> Shape:
    """Returns the shape with row-major, untiled layouts throughout."""
    if shape.is_row_major:
        return shape
    if shape.is_tuple:
        return replace(shape, tuple_shapes=tuple(row_major(s) for s in shape.tuple_shapes))
    return shape.with_layout(Layout.row_major(shape.rank))


def copy_to_layout(instruction: HloInstruction, shape: Shape) -> HloInstruction:
    """Returns `instruction` under another layout: a copy, or for tuples the tuple of copies of what differs."""
    computation = instruction.parent
    assert computation is not None
    if instruction.shape == shape:
        return instruction
    if instruction.opcode == "copy" and instruction.operand(0).shape == shape:
        return instruction.operand(0)
    if not shape.is_tuple:
        copy = HloInstruction.create("copy", shape, [instruction], name="copy")
        inherit_annotations(copy, instruction)
        return computation.add_instruction(copy)
    elements: list[HloInstruction] = []
    for i, element_shape in enumerate(shape.tuple_shapes):
        if instruction.opcode == "tuple":
            element = instruction.operand(i)
        else:
            element = computation.add_instruction(HloInstruction.create_get_tuple_element(instruction, i))
        elements.append(copy_to_layout(element, element_shape))
    return computation.add_instruction(HloInstruction.create_tuple(elements))


@dataclass
class ReshapeToBitcast(HloModulePass):
    """Turns reshapes, transposes in other layouts, and bitcast-converts to another width that move nothing in memory
    into bitcasts, which need no kernel and no buffer.
    """

    name = "reshape-to-bitcast"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites reshapes between row-major, untiled, static shapes, and copies of transposes that undo them in
        memory, and bitcast-converts that only cut elements or join them; True if there were any.
        """
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, RESHAPES)
        return changed


def _bitcast(match: Match, into: Expansion) -> HloInstruction:
    return into.add(HloInstruction.create("bitcast", match.root.shape, match.root.operands, name="bitcast"))


def _moves_nothing(reshape: HloInstruction) -> bool:
    shapes = (reshape.shape, reshape.operand(0).shape)
    return all(s.is_static and s.layout is not None and s.layout == Layout.row_major(s.rank) for s in shapes)


def _source(match: Match, into: Expansion) -> HloInstruction | None:
    source, shape = source_in_memory(match.root), match.root.shape
    if source is None or source.shape == shape:
        return source
    return into.add(HloInstruction.create("bitcast", shape, [source], name="bitcast"))


def _keeps_bytes(convert: HloInstruction) -> bool:
    """Whether one wide element is a row of narrow ones in both shapes, without padding."""
    result, operand = convert.shape, convert.operand(0).shape
    wide, narrow = sorted((result, operand), key=lambda shape: shape.rank)
    if wide.rank == narrow.rank or not all(_is_plain_bytes(shape) for shape in (wide, narrow)):
        return False
    return narrow.minor_to_major == (narrow.rank - 1, *wide.minor_to_major)


def _is_plain_bytes(shape: Shape) -> bool:
    kind = shape.element_type
    is_bytes = (kind.is_integer or kind.is_float) and kind.bit_width == 8 * kind.byte_width
    return is_bytes and shape.is_static and shape.layout is not None and not shape.layout.tiles


RESHAPES = rule_table([
    Rule("reshape(x) that moves nothing = bitcast(x)", m.op("reshape").where(_moves_nothing), _bitcast),
    Rule("bitcast-convert(x) to elements of another width, in place = bitcast(x)",
         m.op("bitcast-convert").where(_keeps_bytes), _bitcast),
    Rule("copy(transpose(x)) that moves nothing = bitcast(x)", m.op("copy", m.op("transpose", m.any())), _source),
])  # fmt: skip
