"""What a sort's comparator means: an order by one key, if it is of that kind, and the keys as unsigned integers.

A comparator `f(a) < f(b)` (or `>`) of one operand's values orders by the key f(x). Keys become unsigned integers whose
ascending order is the comparator's; then sorting needs no floating-point comparisons and no comparator calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.elemental import ComplexValue, RegisterValue, load_convert, storage_type
from xjit.emitters.nested import IrEmitterNested
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import constant_register
from xjit.llvm.types import I32, I64, LLVMType, int_type
from xjit.llvm.values import Value, const_int, constant

MAX_KEY_INSTRUCTIONS = 64


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The order by `key`, an instruction of `comparator` that reads parameter `parameter`, a value of one operand.

    With `total`, keys that are floats are ordered by their bits (-NaN < -Inf < .. < -0 < +0 < .. < +NaN); otherwise the
    zeros are equal and NaNs come last.
    """

    comparator: HloComputation
    key: HloInstruction
    parameter: int
    descending: bool
    total: bool

    @property
    def operand(self) -> int:
        """The operand of the sort that holds the keys."""
        return self.parameter // 2

    @property
    def kind(self) -> PrimitiveType:
        """The element type of the keys."""
        return self.key.shape.element_type

    def emit_key(self, builder: IRBuilder, nested: IrEmitterNested, value: RegisterValue) -> Value:
        """Emits the unsigned key (i32 or i64) of an operand's value."""
        key = value
        if self.key.opcode != "parameter":
            arguments = [
                value if p == self.parameter else constant_register(i.shape.element_type, 0)
                for p, i in enumerate(self.comparator.parameter_instructions)
            ]
            key = nested.inline(builder, self.comparator, arguments, root=self.key)[0]
        assert isinstance(key, Value)
        return unsigned_key(builder, key, self.kind, self.total, self.descending)

    def is_plain_ascending(self) -> bool:
        """Whether this is the ordinary ascending order: zeros equal, NaNs last, the key the value itself."""
        if self.descending:
            return False
        if self.kind.is_float and self.total:
            return _is_canonical(self.key, self.parameter)
        return self.key.opcode == "parameter"


def key_order(comparator: HloComputation) -> KeyOrder | None:
    """Returns the order that a comparator describes, or None if it is not an order by one key."""
    root = comparator.root_instruction
    if root.opcode != "compare":
        return None
    attributes = root.attributes_as(at.CompareAttributes)
    if attributes.direction not in ("LT", "GT"):
        return None
    first, second = root.operands
    parameters = [_only_parameter(i) for i in (first, second)]
    if None in parameters or parameters[0] == parameters[1]:
        return None
    p, q = (int(n) for n in parameters if n is not None)
    if p // 2 != q // 2 or first.shape.element_type.is_complex or not _same_function(first, second, p, q):
        return None
    descending = (attributes.direction == "GT") != (p > q)
    total = attributes.type == "TOTALORDER" and first.shape.element_type.is_float
    return KeyOrder(comparator, first, p, descending, total)


def _only_parameter(root: HloInstruction) -> int | None:
    """The number of the only parameter that an elementwise graph reads, or None."""
    found: set[int] = set()
    seen: set[HloInstruction] = set()
    stack = [root]
    while stack:
        instruction = stack.pop()
        if instruction in seen:
            continue
        seen.add(instruction)
        if instruction.opcode == "parameter":
            found.add(instruction.attributes_as(at.ParameterAttributes).parameter_number)
        elif instruction.opcode != "constant" and not instruction.op.has(Trait.ELEMENTWISE):
            return None
        stack.extend(instruction.operands)
    return found.pop() if len(found) == 1 and len(seen) <= MAX_KEY_INSTRUCTIONS else None


def _same_function(first: HloInstruction, second: HloInstruction, p: int, q: int) -> bool:
    """Whether two graphs compute the same of parameter p and of parameter q."""
    done: set[tuple[HloInstruction, HloInstruction]] = set()
    stack = [(first, second)]
    while stack:
        pair = stack.pop()
        if pair in done:
            continue
        done.add(pair)
        a, b = pair
        if a.opcode != b.opcode or a.operand_count != b.operand_count or a.shape != b.shape:
            return False
        if a.opcode == "parameter":
            numbers = [i.attributes_as(at.ParameterAttributes).parameter_number for i in (a, b)]
            if numbers != [p, q]:
                return False
        elif a.attributes != b.attributes:
            return False
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def _is_canonical(key: HloInstruction, parameter: int) -> bool:
    """Whether a key is select(x != x, NaN, select(x == 0, 0, x)), in either nesting: what JAX compares."""
    found: set[str] = set()
    while key.opcode == "select":
        test, replacement, key = key.operands
        if test.opcode != "compare" or replacement.opcode != "constant":
            return False
        found.add(f"{test.attributes_as(at.CompareAttributes).direction} {_number(replacement)}")
        sides = [_number(o) if o.opcode == "constant" else o for o in test.operands]
        direction = test.attributes_as(at.CompareAttributes).direction
        if direction == "NE" and (sides[0] is not sides[1] or test.operand(0).opcode != "parameter"):
            return False
        if direction == "EQ" and (sides[1] != 0.0 or test.operand(0).opcode != "parameter"):
            return False
    if key.opcode != "parameter" or key.attributes_as(at.ParameterAttributes).parameter_number != parameter:
        return False
    return found == {"NE nan", "EQ 0.0"}


def _number(instruction: HloInstruction) -> float | None:
    value = instruction.attributes_as(at.ConstantAttributes).literal.splat_value()
    return None if value is None else float(value.item() if hasattr(value, "item") else value)  # type: ignore[arg-type]


def unsigned_key(builder: IRBuilder, value: Value, kind: PrimitiveType, total: bool, descending: bool) -> Value:
    """Emits the unsigned integer (i32, or i64 for 64-bit types; per lane for a vector) that orders like the value."""
    if kind.is_float:
        bits = _float_key(builder, value, total)
    else:
        wide: LLVMType = I64 if kind.bit_width == 64 else I32
        if kind.is_signed:
            bits = builder.sext(value, wide) if value.type.elem is not wide else value
            bits = builder.xor(bits, const_int(bits.type, 1 << (wide.bits - 1)))
        else:
            bits = builder.zext(value, wide) if value.type.elem is not wide else value
    return builder.not_(bits) if descending else bits


def _float_key(builder: IRBuilder, value: Value, total: bool) -> Value:
    size = value.type.elem.bits
    integer = value.type.with_elem(int_type(size))
    sign = const_int(integer, 1 << (size - 1))
    if not total:
        zero = constant(value.type, 0.0)
        value = builder.select(builder.fcmp_ordered("==", value, zero), zero, value)
    bits = builder.bitcast(value, integer)
    negative = builder.ashr(bits, const_int(integer, size - 1))
    key = builder.xor(bits, builder.or_(negative, sign))
    if not total:
        key = builder.select(builder.fcmp_unordered("uno", value, value), const_int(integer, -1), key)
    return key


def from_raw(builder: IRBuilder, kind: PrimitiveType, bits: Value) -> RegisterValue:
    """Emits the register value of an element's bits in memory."""
    part = storage_type(kind.component)
    if kind.is_complex:
        integer = int_type(part.bits)
        low = builder.trunc(bits, integer)
        high = builder.trunc(builder.lshr(bits, const_int(bits.type, part.bits)), integer)
        return ComplexValue(builder.bitcast(low, part), builder.bitcast(high, part))
    return load_convert(builder, kind, builder.bitcast(bits, part))
