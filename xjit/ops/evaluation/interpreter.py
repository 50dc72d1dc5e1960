"""`Interpreter`: runs a computation instruction by instruction on NumPy arrays.

Values are arrays in logical order (layouts do not matter), tuples of values, and None for tokens. Instructions run in
post order without recursion; a value is dropped after its last reader. An array of a bounded dynamic dimension has its
actual size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.cached_property import cached_property
from xjit.hlo.diagnostics import HloError, InvalidArgument, Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.post_order import post_order
from xjit.hlo.types.python_numbers import PYTHON_NUMBERS, python_number_as_array
from xjit.hlo.types.shape import Shape
from xjit.ops.evaluation.devices import Device, run_devices
from xjit.ops.evaluation.numerics import Array, Value, flush
from xjit.ops.evaluation.table import EVALUATORS, UNSUPPORTED
from xjit.ops.replica_groups import device_count

_MAX_DEPTH = 180  # nested computations; Python's stack holds a little more

_SCALAR_OPCODES = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "call", "fusion", "map", "broadcast", "reshape", "bitcast"]
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A computation's order; `dead_after[i]` are the instructions whose last reader is the i-th."""

    order: tuple[HloInstruction, ...]
    dead_after: tuple[tuple[HloInstruction, ...], ...]


@dataclass
class Interpreter:
    """Evaluates computations. Keeps no values between calls except the state of the random generators.

    A loop that runs more than `max_loop_iterations` times (None: any number) is an ExecutionError.
    """

    ftz: bool = True
    seed: int = 0
    max_loop_iterations: int | None = None
    rng_state: int = 0x7012395  # of rng-get-and-update-state
    depth: int = 0
    device: Device = field(default_factory=Device)
    _plans: dict[HloComputation, _Plan] = field(default_factory=dict, init=False)
    _elementwise: dict[HloComputation, bool] = field(default_factory=dict, init=False)

    @cached_property
    def generator(self) -> np.random.Generator:
        """Random numbers, made when they are first asked for: that takes longer than to evaluate a few numbers."""
        return np.random.default_rng(self.seed)

    def flush(self, x: Array) -> Array:
        """Returns `x` with subnormals flushed to zero if this interpreter does that."""
        return flush(x) if self.ftz else x

    def call(self, computation: HloComputation, *arguments: Value) -> Value:
        """Returns the value of a computation's root. The root's shape is checked."""
        return self._run(computation, arguments, check=True)

    def evaluate_with_substitutions(
        self, instructions: Sequence[HloInstruction], substitutions: Mapping[HloInstruction, Value]
    ) -> list[Value]:
        """Returns the values of instructions of one computation, given those of others that they are computed of.

        InvalidArgument if a parameter is needed and not given.
        """
        values = dict(substitutions)
        for instruction in post_order(instructions, lambda i: () if i in substitutions else i.operands):
            if instruction in values:
                continue
            if instruction.opcode == "parameter":
                raise InvalidArgument(f"parameter {instruction.name} has no value", instruction.span)
            values[instruction] = self._evaluate(instruction, [values[o] for o in instruction.operands])
        return [values[instruction] for instruction in instructions]

    def call_elementwise(self, computation: HloComputation, *arguments: Array) -> Value:
        """Applies a computation on scalars to every element of arrays of one shape (or scalars among them).

        Returns one array, or a tuple of arrays, of that shape. Computations of elementwise instructions run once on
        whole arrays, others once per element.
        """
        shape = np.broadcast_shapes(*(a.shape for a in arguments))
        if self.is_elementwise(computation):
            result = self._run(computation, arguments, check=False)
            if isinstance(result, tuple):
                return tuple(np.broadcast_to(r, shape) for r in result)
            return np.broadcast_to(result, shape)
        return self._call_each(computation, shape, [np.broadcast_to(a, shape) for a in arguments])

    def is_elementwise(self, computation: HloComputation) -> bool:
        """Whether a computation on scalars can run on arrays instead, element by element."""
        known = self._elementwise.get(computation)
        if known is None:
            known = self._elementwise[computation] = all(self._is_scalar_op(i) for i in computation.instructions)
        return known

    def _is_scalar_op(self, instruction: HloInstruction) -> bool:
        shapes = instruction.shape.tuple_shapes if instruction.opcode != "parameter" else ()
        if not all(s.is_scalar for s in shapes or (instruction.shape,)):
            return False
        if not instruction.op.has(Trait.ELEMENTWISE) and instruction.opcode not in _SCALAR_OPCODES:
            return False
        return all(self.is_elementwise(c) for c in instruction.called_computations)

    def _call_each(self, computation: HloComputation, shape: tuple[int, ...], arguments: list[Array]) -> Value:
        root = computation.root_instruction.shape
        leaves = root.tuple_shapes if root.is_tuple else (root,)
        results = [np.empty(shape, leaf.dtype) for leaf in leaves]
        for index in np.ndindex(*shape):
            value = self.call(computation, *(np.asarray(a[index]) for a in arguments))
            for result, item in zip(results, value if root.is_tuple else (value,)):
                result[index] = item
        return tuple(results) if root.is_tuple else results[0]

    def _run(self, computation: HloComputation, arguments: Sequence[Value], check: bool) -> Value:
        if self.depth >= _MAX_DEPTH:
            raise Unsupported(f"computations nested more than {_MAX_DEPTH} deep, at {computation.name}")
        self.depth += 1
        try:
            return self._run_plan(self._plan(computation), computation, arguments, check)
        finally:
            self.depth -= 1

    def _run_plan(self, plan: _Plan, computation: HloComputation, arguments: Sequence[Value], check: bool) -> Value:
        values: dict[HloInstruction, Value] = {}
        for instruction, dead in zip(plan.order, plan.dead_after):
            if instruction.opcode == "parameter":
                value = self._evaluate(instruction, arguments)
            else:
                value = self._evaluate(instruction, [values[o] for o in instruction.operands])
            if check:
                _check_value(instruction, value)
            values[instruction] = value
            del value
            for item in dead:
                del values[item]
        return values[computation.root_instruction]

    def _evaluate(self, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
        evaluator = EVALUATORS.get(instruction.opcode)
        try:
            if evaluator is None:
                reason = UNSUPPORTED.get(instruction.opcode, "there is no rule for it")
                raise Unsupported(f"the reference evaluator does not support {instruction.opcode}: {reason}")
            value = evaluator(self, instruction, operands)
            if isinstance(value, np.generic):  # NumPy's results of rank 0
                value = np.asarray(value)
            return _rounded(instruction, value) if isinstance(value, np.ndarray) else value
        except HloError as error:
            if error.span is None:
                error.span = instruction.span
            raise
        except Exception as error:
            error.add_note(f"while evaluating {instruction!r}")
            raise

    def _plan(self, computation: HloComputation) -> _Plan:
        plan = self._plans.get(computation)
        if plan is None:
            plan = self._plans[computation] = _make_plan(computation)
        return plan


def _make_plan(computation: HloComputation) -> _Plan:
    order = computation.make_instruction_post_order()
    last_reader: dict[HloInstruction, int] = {}
    for i, instruction in enumerate(order):
        last_reader[instruction] = i
        for operand in instruction.operands:
            last_reader[operand] = i
    dead: list[list[HloInstruction]] = [[] for _ in order]
    for instruction, i in last_reader.items():
        if instruction is not computation.root_instruction:
            dead[i].append(instruction)
    return _Plan(tuple(order), tuple(tuple(d) for d in dead))


def _rounded(instruction: HloInstruction, value: Array) -> Array:
    """Rounds what came out in the precision of an operand to the precision that the instruction declares."""
    shape = instruction.shape
    if not shape.is_array or value.dtype == shape.dtype or not shape.element_type.is_float:
        return value
    floats = {o.shape.dtype for o in instruction.operands if o.shape.is_array and o.shape.element_type.is_float}
    return value.astype(shape.dtype) if value.dtype in floats else value


def _check_value(instruction: HloInstruction, value: Value) -> None:
    """Internal check: every value has the shape and type that its instruction declares."""
    if mismatch := _mismatch(instruction.shape, value):
        raise AssertionError(f"{instruction!r} evaluated to {mismatch}")


def _mismatch(shape: Shape, value: Value) -> str:
    if shape.is_tuple:
        if not isinstance(value, tuple) or len(value) != len(shape.tuple_shapes):
            return "something that is not a tuple of that many elements"
        return next((m for s, v in zip(shape.tuple_shapes, value) if (m := _mismatch(s, v))), "")
    if not shape.is_array:
        return ""
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    dynamic = shape.dynamic_dimensions or (False,) * shape.rank
    fits = value.ndim == shape.rank and all(
        n <= d if dyn else n == d for n, d, dyn in zip(value.shape, shape.dimensions, dynamic)
    )
    if fits and value.dtype == shape.dtype:
        return ""
    return f"{value.dtype}{list(value.shape)}"


def evaluate(module: HloModule, *arguments: Any, ftz: bool = True, seed: int = 0) -> Value:
    """Runs the entry computation on NumPy arrays (nested tuples for tuple parameters) and returns its result.

    Returns an array of the root's type and shape, or nested tuples, () for tokens; the arrays are the caller's own.
    `ftz` flushes subnormals as XLA:CPU does; `seed` feeds `rng`. For a module of several devices the only argument is
    a list with the arguments of each, and so is the result: see `evaluate_devices`. Raises InvalidArgument if the
    arguments do not fit the parameters, Unsupported for an opcode without a rule.
    """
    config = module.config
    devices = config.replica_count * config.num_partitions
    if devices > 1 and len(arguments) == 1 and _is_per_device(arguments[0], devices, module):
        return evaluate_devices(module, arguments[0], ftz=ftz, seed=seed)
    if device_count(module) > 1:
        raise InvalidArgument(f"{module.name} runs on {_count_text(module)}: expected a list of argument lists")
    return _evaluate_one(module, arguments, Device(), ftz, seed)


def evaluate_devices(
    module: HloModule, inputs_per_device: Sequence[Sequence[Any]], ftz: bool = True, seed: int = 0
) -> list[Value]:
    """Runs a module on all its devices, in step at collectives; returns one result per device.

    `inputs_per_device[replica * num_partitions + partition]` are the arguments of a device. Raises InvalidArgument if
    there are not as many as replica_count * num_partitions, ExecutionError if devices wait for each other for ever.
    """
    config = module.config
    if len(inputs_per_device) != config.replica_count * config.num_partitions:
        raise InvalidArgument(f"{module.name} runs on {_count_text(module)}, got inputs for {len(inputs_per_device)}")

    def run(device: Device) -> Value:
        return _evaluate_one(module, inputs_per_device[device.number], device, ftz, seed)

    return run_devices(config.replica_count, config.num_partitions, run)


def _is_per_device(value: Any, devices: int, module: HloModule) -> bool:
    """Whether an argument is the inputs of all devices, not that of one."""
    if not isinstance(value, (tuple, list)):
        return False
    parameters = module.entry_computation.num_parameters
    fits = len(value) == devices and all(isinstance(v, (tuple, list)) and len(v) == parameters for v in value)
    return fits or device_count(module) > 1


def _count_text(module: HloModule) -> str:
    replicas, partitions = module.config.replica_count, module.config.num_partitions
    return f"{replicas * partitions} devices (replica_count={replicas}, num_partitions={partitions})"


def _evaluate_one(module: HloModule, arguments: Sequence[Any], device: Device, ftz: bool, seed: int) -> Value:
    entry = module.entry_computation
    if len(arguments) != entry.num_parameters:
        where = f" on device {device.number}" if device.rendezvous.count > 1 else ""
        raise InvalidArgument(f"{module.name} takes {entry.num_parameters} arguments, got {len(arguments)}{where}")
    values = [
        _argument(f"argument {i} '{p.name}'", p.shape, a)
        for i, (p, a) in enumerate(zip(entry.parameter_instructions, arguments))
    ]
    with np.errstate(all="ignore"):
        result = Interpreter(ftz=ftz, seed=seed, device=device).call(entry, *values)
    return _own(result)


def _argument(what: str, shape: Shape, value: Any) -> Value:
    if shape.is_tuple:
        if not isinstance(value, (tuple, list)) or len(value) != len(shape.tuple_shapes):
            raise InvalidArgument(f"{what} must be a tuple of {len(shape.tuple_shapes)} values, for {shape}")
        return tuple(_argument(f"{what}[{i}]", s, v) for i, (s, v) in enumerate(zip(shape.tuple_shapes, value)))
    if not shape.is_array:
        return None
    array = np.asarray(value)
    if type(value) in PYTHON_NUMBERS and shape.is_scalar:
        number = python_number_as_array(value, shape.dtype)
        array = array if number is None else number
    if mismatch := _mismatch(shape, array):
        raise InvalidArgument(f"{what} is {mismatch}, expected {shape.to_string(layout=False)}")
    return array


def _own(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(_own(v) for v in value)
    return () if value is None else np.array(value, order="C")
