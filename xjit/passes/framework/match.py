"""Patterns of instructions: `m.op("add", m.any("x"), m.constant_scalar(0))`, imported as `m`.

A pattern says what an instruction must be: its opcode, its operands, its one user, any condition. `match` returns what
the names in it stand for. A name that occurs twice must stand for one instruction. The two operands of a commutative
opcode are tried in both orders. Where an operand's opcode is asked for, `broadcast(constant)` is a broadcast of a
constant.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xjit.hlo import HloInstruction, Trait
from xjit.hlo import attributes as at

Condition = Callable[[HloInstruction], bool]
Bindings = dict[str, HloInstruction]
_Matcher = Callable[[HloInstruction, Bindings], bool]
"""Adds to the bindings what the names stand for; if an instruction does not match, they are left in any state."""


_OF_SHAPES: set[Condition] = set()


def of_shapes(condition: Condition) -> Condition:
    """Says that a condition looks at nothing but the opcode, attributes and shape of an instruction, and the kinds
    and shapes of its operands: at the root of a pattern it is asked once for all instructions that agree in these.
    """
    _OF_SHAPES.add(condition)
    return condition


SPLAT = "broadcast(constant)"


def kind_of(operand: HloInstruction) -> str:
    """Returns the opcode of an operand, `SPLAT` for a broadcast of a constant."""
    opcode = operand.opcode
    return SPLAT if opcode == "broadcast" and operand.operand(0).opcode == "constant" else opcode


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern matched: the instruction at its root, and by name those inside."""

    root: HloInstruction
    bindings: Mapping[str, HloInstruction]

    def __getitem__(self, name: str) -> HloInstruction:
        return self.bindings[name]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What an instruction must be. No `opcodes` means any; `operands` None means that they are not looked at."""

    opcodes: frozenset[str] = frozenset()
    operands: tuple[Pattern, ...] | None = None
    name: str = ""
    conditions: tuple[Condition, ...] = field(default=())
    _matches: _Matcher = field(init=False, compare=False, repr=False)
    _matches_besides: _Matcher = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", _matcher(self, self.opcodes, self.conditions))
        besides = tuple(c for c in self.conditions if c not in _OF_SHAPES)
        object.__setattr__(self, "_matches_besides", _matcher(self, frozenset(), besides))

    def named(self, name: str) -> Pattern:
        """The same pattern, whose instruction is bound to a name."""
        return replace(self, name=name)

    def where(self, condition: Condition) -> Pattern:
        """The same pattern with one more condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def one_use(self) -> Pattern:
        """The same pattern of an instruction that has one user, which reads it once."""
        return self.where(_is_used_once)

    def match(self, instruction: HloInstruction) -> Match | None:
        """Returns the bindings if the instruction matches, else None."""
        bindings: Bindings = {}
        return Match(instruction, bindings) if self._matches(instruction, bindings) else None

    def reach(self) -> int:
        """How far up the operands the pattern may look: 1 for operands, 2 for operands of these, and so on.

        Where it names an opcode and no operands, a condition or the rewrite may look at these.
        """
        if self.operands is None:
            return 1 if self.opcodes - {"constant"} else 0
        return 1 + max([p.reach() for p in self.operands], default=0)

    def operands_of_reach(self, reach: int) -> frozenset[str]:
        """The opcodes of those operands from where the pattern looks at least that far up."""
        return frozenset(
            "broadcast" if opcode == SPLAT else opcode
            for p in self.operands or ()
            if p.reach() >= reach
            for opcode in p.opcodes
        )

    def seen_through(self) -> frozenset[str]:
        """The opcodes of all instructions below its own whose operands it looks at."""
        return self.operands_of_reach(1).union(*[p.seen_through() for p in self.operands or ()])

    def may_match_shapes(self, instruction: HloInstruction) -> bool:
        """Whether an instruction of one of the pattern's opcodes meets its conditions of shapes (see `of_shapes`)."""
        return builtins.all(condition(instruction) for condition in self.conditions if condition in _OF_SHAPES)

    def match_besides(self, instruction: HloInstruction) -> Match | None:
        """As `match`, of an instruction whose opcode and shapes are known to fit."""
        bindings: Bindings = {}
        return Match(instruction, bindings) if self._matches_besides(instruction, bindings) else None

    def may_match_operands(self, kinds: Sequence[str], are_one: bool) -> bool:
        """Whether operands of these kinds (`kind_of`) can be what the pattern asks for, in this order or swapped.

        `are_one`: whether all operands are one instruction, as patterns of one name ask for.
        """
        patterns = self.operands
        if patterns is None:
            return True
        if len(patterns) != len(kinds) or (_have_one_name(patterns) and not are_one):
            return False
        orders = (patterns, patterns[::-1]) if len(patterns) == 2 else (patterns,)
        return builtins.any(
            builtins.all(p._may_be(kind) for p, kind in zip(order, kinds, strict=True)) for order in orders
        )

    def _may_be(self, kind: str) -> bool:
        opcodes = self.opcodes
        return not opcodes or kind in opcodes or (kind == SPLAT and "broadcast" in opcodes)


