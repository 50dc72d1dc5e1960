"""Operations of scripts on packed layouts: their syntax."""

from __future__ import annotations

from xjit.linalg_ext.dialects.handle_syntax import handles_row

__all__ = ["PACKING_SCRIPT_ROWS"]

PACKING_SCRIPT_ROWS = (
    handles_row(
        "structured.pack",
        "target;packed_sizes*",
        "packed_op",
        "%target packed_sizes = indices(packed_sizes, static_packed_sizes)",
        ("packed_op",),
    ),
    handles_row(
        "structured.pack_greedily",
        "target;matmul_packed_sizes*",
        "packed_op",
        "%target { matmul_packed_sizes = indices(matmul_packed_sizes, static_matmul_packed_sizes) }"
        "?static_matmul_packed_sizes { matmul_padded_sizes_next_multiple_of ="
        " dense_integers(matmul_padded_sizes_next_multiple_of) }?matmul_padded_sizes_next_multiple_of"
        " { matmul_inner_dims_order = dense_integers(matmul_inner_dims_order) }?matmul_inner_dims_order",
        ("packed_op",),
    ),
    handles_row(
        "structured.pack_transpose",
        "target_pack_or_un_pack_op;target_linalg_op",
        "packed_op;pack_op;un_pack_op",
        "%target_pack_or_un_pack_op with_compute_op ( %target_linalg_op )"
        " { outer_perm = dense_integers(outer_perm) }?outer_perm"
        " { inner_perm = dense_integers(inner_perm) }?inner_perm",
        ("packed_op", "pack_op", "un_pack_op"),
    ),
    handles_row(
        "structured.lower_pack",
        "target",
        "pad_op;expand_shape_op;transpose_op",
        "%target",
        ("pad_op", "expand_shape_op", "transpose_op"),
    ),
    handles_row(
        "structured.lower_unpack",
        "target",
        "empty_op;transpose_op;collapse_shape_op;extract_slice_op",
        "%target",
        ("empty_op", "transpose_op", "collapse_shape_op", "extract_slice_op"),
    ),
)
