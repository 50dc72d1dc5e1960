"""IrEmitterNested: computations inlined on register values, scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support.loop_nests import Array, EmittedNest, emit_nest
from xjit.emitters.elemental import ComplexValue, load_convert, register_type, storage_type, store_convert
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.nested import IrEmitterNested, same_width, splat_register, width_of
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.types import FLOAT, I64, LLVMType, vector
from xjit.llvm.values import Value, const_float, const_int
from xjit.text.parser import parse_hlo

WIDTH = 8


def computation(text: str) -> HloComputation:
    """Returns the entry computation of a body of instructions."""
    return parse_hlo(text).entry_computation


def emit(called: HloComputation, width: int, promote: bool = False) -> EmittedNest:
    """A function that reads the parameters (WIDTH elements each), inlines the computation and stores its results."""

    def body(nest: LoopNest, pointers: Sequence[Value]) -> None:
        builder, nested = nest.builder, IrEmitterNested(promote)
        kinds = [p.shape.element_type for p in called.parameter_instructions]
        root = called.root_instruction.shape
        results = [s.element_type for _, s in root.leaves()]
        for lane in range(0, WIDTH, width or 1):

            def at(kind: PrimitiveType, pointer: Value, lane: int = lane) -> Value:
                return builder.gep(storage_type(kind), pointer, const_int(I64, lane))

            arguments = [
                load_convert(builder, kind, builder.load(_wide(storage_type(kind), width), at(kind, p), align=1))
                for kind, p in zip(kinds, pointers)
            ]
            values = nested.inline(builder, called, arguments)
            assert len(values) == len(results)
            for kind, value, pointer in zip(results, values, pointers[len(kinds) :], strict=True):
                assert not isinstance(value, ComplexValue)
                raw = store_convert(builder, kind, splat_register(builder, value, width))
                builder.store(raw, at(kind, pointer), align=1)

    return emit_nest(called.num_parameters + len(list(called.root_instruction.shape.leaves())), body)


def _wide(kind: LLVMType, width: int) -> LLVMType:
    return vector(kind, width) if width else kind


def run(text: str, inputs: Sequence[Array], width: int) -> list[Array]:
    called = computation(text)
    outputs = [np.zeros(WIDTH, s.dtype) for _, s in called.root_instruction.shape.leaves()]
    emit(called, width).run(*inputs, *outputs)
    return outputs


def expected(text: str, inputs: Sequence[Array]) -> list[Array]:
    module = parse_hlo(text)
    columns = [xjit.evaluate(module, *lanes) for lanes in zip(*inputs)]
    rows = [c if isinstance(c, tuple) else (c,) for c in columns]
    return [np.stack(column) for column in zip(*rows)]


COMPUTATIONS = {
    "one operation": """ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] subtract(a, b)
}""",
    "a parameter": "ENTRY e {\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}",
    "a constant": "ENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] constant(2.5)\n}",
    "a tuple of mixed types": """ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  g = pred[] compare(a, b), direction=GT
  s = f32[] select(g, a, b)
  n = s32[] convert(s)
  c = s32[] constant(7)
  ROOT t = (f32[], pred[], s32[], s32[], f32[]) tuple(s, g, n, c, a)
}""",
    "calls": """inner {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  p = f32[] multiply(x, y)
  ROOT t = (f32[], f32[]) tuple(p, y)
}
outer {
  x = f32[] parameter(0)
  ROOT n = f32[] negate(x)
}
fused {
  x = f32[] parameter(0)
  ROOT n = f32[] negate(x)
}
ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = (f32[], f32[]) call(a, b), to_apply=inner
  p = f32[] get-tuple-element(c), index=0
  q = f32[] get-tuple-element(c), index=1
  m = f32[] map(p), dimensions={}, to_apply=outer
  f = f32[] fusion(q), kind=kLoop, calls=fused
  ROOT r = f32[] add(m, f)
}""",
    "one element in other shapes": """ENTRY e {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = f32[1,1] reshape(a)
  y = f32[1,1] broadcast(b), dimensions={}
  t = f32[1,1] transpose(x), dimensions={1,0}
  s = f32[1,1] add(t, y)
  i = f32[1,1] iota(), iota_dimension=0
  p = f32[1,1] add(s, i)
  ROOT r = f32[] bitcast(p)
}""",
}


@pytest.mark.parametrize("name", COMPUTATIONS)
@pytest.mark.parametrize("width", [0, 4, 8])
def test_inline(name: str, width: int) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-50, 50, WIDTH).astype(np.float32) / 4 for _ in range(2)]
    text = COMPUTATIONS[name]
    for got, want in zip(run(text, inputs, width), expected(text, inputs), strict=True):
        np.testing.assert_array_equal(got, want)


def test_another_root() -> None:
    """Part of a computation: the value of any instruction can be asked for."""
    called = computation(COMPUTATIONS["a tuple of mixed types"])
    wanted = next(i for i in called.instructions if i.opcode == "convert")

    def body(nest: LoopNest, pointers: Sequence[Value]) -> None:
        builder = nest.builder
        arguments = [const_float(FLOAT, 3.75), const_float(FLOAT, -1.0)]
        (value,) = IrEmitterNested().inline(builder, called, arguments, wanted)
        assert isinstance(value, Value)
        builder.store(value, pointers[0], align=4)

    out = np.zeros(1, np.int32)
    emit_nest(1, body).run(out)
    assert out[0] == 3


@pytest.mark.parametrize("depth", [4_000])
def test_deep_computations(depth: int) -> None:
    """Depth costs no stack."""
    steps = "\n".join(f"  a{i + 1} = s32[] add(a{i}, a0)" for i in range(depth))
    called = computation(f"ENTRY e {{\n  a0 = s32[] parameter(0)\n{steps}\n  ROOT r = s32[] negate(a{depth})\n}}")
    assert emit(called, 0).text.count("= add i32") == depth * WIDTH


SUM_OF_THREE = """ENTRY e {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  s = bf16[] add(a, b)
  ROOT r = bf16[] subtract(s, a)
}"""


@pytest.mark.parametrize("promote", [False, True])
def test_promotion(promote: bool) -> None:
    """(1 + 2^-9) - 1 is 0 where the sum is rounded to bf16, 2^-9 where it stays f32."""
    bf16 = ml_dtypes.bfloat16
    inputs = [np.full(WIDTH, 1, bf16), np.full(WIDTH, 2.0**-9, bf16)]
    out = np.zeros(WIDTH, bf16)
    emit(computation(SUM_OF_THREE), WIDTH, promote).run(*inputs, out)
    assert (out.astype(np.float32) == (2.0**-9 if promote else 0)).all()


def test_all_small_floats_are_promoted() -> None:
    small = {kind for kind in PrimitiveType if kind.is_float and kind.bit_width < 32}
    assert PROMOTED.keys() == small
    assert {register_type(kind) for kind in small} <= {
        register_type(PrimitiveType.F32),
        register_type(PrimitiveType.F16),
    }


def test_widths_are_made_equal() -> None:
    def body(nest: LoopNest, pointers: Sequence[Value]) -> None:
        builder: IRBuilder = nest.builder
        scalar, wide = const_float(FLOAT, 1.0), builder.splat(const_float(FLOAT, 2.0), 4)
        assert [width_of(v) for v in (scalar, wide, ComplexValue(scalar, scalar), ComplexValue(wide, wide))] == [
            0,
            4,
            0,
            4,
        ]
        assert [width_of(v) for v in same_width(builder, [scalar, wide, ComplexValue(scalar, scalar)])] == [4, 4, 4]
        assert same_width(builder, [scalar, scalar]) == [scalar, scalar]
        assert splat_register(builder, wide, 8) is wide

    emit_nest(0, body)


def test_what_is_not_scalar_is_named() -> None:
    called = computation("""f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  a = f32[] parameter(0)
  x = f32[3] broadcast(a), dimensions={}
  ROOT r = f32[] reduce(x, a), dimensions={0}, to_apply=f
}""")
    with pytest.raises(Unsupported, match=r"broadcast 'x' of shape f32\[3\]"):
        emit(called, 0)
