"""Operations with regions or several results, as HLO: loops, reductions, sorts, scatters, calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.frontends.stablehlo_reader.operations import READERS, read_operation
from xjit.frontends.stablehlo_reader.scope import Reading, Scope, Value
from xjit.frontends.stablehlo_reader.values import Constant, is_set
from xjit.hlo import attributes as at
from xjit.hlo.attributes.values import Window, WindowDimension
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

Rule = Callable[[Scope, Any, list[Value], list[Shape]], Sequence[Value]]
"""(scope, operation, operands, the results' shapes) -> the results."""

_TERMINATORS: Final = frozenset({"func.return", "stablehlo.return"})


_PURE: Final = (READERS.keys() - {"stablehlo.constant"}) | {
    "stablehlo.reduce",
    "stablehlo.reduce_window",
    "stablehlo.sort",
}
"""What may be left out if nothing uses it; constants may be used in regions."""

_CASE: Final = "stablehlo.case"

_WINDOW: Final = frozenset(("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"))


def read_block(scope: Scope, block: Any) -> list[Value]:
    """Reads the operations of a block whose arguments are set; returns what it returns. Errors: Declined."""
    (*ops, last), _ = _live_operations(block)
    types = scope.reading.types
    for op in ops:
        scope.at(op.location)
        name = op.operation.name
        results = list(op.results)
        shapes = [types.shape(result.type) for result in results]
        if not all(shape.num_elements for shape in shapes):
            raise Declined("an empty array")
        if (rule := _RULES.get(name)) is not None:
            values = rule(scope, op, scope.operands(op), shapes)
        else:
            values = [read_operation(scope, op, name, shapes[0])]
        for result, value in zip(results, values, strict=True):
            scope.set(result, value)
        if name not in _PURE:
            scope.loose += [value for value in values if isinstance(value, HloInstruction)]
    if last.operation.name not in _TERMINATORS:
        raise Declined(last.operation.name)
    return scope.operands(last)


def _live_operations(block: Any) -> tuple[list[Any], list[Any]]:
    """The operations of a block but those that nothing uses, and what they, and those inside them, take from around
    the block, the first used first. Errors: Declined for a case that nothing uses.
    """
    *ops, last = block.operations
    live, rows = set(last.operands), [(last, list(last.operands))]
    for op in reversed(ops):
        name = op.operation.name
        if not any(result in live for result in op.results):
            if name == _CASE:
                raise Declined("a case that nothing uses")
            if name in _PURE:
                continue
        taken = [value for region in op.regions for inner in region.blocks for value in _live_operations(inner)[1]]
        taken += op.operands
        live.update(taken)
        rows.append((op, taken))
    found, own = dict[Any, None](), set[Any](block.arguments)
    for op, taken in reversed(rows):
        found.update(dict.fromkeys(value for value in taken if value not in own))
        own.update(op.results)
    return [op for op, _ in reversed(rows)], list(found)


def read_function(reading: Reading, name: str) -> HloComputation:
    """Returns the computation of a function that others call, read once. Errors: Declined."""
    found = reading.read_functions.get(name)
    if found is None:
        function = reading.functions[name]
        if not set(function.attributes) <= {"function_type", "sym_name", "sym_visibility", "arg_attrs", "res_attrs"}:
            raise Declined(f"a function with {list(function.attributes)}")
        if name in reading.open_functions or not len(function.regions[0].blocks):
            raise Declined("a function that calls itself, or has no body")
        reading.open_functions.add(name)
        found = read_computation(Scope(reading), function.regions[0].blocks[0], name)
        reading.read_functions[name] = found
    return found


def read_computation(scope: Scope, block: Any, name: str) -> HloComputation:
    """Returns the computation of a block; its parameters are the block's arguments. Errors: Declined."""
    for i, argument in enumerate(block.arguments):
        op_name = scope.reading.places.metadata(argument.location).op_name
        shape = scope.reading.types.shape(argument.type)
        scope.set(argument, scope.parameter(i, shape, op_name))
    return _finished(scope, block, name)


def _finished(scope: Scope, block: Any, name: str, returned: list[int] | None = None) -> HloComputation:
    """The computation of a block whose arguments are set; `returned`: which of its results, if not all."""
    values = read_block(scope, block)
    results = [scope.made(values[i]) for i in (range(len(values)) if returned is None else returned)]
    root = results[0] if len(results) == 1 else scope.unnamed("tuple", _tuple_of(results), results)
    computation = scope.computation(name, root)
    scope.reading.computations.append(computation)
    return computation


def _tuple_of(values: Sequence[Value]) -> Shape:
    return Shape.tuple_of([value.shape for value in values])


def _joined(
    scope: Scope, opcode: str, operands: Sequence[Value], shapes: Sequence[Shape], attributes: at.Attributes | None,
    called: Sequence[HloComputation], num_elements: int | None = None,
) -> list[HloInstruction]:  # fmt: skip
    """An instruction of one result, or of a tuple, and its elements, or the first of them."""
    if len(shapes) == 1:
        return [scope.make(opcode, shapes[0], operands, attributes, called)]
    whole = scope.make(opcode, Shape.tuple_of(shapes), operands, attributes, called)
    elements = [
        scope.make("get-tuple-element", shape, [whole], at.GetTupleElementAttributes(i))
        for i, shape in enumerate(shapes[:num_elements])
    ]
    scope.loose += elements or [whole]
    return elements


def _region(scope: Scope, op: Any) -> HloComputation:
    return read_computation(Scope(scope.reading, scope), op.regions[0].blocks[0], scope.reading.region_name())


def _call(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    if set(op.attributes) != {"callee"}:
        raise Declined(f"a call with {list(op.attributes)}")
    called = read_function(scope.reading, op.attributes["callee"].value)
    return _joined(scope, "call", operands, shapes, None, [called])


def _while(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    """Of what no round changes, constants are made inside, and the rest comes last in the tuple, if it is read."""
    if len(op.attributes):
        raise Declined("a while with attributes")
    condition, body = (region.blocks[0] for region in op.regions)
    returned = list(body.operations)[-1].operands
    fixed = [value == argument for value, argument in zip(returned, body.arguments, strict=True)]
    kept = [i for i, is_fixed in enumerate(fixed) if not is_fixed]
    invariant = {i for i in range(len(fixed)) if fixed[i] and not isinstance(operands[i], Constant)}
    order = [*kept, *_in_order_of_use(invariant, condition, body)]
    constants = {i: value for i, value in enumerate(operands) if fixed[i] and isinstance(value, Constant)}
    if not kept:
        raise Declined("a while that changes nothing")
    body_computation = _loop_region(scope, body, order, constants, shapes, order)
    called = [_loop_region(scope, condition, order, constants, shapes), body_computation]
    given = [operands[i] for i in order]
    if len(order) > 1:
        given = [scope.make("tuple", _tuple_of(given), given)]
    made = _joined(scope, "while", given, [shapes[i] for i in order], None, called, len(kept))
    results = dict(zip(kept, made, strict=True))
    return [operands[i] if fixed[i] else results[i] for i in range(len(operands))]


def _in_order_of_use(numbers: set[int], *blocks: Any) -> list[int]:
    """Which of the blocks' arguments their operations use, the first used first."""
    found: dict[int, None] = {}
    for block in blocks if numbers else ():
        arguments = {argument: i for i, argument in enumerate(block.arguments) if i in numbers}
        _find_uses(list(block.operations)[:-1], arguments, found)
    return list(found)


def _case(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    """What branches take from around them is their parameter; they make constants for themselves."""
    if len(op.attributes) or isinstance(operands[0], Constant) or len(op.regions) < 2:
        raise Declined("a case with attributes, or whose branch is known")
    called, given = list[HloComputation](), list[Value]()
    for region in op.regions:
        block = region.blocks[0]
        taken = {value: scope.get(value) for value in _live_operations(block)[1]}
        places: dict[HloInstruction, Any] = {}
        for value, variable in taken.items():
            if isinstance(variable, HloInstruction):
                places.setdefault(variable, value)
        variables = list(places)
        op_name = scope.reading.places.metadata(places[variables[0]].location).op_name if len(variables) == 1 else ""
        inner = Scope(scope.reading, scope)
        elements = _elements_of_parameter(inner, [variable.shape for variable in variables], op_name)
        element_of = dict(zip(variables, elements, strict=True))
        for value, variable in taken.items():
            if isinstance(variable, HloInstruction):
                inner.set(value, element_of[variable])
        called.append(_finished(inner, block, scope.reading.region_name()))
        given.append(variables[0] if len(variables) == 1 else scope.make("tuple", _tuple_of(variables), variables))
    return _joined(scope, "conditional", [operands[0], *given], shapes, None, called)


def _find_uses(operations: Sequence[Any], arguments: dict[Any, int], found: dict[int, None]) -> None:
    for op in operations:
        for region in op.regions:
            _find_uses([inner for block in region.blocks for inner in block.operations], arguments, found)
        for operand in op.operands:
            if operand in arguments:
                found[arguments[operand]] = None


def _loop_region(
    scope: Scope, block: Any, order: list[int], constants: dict[int, Constant], shapes: list[Shape],
    returned: list[int] | None = None,
) -> HloComputation:  # fmt: skip
    """The computation of a region of a loop: its parameter holds the arguments of `order`; others are `constants`."""
    inner = Scope(scope.reading, scope)
    elements = _elements_of_parameter(inner, [shapes[i] for i in order])
    arguments = list(block.arguments)
    for i, constant in constants.items():
        inner.set(arguments[i], constant)
    for i, element in zip(order, elements, strict=True):
        inner.set(arguments[i], element)
    return _finished(inner, block, scope.reading.region_name(), returned)


def _elements_of_parameter(inner: Scope, shapes: Sequence[Shape], op_name: str = "") -> list[HloInstruction]:
    """The values of a region that is given some: its parameter, or the elements of that."""
    if len(shapes) == 1:
        return [inner.parameter(0, shapes[0], op_name, "" if op_name else "Arg_")]
    whole = inner.parameter(0, Shape.tuple_of(shapes), "", "arg_tuple" if shapes else "arg_empty_tuple")
    elements = [
        inner.make("get-tuple-element", shape, [whole], at.GetTupleElementAttributes(i))
        for i, shape in enumerate(shapes)
    ]
    inner.loose += elements
    return elements


def _reduce(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    dimensions = tuple(op.attributes["dimensions"])
    if set(op.attributes) != {"dimensions"} or not dimensions:
        raise Declined("a reduce of no dimensions")
    if all(isinstance(operand, Constant) for operand in operands):
        raise Declined("a reduce of constants")
    return _joined(scope, "reduce", operands, shapes, at.DimensionsAttributes(dimensions), [_region(scope, op)])


def _reduce_window(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    given = op.attributes
    if not set(given) <= _WINDOW or any(isinstance(operand, Constant) for operand in operands[: len(shapes)]):
        raise Declined("a reduce_window with more")
    sizes = tuple(given["window_dimensions"])
    strides, base, window = (
        tuple(given[name]) if name in given else (1,) * len(sizes)
        for name in ("window_strides", "base_dilations", "window_dilations")
    )
    padding = np.asarray(given["padding"]).tolist() if "padding" in given else [(0, 0)] * len(sizes)
    rows = zip(sizes, strides, padding, window, base, strict=True)
    dimensions = tuple(WindowDimension(size, stride, *pad, inner, outer) for size, stride, pad, inner, outer in rows)
    return _joined(
        scope, "reduce-window", operands, shapes, at.WindowAttributes(Window(dimensions)), [_region(scope, op)]
    )


def _sort(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    given = op.attributes
    if not {"dimension"} <= set(given) <= {"dimension", "is_stable"} or all(
        isinstance(operand, Constant) for operand in operands
    ):
        raise Declined("a sort with more")
    is_stable = is_set(given, "is_stable")
    attributes = at.SortAttributes((given["dimension"].value,), is_stable)
    return _joined(scope, "sort", operands, shapes, attributes, [_region(scope, op)])


def _scatter(scope: Scope, op: Any, operands: list[Value], shapes: list[Shape]) -> Sequence[Value]:
    from jaxlib.mlir.dialects import stablehlo

    given = op.attributes
    if not set(given) <= {"scatter_dimension_numbers", "indices_are_sorted", "unique_indices"} or len(shapes) != 1:
        raise Declined("a scatter with more")
    numbers = stablehlo.ScatterDimensionNumbers(given["scatter_dimension_numbers"])
    attributes = at.ScatterAttributes(
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(numbers.scattered_dims_to_operand_dims),
        input_batching_dims=tuple(numbers.input_batching_dims),
        scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        indices_are_sorted=is_set(given, "indices_are_sorted"),
        unique_indices=is_set(given, "unique_indices"),
    )
    return _joined(scope, "scatter", operands, shapes, attributes, [_region(scope, op)])


_RULES: Final[dict[str, Rule]] = {
    "func.call": _call,
    _CASE: _case,
    "stablehlo.while": _while,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.sort": _sort,
    "stablehlo.scatter": _scatter,
}
