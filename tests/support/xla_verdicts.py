"""What XLA's own tests say of passes, where the corpus is: `python -m tests.support.xla_verdicts [pass ...]`.

A record is a module, XLA's class of the pass, whether XLA's pass changes it, and perhaps CHECK lines for the result.
The script prints a table of agreement per pass and, for the passes named, each record that disagrees.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support import corpus
from tests.support.filecheck import filecheck
from xjit.hlo.io.printing import HloPrintOptions
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
from xjit.passes.framework.pass_text import split_pass_list
from xjit.text.parser import parse_hlo

FOLDER = corpus.ROOT / "xla_tests"

_ALGEBRA: Mapping[str, Sequence[str]] = {
    "is_layout_sensitive": (
        "CopyReshapeCopy3", "TransposeOfBroadcastWithLayoutCheckSkipped", "CopyReshapeToReshapeCopyWithHostCopies",
        "BitcastCopyChain", "BitcastTransposeChainReshapeIsBitcast", "LayoutSensitive_EqualShapes_StartTranspose",
        "TransposeBitcastOfBroadcast", "LayoutConstraintToCopy", "CopyBitcastCopy2",
    ),
    "use_associative_reordering": (
        "DotAssociativeReorder", "DotLeftDotSharedBatchReorder", "DotReverseLeftReorder", "DotReverseRightReorder",
        "DotPadRightReorder", "ReduceDotReorder", "SliceDotReorderWithStrides",
    ),
    "disable_dynamic_slice_to_slice_conversion": ("DynamicSlicePreservedWithTrivialConstantIndices",),
    "enable_remove_no_op_reduce_precision": (
        "ReducePrecisionWithSamePrecisionAsOperandIsRemovedIfRemoveNoOpIsSet",
    ),
    "enable_conditional_simplification": ("ConditionalWithConvert",),
    "enable_fold_transpose_into_scatter": ("FoldTransposeIntoScatter",),
}  # fmt: skip
"""Tests of the algebraic simplifier by the option that they set."""

_GEMM = "transpose-folding{dot_operands=all},gemm-rewriter{use_cublaslt=true,wrap_config=true,workspace_bytes=4194304"

_SLICES = "dynamic-slice-annotator,dynamic-slice-fusion-rewriter-v2"

RUN: Mapping[str, str] = {
    "AlgebraicSimplifier": "algebraic-simplifier{xla_compatible_fp=true}",
    **{
        f"AlgebraicSimplifier.{test}": f"algebraic-simplifier{{xla_compatible_fp=true,{option}=true}}"
        for option, tests in _ALGEBRA.items()
        for test in tests
    },
    "AlgebraicSimplifier.DotLeftDotSharedBatchReorder": (
        "algebraic-simplifier{xla_compatible_fp=true,use_associative_reordering=true,associative_reordering_threshold=1.5}"
    ),
    "AlgebraicSimplifier.DotOfConcatRank3LhsRank1Rhs": (
        "algebraic-simplifier{xla_compatible_fp=true,enable_dot_strength_reduction=false}"
    ),
    "AlgebraicSimplifier.DisabledTransposeReshapeToConcatSlice": (
        "algebraic-simplifier{xla_compatible_fp=true,rewrite_reshape_transpose_as_slice_concatenate=false}"
    ),
    "MakePipeline": _SLICES,  # of the tests of DynamicSliceFusionRewriterV2
    **{f"MakePipeline.line{line}": f"{_SLICES}{{fuse_slices=false,fuse_updates=false}}" for line in (883, 901)},
    "MakePipeline.line948": f"{_SLICES}{{fuse_updates=false}}",
    "MakePipeline.line995": f"{_SLICES}{{fuse_slices=false}}",
    **{f"MakePipeline.line{line}": f"{_SLICES}{{opt_level=2}}" for line in (2290, 2328)},
    "AssociativeScanRewriter": "associative-scan-rewriter{base_length=128}",
    "ReduceWindowRewriter": "reduce-window-rewriter{base_length=128}",
    "HloDCE.RemoveDeadEntryParametersAndLayout": "hlo-dce{remove_dead_parameters_from_entry=true}",
    "HloRematerialization.RematTupleShapeDoubleUse": "hlo-rematerialization{memory_limit_bytes=11264}",
    "HloRematerialization.RematThroughTuple": "hlo-rematerialization{memory_limit_bytes=11264}",
    "HloRematerialization.RematTupleArgFusion": "hlo-rematerialization{memory_limit_bytes=11264}",
    "HloRematerialization.RematFusionUpdateSchedule": "hlo-rematerialization{memory_limit_bytes=11264}",
    "HloRematerialization.OnlyRematBigBuffer": "hlo-rematerialization{memory_limit_bytes=1024,min_remat_size=500}",
    "HloRematerialization.AvoidPathologicalCompress": "hlo-rematerialization{memory_limit_bytes=20480}",
    "HloRematerialization.AllUsersUseSameCopy": "hlo-rematerialization{memory_limit_bytes=1024}",
    "HloRematerialization.SkipOffloadWhenBitcastIsInvolved": "hlo-rematerialization{memory_limit_bytes=18432}",
    "HloRematerialization.DCEHasToRunTillFixedPoint": "hlo-rematerialization{memory_limit_bytes=1024}",
    "HloRematerialization.PeakFirstRematerializationWorks": "hlo-rematerialization{memory_limit_bytes=1126400}",
    "HloRematerialization.PeakFirstRematerializesSmallValuesAndSubComputations": "hlo-rematerialization{memory_limit_bytes=145408}",
    "HloRematerialization.RematCallbackIsCalled": "hlo-rematerialization{memory_limit_bytes=145408}",
    "HloRematerialization.PeakFirstRematerializesAtSamePeak": "hlo-rematerialization{memory_limit_bytes=145408}",
    "ReduceDecomposer.line47": "reduce-decomposer{custom_layout_allowed=true}",
    "ReduceDecomposer.line76": "reduce-decomposer{custom_layout_allowed=true}",
    "MultiOutputFusion": "gpu-multi-output-fusion",  # XLA's tests are of the GPU's
    "TransposeFolding.FoldTransposeOfBatchWhenPermitted": "transpose-folding{dot_operands=all}",
    "CudnnFusedConvRewriter": "gpu-conv-rewriter,cudnn-fused-conv-rewriter",
    "GemmRewriter": f"{_GEMM}}}",
    "GemmRewriter.line377": f"{_GEMM},fuse_bias=false}}",
    "HostOffloadingPrepare": "host-offloading-prepare{rewrite=convert_to_custom_call}",
    "RecognizeReduceWindow": "recognize-reduce-window{xla_compatible_fp=true}",
    **{
        f"RecognizeReduceWindow.line{line}": (
            f"recognize-reduce-window{{xla_compatible_fp=true,optimization_level={level}}}"
        )
        for level, lines in ((2, (260, 318, 447, 497, 684, 933)), (3, (298, 429, 477)))
        for line in lines
    },
    "ScatterExpander.EliminateSimpleScattersSkipsNontrivialScatter": (
        "scatter-expander{mode=eliminate_simple_scatters}"
    ),
    "WhileLoopConstantSinking.SinkBroadcastOfConstantWithOriginalValue": (
        "while-loop-constant-sinking{sink_broadcast_of_constants=true}"
    ),
    **dict.fromkeys(
        (
            "ShardingPropagation.GatherBackwardWithExplicitBatchDims1",
            "ShardingPropagation.ScatterBackwardWithExplicitBatchDims",
            "ShardingPropagation.PropagateToParametersPartial1",
            "ShardingPropagation.PropagateToParametersPartial3",
            "ShardingPropagation.PropagateToParametersPartial4",
            "ShardingPropagation.PropagateToParametersFull1",
            "ShardingPropagation.PropagateToParametersFull2",
            "ShardingPropagation.PropagateToTupleParameter_WithoutSharding",
        ),
        "sharding-propagation{allow_spmd_sharding_propagation_to_parameters=true}",
    ),
}
"""Tests whose pass has options: `ClassName.TestName`, then the pass as text, `call-inliner{single_call_site=true}`.
`ClassName` alone is for its other tests, and several passes run in order, as in XLA's fixtures."""

