"""Types, attributes, values, operations, blocks and the builder."""

from __future__ import annotations

import pytest

from xjit.affine import AffineMap
from xjit.linalg_ext.ir import (
    AffineMapAttr,
    Block,
    Builder,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    FloatAttr,
    FloatType,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Operation,
    Region,
    StridedLayoutAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    Value,
    VectorType,
    constant_value,
)

F32, F16, F64, I64 = FloatType("f32"), FloatType("f16"), FloatType("f64"), IntegerType(64)


@pytest.mark.parametrize(
    "thing,text",
    [
        (TensorType((4, None), F32), "tensor<4x?xf32>"),
        (TensorType((), IntegerType(8, "u")), "tensor<ui8>"),
        (MemRefType((4,), F32, StridedLayoutAttr((1,), None)), "memref<4xf32, strided<[1], offset: ?>>"),
        (MemRefType((4,), F32, None, IntegerAttr(1, I64)), "memref<4xf32, 1>"),
        (
            MemRefType((4, 2), F32, AffineMapAttr(AffineMap.permutation((1, 0)))),
            "memref<4x2xf32, affine_map<(d0, d1) -> (d1, d0)>>",
        ),
        (VectorType((4, 8), F32, (False, True)), "vector<4x[8]xf32>"),
        (FunctionType((F32,), (FunctionType((), ()),)), "(f32) -> (() -> ())"),
        (StringAttr('a"\\\n'), '"a\\22\\5C\\0A"'.replace("\\22", '\\"').replace("\\5C", "\\\\")),
        (DictAttr((("a", UnitAttr()), ("b c", IntegerAttr(1, IndexType())))), '{a, "b c" = 1 : index}'),
        (DenseAttr((1, 2, 3, 4), TensorType((2, 2), I64)), "dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>"),
        (DenseAttr((True,), TensorType((2, 2), IntegerType(1))), "dense<true> : tensor<2x2xi1>"),
        (DenseAttr((), TensorType((0,), I64)), "dense<> : tensor<0xi64>"),
        (DenseArrayAttr(IntegerType(1), (True, False)), "array<i1: true, false>"),
        (DenseArrayAttr.i64(()), "array<i64>"),
    ],
    ids=str,
)
def test_text_of_types_and_attributes(thing: object, text: str) -> None:
    assert str(thing) == text


@pytest.mark.parametrize(
    "value,type,text",
    [
        (0.0, F32, "0.000000e+00"),
        (-0.0, F32, "-0.000000e+00"),
        (0.125, F16, "1.250000e-01"),
        (float("-inf"), F32, "0xFF800000"),
        (float("-inf"), F16, "0xFC00"),
        (float("nan"), F32, "0x7FC00000"),
        (1.0000000474974513e-3, F32, "1.000000e-03"),
        (1.2345678806304932, F32, "1.23456788"),
        (9.9999999747524271e-7, F64, "9.9999999747524271E-7"),
        (16777217.0, F64, "0x4170000010000000"),
        (1e300 / 3, F64, "3.3333333333333335E+299"),
    ],
)
def test_floats_are_spelled_as_upstream(value: float, type: FloatType, text: str) -> None:
    assert str(FloatAttr(value, type)) == f"{text} : {type}"


def test_float_attributes_compare_bits() -> None:
    assert FloatAttr(0.0, F32) != FloatAttr(-0.0, F32)
    assert FloatAttr(float("nan"), F32) == FloatAttr(float("nan"), F32)
    assert len({DenseAttr((0.0,), TensorType((4,), F32)), DenseAttr((-0.0,), TensorType((4,), F32))}) == 2


def make_block() -> tuple[Block, Operation, Operation]:
    """Returns a block of two constants and their sum, and the first constant and the sum."""
    block = Block()
    builder = Builder.at_end(block)
    one, two = builder.constant_index(1), builder.constant_index(2)
    total = builder.create("arith.addi", (one, two), (IndexType(),))
    assert one.defining_op is not None
    return block, one.defining_op, total


def test_uses_follow_operands() -> None:
    block, one, total = make_block()
    assert [(use.owner, use.index) for use in one.result.uses] == [(total, 0)]
    total.set_operand(1, one.result)
    assert [use.index for use in one.result.uses] == [0, 1]
    two = block.operations[1]
    assert not two.result.has_uses
    one.result.replace_uses_if(two.result, lambda use: use.index == 1)
    assert total.operands == (one.result, two.result)
    one.result.replace_all_uses_with(two.result)
    one.erase()
    assert [op.name for op in block.operations] == ["arith.constant", "arith.addi"]
    assert constant_value(two.result) == 2
    assert constant_value(total.result) is None


def test_erase_needs_unused_results() -> None:
    _, one, _ = make_block()
    with pytest.raises(AssertionError, match="are used"):
        one.erase()


def test_order_in_a_block() -> None:
    block, one, total = make_block()
    assert one.is_before(total)
    one.move_after(total)
    assert total.is_before(one)
    one.move_before(total)
    new = Builder.after(one).constant_index(7).defining_op
    assert new is not None
    assert [op.is_before(total) for op in block.operations] == [True, True, True, False]
    assert block.next_of(one) is new
    new.erase()
    assert block.next_of(one) is total


def test_clone_maps_what_is_inside_and_keeps_what_is_outside() -> None:
    block, one, _ = make_block()
    inner = Block([IndexType()])
    body = Builder.at_end(inner)
    inside = body.create("arith.addi", (inner.arguments[0], one.result), (IndexType(),))
    body.create("scf.yield", (inside.result,))
    loop = Builder.at_end(block).create("test.loop", (one.result,), (IndexType(),), {}, [Region([inner])])
    mapping: dict[Value, Value] = {}
    copy = loop.clone(mapping)
    assert copy.block is None
    assert mapping[loop.result] is copy.result
    new_inside, new_yield = copy.body.operations
    assert new_inside.operands == (copy.body.arguments[0], one.result)
    assert new_yield.operands == (new_inside.result,)
    assert [op.name for op in copy.walk()] == ["test.loop", "arith.addi", "scf.yield"]
    assert loop.is_ancestor_of(inside) and not loop.is_ancestor_of(new_inside)
    assert new_inside.parent_op is copy
    copy.drop_all_references()
    assert [use.owner for use in one.result.uses] == [block.operations[2], inside, loop]


def test_clone_of_blocks_that_refer_to_each_other() -> None:
    entry, end = Block(), Block([IndexType()])
    constant = Builder.at_end(entry).constant_index(3)
    entry.append(Operation("cf.br", (constant,), successors=(end,)))
    Builder.at_end(end).create("func.return", (end.arguments[0],))
    func = Operation("func.func", regions=[Region([entry, end])])
    copy = func.clone()
    assert copy.regions[0].blocks[0].terminator.successors == [copy.regions[0].blocks[1]]


def test_arguments_are_numbered() -> None:
    block = Block([F32, F16])
    block.add_argument(F64, "x", 1)
    assert [(a.index, str(a.type), a.name) for a in block.arguments] == [
        (0, "f32", ""),
        (1, "f64", "x"),
        (2, "f16", ""),
    ]
