"""Multiplies all slices of an array before a loop, in one dot, instead of one slice in each trip."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import accumulate, takewhile

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import counted_loop, initial_value
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.loops.loop_state import loops_to_change, passes_through, resize

MAX_ROWS = 64
"""Rows of a slice. With more, the dot in the loop does not spend its time on reading or packing the other operand."""
MAX_BYTES = 64 << 20
"""Of a loop's products of all slices, which are kept until it ends."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A dot of the body whose operand number `side` is slice `dynamic_slice` of element `stack` of the state, without
    its dimension `dimension`; the other operand is element `other`.
    """

    dot: HloInstruction
    side: int
    dynamic_slice: HloInstruction
    dimension: int
    stack: int
    other: int

    @property
    def rows(self) -> tuple[int, ...]:
        """The dimensions of the sliced operand that the result has, but batch dimensions."""
        a = self.dot.attributes_as(at.DotAttributes)
        gone = (
            (*a.rhs_batch_dims, *a.rhs_contracting_dims) if self.side else (*a.lhs_batch_dims, *a.lhs_contracting_dims)
        )
        return tuple(d for d in range(self.dot.operand(self.side).shape.rank) if d not in gone)

    @property
    def place(self) -> int:
        """The dimension of the whole product that counts the slices."""
        before = sum(d < self.dimension for d in self.rows)
        a = self.dot.attributes_as(at.DotAttributes)
        if not self.side:
            return len(a.lhs_batch_dims) + before
        return self.dot.shape.rank - len(self.rows) + before

    @property
    def num_slices(self) -> int:
        """Into how many slices the stack is cut."""
        return self.dynamic_slice.operand(0).shape.dimensions[self.dimension]

    @property
    def byte_size(self) -> int:
        """Of the product of all slices."""
        return self.num_slices * self.dot.shape.byte_size


@dataclass
class WhileLoopDotHoisting(HloModulePass):
    """Takes dots of a slice and of an invariant out of counted loops that go through all slices: the products of the
    inputs of a recurrent network, say. The loop slices the product of the whole array."""

    name = "while-loop-dot-hoisting"
    opcodes = frozenset({"while"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Hoists out of inner loops first; True if a loop changed."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            if _products(loop):
                own_computations(loop)
                _hoist(loop, _products(loop))  # of the body that is the loop's own now
                changed = True
        return changed


def _products(loop: HloInstruction) -> list[_Product]:
    counted = counted_loop(loop)
    if counted is None or loop.while_init.opcode != "tuple":
        return []
    dots = [i for i in loop.while_body.instructions if i.opcode == "dot" and i.operand_count == 2]
    found = [_product(loop, dot, side) for dot in dots for side in (0, 1)]
    products = [p for p in found if p is not None and _gains(p, counted.trip_count)]
    kept = takewhile(lambda total: total <= MAX_BYTES, accumulate(p.byte_size for p in products))
    return products[: len(list(kept))]


def _product(loop: HloInstruction, dot: HloInstruction, side: int) -> _Product | None:
    other = _invariant(loop, dot.operand(1 - side))
    part = dot.operand(side)
    if part.opcode != "reshape" or other is None or has_control_dependencies(dot) or dot.sharding is not None:
        return None
    dynamic_slice = part.operand(0)
    if dynamic_slice.opcode != "dynamic-slice" or not dot.shape.is_static or has_control_dependencies(dynamic_slice):
        return None
    stack, dims = _invariant(loop, dynamic_slice.operand(0)), dynamic_slice.operand(0).shape.dimensions
    cut = [d for d, (size, whole) in enumerate(zip(dynamic_slice.shape.dimensions, dims, strict=True)) if size != whole]
    if stack is None or len(cut) != 1 or not all(i.shape.is_scalar for i in dynamic_slice.operands[1:]):
        return None  # or its indices are one vector
    (dimension,) = cut
    if part.shape.dimensions != (*dims[:dimension], *dims[dimension + 1 :]):
        return None
    return _Product(dot, side, dynamic_slice, dimension, stack, other)


def _invariant(loop: HloInstruction, value: HloInstruction) -> int | None:
    """Which element of the state, that passes through, a value of the body is."""
    state = loop.while_body.parameter_instructions[0]
    if value.opcode != "get-tuple-element" or value.operand(0) is not state:
        return None
    index = element_index(value)
    return index if passes_through(loop, index) else None


def _gains(product: _Product, trips: int) -> bool:
    """Whether slices have few rows, and the loop multiplies as many as there are."""
    rows, dot = 1, product.dot
    for d in product.rows:
        rows *= dot.operand(product.side).shape.dimensions[d]
    return rows <= MAX_ROWS and product.num_slices <= trips


def _hoist(loop: HloInstruction, products: list[_Product]) -> None:
    """Lets the state carry the whole products behind all other elements."""
    count = len(loop.shape.tuple_shapes)
    added: list[HloInstruction] = []
    for product in products:
        whole = _whole(loop, product)
        read = HloInstruction.create(
            "get-tuple-element",
            whole.shape,
            [loop.while_body.parameter_instructions[0]],
            at.GetTupleElementAttributes(count + len(added)),
            name=whole.name,
        )
        loop.while_body.add_instruction(read)
        _slice_product(product, read)
        added.append(whole)
    resize(loop, range(count), added)


def _whole(loop: HloInstruction, product: _Product) -> HloInstruction:
    """Multiplies all slices, in front of the loop."""
    dot, skipped = product.dot, product.dimension
    operands = [initial_value(loop, product.stack), initial_value(loop, product.other)]
    lhs, rhs = reversed(operands) if product.side else operands
    assert lhs is not None and rhs is not None and loop.parent is not None
    a = dot.attributes_as(at.DotAttributes)

    def moved(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d + (d >= skipped) for d in dims)

    if product.side:
        a = replace(a, rhs_batch_dims=moved(a.rhs_batch_dims), rhs_contracting_dims=moved(a.rhs_contracting_dims))
    else:
        a = replace(a, lhs_batch_dims=moved(a.lhs_batch_dims), lhs_contracting_dims=moved(a.lhs_contracting_dims))
    dims, place = dot.shape.dimensions, product.place
    shape = Shape.array(dot.shape.element_type, (*dims[:place], product.num_slices, *dims[place:]))
    whole = loop.parent.add_instruction(build.make("dot", lhs, rhs, attributes=a, shape=shape))
    whole.metadata, whole.place = dot.metadata, dot.place
    return whole


def _slice_product(product: _Product, whole: HloInstruction) -> None:
    """Puts a slice of the whole product in the place of the dot."""
    into = Expansion(product.dot)
    start = product.dynamic_slice.operand(1 + product.dimension)
    zero = into.add(build.make_constant(0, start.shape.element_type))
    place, dims = product.place, whole.shape.dimensions
    starts = [start if d == place else zero for d in range(len(dims))]
    sizes = tuple(1 if d == place else size for d, size in enumerate(dims))
    part = into.make("dynamic-slice", whole, *starts, attributes=at.DynamicSliceAttributes(sizes))
    into.replace_source(into.add(build.reshape(part, product.dot.shape.dimensions)))
