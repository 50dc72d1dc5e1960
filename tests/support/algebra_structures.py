"""Instances of rules on instructions that are not elementwise, near misses among them, by the rules' ids."""

from __future__ import annotations

from collections.abc import Mapping


def _reducer(opcode: str) -> str:
    return f"f {{ a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] {opcode}(a, b) }} "


def _reduce(opcode: str, inputs: str, shape: str, dims: str, init: str = "constant(0)") -> str:
    """The module of a reduction of `x`, which `inputs` compute."""
    reduce = f"ROOT r = {shape} reduce(x, init), dimensions={{{dims}}}, to_apply=f"
    return f"{_reducer(opcode)}ENTRY e {{ {inputs} init = T[] {init} {reduce} }}"


def _reduce_window(opcode: str, inputs: str, shape: str, window: str, init: int = 0) -> str:
    root = f"ROOT r = {shape} reduce-window(x, init), window={{{window}}}, to_apply=f"
    return f"{_reducer(opcode)}ENTRY e {{ {inputs} init = T[] constant({init}) {root} }}"


def _moves(*bodies: str) -> tuple[str, ...]:
    return tuple(f"ENTRY e {{ {body} }}" for body in bodies)


_MOVEMENT: dict[str, tuple[str, ...]] = {
    "R102b": _moves("x = T[2,3] parameter(0) ROOT r = T[3,2] broadcast(x), dimensions={1,0}",
                    "x = T[2,3,4] parameter(0) ROOT r = T[3,4,2] broadcast(x), dimensions={2,0,1}"),
    "R107b": _moves(
        "x = T[3] parameter(0) a = T[2,3,4] broadcast(x), dimensions={1} ROOT r = T[1,2,3,2,2] reshape(a)",
        "x = T[6] parameter(0) a = T[2,6] broadcast(x), dimensions={1} ROOT r = T[4,3] reshape(a)",
        "x = T[1] parameter(0) a = T[1,6] broadcast(x), dimensions={0} ROOT r = T[6,1] reshape(a)",
    ),
    "R108": _moves("a = s32[1,3] iota(), iota_dimension=1 ROOT r = s32[3] reshape(a)",
                   "a = s32[2,3] iota(), iota_dimension=1 ROOT r = s32[2,1,3] reshape(a)",
                   "a = s32[2,3] iota(), iota_dimension=1 ROOT r = s32[6] reshape(a)",
                   "a = s32[4,3] iota(), iota_dimension=1 ROOT r = s32[2,2,3] reshape(a)"),
    "R110,R113": _moves("x = T[2,3] parameter(0) a = T[4,2,3] broadcast(x), dimensions={1,2} "
                   "ROOT r = T[3,4,2] transpose(a), dimensions={2,0,1}",
                        "x = T[2,3] parameter(0) a = T[4,2,3] broadcast(x), dimensions={1,2} "
                        "ROOT r = T[2,4,3] transpose(a), dimensions={1,0,2}"),
    "R114": _moves("ROOT a = s32[2,1,4] iota(), iota_dimension=1", "ROOT a = s32[2,1,4] iota(), iota_dimension=2"),
    "R114b": _moves("ROOT a = s32[2,3,4] iota(), iota_dimension=1", "ROOT a = f32[4] iota(), iota_dimension=0"),
    "R117": _moves("ROOT c = f32[3] constant({-0, -0, -0})", "ROOT c = f32[3] constant({0, -0, 0})",
                   "ROOT c = s32[2,2] constant({{7, 7}, {7, 7}})"),
    "R105": _moves(
        "x = T[3] parameter(0) y = T[3] parameter(1) a = T[3,2] broadcast(x), dimensions={0} "
        "b = T[3,2] broadcast(y), dimensions={0} ROOT r = T[3,2] add(a, b)",
        "x = T[3] parameter(0) y = T[3] parameter(1) a = T[3,3] broadcast(x), dimensions={0} "
        "b = T[3,3] broadcast(y), dimensions={1} ROOT r = T[3,3] add(a, b)",
        "x = T[] parameter(0) c = T[] constant(1) a = T[3] broadcast(x), dimensions={} "
        "b = T[3] broadcast(c), dimensions={} ROOT r = pred[3] compare(a, b), direction=LT",
    ),
    "R115b": _moves("x = T[2,1,3] parameter(0) ROOT r = T[2,1,3] reverse(x), dimensions={0,1}"),
    "R115c": _moves(
        "x = T[2,3] parameter(0) a = T[2,3] reverse(x), dimensions={0,1} ROOT r = T[2,3] reverse(a), dimensions={1}",
        "x = T[2,3] parameter(0) a = T[2,3] reverse(x), dimensions={0} ROOT r = T[2,3] reverse(a), dimensions={0}",
    ),
    "N5": _moves(*(
        f"x = T[2,3] parameter(0) y = T[2,3] parameter(1) c = T[] constant(1) b = T[2,3] broadcast(c), dimensions={{}} "
        f"a = T[2,3] {op} ROOT r = T[2,3] reverse(a), dimensions={{1}}"
        for op in ("add(x, b)", "subtract(b, x)", "divide(x, b)", "add(x, y)", "and(x, b)")
    )),
    "N6": _moves(*(
        f"x = T[2,1,3] parameter(0) a = T[3,1,2] transpose(x), dimensions={{2,1,0}} b = T[{b}] reshape(a) "
        f"ROOT r = T[{r}] transpose(b), dimensions={{{dims}}}"
        for b, r, dims in (("1,3,2", "1,2,3", "0,2,1"), ("3,2", "2,3", "1,0"), ("6,1", "1,6", "1,0"),
                           ("3,1,1,2", "1,3,2,1", "2,0,3,1"))
    )),
    "R116": _moves("x = T[2,3] parameter(0) ROOT r = T[2,3] bitcast(x)",
                   "x = T[2,3] parameter(0) ROOT r = T[2,3]{0,1} bitcast(x)"),
    "R116b": _moves("x = T[2,3] parameter(0) a = T[6] bitcast(x) ROOT r = T[3,2] bitcast(a)",
                    "x = T[2,3]{0,1} parameter(0) a = T[3,2] bitcast(x) ROOT r = T[2,3]{0,1} bitcast(a)"),
    "R115d": _moves(*(
        "x = T[3] parameter(0) a = T[2,3] broadcast(x), dimensions={1} "
        f"ROOT r = T[2,3] reverse(a), dimensions={{{dims}}}" for dims in ("0,1", "0", "1")
    )),
}  # fmt: skip

_PADDED = (
    (9, "2_3", 2, "0:2"), (9, "2_3", 4, "2:6"), (9, "2_3", 3, "6:9"), (9, "2_3", 2, "5:7"), (9, "2_3", 2, "2:6:2"),
    (9, "2_3", 2, "1:4:2"), (9, "1_1_1", 2, "1:3"), (3, "-1_0", 2, "0:2"), (3, "-2_1", 1, "2:3"), (3, "-2_1", 2, "0:2"),
    (9, "1_1_1", 1, "0:1"), (9, "1_1_1", 1, "8:9"),
)  # fmt: skip

