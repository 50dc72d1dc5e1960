"""create_<opcode>: one constructor per opcode, derived from its row in the opcode table."""

from __future__ import annotations

import ast
import inspect
from dataclasses import MISSING, fields

import pytest

from tests.support.constructor_stub import STUB, stub_text
from xjit.hlo import OPCODES, HloComputation, HloInstruction, InvalidArgument, Literal, Shape
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import VARIADIC
from xjit.hlo.ir.constructors import InstructionConstructors, constructor_name
from xjit.ops.build import make_binary_computation

F32 = Shape.array("f32", (4,))
SPECIAL = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "while",
    "select-and-scatter",
    "async-update",
    "async-done",
}


def value(number: int = 0) -> HloInstruction:
    return HloInstruction.create_parameter(number, F32)


def adder() -> HloComputation:
    return make_binary_computation("add", "f32")


@pytest.mark.parametrize("opcode", sorted(OPCODES.keys() - SPECIAL))
def test_every_opcode(opcode: str) -> None:
    row = OPCODES[opcode]
    create = getattr(HloInstruction, "create_" + opcode.replace("-", "_"))
    count = 2 if row.arity == VARIADIC else row.arity
    operands = [value(i) for i in range(count)]
    called = [] if not row.called else [[adder()]] if row.called[0].endswith("*") else [adder()]
    required = {f.name: () for f in fields(row.attributes) if f.default is MISSING}
    one_by_one = (row.arity != VARIADIC and count <= 3 and not row.called) or opcode == "dot"
    instruction = create(F32, *(operands if one_by_one else [operands]), *called, **required)
    assert instruction.op is row and instruction.operands == tuple(operands) and instruction.shape is F32
    assert instruction.attributes == row.attributes(**required) and instruction.parent is None
    assert len(instruction.called_computations) == len(called)
    assert opcode in create.__doc__ and create.__name__ == "create_" + opcode.replace("-", "_")


def test_special_constructors() -> None:
    assert HloInstruction.create_parameter(3, F32, "p").parameter_number == 3
    assert HloInstruction.create_constant(Literal.full(F32, 2.0)).literal.is_all(2.0)
    pair = HloInstruction.create_tuple([value(), value(1)])
    assert HloInstruction.create_get_tuple_element(pair, 1).shape == F32
    loop = HloInstruction.create_while(F32, adder(), adder(), value())
    assert loop.while_condition is loop.called_computations[0] and loop.while_init.opcode == "parameter"
    window = at.Window((at.WindowDimension(2),))
    scattered = HloInstruction.create_select_and_scatter(F32, value(), adder(), window, value(1), value(2), adder())
    assert scattered.operand_count == 3 and scattered.window == window
    body = adder()
    start = HloInstruction.create_async_start(F32, [value()], body, 3, "thread")
    assert start.async_group_id == 3 and start.async_execution_thread == "thread"
    update = HloInstruction.create_async_update(F32, start)
    done = HloInstruction.create_async_done(F32, update)
    assert done.called_computations == (body,) and done.attributes == start.attributes


def test_typed_attributes() -> None:
    x = value()
    assert HloInstruction.create_slice(F32, x, (at.SliceDimension(0, 4),)).slice_limits == (4,)
    assert HloInstruction.create_broadcast(F32, x, (0,)).dimensions == (0,)
    assert HloInstruction.create_compare(F32, x, x, "LT").comparison_direction == "LT"
    dot = HloInstruction.create_dot(F32, x, x, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))
    assert dot.dot_dimension_numbers is dot.attributes and dot.precision_config == ()
    assert HloInstruction.create_reduce(F32, [x, x], adder(), (0,)).dimensions == (0,)
    assert HloInstruction.create_fusion(F32, [x], adder(), "kInput").fusion_kind == "kInput"
    assert HloInstruction.create_custom_call(F32, [x], [], "f").custom_call_target == "f"
    with pytest.raises(AttributeError, match="'slice' has no attribute 'tuple_index'"):
        _ = HloInstruction.create_slice(F32, x, (at.SliceDimension(0, 4),)).tuple_index
    with pytest.raises(TypeError):
        HloInstruction.create_slice(F32, x)
    with pytest.raises(TypeError):
        HloInstruction.create_add(F32, x, x, dimensions=(0,))


def test_generic_constructors() -> None:
    x = value()
    assert HloInstruction.create_nullary(F32, "replica-id").operand_count == 0
    assert HloInstruction.create_unary(F32, "negate", x).opcode == "negate"
    assert HloInstruction.create_binary(F32, "add", x, x).operands == (x, x)
    assert HloInstruction.create_ternary(F32, "select", x, x, x).operand_count == 3
    assert HloInstruction.create_variadic(F32, "after-all", [x] * 4).operand_count == 4
    for opcode, message in [
        ("sum", "unknown opcode 'sum'"),
        ("add", "add takes 2 operands, got 1"),
        ("slice", "use create_slice"),
        ("call", "use create_call"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            HloInstruction.create_unary(F32, opcode, x)
    with pytest.raises(InvalidArgument, match="add takes 2 operands, got 1"):
        HloInstruction.create_add(F32, x)
    with pytest.raises(InvalidArgument, match="batch-norm-grad takes 5 operands, got 1"):
        HloInstruction.create_batch_norm_grad(F32, [x], 0.1, 0)
    with pytest.raises(InvalidArgument, match="unknown opcode 'sum'"):
        HloInstruction.create("sum", F32, [x])


@pytest.mark.parametrize(
    "opcode,parameters",
    [
        ("add", "shape, lhs, rhs"),
        ("clamp", "shape, min, operand, max"),
        ("reduce", "shape, operands, computation, dimensions=()"),
        ("conditional", "shape, operands, computations"),
        ("while", "shape, condition, body, init"),
        ("select-and-scatter", "shape, operand, select, window, source, init_value, scatter"),
        ("batch-norm-grad", "shape, operands, epsilon, feature_index"),
        ("dot", "shape, lhs, rhs, lhs_batch_dims=(), lhs_contracting_dims=(), rhs_batch_dims=(),"),
    ],
)
def test_signature(opcode: str, parameters: str) -> None:
    create = getattr(HloInstruction, constructor_name(OPCODES[opcode]))
    signature = inspect.signature(create)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert ", ".join(map(str, plain)).startswith(parameters)
    assert signature.parameters["shape"].annotation == "Shape" and signature.return_annotation == "HloInstruction"


def test_operands_by_name() -> None:
    x, y = value(), value(1)
    assert HloInstruction.create_subtract(F32, rhs=x, lhs=y).operands == (y, x)
    loop = HloInstruction.create_while(F32, init=x, body=adder(), condition=adder())
    assert loop.while_init is x


def test_nearest_names() -> None:
    x = value()
    with pytest.raises(TypeError, match=r"create_transpose: .*dimension.*did you mean 'dimensions'"):
        HloInstruction.create_transpose(F32, x, dimension=(0,))
    with pytest.raises(InvalidArgument, match=r"unknown opcode 'sinus'.*did you mean"):
        HloInstruction.create("sinus", F32, [x])
    with pytest.raises(InvalidArgument, match=r"unknown opcode 'addd' \(did you mean 'add'\?\)"):
        HloInstruction.create_binary(F32, "addd", x, x)


def test_stub_follows_the_table() -> None:
    """What type checkers see is what there is; see tests/support/constructor_stub.py."""
    assert ast.dump(ast.parse(STUB.read_text(encoding="utf-8"))) == ast.dump(ast.parse(stub_text()))
    assert {constructor_name(op) for op in OPCODES.values()} <= vars(InstructionConstructors).keys()
