"""Calls to GPU libraries: what the passes write means what was there before, and pickers store what they measure."""

from __future__ import annotations

import pytest

import xjit
from tests.support.pass_cases import CASES, PassCase, read_cases
from tests.support.passes import leaves, random_arguments
from tests.support.tolerance import mismatch
from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument, Unsupported
from xjit.ops.evaluation import evaluate
from xjit.ops.library_calls.targets import LIBRARY_TARGETS, call_target
from xjit.ops.verifier import verify_module
from xjit.passes.framework.base import PassWarning
from xjit.passes.gpu.algorithm_pickers import GemmAlgorithmPicker, GpuConvAlgorithmPicker, Measured
from xjit.passes.gpu.gpu_copy_insertion import GpuCopyInsertion
from xjit.passes.gpu.library_call_expander import LibraryCallExpander
from xjit.text.parser import parse_hlo

LIBRARY_CASES = [
    c for path in sorted((CASES / "gpu").glob("*.hlo")) for c in read_cases(path) if c.after and "none" not in c.values
]
ULPS, SCALE = (
    64,
    1e-2,
)  # sums in another order, scaled before or after; f16 rounds once instead of twice; compiled sums may cancel


@pytest.mark.parametrize("case", LIBRARY_CASES, ids=lambda case: case.id)
def test_values_stay(case: PassCase) -> None:
    before = parse_hlo(case.before)
    after = before.clone("")
    for item in case.passes():
        item.run(after)
    for seed in range(3):
        arguments = random_arguments(before, seed)
        got, expected = evaluate(after, *arguments), evaluate(before, *arguments)
        for a, e in zip(leaves(got), leaves(expected), strict=True):
            assert not (wrong := mismatch(a, e, ULPS, SCALE)), wrong


@pytest.mark.parametrize("case", LIBRARY_CASES[::4], ids=lambda case: case.id)
def test_expanded_calls_compile(case: PassCase) -> None:
    before = parse_hlo(case.before)
    after = parse_hlo(case.after or "")
    LibraryCallExpander().run(after)
    verify_module(after)
    assert not any(call_target(i) in LIBRARY_TARGETS for c in after.computations() for i in c.instructions)
    arguments = random_arguments(before)
    got, expected = xjit.compile(str(after))(*arguments), evaluate(before, *arguments)
    for a, e in zip(leaves(got), leaves(expected), strict=True):
        assert not (wrong := mismatch(a, e, ULPS, 1.0)), wrong


GEMM = """HloModule m ENTRY e { a = f32[6,5] parameter(0) b = f32[5,4] parameter(1)
  ROOT g = f32[6,4] custom-call(a, b), custom_call_target="__cublas$gemm", backend_config={"alpha_real":2,
    "dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}} }"""
CONV = """HloModule m ENTRY e { x = f32[1,8,8,4] parameter(0) w = f32[3,3,4,16] parameter(1)
  cc = (f32[1,6,6,16], u8[0]) custom-call(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f,
    custom_call_target="__cudnn$convForward"
  ROOT r = f32[1,6,6,16] get-tuple-element(cc), index=0 }"""


def test_the_gemm_picker_stores_a_measurement_and_measures_once() -> None:
    measured: list[HloInstruction] = []

    def measure(call: HloInstruction) -> Measured:
        measured.append(call)
        return Measured(3)

    first, second = parse_hlo(GEMM), parse_hlo(GEMM)
    picker = GemmAlgorithmPicker(measure=measure)
    assert picker.run(first) and picker.run(second) and not picker.run(first)
    assert len(measured) == 1
    config = second.entry_computation.root_instruction.parsed_backend_config
    assert config["selected_algorithm"] == "3" and config["alpha_real"] == 2


def test_the_conv_picker_stores_algorithm_and_scratch_memory() -> None:
    module = parse_hlo(CONV)
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    picker = GpuConvAlgorithmPicker(measure=lambda _: Measured(1, 4096, True))
    assert picker.run(module)
    verify_module(module)
    call = next(i for i in module.entry_computation.instructions if i.opcode == "custom-call")
    assert call.shape.tuple_shapes[1].dimensions == (4096,)
    assert call.parsed_backend_config == {"algorithm": "1", "tensor_ops_enabled": True}
    assert (evaluate(module, *arguments) == expected).all()
    assert not picker.run(module)


@pytest.mark.parametrize(("picker", "text"), [(GemmAlgorithmPicker, GEMM), (GpuConvAlgorithmPicker, CONV)])
def test_pickers_change_nothing_without_a_measurement(
    picker: type[GemmAlgorithmPicker] | type[GpuConvAlgorithmPicker], text: str
) -> None:
    def fails(_: HloInstruction) -> Measured:
        raise InvalidArgument("no kernel ran")

    module = parse_hlo(text)
    assert not picker().run(module)
    assert not picker(measure=lambda _: None).run(module)
    with pytest.warns(PassWarning, match="no kernel ran"):
        assert not picker(measure=fails).run(module)
    assert str(module) == str(parse_hlo(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GEMM.replace('"alpha_real":2', '"epilogue":"SILU"'), "gemm with the epilogue 'SILU'"),
        (CONV.replace("window={size=3x3}, dim_labels=b01f_01io->b01f,\n", ""), "without window or dim_labels"),
        (
            CONV.replace("x, w)", "x, w, b)")
            .replace("cc =", "b = f32[16] parameter(2) cc =")
            .replace('convForward"', 'convBiasActivationForward", backend_config={"activation_mode":"elu"}'),
            "activation 'elu'",
        ),
    ],
)
def test_calls_without_a_meaning_are_refused(text: str, message: str) -> None:
    module = parse_hlo(text)
    with pytest.raises(Unsupported, match=message):
        evaluate(module, *random_arguments(module))


def test_copy_insertion_refuses_a_batch_normalization_without_its_constants() -> None:
    module = parse_hlo("""
ENTRY e { x = f32[2,3] parameter(0)  s = f32[3] parameter(1)  epsilon = f32[] parameter(2)  index = s64[] constant(1)
  ROOT n = f32[2,3] custom-call(x, s, s, s, s, epsilon, index),
    custom_call_target="__cudnn$batchNormalizationForwardInference" }""")
    with pytest.raises(FailedPrecondition, match="n: the last two operands"):
        GpuCopyInsertion().run(module)