_SLICES: dict[str, tuple[str, ...]] = {
    "R119": _moves(
        "x = T[20] parameter(0) a = T[6] slice(x), slice={[2:20:3]} ROOT r = T[2] slice(a), slice={[1:5:2]}",
        "x = T[20] parameter(0) a = T[6] slice(x), slice={[2:18:3]} ROOT r = T[0] slice(a), slice={[1:1]}",
    ),
    "R120": _moves(*(
        "x = T[4] parameter(0) y = T[6] parameter(1) c = T[10] concatenate(x, y), dimensions={0} "
        f"ROOT r = T[{n}] slice(c), slice={{[{r}]}}"
        for n, r in ((4, "0:4"), (3, "4:7"), (2, "3:5"), (3, "2:7:2"), (2, "5:10:3"), (1, "3:5:2"))
    )),
    "R121": _moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) p = T[{size}] pad(x, v), padding={pad} "
        f"ROOT r = T[{n}] slice(p), slice={{[{r}]}}" for size, pad, n, r in _PADDED
    )),
    "R122": _moves(
        "x = T[5] parameter(0) a = T[3,5] broadcast(x), dimensions={1} ROOT r = T[2,2] slice(a), slice={[0:2],[1:5:3]}",
        "x = T[] parameter(0) a = T[3] broadcast(x), dimensions={} ROOT r = T[2] slice(a), slice={[1:3]}",
    ),
    "R123": _moves(*(
        f"x = T[7] parameter(0) a = T[7] reverse(x), dimensions={{0}} ROOT r = T[{n}] slice(a), slice={{[{r}]}}"
        for n, r in ((3, "1:4"), (2, "1:5:3"), (3, "0:6:2"), (3, "2:7:2"))
    )),
    "R123b": _moves("x = T[3,4,5] parameter(0) a = T[5,3,4] transpose(x), dimensions={2,0,1} "
                    "ROOT r = T[2,2,2] slice(a), slice={[1:5:3],[0:2],[2:4]}"),
    "R123c": _moves(*(
        f"x = T[4,6] parameter(0) a = T[{shape}] reshape(x) ROOT r = T[{result}] slice(a), slice={{{ranges}}}"
        for shape, result, ranges in (("4,2,3", "2,2,3", "[1:3],[0:2],[0:3]"), ("4,2,3", "2,1,3", "[1:3],[0:1],[0:3]"),
                                      ("6,4", "2,4", "[1:3],[0:4]"))
    )),
    "R124": _moves(*(
        f"x = T[4] parameter(0) i = s32[] parameter(1) ROOT r = T[{n}] dynamic-slice(x, i), dynamic_slice_sizes={{{n}}}"
        for n in (3, 4)
    )),
    "R125": _moves(*(
        f"x = T[4] parameter(0) i = s32[] constant({i}) ROOT r = T[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}}"
        for i in (-3, 0, 1, 2, 3, 9)
    )),
    "R126": _moves(
        "x = T[] parameter(0) i = s32[] parameter(1) a = T[6] broadcast(x), dimensions={} "
        "ROOT r = T[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
        "x = T[5] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) a = T[6,5] broadcast(x), dimensions={1} "
        "ROOT r = T[2,2] dynamic-slice(a, i, j), dynamic_slice_sizes={2,2}",
    ),
    "N13": _moves(*(
        f"x = T[{x}] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) k = s32[] parameter(3) "
        f"a = T[{a}] reshape(x) ROOT r = T[{r}] dynamic-slice(a, {operands}), dynamic_slice_sizes={{{r}}}"
        for x, a, r, operands in (
            ("4,1,5", "1,4,5", "1,2,3", "i, j, k"), ("4,5", "4,1,5", "2,1,2", "i, j, k"), ("1,4,5", "4,5", "3,5", "i, j"),
            ("5,4", "4,5", "2,2", "i, j"),
        )
    )),
    "N15": tuple(
        _reduce_window(opcode, f"x = T[{x}] parameter(0)", w, window, init).replace("ROOT r", "a").removesuffix("}")
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
    "R127": _moves(*(
        f"i = {index}[] parameter(0) c = {kind}[4] constant({{{numbers}}}) "
        f"ROOT r = {kind}[1] dynamic-slice(c, i), dynamic_slice_sizes={{1}}"
        for index in ("s32", "u8") for kind in ("s32", "u8", "s64", "f32")
        for numbers in ("0,1,2,3", "10,35,60,85", "0,1,2,4")
    ), *(
        f"i = {index}[] parameter(0) a = {kind}[4] iota(), iota_dimension=0 "
        f"ROOT r = {kind}[1] dynamic-slice(a, i), dynamic_slice_sizes={{1}}"
        for index in ("s32", "u8") for kind in ("s32", "u8", "s64", "f32")
    )),
}  # fmt: skip

_UPDATED = "x = T[5] parameter(0) u = T[2] parameter(1) v = T[2] parameter(2) i = s32[] parameter(3) "
_ADDED = "u = T[2] parameter(0) y = T[5] parameter(1) c = T[] constant({}) i = s32[] parameter(2) "

_UPDATES: dict[str, tuple[str, ...]] = {
    "R128": _moves(*(
        f"x = T[4] parameter(0) u = T[{n}] parameter(1) i = s32[] parameter(2) "
        "ROOT r = T[4] dynamic-update-slice(x, u, i)" for n in (3, 4)
    )),
    "R129": _moves(*(
        f"x = T[4] parameter(0) u = T[{n}] parameter(1) i = s32[] parameter(2) "
        "ROOT r = T[4] dynamic-update-slice(x, u, i)" for n in (0, 2)
    )),
    "R130": _moves(*(
        "x = T[4] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2) "
        f"u = T[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}} ROOT r = T[4] dynamic-update-slice(x, u, {k})"
        for k in "ij"
    )),
    "R131": _moves(*(
        f"u = T[2] parameter(0) c = T[] constant({c}) i = s32[] constant({i}) a = T[5] broadcast(c), dimensions={{}} "
        "ROOT r = T[5] dynamic-update-slice(a, u, i)" for i in (-1, 0, 2, 3, 7) for c in (0, 1)
    )),
    "R132": _moves(
        f"{_UPDATED} a = T[5] dynamic-update-slice(x, u, i) ROOT r = T[5] dynamic-update-slice(a, v, i)",
        f"{_UPDATED} w = T[3] parameter(4) a = T[5] dynamic-update-slice(x, w, i) "
        "ROOT r = T[5] dynamic-update-slice(a, v, i)",
        f"{_UPDATED} j = s32[] parameter(4) a = T[5] dynamic-update-slice(x, u, j) "
        "ROOT r = T[5] dynamic-update-slice(a, v, i)",
    ),
    **dict.fromkeys(("R17", "R17x"), _moves(*(
        f"{_ADDED.format(c)} z = T[5] broadcast(c), dimensions={{}} a = T[5] dynamic-update-slice(z, u, i) "
        "ROOT r = T[5] add(a, y)" for c in (0, 1)
    ))),
    "N1": _moves(*(
        f"{_UPDATED} p = pred[5] parameter(4) y = T[5] parameter(5) a = T[5] dynamic-update-slice(x, u, i) "
        f"ROOT r = T[5] select(p, a, {other})" for other in "xy"
    )),
}  # fmt: skip

