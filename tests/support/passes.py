"""What every pass is tested with: translation validation, the changed bit, idempotence, structural equality."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xjit.hlo import HloComputation, HloModule, Shape
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.layout import tile_array, untile_array
from xjit.ops.evaluation import evaluate
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.table import EVALUATORS
from xjit.ops.verifier import verify_module
from xjit.passes.analysis.forwarding import forwards
from xjit.passes.analysis.linear_order import CALLS
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.text.parser import parse_hlo
from xjit.thunks.buffer_slice import BufferSlice


def random_value(shape: Shape, rng: np.random.Generator) -> Any:
    """Returns small random values of a shape (tuples for tuples, None for tokens)."""
    if shape.is_tuple:
        return tuple(random_value(s, rng) for s in shape.tuple_shapes)
    if not shape.is_array:
        return None
    if shape.element_type.is_integer or shape.element_type.text == "pred":
        return rng.integers(0, 2 if shape.element_type.text == "pred" else 4, shape.dimensions).astype(shape.dtype)
    return rng.uniform(-2, 2, shape.dimensions).astype(shape.dtype)


def random_arguments(module: HloModule, seed: int = 0) -> list[Any]:
    """Returns one random argument per entry parameter."""
    rng = np.random.default_rng(seed)
    return [random_value(p.shape, rng) for p in module.entry_computation.parameter_instructions]


def leaves(value: Any) -> list[np.ndarray]:
    """Returns the arrays of a nested tuple, left to right."""
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [] if value is None else [value]


def assert_same_values(got: Any, expected: Any) -> None:
    """Compares nested results bit by bit (a NaN equals a NaN)."""
    a, b = leaves(got), leaves(expected)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        same = (x == y) | ((x != x) & (y != y))
        assert bool(np.all(same)), f"{x} != {y}"


def check_pass(item: HloModulePass, before: str, after: str | None = None) -> HloModule:
    """Runs a pass on a text and checks all that must hold of any pass; returns the module.

    `after` is the expected module up to names and order; None means that the pass must not change anything.
    """
    module = parse_hlo(before)
    verify_module(module)
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    fingerprint = module_fingerprint(module)
    changed = item.run(module)
    assert changed == (module_fingerprint(module) != fingerprint), "the returned bit is wrong"
    verify_module(module)
    assert_same_values(evaluate(module, *arguments), expected)
    assert changed == (after is not None)
    if after is not None:
        assert structure(module) == structure(parse_hlo(after)), describe(module)
    settled = module_fingerprint(module)
    assert not item.run(module), "the second run changed something"
    assert module_fingerprint(module) == settled
    return module


def describe(module: HloModule) -> str:
    """Returns a readable listing."""
    lines: list[str] = []
    for computation in module.computations():
        lines.append(computation.name)
        lines += [f"  {'ROOT ' if i.is_root() else ''}{i!r}" for i in computation.instructions]
    return "\n".join(lines)


def structure(module: HloModule) -> tuple[Hashable, int]:
    """Returns what two modules share if they are equal up to names, order and layouts."""
    known: dict[HloComputation, tuple[Hashable, int]] = {}
    numbers: dict[Hashable, Hashable] = {}
    for computation in module.make_computation_post_order():
        keys: dict[Any, Hashable] = {}
        for i in computation.make_instruction_post_order():
            operands = tuple(keys[o] for o in i.operands)
            called = tuple(known[c] for c in i.called_computations)
            key = (i.opcode, i.shape.to_string(layout=False), repr_attributes(i), operands, called)
            keys[i] = numbers.setdefault(key, key)
        known[computation] = (keys[computation.root_instruction], computation.instruction_count)
    return known[module.entry_computation]


def repr_attributes(instruction: Any) -> str:
    """Returns the attributes as text; literals by value."""
    if instruction.opcode == "constant":
        return instruction.literal.digest().hex()
    return repr(instruction.attributes)


def count(module: HloModule, opcode: str, fused: bool = True) -> int:
    """Returns how many instructions of an opcode a module has."""
    computations = module.computations() if fused else module.make_nonfusion_computations()
    return sum(1 for c in computations for i in c.instructions if i.opcode == opcode)


def in_memory(array: Any, shape: Shape) -> np.ndarray:
    """Returns the bytes of an array in the order of the shape's layout."""
    return np.ascontiguousarray(tile_array(np.asarray(array), shape.layout)).reshape(-1).view(np.uint8)


