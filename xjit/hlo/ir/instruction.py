"""`HloInstruction`: one node of the graph, with its edges to operands, users, callees and control dependencies.

What is more than a fact of the node itself is a function in a module of its theme (`use_def` for its edges, `hlo/edit`,
`hlo/compare`, `classification`, ...), and the method of that name calls it. Those modules know the graph's classes as
types only, and make instructions and computations through the ones they are given (`instruction.create`,
`computation.new_computation`): imports go one way, from here to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xjit.hlo import attributes as at
from xjit.hlo.annotations import backend_config as bc
from xjit.hlo.annotations.metadata import NO_METADATA, HloSharding
from xjit.hlo.annotations.sharding import sharding_fits, sharding_of_leaves
from xjit.hlo.attributes.attribute_names import AttributeFields
from xjit.hlo.attributes.opcodes import OPCODES, Opcode
from xjit.hlo.compare import identity
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument, Place, Span, did_you_mean, span_of
from xjit.hlo.edit import cloning, fusion, fusion_merging
from xjit.hlo.io.printing import HloPrintOptions, instruction_to_string
from xjit.hlo.ir import classification, use_def
from xjit.hlo.ir.constructors import InstructionConstructors
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.hlo.ir.visitors import HloVisitor, accept_instruction
from xjit.hlo.types.shape import Shape, ShapeIndex

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule

A = TypeVar("A", bound=at.Attributes)


class HloInstruction(InstructionConstructors, AttributeFields):
    """One instruction. Identity is equality; the graph is changed only through the methods.

    `attributes` is the frozen dataclass of the opcode. Code that is type-checked reads it with
    `attributes_as(DotAttributes)`; its fields can also be read from the instruction itself, by XLA's names, too
    (`dot.lhs_contracting_dims`, `slice.slice_starts`). `called_computations` follows `op.called`.
    """

    __slots__ = (
        "__weakref__",
        "_attributes",
        "_called",
        "_operands",
        "_positions",
        "_users",
        "control_predecessors",
        "control_successors",
        "frontend_attributes",
        "metadata",
        "name",
        "op",
        "opcode",
        "origin",
        "parent",
        "place",
        "raw_backend_config",
        "shape",
        "sharding",
        "statistics",
        "unique_id",
    )

    def __init__(
        self,
        op: Opcode,
        shape: Shape,
        operands: Sequence[HloInstruction] = (),
        attributes: at.Attributes | None = None,
        called_computations: Sequence[HloComputation] = (),
        name: str = "",
    ) -> None:
        if attributes is None:
            attributes = at.NO_ATTRIBUTES if op.attributes is at.NoAttributes else op.attributes()
        self.op = op
        self.opcode = op.name  # as in HLO text
        self.shape = shape
        self.name = name or op.name
        self.unique_id = -1
        self.parent: HloComputation | None = None
        self._attributes = attributes
        self._operands: Sequence[HloInstruction] = use_def.as_operands(operands)
        self._positions: dict[HloInstruction, list[int]] | None = None  # of many operands, once use_def asks
        self._users: dict[HloInstruction, None] = {}
        self._called: list[HloComputation] = list(called_computations)
        self.control_predecessors: list[HloInstruction] = []
        self.control_successors: list[HloInstruction] = []
        self.metadata = NO_METADATA
        self.raw_backend_config = ""
        self.frontend_attributes: dict[str, str] = {}
        self.sharding: HloSharding | None = None
        self.origin = ""
        self.statistics = ""
        self.place: Place | None = None
        for operand in self._operands:
            operand._users[self] = None
        for computation in self._called:
            computation.add_caller(self)

    # -- construction

    @staticmethod
    def create(
        opcode: str,
        shape: Shape,
        operands: Sequence[HloInstruction] = (),
        attributes: at.Attributes | None = None,
        called_computations: Sequence[HloComputation] = (),
        name: str = "",
    ) -> HloInstruction:
        """Returns a free instruction of that opcode (add it to a computation to name and number it)."""
        op = OPCODES.get(opcode)
        if op is None:
            raise InvalidArgument(f"unknown opcode '{opcode}'{did_you_mean(opcode, OPCODES)}")
        return HloInstruction(op, shape, operands, attributes, called_computations, name)

    # -- attributes and facts

    @property
    def attributes(self) -> at.Attributes:
        """The attributes dataclass of this opcode."""
        return self._attributes

    @attributes.setter
    def attributes(self, value: at.Attributes) -> None:
        self._attributes = value
        if self.parent is not None:
            self.parent.note_change()

    def attributes_as(self, kind: type[A]) -> A:
        """Returns the attributes, typed; TypeError if the opcode has another class."""
        if not isinstance(self._attributes, kind):
            raise TypeError(f"{self.opcode} has {type(self._attributes).__name__}, not {kind.__name__}")
        return self._attributes

    def update_attributes(self, **changes: Any) -> None:
        """Replaces fields of the attributes; InvalidArgument for a field that the opcode does not have."""
        try:
            self.attributes = dataclasses.replace(self._attributes, **changes)  # type: ignore[type-var]
        except TypeError as error:
            raise InvalidArgument(f"{self.opcode} {self.name}: {error}") from None

    @property
    def span(self) -> Span | None:
        """The place in the text that this was parsed from, or None."""
        return span_of(self.place)

    @property
    def module(self) -> HloModule | None:
        """The module of the parent computation."""
        return self.parent.parent if self.parent is not None else None

    @property
    def channel_id(self) -> int | None:
        """The channel of a collective, send or recv; None without one."""
        return getattr(self._attributes, "channel_id", None)

    @property
    def mutable_shape(self) -> Shape:
        """The shape, to be replaced: shapes themselves are immutable. Users are not adapted.

        An origin names leaves, and goes with a shape of others.
        """
        return self.shape

    @mutable_shape.setter
    def mutable_shape(self, shape: Shape) -> None:
        if self.origin and not shape.compatible(self.shape):
            self.origin = ""
        self.shape = shape
        if self.parent is not None:
            self.parent.note_change()

    def set_and_sanitize_name(self, name: str) -> None:
        """Renames the instruction to the nearest name that HLO text accepts; it is not made unique."""
        self.name = NameUniquer.sanitize(name)

    def uniquify_name(self, uniquer: NameUniquer | None = None) -> None:
        """Takes a name that nothing else in the module, or nothing of another name uniquer, has had.

        FailedPrecondition without either.
        """
        if uniquer is None:
            if self.module is None:
                raise FailedPrecondition(f"{self.name} is in no module: its name has nothing to be unique in")
            uniquer = self.module.instruction_name_uniquer
        self.name = uniquer.get_unique_name(self.name)

    # -- operands and users

    @property
    def operands(self) -> tuple[HloInstruction, ...]:
        """The operands in order."""
        operands = self._operands
        return operands if isinstance(operands, tuple) else tuple(operands)

    @property
    def operand_count(self) -> int:
        """Number of operands."""
        return len(self._operands)

    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """Each instruction that reads this one, once, in the order the uses were made."""
        return tuple(self._users)

    @property
    def user_count(self) -> int:
        """Number of distinct users."""
        return len(self._users)

    def operand(self, i: int) -> HloInstruction:
        """Returns operand `i`."""
        return self._operands[i]

    def operand_index(self, operand: HloInstruction) -> int:
        """Returns the first position of an operand; InvalidArgument if it is none."""
        for i, candidate in enumerate(self._operands):
            if candidate is operand:
                return i
        raise InvalidArgument(f"{operand.name} is not an operand of {self.name}")

    def unique_operands(self) -> list[HloInstruction]:
        """Returns the operands without repetitions, in order."""
        return list(dict.fromkeys(self._operands))

    def is_user_of(self, other: HloInstruction) -> bool:
        """Whether this instruction reads `other`."""
        return self in other._users

    def is_root(self) -> bool:
        """Whether this is the root of its computation."""
        return self.parent is not None and self.parent.root_instruction is self

    def is_dead(self) -> bool:
        """Whether nothing reads this and it is not the root."""
        return not self._users and not self.is_root()

    def is_constant(self) -> bool:
        """Whether this is a constant."""
        return self.opcode == "constant"

    def replace_operand_with(self, i: int, new: HloInstruction) -> None:
        """Makes operand `i` read `new`; the shapes must be compatible."""
        use_def.replace_operand_with(self, i, new)

    def replace_operand_with_different_shape(self, i: int, new: HloInstruction) -> None:
        """Makes operand `i` read `new`, whatever its shape."""
        use_def.replace_operand_with_different_shape(self, i, new)

    def replace_use_with(self, user: HloInstruction, new: HloInstruction) -> None:
        """Makes one user read `new` instead of this; the shapes must be compatible."""
        use_def.replace_use_with(self, user, new)

    def replace_use_with_different_shape(self, user: HloInstruction, new: HloInstruction) -> None:
        """Makes one user read `new` instead of this, whatever its shape."""
        use_def.replace_use_with_different_shape(self, user, new)

    def replace_all_uses_with(self, new: HloInstruction) -> None:
        """Makes every user (and the root position) use `new` instead of this; the shapes must be compatible."""
        use_def.replace_all_uses_with(self, new)

    def replace_all_uses_with_different_shape(self, new: HloInstruction) -> None:
        """Makes every user (and the root position) use `new` instead of this, whatever its shape."""
        use_def.replace_all_uses_with_different_shape(self, new)

    def append_operand(self, operand: HloInstruction) -> None:
        """Adds a last operand (tuples, fusions, calls)."""
        use_def.append_operand(self, operand)

    def remove_operands_at(self, positions: Iterable[int]) -> None:
        """Removes operands by position."""
        use_def.remove_operands_at(self, positions)

    def detach_from_operands(self) -> None:
        """Drops all edges to operands and called computations (the instruction is being removed)."""
        use_def.detach_from_operands(self)

    # -- called computations, by the role they play

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations this instruction calls, in the order of `op.called`."""
        return tuple(self._called)

    @property
    def to_apply(self) -> HloComputation:
        """The computation that a reduce, map, call, ... applies."""
        return self._called[0]

    @to_apply.setter
    def to_apply(self, computation: HloComputation) -> None:
        self.set_called_computation(0, computation)

    @property
    def while_condition(self) -> HloComputation:
        """The condition of a while."""
        return self._called[0]

    @while_condition.setter
    def while_condition(self, computation: HloComputation) -> None:
        self.set_called_computation(0, computation)

    @property
    def while_body(self) -> HloComputation:
        """The body of a while."""
        return self._called[1]

    @while_body.setter
    def while_body(self, computation: HloComputation) -> None:
        self.set_called_computation(1, computation)

    @property
    def while_init(self) -> HloInstruction:
        """The value that a while starts with."""
        return self._operands[0]

    @property
    def branch_computations(self) -> tuple[HloComputation, ...]:
        """The branches of a conditional (true, false for a predicate)."""
        return tuple(self._called)

    @property
    def fused_instructions_computation(self) -> HloComputation:
        """The computation inside a fusion."""
        return self._called[0]

    @property
    def fused_expression_root(self) -> HloInstruction:
        """The root inside a fusion."""
        return self._called[0].root_instruction

    @property
    def fused_parameters(self) -> tuple[HloInstruction, ...]:
        """The parameters inside a fusion, by number."""
        return self._called[0].parameter_instructions

    def set_branch_computation(self, i: int, computation: HloComputation) -> None:
        """Replaces branch `i` of a conditional."""
        self.set_called_computation(i, computation)

    def set_called_computation(self, i: int, computation: HloComputation) -> None:
        """Replaces the i-th called computation; InvalidArgument if there is none."""
        use_def.set_called_computation(self, i, computation)

    # -- control edges: one instruction runs before another of the same computation without passing a value

    def add_control_dependency_to(self, other: HloInstruction) -> None:
        """Orders this before `other`; both must be in one computation. Cycles are found by the verifier."""
        if other.parent is not self.parent:
            raise InvalidArgument(f"{self.name} and {other.name} are in different computations")
        if other is self:
            raise InvalidArgument(f"{self.name} cannot run before itself")
        if other not in self.control_successors:
            self.control_successors.append(other)
            other.control_predecessors.append(self)
            use_def.note_change(self)

    def remove_control_dependency_to(self, other: HloInstruction) -> None:
        """Removes the control edge to `other`; InvalidArgument if there is none."""
        if other not in self.control_successors:
            raise InvalidArgument(f"{self.name} has no control edge to {other.name}")
        self.control_successors.remove(other)
        other.control_predecessors.remove(self)
        use_def.note_change(self)

    def drop_all_control_deps(self) -> None:
        """Removes all control edges of this instruction."""
        for successor in list(self.control_successors):
            self.remove_control_dependency_to(successor)
        for predecessor in list(self.control_predecessors):
            predecessor.remove_control_dependency_to(self)

    def safely_drop_all_control_dependencies(self) -> None:
        """Removes all control edges of this instruction and orders its predecessors before its successors instead."""
        predecessors, successors = list(self.control_predecessors), list(self.control_successors)
        self.drop_all_control_deps()
        for predecessor in predecessors:
            for successor in successors:
                predecessor.add_control_dependency_to(successor)

    def copy_all_control_deps_from(self, other: HloInstruction) -> None:
        """Gives this instruction the control edges of `other`, too."""
        for predecessor in other.control_predecessors:
            if predecessor is not self:
                predecessor.add_control_dependency_to(self)
        for successor in other.control_successors:
            if successor is not self:
                self.add_control_dependency_to(successor)

    # -- annotations

    @property
    def backend_config(self) -> str:
        """The backend config as text. Setting it checks that it is JSON; `raw_backend_config` takes any text."""
        return self.raw_backend_config

    @backend_config.setter
    def backend_config(self, config: str | Mapping[str, Any]) -> None:
        self.raw_backend_config = bc.checked_backend_config(self.name, config)

    def set_backend_config(self, config: str | Mapping[str, Any]) -> None:
        """Sets the backend config, a dictionary or JSON text; InvalidArgument if it is neither."""
        self.backend_config = config

    def has_backend_config(self) -> bool:
        """Whether there is a backend config."""
        return bool(self.raw_backend_config)

    def clear_backend_config(self) -> None:
        """Removes the backend config."""
        self.raw_backend_config = ""

    @property
    def parsed_backend_config(self) -> dict[str, Any]:
        """The backend config as a dictionary ({} if there is none); InvalidArgument if it is no JSON object."""
        return bc.parsed_backend_config(self.name, self.raw_backend_config)

    def has_sharding(self) -> bool:
        """Whether there is a sharding."""
        return self.sharding is not None

    def clear_sharding(self) -> None:
        """Removes the sharding."""
        self.sharding = None

    def set_single_sharding(self, sharding: HloSharding) -> None:
        """Gives all leaves of the value one sharding; InvalidArgument if it is the sharding of a tuple."""
        if sharding.elements:
            raise InvalidArgument(f"{self.name}: {sharding} is the sharding of a tuple")
        self.sharding = sharding_of_leaves(self.shape, sharding)

    def copy_annotations_from(self, other: HloInstruction) -> None:
        """Takes metadata, backend config, frontend attributes, sharding and span of another instruction.

        Its origin as well, which names leaves, if this has the same leaves.
        """
        self.metadata = other.metadata
        self.raw_backend_config = other.raw_backend_config
        if self.frontend_attributes or other.frontend_attributes:
            self.frontend_attributes = dict(other.frontend_attributes)
        self.sharding = other.sharding
        self.origin = other.origin if other.origin and self.shape.compatible(other.shape) else ""
        self.statistics = other.statistics
        self.place = other.place

    # -- copies and text

    def clone(self, suffix: str = "clone", context: cloning.HloCloneContext | None = None) -> HloInstruction:
        """Returns a free copy that reads the same operands; its name has the suffix."""
        return cloning.clone_instruction(self, suffix, context)

    def clone_with_new_operands(
        self,
        shape: Shape,
        operands: Sequence[HloInstruction],
        context: cloning.HloCloneContext | None = None,
        *,
        called: Sequence[HloComputation] | None = None,
    ) -> HloInstruction:
        """Returns a free copy with other operands; attributes, metadata, config and sharding are kept.

        A sharding that does not fit the new shape is dropped. With a context, callees of another module than the
        context's are cloned into that one.
        """
        if context is not None:
            return cloning.clone_instruction_with_operands(self, shape, operands, context)
        copy = HloInstruction(
            self.op, shape, operands, self._attributes, self._called if called is None else called, self.name
        )
        copy.copy_annotations_from(self)
        if shape is not self.shape and not sharding_fits(self.sharding, self.shape, shape):
            copy.sharding = None
        return copy

    def to_string(self, options: HloPrintOptions | None = None) -> str:
        """Returns the instruction's HLO text on one line."""
        return instruction_to_string(self, options)

    def short_text(self) -> str:
        """Returns the HLO text without sigils, metadata and backend config, as indexing maps name their sources."""
        return self.to_string(HloPrintOptions.short_parsable())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self._operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"

    # -- questions (see `classification` and `identity`)

    def is_elementwise(self) -> bool:
        """Whether element i of the result depends only on elements i of the operands."""
        return classification.is_elementwise(self)

    def is_elementwise_on_operand(self, i: int) -> bool:
        """Whether element k of the result depends only on element k of operand `i`; InvalidArgument without one."""
        return classification.is_elementwise_on_operand(self, i)

    def is_fusible(self) -> bool:
        """Whether the instruction may be put into a fusion."""
        return classification.is_fusible(self)

    def is_loop_fusion(self) -> bool:
        """Whether this is a fusion of kind kLoop."""
        return self._is_fusion_of_kind("kLoop")

    def is_input_fusion(self) -> bool:
        """Whether this is a fusion of kind kInput."""
        return self._is_fusion_of_kind("kInput")

    def is_output_fusion(self) -> bool:
        """Whether this is a fusion of kind kOutput."""
        return self._is_fusion_of_kind("kOutput")

    def is_custom_fusion(self) -> bool:
        """Whether this is a fusion of kind kCustom."""
        return self._is_fusion_of_kind("kCustom")

    def _is_fusion_of_kind(self, kind: str) -> bool:
        return isinstance(self._attributes, at.FusionAttributes) and self._attributes.kind == kind

    def is_multi_output_fusion(self) -> bool:
        """Whether this is a fusion whose root is a tuple."""
        return self.opcode == "fusion" and self.fused_expression_root.opcode == "tuple"

    def is_cross_replica_all_reduce(self) -> bool:
        """Whether this is an all-reduce without a channel: each replica group reduces within one partition."""
        return classification.is_all_reduce(self, has_channel=False)

    def is_cross_module_all_reduce(self) -> bool:
        """Whether this is an all-reduce with a channel: it reduces over partitions as well."""
        return classification.is_all_reduce(self, has_channel=True)

    def is_effective_bitcast(self) -> bool:
        """Whether the result's bytes are the operand's: a bitcast, or a transpose that only renames dimensions."""
        return classification.is_effective_bitcast(self)

    def has_side_effect(self) -> bool:
        """Whether this instruction or anything it calls has a side effect."""
        return classification.has_side_effect(self)

    def has_side_effect_no_recurse(self) -> bool:
        """Whether the instruction itself has a side effect (called computations are not looked at)."""
        return classification.has_side_effect_no_recurse(self)

    def latest_non_gte_ancestor(self) -> HloInstruction:
        """Returns the first instruction that is no get-tuple-element, going up from this one."""
        return classification.latest_non_gte_ancestor_and_index(self)[0]

    def latest_non_gte_ancestor_and_index(self) -> tuple[HloInstruction, ShapeIndex]:
        """Returns the latest ancestor that is no get-tuple-element, and at which index of its value this one reads."""
        return classification.latest_non_gte_ancestor_and_index(self)

    def identical(
        self,
        other: HloInstruction,
        eq_operands: identity.EqOperands | None = None,
        eq_computations: identity.EqComputations | None = None,
        layout_sensitive: bool = True,
    ) -> bool:
        """Whether opcode, shape, operands, attributes, called computations and annotations agree.

        By default operands must be the same instructions and called computations structurally equal.
        """
        return identity.identical(self, other, eq_operands, eq_computations, layout_sensitive)

    def identical_ignoring_commutative_operand_order(
        self,
        other: HloInstruction,
        eq_operands: identity.EqOperands | None = None,
        eq_computations: identity.EqComputations | None = None,
        layout_sensitive: bool = True,
    ) -> bool:
        """As `identical`, but the operands of a commutative opcode may be in either order."""
        return identity.identical_ignoring_commutative_operand_order(
            self, other, eq_operands, eq_computations, layout_sensitive
        )

    # -- walks and fusions (see `visitors`, `fusion` and `fusion_merging`)

    def accept(self, visitor: HloVisitor) -> None:
        """Shows a visitor everything that this needs (operands, control predecessors), then this."""
        accept_instruction(self, visitor)

    def fuse_instruction(self, producer: HloInstruction) -> HloInstruction:
        """Clones an operand of this fusion (or call) into it and returns the clone."""
        return fusion.fuse_instruction_into(self, producer)

    def fuse_instruction_into_multi_output(self, other: HloInstruction) -> HloInstruction:
        """Clones `other`, an operand or a sibling, into this fusion as a further output; returns the clone."""
        return fusion_merging.fuse_instruction_into_multi_output(self, other)

    def merge_fusion_instruction(self, producer: HloInstruction) -> None:
        """Inlines a fusion that this fusion reads into it."""
        fusion_merging.merge_fusion_instruction(self, producer)

    def merge_fusion_instruction_into_multi_output(self, other: HloInstruction) -> None:
        """Inlines a fusion, a producer or a sibling, into this one; all its outputs become outputs."""
        fusion_merging.merge_fusion_instruction_into_multi_output(self, other)

    def append_instruction_into_called_computation(
        self, other: HloInstruction, add_output: bool = False
    ) -> HloInstruction:
        """Clones an instruction into what this fusion or call calls, as a further output or for an operand of it."""
        return fusion_merging.append_instruction_into_called_computation(self, other, add_output)