_PADS: dict[str, tuple[str, ...]] = {
    "R133b": _moves("x = T[0] parameter(0) v = T[] parameter(1) ROOT r = T[3] pad(x, v), padding=1_2"),
    "R134": _moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) w = T[] parameter(2) a = T[{n}] pad(x, v), padding={p} "
        f"ROOT r = T[{m}] pad(a, {second}), padding={q}"
        for n, p, m, q, second in ((7, "1_2", 9, "2_0", "v"), (7, "1_2", 9, "2_0", "w"), (7, "1_2", 6, "-1_0", "v"),
                                   (7, "0_0_1", 9, "2_0", "v"), (3, "-1_0", 5, "2_0", "v"))
    )),
    "R135": _moves(*(
        f"x = T[4] parameter(0) v = T[] parameter(1) ROOT r = T[{n}] pad(x, v), padding={p}"
        for n, p in ((3, "-1_0"), (4, "-1_1"), (1, "-3_0"), (6, "-2_1_1"), (2, "3_-5"), (0, "-5_1"))
    )),
    "R136": _moves(
        "v = T[] parameter(0) x = T[3] broadcast(v), dimensions={} ROOT r = T[6] pad(x, v), padding=1_2",
        "c = T[] constant(1) d = T[] constant(0) x = T[3] broadcast(c), dimensions={} "
        "ROOT r = T[6] pad(x, d), padding=1_2",
    ),
    "R137b": _moves("x = T[4] parameter(0) y = T[0] parameter(1) ROOT r = T[8] concatenate(x, y, x), dimensions={0}",
                    "y = T[0] parameter(0) ROOT r = T[0] concatenate(y, y), dimensions={0}"),
    "R138": _moves(
        "x = T[2] parameter(0) y = T[3] parameter(1) a = T[5] concatenate(x, y), dimensions={0} "
        "ROOT r = T[8] concatenate(y, a), dimensions={0}",
        "x = T[2,2] parameter(0) y = T[2,4] parameter(1) a = T[2,4] concatenate(x, x), dimensions={1} "
        "ROOT r = T[4,4] concatenate(a, y), dimensions={0}",
    ),
    "R139": _moves(*(
        f"x = T[9] parameter(0) a = T[{m}] slice(x), slice={{[{p}]}} b = T[{n}] slice(x), slice={{[{q}]}} "
        f"ROOT r = T[{m + n}] concatenate(a, b), dimensions={{0}}"
        for m, p, n, q in ((3, "0:3", 4, "3:7"), (3, "0:3", 4, "4:8"), (2, "0:3:2", 2, "3:5"), (4, "3:7", 3, "0:3"))
    )),
    "R140": _moves(
        *(f"x = T[4] parameter(0) s = T[] parameter(1) b = T[2] broadcast(s), dimensions={{}} "
          f"ROOT r = T[6] concatenate({operands}), dimensions={{0}}" for operands in ("b, x", "x, b")),
        "x = T[4] parameter(0) b = T[2,4] broadcast(x), dimensions={1} c = T[1,4] reshape(x) "
        "ROOT r = T[3,4] concatenate(b, c), dimensions={0}",
    ),
}  # fmt: skip

_ELEMENTS = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, slice_sizes={1}, index_vector_dim="
_SCATTERED = "scatter_dims_to_operand_dims={0}, to_apply=f, index_vector_dim="

