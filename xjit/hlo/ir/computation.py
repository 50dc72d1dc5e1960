"""`HloComputation`: a named graph of instructions with parameters and a root.

What it owns is changed by methods here; what is an algorithm over the graph is a function in a module of its theme, as
for `HloInstruction`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.compare.equality import computations_equal
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.edit import cloning, deep_copy, fusion, replacing
from xjit.hlo.io import serialization
from xjit.hlo.io.printing import HloPrintOptions, computation_to_string
from xjit.hlo.ir import parameters, roles, use_def
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module_config import ProgramShape
from xjit.hlo.ir.post_order import instruction_post_order
from xjit.hlo.ir.visitors import HloVisitor, accept_computation, accept_ordered

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
        self._callers: dict[HloInstruction, None] = {}
        self._post_order: tuple[HloInstruction, ...] | None = None
        self._calling: tuple[HloInstruction, ...] | None = None
        self._callees: tuple[HloComputation, ...] | None = None
        self._opcodes: frozenset[str] | None = None
        self.version = 0
        """The version of the module since which the instructions, their edges and the root are what they are.

        See `HloModule.version` for what else counts.
        """

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
    def opcodes(self) -> frozenset[str]:
        """The opcodes of the instructions: most passes look for a few, in computations that change seldom."""
        if self._opcodes is None:
            self._opcodes = frozenset([i.opcode for i in self._instructions])
        return self._opcodes

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
    def caller_count(self) -> int:
        """How many instructions call this computation."""
        return len(self._callers)

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

    # -- roles: what this is to those who call it (see `roles`)

    def is_called_computation(self) -> bool:
        """Whether anything calls this computation."""
        return bool(self._callers)

    def is_fusion_computation(self) -> bool:
        """Whether a fusion calls this computation."""
        return any(caller.opcode == "fusion" for caller in self._callers)

    def is_conditional_branch_computation(self) -> bool:
        """Whether this is a branch of a conditional."""
        return any(caller.opcode == "conditional" for caller in self._callers)

    def is_call_computation(self) -> bool:
        """Whether a call runs this computation."""
        return any(caller.opcode == "call" for caller in self._callers)

    def is_custom_call_computation(self) -> bool:
        """Whether a custom call gets this computation."""
        return any(caller.opcode == "custom-call" for caller in self._callers)

    def is_async_computation(self) -> bool:
        """Whether an asynchronous instruction runs this computation."""
        return roles.is_async_computation(self)

    def is_while_body_computation(self) -> bool:
        """Whether this is the body of a loop."""
        return roles.is_while_body_computation(self)

    def is_while_condition_computation(self) -> bool:
        """Whether this is the condition of a loop."""
        return roles.is_while_condition_computation(self)

    def is_reducer_computation(self) -> bool:
        """Whether this combines two values for a reduction, scatter, scan or collective."""
        return roles.is_reducer_computation(self)

    def is_comparator_computation(self) -> bool:
        """Whether this compares two values for a sort or a select-and-scatter."""
        return roles.is_comparator_computation(self)

    # -- parameters (see `parameters`): their numbers stay dense

    def parameter_instruction(self, number: int) -> HloInstruction:
        """Returns parameter `number`; InvalidArgument if there is none."""
        if not 0 <= number < len(self._parameters):
            count = len(self._parameters)
            raise InvalidArgument(f"computation {self.name} has no parameter {number}, only {count}")
        return self._parameters[number]

    def add_parameter(self, parameter: HloInstruction) -> HloInstruction:
        """Adds the next parameter of an embedded computation; its callers must get an operand for it."""
        return parameters.add_parameter(self, parameter)

    def add_entry_parameter(self, parameter: HloInstruction) -> HloInstruction:
        """Adds the next parameter of the entry, and its shape to the layout that callers see."""
        return parameters.add_entry_parameter(self, parameter)

    def replace_parameter(self, number: int, parameter: HloInstruction) -> HloInstruction:
        """Puts a free parameter into the place of parameter `number` of an embedded computation."""
        return parameters.replace_parameter(self, number, parameter)

    def replace_entry_parameter(self, number: int, parameter: HloInstruction) -> HloInstruction:
        """Puts a free parameter into the place of parameter `number` of the entry; its layout follows."""
        return parameters.replace_entry_parameter(self, number, parameter)

    def remove_parameter(self, number: int) -> None:
        """Removes an unused parameter of an embedded computation and renumbers the rest; callers drop their operand."""
        parameters.remove_parameter(self, number)

    def remove_unused_parameters_from_fused_computation(self) -> list[int]:
        """Removes the parameters that nothing reads, with the operands of the fusion; returns their old numbers."""
        return parameters.remove_unused_parameters_from_fused_computation(self)

    # -- copies, fusions, walks (see `hlo/edit`, `visitors`)

    def new_computation(self, name: str) -> HloComputation:
        """Returns an empty free computation of the same execution thread."""
        computation = HloComputation(name)
        computation.execution_thread = self.execution_thread
        return computation

    def clone(self, suffix: str = "clone", context: cloning.HloCloneContext | None = None) -> HloComputation:
        """Returns a free clone whose names have the suffix; callees are shared, or cloned by the context."""
        return cloning.clone_with_replacements(self, {}, (), suffix, context)

    def clone_with_replacements(
        self,
        replacements: cloning.Replacements,
        extra_parameters: Sequence[HloInstruction] = (),
        suffix: str = "clone",
        context: cloning.HloCloneContext | None = None,
    ) -> HloComputation:
        """Returns a free clone in which some instructions are replaced, or dropped where they are mapped to None."""
        return cloning.clone_with_replacements(self, replacements, extra_parameters, suffix, context)

    def deep_copy_instruction(
        self, instruction: HloInstruction, indices_to_copy: Collection[Sequence[int]] | None = None
    ) -> HloInstruction:
        """Adds a value equal to `instruction` whose leaves at `indices_to_copy` (default: all arrays) are copies."""
        return deep_copy.deep_copy_instruction(self, instruction, indices_to_copy)

    def deep_copy_instruction_with_custom_copier(
        self, instruction: HloInstruction, copy_leaf: deep_copy.CopyLeaf
    ) -> HloInstruction:
        """As `deep_copy_instruction`, with `copy_leaf(leaf, index, computation)` in the place of the copies."""
        return deep_copy.deep_copy_instruction_with_custom_copier(self, instruction, copy_leaf)

    def create_fusion_instruction(self, instructions: Sequence[HloInstruction], kind: str = "kLoop") -> HloInstruction:
        """Replaces instructions of this computation (the root first, users before operands) by a fusion of them."""
        if not instructions or any(i.parent is not self for i in instructions):
            raise InvalidArgument(f"a fusion in {self.name} needs instructions of {self.name}")
        return fusion.create_fusion(instructions, kind)

    def accept(self, visitor: HloVisitor) -> None:
        """Shows a visitor all instructions in post order, dead ones included."""
        accept_computation(self, visitor)

    def accept_ordered(self, visitor: HloVisitor, order: Sequence[HloInstruction]) -> None:
        """Shows a visitor the instructions in the given order; InvalidArgument if it is not a full and legal one."""
        accept_ordered(self, visitor, order)

    # -- callers, kept by HloInstruction

    def add_caller(self, instruction: HloInstruction) -> None:
        """Notes that an instruction calls this computation (for HloInstruction only)."""
        self._callers[instruction] = None
        if self.parent is not None:
            self.parent.calls_changed()

    def remove_caller(self, instruction: HloInstruction) -> None:
        """Forgets a caller (for HloInstruction only)."""
        self._callers.pop(instruction, None)
        if self.parent is not None:
            self.parent.calls_changed()

    def unread_instructions(self) -> list[HloInstruction]:
        """The instructions without users, in order: the root may be one, what is dead, parameters, side effects."""
        return [i for i in self._instructions if not i._users]

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
        if instruction.op.called:
            self.calls_changed()
        return instruction

    def take_instruction(self, instruction: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Takes an instruction out of another computation of the module, to read other operands; name and id stay.

        Who moves it makes sure that all that reads it moves with it, or is made to read something else. Parameters
        stay.
        """
        source = instruction.parent
        if source is None or source.parent is not self.parent or instruction.opcode == "parameter":
            raise InvalidArgument(
                f"{instruction.name} cannot move into {self.name}: it is no part of another computation"
            )
        del source._instructions[instruction]
        source.edges_changed()
        instruction.parent = self
        self._instructions[instruction] = None
        use_def.replace_operands(instruction, operands)
        if instruction.op.called:
            source.calls_changed()
            self.calls_changed()
        return instruction

    def _place_parameter(self, instruction: HloInstruction) -> None:
        number = parameters.parameter_number(instruction)
        if not self._parameters or number > parameters.parameter_number(self._parameters[-1]):
            self._parameters.append(instruction)
            return
        position = bisect_left(self._parameters, number, key=parameters.parameter_number)
        if position < len(self._parameters) and parameters.parameter_number(self._parameters[position]) == number:
            raise InvalidArgument(f"computation {self.name} has two parameters numbered {number}")
        self._parameters.insert(position, instruction)

    def set_root_instruction(self, root: HloInstruction, accept_different_shape: bool = False) -> None:
        """Makes an instruction of this computation the root."""
        if root not in self._instructions:
            raise InvalidArgument(f"{root.name} is not in computation {self.name}")
        if self._root is not None and not accept_different_shape and not self._root.shape.compatible(root.shape):
            raise InvalidArgument(f"new root {root.name} has shape {root.shape}, the old one {self._root.shape}")
        self._root = root
        self.note_change()

    def remove_instruction(self, instruction: HloInstruction) -> None:
        """Removes an instruction without users, control edges or root position; never a parameter."""
        if instruction.opcode == "parameter":
            raise FailedPrecondition(f"parameter {instruction.name} can only go through remove_parameter")
        if instruction.control_predecessors or instruction.control_successors:
            raise FailedPrecondition(f"{instruction.name} has control dependencies")
        self.force_remove_instruction(instruction)

    def force_remove_instruction(self, instruction: HloInstruction) -> None:
        """Removes an instruction, dropping its control edges; it must have no users and be no root and no parameter."""
        if instruction not in self._instructions:
            raise InvalidArgument(f"{instruction.name} is not in computation {self.name}")
        if instruction.opcode == "parameter" and instruction in self._parameters:
            raise FailedPrecondition(f"parameter {instruction.name} can only go through remove_parameter")
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
    ) -> list[HloInstruction]:
        """Removes an instruction and everything that only it kept alive (without side effects).

        `cleanup` is called for each instruction just before it goes. Returns what has lost a user, and stays.
        """
        worklist = [instruction]
        staying: list[HloInstruction] = []
        while worklist:
            item = worklist.pop()
            if item.parent is not self:
                continue
            if item.user_count or item is self._root or item.opcode == "parameter":
                staying.append(item)
                continue
            if item is not instruction and (item.has_side_effect() or item.control_successors):
                staying.append(item)
                continue
            operands = item.unique_operands()
            if cleanup is not None:
                cleanup(item)
            self.force_remove_instruction(item)
            worklist.extend(operands)
        return staying

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
        self.calls_changed()

    def edges_changed(self) -> None:
        """Notes that instructions, what they read, wait for or call have changed (for the functions that do it)."""
        self._post_order = None
        self._opcodes = None
        self.note_change()

    def note_change(self) -> None:
        """Notes that the root is another one, or a shape or attributes are (for the functions that do it)."""
        if self.parent is not None:
            self.version = self.parent.next_version()

    def calls_changed(self) -> None:
        """Notes that what the instructions call has changed, or their order (for the functions that do it)."""
        self._calling = self._callees = None
        if self.parent is not None:
            self.parent.calls_changed()

    def calling_instructions(self) -> tuple[HloInstruction, ...]:
        """Returns the instructions that call computations, in their order: few of a large computation do."""
        if self._calling is None:
            self._calling = tuple([i for i in self._instructions if i._called])
        return self._calling

    def callees(self) -> tuple[HloComputation, ...]:
        """Returns what the instructions call, in their order, with repetitions."""
        if self._callees is None:
            self._callees = tuple([callee for i in self.calling_instructions() for callee in i.called_computations])
        return self._callees

    def make_instruction_post_order(self) -> list[HloInstruction]:
        """Returns all instructions, operands and control predecessors first; deterministic."""
        if self._post_order is None:
            self._post_order = tuple(instruction_post_order(self))
        return list(self._post_order)

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

    def to_proto(self) -> bytes:
        """Returns a serialized HloComputationProto; ids are those of the module's proto. Needs `xjit.text.proto`."""
        return serialization.computation_to_proto(self)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<HloComputation {self.name}: {self.instruction_count} instructions>"