_ADDERS = "HloModule test_module " + " ".join(
    f"scalar_{word}_computation{{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] {opcode}(a, b) }}"
    for word, opcode in (("add", "add"), ("mul", "multiply"))
)
FIXTURES: Mapping[str, str] = {"MultiOutputFusion": _ADDERS}
"""What XLA's tests of a pass put in front of modules that have no header."""

PRINTED = (
    HloPrintOptions(print_metadata=False),
    HloPrintOptions(print_metadata=False, print_layouts=False),
    HloPrintOptions(),
)
"""How XLA's tests print a module: a few without layouts or with metadata, which the records do not say."""


@dataclass(frozen=True)
class Record:
    """One expectation of an XLA test; `checks` is "" if it has no CHECK lines."""

    place: str
    test: str
    xla_class: str
    before: str
    changed: bool
    checks: str

    @property
    def run(self) -> str:
        """The pass as text; "" if PASSES has none of this class."""
        name = _NAMES.get(self.xla_class.replace("gpu::", "Gpu")) or _NAMES.get(self.xla_class.replace("gpu::", ""))
        return RUN.get(f"{self.xla_class}.{self.test}", RUN.get(self.xla_class, name or "") if name else "")


@dataclass(frozen=True)
class Score:
    """Records of a pass; how many agree in the changed bit, have CHECK lines, and satisfy them."""

    records: int
    agree: int
    checks: int
    checks_hold: int