_GATHERS: dict[str, tuple[str, ...]] = {
    "R141": _moves("s = T[] parameter(0) i = s32[3] parameter(1) x = T[6] broadcast(s), dimensions={} "
                   f"ROOT g = T[3] gather(x, i), {_ELEMENTS}1"),
    "R141b": _moves(f"x = T[6] parameter(0) i = s32[0] parameter(1) ROOT g = T[0] gather(x, i), {_ELEMENTS}1"),
    "R141c": _moves(
        *(f"x = T[6,4] parameter(0) i = s32[1] constant({{{i}}}) ROOT g = T[2,4] gather(x, i), offset_dims={{0,1}}, "
          "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={2,4}"
          for i in (-2, 0, 3, 5, 8)),
        "x = T[6,4] parameter(0) i = s32[2] constant({2, 9}) ROOT g = T[3] gather(x, i), offset_dims={0}, "
        "collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,3}",
        "x = T[6,4] parameter(0) i = s32[2] constant({1, 3}) ROOT g = T[3] gather(x, i), offset_dims={0}, "
        "collapsed_slice_dims={1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={3,1}",
    ),
    "R141d": _moves(*(
        f"x = T[{n}] parameter(0) i = s32[5,2] constant({{{{-3,0}},{{1,2}},{{3,4}},{{9,1}},{{0,2}}}}) "
        f"ROOT g = T[5,2] gather(x, i), {_ELEMENTS}2" for n in (1, 2, 3, 4, 5)
    )),
    "R142": (
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

_INITS = ("constant(0)", "constant(1)")

_REDUCTIONS: dict[str, tuple[str, ...]] = {
    "R144": tuple(_reduce(o, "x = T[0,3] parameter(0)", "T[3]", "0") for o in ("add", "maximum", "and")),
    "R143,R145": tuple(
        _reduce(o, "x = T[1,3,1] parameter(0)", shape, dims, init)
        for o in ("add", "subtract", "multiply", "maximum", "minimum", "and", "or")
        for shape, dims in (("T[3]", "0,2"), ("T[1,3,1]", ""), ("T[3,1]", "0"), ("T[1,1]", "1"))
        for init in ("parameter(1)", *_INITS, "constant(-0)", "constant(-inf)")
    ),
    "R148": tuple(
        _reduce(o, f"s = T{s} parameter(0) x = T[4,3] broadcast(s), dimensions={{{m}}}", shape, dims, init)
        for o in ("maximum", "minimum", "and", "or", "add")
        for s, m, shape, dims in (("[3]", "1", "T[3]", "0"), ("[]", "", "T[]", "0,1"), ("[4]", "0", "T[]", "0,1"),
                                  ("[3]", "1", "T[4]", "1"))
        for init in _INITS
    ),
    **dict.fromkeys(("R148b", "R148x"), tuple(
        _reduce("add", f"s = T{s} parameter(0) x = T[4,3] broadcast(s), dimensions={{{m}}}", shape, dims, init)
        for s, m, shape, dims in (("[3]", "1", "T[3]", "0"), ("[]", "", "T[]", "0,1"), ("[4]", "0", "T[]", "0,1"),
                                  ("[]", "", "T[4]", "1"))
        for init in _INITS
    )),
    "N2": tuple(
        _reduce(o, "y = T[2,3] parameter(0) x = T[4,3,5,2] broadcast(y), dimensions={3,1}", shape, dims)
        for o in ("add", "maximum", "and")
        for shape, dims in (("T[4,3,5]", "3"), ("T[4,5]", "1,3"), ("T[4,3,2]", "2"), ("T[3,5]", "0,3"))
    ),
    "R146": tuple(
        _reduce(o, f"y = T[2,3,4] parameter(0) z = T[] constant({inner}) "
                   "x = T[2,4] reduce(y, z), dimensions={1}, to_apply=f", "T[4]", "0", f"constant({init})")
        for o in ("add", "multiply", "maximum", "and", "or")
        for inner, init in (("0", "0"), ("0", "-0"), ("-0", "0"), ("1", "0"), ("0", "1"), ("1", "1"))
    ),
    "R147": tuple(
        _reduce(o, "y = T[2,3,4] parameter(0) x = T[4,2,3] transpose(y), dimensions={2,0,1}", shape, dims)
        for o in ("add", "maximum", "and")
        for shape, dims in (("T[2,3]", "0"), ("T[2]", "0,2"), ("T[4,2]", "2"), ("T[]", "0,1,2"))
    ),
    "R147b": tuple(
        _reduce(o, f"y = T[{s}] parameter(0) x = T[{r}] reshape(y)", shape, dims)
        for o in ("add", "maximum", "and")
        for s, r, shape, dims in (
            ("6,4", "2,3,4", "T[4]", "0,1"), ("6,4", "2,3,4", "T[2,4]", "1"), ("6,4", "6,1,4", "T[6,1]", "2"),
            ("6,1,4", "6,4", "T[6]", "1"), ("2,3,4", "6,4", "T[4]", "0"), ("2,3,4", "2,12", "T[2]", "1"),
            ("1,3", "3", "T[]", "0"), ("1,6,4", "6,1,4", "T[1,4]", "0"),
        )
    ),
    "R149": tuple(
        _reduce(o, "y = T[2,3] parameter(0) z = T[4,3] parameter(1) x = T[6,3] concatenate(y, z), dimensions={0}",
                shape, dims, init)
        for o in ("add", "multiply", "maximum", "and")
        for shape, dims in (("T[3]", "0"), ("T[6]", "1"), ("T[]", "0,1")) for init in _INITS
    ),
    "R150": tuple(
        _reduce(o, f"y = T[2,3] parameter(0) v = T[] constant({v}) x = T[5,3] pad(y, v), padding=1_2x0_0",
                shape, dims, init)
        for o in ("add", "multiply", "maximum", "and") for v in (0, 1)
        for shape, dims in (("T[3]", "0"), ("T[5]", "1")) for init in (*_INITS, "constant(-0)")
    ),
    "R151": tuple(
        _reduce_window(o, "x = T[4] parameter(0)", f"T[{n}]", f"size={size}", i)
        for o in ("add", "maximum") for i in (0, 1) for n, size in ((4, "1"), (3, "2"), (2, "1 stride=2"))
    ),
    "R151b": tuple(
        _reduce_window(o, "x = T[0] parameter(0)", "T[2]", "size=2 pad=1_2", i)
        for o in ("add", "multiply") for i in (0, 1)
    ),
    "R152": tuple(
        _reduce_window(o, "x = T[4,3] parameter(0)", f"T[{n}]", f"size={size}", i)
        for o in ("add", "maximum") for i in (0, 1) for n, size in (("1,3", "4x1"), ("1,1", "4x3"), ("3,3", "2x1"))
    ),
    "R153": tuple(
        _reduce_window(o, f"y = T[4] parameter(0) v = T[] constant(0) x = T[{n}] pad(y, v), padding={p}",
                       f"T[{n - 1}]", "size=2", i)
        for o in ("add", "maximum") for i in (0, 1) for n, p in ((7, "1_2"), (3, "-1_0"), (9, "1_1_1"))
    ),
}  # fmt: skip

_BATCHED = ("x = s32[5,2,4] parameter(0) y = s32[4,5,3] parameter(1) d = s32[5,2,3] dot(x, y), lhs_batch_dims={0}, "
            "lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0} ")  # fmt: skip
_MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

_PADDED = (
    "k = T[2,3] parameter(0) i = s32[4] parameter(1) v = T[] parameter(2) a = T[2,5] pad(k, v), padding=0_0x1_1 ",
    "k = T[2,3] parameter(0) i = s32[4] parameter(1) v = T[] parameter(2) a = T[4,3] pad(k, v), padding=1_1x0_0 ",
)
_GATHER_ROWS = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes"
_GATHERED: dict[str, tuple[str, ...]] = {
    "N14": _moves(f"{_PADDED[0]} ROOT g = T[4,5] gather(a, i), {_GATHER_ROWS}={{1,5}}",
                  f"{_PADDED[0]} ROOT g = T[4,4] gather(a, i), {_GATHER_ROWS}={{1,4}}",
                  f"{_PADDED[1]} ROOT g = T[4,3] gather(a, i), {_GATHER_ROWS}={{1,3}}"),
    "N14b": _moves(
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

_WINDOWS_OF_NOTHING: dict[str, tuple[str, ...]] = {
    "R151c": tuple(
        "f { a = T[] parameter(0) b = s32[] parameter(1) c = T[] parameter(2) d = s32[] parameter(3) "
        f"e = T[] add(a, c) g = s32[] {opcode}(b, d) ROOT t = (T[], s32[]) tuple(e, g) }} "
        "ENTRY e { x = T[0,2] parameter(0) y = s32[0,2] parameter(1) z = T[] constant(0) m = s32[] constant(5) "
        "ROOT r = (T[2,2], s32[2,2]) reduce-window(x, y, z, m), window={size=1x1 pad=1_1x0_0}, to_apply=f }"
        for opcode in ("maximum", "add")
    ),
}

_SHAPES = "a = f32[{}] parameter(0) b = f32[{}] parameter(1) c = f32[{}] parameter(2) "
_CONTRACT = "lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}"
_CHAIN = "".join((_SHAPES, "d = f32[{}] dot(a, b), ", _CONTRACT, " ROOT r = f32[{}] dot({}), ", _CONTRACT))

_REORDERED: dict[str, tuple[str, ...]] = {
    "N8": _moves(
        _CHAIN.format("4,1", "1,4", "4,1", "4,4", 1, 0, "4,1", "d, c", 1, 0),
        _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "9,2", "d, c", 1, 0),
        _CHAIN.format("2,3,4,5", "6,7,5", "4,7", "2,3,4,6,7", 3, 2, "2,3,6", "d, c", "2,4", "0,1"),
        _CHAIN.format("2,9", "9,3", "3,9", "2,3", 1, 0, "2,9", "d, c", 1, 0),
        "a = f32[3,8,3] parameter(0) b = f32[3,3,3] parameter(1) c = f32[3,3,3] parameter(2) d = f32[3,8,3] dot(a, b), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2} "
        "ROOT r = f32[3,8,3] dot(d, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}",
    ),
    "N8b": _moves(
        _CHAIN.format("4,1", "1,4", "4,1", "4,4", 1, 0, "1,4", "c, d", 0, 0),
        _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "2,9", "c, d", 0, 0),
                  _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "2,9", "c, d", 0, 1)),
    "N9": _moves(
        "x = s32[7,4] parameter(0) y = s32[4,6] parameter(1) d = s32[7,6] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0} ROOT r = s32[3,2] slice(d), slice={[0:6:2],[4:6]}",
        "x = s32[2,4,3] parameter(0) y = s32[4,2,5] parameter(1) d = s32[2,3,5] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0} "
        "ROOT r = s32[1,3,2] slice(d), slice={[1:2],[0:3],[1:3]}",
    ),
    "N10": _moves(
        "a = s32[9,8] parameter(0) b = s32[8,2] parameter(1) r = s32[9,8] reverse(a), dimensions={1} "
        "ROOT d = s32[9,2] dot(r, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = s32[2,3] parameter(0) b = s32[3,9] parameter(1) r = s32[2,3] reverse(a), dimensions={1} "
        "ROOT d = s32[2,9] dot(r, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "N10b": _moves(
        "a = s32[2,9] parameter(0) b = s32[9,8] parameter(1) r = s32[9,8] reverse(b), dimensions={0,1} "
        "ROOT d = s32[2,8] dot(a, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = s32[2,2,9] parameter(0) b = s32[2,9,8] parameter(1) r = s32[2,9,8] reverse(b), dimensions={0,2} "
        "ROOT d = s32[2,2,8] dot(a, r), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
    ),
    **dict.fromkeys(("N11", "N11b"), _moves(*(
        f"a = f32[3,2] parameter(0) b = f32[5,4] parameter(1) z = f32[] constant({z}) p = f32[6,5] pad(a, z), "
        f"padding=1_2x{inner} ROOT d = f32[{r}] dot({operands}), lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}"
        for operands, r, i, j in (("p, b", "6,4", 1, 0), ("b, p", "4,6", 0, 1)) for z, inner in ((0, "2_1"), (1, "2_1"))
    ))),
    "N12": tuple(
        f"{_reducer('add')}ENTRY e {{ x = T[2,4,3] parameter(0) y = T[2,3,5] parameter(1) "
        "d = T[2,4,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        f"rhs_contracting_dims={{1}} z = T[] constant({z}) "
        f"ROOT r = T[{shape}] reduce(d, z), dimensions={{{dims}}}, to_apply=f }}"
        for z in (0, 1) for shape, dims in (("2,5", "1"), ("2,4", "2"), ("2", "1,2"), ("4,5", "0"))
    ),
}  # fmt: skip

_LAYOUTS: dict[str, tuple[str, ...]] = {
    "R116c": _moves(
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
    "R116d": _moves(
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[2,3,5,4]{3,1,0,2} bitcast(a)",
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[10,3,4] bitcast(a)",
        "x = T[2,4] parameter(0) a = T[5,2,3,4] broadcast(x), dimensions={1,3} ROOT r = T[4,3,5,2]{0,1,3,2} bitcast(a)",
    ),
    "N7": _moves("x = T[2,3]{1,0} parameter(0) ROOT r = T[2,3]{0,1} custom-call(x), "
                 'custom_call_target="LayoutConstraint"',
                 'x = T[2,3] parameter(0) ROOT r = T[2,3] custom-call(x), custom_call_target="Sharding"'),
}  # fmt: skip

_DOTS: dict[str, tuple[str, ...]] = {
    "R157": _moves(f"x = T[2,0] parameter(0) y = T[0,3] parameter(1) ROOT d = T[2,3] dot(x, y), {_MATRICES}"),
    "R158": _moves(
        "x = T[2] parameter(0) y = T[3] parameter(1) "
        "ROOT d = T[2,3] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}",
        "x = T[2,4] parameter(0) y = T[3,4] parameter(1) ROOT d = T[4,2,3] dot(x, y), lhs_batch_dims={1}, "
        "lhs_contracting_dims={}, rhs_batch_dims={1}, rhs_contracting_dims={}",
    ),
    "R112": _moves(
        f"x = s32[2,4] parameter(0) y = s32[4,3] parameter(1) d = s32[2,3] dot(x, y), {_MATRICES} "
        "ROOT t = s32[3,2] transpose(d), dimensions={1,0}",
        f"{_BATCHED} ROOT t = s32[5,3,2] transpose(d), dimensions={{0,2,1}}",
        f"{_BATCHED} ROOT t = s32[2,5,3] transpose(d), dimensions={{1,0,2}}",
    ),
    "R160": _moves(
        "x = s32[2,3,4] parameter(0) y = s32[3,4,5] parameter(1) a = s32[2,4,3] transpose(x), dimensions={0,2,1} "
        "b = s32[4,3,5] transpose(y), dimensions={1,0,2} "
        "ROOT d = s32[2,5] dot(a, b), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
        "x = s32[4,2] parameter(0) y = s32[3,4] parameter(1) a = s32[2,4] transpose(x), dimensions={1,0} "
        f"b = s32[4,3] transpose(y), dimensions={{1,0}} ROOT d = s32[2,3] dot(a, b), {_MATRICES}",
    ),
    "R159": _moves(*(
        f"x = s32[4] parameter(0) y = s32[4{more}] parameter(1) "
        f"ROOT d = s32[{result}] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        for more, result in (("", ""), (",2", "2"))
    )),
    "R161": _moves(
        "x = s32[2,1] parameter(0) y = s32[2,2] parameter(1) a = s32[2,3] concatenate(x, y), dimensions={1} "
        f"c = s32[3,2] constant({{{{1,2}},{{3,4}},{{5,6}}}}) ROOT d = s32[2,2] dot(a, c), {_MATRICES}"
    ),
    **dict.fromkeys(("R162", "R162x"), _moves(*(
        f"x = T[2,3] parameter(0) y = T[6,4] parameter(1) v = T[] constant({v}) a = T[2,6] pad(x, v), padding=0_0x{p} "
        f"ROOT d = T[2,4] dot(a, y), {_MATRICES}" for v in (0, 1) for p in ("1_2", "-1_4", "0_1_1")
    ))),
    **dict.fromkeys(("R162b", "R162y"), _moves(*(
        f"x = T[3,2] parameter(0) y = T[4,6] parameter(1) v = T[] constant({v}) a = T[6,2] pad(x, v), padding={p}x0_0 "
        f"ROOT d = T[4,2] dot(y, a), {_MATRICES}" for v in (0, 1) for p in ("1_2", "-1_4")
    ))),
    "R163": _moves("s = T[] parameter(0) y = T[3,4] parameter(1) a = T[3] broadcast(s), dimensions={} "
                   "ROOT d = T[4] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "R164": _moves(
        f"x = s32[1,4] parameter(0) y = s32[4,1,3] parameter(1) ROOT d = s32[1,1,3] dot(x, y), {_MATRICES}",
        "x = s32[5,1,4] parameter(0) y = s32[4,5,3] parameter(1) ROOT d = s32[5,1,3] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
        f"x = s32[3,1] parameter(0) y = s32[1,4] parameter(1) ROOT d = s32[3,4] dot(x, y), {_MATRICES}",
        "x = s32[1,3,4] parameter(0) y = s32[1,4] parameter(1) ROOT d = s32[1,3] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    ),
    "R159x": _moves(
        "x = T[3,4] parameter(0) y = T[4] parameter(1) ROOT d = T[3] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        "x = T[4,2] parameter(0) y = T[4,3,2] parameter(1) ROOT d = T[2,3] dot(x, y), lhs_batch_dims={1}, "
        "lhs_contracting_dims={0}, rhs_batch_dims={2}, rhs_contracting_dims={0}",
        "x = T[2,4] parameter(0) y = T[2,4] parameter(1) ROOT d = T[2] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
        "x = T[2,4] parameter(0) y = T[4,2] parameter(1) ROOT d = T[2] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
    ),
    "R29": _moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{d}] broadcast(s), dimensions={{}} "
        f"d = T[{d}] dot(x, y), {_MATRICES} ROOT r = T[{d}] multiply(d, b)"
        for x, y, d in (("4,2", "2,5", "4,5"), ("5,2", "2,4", "5,4"), ("2,9", "9,2", "2,2"))
    )),
    "R29b": _moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{x}] broadcast(s), dimensions={{}} "
        f"a = T[{x}] multiply(x, b) ROOT d = T[{d}] dot(a, y), {_MATRICES}"
        for x, y, d in (("4,6", "6,2", "4,2"), ("9,2", "2,1", "9,1"), ("2,2", "2,9", "2,9"))
    )),
    "R29c": _moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{y}] broadcast(s), dimensions={{}} "
        f"a = T[{y}] multiply(y, b) ROOT d = T[{d}] dot(x, a), {_MATRICES}"
        for x, y, d in (("2,6", "6,4", "2,4"), ("1,2", "2,9", "1,9"), ("9,2", "2,2", "9,2"))
    )),
}  # fmt: skip

