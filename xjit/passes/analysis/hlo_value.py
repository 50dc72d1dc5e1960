"""Values, the places where they stand, and what reads them: XLA's HloValue, HloPosition, HloUse."""

from __future__ import annotations

from collections.abc import Iterator

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.hlo.types.shape import ShapeIndex


def place_text(instruction: HloInstruction, index: ShapeIndex) -> str:
    """Returns an instruction's name with the index of one of its leaves, as XLA writes it."""
    return f"%{instruction.name}{{{','.join(map(str, index))}}}"


@dataclass(frozen=True, slots=True)
class HloPosition:
    """A leaf of an instruction's result."""

    instruction: HloInstruction
    index: ShapeIndex

    def __str__(self) -> str:
        return place_text(self.instruction, self.index)


@dataclass(frozen=True, slots=True)
class HloUse:
    """A leaf of an operand that an instruction reads, or hands over to what it calls."""

    instruction: HloInstruction
    operand_number: int
    operand_index: ShapeIndex

    def __str__(self) -> str:
        index = ",".join(map(str, self.operand_index))
        return f"%{self.instruction.name}, operand {self.operand_number} {{{index}}}"


@dataclass(eq=False, slots=True)
class HloValue:
    """One value: the leaf that defines it, and what it is.

    A `phi` joins what control flow brings to one place. `time` numbers the event that defines the value. `forward` is
    what a phi stands for that turned out to join one value only.
    """

    id: int
    instruction: HloInstruction
    index: ShapeIndex
    shape: Shape
    byte_size: int
    time: int
    phi: bool = False
    forward: HloValue | None = None

    @property
    def defining_position(self) -> HloPosition:
        """The leaf where the value comes into being."""
        return HloPosition(self.instruction, self.index)

    @property
    def is_read_only(self) -> bool:
        """Whether its memory belongs to the caller or is shared by all calls."""
        return self.instruction.opcode in ("parameter", "constant") and not self.phi

    def resolved(self) -> HloValue:
        """Returns what the value is: itself, or what a phi of one value stands for."""
        value = self
        while value.forward is not None:
            if value.forward.forward is not None:
                value.forward = value.forward.forward
            value = value.forward
        return value

    def __repr__(self) -> str:
        return place_text(self.instruction, self.index)

    def __str__(self) -> str:
        return f"<{self.id} {self!r}{' phi' if self.phi else ''}>"


@dataclass(frozen=True, slots=True)
class HloValueSet:
    """The values that may stand at one place, by id; none for tokens and opaques."""

    values: tuple[HloValue, ...]

    def __iter__(self) -> Iterator[HloValue]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: HloValue) -> bool:
        return value in self.values

    @property
    def is_ambiguous(self) -> bool:
        """Whether more than one value may stand there."""
        return len(self.values) > 1

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))
