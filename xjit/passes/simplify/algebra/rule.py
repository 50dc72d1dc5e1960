"""What a rule of the simplifier is: an equation, how exact it is, and which option it needs."""

from __future__ import annotations

import enum
from collections.abc import Callable

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import Attributes
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Condition, Match, Pattern
from xjit.passes.framework.rewriting import Rewrite


class Exactness(enum.Enum):
    """What a rule may change. Rules of the last two kinds need an option."""

    EXACT = "the same bits, but for the payload and sign of a NaN"
    ACCURATE = "the same special values; else within the error of the function that is replaced"
    ORDER = "the same but for the order of a sum"
    FINITE = "the same for finite numbers: products of a zero are left out, which with infinity are NaN"
    XLA = "rounds, overflows or treats special values in another way; XLA does it all the same"
    REAL = "holds for real numbers"


@dataclass(frozen=True, slots=True)
class AlgebraRule:
    """One rewrite. `id` is its number in the catalogue of passes, `equation` what it says.

    `option` names options of the simplifier that must be on, with spaces between them; with `!` in front, off; with `|`
    between two, one of them. `value`: an argument of the rewrite, and the option whose value it gets.
    """

    id: str
    equation: str
    pattern: Pattern
    rewrite: Rewrite
    exactness: Exactness = Exactness.EXACT
    option: str = ""
    value: tuple[str, str] | None = None


Term = str | Callable[[Match, Expansion], HloInstruction]
"""Part of a right side: the name of what the pattern bound, or what makes an instruction."""


def term(value: Term, match: Match, into: Expansion) -> HloInstruction:
    """Returns the instruction that a term stands for."""
    return match[value] if isinstance(value, str) else value(match, into)


def bound(name: str) -> Callable[[Match, Expansion], HloInstruction]:
    """The instruction of that name."""
    return lambda match, _into: match[name]


def make(
    opcode: str, *terms: Term, attributes: Attributes | None = None
) -> Callable[[Match, Expansion], HloInstruction]:
    """A new instruction, whose shape is inferred."""

    def build(match: Match, into: Expansion) -> HloInstruction:
        return into.make(opcode, *[term(t, match, into) for t in terms], attributes=attributes)

    return build


def converted(value: Term) -> Callable[[Match, Expansion], HloInstruction]:
    """A conversion to the type, and with the layout, of what is replaced."""
    return lambda match, into: into.like_source("convert", [term(value, match, into)])


def filled(number: float) -> Callable[[Match, Expansion], HloInstruction]:
    """An array of the shape of what is replaced, every element that number."""
    return lambda match, into: into.full(into.source.shape, number)


def always(_instruction: HloInstruction) -> bool:
    """No condition."""
    return True


def element_type(test: Callable[..., bool]) -> Condition:
    """The condition that an instruction's element type passes a test."""
    return lambda instruction: test(instruction.shape.element_type)