_IMAGES = "dim_labels=b01f_01io->b01f"

_CONVOLUTIONS: dict[str, tuple[str, ...]] = {
    "R157b": _moves("x = f32[1,5,5,0] parameter(0) w = f32[3,3,0,4] parameter(1) "
                    f"ROOT c = f32[1,3,3,4] convolution(x, w), window={{size=3x3}}, {_IMAGES}"),
    "R154": _moves(*(
        f"x = f32[1,5,5,2] parameter(0) w = f32[3,3,2,4] parameter(1) z = f32[] constant({z}) "
        f"p = f32[1,{n},6,2] pad(x, z), padding=0_0x{pad}x1_0x0_0 "
        f"ROOT c = f32[1,{n - 2},4,4] convolution(p, w), window={{size=3x3}}, {_IMAGES}"
        for z in (0, 1) for n, pad in ((7, "1_1"), (10, "1_0_1"), (4, "-1_0"))
    )),
    "R154b": _moves(*(
        f"x = f32[1,7,5,2] parameter(0) w = f32[2,3,2,4] parameter(1) z = f32[] constant({z}) "
        f"p = f32[3,3,2,4] pad(w, z), padding={pad}x0_0x0_0x0_0 "
        f"ROOT c = f32[1,5,3,4] convolution(x, p), window={{size=3x3}}, {_IMAGES}"
        for z in (0, 1) for pad in ("0_0_1", "0_1")
    )),
    "R155": _moves(
        "x = f32[2,5,3,2] parameter(0) w = f32[1,1,2,4] parameter(1) "
        f"ROOT c = f32[2,5,3,4] convolution(x, w), window={{size=1x1}}, {_IMAGES}",
        "x = f32[2,3,5] parameter(0) w = f32[4,2,1] parameter(1) "
        "ROOT c = f32[3,4,5] convolution(x, w), window={size=1}, dim_labels=fb0_oi0->bf0",
        "x = f32[2,5,3,2] parameter(0) w = f32[1,1,2,4] parameter(1) "
        f"ROOT c = f32[2,3,2,4] convolution(x, w), window={{size=1x1 stride=2x2}}, {_IMAGES}",
    ),
    "R156": _moves(
        f"x = f32[1,3,2,2] parameter(0) w = f32[4,3,2,3] parameter(1) ROOT c = f32[1,3,2,3] convolution(x, w), "
        f"window={{size=4x3 pad=2_1x1_1}}, {_IMAGES}",
        f"x = f32[2,2,3,2] parameter(0) w = f32[4,3,2,3] parameter(1) ROOT c = f32[2,2,2,3] convolution(x, w), "
        f"window={{size=4x3 stride=2x1 pad=3_2x1_0 lhs_dilate=2x1 rhs_dilate=1x1 rhs_reversal=1x0}}, {_IMAGES}",
        "x = f32[3,2,4] parameter(0) w = f32[2,3,5] parameter(1) ROOT c = f32[3,2,4] convolution(x, w), "
        "window={size=5 pad=4_4 rhs_dilate=2}, dim_labels=fb0_oi0->fb0",
        f"x = f32[1,5,5,2] parameter(0) w = f32[3,3,2,3] parameter(1) ROOT c = f32[1,3,3,3] convolution(x, w), "
        f"window={{size=3x3}}, {_IMAGES}",
    ),
    "N42": _moves(*(
        "x = f32[1,4,4,1] parameter(0) w = f32[2,2,1,2] constant({{{{1.1,1.2}},{{2.1,2.2}}},{{{3.1,3.2}},{{4.1,4.2}}}}) "
        f"c = f32[1,3,3,2] convolution(x, w), window={{size=2x2}}, {_IMAGES} k = {k} ROOT r = f32[1,3,3,2] multiply(c, b)"
        for k in (
            "f32[2] constant({3.3, 1.1}) b = f32[1,3,3,2] broadcast(k), dimensions={3}",
            "f32[] constant(3.3) b = f32[1,3,3,2] broadcast(k), dimensions={}",
            "f32[3] constant({3.3, 1.1, 2}) b = f32[1,3,3,2] broadcast(k), dimensions={2}",
        )
    )),
    "N42b": _moves(*(
        "x = f32[1,4,4,1] parameter(0) w = f32[2,2,1,2] constant({{{{1.1,1.2}},{{2.1,2.2}}},{{{3.1,3.2}},{{4.1,4.2}}}}) "
        f"c = f32[1,3,3,2] convolution(x, w), window={{size=2x2}}, {_IMAGES} v = f32[1,3,3,2] parameter(1) "
        f"k = f32[{n}] constant({{{k}}}) b = f32[1,3,3,2] broadcast(k), dimensions={{{d}}} "
        "a = f32[1,3,3,2] add(c, v) ROOT r = f32[1,3,3,2] multiply(a, b)"
        for n, k, d in ((2, "3.3, 1.1", 3), (3, "3.3, 1.1, 2", 2))
    )),
}  # fmt: skip