_NAMES = {cls.__name__: cls.name for cls in PASSES.values()} | {"MakePipeline": _SLICES}
_MISNAMED = {"xla/service/while_loop_all_reduce_code_motion_test.cc": "WhileLoopAllReduceCodeMotion"}
"""Files whose tests verify the module right after the pass, and were recorded under the verifier's name."""

_CLASS = re.compile(r"(?:spmd::)?((?:gpu::)?[A-Z]\w*)\s*[({]")


@cache
def read_records() -> tuple[Record, ...]:
    """Returns the verdicts and the rewrites whose pass is written as a constructor call; none without the corpus."""
    if not FOLDER.is_dir():
        return ()
    return (*_verdicts(), *_rewrites())


def _lines(name: str) -> Iterable[dict[str, Any]]:
    return map(json.loads, (FOLDER / name).read_text().splitlines())


def _verdicts() -> Iterable[Record]:
    for r in _lines("pass_verdicts.jsonl"):
        xla_class = str(_MISNAMED.get(r["file"], r["pass"]))
        yield Record(f"{r['file']}:{r['line']}", r["test"], xla_class, r["before"], r["changed"], r["check"] or "")


def _rewrites() -> Iterable[Record]:
    for r in _lines("pass_rewrites.jsonl"):
        found, before = _CLASS.match(r["pass"]), r["before"]
        checks = r["expected"] or (before if "CHECK" in before else "")
        if found:
            yield Record(f"{r['file']}:{r['line']}", f"line{r['line']}", found[1], before, bool(checks), checks)


def judge(record: Record) -> tuple[bool, str]:
    """Returns (the changed bit is XLA's, what is wrong); the second is "" if CHECK lines hold, too."""
    try:
        header = "" if "HloModule" in record.before else FIXTURES.get(record.xla_class, "")
        before = record.before.replace('custom_call_target="%s"', 'custom_call_target="MoveToHost"')
        module = parse_hlo(header + before, allow_elided_constants=True)
        changed = False
        for text in split_pass_list(record.run):
            changed |= make_pass(PASSES, text).run(module)
        verify_module(module)
    except Exception as error:  # a table shows every kind of failure
        return False, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if changed != record.changed:
        return False, "changed" if changed else "unchanged"
    answers = [filecheck(module.to_string(options), record.checks) for options in PRINTED]
    return True, "" if "" in answers else f"not satisfied: {answers[0]}"


@cache
def score(xla_class: str) -> Score:
    """Returns the agreement of one pass."""
    records = [r for r in read_records() if r.xla_class == xla_class]
    answers = [(r, *judge(r)) for r in records]
    with_checks = [(agrees and not wrong) for r, agrees, wrong in answers if r.checks]
    return Score(len(records), sum(agrees for _, agrees, _ in answers), len(with_checks), sum(with_checks))


def table() -> str:
    """Returns agreement per pass as text; passes that PASSES has not are called missing."""
    counts: dict[str, int] = defaultdict(int)
    present = {r.xla_class: bool(r.run) for r in read_records()}
    lines = [f"{'pass':34}{'records':>8}{'agree':>8}{'checks':>8}{'hold':>8}"]
    for r in read_records():
        counts[r.xla_class] += 1
    for name in sorted(counts, key=lambda n: (not present[n], n)):
        if present[name]:
            s = score(name)
            lines.append(f"{name:34}{s.records:8}{s.agree:8}{s.checks:8}{s.checks_hold:8}")
        else:
            lines.append(f"{name:34}{counts[name]:8} missing")
    return "\n".join(lines)


def main(names: Sequence[str]) -> None:
    """Prints the table, then the disagreements of the passes named (XLA's class)."""
    print(table())
    for record in read_records():
        if record.xla_class in names and record.run and (wrong := judge(record)[1]):
            expected = "changed" if record.changed else "unchanged"
            print(f"\n{record.xla_class}.{record.test} ({record.place})\n  expected {expected}: {wrong}")


if __name__ == "__main__":
    main(sys.argv[1:])
