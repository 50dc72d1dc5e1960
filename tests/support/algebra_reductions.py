"""Instances of the simplifier's rules on reductions, windows, products and convolutions, by the rules' ids."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.algebra_modules import moves, reduce, reduce_window, reducer

_INITS = ("constant(0)", "constant(1)")

_REDUCTIONS: dict[str, tuple[str, ...]] = {
    "R144": tuple(reduce(o, "x = T[0,3] parameter(0)", "T[3]", "0") for o in ("add", "maximum", "and")),
    "R143,R145": tuple(
        reduce(o, "x = T[1,3,1] parameter(0)", shape, dims, init)
        for o in ("add", "subtract", "multiply", "maximum", "minimum", "and", "or")
        for shape, dims in (("T[3]", "0,2"), ("T[1,3,1]", ""), ("T[3,1]", "0"), ("T[1,1]", "1"))
        for init in ("parameter(1)", *_INITS, "constant(-0)", "constant(-inf)")
    ),
    "R148": tuple(
        reduce(o, f"s = T{s} parameter(0) x = T[4,3] broadcast(s), dimensions={{{m}}}", shape, dims, init)
        for o in ("maximum", "minimum", "and", "or", "add")
        for s, m, shape, dims in (("[3]", "1", "T[3]", "0"), ("[]", "", "T[]", "0,1"), ("[4]", "0", "T[]", "0,1"),
                                  ("[3]", "1", "T[4]", "1"))
        for init in _INITS
    ),
    **dict.fromkeys(("R148b", "R148x"), tuple(
        reduce("add", f"s = T{s} parameter(0) x = T[4,3] broadcast(s), dimensions={{{m}}}", shape, dims, init)
        for s, m, shape, dims in (("[3]", "1", "T[3]", "0"), ("[]", "", "T[]", "0,1"), ("[4]", "0", "T[]", "0,1"),
                                  ("[]", "", "T[4]", "1"))
        for init in _INITS
    )),
    "N2": tuple(
        reduce(o, "y = T[2,3] parameter(0) x = T[4,3,5,2] broadcast(y), dimensions={3,1}", shape, dims)
        for o in ("add", "maximum", "and")
        for shape, dims in (("T[4,3,5]", "3"), ("T[4,5]", "1,3"), ("T[4,3,2]", "2"), ("T[3,5]", "0,3"))
    ),
    "R146": tuple(
        reduce(o, f"y = T[2,3,4] parameter(0) z = T[] constant({inner}) "
                   "x = T[2,4] reduce(y, z), dimensions={1}, to_apply=f", "T[4]", "0", f"constant({init})")
        for o in ("add", "multiply", "maximum", "and", "or")
        for inner, init in (("0", "0"), ("0", "-0"), ("-0", "0"), ("1", "0"), ("0", "1"), ("1", "1"))
    ),
    "R147": tuple(
        reduce(o, "y = T[2,3,4] parameter(0) x = T[4,2,3] transpose(y), dimensions={2,0,1}", shape, dims)
        for o in ("add", "maximum", "and")
        for shape, dims in (("T[2,3]", "0"), ("T[2]", "0,2"), ("T[4,2]", "2"), ("T[]", "0,1,2"))
    ),
    "R147b": tuple(
        reduce(o, f"y = T[{s}] parameter(0) x = T[{r}] reshape(y)", shape, dims)
        for o in ("add", "maximum", "and")
        for s, r, shape, dims in (
            ("6,4", "2,3,4", "T[4]", "0,1"), ("6,4", "2,3,4", "T[2,4]", "1"), ("6,4", "6,1,4", "T[6,1]", "2"),
            ("6,1,4", "6,4", "T[6]", "1"), ("2,3,4", "6,4", "T[4]", "0"), ("2,3,4", "2,12", "T[2]", "1"),
            ("1,3", "3", "T[]", "0"), ("1,6,4", "6,1,4", "T[1,4]", "0"),
        )
    ),
    "R149": tuple(
        reduce(o, "y = T[2,3] parameter(0) z = T[4,3] parameter(1) x = T[6,3] concatenate(y, z), dimensions={0}",
                shape, dims, init)
        for o in ("add", "multiply", "maximum", "and")
        for shape, dims in (("T[3]", "0"), ("T[6]", "1"), ("T[]", "0,1")) for init in _INITS
    ),
    "R150": tuple(
        reduce(o, f"y = T[2,3] parameter(0) v = T[] constant({v}) x = T[5,3] pad(y, v), padding=1_2x0_0",
                shape, dims, init)
        for o in ("add", "multiply", "maximum", "and") for v in (0, 1)
        for shape, dims in (("T[3]", "0"), ("T[5]", "1")) for init in (*_INITS, "constant(-0)")
    ),
    "R151x": tuple(
        reduce_window(o, "x = T[4] parameter(0)", "T[6]", "size=1 pad=1_1", i)
        for o in ("add", "maximum", "minimum", "multiply") for i in (0, 1)
    ),
    "R151": tuple(
        reduce_window(o, "x = T[4] parameter(0)", f"T[{n}]", f"size={size}", i)
        for o in ("add", "maximum") for i in (0, 1) for n, size in ((4, "1"), (3, "2"), (2, "1 stride=2"))
    ),
    "R151b": tuple(
        reduce_window(o, "x = T[0] parameter(0)", "T[2]", "size=2 pad=1_2", i)
        for o in ("add", "multiply") for i in (0, 1)
    ),
    "R152": tuple(
        reduce_window(o, "x = T[4,3] parameter(0)", f"T[{n}]", f"size={size}", i)
        for o in ("add", "maximum") for i in (0, 1) for n, size in (("1,3", "4x1"), ("1,1", "4x3"), ("3,3", "2x1"))
    ),
    "R153": tuple(
        reduce_window(o, f"y = T[4] parameter(0) v = T[] constant(0) x = T[{n}] pad(y, v), padding={p}",
                       f"T[{n - 1}]", "size=2", i)
        for o in ("add", "maximum") for i in (0, 1) for n, p in ((7, "1_2"), (3, "-1_0"), (9, "1_1_1"))
    ),
}  # fmt: skip

_BATCHED = ("x = s32[5,2,4] parameter(0) y = s32[4,5,3] parameter(1) d = s32[5,2,3] dot(x, y), lhs_batch_dims={0}, "
            "lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0} ")  # fmt: skip

_MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

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
    "N8": moves(
        _CHAIN.format("4,1", "1,4", "4,1", "4,4", 1, 0, "4,1", "d, c", 1, 0),
        _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "9,2", "d, c", 1, 0),
        _CHAIN.format("2,3,4,5", "6,7,5", "4,7", "2,3,4,6,7", 3, 2, "2,3,6", "d, c", "2,4", "0,1"),
        _CHAIN.format("2,9", "9,3", "3,9", "2,3", 1, 0, "2,9", "d, c", 1, 0),
        "a = f32[3,8,3] parameter(0) b = f32[3,3,3] parameter(1) c = f32[3,3,3] parameter(2) d = f32[3,8,3] dot(a, b), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2} "
        "ROOT r = f32[3,8,3] dot(d, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}",
    ),
    "N8b": moves(
        _CHAIN.format("4,1", "1,4", "4,1", "4,4", 1, 0, "1,4", "c, d", 0, 0),
        _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "2,9", "c, d", 0, 0),
                  _CHAIN.format("9,8", "8,9", "9,2", "9,9", 1, 0, "2,9", "c, d", 0, 1)),
    "N9": moves(
        "x = s32[7,4] parameter(0) y = s32[4,6] parameter(1) d = s32[7,6] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0} ROOT r = s32[3,2] slice(d), slice={[0:6:2],[4:6]}",
        "x = s32[2,4,3] parameter(0) y = s32[4,2,5] parameter(1) d = s32[2,3,5] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0} "
        "ROOT r = s32[1,3,2] slice(d), slice={[1:2],[0:3],[1:3]}",
    ),
    "N10": moves(
        "a = s32[9,8] parameter(0) b = s32[8,2] parameter(1) r = s32[9,8] reverse(a), dimensions={1} "
        "ROOT d = s32[9,2] dot(r, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = s32[2,3] parameter(0) b = s32[3,9] parameter(1) r = s32[2,3] reverse(a), dimensions={1} "
        "ROOT d = s32[2,9] dot(r, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "N10b": moves(
        "a = s32[2,9] parameter(0) b = s32[9,8] parameter(1) r = s32[9,8] reverse(b), dimensions={0,1} "
        "ROOT d = s32[2,8] dot(a, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = s32[2,2,9] parameter(0) b = s32[2,9,8] parameter(1) r = s32[2,9,8] reverse(b), dimensions={0,2} "
        "ROOT d = s32[2,2,8] dot(a, r), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
    ),
    **dict.fromkeys(("N11", "N11b"), moves(*(
        f"a = f32[3,2] parameter(0) b = f32[5,4] parameter(1) z = f32[] constant({z}) p = f32[6,5] pad(a, z), "
        f"padding=1_2x{inner} ROOT d = f32[{r}] dot({operands}), lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}"
        for operands, r, i, j in (("p, b", "6,4", 1, 0), ("b, p", "4,6", 0, 1)) for z, inner in ((0, "2_1"), (1, "2_1"))
    ))),
    "N12": tuple(
        f"{reducer('add')}ENTRY e {{ x = T[2,4,3] parameter(0) y = T[2,3,5] parameter(1) "
        "d = T[2,4,5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        f"rhs_contracting_dims={{1}} z = T[] constant({z}) "
        f"ROOT r = T[{shape}] reduce(d, z), dimensions={{{dims}}}, to_apply=f }}"
        for z in (0, 1) for shape, dims in (("2,5", "1"), ("2,4", "2"), ("2", "1,2"), ("4,5", "0"))
    ),
}  # fmt: skip

_DOTS: dict[str, tuple[str, ...]] = {
    "R157": moves(f"x = T[2,0] parameter(0) y = T[0,3] parameter(1) ROOT d = T[2,3] dot(x, y), {_MATRICES}"),
    "R158": moves(
        "x = T[2] parameter(0) y = T[3] parameter(1) "
        "ROOT d = T[2,3] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}",
        "x = T[2,4] parameter(0) y = T[3,4] parameter(1) ROOT d = T[4,2,3] dot(x, y), lhs_batch_dims={1}, "
        "lhs_contracting_dims={}, rhs_batch_dims={1}, rhs_contracting_dims={}",
    ),
    "R112": moves(
        f"x = s32[2,4] parameter(0) y = s32[4,3] parameter(1) d = s32[2,3] dot(x, y), {_MATRICES} "
        "ROOT t = s32[3,2] transpose(d), dimensions={1,0}",
        f"{_BATCHED} ROOT t = s32[5,3,2] transpose(d), dimensions={{0,2,1}}",
        f"{_BATCHED} ROOT t = s32[2,5,3] transpose(d), dimensions={{1,0,2}}",
    ),
    "R160": moves(
        "x = s32[2,3,4] parameter(0) y = s32[3,4,5] parameter(1) a = s32[2,4,3] transpose(x), dimensions={0,2,1} "
        "b = s32[4,3,5] transpose(y), dimensions={1,0,2} "
        "ROOT d = s32[2,5] dot(a, b), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
        "x = s32[4,2] parameter(0) y = s32[3,4] parameter(1) a = s32[2,4] transpose(x), dimensions={1,0} "
        f"b = s32[4,3] transpose(y), dimensions={{1,0}} ROOT d = s32[2,3] dot(a, b), {_MATRICES}",
    ),
    "R159": moves(*(
        f"x = s32[4] parameter(0) y = s32[4{more}] parameter(1) "
        f"ROOT d = s32[{result}] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        for more, result in (("", ""), (",2", "2"))
    )),
    "R112b": moves(
        "x = s32[2,5,4] parameter(0) y = s32[4,3] parameter(1) d = s32[2,5,3] dot(x, y), lhs_contracting_dims={2}, "
        "rhs_contracting_dims={0} ROOT t = s32[3,2,5] transpose(d), dimensions={2,0,1}",
        "x = s32[5,6,2,4] parameter(0) y = s32[5,6,4,3] parameter(1) d = s32[5,6,2,3] dot(x, y), lhs_batch_dims={0,1}, "
        "rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2} "
        "ROOT t = s32[6,5,3,2] transpose(d), dimensions={1,0,3,2}",
        "x = s32[2,5,4] parameter(0) y = s32[4,3] parameter(1) d = s32[2,5,3] dot(x, y), lhs_contracting_dims={2}, "
        "rhs_contracting_dims={0} ROOT t = s32[3,5,2] transpose(d), dimensions={2,1,0}",
    ),
    "R161b": moves(
        "x = s32[1,2] parameter(0) y = s32[2,2] parameter(1) a = s32[3,2] concatenate(x, y), dimensions={0} "
        f"c = s32[2,3] constant({{{{1,2,3}},{{4,5,6}}}}) ROOT d = s32[2,2] dot(c, a), {_MATRICES}"
    ),
    "R159y": moves(
        "x = T[3,4] parameter(0) y = T[4,3] parameter(1) ROOT d = T[3] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x = T[3,4] parameter(0) y = T[4] parameter(1) ROOT d = T[3] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
    ),
    "R161": moves(
        "x = s32[2,1] parameter(0) y = s32[2,2] parameter(1) a = s32[2,3] concatenate(x, y), dimensions={1} "
        f"c = s32[3,2] constant({{{{1,2}},{{3,4}},{{5,6}}}}) ROOT d = s32[2,2] dot(a, c), {_MATRICES}"
    ),
    **dict.fromkeys(("R162", "R162x"), moves(*(
        f"x = T[2,3] parameter(0) y = T[6,4] parameter(1) v = T[] constant({v}) a = T[2,6] pad(x, v), padding=0_0x{p} "
        f"ROOT d = T[2,4] dot(a, y), {_MATRICES}" for v in (0, 1) for p in ("1_2", "-1_4", "0_1_1")
    ))),
    **dict.fromkeys(("R162b", "R162y"), moves(*(
        f"x = T[3,2] parameter(0) y = T[4,6] parameter(1) v = T[] constant({v}) a = T[6,2] pad(x, v), padding={p}x0_0 "
        f"ROOT d = T[4,2] dot(y, a), {_MATRICES}" for v in (0, 1) for p in ("1_2", "-1_4")
    ))),
    "R163": moves("s = T[] parameter(0) y = T[3,4] parameter(1) a = T[3] broadcast(s), dimensions={} "
                   "ROOT d = T[4] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "R164": moves(
        f"x = s32[1,4] parameter(0) y = s32[4,1,3] parameter(1) ROOT d = s32[1,1,3] dot(x, y), {_MATRICES}",
        "x = s32[5,1,4] parameter(0) y = s32[4,5,3] parameter(1) ROOT d = s32[5,1,3] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
        f"x = s32[3,1] parameter(0) y = s32[1,4] parameter(1) ROOT d = s32[3,4] dot(x, y), {_MATRICES}",
        "x = s32[1,3,4] parameter(0) y = s32[1,4] parameter(1) ROOT d = s32[1,3] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    ),
    "R159x": moves(
        "x = T[3,4] parameter(0) y = T[4] parameter(1) ROOT d = T[3] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        "x = T[4,2] parameter(0) y = T[4,3,2] parameter(1) ROOT d = T[2,3] dot(x, y), lhs_batch_dims={1}, "
        "lhs_contracting_dims={0}, rhs_batch_dims={2}, rhs_contracting_dims={0}",
        "x = T[2,4] parameter(0) y = T[2,4] parameter(1) ROOT d = T[2] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
        "x = T[2,4] parameter(0) y = T[4,2] parameter(1) ROOT d = T[2] dot(x, y), lhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
    ),
    "R29": moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{d}] broadcast(s), dimensions={{}} "
        f"d = T[{d}] dot(x, y), {_MATRICES} ROOT r = T[{d}] multiply(d, b)"
        for x, y, d in (("4,2", "2,5", "4,5"), ("5,2", "2,4", "5,4"), ("2,9", "9,2", "2,2"))
    )),
    "R29b": moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{x}] broadcast(s), dimensions={{}} "
        f"a = T[{x}] multiply(x, b) ROOT d = T[{d}] dot(a, y), {_MATRICES}"
        for x, y, d in (("4,6", "6,2", "4,2"), ("9,2", "2,1", "9,1"), ("2,2", "2,9", "2,9"))
    )),
    "R29c": moves(*(
        f"x = T[{x}] parameter(0) y = T[{y}] parameter(1) s = T[] parameter(2) b = T[{y}] broadcast(s), dimensions={{}} "
        f"a = T[{y}] multiply(y, b) ROOT d = T[{d}] dot(x, a), {_MATRICES}"
        for x, y, d in (("2,6", "6,4", "2,4"), ("1,2", "2,9", "1,9"), ("9,2", "2,2", "9,2"))
    )),
}  # fmt: skip

_IMAGES = "dim_labels=b01f_01io->b01f"

_CONVOLUTIONS: dict[str, tuple[str, ...]] = {
    "R157b": moves("x = f32[1,5,5,0] parameter(0) w = f32[3,3,0,4] parameter(1) "
                    f"ROOT c = f32[1,3,3,4] convolution(x, w), window={{size=3x3}}, {_IMAGES}"),
    "R154": moves(*(
        f"x = f32[1,5,5,2] parameter(0) w = f32[3,3,2,4] parameter(1) z = f32[] constant({z}) "
        f"p = f32[1,{n},6,2] pad(x, z), padding=0_0x{pad}x1_0x0_0 "
        f"ROOT c = f32[1,{n - 2},4,4] convolution(p, w), window={{size=3x3}}, {_IMAGES}"
        for z in (0, 1) for n, pad in ((7, "1_1"), (10, "1_0_1"), (4, "-1_0"))
    )),
    "R154b": moves(*(
        f"x = f32[1,7,5,2] parameter(0) w = f32[2,3,2,4] parameter(1) z = f32[] constant({z}) "
        f"p = f32[3,3,2,4] pad(w, z), padding={pad}x0_0x0_0x0_0 "
        f"ROOT c = f32[1,5,3,4] convolution(x, p), window={{size=3x3}}, {_IMAGES}"
        for z in (0, 1) for pad in ("0_0_1", "0_1")
    )),
    "R155": moves(
        "x = f32[2,5,3,2] parameter(0) w = f32[1,1,2,4] parameter(1) "
        f"ROOT c = f32[2,5,3,4] convolution(x, w), window={{size=1x1}}, {_IMAGES}",
        "x = f32[2,3,5] parameter(0) w = f32[4,2,1] parameter(1) "
        "ROOT c = f32[3,4,5] convolution(x, w), window={size=1}, dim_labels=fb0_oi0->bf0",
        "x = f32[2,5,3,2] parameter(0) w = f32[1,1,2,4] parameter(1) "
        f"ROOT c = f32[2,3,2,4] convolution(x, w), window={{size=1x1 stride=2x2}}, {_IMAGES}",
    ),
    "R156": moves(
        f"x = f32[1,3,2,2] parameter(0) w = f32[4,3,2,3] parameter(1) ROOT c = f32[1,3,2,3] convolution(x, w), "
        f"window={{size=4x3 pad=2_1x1_1}}, {_IMAGES}",
        f"x = f32[2,2,3,2] parameter(0) w = f32[4,3,2,3] parameter(1) ROOT c = f32[2,2,2,3] convolution(x, w), "
        f"window={{size=4x3 stride=2x1 pad=3_2x1_0 lhs_dilate=2x1 rhs_dilate=1x1 rhs_reversal=1x0}}, {_IMAGES}",
        "x = f32[3,2,4] parameter(0) w = f32[2,3,5] parameter(1) ROOT c = f32[3,2,4] convolution(x, w), "
        "window={size=5 pad=4_4 rhs_dilate=2}, dim_labels=fb0_oi0->fb0",
        f"x = f32[1,5,5,2] parameter(0) w = f32[3,3,2,3] parameter(1) ROOT c = f32[1,3,3,3] convolution(x, w), "
        f"window={{size=3x3}}, {_IMAGES}",
    ),
    "N42": moves(*(
        "x = f32[1,4,4,1] parameter(0) w = f32[2,2,1,2] constant({{{{1.1,1.2}},{{2.1,2.2}}},{{{3.1,3.2}},{{4.1,4.2}}}}) "
        f"c = f32[1,3,3,2] convolution(x, w), window={{size=2x2}}, {_IMAGES} k = {k} ROOT r = f32[1,3,3,2] multiply(c, b)"
        for k in (
            "f32[2] constant({3.3, 1.1}) b = f32[1,3,3,2] broadcast(k), dimensions={3}",
            "f32[] constant(3.3) b = f32[1,3,3,2] broadcast(k), dimensions={}",
            "f32[3] constant({3.3, 1.1, 2}) b = f32[1,3,3,2] broadcast(k), dimensions={2}",
        )
    )),
    "N42b": moves(*(
        "x = f32[1,4,4,1] parameter(0) w = f32[2,2,1,2] constant({{{{1.1,1.2}},{{2.1,2.2}}},{{{3.1,3.2}},{{4.1,4.2}}}}) "
        f"c = f32[1,3,3,2] convolution(x, w), window={{size=2x2}}, {_IMAGES} v = f32[1,3,3,2] parameter(1) "
        f"k = f32[{n}] constant({{{k}}}) b = f32[1,3,3,2] broadcast(k), dimensions={{{d}}} "
        "a = f32[1,3,3,2] add(c, v) ROOT r = f32[1,3,3,2] multiply(a, b)"
        for n, k, d in ((2, "3.3, 1.1", 3), (3, "3.3, 1.1, 2", 2))
    )),
}  # fmt: skip

_DOT_ORDER: dict[str, tuple[str, ...]] = {
    "N16": moves(*(
        f"x = s32[2,3,4,5] parameter(0) y = s32[2,3,6,4] parameter(1) t = s32[{x}] transpose(x), dimensions={{{p}}} "
        f"u = s32[{y}] transpose(y), dimensions={{{p}}} ROOT d = s32[{r}] dot(t, u), lhs_batch_dims={{0,1}}, "
        f"lhs_contracting_dims={{{a}}}, rhs_batch_dims={{0,1}}, rhs_contracting_dims={{{b}}}"
        for x, y, p, r, a, b in (
            ("3,2,5,4", "3,2,4,6", "1,0,3,2", "3,2,5,6", 3, 2), ("2,3,5,4", "2,3,4,6", "0,1,3,2", "2,3,5,6", 3, 2),
            ("3,2,4,5", "3,2,6,4", "1,0,2,3", "3,2,5,6", 2, 3),
        )
    )),
    "N17": moves(*(
        f"x = s32[{x}] parameter(0) t = s32[{t}] transpose(x), dimensions={{{p}}} r = s32[{r}] reshape(t) "
        f"c = s32[6,2] constant({{{{1,2}},{{3,4}},{{5,6}},{{7,8}},{{9,1}},{{2,3}}}}) "
        f"ROOT d = s32[{r.replace('6', '').strip(',')},2] dot(r, c), lhs_contracting_dims={{{k}}}, "
        "rhs_contracting_dims={0}"
        for x, t, p, r, k in (
            ("5,2,3", "5,3,2", "0,2,1", "5,6", 1), ("2,3,5", "3,2,5", "1,0,2", "6,5", 0),
            ("5,2,1,3", "5,3,1,2", "0,3,2,1", "5,6", 1), ("2,5,3", "5,3,2", "1,2,0", "5,6", 1),
        )
    )),
    "N17b": moves(
        "x = s32[2,3,5] parameter(0) t = s32[3,2,5] transpose(x), dimensions={1,0,2} r = s32[6,5] reshape(t) "
        "c = s32[1,6] constant({{1,2,3,4,5,6}}) ROOT d = s32[1,5] dot(c, r), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
    ),
    "N18": tuple(
        reduce("add", "y = T[4,3,2,5] parameter(0) z = T[4,3,6,5] parameter(1) x = T[4,3,2,6] dot(y, z), "
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
            reduce(opcode, f"{y} x = T[2,3] negate(y)", "T[2]", "1")
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

_VARIADIC["N81"] = tuple(
    f"{_SEVERAL} ENTRY e {{ x = T[2,1] parameter(0) y = T[2,{rows - 1}] parameter(1) i = T[] constant(1) "
    f"j = s32[] constant(2) s = T[2,{rows}] concatenate(x, y), dimensions={{1}} {numbers.format(rows=rows)} "
    "ROOT r = (T[2], s32[2]) reduce(s, n, i, j), dimensions={1}, to_apply=f }"
    for rows, numbers in (
        (2, "n = s32[2,{rows}] iota(), iota_dimension=1"),
        (2, "l = s32[{rows}] iota(), iota_dimension=0 n = s32[2,{rows}] broadcast(l), dimensions={{1}}"),
        (2, "l = s32[{rows}] constant({{7, 5}}) n = s32[2,{rows}] broadcast(l), dimensions={{1}}"),
        (2, "l = s32[2] iota(), iota_dimension=0 n = s32[2,{rows}] broadcast(l), dimensions={{0}}"),
        (3, "n = s32[2,{rows}] iota(), iota_dimension=1"),
    )
)

_NUMBERED = (
    "f {{ a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3) "
    "m = pred[] compare(a, c), direction={} n = pred[] compare(a, a), direction=NE w = pred[] or(m, n) "
    "e = pred[] compare(a, c), direction=EQ l = pred[] compare(b, d), direction=LT t = pred[] and(e, l) "
    "o = pred[] or(w, t) x = f32[] select(w, a, c) y = s32[] select(o, b, d) ROOT r = (f32[], s32[]) tuple(x, y) }} "
)
_FOUND = "z = s32[] constant(0) a = (f32[2], s32[2]) reduce(x, n, i, z), dimensions={1}, to_apply=f "

_VARIADIC["N92"] = tuple(
    f"{_NUMBERED.format(direction)} ENTRY e {{ c = f32[] constant(3) x = f32[2,4] broadcast(c), dimensions={{}} "
    f"n = s32[2,4] iota(), iota_dimension={along} i = f32[] constant({init}) {_FOUND} "
    "ROOT g = s32[2] get-tuple-element(a), index=1 }"
    for direction, init in (("GT", "-inf"), ("LT", "inf"), ("GT", "0"))
    for along in (0, 1)
)

_VARIADIC["N93"] = tuple(
    f"g {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] {opcode}(a, b) }} "
    f"{_NUMBERED.format('GT')} ENTRY e {{ x = f32[2,4] {x} n = s32[2,4] iota(), iota_dimension=1 "
    f"i = f32[] constant({init}) {_FOUND} m = f32[2] reduce(x, i), dimensions={{1}}, to_apply=g "
    "k = s32[2] get-tuple-element(a), index=1 ROOT t = (f32[2], s32[2]) tuple(m, k) }"
    for opcode, init, x in (
        ("maximum", "-inf", "parameter(0)"),
        ("maximum", "-inf", "constant({{0,-0,-1,-0},{-0,0,-1,-0}})"),
        ("minimum", "inf", "parameter(0)"),
        ("add", "-inf", "parameter(0)"),
    )
)

REDUCTIONS: Mapping[str, tuple[str, ...]] = {
    **_REDUCTIONS, **_WINDOWS_OF_NOTHING, **_REORDERED, **_DOTS, **_CONVOLUTIONS, **_DOT_ORDER, **_VARIADIC,
}  # fmt: skip
