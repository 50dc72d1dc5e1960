"""Options whose values a pass refuses, and passes that refuse a module."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernels import check
from xjit.hlo import Shape
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.ops.evaluation import evaluate
from xjit.passes import PASSES, PassDriver, cpu_pipeline, make_pass
from xjit.passes.cpu.shape_partition import partition_counts
from xjit.passes.expand.convolution_group_converter import ConvolutionGroupConverter
from xjit.passes.simplify.topk_rewriter import TopkRewriter
from xjit.passes.simplify.transpose_folding import TransposeFolding, is_row_column_transpose_dot_operand
from xjit.text.parser import parse_hlo


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op-expander-pass{opcode=tanh}", "one of negate, subtract, not, found 'tanh'"),
        ("transpose-folding{dot_operands=some}", "one of matrices, factors, all, none, found 'some'"),
        ("transpose-folding{convolution_operands=matrices}", "one of all, none"),
        ("topk-rewriter{is_profitable=true}", "can only be set from Python"),
    ],
)
def test_values_of_options(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make_pass(PASSES, text)


@pytest.mark.parametrize("types", [("f32", "f16"), ("s8", "u32"), ("s8", "f32"), ("pred", "s32"), ("f16", "nonsense")])
def test_types_must_be_wider_ones_of_the_same_kind(types: tuple[str, str]) -> None:
    module = parse_hlo("HloModule m ENTRY e { x = f16[] parameter(0) ROOT r = f16[] negate(x) }")
    with pytest.raises(InvalidArgument, match="hlo-element-type-converter: "):
        make_pass(PASSES, f"hlo-element-type-converter{{eliminate_type={types[0]},replace_type={types[1]}}}").run(
            module
        )


def test_a_type_made_out_of_others_is_refused_before_anything_changes() -> None:
    text = (
        "HloModule m ENTRY e { x = f16[2,2] parameter(0) n = f16[2,2] negate(x) y = s8[2,2] parameter(1)"
        " d = f16[2,2] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT a = f16[2,2] add(n, d) }"
    )
    module = parse_hlo(text)
    fingerprint = module_fingerprint(module)
    with pytest.raises(FailedPrecondition, match="d: dot makes f16 out of other types"):
        make_pass(PASSES, "hlo-element-type-converter").run(module)
    assert module_fingerprint(module) == fingerprint


@pytest.mark.parametrize(
    ("dimensions", "target", "counts"),
    [
        ((1024, 256), 2, [2]),
        ((3, 100, 50), 4, [2, 2]),
        ((3, 100), 7, [3, 2]),
        ((7,), 3, [3]),
        ((2,), 8, [2]),
        ((1, 1, 5), 4, [1, 1, 4]),
        ((4, 4), 1, []),
        ((), 4, []),
    ],
)
def test_partitions(dimensions: tuple[int, ...], target: int, counts: list[int]) -> None:
    assert partition_counts(Shape.array("f32", dimensions), target) == counts


def test_the_slowest_dimension_is_cut_first() -> None:
    assert partition_counts(Shape.array("f32", (100, 3), (0, 1)), 4) == [2, 2]
    assert partition_counts(Shape.array("f32", (100, 3)), 4) == [4]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_leaves_the_values(threads: int) -> None:
    text = "HloModule m ENTRY e { x = f32[331,701] parameter(0) ROOT r = f32[331,701] negate(x) }"
    module = parse_hlo(text)
    changed = make_pass(PASSES, f"parallel-task-assigner{{max_parallelism={threads},cpus=64}}").run(module)
    assert changed == (threads > 1)
    x = np.linspace(-1, 1, 331 * 701, dtype=np.float32).reshape(331, 701)
    assert np.array_equal(evaluate(module, x), -x)


CONVOLUTION = """HloModule m ENTRY e { x = f32[1,5,4] parameter(0) w = f32[3,2,6] parameter(1)
  ROOT c = f32[1,3,6] convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2 }"""


def test_hooks_choose_convolutions() -> None:
    batches = CONVOLUTION.replace("1,5,4", "2,5,2").replace("feature_group_count", "batch_group_count")
    assert ConvolutionGroupConverter().run(parse_hlo(batches))
    for text in (CONVOLUTION, batches):
        assert not ConvolutionGroupConverter(should_expand=lambda _: False).run(parse_hlo(text))
    module = parse_hlo(CONVOLUTION)
    assert ConvolutionGroupConverter(filter_expansion=False, is_cost_viable=lambda _: False).run(module)
    assert "select(" in str(module)


def test_a_hook_says_what_is_a_profitable_top_k() -> None:
    text = """HloModule m gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }
      ENTRY e { x = f32[10] parameter(0) s = f32[10] sort(x), dimensions={0}, to_apply=gt
        ROOT v = f32[4] slice(s), slice={[0:4]} }"""
    asked: list[int] = []
    assert not TopkRewriter(is_profitable=lambda _, k: bool(asked.append(k))).run(parse_hlo(text))
    assert asked == [4]


@pytest.mark.parametrize(("k", "expected"), [(4, True), (32, True), (33, False)])
def test_programs_for_cpus_sort_only_what_is_read(k: int, expected: bool) -> None:
    text = f"""HloModule m gt {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }}
      ENTRY e {{ x = f32[64] parameter(0) s = f32[64] sort(x), dimensions={{0}}, to_apply=gt
        ROOT v = f32[{k}] slice(s), slice={{[0:{k}]}} }}"""
    module = parse_hlo(text)
    PassDriver().run(cpu_pipeline(), module)
    assert ("TopK" in str(module)) == expected


@pytest.mark.parametrize("order", ["", ", type=TOTALORDER"])
@pytest.mark.parametrize("stable", ["false", "true"])
def test_zeros_stay_where_a_stable_sort_by_gt_leaves_them(order: str, stable: str) -> None:
    """Of both signs: they are equal then, and top k would begin with those that are not negative."""
    text = f"""HloModule m
      gt {{ a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
        ROOT r = pred[] compare(a, b), direction=GT{order} }}
      ENTRY e {{ x = f32[8] parameter(0) i = s32[8] iota(), iota_dimension=0
        s = (f32[8], s32[8]) sort(x, i), dimensions={{0}}, is_stable={stable}, to_apply=gt
        v = f32[8] get-tuple-element(s), index=0 vk = f32[3] slice(v), slice={{[0:3]}}
        p = s32[8] get-tuple-element(s), index=1 pk = s32[3] slice(p), slice={{[0:3]}}
        ROOT t = (f32[3], s32[3]) tuple(vk, pk) }}"""
    kept = stable == "true" and not order
    module = parse_hlo(text)
    PassDriver().run(cpu_pipeline(), module)
    assert ("TopK" in str(module)) == (not kept)
    if stable == "true":
        check(text, np.array([-0.0, 0, -0.0, 0, -1, -1, -1, -1], np.float32))


def test_hooks_say_which_transposes_are_folded() -> None:
    text = """HloModule m ENTRY e { a = f32[5,4] parameter(0) b = f32[6,5] parameter(1)
      at = f32[4,5] transpose(a), dimensions={1,0} bt = f32[5,6] transpose(b), dimensions={1,0}
      d = f32[4,6] dot(at, bt), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      x = f32[2,5,1] parameter(2) xt = f32[1,5,2] transpose(x), dimensions={2,1,0} w = f32[3,2,6] parameter(3)
      c = f32[1,3,6] convolution(xt, w), window={size=3}, dim_labels=b0f_0io->b0f
      ROOT r = (f32[4,6], f32[1,3,6]) tuple(d, c) }"""
    module = parse_hlo(text)
    item = TransposeFolding(can_fold_dot_operand=lambda _, n: n == 1, can_fold_convolution_operand=lambda *_: False)
    assert item.run(module) and [i.name for i in module.entry_computation.instructions if i.opcode == "transpose"] == [
        "at",
        "xt",
    ]
    dot = next(i for i in parse_hlo(text).entry_computation.instructions if i.opcode == "dot")
    assert is_row_column_transpose_dot_operand(dot, 0) and is_row_column_transpose_dot_operand(dot, 1)
