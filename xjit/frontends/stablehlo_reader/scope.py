"""One computation while it is read: values by MLIR's names, constants made where they are used, folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from xjit.dataclass import dataclass
from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.frontends.stablehlo_reader.places import Places
from xjit.frontends.stablehlo_reader.values import Constant, Types
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import NO_METADATA, OpMetadata
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

Value = HloInstruction | Constant


@dataclass(slots=True)
class Reading:
    """What the computations of a module share."""

    types: Types
    places: Places
    numbers: dict[str, int] = field(default_factory=dict)
    computations: list[HloComputation] = field(default_factory=list)
    regions: int = 0
    functions: dict[str, Any] = field(default_factory=dict)
    open_functions: set[str] = field(default_factory=set)
    read_functions: dict[str, HloComputation] = field(default_factory=dict)

    def region_name(self) -> str:
        """The name of the next region."""
        self.regions += 1
        return f"region_{self.regions - 1}"

    def name(self, base: str) -> str:
        """A name that no other instruction or computation has."""
        number = self.numbers[base] = self.numbers.get(base, 0) + 1
        return f"{base}.{number}"


class Scope:
    """The values of a block. `outer` are those of the block around it, of which it may use constants."""

    def __init__(self, reading: Reading, outer: Scope | None = None) -> None:
        self.reading = reading
        self._outer = outer
        self._values: dict[Any, Value] = {}
        self._constants: dict[Constant, HloInstruction] = {}
        self._metadata: OpMetadata = NO_METADATA
        self._made: list[HloInstruction] = []
        self.loose: list[HloInstruction] = []
        """What belongs to the computation even if nothing uses it."""

    def at(self, location: Any) -> None:
        """What is made from here on comes from there."""
        self._metadata = self.reading.places.metadata(location)

    def after(self, instruction: HloInstruction) -> None:
        """What is made from here on does what an instruction does, too."""
        before, here = instruction.metadata, self._metadata.op_name
        if before.op_name and here and before.op_name != here:
            self._metadata = OpMetadata(op_name=f"{here};{before.op_name}", stack_frame_id=before.stack_frame_id)

    def set(self, value: Any, given: Value) -> None:
        """Says what a value of MLIR is."""
        self._values[value] = given

    def get(self, value: Any) -> Value:
        """Returns what a value is. Errors: Declined for one of another block that is no constant."""
        found = self._values.get(value)
        if found is not None:
            return found
        found = self._outer.get(value) if self._outer is not None else None
        if not isinstance(found, Constant):
            raise Declined("a value of another block")
        return found

    def operands(self, op: Any) -> list[Value]:
        """What the operands of an operation are."""
        return [self.get(operand) for operand in op.operands]

    def made(self, value: Value) -> HloInstruction:
        """Returns the instruction of a value; those of constants have no metadata."""
        if not isinstance(value, Constant):
            return value
        found = self._constants.get(value)
        if found is None:
            found = self._constants[value] = self._make_constant(value)
        return found

    def value_of(self, made: HloInstruction) -> Value:
        """Returns what an instruction was `made` of: a constant, or itself."""
        return next((constant for constant, instruction in self._constants.items() if instruction is made), made)

    def make(
        self,
        opcode: str,
        shape: Shape,
        operands: Sequence[Value] = (),
        attributes: at.Attributes | None = None,
        called: Sequence[HloComputation] = (),
    ) -> HloInstruction:
        """Returns a new instruction of where the scope is at."""
        return self._named(self._metadata, opcode, shape, [self.made(x) for x in operands], attributes, called)

    def parameter(self, number: int, shape: Shape, op_name: str, name: str = "") -> HloInstruction:
        """Returns a new parameter."""
        base = name or NameUniquer.sanitize(op_name.rpartition("/")[2] or f"Arg_{number}")
        attributes = at.ParameterAttributes(number)
        made = HloInstruction(OPCODES["parameter"], shape, [], attributes, name=self.reading.name(base))
        made.metadata = OpMetadata(op_name=op_name) if op_name else NO_METADATA
        self.loose.append(made)
        return made

    def unnamed(self, opcode: str, shape: Shape, operands: list[HloInstruction]) -> HloInstruction:
        """Returns a new instruction that comes from nowhere."""
        return self._named(NO_METADATA, opcode, shape, operands, None, ())

    def _make_constant(self, value: Constant) -> HloInstruction:
        literal, shape = value.literal, value.shape
        if shape.num_elements == 1 and literal.shape != shape:
            literal = Literal.full(shape, literal.array)
        made = self._named(NO_METADATA, "constant", literal.shape, [], at.ConstantAttributes(literal), ())
        if literal.shape == shape:
            return made
        return self._named(NO_METADATA, "broadcast", shape, [made], at.DimensionsAttributes(()), ())

    def _named(
        self,
        metadata: OpMetadata,
        opcode: str,
        shape: Shape,
        operands: list[HloInstruction],
        attributes: at.Attributes | None,
        called: Sequence[HloComputation],
    ) -> HloInstruction:
        base = metadata.op_name.rpartition("/")[2]
        name = self.reading.name(NameUniquer.sanitize(base) if base else opcode)
        made = HloInstruction(OPCODES[opcode], shape, operands, attributes, called, name)
        made.metadata = metadata
        self._made.append(made)
        return made

    def computation(self, name: str, root: HloInstruction) -> HloComputation:
        """Returns the computation of a root and of what is loose, without what was made and folded away since."""
        kept = set(post_order((*self.loose, root), lambda instruction: instruction.operands))
        for made in self._made:
            if made not in kept:
                made.detach_from_operands()
        computation = HloComputation(self.reading.name(NameUniquer.sanitize(name)))
        ends = [instruction for instruction in self.loose if not instruction.users and instruction is not root]
        for instruction in post_order((*ends, root), lambda instruction: instruction.operands):
            computation.add_instruction(instruction)
        computation.set_root_instruction(root)
        return computation
