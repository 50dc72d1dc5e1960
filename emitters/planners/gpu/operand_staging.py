"""How the threads of a block put a rectangle of an operand's rows and steps into shared memory.

They go along what is contiguous in memory, in vectors where it has such, each thread taking equally many.
"""

from __future__ import annotations

from xjit.affine import AffineExpr, dim
from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.contraction_space import VECTOR_BYTES, contiguous_lanes, operand_accesses
from xjit.emitters.schedule.statements import Bind, Loop, OperandTile, Role, StageOperand, Statement, Symbols
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType

MAX_UNROLLED_TURNS = 16
"""Elements, or vectors, that a thread stages in code of their own each."""


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """An operand of a product, of which `sizes` (rows, steps) are staged at a time, as `kind`.

    `index` and `symbols` say what is multiplied, over variables of which `variables` number the operand's rows and
    steps. `threads` share it out. `for_unit`: a matrix instruction reads it, not threads that have rows next to each
    other.
    """

    instruction: HloInstruction
    operand: int
    kind: PrimitiveType
    index: Index
    symbols: Symbols
    variables: tuple[int, int]
    sizes: tuple[int, int]
    threads: int
    for_unit: bool

    @property
    def source(self) -> HloInstruction:
        """The operand itself."""
        return self.instruction.operand(self.operand)

    def along(self, planning: LoopPlanning) -> tuple[int, int]:
        """Returns what threads go along, 0: rows, 1: steps, and how many of it are neighbours in memory."""
        accesses = operand_accesses(planning, self.instruction, self.operand, self.index, self.symbols)
        kinds = (self.source.shape.element_type, self.kind)
        width = max(kind.byte_width for kind in kinds)
        lanes = [contiguous_lanes(planning, accesses, v, width) for v in self.variables]
        along = 0 if lanes[0] > lanes[1] else 1
        return along, 1 if kinds[0].is_complex else max(1, lanes[along])

    def lanes(self, planning: LoopPlanning) -> tuple[int, int]:
        """Returns what `along` does, with as few lanes as give each thread equally many units."""
        along, lanes = self.along(planning)
        count, size = self.sizes[0] * self.sizes[1], self.sizes[along]
        while lanes > 1 and (count % (self.threads * lanes) or size % lanes):
            lanes //= 2
        return along, lanes

    def tile(self, planning: LoopPlanning, buffers: int = 1) -> OperandTile:
        """Returns where elements lie, for so many times the steps: as they are read, padded so that banks differ.

        Threads read rows next to each other; matrix instructions read steps so, if these come from memory so.
        """
        pad = max(1, VECTOR_BYTES // self.kind.byte_width)
        rows, steps = self.sizes[0], self.sizes[1] * buffers
        if self.for_unit and self.along(planning)[0] == 1:
            place = dim(0) * (steps + pad) + dim(1)
        else:
            place = dim(1) * (rows + pad) + dim(0)
        return OperandTile(self.instruction.name, self.operand, self.kind.text, (rows, steps), place)

    def stage(
        self,
        planning: LoopPlanning,
        thread: int,
        first: tuple[AffineExpr, AffineExpr],
        buffer: AffineExpr | None = None,
    ) -> Loop:
        """Returns the loop in which each thread stages its share, units of a few lanes in turn.

        `first` are the numbers of the first row and step, `buffer` is the tile's step that this goes to, or 0.
        """
        table, threads = planning.table, self.threads
        along, lanes = self.lanes(planning)
        turn = table.new_variable(self.sizes[0] * self.sizes[1] // (threads * lanes))
        unit = dim(turn) * threads + dim(thread)
        units = self.sizes[along] // lanes
        inner, outer = unit.mod(units) * lanes, unit.floordiv(units)
        at = (table.simplify(inner), table.simplify(outer))[:: 1 if along == 0 else -1]
        place = at[1] if buffer is None else table.simplify(at[1] + buffer)
        stage = StageOperand(self.instruction.name, self.operand, self.index, self.symbols, (at[0], place), along)
        width = lanes if lanes > 1 else 0
        inside: Statement = stage
        for number in (1, 0):
            value = table.simplify(first[number] + at[number])
            inside = Bind(self.variables[number], value, (inside,), width if along == number else 0)
        role = Role.UNROLL if table.size(turn) <= MAX_UNROLLED_TURNS else Role.SERIAL
        return Loop(turn, role, (inside,))
