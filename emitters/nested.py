"""IrEmitterNested: emits nested computations - reducers, combiners, map functions, comparators.

Their by-value form is inlined where it is used: parameters are register values (scalars or vectors of one width), so a
reducer written for scalars combines whole vectors. The graph is walked in post order: depth does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xjit.emitters.elemental import ComplexValue, RegisterValue, constant_register, emit_elementwise
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import PROMOTED

Values = tuple[RegisterValue, ...]


class IrEmitterNested:
    """Inlines scalar computations on register values.

    With `promote`, floats of 16 bits or fewer are computed in f32 without rounding in between, as XLA's reductions do.
    """

    def __init__(self, promote: bool = False) -> None:
        self.promote = promote

    def inline(
        self,
        builder: IRBuilder,
        computation: HloComputation,
        arguments: Sequence[RegisterValue],
        root: HloInstruction | None = None,
    ) -> Values:
        """Emits the computation on the arguments; returns the root's values (several if it is a tuple).

        On vectors, every value is a vector, also one that does not depend on the arguments. `root` asks for another
        instruction of the computation instead. Errors: Unsupported for an instruction that is not scalar.
        """
        values: dict[HloInstruction, Values] = {}
        for parameter, argument in zip(computation.parameter_instructions, arguments, strict=True):
            values[parameter] = (argument,)
        for instruction in computation.make_instruction_post_order():
            if instruction not in values:
                values[instruction] = self._emit(builder, instruction, [values[o] for o in instruction.operands])
        width = max((width_of(a) for a in arguments), default=0)
        return tuple([splat_register(builder, v, width) for v in values[root or computation.root_instruction]])

    def _type(self, instruction: HloInstruction) -> PrimitiveType:
        kind = instruction.shape.element_type
        return PROMOTED.get(kind, kind) if self.promote else kind

    def _emit(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        rule = _RULES.get(instruction.opcode)
        if rule is None and instruction.shape.is_array and instruction.shape.num_elements == 1:
            rule = _SCALAR_RULES.get(instruction.opcode)
            if rule is None and instruction.op.has(Trait.ELEMENTWISE):
                rule = IrEmitterNested._elementwise
        if rule is None:
            raise _not_scalar(instruction)
        return rule(self, builder, instruction, operands)

    # -- rules: (self, builder, instruction, operands) -> the values of the instruction

    def _constant(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        splat = instruction.attributes_as(at.ConstantAttributes).literal.splat_value()
        if splat is None:
            raise _not_scalar(instruction)
        return (constant_register(instruction.shape.element_type, splat),)

    def _iota(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        return (constant_register(instruction.shape.element_type, 0),)

    def _tuple(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        return tuple(value for values in operands for value in values)

    def _tuple_element(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        return (operands[0][instruction.attributes_as(at.GetTupleElementAttributes).index],)

    def _call(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        return self.inline(builder, instruction.to_apply, self._tuple(builder, instruction, operands))

    def _operand(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        return operands[0]

    def _elementwise(self, builder: IRBuilder, instruction: HloInstruction, operands: Sequence[Values]) -> Values:
        value = emit_elementwise(
            builder,
            instruction.opcode,
            self._type(instruction),
            [self._type(o) for o in instruction.operands],
            same_width(builder, [values[0] for values in operands]),
            instruction.attributes,
        )
        return (value,)


_Rule = Callable[[IrEmitterNested, IRBuilder, HloInstruction, Sequence[Values]], Values]
_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "constant": IrEmitterNested._constant,
        "tuple": IrEmitterNested._tuple,
        "get-tuple-element": IrEmitterNested._tuple_element,
        **dict.fromkeys(("call", "fusion", "map"), IrEmitterNested._call),
    }
)
_SCALAR_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "iota": IrEmitterNested._iota,
        **dict.fromkeys(
            ("reshape", "bitcast", "broadcast", "copy", "transpose", "opt-barrier", "reverse", "slice"),
            IrEmitterNested._operand,
        ),
    }
)
"""For values of one element: there is nothing to move."""


def _not_scalar(instruction: HloInstruction) -> Unsupported:
    what = f"{instruction.opcode} '{instruction.name}' of shape {instruction.shape}"
    return Unsupported(f"{what} inside a nested computation", instruction.span)


def width_of(value: RegisterValue) -> int:
    """Number of lanes of a register value; 0 for a scalar."""
    part = value.real if isinstance(value, ComplexValue) else value
    return part.type.width if part.type.is_vector else 0


def splat_register(builder: IRBuilder, value: RegisterValue, width: int) -> RegisterValue:
    """Returns the value in every lane of a vector (itself if it is a vector already)."""
    if width == 0 or width_of(value):
        return value
    if isinstance(value, ComplexValue):
        return ComplexValue(builder.splat(value.real, width), builder.splat(value.imag, width))
    return builder.splat(value, width)


def same_width(builder: IRBuilder, values: Sequence[RegisterValue]) -> list[RegisterValue]:
    """Returns the values with scalars splat to the width of the vectors among them."""
    width = max((width_of(v) for v in values), default=0)
    return [splat_register(builder, v, width) for v in values]
