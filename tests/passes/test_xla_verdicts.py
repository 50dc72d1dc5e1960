"""Agreement of passes with XLA's own tests, where the corpus is; `python -m tests.support.xla_verdicts` shows more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.filecheck import filecheck
from tests.support.xla_verdicts import Record, judge, read_records, score

RECORDED: Mapping[str, tuple[int, int]] = {
    "AddOriginalValue": (1, 1),
    "AddTrackingSuffixToInstructionNames": (1, 1),
    "AlgebraicSimplifier": (90, 0),  # a transpose of updates that moves a dimension of size 1 is a reshape here
    "AllGatherDecomposer": (3, 0),
    "AllGatherRemoveDegenerateDims": (6, 3),
    "AllReduceCombiner": (4, 0),
    "AllReduceSimplifier": (5, 0),
    "ArCrsCombiner": (12, 0),
    "AssociativeScanRewriter": (4, 0),  # XLA's tuple has the first carry for the last
    "BatchDotSimplification": (6, 0),
    "BatchedGatherScatterNormalizer": (7, 7),
    "BatchNormExpander": (2, 0),
    "BFloat16Propagation": (1, 0),
    "BroadcastCanonicalizer": (2, 2),
    "CallInliner": (6, 3),
    "CollectivePermuteCSE": (1, 1),
    "ConditionalCanonicalizer": (2, 0),
    "ConditionalCodeMotion": (17, 0),
    "ConditionalSimplifier": (2, 0),
    "Despecializer": (4, 0),
    "ConvolutionGroupConverter": (1, 0),
    "CuDnnCustomCallConverter": (1, 1),
    "CudnnFusedConvRewriter": (2, 0),
    "DynamicPadder": (3, 0),  # of the fourth, an s64 size, the verifier refuses the module
    "EstimateCubScanScratchSize": (1, 1),
    "EstimateCubSortScratchSize": (8, 8),
    "FlattenCallGraph": (4, 0),
    "FusionWrapper": (3, 1),
    "GemmRewriter": (38, 17),  # of the 39th, a broadcast, XLA's whole pipeline makes a copy
    "GatherExpander": (6, 2),
    "GatherSimplifier": (4, 3),
    "GpuLayoutAssignment": (1, 1),
    "HloCSE": (10, 0),
    "HloConstantFolding": (13, 0),
    "HloDCE": (6, 0),
    "HloModuleDCE": (5, 0),  # of the sixth, the outfeed's shape is refused
    "HloRematerialization": (12, 0),  # of the last, a computation in braces is refused
    "HloVerifier": (4, 0),
    "HostOffloadingPrepare": (1, 0),  # XLA prints custom-call-start for what is an async-start here
    "InstructionFusion": (3, 0),
    "LayoutAssignment": (0, 0),
    "LayoutNormalization": (32, 29),  # a bitcast of what was renumbered is not one of its own
    "MakePipeline": (13, 12),  # tests of DynamicSliceFusionRewriterV2
    "MoveCopyToUsers": (7, 6),
    "MultiOutputFusion": (18, 4),  # the fifth expects XLA's names of clones
    "RaggedDotRewriter": (2, 2),
    "RecognizeReduceWindow": (17, 9),  # the tenth asks for names
    "ReduceDecomposer": (6, 3),
    "ReduceWindowRewriter": (2, 2),
    "ReshapeDecomposer": (2, 2),
    "RootInstructionSinker": (2, 0),
    "ScatterExpander": (3, 1),
    "ScatterSimplifier": (6, 4),
    "ShardingPropagation": (125, 0),  # one is a test of metadata; one counts a change that it takes back
    "SliceSinker": (11, 0),
    "TransposeFolding": (7, 0),
    "SpmdPartitioner": (1, 0),  # XLA names every parameter "param"
    "TriangularSolveExpander": (1, 0),
    "WhileLoopAllReduceCodeMotion": (11, 0),
    "WhileLoopConstantSinking": (6, 0),
    "WhileLoopTripCountAnnotator": (3, 0),
}
"""By XLA's class: in how many records the changed bit is XLA's, and in how many the CHECK lines hold. At least."""


DISAGREEMENTS: Mapping[str, str] = {
    "AlgebraicSimplifier.RespectHostOffloadingcopies": "a copy that changes dimensions is refused",
    "AlgebraicSimplifier.SquaredComplexSqrtIsFloat": "wrong: sqrt(i * i) is i, and abs(i) is 1",
    "CallInliner.InlineCallWithOverriddenAttributeInlineableFalse": "needs XLA's option to override the attribute",
    "CallInliner.UseShardyMhloToHloShmapBodyNotInlined": "knows a computation by its name; nothing depends on that here",
    "DynamicPadder.IllegalType": "the size of a dimension is s32: an s64 is refused",
    "GemmRewriter.BF16Transpose": "XLA's whole pipeline makes a copy",
    "HloConstantFolding.BigReduceWindow": "the constant would be large: 2 million elements of a broadcast one",
    "HloConstantFolding.ConstantFoldReduceNoLayout": "a pad to 2 GiB; XLA's test allows any size",
    "HloModuleDCE.WhileWithOutfeed": "the outfeed's shape is refused",
    "HloRematerialization.DCEHasToRunTillFixedPoint": "fits into the limit without",
    "ShardingPropagation.DoNotPropagateToOutputIfNotDivisible_WithSharding": "XLA counts a change that it takes back",
    "ShardingPropagation.ShardingMetadataFromInstructionNoMetadata": "a test of metadata in shardings",
    "WhileLoopConstantSinking.DontCreateDeadConstant": "the body's result is not the loop's state: refused",
}
"""Every record whose changed bit is not XLA's, `ClassName.TestName`, and why; of the passes that there are."""


