"""How much of each operand an instruction or fusion really reads, and the bytes it moves."""

from __future__ import annotations

from dataclasses import replace

from xjit.affine import IndexingMap
from xjit.dataclass import dataclass
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing import Utilization, operand_utilization
from xjit.indexing.composition import Composer
from xjit.indexing.map_sets import finished
from xjit.indexing.structure import leaf_count

__all__ = ["BytesMoved", "bytes_moved", "operand_utilizations"]


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """Bytes read of every operand, each element once, and written to all results."""

    read: tuple[int, ...]
    written: int
    exact: bool

    @property
    def total(self) -> int:
        return sum(self.read) + self.written


def operand_utilizations(instruction: HloInstruction, composer: Composer | None = None) -> tuple[Utilization, ...]:
    """Returns, per operand, the elements that all outputs together read. A tuple operand counts leaf by leaf."""
    composer = composer or Composer()
    sets: dict[tuple[int, int], dict[IndexingMap, None]] = {}
    rough: set[tuple[int, int]] = set()
    for output in range(leaf_count(instruction.shape)):
        for read in composer.reads(instruction, output):
            sets.setdefault((read.operand, read.leaf), {}).update(dict.fromkeys(finished(read.maps)))
            if not read.is_exact:
                rough.add((read.operand, read.leaf))
    found: list[Utilization] = []
    for number, operand in enumerate(instruction.operands):
        parts: list[Utilization] = []
        for leaf, (_, shape) in enumerate(operand.shape.leaves()):
            if shape.is_array:
                maps = list(sets.get((number, leaf), {}))
                width = shape.element_type.byte_width
                if maps:
                    used = operand_utilization(maps, shape.dimensions, width)
                    parts.append(used if (number, leaf) not in rough else replace(used, exact=False))
                else:
                    parts.append(Utilization(0, shape.num_elements, width))
        found.append(_joined(parts))
    return tuple(found)


def _joined(parts: list[Utilization]) -> Utilization:
    """One figure for the leaves of a tuple: in bytes if their elements differ in width."""
    if len(parts) == 1:
        return parts[0]
    widths = {p.element_bytes for p in parts}
    unit = widths.pop() if len(widths) == 1 else 1
    read = sum(p.bytes_read for p in parts) // unit
    total = sum(p.elements_total * p.element_bytes for p in parts) // unit
    return Utilization(read, total, unit, all(p.exact for p in parts))


def bytes_moved(instruction: HloInstruction, composer: Composer | None = None) -> BytesMoved:
    """Returns the memory traffic of one execution: what is read of each operand, and every result written once."""
    used = operand_utilizations(instruction, composer)
    return BytesMoved(tuple([u.bytes_read for u in used]), instruction.shape.byte_size, all(u.exact for u in used))
