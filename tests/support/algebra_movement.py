"""Instances of the simplifier's rules on instructions that move elements, by the rules' ids."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.algebra_modules import moves, reduce_window, reducer

_MOVEMENT: dict[str, tuple[str, ...]] = {
    "R102b": moves("x = T[2,3] parameter(0) ROOT r = T[3,2] broadcast(x), dimensions={1,0}",
                    "x = T[2,3,4] parameter(0) ROOT r = T[3,4,2] broadcast(x), dimensions={2,0,1}"),
    "R107b": moves(
        "x = T[3] parameter(0) a = T[2,3,4] broadcast(x), dimensions={1} ROOT r = T[1,2,3,2,2] reshape(a)",
        "x = T[6] parameter(0) a = T[2,6] broadcast(x), dimensions={1} ROOT r = T[4,3] reshape(a)",
        "x = T[1] parameter(0) a = T[1,6] broadcast(x), dimensions={0} ROOT r = T[6,1] reshape(a)",
    ),
    "R108": moves("a = s32[1,3] iota(), iota_dimension=1 ROOT r = s32[3] reshape(a)",
                   "a = s32[2,3] iota(), iota_dimension=1 ROOT r = s32[2,1,3] reshape(a)",
                   "a = s32[2,3] iota(), iota_dimension=1 ROOT r = s32[6] reshape(a)",
                   "a = s32[4,3] iota(), iota_dimension=1 ROOT r = s32[2,2,3] reshape(a)"),
    "R110,R113": moves("x = T[2,3] parameter(0) a = T[4,2,3] broadcast(x), dimensions={1,2} "
                   "ROOT r = T[3,4,2] transpose(a), dimensions={2,0,1}",
                        "x = T[2,3] parameter(0) a = T[4,2,3] broadcast(x), dimensions={1,2} "
                        "ROOT r = T[2,4,3] transpose(a), dimensions={1,0,2}"),
    "R114": moves("ROOT a = s32[2,1,4] iota(), iota_dimension=1", "ROOT a = s32[2,1,4] iota(), iota_dimension=2"),
    "R114b": moves("ROOT a = s32[2,3,4] iota(), iota_dimension=1", "ROOT a = f32[4] iota(), iota_dimension=0"),
    "R117": moves("ROOT c = f32[3] constant({-0, -0, -0})", "ROOT c = f32[3] constant({0, -0, 0})",
                   "ROOT c = s32[2,2] constant({{7, 7}, {7, 7}})"),
    "R105": moves(
        "x = T[3] parameter(0) y = T[3] parameter(1) a = T[3,2] broadcast(x), dimensions={0} "
        "b = T[3,2] broadcast(y), dimensions={0} ROOT r = T[3,2] add(a, b)",
        "x = T[3] parameter(0) y = T[3] parameter(1) a = T[3,3] broadcast(x), dimensions={0} "
        "b = T[3,3] broadcast(y), dimensions={1} ROOT r = T[3,3] add(a, b)",
        "x = T[3] parameter(0) s = T[] parameter(1) a = T[3,2] broadcast(x), dimensions={0} "
        "b = T[3,2] broadcast(s), dimensions={} ROOT r = T[3,2] add(b, a)",
        "c = T[] constant(1) d = T[] constant(3) a = T[3] broadcast(c), dimensions={} "
        "b = T[3] broadcast(d), dimensions={} ROOT r = T[3] add(a, b)",
        "x = T[] parameter(0) c = T[] constant(1) a = T[3] broadcast(x), dimensions={} "
        "b = T[3] broadcast(c), dimensions={} ROOT r = pred[3] compare(a, b), direction=LT",
    ),
    "R115b": moves("x = T[2,1,3] parameter(0) ROOT r = T[2,1,3] reverse(x), dimensions={0,1}"),
    "R115c": moves(
        "x = T[2,3] parameter(0) a = T[2,3] reverse(x), dimensions={0,1} ROOT r = T[2,3] reverse(a), dimensions={1}",
        "x = T[2,3] parameter(0) a = T[2,3] reverse(x), dimensions={0} ROOT r = T[2,3] reverse(a), dimensions={0}",
    ),
    "N5": moves(*(
        f"x = T[2,3] parameter(0) y = T[2,3] parameter(1) c = T[] constant(1) b = T[2,3] broadcast(c), dimensions={{}} "
        f"k = T[] parameter(2) d = T[2,3] broadcast(k), dimensions={{}} a = T[2,3] {op} ROOT r = T[2,3] reverse(a), dimensions={{1}}"
        for op in ("add(x, b)", "subtract(b, x)", "divide(x, b)", "add(x, y)", "and(x, b)", "add(x, d)")
    )),
    "N6": moves(*(
        f"x = T[2,1,3] parameter(0) a = T[3,1,2] transpose(x), dimensions={{2,1,0}} b = T[{b}] reshape(a) "
        f"ROOT r = T[{r}] transpose(b), dimensions={{{dims}}}"
        for b, r, dims in (("1,3,2", "1,2,3", "0,2,1"), ("3,2", "2,3", "1,0"), ("6,1", "1,6", "1,0"),
                           ("3,1,1,2", "1,3,2,1", "2,0,3,1"))
    )),
    "R116": moves("x = T[2,3] parameter(0) ROOT r = T[2,3] bitcast(x)",
                   "x = T[2,3] parameter(0) ROOT r = T[2,3]{0,1} bitcast(x)"),
    "R116b": moves("x = T[2,3] parameter(0) a = T[6] bitcast(x) ROOT r = T[3,2] bitcast(a)",
                    "x = T[2,3]{0,1} parameter(0) a = T[3,2] bitcast(x) ROOT r = T[2,3]{0,1} bitcast(a)"),
    "R115d": moves(*(
        "x = T[3] parameter(0) a = T[2,3] broadcast(x), dimensions={1} "
        f"ROOT r = T[2,3] reverse(a), dimensions={{{dims}}}" for dims in ("0,1", "0", "1")
    )),
}  # fmt: skip

_PADDED = (
    (9, "2_3", 2, "0:2"), (9, "2_3", 4, "2:6"), (9, "2_3", 3, "6:9"), (9, "2_3", 2, "5:7"), (9, "2_3", 2, "2:6:2"),
    (9, "2_3", 2, "1:4:2"), (9, "1_1_1", 2, "1:3"), (3, "-1_0", 2, "0:2"), (3, "-2_1", 1, "2:3"), (3, "-2_1", 2, "0:2"),
    (9, "1_1_1", 1, "0:1"), (9, "1_1_1", 1, "8:9"), (9, "1_1_1", 4, "1:8:2"), (9, "1_1_1", 3, "2:7:2"),
    (9, "1_1_1", 2, "3:8:4"), (9, "1_1_1", 3, "1:8:3"), (9, "1_1_1", 1, "3:5:2"), (9, "1_1_1", 4, "1:9:2"),
    (11, "-1_5_1", 2, "1:4:2"),
)  # fmt: skip

_MOVEMENT["N76"] = moves(*(
    f"a = f32[] constant(0) b = f32[] constant(1) r = f32[6] rng(a, b), distribution=rng_uniform {rest}"
    for rest in ("ROOT s = f32[2,3] reshape(r)", "ROOT s = f32[6] transpose(r), dimensions={0}", "s = f32[2,3] reshape(r) ROOT t = (f32[6], f32[2,3]) tuple(r, s)")
))  # fmt: skip
_MOVEMENT["N83"] = moves(
    "x = T[0,4] parameter(0) ROOT r = T[4,0] reshape(x)", "x = T[1,4] parameter(0) ROOT r = T[4] reshape(x)"
)
_MOVEMENT["N84"] = moves(
    *(
        f"x = T[{x}] parameter(0) a = T[2,3,4,2] reshape(x) b = T[{b}] transpose(a), dimensions={{{order}}} "
        f"ROOT r = T[{r}] reshape(b)"
        for x, b, order, r in (
            ("6,8", "2,4,2,3", "0,2,3,1", "2,8,3"),
            ("12,4", "4,2,2,3", "2,3,0,1", "8,6"),
            ("48", "2,4,3,2", "3,2,1,0", "2,4,6"),
            ("6,8", "2,3,4,2", "0,1,2,3", "6,8"),
            ("6,8", "2,4,2,3", "0,2,3,1", "2,4,6"),
            ("6,8", "2,4,2,3", "0,2,3,1", "2,8,1,3"),
        )
    )
)
_MOVEMENT["N88"] = moves(
    *(
        f"ROOT c = {kind}[4] constant({{{values}}})"
        for kind, values in (
            ("s32", "0,1,2,3"),
            ("s32", "0,-3,-6,-9"),
            ("u8", "0,100,200,44"),
            ("f32", "0,1,2,3"),
            ("f32", "0,2,4,6"),
            ("f32", "-0.0,1,2,3"),
            ("s32", "1,2,3,4"),
            ("s32", "0,1,2,4"),
            ("f32", "nan,1,2,3"),
            ("bf16", "0,1,2,3"),
        )
    )
)
_MOVEMENT["N89"] = moves(
    *(
        f"x = {kind}[24] iota(), iota_dimension=0 ROOT r = {kind}[{shape}] reshape(x)"
        for kind in ("s32", "u8", "f32")
        for shape in ("2,3,4", "1,24", "6,1,4")
    )
)
_MOVEMENT["N77"] = moves(*(
    f"x = T[{x}] parameter(0) a = T[{a}] reshape(x) b = T[{b}] transpose(a), dimensions={{{order}}} "
    f"ROOT r = T[{r}] reshape(b)"
    for x, a, b, order, r in (
        ("2,3,4", "2,3,2,2", "2,2,3,2", "0,2,1,3", "4,3,2"), ("6,2,3", "3,2,2,3", "2,2,3,3", "1,2,0,3", "2,6,3"),
        ("3,2,4,4", "3,2,2,2,4", "3,2,2,2,4", "0,2,1,3,4", "6,2,2,4"), ("2,3,4", "2,3,2,2", "2,2,3,2", "0,2,1,3", "2,6,2"),
        ("2,12", "2,6,2", "2,2,6", "0,2,1", "2,12"), ("4,3", "2,2,3", "3,2,2", "2,0,1", "3,4"),
        ("2,3,12", "2,3,6,2", "2,6,3,2", "0,2,1,3", "12,3,2"), ("2,4", "2,2,2", "2,2,2", "1,0,2", "4,2"),
    )
))  # fmt: skip

_SLICES: dict[str, tuple[str, ...]] = {
    "R119": moves(
        "x = T[20] parameter(0) a = T[6] slice(x), slice={[2:20:3]} ROOT r = T[2] slice(a), slice={[1:5:2]}",
        "x = T[20] parameter(0) a = T[6] slice(x), slice={[2:18:3]} ROOT r = T[0] slice(a), slice={[1:1]}",
    ),
    "R120": moves(*(
        "x = T[4] parameter(0) y = T[6] parameter(1) c = T[10] concatenate(x, y), dimensions={0} "
        f"ROOT r = T[{n}] slice(c), slice={{[{r}]}}"
        for n, r in ((4, "0:4"), (3, "4:7"), (2, "3:5"), (3, "2:7:2"), (2, "5:10:3"), (1, "3:5:2"))
    )),
    "R121": moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) p = T[{size}] pad(x, v), padding={pad} "
        f"ROOT r = T[{n}] slice(p), slice={{[{r}]}}" for size, pad, n, r in _PADDED
    )),
    "R122": moves(
        "x = T[5] parameter(0) a = T[3,5] broadcast(x), dimensions={1} ROOT r = T[2,2] slice(a), slice={[0:2],[1:5:3]}",
        "x = T[] parameter(0) a = T[3] broadcast(x), dimensions={} ROOT r = T[2] slice(a), slice={[1:3]}",
    ),
    "R123": moves(*(
        f"x = T[7] parameter(0) a = T[7] reverse(x), dimensions={{0}} ROOT r = T[{n}] slice(a), slice={{[{r}]}}"
        for n, r in ((3, "1:4"), (2, "1:5:3"), (3, "0:6:2"), (3, "2:7:2"))
    )),
    "R123b": moves("x = T[3,4,5] parameter(0) a = T[5,3,4] transpose(x), dimensions={2,0,1} "
                    "ROOT r = T[2,2,2] slice(a), slice={[1:5:3],[0:2],[2:4]}"),
    "R123c": moves(*(
        f"x = T[4,6] parameter(0) a = T[{shape}] reshape(x) ROOT r = T[{result}] slice(a), slice={{{ranges}}}"
        for shape, result, ranges in (("4,2,3", "2,2,3", "[1:3],[0:2],[0:3]"), ("4,2,3", "2,1,3", "[1:3],[0:1],[0:3]"),
                                      ("6,4", "2,4", "[1:3],[0:4]"))
    )),
    "R124": moves(*(
        f"x = T[4] parameter(0) i = s32[] parameter(1) ROOT r = T[{n}] dynamic-slice(x, i), dynamic_slice_sizes={{{n}}}"
        for n in (3, 4)
    )),
    "R125": moves(*(
        f"x = T[4] parameter(0) i = s32[] constant({i}) ROOT r = T[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}}"
        for i in (-3, 0, 1, 2, 3, 9)
    )),
    "R126": moves(
        "x = T[] parameter(0) i = s32[] parameter(1) a = T[6] broadcast(x), dimensions={} "
        "ROOT r = T[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
        "x = T[5] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) a = T[6,5] broadcast(x), dimensions={1} "
        "ROOT r = T[2,2] dynamic-slice(a, i, j), dynamic_slice_sizes={2,2}",
    ),
    "N13": moves(*(
        f"x = T[{x}] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) k = s32[] parameter(3) "
        f"a = T[{a}] reshape(x) ROOT r = T[{r}] dynamic-slice(a, {operands}), dynamic_slice_sizes={{{r}}}"
        for x, a, r, operands in (
            ("4,1,5", "1,4,5", "1,2,3", "i, j, k"), ("4,5", "4,1,5", "2,1,2", "i, j, k"), ("1,4,5", "4,5", "3,5", "i, j"),
            ("5,4", "4,5", "2,2", "i, j"),
        )
    )),
    "N15": tuple(
        reduce_window(opcode, f"x = T[{x}] parameter(0)", w, window, init).replace("ROOT r", "a").removesuffix("}")
        + f"ROOT r = T[{r}] slice(a), slice={{{ranges}}} }}"
        for opcode, init in (("add", 0), ("add", 1), ("maximum", 0))
        for x, w, window, r, ranges in (
            ("2,5", "T[2,5]", "size=1x5 pad=0_0x4_0", "2,1", "[0:2],[4:5]"),
            ("2,5", "T[2,5]", "size=1x5 pad=0_0x4_0", "1,1", "[1:2],[2:3]"),
            ("2,5", "T[2,5]", "size=1x5 pad=0_0x4_0", "2,2", "[0:2],[3:5]"),
            ("6,5", "T[3,2]", "size=3x2 stride=2x3 pad=1_0x0_0", "1,1", "[2:3],[1:2]"),
            ("7", "T[5]", "size=2 rhs_dilate=2", "1", "[3:4]"),
        )
    ),
    "R127": moves(*(
        f"i = {index}[] parameter(0) c = {kind}[4] constant({{{numbers}}}) "
        f"ROOT r = {kind}[1] dynamic-slice(c, i), dynamic_slice_sizes={{1}}"
        for index in ("s32", "u8") for kind in ("s32", "u8", "s64", "f32")
        for numbers in ("0,1,2,3", "10,35,60,85", "0,1,2,4")
    ), *(
        f"i = {index}[] parameter(0) a = {kind}[4] iota(), iota_dimension=0 {scaled} "
        f"ROOT r = {kind}[1] dynamic-slice({line}, i), dynamic_slice_sizes={{1}}"
        for index in ("s32", "u8") for kind in ("s32", "u8", "s64", "f32")
        for line, scaled in (
            ("a", ""), ("m", f"s = {kind}[] parameter(1) b = {kind}[4] broadcast(s), dimensions={{}} "
                             f"m = {kind}[4] multiply(a, b)"), ("m", f"m = {kind}[4] multiply(a, a)"),
        )
    )),
}  # fmt: skip

_UPDATED = "x = T[5] parameter(0) u = T[2] parameter(1) v = T[2] parameter(2) i = s32[] parameter(3) "

_ADDED = "u = T[2] parameter(0) y = T[5] parameter(1) c = T[] constant({}) i = s32[] parameter(2) "

_UPDATES: dict[str, tuple[str, ...]] = {
    "R128": moves(*(
        f"x = T[4] parameter(0) u = T[{n}] parameter(1) i = s32[] parameter(2) "
        "ROOT r = T[4] dynamic-update-slice(x, u, i)" for n in (3, 4)
    )),
    "R129": moves(*(
        f"x = T[4] parameter(0) u = T[{n}] parameter(1) i = s32[] parameter(2) "
        "ROOT r = T[4] dynamic-update-slice(x, u, i)" for n in (0, 2)
    )),
    "R130": moves(*(
        "x = T[4] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) "
        f"u = T[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}} ROOT r = T[4] dynamic-update-slice(x, u, {k})"
        for k in "ij"
    )),
    "R131": moves(*(
        f"u = T[2] parameter(0) c = T[] constant({c}) i = s32[] constant({i}) a = T[5] broadcast(c), dimensions={{}} "
        "ROOT r = T[5] dynamic-update-slice(a, u, i)" for i in (-1, 0, 2, 3, 7) for c in (0, 1)
    )),
    "R132": moves(
        f"{_UPDATED} a = T[5] dynamic-update-slice(x, u, i) ROOT r = T[5] dynamic-update-slice(a, v, i)",
        f"{_UPDATED} w = T[3] parameter(4) a = T[5] dynamic-update-slice(x, w, i) "
        "ROOT r = T[5] dynamic-update-slice(a, v, i)",
        f"{_UPDATED} j = s32[] parameter(4) a = T[5] dynamic-update-slice(x, u, j) "
        "ROOT r = T[5] dynamic-update-slice(a, v, i)",
    ),
    **dict.fromkeys(("R17", "R17x"), moves(*(
        f"{_ADDED.format(c)} z = T[5] broadcast(c), dimensions={{}} a = T[5] dynamic-update-slice(z, u, i) "
        "ROOT r = T[5] add(a, y)" for c in (0, 1)
    ))),
    "N1": moves(*(
        f"{_UPDATED} p = pred[5] parameter(4) y = T[5] parameter(5) a = T[5] dynamic-update-slice(x, u, i) "
        f"ROOT r = T[5] select(p, a, {other})" for other in "xy"
    )),
    "N1b": moves(*(
        f"{_UPDATED} p = pred[{'5' if p == 'p' else ''}] parameter(4) y = T[5] parameter(5) "
        f"a = T[5] dynamic-update-slice(x, u, i) ROOT r = T[5] select(p, {other}, a)"
        for other in "xy" for p in "ps"
    )),
}  # fmt: skip

_PADS: dict[str, tuple[str, ...]] = {
    "R133b": moves("x = T[0] parameter(0) v = T[] parameter(1) ROOT r = T[3] pad(x, v), padding=1_2"),
    "R134": moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) w = T[] parameter(2) a = T[{n}] pad(x, v), padding={p} "
        f"ROOT r = T[{m}] pad(a, {second}), padding={q}"
        for n, p, m, q, second in ((7, "1_2", 9, "2_0", "v"), (7, "1_2", 9, "2_0", "w"), (7, "1_2", 6, "-1_0", "v"),
                                   (7, "0_0_1", 9, "2_0", "v"), (3, "-1_0", 5, "2_0", "v"))
    )),
    "R135": moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) ROOT r = T[{n}] pad(x, v), padding={p}"
        for n, p in ((3, "-1_0"), (4, "-1_1"), (1, "-3_0"), (6, "-2_1_1"), (2, "3_-5"), (0, "-5_1"))
    )),
    "R136": moves(
        "v = T[] parameter(0) x = T[3] broadcast(v), dimensions={} ROOT r = T[6] pad(x, v), padding=1_2",
        "c = T[] constant(1) d = T[] constant(0) x = T[3] broadcast(c), dimensions={} "
        "ROOT r = T[6] pad(x, d), padding=1_2",
    ),
    "R137b": moves("x = T[4] parameter(0) y = T[0] parameter(1) ROOT r = T[8] concatenate(x, y, x), dimensions={0}",
                    "y = T[0] parameter(0) ROOT r = T[0] concatenate(y, y), dimensions={0}"),
    "R138": moves(
        "x = T[2] parameter(0) y = T[3] parameter(1) a = T[5] concatenate(x, y), dimensions={0} "
        "ROOT r = T[8] concatenate(y, a), dimensions={0}",
        "x = T[2,2] parameter(0) y = T[2,4] parameter(1) a = T[2,4] concatenate(x, x), dimensions={1} "
        "ROOT r = T[4,4] concatenate(a, y), dimensions={0}",
    ),
    "R139": moves(*(
        f"x = T[9] parameter(0) a = T[{m}] slice(x), slice={{[{p}]}} b = T[{n}] slice(x), slice={{[{q}]}} "
        f"ROOT r = T[{m + n}] concatenate(a, b), dimensions={{0}}"
        for m, p, n, q in ((3, "0:3", 4, "3:7"), (3, "0:3", 4, "4:8"), (2, "0:3:2", 2, "3:5"), (4, "3:7", 3, "0:3"))
    )),
    "R140": moves(
        *(f"x = T[4] parameter(0) s = T[] parameter(1) b = T[2] broadcast(s), dimensions={{}} "
          f"ROOT r = T[6] concatenate({operands}), dimensions={{0}}" for operands in ("b, x", "x, b")),
        "x = T[4] parameter(0) b = T[2,4] broadcast(x), dimensions={1} c = T[1,4] reshape(x) "
        "ROOT r = T[3,4] concatenate(b, c), dimensions={0}",
    ),
}  # fmt: skip

_ELEMENTS = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, slice_sizes={1}, index_vector_dim="

_SCATTERED = "scatter_dims_to_operand_dims={0}, to_apply=f, index_vector_dim="

_GATHERS: dict[str, tuple[str, ...]] = {
    "R141": moves("s = T[] parameter(0) i = s32[3] parameter(1) x = T[6] broadcast(s), dimensions={} "
                   f"ROOT g = T[3] gather(x, i), {_ELEMENTS}1",
                   f"x = T[1] parameter(0) i = s32[3] parameter(1) ROOT g = T[3] gather(x, i), {_ELEMENTS}1"),
    "R141b": moves(f"x = T[6] parameter(0) i = s32[0] parameter(1) ROOT g = T[0] gather(x, i), {_ELEMENTS}1"),
    "R141c": moves(
        *(f"x = T[6,4] parameter(0) i = s32[1] constant({{{i}}}) ROOT g = T[2,4] gather(x, i), offset_dims={{0,1}}, "
          "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={2,4}"
          for i in (-2, 0, 3, 5, 8)),
        "x = T[6,4] parameter(0) i = s32[2] constant({2, 9}) ROOT g = T[3] gather(x, i), offset_dims={0}, "
        "collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,3}",
        "x = T[6,4] parameter(0) i = s32[2] constant({1, 3}) ROOT g = T[3] gather(x, i), offset_dims={0}, "
        "collapsed_slice_dims={1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={3,1}",
    ),
    "R141d": moves(*(
        f"x = T[{n}] parameter(0) i = s32[5,2] constant({{{{-3,0}},{{1,2}},{{3,4}},{{9,1}},{{0,2}}}}) "
        f"ROOT g = T[5,2] gather(x, i), {_ELEMENTS}2" for n in (1, 2, 3, 4, 5)
    )),
    "R142": (
        "f { a = T[] parameter(0) b = T[] parameter(1) c = T[] parameter(2) d = T[] parameter(3) "
        "ROOT r = (T[], T[]) tuple(c, d) } ENTRY e { x = T[6] parameter(0) y = T[6] parameter(1) "
        "i = s32[0,1] parameter(2) u = T[0] parameter(3) ROOT s = (T[6], T[6]) scatter(x, y, i, u, u), "
        f"update_window_dims={{}}, inserted_window_dims={{0}}, {_SCATTERED}1 }}",
        "f { a = T[] parameter(0) ROOT b = T[] parameter(1) } ENTRY e { x = T[6] parameter(0) i = s32[0,1] parameter(1) "
        "u = T[0] parameter(2) ROOT s = T[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        f"{_SCATTERED}1 }}",
    ),
    "R142b": tuple(
        f"f {{ a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] {combine} }} ENTRY e {{ x = T[6,4] parameter(0) "
        f"i = s32[1] constant({{{i}}}) u = T[2,4] parameter(1) ROOT s = T[6,4] scatter(x, i, u), "
        f"update_window_dims={{0,1}}, inserted_window_dims={{}}, {_SCATTERED}0 }}"
        for i in (-1, 0, 2, 4, 5) for combine in ("copy(b)", "copy(a)", "add(a, b)")
    ) + tuple(
        f"f {{ a = T[] parameter(0) ROOT b = T[] parameter(1) }} ENTRY e {{ x = T[6,4] parameter(0) "
        f"i = s32[1] constant({{{i}}}) u = T[4] parameter(1) ROOT s = T[6,4] scatter(x, i, u), "
        f"update_window_dims={{0}}, inserted_window_dims={{0}}, {_SCATTERED}0 }}" for i in (-1, 0, 5, 6)
    ),
}  # fmt: skip

_PADDED_ROWS = (
    "k = T[2,3] parameter(0) i = s32[4] parameter(1) v = T[] parameter(2) a = T[2,5] pad(k, v), padding=0_0x1_1 ",
    "k = T[2,3] parameter(0) i = s32[4] parameter(1) v = T[] parameter(2) a = T[4,3] pad(k, v), padding=1_1x0_0 ",
)

_GATHER_ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes"

_GATHERED: dict[str, tuple[str, ...]] = {
    "N14": moves(f"{_PADDED_ROWS[0]} ROOT g = T[4,5] gather(a, i), {_GATHER_ROWS}={{1,5}}",
                  f"{_PADDED_ROWS[0]} ROOT g = T[4,4] gather(a, i), {_GATHER_ROWS}={{1,4}}",
                  f"{_PADDED_ROWS[1]} ROOT g = T[4,3] gather(a, i), {_GATHER_ROWS}={{1,3}}"),
    "N14b": moves(
        "k = T[2,2,3] parameter(0) i = s32[4] parameter(1) v = T[] parameter(2) a = T[2,2,5] pad(k, v), "
        f"padding=0_0x0_0x1_1 b = T[4,5] reshape(a) ROOT g = T[4,5] gather(b, i), {_GATHER_ROWS}={{1,5}}",
        "k = T[2,4] parameter(0) i = s32[3] parameter(1) v = T[] parameter(2) a = T[4,4] pad(k, v), padding=0_2x0_0 "
        "b = T[4,2,2] reshape(a) ROOT g = T[4,3,2] gather(b, i), offset_dims={0,2}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={4,1,2}",
        "k = T[2,3] parameter(0) i = s32[3] parameter(1) v = T[] parameter(2) a = T[4,3] pad(k, v), padding=1_1x0_0 "
        "b = T[2,6] reshape(a) ROOT g = T[3,6] gather(b, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
    ),
}  # fmt: skip

_LAYOUTS: dict[str, tuple[str, ...]] = {
    "R116c": moves(
        "x = T[2,3]{1,0} parameter(0) ROOT r = T[3,2]{0,1} transpose(x), dimensions={1,0}",
        "x = T[2,3]{1,0} parameter(0) ROOT r = T[3,2]{1,0} transpose(x), dimensions={1,0}",
        "x = T[4,6]{0,1} parameter(0) ROOT r = T[2,2,6]{1,0,2} reshape(x)",
        "x = T[4,6]{0,1} parameter(0) ROOT r = T[2,2,6]{0,1,2} reshape(x)",
        "x = T[2,3] parameter(0) a = T[3,2] transpose(x), dimensions={1,0} b = T[1,3,2] bitcast(a) "
        "c = T[1,2,3] transpose(b), dimensions={0,2,1} ROOT r = T[6] bitcast(c)",
        "x = T[4,2]{1,0} parameter(0) a = T[4,2]{0,1} copy(x) b = T[2,4]{1,0} transpose(a), dimensions={1,0} "
        "c = T[2,2,2] reshape(b) d = T[2,2,2] transpose(c), dimensions={1,2,0} ROOT r = T[8] reshape(d)",
        "x = T[6,5] parameter(0) a = T[30] reshape(x) b = T[3,10] reshape(a) ROOT r = T[10,3]{0,1} transpose(b), "
        "dimensions={1,0}",
        "x = T[6,1,5]{2,0,1} parameter(0) a = T[6,1,5]{0,1,2} copy(x) ROOT r = T[5,6] bitcast(a)",
    ),
    "R116d": moves(
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[2,3,5,4]{3,1,0,2} bitcast(a)",
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[10,3,4] bitcast(a)",
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[4,3,5,2]{0,1,3,2} bitcast(a)",
    ),
    "N79": tuple(
        f"ENTRY e {{ x = {x} parameter(0) ROOT r = {r} bitcast-convert(x) }}"
        for x, r in (("f32[2,3]{0,1}", "s32[2,3]{0,1}"), ("f32[2,3]{1,0}", "s32[2,3]{0,1}"),
                     ("f32[2,3]{0,1}", "s16[2,3,2]{2,0,1}"), ("f32[2,3]{0,1}", "s16[2,3,2]{0,2,1}"),
                     ("u8[3,4]{1,0}", "f32[3]{0}"), ("u8[3,4]{0,1}", "f32[3]{0}"))
    ),
    "N7": moves("x = T[2,3]{1,0} parameter(0) ROOT r = T[2,3]{0,1} custom-call(x), "
                 'custom_call_target="LayoutConstraint"',
                 'x = T[2,3] parameter(0) ROOT r = T[2,3] custom-call(x), custom_call_target="Sharding"'),
}  # fmt: skip

_SCATTER = ("scatter(z, {}, {}), to_apply=f, update_window_dims={{1}}, inserted_window_dims={{0}}, "
            "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1")  # fmt: skip


def _scatters(opcode: str, other: str, root: str) -> str:
    """The module of two scatters, `s` to zeros and `t` to `other`."""
    return (
        f"{reducer(opcode)}ENTRY e {{ o = T[] constant(0) z = T[6,2] broadcast(o), dimensions={{}} x = T[6,2] parameter(0) "
        f"i = s32[3] parameter(1) j = s32[2] parameter(2) u = T[3,2] parameter(3) v = T[2,2] parameter(4) "
        f"s = T[6,2] {_SCATTER.format('i', 'u')} t = T[6,2] {_SCATTER.format('j', 'v').replace('(z', '(' + other)} {root} }}"
    )


_SUMMED_SCATTERS = {
    **dict.fromkeys(("N32", "N32x"), tuple(
        _scatters(opcode, other, "ROOT r = T[6,2] add(s, t)")
        for opcode, other in (("add", "z"), ("add", "x"), ("maximum", "z"))
    )),
    **dict.fromkeys(("N32b", "N32y"), tuple(
        _scatters("add", other, f"w = T[6,2] add(x, s) ROOT r = T[6,2] add({operands})")
        for other, operands in (("z", "w, t"), ("z", "t, w"), ("x", "w, t"))
    )),
    "N44": tuple(
        f"{reducer(opcode)}ENTRY e {{ x = T[4,3,2] parameter(0) i = s32[{indices}] parameter(1) u = T[{updates}] "
        f"parameter(2) s = T[4,3,2] scatter(x, i, u), to_apply=f, index_vector_dim=1, {attributes} "
        "ROOT t = T[2,4,3] transpose(s), dimensions={2,0,1} }"
        for opcode in ("add", "maximum")
        for indices, updates, attributes in (
            ("5", "5,3,2", "update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"),
            ("5,2", "2,5,1", "update_window_dims={0,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={2,1}"),
            ("3,1", "3,4,2", "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
             "input_batching_dims={1}, scatter_indices_batching_dims={0}"),
        )
    ),
}  # fmt: skip

_PIECES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("N33", "N33x"), moves(*(
        "x = T[2,3] parameter(0) c = T[3] constant({1,2,3}) d = T[3] constant({5,-3,1}) b = T[2,3] broadcast(c), "
        f"dimensions={{1}} y = T[2,3] add(x, b) a = T[2,3] broadcast({which}), dimensions={{1}} ROOT r = T[2,3] add(y, a)"
        for which in "cd"
    ))),
    "N38": moves(*(
        "x = T[3,2] parameter(0) y = T[4,2] parameter(1) w = T[5,2] parameter(2) c = T[12,2] concatenate(x, y, w), "
        f"dimensions={{0}} ROOT r = T[{n},2] slice(c), slice={{[{r}], [0:2]}}"
        for n, r in ((6, "4:10"), (2, "1:5:2"), (5, "1:6"), (10, "1:11"))
    )),
    "N16b": moves(*(
        "x = s32[2,3,4,5] parameter(0) y = s32[2,3,6,5] parameter(1) d = s32[2,3,4,6] dot(x, y), lhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3} "
        f"ROOT t = s32[{shape}] transpose(d), dimensions={{{order}}}"
        for shape, order in (("3,2,6,4", "1,0,3,2"), ("3,2,4,6", "1,0,2,3"), ("2,6,3,4", "0,3,1,2"))
    )),
}  # fmt: skip

_JOINED: dict[str, tuple[str, ...]] = {
    "N14c": moves(*(
        f"x = T[2,3,4] parameter(0) v = T[] parameter(1) i = s32[2,5] parameter(2) c = s32[] constant(0) "
        f"p = T[4,3,4] pad(x, v), padding={p}x0_0x0_0 q = s32[4,5] pad(i, c), padding={q}x0_0 "
        "ROOT g = T[4,4,5] gather(p, q), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=2, slice_sizes={1,1,4}, operand_batching_dims={0}, start_indices_batching_dims={0}"
        for p, q in (("2_0", "2_0"), ("1_1", "1_1"), ("2_0", "1_1"))
    )),
    "N23": moves("x = s32[2] parameter(0) y = s32[3] parameter(1) u = f32[2] bitcast-convert(x) "
                  "v = f32[3] bitcast-convert(y) c = f32[5] concatenate(u, v), dimensions={0} "
                  "ROOT r = s32[5] bitcast-convert(c)"),
    "N24": moves("x = T[2] parameter(0) y = T[3] parameter(1) t = (T[2], T[3], T[2]) tuple(x, y, x) "
                  "b = (T[2], T[3], T[2]) opt-barrier(t) ROOT g = T[3] get-tuple-element(b), index=1",
                  "x = T[2] parameter(0) y = T[3] parameter(1) t = (T[2], T[3]) tuple(x, y) "
                  "b = (T[2], T[3]) opt-barrier(t) ROOT g = T[3] get-tuple-element(b), index=1"),
    "N43": moves(*(
        f"x = T[4,3] parameter(0) n = s32[] parameter(1) d = T[<=4,<=3] custom-call(x, n, n), {_cut} "
        "p = (T[4,3], s32[], s32[]) custom-call(d), custom_call_target=\"PadToStatic\" "
        "a = T[4,3] get-tuple-element(p), index=0 u = s32[] get-tuple-element(p), index=1 "
        f"v = s32[] get-tuple-element(p), index=2 ROOT r = {shape} custom-call({operands}), {_cut}"
        for _cut in ('custom_call_target="SliceToDynamic"',)
        for shape, operands in (("T[<=4,<=3]", "a, u, v"), ("T[<=4,<=3]", "a, v, u"), ("T[<=4,3]", "a, u"))
    )),
    "N25": moves(*(
        f"x = T[{x}] parameter(0) s = T[{s}] reshape(x) t = T[{t}] transpose(s), dimensions={{{p}}} "
        f"ROOT r = T[{r}] reshape(t)"
        for x, s, t, p, r in (
            ("6,4", "2,3,4", "4,2,3", "2,0,1", "4,6"), ("6,4", "2,3,4", "2,4,3", "0,2,1", "8,3"),
            ("6,1,4", "2,3,2,2", "2,2,2,3", "2,3,0,1", "24"), ("2,3,4", "6,4", "4,6", "1,0", "2,2,6"),
            ("2,3,4", "2,1,3,4", "3,1,2,4", "2,1,0,3", "6,4"),
        )
    )),
    "N26": moves("x = T[2,1,3] parameter(0) ROOT r = T[2,4,3] concatenate(x, x, x, x), dimensions={1}",
                  "x = T[2,1,3] parameter(0) ROOT r = T[6,1,3] concatenate(x, x, x), dimensions={0}"),
}  # fmt: skip

MOVEMENT: Mapping[str, tuple[str, ...]] = {
    **_MOVEMENT, **_SLICES, **_UPDATES, **_PADS, **_GATHERS, **_GATHERED, **_LAYOUTS, **_SUMMED_SCATTERS, **_PIECES, **_JOINED,
}  # fmt: skip