_COLLECTIVES: dict[str, tuple[str, ...]] = {
    "N40": _moves(*(
        f"c = T[] constant(1) b = T[2,4] broadcast(c), dimensions={{}} ROOT r = T[{shape}] {opcode}(b), "
        "dimensions={0}, replica_groups={{0,1}}" for opcode, shape in (("all-gather", "4,4"), ("all-to-all", "2,4"))
    )),
    "N41": tuple(
        f"{_reducer(opcode)}ENTRY e {{ c = T[] constant(3) b = T[2] broadcast(c), dimensions={{}} "
        f"ROOT r = T[2] all-reduce(b), to_apply=f, replica_groups={groups} }}"
        for opcode in ("add", "multiply", "maximum", "subtract") for groups in ("{{0,1,2}}", "{{0,1},{2}}", "{}")
    ),
}  # fmt: skip

_LESS = "f { a = T[] parameter(0) b = T[] parameter(1) ROOT c = pred[] compare(a, b), direction="
_PAIR = ("f { a = T[] parameter(0) b = T[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) "
         "ROOT r = pred[] compare(a, b), direction=LT } ")  # fmt: skip
_BRANCH = "{} {{ a = T[2] parameter(0) ROOT b = T[2] {} }} "
_CHOICE = ("ENTRY e { p = pred[] parameter(0) x = T[2] parameter(1) y = T[2] parameter(2) ROOT r = T[2] "
           "conditional(p, x, %s), true_computation=f, false_computation=g }")  # fmt: skip