def from_memory(data: np.ndarray, shape: Shape) -> np.ndarray:
    """Returns a copy of the array whose bytes lie in the order of the shape's layout."""
    return np.array(untile_array(data.view(shape.dtype), shape))


class BufferMachine:
    """Executes a buffer assignment on real memory, instruction by instruction: wrong sharing gives wrong numbers."""

    def __init__(self, assignment: BufferAssignment, arguments: Sequence[Any]) -> None:
        self.assignment = assignment
        self.interpreter = Interpreter()
        self.arena = np.full(assignment.arena_size, 0xA5, np.uint8)
        shapes = [
            shape for p in assignment.module.entry_computation.parameter_instructions for _, shape in p.shape.leaves()
        ]
        self.parameters = [in_memory(a, s) for a, s in zip(leaves(tuple(arguments)), shapes, strict=True)]
        self.results: dict[int, np.ndarray] = {}

    def run(self) -> list[np.ndarray]:
        """Returns the result leaves."""
        entry = self.assignment.module.entry_computation
        with np.errstate(all="ignore"):
            self._run_computation(entry)
        root = entry.root_instruction
        pairs = zip(root.shape.leaves(), self.assignment.leaf_slices(root), strict=True)
        return [self._load(s, shape) for (_, shape), s in pairs if s.kind != "none"]

    def _bytes(self, where: BufferSlice) -> np.ndarray:
        if where.kind == "arena":
            return self.arena[where.offset : where.offset + where.size]
        assert where.kind == "result"
        return self.results.setdefault(where.index, np.full(where.size, 0x5A, np.uint8))

    def _load(self, where: BufferSlice, shape: Shape) -> Any:
        if where.kind == "none":
            return None
        if where.kind == "parameter":
            return from_memory(self.parameters[where.index], shape)
        if where.kind == "constant":
            return from_memory(in_memory(self.assignment.constants[where.index].array, shape), shape)
        return from_memory(self._bytes(where), shape)

    def _value(self, instruction: Any) -> Any:
        slices = iter(self.assignment.leaf_slices(instruction))
        return self._nest(instruction.shape, slices)

    def _nest(self, shape: Shape, slices: Any) -> Any:
        if shape.is_tuple:
            return tuple(self._nest(s, slices) for s in shape.tuple_shapes)
        return self._load(next(slices), shape)

    def _run_computation(self, computation: HloComputation) -> None:
        for instruction in self.assignment.sequence(computation):
            self._run(instruction)

    def _run(self, instruction: Any) -> None:
        if forwards(instruction) or instruction.opcode in ("parameter", "constant"):
            return
        if instruction.opcode == "while":
            self._run_computation(instruction.while_condition)
            while bool(self._value(instruction.while_condition.root_instruction)):
                self._run_computation(instruction.while_body)
                self._run_computation(instruction.while_condition)
        elif instruction.opcode in CALLS:
            self._run_computation(instruction.called_computations[self._branch(instruction)])
        else:
            value = EVALUATORS[instruction.opcode](
                self.interpreter, instruction, [self._value(o) for o in instruction.operands]
            )
            places = zip(self.assignment.leaf_slices(instruction), instruction.shape.leaves(), strict=True)
            kept = [(where, shape) for where, (_, shape) in places if where.kind != "none"]
            for (where, shape), array in zip(kept, leaves(value), strict=True):
                if where.size:
                    self._bytes(where)[:] = in_memory(array, shape)

    def _branch(self, instruction: Any) -> int:
        if instruction.opcode != "conditional":
            return 0
        index = self._value(instruction.operand(0))
        count = len(instruction.called_computations)
        if index.dtype == np.bool_:
            return 0 if bool(index) else 1
        return int(index) if 0 <= int(index) < count else count - 1
