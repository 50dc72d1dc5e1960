"""Calls to GPU libraries: what the passes write means what was there before, and pickers store what they measure."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.pass_cases import CASES, PassCase, read_cases
from tests.support.passes import leaves, random_arguments
from tests.support.tolerance import mismatch
from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import FailedPrecondition, Unsupported
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


@pytest.mark.parametrize(
    ("picker", "text", "config"),
    [
        (GemmAlgorithmPicker, GEMM, '"selected_algorithm":"-1"'),
        (GemmAlgorithmPicker, GEMM.replace("cublas$gemm", "cublas$lt$matmul$f8").replace("f32[", "f8e4m3fn["), '"a":1'),
        (GpuConvAlgorithmPicker, CONV, '"algorithm":"-1"'),
    ],
)
def test_the_default_is_no_choice_and_configurations_keep_their_form(
    picker: type[GemmAlgorithmPicker] | type[GpuConvAlgorithmPicker], text: str, config: str
) -> None:
    wrapper = "gemm_backend_config" if picker is GemmAlgorithmPicker else "cudnn_conv_backend_config"
    text = re.sub(r", backend_config=\{.*\}\}", "", text, flags=re.DOTALL)
    target = re.search('custom_call_target="[^"]*"', text)
    assert target is not None
    wrapped = f'{{"operation_queue_id":"0","{wrapper}":{{{config}}}}}'
    module = parse_hlo(text.replace(target[0], f"{target[0]}, backend_config={wrapped}"))
    item = picker(measure=lambda _: Measured(5))
    assert item.run(module) and not item.run(module)
    call = next(i for i in module.entry_computation.instructions if i.opcode == "custom-call")
    assert call.parsed_backend_config["operation_queue_id"] == "0"
    assert "5" in call.parsed_backend_config[wrapper].values()


def test_cholesky_says_which_matrices_have_no_factor() -> None:
    module = parse_hlo("""ENTRY e { a = f32[3,2,2] parameter(0)
      ROOT c = (f32[3,2,2]{1,2,0}, f32[4], s32[3]) custom-call(a), custom_call_target="__cusolver$cholesky",
        operand_layout_constraints={f32[3,2,2]{1,2,0}}, backend_config={"lower":true} }""")
    matrices = np.array([[[4, 2], [2, 5]], [[1, 2], [2, 1]], [[9, 0], [0, 1]]], np.float32)
    factor, workspace, info = evaluate(module, matrices)
    assert list(info) == [0, 1, 0] and not workspace.any()
    assert np.isnan(factor[1]).any() and not np.isnan(factor[[0, 2]]).any()


@pytest.mark.parametrize(("picker", "text"), [(GemmAlgorithmPicker, GEMM), (GpuConvAlgorithmPicker, CONV)])
def test_pickers_change_nothing_without_a_measurement(
    picker: type[GemmAlgorithmPicker] | type[GpuConvAlgorithmPicker], text: str
) -> None:
    def fails(_: HloInstruction) -> Measured:
        raise RuntimeError("no kernel ran")  # of the measurement, whatever it is

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
        (
            'ENTRY e { x = f32[2,3] parameter(0) ROOT g = f32[2,3] custom-call(x, x), custom_call_target="__cublas$gemm" }',
            r"gemm 'g' gives f32\[2,3\].*, its dimension numbers f32\[2,3,2,3\]",
        ),
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
