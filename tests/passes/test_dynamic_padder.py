"""The dynamic padder: the same values for every size from 0 to the bound, whatever lies beyond it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.passes import leaves
from xjit.hlo import HloInstruction, HloModule, Unsupported
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.dynamic.dynamic_padder import DynamicPadder
from xjit.passes.dynamic.padded_values import PaddedArray, PaddingWriter
from xjit.passes.dynamic.padding_options import OpDynamismSupport
from xjit.text.parser import parse_hlo

COMPUTATIONS = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GT }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  e = f32[] add(a, c) f = f32[] maximum(b, d) ROOT r = (f32[], f32[]) tuple(e, f) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT s = pred[] compare(i, j), direction=GT }
"""
PARAMETERS = " x = f32[<=4,3] parameter(0) y = f32[4,3] parameter(1) z = f32[] constant(0) o = f32[] constant(1.5) "
CASES = {
    "elementwise": "a = f32[<=4,3] sine(x) ROOT r = f32[<=4,3] add(a, x)",
    "transpose": "ROOT r = f32[3,<=4] transpose(x), dimensions={1,0}",
    "broadcast": "ROOT r = f32[2,<=4,3] broadcast(x), dimensions={1,2}",
    "reduce": "ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add",
    "reduce from one": "ROOT r = f32[3] reduce(x, o), dimensions={0}, to_apply=add",
    "reduce all": "ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=max",
    "reduce the other": "ROOT r = f32[<=4] reduce(x, z), dimensions={1}, to_apply=add",
    "contracted": "ROOT r = f32[3,3] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "free": "ROOT r = f32[<=4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "concatenate": "s = f32[2,3] slice(y), slice={[0:2], [0:3]} ROOT r = f32[<=10,3] concatenate(x, s, x), dimensions={0}",
    "concatenate the other": "ROOT r = f32[<=4,6] concatenate(x, x), dimensions={1}",
    "pad": "ROOT r = f32[<=7,4] pad(x, o), padding=1_2x0_1",
    "interior": "ROOT r = f32[<=11,3] pad(x, o), padding=1_0_2x0_0",
    "crop": "ROOT r = f32[<=4,3] pad(x, o), padding=2_-2x0_0",
    "reverse": "ROOT r = f32[<=4,3] reverse(x), dimensions={0,1}",
    "reduce-window": "ROOT r = f32[<=4,3] reduce-window(x, z), window={size=3x1 pad=1_1x0_0}, to_apply=add",
    "strided window": "ROOT r = f32[<=2,3] reduce-window(x, z), window={size=2x1 stride=2x1}, to_apply=max",
    "windows of two arrays": """ROOT r = (f32[<=4,3], f32[<=4,3]) reduce-window(x, x, z, z), window={size=3x1 pad=1_1x0_0}, to_apply=both""",
    "select-and-scatter": """s = f32[<=2,3] reduce-window(x, z), window={size=2x1 stride=2x1}, to_apply=max
        ROOT r = f32[<=4,3] select-and-scatter(x, s, o), window={size=2x1 stride=2x1}, select=ge, scatter=add""",
    "select-and-scatter of windows that overlap": """s = f32[<=4,3] reduce-window(x, z), window={size=3x2 pad=1_1x0_1}, to_apply=add
        ROOT r = f32[<=4,3] select-and-scatter(x, s, z), window={size=3x2 pad=1_1x0_1}, select=ge, scatter=add""",
    "strided slice": "ROOT r = f32[<=2,3] slice(x), slice={[0:4:2], [0:3]}",
    "strided part": "ROOT r = f32[<=1,2] slice(x), slice={[1:3:2], [1:3]}",
    "sort": "ROOT r = f32[<=4,3] sort(x), dimensions={0}, to_apply=gt",
    "sort pairs": """i = s32[4,3] iota(), iota_dimension=0 n = s32[] get-dimension-size(x), dimensions={0}
        j = s32[<=4,3] set-dimension-size(i, n), dimensions={0}
        ROOT r = (f32[<=4,3], s32[<=4,3]) sort(x, j), dimensions={0}, to_apply=odd""",
    "sort the other": "ROOT r = f32[<=4,3] sort(x), dimensions={1}, to_apply=gt",
    "merge": "ROOT r = f32[<=12] reshape(x)",
    "split": "a = f32[<=4,3,1] reshape(x) ROOT r = f32[<=4,1,3] reshape(a)",
    "merge inside": "t = f32[3,<=4] transpose(x), dimensions={1,0} ROOT r = f32[<=12] reshape(t)",
    "split into the minor one": "d = f32[<=8,3] concatenate(x, x), dimensions={0} ROOT r = f32[2,<=4,3] reshape(d)",
    "split inside": """t = f32[3,<=4] transpose(x), dimensions={1,0} d = f32[3,<=8] concatenate(t, t), dimensions={1}
        ROOT r = f32[3,2,<=4,1] reshape(d)""",
    "split back": "m = f32[<=12] reshape(x) ROOT r = f32[<=4,3] reshape(m)",
    "merge and split": "t = f32[3,<=4] transpose(x), dimensions={1,0} ROOT r = f32[<=4,3] reshape(t)",
    "sizes of which one is 1": """n = s32[] constant(1) a = f32[<=4,3] set-dimension-size(y, n), dimensions={0}
        b = f32[<=4,3] subtract(x, a) c = f32[<=4,3] multiply(a, x) ROOT r = (f32[<=4,3], f32[<=4,3]) tuple(b, c)""",
    "split beside another dynamic dimension": """n = s32[] constant(2) a = f32[<=4,<=3] set-dimension-size(x, n), dimensions={1}
        d = f32[<=4,<=6] concatenate(a, a), dimensions={1} ROOT r = f32[<=4,2,<=3] reshape(d)""",
    "gather of whole rows": """t = f32[3,<=4] transpose(x), dimensions={1,0} i = s32[2] constant({2, 0}) ROOT r = f32[2,<=4] gather(t, i),
        offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}""",
    "update": """i = s32[] constant(1) j = s32[] constant(0) w = f32[6,3] broadcast(o), dimensions={}
        ROOT r = f32[6,3] dynamic-update-slice(w, x, i, j)""",
    "update at the end": """i = s32[] constant(9) j = s32[] constant(0) w = f32[6,3] broadcast(o), dimensions={}
        ROOT r = f32[6,3] dynamic-update-slice(w, x, i, j)""",
    "update of the same bound": "i = s32[] constant(1) j = s32[] constant(0) ROOT r = f32[4,3] dynamic-update-slice(y, x, i, j)",
    "update of a dynamic array": """i = s32[] constant(1) j = s32[] constant(0) d = f32[<=8,3] concatenate(x, x), dimensions={0}
        s = f32[<=4,3] sine(x) ROOT r = f32[<=8,3] dynamic-update-slice(d, s, i, j)""",
    "convolution": """a = f32[1,<=4,3] reshape(x) k = f32[2,3,5] constant({...})
        ROOT r = f32[1,<=4,5] convolution(a, k), window={size=2 pad=0_1}, dim_labels=b0f_0io->b0f""",
    "gather": """i = s32[<=4,1] convert(f) ROOT r = f32[<=4,3] gather(y, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}""",
    "scatter": """i = s32[<=4,1] convert(f) ROOT r = f32[4,3] scatter(y, i, x), update_window_dims={1},
        inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "dynamic-slice": "i = s32[] constant(1) j = s32[] constant(0) ROOT r = f32[<=4,2] dynamic-slice(x, j, i), dynamic_slice_sizes={4,2}",
    "size": "n = s32[] get-dimension-size(x), dimensions={0} m = s32[] get-dimension-size(x), dimensions={1} ROOT r = (s32[], s32[]) tuple(n, m)",
    "tuples": "t = (f32[<=4,3], f32[4,3]) tuple(x, y) a = f32[<=4,3] get-tuple-element(t), index=0 b = f32[<=4,3] sine(a) ROOT r = ((f32[<=4,3], f32[4,3]), f32[<=4,3]) tuple(t, b)",
}  # fmt: skip
CONTROL = {
    "while": """c { s = (s32[], f32[<=4,3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
        ROOT l = pred[] compare(i, n), direction=LT }
        b { s = (s32[], f32[<=4,3]) parameter(0) i = s32[] get-tuple-element(s), index=0
        x = f32[<=4,3] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
        y = f32[<=4,3] sine(x) ROOT t = (s32[], f32[<=4,3]) tuple(j, y) }
        ENTRY e { x = f32[<=4,3] parameter(0) y = f32[4,3] parameter(1) z = s32[] constant(0) q = f32[] constant(0)
        t = (s32[], f32[<=4,3]) tuple(z, x) w = (s32[], f32[<=4,3]) while(t), condition=c, body=b
        r = f32[<=4,3] get-tuple-element(w), index=1 ROOT s = f32[3] reduce(r, q), dimensions={0}, to_apply=add }""",
    "conditional": """f { x = f32[<=4,3] parameter(0) ROOT y = f32[<=4,3] sine(x) } g { x = f32[<=4,3] parameter(0) ROOT y = f32[<=4,3] cosine(x) }
        ENTRY e { x = f32[<=4,3] parameter(0) y = f32[4,3] parameter(1) n = s32[] get-dimension-size(x), dimensions={0}
        two = s32[] constant(2) p = pred[] compare(n, two), direction=LT
        ROOT c = f32[<=4,3] conditional(p, x, x), true_computation=f, false_computation=g }""",
    "call": """f { x = f32[<=4,3] parameter(0) y = f32[4,3] parameter(1) ROOT d = f32[<=4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1} }
        ENTRY e { x = f32[<=4,3] parameter(0) y = f32[4,3] parameter(1) ROOT c = f32[<=4,4] call(x, y), to_apply=f }""",
}  # fmt: skip


def check(text: str) -> HloModule:
    """Compares values for every size; parameters beyond the first are of their bounds."""
    module = parse_hlo(text)
    before = parse_hlo(text)
    assert DynamicPadder().run(module)
    verify_module(module)
    assert parse_hlo(str(module)) == module
    for c in module.computations():
        for i in c.instructions:
            custom = i.opcode == "custom-call" and "SliceToDynamic" in str(i)
            assert i.shape.is_static or i.opcode == "parameter" or custom or i.opcode == "tuple", i
    rng = np.random.default_rng(0)
    for n in range(5):
        inputs = [
            rng.uniform(-2, 2, (n if k == 0 else 4, *p.shape.dimensions[1:])).astype(p.shape.dtype)
            for k, p in enumerate(before.entry_computation.parameter_instructions)
        ]
        found, expected = leaves(evaluate(module, *inputs)), leaves(evaluate(before, *inputs))
        for a, e in zip(found, expected, strict=True):
            assert a.shape == e.shape and np.allclose(a, e, 1e-5, 1e-5), f"size {n}: {a} instead of {e}\n{module}"
    assert not DynamicPadder().run(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_values_for_every_size(name: str) -> None:
    body = CASES[name].replace("constant({...})", "broadcast(o), dimensions={}")
    if "(f)" in body:
        body = "h = f32[<=4] reduce(x, z), dimensions={1}, to_apply=add f = f32[<=4,1] reshape(h) " + body
    check(COMPUTATIONS + "ENTRY e {" + PARAMETERS + body + "}")


@pytest.mark.parametrize("name", CONTROL)
def test_sizes_go_with_the_arrays_through_control_flow(name: str) -> None:
    check(COMPUTATIONS + CONTROL[name])


def test_results_can_stay_padded() -> None:
    module = parse_hlo("HloModule m ENTRY e { x = f32[<=4] parameter(0) ROOT n = f32[<=4] negate(x) }")
    assert DynamicPadder(slice_dynamic_output=False).run(module)
    assert module.entry_computation.root_instruction.opcode == "negate"


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }",
        "ENTRY e { x = f32[<=4] parameter(0) ROOT n = f32[4] constant({1,2,3,4}) }",
        "ENTRY e { ROOT x = f32[<=4] parameter(0) }",
        "f { a = f32[] parameter(0) ROOT s = f32[] sine(a) } ENTRY e { x = f32[4] parameter(0) "
        "ROOT n = f32[4] map(x), dimensions={0}, to_apply=f }",
    ],
)
def test_nothing_dynamic_inside(text: str) -> None:
    module = parse_hlo("HloModule m " + text)
    before = module_fingerprint(module)
    assert not DynamicPadder().run(module) and module_fingerprint(module) == before


def test_what_is_dead_goes_first() -> None:
    module = parse_hlo(
        "HloModule m ENTRY e { x = f32[<=4] parameter(0) n = f32[<=4] negate(x) ROOT z = f32[] constant(0) }"
    )
    assert DynamicPadder().run(module) and not DynamicPadder().run(module)
    assert [i.opcode for i in module.entry_computation.instructions] == ["parameter", "constant"]


def test_infeeds_bring_in_dynamic_arrays() -> None:
    module = parse_hlo(
        "HloModule m ENTRY e { t = token[] after-all() i = ((f32[<=4]), token[]) infeed(t) "
        "a = (f32[<=4]) get-tuple-element(i), index=0 x = f32[<=4] get-tuple-element(a), index=0 "
        "ROOT n = f32[<=4] negate(x) }"
    )
    assert DynamicPadder().run(module) and not DynamicPadder().run(module)
    verify_module(module)
    opcodes = [i.opcode for i in module.entry_computation.make_instruction_post_order()]
    assert opcodes[:5] == ["after-all", "infeed", "get-tuple-element", "get-tuple-element", "custom-call"]
    negate = next(i for i in module.entry_computation.instructions if i.opcode == "negate")
    assert negate.shape.is_static


def test_other_threads_stay() -> None:
    module = parse_hlo("HloModule m ENTRY e { x = f32[<=4] parameter(0) ROOT n = f32[<=4] negate(x) }")
    assert not DynamicPadder().run(module, {"other"}) and DynamicPadder().run(module, {"main"})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ROOT c = c64[<=4] fft(x), fft_type=FFT, fft_length={4}", "fft 'c' along a dynamic dimension"),
        (
            "t = c64[2,<=4] broadcast(x), dimensions={1} ROOT r = c64[<=4,<=2] reshape(t)",
            "the sizes of reshape 'r' do not follow from those of its operand",
        ),
    ],
)
def test_what_has_no_rule_is_refused(body: str, message: str) -> None:
    module = parse_hlo("HloModule m ENTRY e { x = c64[<=4] parameter(0) " + body + " }")
    with pytest.raises(Unsupported, match=message):
        DynamicPadder().run(module)


def wants_dynamic(support: OpDynamismSupport, opcode: str) -> DynamicPadder:
    return DynamicPadder(
        op_supports_dynamism_handler=lambda i: support if i.opcode == opcode else OpDynamismSupport.NO_SUPPORT
    )


@pytest.mark.parametrize("support", [OpDynamismSupport.REQUIRED, OpDynamismSupport.OPTIONAL])
def test_a_backend_may_run_an_instruction_on_dynamic_arrays(support: OpDynamismSupport) -> None:
    body = "s = f32[<=4,3] sine(x) c = f32[3,<=4] transpose(s), dimensions={1,0} ROOT r = f32[3,<=4] cosine(c)"
    text = COMPUTATIONS + "ENTRY e {" + PARAMETERS + body + "}"
    module, padder = parse_hlo(text), wants_dynamic(support, "transpose")
    assert padder.run(module) and not padder.run(module)
    verify_module(module)
    dynamic = [i.opcode for i in module.entry_computation.instructions if not i.shape.is_static]
    required = support is OpDynamismSupport.REQUIRED
    assert sorted(dynamic) == ["custom-call"] * (1 + required) + ["parameter"] + ["transpose"] * required
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = (x, np.zeros((4, 3), np.float32))
    assert np.array_equal(evaluate(module, *inputs), evaluate(parse_hlo(text), *inputs))


def test_what_has_no_rule_may_be_run_on_dynamic_arrays() -> None:
    text = "HloModule m ENTRY e { x = c64[<=4] parameter(0) n = c64[<=4] negate(x) ROOT c = c64[<=4] fft(n), fft_type=FFT, fft_length={4} }"
    module, padder = parse_hlo(text), wants_dynamic(OpDynamismSupport.OPTIONAL, "fft")
    assert padder.run(module) and not padder.run(module)
    verify_module(module)
    assert "c64[<=4]{0} fft" in str(module)


def test_a_handler_knows_custom_calls() -> None:
    text = """HloModule m ENTRY e { x = f32[<=4] parameter(0)
      ROOT c = f32[<=4] custom-call(x), custom_call_target="twice" }"""

    def twice(call: HloInstruction, operands: Sequence[PaddedArray], b: PaddingWriter) -> list[PaddedArray] | None:
        (x,) = operands
        return [PaddedArray(b.make("add", x.data, x.data), x.sizes)] if "twice" in str(call) else None

    module = parse_hlo(text)
    assert DynamicPadder(custom_call_handler=twice).run(module)
    assert evaluate(module, np.ones(3, np.float32)).tolist() == [2, 2, 2]
    with pytest.raises(Unsupported, match="custom-call 'c' along a dynamic dimension"):
        DynamicPadder(custom_call_handler=twice).run(parse_hlo(text.replace("twice", "thrice")))


SIZES = """HloModule m ENTRY e { x = f32[4] parameter(0) n = s32[] parameter(1) k = s32[] parameter(2)
  a = f32[<=4] set-dimension-size(x, n), dimensions={0} b = f32[<=4] set-dimension-size(x, k), dimensions={0}
  ROOT r = f32[<=4] add(a, b) }"""


def test_sizes_that_may_differ() -> None:
    assert DynamicPadder().run(parse_hlo(SIZES))
    assert DynamicPadder(shape_check_mode="compile_time").run(
        parse_hlo(SIZES.replace("set-dimension-size(x, k)", "set-dimension-size(x, n)"))
    )
    with pytest.raises(FailedPrecondition, match="the sizes of the operands of add 'r' may differ"):
        DynamicPadder(shape_check_mode="compile_time").run(parse_hlo(SIZES))
    checked: list[HloInstruction] = []
    module = parse_hlo(SIZES)
    assert DynamicPadder(shape_check_mode="runtime", assertion_generator=lambda p, _: checked.append(p)).run(module)
    assert [p.opcode for p in checked] == ["compare"]
    with pytest.raises(
        InvalidArgument, match="one of ignore, compile_time, runtime, the last with an assertion_generator"
    ):
        DynamicPadder(shape_check_mode="runtime")
