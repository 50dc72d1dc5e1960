"""Pointwise structured ops: `generic` and the named ops.

The body is applied to whole arrays in the space of the loops. Loops that an output does not name are reduced: by
`dot` or `convolution`, by `reduce`, or, for any other body, in a while loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.structured import STRUCTURED_ROWS, Access, StructuredOp, structured
from xjit.linalg_ext.structured.creation import is_filled_with
from xjit.linalg_ext.to_hlo.accesses import loop_of, over_loops, plain_loops
from xjit.linalg_ext.to_hlo.affine_ops import AFFINE_HANDLERS
from xjit.linalg_ext.to_hlo.combiners import combined_terms, depends_on, neutral_element
from xjit.linalg_ext.to_hlo.loops import while_loop
from xjit.linalg_ext.to_hlo.products import product_over_loops
from xjit.linalg_ext.to_hlo.scalars import SCALAR_HANDLERS
from xjit.linalg_ext.to_hlo.scope import Handler, Lowered, Scope, is_terminator
from xjit.ops.build import make_binary_computation, make_reduce

__all__ = ["POINTWISE_HANDLERS"]


class _Pointwise:
    """One op that is written: its operands as arrays, its loops."""

    def __init__(self, scope: Scope, operation: Operation) -> None:
        self.scope, self.writer = scope, scope.writer
        self.op = structured(operation)
        self.arrays = [scope.array(v) for v in self.op.operands]
        self.sizes = tuple(self.arrays[number].shape.dimensions[axis] for number, axis in self.op.loop_sources)
        self.count = len(self.op.inputs)
        self.inits = frozenset(self.op.body.arguments[self.count :])
        self._check_body()

    def _check_body(self) -> None:
        """The body is written for all iterations at once."""
        for inner in self.op.body.operations:
            known = inner.name in SCALAR_HANDLERS or inner.name in AFFINE_HANDLERS or inner.name == "tensor.extract"
            if not known and not is_terminator(inner):
                message = f"cannot compile '{inner.name}' in the body of '{self.op.operation.name}'"
                raise LinalgError(message, inner.location)

    def output_loops(self, number: int) -> list[int]:
        """The loops that output `number` names, in the order of its dimensions."""
        loops = plain_loops(self.op.accesses[self.count + number])
        if loops is None:
            raise LinalgError(
                f"cannot compile '{self.op.operation.name}': output {number} is written at indices that are no loops",
                self.op.operation.location,
            )
        return loops

    def missing_loops(self, number: int) -> list[int]:
        named = self.output_loops(number)
        return [loop for loop in range(len(self.sizes)) if loop not in named]

    @cached_property
    def operands_over_loops(self) -> list[HloInstruction]:
        """What each iteration reads, whole arrays: made where the body is applied, for what the body uses."""
        return [
            over_loops(self.writer, array, access, self.sizes) if argument.has_uses else array
            for array, access, argument in zip(self.arrays, self.op.accesses, self.op.body.arguments)
        ]

    @cached_property
    def body_is_written(self) -> bool:
        """Writes the body once, over all loops; values of the body are then in the scope."""
        indices: list[HloInstruction] = []
        if self.op.has_index_semantics:
            axes = range(len(self.sizes))
            indices = [self.writer.iota(PrimitiveType.S64, self.sizes, axis) for axis in axes]
        run_body(self.scope, self.op, self.operands_over_loops, indices)
        return True

    def over_all_loops(self, value: Value) -> HloInstruction:
        """A value of the body, or around it, at each iteration."""
        assert self.body_is_written
        array = self.scope.array(value)
        return array if array.shape.rank or not self.sizes else self.writer.broadcast(array, self.sizes)

    def results(self) -> list[Lowered]:
        """Writes the op."""
        numbers = range(len(self.op.inits))
        if all(self._is_simple(number) for number in numbers):
            return [self._simple_result(number) for number in numbers]
        return list(_serial_results(self))

    def _is_simple(self, number: int) -> bool:
        """Whether an output is its init joined with what does not depend on any init, or does not read them."""
        return not self.missing_loops(number) or self._reads_no_init(number) or self._terms(number) is not None

    def _reads_no_init(self, number: int) -> bool:
        return not depends_on(self.op.yielded[number], self.inits, self.op.body)

    def _terms(self, number: int) -> tuple[str, list[Value]] | None:
        argument = self.op.body.arguments[self.count + number] if self.inits else None
        if argument is None:
            return None
        return combined_terms(self.op.yielded[number], argument, self.inits, self.op.body)

    def _simple_result(self, number: int) -> HloInstruction:
        missing = self.missing_loops(number)
        yielded = self.op.yielded[number]
        if not missing:
            return self._placed(number, self.over_all_loops(yielded))
        if any(self.sizes[loop] == 0 for loop in missing):
            return self.arrays[self.count + number]
        if self._reads_no_init(number):
            return self._placed(number, self._last(self.over_all_loops(yielded), missing))
        found = self._terms(number)
        assert found is not None
        opcode, terms = found
        parts = [self._reduced(number, opcode, term) for term in terms]
        if not is_filled_with(self.op.inits[number], neutral_element(opcode, terms[0].type)):
            parts.insert(0, self._init_part(number))
        return self._into_init(number, reduce(lambda a, b: self.writer.make(opcode, a, b), parts))

    def _reduced(self, number: int, opcode: str, term: Value) -> HloInstruction:
        """The term of all iterations joined, in the shape of the output's part."""
        missing = self.missing_loops(number)
        loops = self.output_loops(number)
        if opcode == "add":
            product = product_over_loops(self.writer, self.op, self.arrays, self.sizes, term, loops)
            if product is not None:
                return self.writer.reshape(product, self._part_shape(number))
        array = self.over_all_loops(term)
        kind = array.shape.element_type
        reducer = self.writer.module.add_embedded_computation(make_binary_computation(opcode, kind))
        neutral = self.writer.constant(neutral_element(opcode, term.type), kind)
        return self._arranged(number, self.writer.add(make_reduce(array, neutral, missing, reducer)))

    def _last(self, array: HloInstruction, missing: Sequence[int]) -> HloInstruction:
        """The values of the last iteration of some loops."""
        starts = [n - 1 if loop in missing else 0 for loop, n in enumerate(self.sizes)]
        part = self.writer.slice(array, starts, self.sizes)
        return self.writer.reshape(part, [n for loop, n in enumerate(self.sizes) if loop not in missing])

    def _placed(self, number: int, array: HloInstruction) -> HloInstruction:
        return self._into_init(number, self._arranged(number, array))

    def _arranged(self, number: int, array: HloInstruction) -> HloInstruction:
        """An array over the output's loops, in their own order, as the part of the output that is written."""
        loops = self.output_loops(number)
        ordered = sorted(loops)
        return self.writer.reshape(
            self.writer.transpose(array, [ordered.index(loop) for loop in loops]), self._part_shape(number)
        )

    def _access(self, number: int) -> Access:
        return self.op.accesses[self.count + number]

    def _part_shape(self, number: int) -> list[int]:
        """Constant indices write one element."""
        loops = [loop_of(e) for e in self._access(number)]
        return [1 if loop is None else self.sizes[loop] for loop in loops]

    def _part_starts(self, number: int) -> list[int]:
        return [e.value if e is not None and loop_of(e) is None else 0 for e in self._access(number)]

    def _init_part(self, number: int) -> HloInstruction:
        init, shape, starts = self.arrays[self.count + number], self._part_shape(number), self._part_starts(number)
        if init.shape.dimensions == tuple(shape):
            return init
        return self.writer.slice(init, starts, [a + n for a, n in zip(starts, shape)])

    def _into_init(self, number: int, part: HloInstruction) -> HloInstruction:
        """What no iteration writes stays as it was."""
        init = self.arrays[self.count + number]
        if init.shape.dimensions == part.shape.dimensions:
            return part
        starts = [self.writer.constant(start, PrimitiveType.S64) for start in self._part_starts(number)]
        return self.writer.make("dynamic-update-slice", init, part, *starts)


