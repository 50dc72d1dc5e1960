"""What a sort's comparator means: an order by one key, if it is of that kind.

A comparator `f(a) < f(b)` (or `>`) of one operand's values orders by the key f(x).
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType

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