def _have_one_name(patterns: Sequence[Pattern]) -> bool:
    return len(patterns) > 1 and bool(patterns[0].name) and len({p.name for p in patterns}) == 1


def _matcher(pattern: Pattern, opcodes: frozenset[str], conditions: Sequence[Condition]) -> _Matcher:
    """Returns the function that asks for opcodes, conditions, and the pattern's operands; often that is little."""
    name = pattern.name
    of_constants = SPLAT in opcodes
    operands_match = None if pattern.operands is None else _operands_matcher(pattern.operands)

    def binds(instruction: HloInstruction, bindings: Bindings) -> bool:
        return bindings.setdefault(name, instruction) is instruction

    def matches(instruction: HloInstruction, bindings: Bindings) -> bool:
        if opcodes and instruction.opcode not in opcodes and (not of_constants or kind_of(instruction) not in opcodes):
            return False
        for condition in conditions:
            if not condition(instruction):
                return False
        if name and bindings.setdefault(name, instruction) is not instruction:
            return False
        return operands_match is None or operands_match(instruction, bindings)

    return binds if name and not (opcodes or conditions or operands_match) else matches


def _operands_matcher(patterns: Sequence[Pattern]) -> _Matcher:
    count = len(patterns)
    # what has no operands first: of which name an operand of the others is, depends on the order that they match in
    matchers = sorted(
        ((i, p._matches) for i, p in enumerate(patterns)), key=lambda m: patterns[m[0]].operands is not None
    )

    def all_match(operands: Sequence[HloInstruction], bindings: Bindings) -> bool:
        for i, match in matchers:  # noqa: SIM110 - a loop takes half the time of `all`
            if not match(operands[i], bindings):
                return False
        return True

    def matches(instruction: HloInstruction, bindings: Bindings) -> bool:
        return instruction.operand_count == count and all_match(instruction.operands, bindings)

    def matches_in_any_order(instruction: HloInstruction, bindings: Bindings) -> bool:
        operands = instruction.operands
        if len(operands) != 2 or not instruction.op.has(Trait.COMMUTATIVE):
            return len(operands) == 2 and all_match(operands, bindings)
        before = dict(bindings)
        if all_match(operands, bindings):
            return True
        bindings.clear()
        bindings.update(before)
        return all_match(operands[::-1], bindings)

    return matches_in_any_order if count == 2 else matches


def op(opcode: str, *operands: Pattern, name: str = "") -> Pattern:
    """An instruction of that opcode (several with `|` between them). Without operand patterns any operands match."""
    return Pattern(frozenset(opcode.split("|")), operands or None, name)


def any(name: str = "") -> Pattern:  # as in XLA's match::Any; the builtin is not used here
    """Any instruction."""
    return Pattern(name=name)


def constant(name: str = "") -> Pattern:
    """Any constant."""
    return op("constant", name=name)


def constant_scalar(value: float | None = None, name: str = "") -> Pattern:
    """A scalar constant, of that value if one is given. 0.0 is not -0.0, and a NaN matches a NaN."""
    scalar = constant(name).where(lambda i: i.shape.is_scalar)
    return scalar if value is None else scalar.where(lambda i: _is_value(i, value))


def splat(value: float | None = None, name: str = "") -> Pattern:
    """A broadcast of a scalar constant, which `name` is bound to."""
    return op(SPLAT, constant_scalar(value, name))


def _is_used_once(instruction: HloInstruction) -> bool:
    users = instruction.users
    return len(users) == 1 and users[0].operands.count(instruction) == 1 and not instruction.is_root()


def _is_value(constant: HloInstruction, value: float) -> bool:
    found = constant.attributes_as(at.ConstantAttributes).literal.array[()]
    if not (constant.shape.element_type.is_float or constant.shape.element_type.is_integer):
        return bool(found == value)
    if math.isnan(float(found)) or math.isnan(value):
        return math.isnan(float(found)) and math.isnan(value)
    return bool(found == value) and math.copysign(1.0, float(found)) == math.copysign(1.0, value)