def _parameter(name: str) -> Any:
    present = any(r.run for r in read_records() if r.xla_class == name)
    missing = pytest.mark.xfail(reason=f"PASSES has no {name}", run=False)
    return pytest.param(name, marks=[pytest.mark.corpus, *([] if present else [missing])])


@pytest.mark.parametrize("name", [_parameter(name) for name in sorted({r.xla_class for r in read_records()})])
def test_agreement(name: str) -> None:
    found, (agree, hold) = score(name), RECORDED.get(name, (0, 0))
    assert found.agree >= agree and found.checks_hold >= hold, f"{name}: {found}, recorded are {agree} and {hold}"


@pytest.mark.corpus
def test_every_disagreement_is_explained() -> None:
    records = [r for r in read_records() if r.run]
    if not records:
        pytest.skip("the corpus is not there")
    found = {f"{r.xla_class}.{r.test}" for r in records if not judge(r)[0]}
    assert found == DISAGREEMENTS.keys()
    assert len(found) <= 0.1 * len(records)


def test_a_record_is_judged_by_the_changed_bit_and_by_its_checks() -> None:
    dead = "HloModule m ENTRY e { x = f32[4] parameter(0) d = f32[4] abs(x) ROOT r = f32[4] negate(x) }"
    record = Record("here", "Dead", "HloDCE", dead, True, "CHECK-NOT: abs\nCHECK: negate(%x)")
    assert judge(record) == (True, "")
    assert judge(Record("here", "Dead", "HloDCE", dead, False, "")) == (False, "changed")
    assert judge(Record("here", "Dead", "HloDCE", dead, True, "CHECK: abs")) == (True, "not satisfied: CHECK: abs")
    assert judge(Record("here", "Dead", "HloDCE", "HloModule", True, ""))[1].startswith("HloParseError")


TEXT = """ENTRY %e (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %a = f32[4]{0}   abs(%x)
  ROOT %r = f32[4]{0} negate(%a), metadata={op_name="n"}
}"""


@pytest.mark.parametrize(
    ("checks", "missing"),
    [
        ("// CHECK: %[[X:.*]] = f32[4]{0} parameter\n// CHECK: abs(%[[X]])", ""),
        ("CHECK: %[[X:.*]] = f32[4]{0} parameter\nCHECK: negate(%[[X]])", "CHECK: negate(%[[X]])"),
        ("CHECK: [[A:%[^ ]+]] = f32[4]{0} abs\nCHECK: negate([[A]])\nCHECK-SAME: op_name", ""),
        ("CHECK: abs\nCHECK: parameter", "CHECK: parameter"),
        ("CHECK-DAG: negate\nCHECK-DAG: abs\nCHECK: }", ""),
        ("CHECK: parameter\nCHECK-NEXT: abs", ""),
        ("CHECK: parameter\nCHECK-NEXT: negate", "CHECK-NEXT: negate"),
        ("CHECK: parameter\nCHECK-SAME: abs", "CHECK-SAME: abs"),
        ("CHECK: parameter\nCHECK-NOT: abs\nCHECK: negate", "CHECK: negate"),
        ("CHECK-NOT: negate", "CHECK-NOT at the end"),
        ("CHECK-COUNT-2: {{%[ax] =}}\nCHECK-NOT: abs(%a", ""),
        ("CHECK-COUNT-3: {{%[ax] =}}", "CHECK-COUNT-3: {{%[ax] =}}"),
        ("CHECK: parameter{{[^ ]+}}\nCHECK-NEXT: abs", ""),
        ("CHECK-LABEL: ENTRY {{.*}}(x: f32[4])", ""),
        ("no directive", ""),
    ],
)
def test_filecheck(checks: str, missing: str) -> None:
    assert filecheck(TEXT, checks) == missing