def run_body(
    scope: Scope, op: StructuredOp, operands: Sequence[Lowered], indices: Sequence[HloInstruction]
) -> list[Lowered]:
    """Writes a body once for arrays of elements; `indices` are the loop variables as such arrays."""
    outer, scope.loop_indices = scope.loop_indices, indices
    try:
        return scope.run(op.body, operands)
    finally:
        scope.loop_indices = outer


def _serial_results(work: _Pointwise) -> list[HloInstruction]:
    """Runs the loops that some output does not name one by one, in order, the others at once.

    Operands and outputs are brought to the space of all loops that they take part in, serial ones first.
    """
    writer, op, sizes = work.writer, work.op, work.sizes
    outputs = range(len(op.inits))
    serial = sorted({loop for number in outputs for loop in work.missing_loops(number)})
    if any(work.missing_loops(number) != serial for number in outputs) or any(
        work._init_part(number).shape.dimensions != work.arrays[work.count + number].shape.dimensions
        for number in outputs
    ):
        message = f"cannot compile '{op.operation.name}': its outputs leave out different loops, or are written in part"
        raise LinalgError(message, op.operation.location)
    vector = [loop for loop in range(len(sizes)) if loop not in serial]
    order = [*serial, *vector]
    space = [sizes[loop] for loop in vector]
    count = 1
    for loop in serial:
        count *= sizes[loop]
    arguments = op.body.arguments
    inputs = [writer.shaped_alike(x)[0] for x in work.operands_over_loops[: work.count]]
    indices = (
        [writer.iota(PrimitiveType.S64, sizes, axis) for axis in range(len(sizes))] if op.has_index_semantics else []
    )

    def lines(x: HloInstruction) -> HloInstruction:
        """One line per serial iteration."""
        return writer.reshape(writer.transpose(x, order), [count, *space]) if x.shape.rank else x

    used = [
        lines(x) if argument.has_uses else writer.constant(0, x.shape.element_type)
        for x, argument in zip(inputs, arguments)
    ]
    state = [*(_in_loop_order(work, number) for number in outputs), *used, *(lines(x) for x in indices)]

    def step(body: Scope, counter: HloInstruction, given: list[HloInstruction]) -> list[HloInstruction]:
        def line(x: HloInstruction) -> HloInstruction:
            if not x.shape.rank:
                return x
            zeros = [body.writer.constant(0, PrimitiveType.S64)] * len(space)
            return body.writer.reshape(body.writer.dynamic_slice(x, [counter, *zeros], [1, *space]), space)

        totals, rest = given[: len(outputs)], given[len(outputs) :]
        elements = [line(x) for x in rest[: len(used)]]
        values = run_body(body, op, [*elements, *totals], [line(x) for x in rest[len(used) :]])
        new = [body.materialized(x, v) for x, v in zip(values, op.yielded)]
        return [*(x if x.shape.rank or not space else body.writer.broadcast(x, space) for x in new), *rest]

    results = while_loop(work.scope, op.operation, (0, count, 1), state, step)[: len(outputs)]
    return [work._placed(number, x) for number, x in zip(outputs, results)]


def _in_loop_order(work: _Pointwise, number: int) -> HloInstruction:
    """An init with its dimensions in the order of the loops."""
    loops = work.output_loops(number)
    init = work.writer.reshape(work.arrays[work.count + number], [work.sizes[loop] for loop in loops])
    return work.writer.transpose(init, sorted(range(len(loops)), key=lambda i: loops[i]))


def _pointwise(scope: Scope, operation: Operation) -> list[Lowered]:
    return _Pointwise(scope, operation).results()


POINTWISE_HANDLERS: dict[str, Handler] = {name: _pointwise for name, row in STRUCTURED_ROWS.items() if row.pointwise}
