"""What a planner of loops starts from and asks: what is to be stored, the variables so far, what an index reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xjit.affine import AffineExpr
from xjit.emitters.access.access_analysis import AccessAnalysis, Accesses, Index, RuntimeValue
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.kernels.view import KernelView, lanes_for
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.planners.cpu.work_count import WorkCount, part_of
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.schedule.renumber import renumber
from xjit.emitters.schedule.schedule import Cost, Schedule
from xjit.emitters.schedule.statements import Let, Part, Store
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape


@dataclass(frozen=True, slots=True)
class LoopWork:
    """What loops over the elements of `shape` are to store: every value of each root, to result buffers in order.

    `results` are their numbers. `offsets` (none: zeros) are added to an index to say where its elements go. Where the
    roots are `scalar`, all elements have the one value. With the element of an index those are stored that are `steps`
    from it.
    """

    roots: tuple[HloInstruction, ...]
    shape: Shape
    results: tuple[int, ...]
    offsets: Index = ()
    scalar: bool = False
    steps: tuple[Index, ...] = ()

    @staticmethod
    def of(view: KernelView) -> LoopWork:
        """All results of a view, which must have the same dimensions."""
        return LoopWork(view.roots, view.result_shapes[0], tuple(range(len(view.result_shapes))))

    def together(self, index: Index) -> list[Index]:
        """Returns the indices of what is stored with the element of an index, its own first."""
        return [index, *(_sum(index, step) for step in self.steps)]

    def element_index(self, index: Index) -> Index:
        """Returns which element of the roots is stored for an index."""
        return () if self.scalar else index

    def place(self, index: Index) -> Index:
        """Returns where in the results the element for an index is stored."""
        return _sum(index, self.offsets) if self.offsets else index

    def stores(self, index: Index) -> tuple[Store, ...]:
        """Returns what is stored for an index of `shape`."""
        outputs = [(root.name, n) for root in self.roots for n, _ in enumerate(root.shape.leaves())]
        return tuple(
            Store(result, self.place(each), name, self.element_index(each), output)
            for each in self.together(index)
            for result, (name, output) in zip(self.results, outputs, strict=True)
        )


def _sum(index: Index, step: Index) -> Index:
    return tuple(e + s for e, s in zip(index, step, strict=True))


class LoopPlanning:
    """One schedule in the making."""

    def __init__(self, context: PlanContext, view: KernelView, table: VariableTable, work: LoopWork) -> None:
        self.context = context
        self.view = view
        self.work = work
        self.table = table
        leaves = {leaf: leaf.shape for leaf in view.leaves}
        leaves.update(view.array_constants())
        self.analysis = AccessAnalysis(table, leaves, context.maps)
        self.count = WorkCount(self.analysis)
        shapes = view.result_shapes
        self._result_shapes = [shapes[r] for r in work.results]
        self.lets: list[Let] = []  # in force everywhere
        self._collected: dict[Index, list[Accesses]] = {}

    def bind(self, variable: int, value: RuntimeValue) -> None:
        """Lets a variable stand for an element that is read once, before all loops."""
        self.lets.append(Let(variable, value.source.name, value.place))
        self.analysis.stands_for(variable, value)

    def accesses(self, space: IterationSpace) -> list[Accesses]:
        """Returns what each root reads for one element, and for those that are stored with it."""
        found = self._collected.get(space.index)
        if found is None:
            indices = [self.work.element_index(index) for index in self.work.together(space.index)]
            found = [self.analysis.collect(root, index) for index in indices for root in self.work.roots]
            self._collected[space.index] = found
        return found

    def expressions(self, space: IterationSpace) -> list[AffineExpr]:
        """Returns every expression that the loops of a space would have to evaluate."""
        found = [e for a in self.accesses(space) for e in (*a.offsets, *a.others)]
        found += [physical_offset(self.table, shape, space.index) for shape in self._result_shapes]
        return list(dict.fromkeys(found))

    def stored_offsets(self, space: IterationSpace) -> list[AffineExpr]:
        """Returns where in each result an element is stored."""
        place = self.work.place(space.index)
        return [physical_offset(self.table, shape, place) for shape in self._result_shapes]

    def offset(self, space: IterationSpace) -> AffineExpr:
        """Returns where an element lies among those that are looped over."""
        return physical_offset(self.table, self.work.shape, space.index)

    @cached_property
    def lanes(self) -> int:
        """Elements per vector, by the types at the kernel's boundary. Scalars, as indices are, do not count."""
        boundary = (*(leaf for leaf in self.view.leaves if leaf.shape.rank), *self.work.roots)
        kinds = [shape.element_type for i in boundary for _, shape in i.shape.leaves() if shape.is_array]
        return lanes_for(self.context.target, kinds)

    @property
    def narrowness(self) -> int:
        """How many times `lanes` elements are a vector register, where all there is are narrow integers."""
        target = self.context.target
        nodes = (*self.view.leaves, *self.view.instructions())
        kinds = {shape.element_type for i in nodes for _, shape in i.shape.leaves() if shape.rank}
        if not all(kind.is_integer or kind is PrimitiveType.PRED for kind in kinds):
            return 1
        widest = max((kind.byte_width for kind in kinds), default=4)
        return max(1, target.vector_bits // (8 * widest) // self.lanes)

    def schedule(self, kind: str, parts: Sequence[Part], suffix: str = "") -> Schedule:
        """Returns the schedule; its variables are numbered without gaps, in the order in which they were made."""
        traffic = self.count.read_bytes() + sum(
            part_of(shape, self.work.shape.num_elements) for shape in self._result_shapes
        )
        cost = Cost(self.count.operations, self.count.repeated, traffic)
        intervals = tuple(self.table.intervals)
        name = self.view.instruction.name
        threads = self.context.block_threads
        return renumber(Schedule(name, kind, intervals, tuple(parts), tuple(self.lets), suffix, cost, threads))
