"""The interpreter: runs functions of a module operation by operation, within a number of steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from xjit.linalg_ext.dialects.cf import branch_targets
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.evaluation.affine_ops import AFFINE_OPS
from xjit.linalg_ext.evaluation.constants import Resources, constant_elements
from xjit.linalg_ext.evaluation.control_ops import CONTROL_OPS, taken_target
from xjit.linalg_ext.evaluation.extension_ops import EXTENSION_OPS, evaluate_extension
from xjit.linalg_ext.evaluation.memref_ops import MEMREF_OPS
from xjit.linalg_ext.evaluation.packing_ops import PACKING_OPS
from xjit.linalg_ext.evaluation.scalar_ops import EXTENDED_OPS, SCALAR_OPS
from xjit.linalg_ext.evaluation.structured_ops import evaluate_pointwise
from xjit.linalg_ext.evaluation.tensor_ops import TENSOR_OPS
from xjit.linalg_ext.evaluation.values import Runtime, apply
from xjit.linalg_ext.ir.attributes import DenseAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.ir.types import MemRefType
from xjit.linalg_ext.structured import STRUCTURED_ROWS

__all__ = ["Handler", "Interpreter"]

Handler: TypeAlias = "Callable[[Interpreter, Operation, list[Runtime]], Sequence[Runtime]]"
"""Runs an operation: from its operands to its results."""

_MAX_CALLS = 100


class Interpreter:
    """State of a run: the values of the function that runs, and the steps that are left."""

    def __init__(self, module: Operation, step_limit: int, resources: Resources | None) -> None:
        self.module = module
        self.resources = resources
        self._step_limit = step_limit
        self._steps = 0
        self._values: dict[Value, Runtime] = {}
        self._globals: dict[str, Runtime] = {}
        self._loop_indices: list[Sequence[Any]] = []
        self._calls = 0

    def count_step(self, operation: Operation, steps: int = 1) -> None:
        """Raises LinalgError when more steps were done than allowed."""
        self._steps += steps
        if self._steps > self._step_limit:
            raise LinalgError(
                f"evaluation takes more than {self._step_limit} steps: stopped at '{operation.name}'",
                operation.location,
            )

    def value(self, value: Value) -> Runtime:
        return self._values[value]

    def function(self, name: str) -> Operation:
        """Returns a function by name; LinalgError if there is none, or if it has no body."""
        for op in self.module.body.operations:
            symbol = op.attributes.get("sym_name")
            if op.name == "func.func" and isinstance(symbol, StringAttr) and symbol.value == name:
                if not op.regions or not op.regions[0].blocks:
                    raise LinalgError(f"function @{name} has no body", op.location)
                return op
        raise LinalgError(f"the module has no function @{name}")

    def global_memref(self, name: str, user: Operation) -> Runtime:
        """Returns the buffer of a `memref.global`, one for the whole run; LinalgError if it has no elements."""
        for op in self.module.body.operations if name not in self._globals else ():
            value = op.attributes.get("initial_value")
            if op.name == "memref.global" and op.attributes.get("sym_name") == StringAttr(name):
                if not isinstance(value, DenseAttr):
                    raise LinalgError(f"global @{name} has no elements", op.location)
                constant = constant_elements(value, value.type, self.resources)
                self._globals[name] = constant.copy()
        if name not in self._globals:
            raise LinalgError(f"the module has no global @{name}", user.location)
        return self._globals[name]

    def call(self, function: Operation, arguments: Sequence[Runtime]) -> list[Runtime]:
        """Runs a function; its values are its own."""
        if self._calls >= _MAX_CALLS:
            raise LinalgError(f"calls are nested more than {_MAX_CALLS} deep", function.location)
        outer, self._values = self._values, {}
        self._calls += 1
        try:
            return self._run_blocks(function.regions[0].blocks[0], arguments)
        finally:
            self._calls -= 1
            self._values = outer

    def _run_blocks(self, block: Block, arguments: Sequence[Runtime]) -> list[Runtime]:
        """Runs blocks from the first one on, as their branches say; returns the operands of the last one's end."""
        while True:
            given = self.run_block(block, arguments)
            branch = block.last
            if branch is None or branch.dialect != "cf":
                return given
            self.count_step(branch)
            block, values = branch_targets(branch)[taken_target(branch, given)]
            arguments = [self.value(v) for v in values]

    def run_block(self, block: Block, arguments: Sequence[Runtime]) -> list[Runtime]:
        """Runs a block and returns the operands of its terminator."""
        values = self._values
        for argument, given in zip(block.arguments, arguments):
            values[argument] = given
        operations = block.operations
        if not operations:
            return []
        last = operations[-1]
        for op in operations if not _is_terminator(last) else operations[:-1]:
            self._run(op)
        return [values[v] for v in last.operands] if _is_terminator(last) else []

    def _run(self, op: Operation) -> None:
        self.count_step(op)
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise LinalgError(f"cannot evaluate '{op.name}'", op.location)
        values = self._values
        results = handler(self, op, [values[v] for v in op.operands])
        for result, value in zip(op.results, results, strict=True):
            values[result] = value

    @contextmanager
    def loop_indices(self, indices: Sequence[Any]) -> Generator[None]:
        """Says where the loops of a structured op are, for `linalg.index`."""
        self._loop_indices.append(indices)
        try:
            yield
        finally:
            self._loop_indices.pop()

    def loop_index(self, loop: int) -> Any:
        return self._loop_indices[-1][loop]


def _is_terminator(op: Operation) -> bool:
    return has_trait(op, "terminator") and op.name != "scf.reduce"


def _scalar(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    function = SCALAR_OPS[op.name]
    return [apply(lambda *elements: function(op, *elements), *operands)]


def _extended(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    function = EXTENDED_OPS[op.name]
    return [apply(lambda *elements, i=i: function(op, *elements)[i], *operands) for i in range(2)]


def _select(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    """One of two buffers is that buffer, not a copy."""
    if isinstance(op.result.type, MemRefType):
        return [operands[1 if operands[0] else 2]]
    return _scalar(interpreter, op, operands)


def _constant(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    return [constant_elements(op.attributes["value"], op.result.type, interpreter.resources)]


def _index(interpreter: Interpreter, op: Operation, operands: list[Runtime]) -> list[Runtime]:
    loop = op.attributes["dim"]
    assert isinstance(loop, IntegerAttr)
    return [np.asarray(interpreter.loop_index(loop.value), np.int64)]


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(SCALAR_OPS, _scalar),
    **dict.fromkeys(EXTENDED_OPS, _extended),
    "arith.select": _select,
    **{name: evaluate_pointwise for name, row in STRUCTURED_ROWS.items() if row.pointwise},
    **dict.fromkeys(EXTENSION_OPS, evaluate_extension),
    **TENSOR_OPS,
    **PACKING_OPS,
    **MEMREF_OPS,
    **CONTROL_OPS,
    **AFFINE_OPS,
    **dict.fromkeys(("arith.constant", "index.constant"), _constant),
    "linalg.index": _index,
}
"""What runs each operation; terminators are run by what contains them."""
