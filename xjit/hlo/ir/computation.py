"""`HloComputation`: a named graph of instructions with parameters and a root."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.attributes import ParameterAttributes
from xjit.hlo.compare.equality import computations_equal
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.edit import cloning, deep_copy, fusion, replacing
from xjit.hlo.io import serialization
from xjit.hlo.io.printing import HloPrintOptions, computation_to_string
from xjit.hlo.ir import parameters, roles, visitors
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module_config import ProgramShape
from xjit.hlo.ir.post_order import extend_post_order, needs_of

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule


class HloComputation:
    """Owns its instructions (insertion order). Change it only through the methods.

    `==` compares structure (names and ids play no part); hashing is by identity, so sets and dictionaries of
    computations tell equal ones apart. Use `is` for "the same computation".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.unique_id = -1
        self.parent: HloModule | None = None
        self.execution_thread = "main"
        self._instructions: dict[HloInstruction, None] = {}
        self._parameters: list[HloInstruction] = []
        self._root: HloInstruction | None = None
        self._callers: dict[HloInstruction, int] = {}
        self._post_order: tuple[HloInstruction, ...] | None = None
        self._callees: tuple[HloComputation, ...] | None = None

    class Builder:
        """Collects free instructions; `build` makes a computation of them."""

        def __init__(self, name: str) -> None:
            self.name = name
            self._instructions: list[HloInstruction] = []

        def add_instruction(self, instruction: HloInstruction) -> HloInstruction:
            """Appends an instruction and returns it."""
            self._instructions.append(instruction)
            return instruction

        def build(self, root: HloInstruction | None = None) -> HloComputation:
            """Returns the computation; the root is the last instruction unless one is given."""
            if not self._instructions:
                raise InvalidArgument(f"computation {self.name} has no instructions")
            computation = HloComputation(self.name)
            for instruction in self._instructions:
                computation.add_instruction(instruction)
            computation.set_root_instruction(root or self._instructions[-1])
            return computation

    # -- facts

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """All instructions in insertion order."""
        return tuple(self._instructions)

    @property
    def instruction_count(self) -> int:
        """Number of instructions."""
        return len(self._instructions)

    @property
    def root_instruction(self) -> HloInstruction:
        """The instruction whose value the computation returns."""
        if self._root is None:
            raise FailedPrecondition(f"computation {self.name} has no root")
        return self._root

    @property
    def parameter_instructions(self) -> tuple[HloInstruction, ...]:
        """The parameters by number."""
        return tuple(self._parameters)

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return len(self._parameters)

    def is_entry_computation(self) -> bool:
        """Whether this is the module's entry."""
        module = self.parent
        return module is not None and module.has_entry_computation() and module.entry_computation is self

    def caller_instructions(self) -> tuple[HloInstruction, ...]:
        """The instructions that call this computation."""
        return tuple(self._callers)

    @property
    def fusion_instruction(self) -> HloInstruction | None:
        """The fusion that calls this computation, if one does."""
        return next((caller for caller in self._callers if caller.opcode == "fusion"), None)

    def compute_program_shape(self) -> ProgramShape:
        """Returns the shapes and names of the parameters and the shape of the result."""
        names = tuple(p.name for p in self._parameters)
        return ProgramShape(tuple(p.shape for p in self._parameters), self.root_instruction.shape, names)

    def equal(self, other: HloComputation, layout_sensitive: bool = True) -> bool:
        """Whether the graphs, with everything they call, are equal, whatever the names, ids and metadata."""
        return self is other or computations_equal(self, other, layouts=layout_sensitive)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, HloComputation) and self.equal(other)

    __hash__ = object.__hash__

    # -- by theme; the first argument of these functions is the computation

    is_fusion_computation = roles.is_fusion_computation
    is_async_computation = roles.is_async_computation
    is_while_body_computation = roles.is_while_body_computation
    is_while_condition_computation = roles.is_while_condition_computation
    is_conditional_branch_computation = roles.is_conditional_branch_computation
    is_call_computation = roles.is_call_computation
    is_custom_call_computation = roles.is_custom_call_computation
    is_reducer_computation = roles.is_reducer_computation
    is_comparator_computation = roles.is_comparator_computation
    is_called_computation = roles.is_called_computation

    parameter_instruction = parameters.parameter_instruction
    add_parameter = parameters.add_parameter
    add_entry_parameter = parameters.add_entry_parameter
    replace_parameter = parameters.replace_parameter
    replace_entry_parameter = parameters.replace_entry_parameter
    remove_parameter = parameters.remove_parameter
    remove_unused_parameters_from_fused_computation = parameters.remove_unused_parameters_from_fused_computation

    clone = cloning.clone_computation_with_suffix
    clone_with_replacements = cloning.clone_with_replacements
    deep_copy_instruction = deep_copy.deep_copy_instruction
    deep_copy_instruction_with_custom_copier = deep_copy.deep_copy_instruction_with_custom_copier

    accept = visitors.accept_computation
    accept_ordered = visitors.accept_ordered
    to_proto = serialization.computation_to_proto

    def create_fusion_instruction(self, instructions: Sequence[HloInstruction], kind: str = "kLoop") -> HloInstruction:
        """Replaces instructions of this computation (the root first, users before operands) by a fusion of them."""
        if not instructions or any(i.parent is not self for i in instructions):
            raise InvalidArgument(f"a fusion in {self.name} needs instructions of {self.name}")
        return fusion.create_fusion(instructions, kind)

    # -- callers, kept by HloInstruction

    def add_caller(self, instruction: HloInstruction) -> None:
        """Notes that an instruction calls this computation (for HloInstruction only)."""
        self._callers[instruction] = 1

    def remove_caller(self, instruction: HloInstruction) -> None:
        """Forgets a caller (for HloInstruction only)."""
        self._callers.pop(instruction, None)

    # -- mutation

    def add_instruction(self, instruction: HloInstruction, name_hint: str | None = None) -> HloInstruction:
        """Takes a free instruction in: unique name and id, parent set. Parameters must have numbers of their own."""
        if instruction.parent is not None:
            raise InvalidArgument(f"{instruction.name} already belongs to {instruction.parent.name}")
        if instruction.opcode == "parameter":
            self._place_parameter(instruction)
        instruction.name = name_hint or instruction.name
        instruction.parent = self
        if self.parent is not None:
            self.parent.register_instruction(instruction)
        self._instructions[instruction] = None
        self.edges_changed()
        return instruction

    def _place_parameter(self, instruction: HloInstruction) -> None:
        number = instruction.attributes_as(ParameterAttributes).parameter_number
        position = bisect_left(self._parameters, number, key=lambda p: p.parameter_number)
        if position < len(self._parameters) and self._parameters[position].parameter_number == number:
            raise InvalidArgument(f"computation {self.name} has two parameters numbered {number}")
        self._parameters.insert(position, instruction)

    def set_root_instruction(self, root: HloInstruction, accept_different_shape: bool = False) -> None:
        """Makes an instruction of this computation the root."""
        if root not in self._instructions:
            raise InvalidArgument(f"{root.name} is not in computation {self.name}")
        if self._root is not None and not accept_different_shape and not self._root.shape.compatible(root.shape):
            raise InvalidArgument(f"new root {root.name} has shape {root.shape}, the old one {self._root.shape}")
        self._root = root
        if self.parent is not None:
            self.parent.note_change()

    def remove_instruction(self, instruction: HloInstruction) -> None:
        """Removes an instruction without users, control edges or root position; never a parameter."""
        if instruction.opcode == "parameter":
            raise FailedPrecondition(f"parameter {instruction.name} can only go through remove_parameter")
        if instruction.control_predecessors or instruction.control_successors:
            raise FailedPrecondition(f"{instruction.name} has control dependencies")
        self.force_remove_instruction(instruction)

    def force_remove_instruction(self, instruction: HloInstruction) -> None:
        """Removes an instruction, dropping its control edges; it must have no users and not be the root."""
        if instruction not in self._instructions:
            raise InvalidArgument(f"{instruction.name} is not in computation {self.name}")
        if instruction.user_count:
            raise FailedPrecondition(f"{instruction.name} still has users, first {instruction.users[0].name}")
        if instruction is self._root:
            raise FailedPrecondition(f"{instruction.name} is the root of {self.name}")
        if instruction.control_predecessors or instruction.control_successors:
            instruction.drop_all_control_deps()
        instruction.detach_from_operands()
        del self._instructions[instruction]
        self.edges_changed()
        instruction.parent = None

    def remove_instruction_and_unused_operands(
        self, instruction: HloInstruction, cleanup: Callable[[HloInstruction], None] | None = None
    ) -> None:
        """Removes an instruction and everything that only it kept alive (without side effects).

        `cleanup` is called for each instruction just before it goes.
        """
        worklist = [instruction]
        while worklist:
            item = worklist.pop()
            if item.parent is not self or item.user_count or item is self._root or item.opcode == "parameter":
                continue
            if item is not instruction and (item.has_side_effect() or item.control_successors):
                continue
            operands = item.unique_operands()
            if cleanup is not None:
                cleanup(item)
            self.force_remove_instruction(item)
            worklist.extend(operands)

    def replace_instruction(self, old: HloInstruction, new: HloInstruction, preserve_sharding: bool = False) -> bool:
        """Redirects all uses of `old` to `new` (same computation), relays control edges, removes `old`.

        With `preserve_sharding`, nothing happens if both have shardings that differ, and `new` gets the sharding of
        `old` if it has none. Returns whether it was replaced.
        """
        if not old.shape.compatible(new.shape):
            raise InvalidArgument(f"{new.name} has shape {new.shape}, {old.name} has {old.shape}")
        return self.replace_instruction_with_different_shape(old, new, preserve_sharding)

    def replace_instruction_with_different_shape(
        self, old: HloInstruction, new: HloInstruction, preserve_sharding: bool = False
    ) -> bool:
        """As replace_instruction, whatever the shapes."""
        if old.parent is not self:
            raise InvalidArgument(f"{old.name} is not in computation {self.name}")
        if preserve_sharding and old.sharding is not None and old is not new:
            if new.sharding is not None and new.sharding != old.sharding:
                return False
            new.sharding = old.sharding
        replacing.replace(old, new)
        return True

    def replace_with_new_instruction(self, old: HloInstruction, new: HloInstruction) -> HloInstruction:
        """Adds the free instruction `new` and puts it in the place of `old`, whose name it takes if it has none."""
        self.add_instruction(new, old.name if new.name == new.opcode else None)
        self.replace_instruction(old, new)
        return new

    def cleanup(self) -> None:
        """Frees the instructions that were never taken in or are gone, but still read or call something of this."""
        for instruction in self._instructions:
            for user in instruction.users:
                if user.parent is None:
                    user.detach_from_operands()
        for caller in tuple(self._callers):
            if caller.parent is None:
                caller.detach_from_operands()

    # -- orders

    def reorder_instructions(self, sequence: Sequence[HloInstruction]) -> None:
        """Lists the instructions in another order from now on; `sequence` must hold each of them once."""
        reordered = dict.fromkeys(sequence)
        if reordered.keys() != self._instructions.keys():
            raise InvalidArgument(f"the new order of {self.name} does not hold exactly its instructions")
        self._instructions = reordered
        self.edges_changed()

    def edges_changed(self) -> None:
        """Notes that instructions, what they read, wait for or call have changed (for the functions that do it)."""
        self._post_order = self._callees = None
        if self.parent is not None:
            self.parent.note_change()

    def callees(self) -> tuple[HloComputation, ...]:
        """Returns what the instructions call, in their order, with repetitions."""
        if self._callees is None:
            calling = (i for i in self._instructions if i.op.called)
            self._callees = tuple(callee for i in calling for callee in i.called_computations)
        return self._callees

    def make_instruction_post_order(self) -> list[HloInstruction]:
        """Returns all instructions, operands and control predecessors first; deterministic."""
        if self._post_order is None:
            self._post_order = tuple(self._find_post_order())
        return list(self._post_order)

    def _find_post_order(self) -> list[HloInstruction]:
        order: list[HloInstruction] = []
        done: set[HloInstruction] = set()
        for start in self._instructions:
            if start in done:
                continue
            if done.issuperset(start._operands) and done.issuperset(start.control_predecessors):
                done.add(start)  # most computations are listed in such an order already
                order.append(start)
            else:
                extend_post_order(order, done, start, needs_of, _refuse_cycle)
        if len(order) != len(self._instructions):
            raise InvalidArgument(f"computation {self.name} reads an instruction of another computation")
        return order

    def clone_instructions(
        self, target: HloComputation, replacements: dict[HloInstruction, HloInstruction]
    ) -> dict[HloInstruction, HloInstruction]:
        """Clones this computation's instructions into `target`; `replacements` are used instead of clones.

        Returns the map old -> new. Called computations are shared, not cloned.
        """
        mapping = dict(replacements)
        for old in self.make_instruction_post_order():
            if old in mapping:
                continue
            new = old.clone_with_new_operands(old.shape, [mapping[o] for o in old.operands])
            mapping[old] = target.add_instruction(new)
        for old, new in list(mapping.items()):
            for successor in old.control_successors:
                if new.parent is mapping[successor].parent:
                    new.add_control_dependency_to(mapping[successor])
        return mapping

    def to_string(self, options: HloPrintOptions | None = None) -> str:
        """Returns the computation's HLO text."""
        return computation_to_string(self, options)

    __str__ = to_string

    def __repr__(self) -> str:
        return f"<HloComputation {self.name}: {self.instruction_count} instructions>"


def _refuse_cycle(instruction: HloInstruction) -> None:
    raise InvalidArgument(f"the graph has a cycle through {instruction.name}")
