"""`HloInstruction`: one node of the graph. What it does beyond its own fields is in modules by theme."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xjit.hlo import attributes as at
from xjit.hlo.annotations import backend_config as bc
from xjit.hlo.annotations import sharding as sharding_methods
from xjit.hlo.annotations.metadata import HloSharding, OpMetadata
from xjit.hlo.attributes.attribute_names import attribute_named
from xjit.hlo.attributes.opcodes import OPCODES, Opcode
from xjit.hlo.compare import identity
from xjit.hlo.diagnostics import InvalidArgument, Place, Span, span_of
from xjit.hlo.edit import cloning, fusion, fusion_merging
from xjit.hlo.io.printing import HloPrintOptions, instruction_to_string
from xjit.hlo.ir import classification, control_edges, naming, use_def, visitors
from xjit.hlo.ir.callees import CalledComputations
from xjit.hlo.ir.factories import InstructionFactories
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule

A = TypeVar("A", bound=at.Attributes)


class HloInstruction(InstructionFactories, CalledComputations):
    """One instruction. Identity is equality; the graph is changed only through the methods.

    `attributes` is the frozen dataclass of the opcode; its fields can also be read from the instruction itself
    (`dot.lhs_contracting_dims`). `called_computations` follows `op.called`.
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
        self._operands: list[HloInstruction] = list(operands)
        self._positions: dict[HloInstruction, list[int]] | None = None  # of many operands, once use_def asks
        self._users: dict[HloInstruction, None] = {}
        self._called: list[HloComputation] = list(called_computations)
        self.control_predecessors: list[HloInstruction] = []
        self.control_successors: list[HloInstruction] = []
        self.metadata = _NO_METADATA
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
            raise InvalidArgument(f"unknown opcode '{opcode}'")
        return HloInstruction(op, shape, operands, attributes, called_computations, name)

    @staticmethod
    def create_parameter(number: int, shape: Shape, name: str = "") -> HloInstruction:
        """Returns parameter `number`."""
        return HloInstruction.create("parameter", shape, attributes=at.ParameterAttributes(number), name=name)

    @staticmethod
    def create_constant(literal: Literal, name: str = "") -> HloInstruction:
        """Returns a constant of that value."""
        return HloInstruction.create("constant", literal.shape, attributes=at.ConstantAttributes(literal), name=name)

    @staticmethod
    def create_get_tuple_element(operand: HloInstruction, index: int) -> HloInstruction:
        """Returns element `index` of a tuple-shaped operand; InvalidArgument if there is none."""
        attributes = at.GetTupleElementAttributes(index)
        return HloInstruction.create("get-tuple-element", operand.shape.subshape([index]), [operand], attributes)

    @staticmethod
    def create_tuple(operands: Sequence[HloInstruction]) -> HloInstruction:
        """Returns the tuple of the operands."""
        return HloInstruction.create("tuple", Shape.tuple_of([o.shape for o in operands]), operands)

    # -- facts

    @property
    def attributes(self) -> at.Attributes:
        """The attributes dataclass of this opcode."""
        return self._attributes

    @attributes.setter
    def attributes(self, value: at.Attributes) -> None:
        self._attributes = value

    def attributes_as(self, kind: type[A]) -> A:
        """Returns the attributes, typed; TypeError if the opcode has another class."""
        if not isinstance(self._attributes, kind):
            raise TypeError(f"{self.opcode} has {type(self._attributes).__name__}, not {kind.__name__}")
        return self._attributes

    def __getattr__(self, name: str) -> Any:
        """Reads a field of the attributes, also by XLA's name: `dot.lhs_contracting_dims`, `slice.slice_starts`."""
        if not name.startswith("_"):
            try:
                return getattr(self._attributes, name)
            except AttributeError:
                if (value := attribute_named(self._attributes, name)) is not None:
                    return value
        raise AttributeError(f"HloInstruction '{self.opcode}' has no attribute '{name}'")

    @property
    def span(self) -> Span | None:
        """The place in the text that this was parsed from, or None."""
        return span_of(self.place)

    @property
    def module(self) -> HloModule | None:
        """The module of the parent computation."""
        return self.parent.parent if self.parent is not None else None

    @property
    def operands(self) -> tuple[HloInstruction, ...]:
        """The operands in order."""
        return tuple(self._operands)

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

    # -- by theme; the first argument of these functions is the instruction

    is_elementwise = classification.is_elementwise
    is_elementwise_on_operand = classification.is_elementwise_on_operand
    is_fusible = classification.is_fusible
    is_loop_fusion = classification.is_loop_fusion
    is_input_fusion = classification.is_input_fusion
    is_output_fusion = classification.is_output_fusion
    is_custom_fusion = classification.is_custom_fusion
    is_multi_output_fusion = classification.is_multi_output_fusion
    is_cross_replica_all_reduce = classification.is_cross_replica_all_reduce
    is_cross_module_all_reduce = classification.is_cross_module_all_reduce
    is_effective_bitcast = classification.is_effective_bitcast
    has_side_effect = classification.has_side_effect
    has_side_effect_no_recurse = classification.has_side_effect_no_recurse
    latest_non_gte_ancestor = classification.latest_non_gte_ancestor
    latest_non_gte_ancestor_and_index = classification.latest_non_gte_ancestor_and_index

    identical = identity.identical
    identical_ignoring_commutative_operand_order = identity.identical_ignoring_commutative_operand_order

    fuse_instruction = fusion.fuse_instruction_into
    fuse_instruction_into_multi_output = fusion_merging.fuse_instruction_into_multi_output
    merge_fusion_instruction = fusion_merging.merge_fusion_instruction
    merge_fusion_instruction_into_multi_output = fusion_merging.merge_fusion_instruction_into_multi_output
    append_instruction_into_called_computation = fusion_merging.append_instruction_into_called_computation

    replace_operand_with = use_def.replace_operand_with
    replace_operand_with_different_shape = use_def.replace_operand_with_different_shape
    replace_use_with = use_def.replace_use_with
    replace_all_uses_with = use_def.replace_all_uses_with
    replace_all_uses_with_different_shape = use_def.replace_all_uses_with_different_shape
    append_operand = use_def.append_operand
    remove_operands_at = use_def.remove_operands_at
    detach_from_operands = use_def.detach_from_operands
    set_called_computation = use_def.set_called_computation
    add_control_dependency_to = control_edges.add_control_dependency_to
    remove_control_dependency_to = control_edges.remove_control_dependency_to
    drop_all_control_deps = control_edges.drop_all_control_deps
    copy_all_control_deps_from = control_edges.copy_all_control_deps_from
    safely_drop_all_control_dependencies = control_edges.safely_drop_all_control_dependencies

    set_and_sanitize_name = naming.set_and_sanitize_name
    uniquify_name = naming.uniquify_name
    accept = visitors.accept_instruction

    set_backend_config = bc.set_backend_config
    has_sharding = sharding_methods.has_sharding
    clear_sharding = sharding_methods.clear_sharding
    set_single_sharding = sharding_methods.set_single_sharding
    has_backend_config = bc.has_backend_config
    clear_backend_config = bc.clear_backend_config

    @property
    def backend_config(self) -> str:
        """The backend config as text. Setting it checks that it is JSON; `raw_backend_config` takes any text."""
        return self.raw_backend_config

    @backend_config.setter
    def backend_config(self, config: str | Mapping[str, Any]) -> None:
        bc.set_backend_config(self, config)

    @property
    def parsed_backend_config(self) -> dict[str, Any]:
        """The backend config as a dictionary ({} if there is none); InvalidArgument if it is no JSON object."""
        return bc.parsed_backend_config(self)

    # -- annotations

    @property
    def channel_id(self) -> int | None:
        """The channel of a collective, send or recv; None without one."""
        return getattr(self._attributes, "channel_id", None)

    def update_attributes(self, **changes: Any) -> None:
        """Replaces fields of the attributes; InvalidArgument for a field that the opcode does not have."""
        try:
            self._attributes = dataclasses.replace(self._attributes, **changes)  # type: ignore[type-var]
        except TypeError as error:
            raise InvalidArgument(f"{self.opcode} {self.name}: {error}") from None

    @property
    def mutable_shape(self) -> Shape:
        """The shape, to be replaced: shapes themselves are immutable. Users are not adapted."""
        return self.shape

    @mutable_shape.setter
    def mutable_shape(self, shape: Shape) -> None:
        self.shape = shape

    # -- copies

    clone = cloning.clone_instruction

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
        if shape is not self.shape and not sharding_methods.sharding_fits(self.sharding, self.shape, shape):
            copy.sharding = None
        return copy

    def copy_annotations_from(self, other: HloInstruction) -> None:
        """Takes metadata, backend config, frontend attributes, sharding and span of another instruction."""
        self.metadata = other.metadata
        self.raw_backend_config = other.raw_backend_config
        self.frontend_attributes = dict(other.frontend_attributes)
        self.sharding = other.sharding
        self.origin = other.origin
        self.statistics = other.statistics
        self.place = other.place

    def to_string(self, options: HloPrintOptions | None = None) -> str:
        """Returns the instruction's HLO text on one line."""
        return instruction_to_string(self, options)

    __str__ = to_string

    def short_text(self) -> str:
        """Returns the HLO text without sigils, metadata and backend config, as indexing maps name their sources."""
        return self.to_string(HloPrintOptions.short_parsable())

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self._operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"


_NO_METADATA = OpMetadata()
