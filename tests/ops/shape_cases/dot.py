"""Cases of xjit/ops/shape_inference/dot.py."""

from __future__ import annotations

from tests.ops.shape_cases.prelude import Broken, Valid

VALID: list[Valid] = [
    ("dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[8,4]"),
    ("dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f64[8,4]"),
    ("dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[2,2]"),
    ("dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[3,3]"),
    ("dot(j, j), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "s32[3,3]"),
    (
        "dot(k, l), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        "f32[2,3,7]",
    ),
    ("dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[<=8,4]"),
    ("dot(y, x), lhs_contracting_dims={}, rhs_contracting_dims={}", "f32[8,3]"),
    ("scaled-dot(x, w, sl, sr), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[8,4]"),
    (
        "ragged-dot(k, l, g), lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={1}, rhs_group_dims={0}",
        "f32[2,3,7]",
    ),
    (
        "ragged-dot(k, l, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={2}",
        "f32[2,2,3,7]",
    ),
]

INVALID: list[Broken] = [
    (
        "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[8,3]",
        "contracting_dims: dimension 1 of lhs",
    ),
    ("dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={}", "f32[8,3,4]", "differ in length"),
    ("dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}", "f32[8,4]", "is out of range for rank 2"),
    (
        "dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[8,3,3]",
        "lhs dims={0,0} names a dimension twice",
    ),
    ("dot(i, i), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "s8[]", "result type s8 is narrower than"),
    ("dot(c, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f16[]", "result type f16 is narrower than"),
    ("convolution(c, c), dim_labels=bf_io->bf", "f32[2,2]", "of type c64 cannot give a result"),
    (
        "scaled-dot(x, w, v, sr), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[8,4]",
        "scale f32[3] does not",
    ),
    ("scaled-dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[8,4]", "got 2 operands"),
    (
        "ragged-dot(k, l, g), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}",
        "f32[2,3,2,7]",
        "a free ragged dimension needs one rhs_group_dims entry",
    ),
    (
        "ragged-dot(k, l, y), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, "
        "rhs_group_dims={0}",
        "f32[2,3,7]",
        "the group sizes must be integers of rank at least 1",
    ),
]