_CONTROL: dict[str, tuple[str, ...]] = {
    "R165": (
        f"{_LESS}LT }} ENTRY e {{ x = T[1,3] parameter(0) ROOT s = T[1,3] sort(x), dimensions={{0}}, to_apply=f }}",
        f"{_LESS}LT }} ENTRY e {{ x = T[2,3] parameter(0) ROOT s = T[2,3] sort(x), dimensions={{0}}, to_apply=f }}",
        f"{_PAIR} ENTRY e {{ x = T[1] parameter(0) y = s32[1] parameter(1) "
        "ROOT s = (T[1], s32[1]) sort(x, y), dimensions={0}, to_apply=f }",
    ),
    "R165b": tuple(
        f"{_LESS}{direction} }} ENTRY e {{ x = T[9] parameter(0) s = T[9] sort(x), dimensions={{0}}, to_apply=f "
        "ROOT t = T[9] sort(s), dimensions={0}, to_apply=f }" for direction in ("LT", "GT", "LE", "LT, type=TOTALORDER")
    ),
    "R166": _moves("x = T[2] parameter(0) y = T[3] parameter(1) t = (T[2], T[3]) tuple(x, y) "
                   "ROOT r = T[3] get-tuple-element(t), index=1"),
    "R167": _moves("x = T[2] parameter(0) t = token[] after-all() ROOT r = T[2] add-dependency(x, t)"),
    "R168": tuple(
        _BRANCH.format("f", "copy(a)") + _BRANCH.format("g", other) + _CHOICE % operand
        for other in ("copy(a)", "reverse(a), dimensions={0}") for operand in "xy"
    ),
}  # fmt: skip

_DOT_ORDER: dict[str, tuple[str, ...]] = {
    "N16": _moves(*(
        f"x = s32[2,3,4,5] parameter(0) y = s32[2,3,6,4] parameter(1) t = s32[{x}] transpose(x), dimensions={{{p}}} "
        f"u = s32[{y}] transpose(y), dimensions={{{p}}} ROOT d = s32[{r}] dot(t, u), lhs_batch_dims={{0,1}}, "
        f"lhs_contracting_dims={{{a}}}, rhs_batch_dims={{0,1}}, rhs_contracting_dims={{{b}}}"
        for x, y, p, r, a, b in (
            ("3,2,5,4", "3,2,4,6", "1,0,3,2", "3,2,5,6", 3, 2), ("2,3,5,4", "2,3,4,6", "0,1,3,2", "2,3,5,6", 3, 2),
            ("3,2,4,5", "3,2,6,4", "1,0,2,3", "3,2,5,6", 2, 3),
        )
    )),
    "N17": _moves(*(
        f"x = s32[{x}] parameter(0) t = s32[{t}] transpose(x), dimensions={{{p}}} r = s32[{r}] reshape(t) "
        f"c = s32[6,2] constant({{{{1,2}},{{3,4}},{{5,6}},{{7,8}},{{9,1}},{{2,3}}}}) "
        f"ROOT d = s32[{r.replace('6', '').strip(',')},2] dot(r, c), lhs_contracting_dims={{{k}}}, "
        "rhs_contracting_dims={0}"
        for x, t, p, r, k in (
            ("5,2,3", "5,3,2", "0,2,1", "5,6", 1), ("2,3,5", "3,2,5", "1,0,2", "6,5", 0),
            ("5,2,1,3", "5,3,1,2", "0,3,2,1", "5,6", 1), ("2,5,3", "5,3,2", "1,2,0", "5,6", 1),
        )
    )),
    "N17b": _moves(
        "x = s32[2,3,5] parameter(0) t = s32[3,2,5] transpose(x), dimensions={1,0,2} r = s32[6,5] reshape(t) "
        "c = s32[1,6] constant({{1,2,3,4,5,6}}) ROOT d = s32[1,5] dot(c, r), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
    ),
    "N18": tuple(
        _reduce("add", "y = T[4,3,2,5] parameter(0) z = T[4,3,6,5] parameter(1) x = T[4,3,2,6] dot(y, z), "
                "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}",
                f"T[{shape}]", dims, f"constant({init})")
        for shape, dims, init in (("3,2,6", "0", 0), ("2,6", "0,1", 0), ("4,3,2", "3", 0), ("4,2,6", "1", 1))
    ),
}  # fmt: skip

_SEVERAL = ("f { a = T[] parameter(0) b = s32[] parameter(1) c = T[] parameter(2) d = s32[] parameter(3) "
            "x = T[] add(a, c) y = s32[] add(b, d) ROOT t = (T[], s32[]) tuple(x, y) } ")  # fmt: skip

_VARIADIC: dict[str, tuple[str, ...]] = {
    **{
        rule: tuple(
            f"{_SEVERAL} ENTRY e {{ x = T[{shape}] parameter(0) y = s32[{shape}] parameter(1) i = T[] constant({init}) "
            f"j = s32[] constant(0) ROOT r = (T[2], s32[2]) reduce(x, y, i, j), dimensions={{0}}, to_apply=f }}"
            for shape, init in shapes
        )
        for rule, shapes in {"N27": (("0,2", 1), ("3,2", 1)), "N28": (("1,2", 3), ("3,2", 0))}.items()
    },
    **{
        rule: tuple(
            _reduce(opcode, f"{y} x = T[2,3] negate(y)", "T[2]", "1")
            for opcode, y in (
                ("add", "y = T[2,3] parameter(0)"),
                ("maximum", "y = T[2,3] parameter(0)"),
                ("add", "z = T[] constant(0) y = T[2,3] broadcast(z), dimensions={}"),
            )
        )
        for rule in ("N29", "N29x")
    },
}

