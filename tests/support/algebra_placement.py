"""Instances of the rules on where things lie: indices, dimensions of size 1, windows, and what computes on scalars."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.algebra_modules import moves, reduce_window, reducer

_TWO_INDICES = "i = s32[] parameter(1) j = s32[] parameter(2) "

_INDICES: dict[str, tuple[str, ...]] = {
    "N45": moves(*(
        f"x = T[4,3] parameter(0) {_TWO_INDICES} ROOT r = T[{sizes}] dynamic-slice(x, i, j), "
        f"dynamic_slice_sizes={{{sizes}}}" for sizes in ("2,3", "4,2", "2,2")
    ), *(
        f"x = T[4,3] parameter(0) {_TWO_INDICES} u = T[{sizes}] parameter(3) "
        "ROOT r = T[4,3] dynamic-update-slice(x, u, i, j)" for sizes in ("2,3", "4,1", "2,2")
    )),
    "N46": moves(
        f"x = T[4,3] parameter(0) {_TWO_INDICES} t = T[3,4] transpose(x), dimensions={{1,0}} "
        "ROOT r = T[2,3] dynamic-slice(t, i, j), dynamic_slice_sizes={2,3}",
        f"x = T[4,3,5] parameter(0) {_TWO_INDICES} k = s32[] parameter(3) t = T[5,4,3] transpose(x), "
        "dimensions={2,0,1} ROOT r = T[2,3,1] dynamic-slice(t, i, j, k), dynamic_slice_sizes={2,3,1}",
    ),
    "N47": moves(*(
        f"x = T[{n}] parameter(0) i = {a}[] parameter(1) j = {b}[] parameter(2) y = T[{wide}] dynamic-slice(x, i), "
        f"dynamic_slice_sizes={{{wide}}} ROOT r = T[{narrow}] dynamic-slice(y, j), dynamic_slice_sizes={{{narrow}}}"
        for n, wide, narrow in ((8, 5, 2), (8, 8, 2), (8, 5, 5)) for a, b in (("s32", "s32"), ("u8", "s32"))
    ), "x = T[200] parameter(0) i = s8[] parameter(1) j = s8[] parameter(2) y = T[100] dynamic-slice(x, i), "
       "dynamic_slice_sizes={100} ROOT r = T[2] dynamic-slice(y, j), dynamic_slice_sizes={2}", *(
        f"x = T[8,8] parameter(0) i = s32[] parameter(1) j = u64[] parameter(2) y = T[{wide}] dynamic-slice(x, i, i), "
        f"dynamic_slice_sizes={{{wide}}} ROOT r = T[{narrow}] dynamic-slice(y, j, j), dynamic_slice_sizes={{{narrow}}}"
        for wide, narrow in (("8,5", "3,5"), ("6,5", "6,3"))
    ), *(
        f"x = T[8] parameter(0) i = s32[{a}] parameter(1) j = s32[{b}] parameter(2) y = T[5] dynamic-slice(x, i), "
        "dynamic_slice_sizes={5} ROOT r = T[2] dynamic-slice(y, j), dynamic_slice_sizes={2}" for a, b in (("1", ""), ("", "1"))
    )),
    "N48": moves(*(
        f"x = T[8] parameter(0) {_TWO_INDICES} u = T[2] parameter(3) y = T[5] dynamic-slice(x, i), "
        "dynamic_slice_sizes={5} v = T[5] dynamic-update-slice(y, u, j) "
        f"ROOT r = T[8] dynamic-update-slice(x, v, {index})" for index in "ij"
    )),
}  # fmt: skip

_ROWS = (
    ("24", "6,4", "2,4", "[1:3],[0:4]"), ("6,4", "24", "8", "[4:12]"), ("6,4", "24", "7", "[4:11]"),
    ("6,4", "3,8", "2,8", "[1:3],[0:8]"), ("6,4", "2,12", "1,12", "[1:2],[0:12]"), ("6,4", "12,2", "3,2", "[2:5],[0:2]"),
    ("6,4", "3,8", "2,7", "[1:3],[0:7]"),
)  # fmt: skip

_UNITS: dict[str, tuple[str, ...]] = {
    "N49": moves(*(
        f"x = T[8] parameter(0) ROOT r = T[{n}] slice(x), slice={{[{r}]}}"
        for n, r in ((1, "2:5:4"), (1, "2:3:2"), (2, "2:5:2"))
    )),
    "N50": moves(*(
        f"x = T[{x}] parameter(0) a = T[{a}] reshape(x) ROOT r = T[{r}] slice(a), slice={{{ranges}}}"
        for x, a, r, ranges in _ROWS
    )),
    "N51": moves(*(
        f"x = T[{x}] parameter(0) u = T[{u}] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
        f"d = T[{x}] dynamic-update-slice(x, u, {indices}) ROOT r = T[{r}] reshape(d)"
        for x, u, indices, r in (
            ("4,1,5", "2,1,5", "i, j, j", "4,5"), ("4,5", "1,2", "i, j", "1,4,5,1"), ("4,1,5", "1,1,1", "i, j, i", "1,4,5"),
            ("4,6", "2,6", "i, j", "6,4"),
        )
    ), "x = T[8] parameter(0) i = s32[1] parameter(1) u = T[3] parameter(2) d = T[8] dynamic-update-slice(x, u, i) "
       "ROOT r = T[1,8] reshape(d)"),
    "N52": moves(*(
        f"x = T[{x}] parameter(0) a = T[{a}] reshape(x) ROOT r = T[{a}] reverse(a), dimensions={{{d}}}"
        for x, a, d in (("4,5", "4,1,5", "0,1"), ("1,4,5", "4,5", "1"), ("4,5", "5,4", "0"), ("4", "4,1", "1"))
    )),
    "N53": moves(*(
        f"x = T[1,3] parameter(0) v = T[] parameter(1) ROOT r = T[{r}] pad(x, v), padding={p}"
        for r, p in (("5,3", "1_3_2x0_0"), ("1,7", "0_0_1x1_1_1"), ("1,7", "0_0x1_1_1"))
    )),
    "N54": moves(*(
        f"x = T[{x}] parameter(0) v = T[] parameter(1) b = T[2,3,4] broadcast(x), dimensions={{{d}}} "
        f"ROOT r = T[{r}] pad(b, v), padding={p}"
        for x, d, r, p in (
            ("3", "1", "2,5,4", "0_0x1_1x0_0"), ("", "", "2,3,5", "0_0x0_0x1_0"), ("2,3", "0,1", "2,5,4", "0_0x1_1x0_0"),
            ("4", "2", "2,4,10", "0_0x1_0x0_3_1"), ("3", "1", "4,5,6", "1_1x1_1x1_1"), ("3,2", "1,0", "3,4,4", "1_0x1_0x0_0"),
        )
    )),
    "N55": moves(*(
        f"x = T[{x}] parameter(0) ROOT r = T[2,1,4,3] broadcast(x), dimensions={{{d}}}"
        for x, d in (("1,3", "1,3"), ("1,4,3", "1,2,3"), ("1", "1"), ("3", "3"))
    )),
}  # fmt: skip

_ADDS = "f { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] add(a, b) } "
_SCATTERED = "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"

_SUMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("N62", "N62x"), tuple(
        f"{reducer(opcode)}ENTRY e {{ x = T[6] parameter(0) y = T[6] parameter(1) i = s32[3,1] parameter(2) "
        f"u = T[3] parameter(3) c = T[] constant(0) z = T[6] broadcast(c), dimensions={{}} "
        f"s = T[6] scatter({start}, i, u), {_SCATTERED}, to_apply=f ROOT r = T[6] add(y, s) }}"
        for opcode in ("add", "maximum") for start in "xz"
    )),
    "N63": tuple(
        f"{reducer(opcode)}ENTRY e {{ x = T[2,3] parameter(0) i = s32[0] constant({{}}) u = T[2,3] parameter(1) "
        f"ROOT r = T[2,3] scatter(x, i, u), update_window_dims={{{windows}}}, inserted_window_dims={{}}, "
        "scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=f }"
        for opcode in ("add", "multiply") for windows in ("0,1",)
    ),
    "N64": tuple(
        f"ENTRY e {{ x = T[{x}] parameter(0) w = T[{w}] parameter(1) ROOT c = T[{c}] convolution(x, w), "
        f"window={{size={size}}}, dim_labels={labels}, feature_group_count={g} }}"
        for x, w, c, size, labels, g in (
            ("2,4,4,3", "1,1,1,3", "2,4,4,3", "1x1", "b01f_01io->b01f", 3),
            ("2,4,5,3", "4,5,1,3", "2,1,1,3", "4x5", "b01f_01io->b01f", 3),
            ("2,3,4,5", "3,1,4,1", "2,3,1,5", "4x1", "bf01_oi01->bf01", 3),
            ("3,2,4,5", "3,1,4,5", "1,1,2,3", "4x5", "fb01_oi01->01bf", 3),
            ("2,4,4,3", "2,2,1,3", "2,3,3,3", "2x2", "b01f_01io->b01f", 3),
        )
    ),
    **dict.fromkeys(("N66", "N66x"), tuple(
        reduce_window(opcode, f"c = T[] constant({c}) x = T[{x}] broadcast(c), dimensions={{}}", f"T[{x}]", window)
        for opcode, c, x, window in (
            ("add", 3, "5", "size=5 pad=4_0"), ("add", 7, "2,5", "size=1x5 pad=0_0x4_0"),
            ("add", 1, "5,2", "size=5x1 pad=4_0x0_0"), ("add", 3, "5", "size=3 pad=2_0"),
            ("maximum", 3, "5", "size=5 pad=4_0"),
        )
    ) + tuple(
        reduce_window("add", f"c = T[] constant({c}) x = T[40] broadcast(c), dimensions={{}}", "T[40]",
                      "size=40 pad=39_0") for c in ("0.3", "0.1")
    )),
    "N73": tuple(
        f"f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {opcode}(a, b) }} ENTRY e {{ "
        f"x = bf16[4,4] parameter(0) v = bf16[] constant({v}) c = f32[] constant({c}) p = bf16[6,6] pad(x, v), "
        f"padding={pad} y = f32[6,6] convert(p) ROOT r = f32[{r}] reduce-window(y, c), window={{size={size}}}, to_apply=f }}"
        for opcode, v, c in (("add", 0, 0), ("maximum", 1, 1), ("add", 0, 1))
        for pad, size, r in (("1_1x1_1", "3x3", "4,4"), ("1_1x1_1", "1x3", "6,4"))
    ) + tuple(
        f"f {{ a = u8[] parameter(0) b = u8[] parameter(1) ROOT c = u8[] minimum(a, b) }} ENTRY e {{ "
        f"x = f32[4,4] parameter(0) v = f32[] constant({v}) c = u8[] constant(255) p = f32[6,6] pad(x, v), "
        "padding=1_1x1_1 y = u8[6,6] convert(p) ROOT r = u8[4,4] reduce-window(y, c), window={size=3x3}, to_apply=f }"
        for v in ("-1", "inf", "nan")
    ),
}  # fmt: skip

_SCALARS: dict[str, tuple[str, ...]] = {
    "N56": tuple(
        f"f {{ a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }} ENTRY e {{ "
        f"{x} ROOT r = T[4] sort(b), dimensions={{0}}, to_apply=f }}"
        for x in ("x = T[] parameter(0) b = T[4] broadcast(x), dimensions={}", "b = T[4] parameter(0)")
    ),
    "N58": tuple(
        f"HloModule m, num_partitions={count}, replica_count={count} ENTRY e {{ z = u32[] constant({low}) "
        f"h = u32[] constant({high}) p = u32[] {device}() ROOT r = u32[] clamp(z, p, h) }}"
        for count, low, high in ((8, 0, 7), (8, 0, 6), (8, 1, 7), (1, 0, 7)) for device in ("partition-id", "replica-id")
    ),
    "N61": moves(*(
        f"x = T[4,6]{{1,0}} parameter(0) a = T[24]{{0}} bitcast(x) f = T[24]{{0}} {opcode}(a) "
        "ROOT r = T[6,4]{1,0} bitcast(f)" for opcode in ("negate", "abs", "copy")
    )),
    "N70": moves("ROOT c = (T[2], (T[], s32[3])) constant(({1, 2}, (3, {4, 5, 6})))"),
    "R169": tuple(
        f"f {{ a = T[] parameter(0) b = T[] parameter(1) {body} }} ENTRY e {{ x = T[5] parameter(0) y = T[5] parameter(1) "
        "ROOT r = T[5] map(x, y), dimensions={0}, to_apply=f }"
        for body in ("ROOT c = T[] add(b, a)", "ROOT c = T[] constant(3)", "ROOT c = T[] copy(b)",
                     "d = T[] add(a, b) ROOT c = T[] add(d, b)")
    ),
    "N71": moves(*(
        f"c = T[{shape}] constant({value}) ROOT r = {kind}[{shape}] convert(c)"
        for kind in ("s8", "bf16", "f32") for shape, value in (("", "3"), ("2", "{1, 0}"))
    )),
    "N72": moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) n = T[{x}] negate(x) s = T[{y}] add(y, y) "
        f"ROOT r = T[{r}] dot({operands}), {numbers}"
        for x, y, r, operands, numbers in (
            ("3,4", "4,5", "3,5", "n, s", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            ("2,3,4", "5,4,2", "2,3,5", "n, s",
             "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_batch_dims={0}, rhs_batch_dims={2}"),
            ("3,4", "4,5", "3,5", "x, y", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        )
    )),
    "N74": tuple(
        f"f {{ a = T[2] parameter(0) ROOT b = T[2] copy(a) }} g {{ a = T[2] parameter(0) ROOT b = T[2] reverse(a), "
        f"dimensions={{0}} }} ENTRY e {{ p = pred[] parameter(0) x = T[2] parameter(1) y = T[2] parameter(2) "
        f"{choice} ROOT r = T[2] conditional(c, x, y), branch_computations={{f, g}} }}"
        for choice in ("c = s32[] convert(p)", "q = s32[] parameter(3) c = s32[] negate(q)")
    ),
}  # fmt: skip

PLACEMENT: Mapping[str, tuple[str, ...]] = {**_INDICES, **_UNITS, **_SUMS, **_SCALARS}
