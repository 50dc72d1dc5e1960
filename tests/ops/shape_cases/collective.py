"""Cases of xjit/ops/shape_inference/collective.py."""

from __future__ import annotations

from tests.ops.shape_cases.prelude import Broken, Valid

VALID: list[Valid] = [
    ("all-gather(x), dimensions={0}, replica_groups={{0,1}}", "f32[16,3]"),
    ("all-gather(x, it), dimensions={1}, replica_groups={{0,1},{2,3}}", "(f32[8,6], s32[8,6])"),
    ("all-gather-start(x), dimensions={0}, replica_groups={{0,1}}", "(f32[8,3], f32[16,3])"),
    ("all-reduce(x), replica_groups={{0,2},{1}}, to_apply=add_f32", "f32[8,3]"),
    ("all-reduce(x, h), replica_groups={}, to_apply=add_f32", "(f32[8,3], bf16[8,3])"),
    ("all-reduce-start(x), replica_groups={}, to_apply=add_f32", "f32[8,3]"),
    ("reduce-scatter(x), dimensions={0}, replica_groups={{0,1,2,3}}, to_apply=add_f32", "f32[2,3]"),
    ("all-to-all(x), dimensions={0}, replica_groups={{0,1}}", "f32[8,3]"),
    ("all-to-all(x, x), replica_groups={{0,1}}", "(f32[8,3], f32[8,3])"),
    ("ragged-all-to-all(x, x, sz, sz, sz, sz), replica_groups={{0,1}}", "f32[8,3]"),
    ("collective-broadcast(x), replica_groups={{3,1}}", "f32[8,3]"),
    ("collective-permute(x), source_target_pairs={{0,1},{1,0}}", "f32[8,3]"),
    ("collective-permute-start(x), source_target_pairs={{0,1}}", "(f32[8,3], f32[8,3], u32[], u32[])"),
]

INVALID: list[Broken] = [
    ("all-gather(x), dimensions={0}, replica_groups={{0,1}}", "f32[24,3]", "differ by the factor 3, but groups have 2"),
    ("all-gather(x), dimensions={0}, replica_groups={}", "f32[17,3]", "size 17 is not a multiple of size 8"),
    ("all-gather(x), dimensions={2}, replica_groups={{0,1}}", "f32[16,3]", "dimension 2 is out of range for rank 2"),
    ("all-gather(x), dimensions={0}, replica_groups={{0,1},{1,2}}", "f32[16,3]", "replica_groups name 1 twice"),
    ("all-gather(x), dimensions={0}, replica_groups={{0,2}}", "f32[16,3]", "must name each of 0..1 once, 1 is missing"),
    ("all-gather(x), dimensions={0}, replica_groups={{0,1},{2}}", "f32[16,3]", "must have the same size"),
    ("all-reduce(x), replica_groups={}, to_apply=three", "f32[8,3]", "combiner three must map two scalars to a scalar"),
    ("all-reduce(t), replica_groups={}, to_apply=add_f32", "token[]", "operand 0 must be an array"),
    (
        "reduce-scatter(x), dimensions={1}, replica_groups={{0,1}}, to_apply=add_f32",
        "f32[8,1]",
        "differ by the factor 3",
    ),
    ("all-to-all(x, v), replica_groups={{0,1}}", "(f32[8,3], f32[3])", "operand 1 has shape f32[3], operand 0 has"),
    ("all-to-all(x), replica_groups={{0,1}}", "(f32[8,3])", "needs one operand per group member, 2, got 1"),
    ("all-to-all(x, x), replica_groups={{0}}", "(f32[8,3], f32[8,3])", "needs one operand per group member, 1, got 2"),
    ("all-to-all(x), dimensions={1}, replica_groups={{0,1}}", "f32[8,3]", "is not a multiple of the group size 2"),
    ("ragged-all-to-all(x, w, sz, sz, sz, sz), replica_groups={}", "f32[3,4]", "differ in more than dimension 0"),
    ("ragged-all-to-all(x, x, sz, sz, sz, g), replica_groups={}", "f32[8,3]", "operand 5 has shape s32[2]"),
    ("collective-broadcast(x), replica_groups={{1,1}}", "f32[8,3]", "must be disjoint"),
    (
        "collective-permute(x), source_target_pairs={{0,1},{0,2}}",
        "f32[8,3]",
        "source_target_pairs name the source 0 twice",
    ),
    (
        "collective-permute(x), source_target_pairs={{0,1},{2,1}}",
        "f32[8,3]",
        "source_target_pairs name the target 1 twice",
    ),
]