_VARIADIC["N31"] = tuple(
    f"f {{ a = T[] parameter(0) b = T[] parameter(1) c = T[] add(a, b) ROOT t = (T[]) {result} }} "
    f"ENTRY e {{ x = T[3,2] parameter(0) i = T[] constant(0) ROOT r = (T[{shape}]) {call}, to_apply=f }}"
    for result in ("tuple(c)", 'custom-call(c), custom_call_target="no"')
    for shape, call in (("2", "reduce(x, i), dimensions={0}"), ("2,2", "reduce-window(x, i), window={size=2x1}"))
)

_SCATTER = ("scatter(z, {}, {}), to_apply=f, update_window_dims={{1}}, inserted_window_dims={{0}}, "
            "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1")  # fmt: skip


def _scatters(opcode: str, other: str, root: str) -> str:
    """The module of two scatters, `s` to zeros and `t` to `other`."""
    return (
        f"{_reducer(opcode)}ENTRY e {{ o = T[] constant(0) z = T[6,2] broadcast(o), dimensions={{}} x = T[6,2] parameter(0) "
        f"i = s32[3] parameter(1) j = s32[2] parameter(2) u = T[3,2] parameter(3) v = T[2,2] parameter(4) "
        f"s = T[6,2] {_SCATTER.format('i', 'u')} t = T[6,2] {_SCATTER.format('j', 'v').replace('(z', '(' + other)} {root} }}"
    )


_SCATTERED = {
    **dict.fromkeys(("N32", "N32x"), tuple(
        _scatters(opcode, other, "ROOT r = T[6,2] add(s, t)")
        for opcode, other in (("add", "z"), ("add", "x"), ("maximum", "z"))
    )),
    **dict.fromkeys(("N32b", "N32y"), tuple(
        _scatters("add", other, f"w = T[6,2] add(x, s) ROOT r = T[6,2] add({operands})")
        for other, operands in (("z", "w, t"), ("z", "t, w"), ("x", "w, t"))
    )),
}  # fmt: skip

_PIECES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("N33", "N33x"), _moves(*(
        "x = T[2,3] parameter(0) c = T[3] constant({1,2,3}) d = T[3] constant({5,-3,1}) b = T[2,3] broadcast(c), "
        f"dimensions={{1}} y = T[2,3] add(x, b) a = T[2,3] broadcast({which}), dimensions={{1}} ROOT r = T[2,3] add(y, a)"
        for which in "cd"
    ))),
    "N38": _moves(*(
        "x = T[3,2] parameter(0) y = T[4,2] parameter(1) w = T[5,2] parameter(2) c = T[12,2] concatenate(x, y, w), "
        f"dimensions={{0}} ROOT r = T[{n},2] slice(c), slice={{[{r}], [0:2]}}"
        for n, r in ((6, "4:10"), (2, "1:5:2"), (5, "1:6"), (10, "1:11"))
    )),
    "N16b": _moves(*(
        "x = s32[2,3,4,5] parameter(0) y = s32[2,3,6,5] parameter(1) d = s32[2,3,4,6] dot(x, y), lhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3} "
        f"ROOT t = s32[{shape}] transpose(d), dimensions={{{order}}}"
        for shape, order in (("3,2,6,4", "1,0,3,2"), ("3,2,4,6", "1,0,2,3"), ("2,6,3,4", "0,3,1,2"))
    )),
}  # fmt: skip

_JOINED: dict[str, tuple[str, ...]] = {
    "N14c": _moves(*(
        f"x = T[2,3,4] parameter(0) v = T[] parameter(1) i = s32[2,5] parameter(2) c = s32[] constant(0) "
        f"p = T[4,3,4] pad(x, v), padding={p}x0_0x0_0 q = s32[4,5] pad(i, c), padding={q}x0_0 "
        "ROOT g = T[4,4,5] gather(p, q), offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=2, slice_sizes={1,1,4}, operand_batching_dims={0}, start_indices_batching_dims={0}"
        for p, q in (("2_0", "2_0"), ("1_1", "1_1"), ("2_0", "1_1"))
    )),
    "N23": _moves("x = s32[2] parameter(0) y = s32[3] parameter(1) u = f32[2] bitcast-convert(x) "
                  "v = f32[3] bitcast-convert(y) c = f32[5] concatenate(u, v), dimensions={0} "
                  "ROOT r = s32[5] bitcast-convert(c)"),
    "N24": _moves("x = T[2] parameter(0) y = T[3] parameter(1) t = (T[2], T[3], T[2]) tuple(x, y, x) "
                  "b = (T[2], T[3], T[2]) opt-barrier(t) ROOT g = T[3] get-tuple-element(b), index=1"),
    "N43": _moves(*(
        f"x = T[4,3] parameter(0) n = s32[] parameter(1) d = T[<=4,<=3] custom-call(x, n, n), {_cut} "
        "p = (T[4,3], s32[], s32[]) custom-call(d), custom_call_target=\"PadToStatic\" "
        "a = T[4,3] get-tuple-element(p), index=0 u = s32[] get-tuple-element(p), index=1 "
        f"v = s32[] get-tuple-element(p), index=2 ROOT r = {shape} custom-call({operands}), {_cut}"
        for _cut in ('custom_call_target="SliceToDynamic"',)
        for shape, operands in (("T[<=4,<=3]", "a, u, v"), ("T[<=4,<=3]", "a, v, u"), ("T[<=4,3]", "a, u"))
    )),
    "N25": _moves(*(
        f"x = T[{x}] parameter(0) s = T[{s}] reshape(x) t = T[{t}] transpose(s), dimensions={{{p}}} "
        f"ROOT r = T[{r}] reshape(t)"
        for x, s, t, p, r in (
            ("6,4", "2,3,4", "4,2,3", "2,0,1", "4,6"), ("6,4", "2,3,4", "2,4,3", "0,2,1", "8,3"),
            ("6,1,4", "2,3,2,2", "2,2,2,3", "2,3,0,1", "24"), ("2,3,4", "6,4", "4,6", "1,0", "2,2,6"),
            ("2,3,4", "2,1,3,4", "3,1,2,4", "2,1,0,3", "6,4"),
        )
    )),
    "N26": _moves("x = T[2,1,3] parameter(0) ROOT r = T[2,4,3] concatenate(x, x, x, x), dimensions={1}",
                  "x = T[2,1,3] parameter(0) ROOT r = T[6,1,3] concatenate(x, x, x), dimensions={0}"),
}  # fmt: skip

STRUCTURES: Mapping[str, tuple[str, ...]] = {
    **_MOVEMENT, **_SLICES, **_UPDATES, **_PADS, **_GATHERS, **_REDUCTIONS, **_DOTS, **_CONVOLUTIONS, **_COLLECTIVES, **_CONTROL,
    **_GATHERED, **_WINDOWS_OF_NOTHING, **_REORDERED, **_LAYOUTS, **_DOT_ORDER, **_VARIADIC, **_JOINED, **_SCATTERED, **_PIECES,
}  # fmt: skip
