"""Instances of the left sides of the simplifier's rules, near misses among them, by the rules' ids."""

from __future__ import annotations

from collections.abc import Mapping

_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")

_SQUARED = "ENTRY e {{ x = T[4] parameter(0) y = T[4] abs(x) s = T[4] {}(y) ROOT r = T[4] multiply(s, s) }}"

INSTANCES: Mapping[str, tuple[str, ...]] = {
    # sums
    "R1": ("add(x, c)", "add(c, x)"),
    "R1f": ("add(x, c)", "add(c, x)"),
    "R1x": ("add(x, c)",),
    "R2": ("subtract(x, c)",),
    "R2r": ("subtract(x, c)",),
    "R3": ("add(c, x)", "add(x, c)"),
    "R4": ("subtract(x, c)",),
    "R5": ("subtract(x, x)", "subtract(x, y)"),
    "R5x": ("subtract(x, x)",),
    "R6": ("add(add(x, c), d)", "add(c, add(d, x))"),
    "R6x": ("add(add(x, c), d)",),
    "R7,R9": ("add(x, negate(y))", "add(negate(y), x)"),
    "R8": ("subtract(x, negate(y))",),
    "R10": ("negate(negate(x))",),
    "R11": ("negate(subtract(x, y))",),
    "R11r": ("negate(subtract(x, y))",),
    "R12,R13": (
        "add(multiply(x, z), multiply(y, z))",
        "add(multiply(z, x), multiply(y, z))",
        "add(multiply(x, c), multiply(x, d))",
        "add(multiply(x, c), multiply(y, c))",
    ),
    "R12x": ("add(multiply(x, c), multiply(y, c))",),
    "R13r": ("add(multiply(x, c), multiply(y, c))",),
    "R14": ("subtract(add(x, y), y)", "subtract(add(y, x), y)"),
    "R14r": ("subtract(add(x, y), y)",),
    "R15": ("add(x, x)",),
    "R16": ("add(c, subtract(d, x))", "add(subtract(d, x), c)"),
    "R16r": ("add(c, subtract(d, x))",),
    "N34": ("add(subtract(x, y), y)", "add(y, subtract(x, y))", "add(subtract(y, x), y)"),
    "N34r": ("add(subtract(x, y), y)",),
    "N35": ("subtract(x, add(x, y))", "subtract(x, add(y, x))", "subtract(y, add(x, z))"),
    "N35r": ("subtract(x, add(x, y))",),
    "N59": ("subtract(x, subtract(x, y))", "subtract(y, subtract(x, y))"),
    "N59r": ("subtract(x, subtract(x, y))",),
    **dict.fromkeys(("N85", "N85x"), tuple(
        f"ENTRY e {{ x = T[2] parameter(0) c = T[2] constant({{1,0}}) d = T[2] constant({{1,1}}) "
        f"a = T[2] {inner}(x, c) ROOT r = T[2] {outer}(a, d) }}"
        for inner in ("add", "multiply") for outer in ("add", "multiply")
    )),
    "N86": tuple(
        f"ENTRY e {{ x = T[2,3] parameter(0) c = T[{n}] constant({c}) {wide} ROOT r = T[2,3] subtract({operands}) }}"
        for n, c, wide in (("2", "{1,0}", "b = T[2,3] broadcast(c), dimensions={0}"),
                           ("2,3", "{{1,0,1},{1,1,0}}", ""))
        for operands in (("x, b", "b, x") if n == "2" else ("x, c", "c, x"))
    ),
    "N87": tuple(
        f"ENTRY e {{ x = T[{n}] parameter(0) c = T[2] constant({{1,3}}) {repeated} ROOT r = T[{n}] divide({operands}) }}"
        for n, repeated, operands in (
            ("2,3", "b = T[2,3] broadcast(c), dimensions={0}", "x, b"), ("2", "", "x, c"),
            ("2,3", "b = T[2,3] broadcast(c), dimensions={0}", "b, x"),
        )
    ),
    # products
    **dict.fromkeys(("N67", "N67x"), tuple(
        f"ENTRY e {{ x = T[3,4] parameter(0) y = T[4] parameter(1) c = T[] constant({c}) k = T[3,4] broadcast(c), "
        "dimensions={} m = T[3,4] multiply(x, k) b = T[3,4] broadcast(y), dimensions={1} ROOT r = T[3,4] multiply(m, b) }"
        for c in (3, 7)
    )),
    "N68": tuple(
        "ENTRY e { p = pred[2,40] parameter(0) y = T[40] parameter(1) x = T[2,40] convert(p) "
        f"b = T[2,40] broadcast(y), dimensions={{1}} ROOT r = T[2,40] divide({operands}) }}"
        for operands in ("x, b", "b, x")
    ),
    "N68b": (
        "ENTRY e { x = T[3,4] parameter(0) y = T[4] parameter(1) b = T[3,4] broadcast(y), dimensions={1} "
        "ROOT r = T[3,4] divide(x, b) }",
    ),
    "N36": ("multiply(multiply(x, c), multiply(y, 3))",),
    "N36x": ("multiply(multiply(x, 5), multiply(y, 3))",),
    "R18": ("multiply(x, c)",),
    "R18c": ("multiply(x, c)",),
    "R19": ("multiply(x, c)",),
    "R19r": ("multiply(x, c)",),
    "R20": ("multiply(x, c)",),
    "R21": ("multiply(c, x)",),
    "R22": ("multiply(multiply(x, c), d)",),
    "R22x": ("multiply(multiply(x, c), d)",),
    "R23": ("multiply(negate(x), negate(y))",),
    "R24": ("multiply(abs(x), abs(x))",),
    "R25": (_SQUARED.format("sqrt"), "multiply(sqrt(x), sqrt(x))"),
    "R25r": ("multiply(sqrt(x), sqrt(x))",),
    "R26": ("multiply(exponential(x), exponential(y))",),
    "R27": (_SQUARED.format("rsqrt"), "multiply(rsqrt(x), rsqrt(x))"),
    "R27r": ("multiply(rsqrt(x), rsqrt(x))",),
    "R28": ("multiply(convert<T>(p), x)", "multiply(x, convert<T>(p))"),
    "R28r": ("multiply(convert<T>(p), x)",),
    "R47": ("multiply(x, c)",),
    # quotients
    "R30": ("divide(x, c)",),
    "R30c": ("divide(x, c)",),
    "R31": ("divide(x, c)",),
    "R32": ("divide(x, c)",),
    "R33": ("divide(x, c)",),
    "R34": ("divide(x, x)",),
    "R35": ("divide(divide(x, c), d)",),
    "N80": ("divide(divide(x, y), divide(z, 3))",),
    "R35x": ("divide(divide(x, y), z)",),
    "R36": ("divide(x, divide(y, z))",),
    "R37": ("divide(x, exponential(y))",),
    "R38": ("divide(x, rsqrt(y))",),
    "R39": ("divide(x, sqrt(y))",),
    "R40": ("divide(x, power(y, z))",),
    "R41": ("divide(x, c)",),
    "R41s": ("divide(x, c)",),
    "R42": ("remainder(x, c)",),
    "R43": ("remainder(x, c)",),
    "R43s": ("remainder(x, c)",),
    "R44": ("remainder(remainder(x, y), y)", "remainder(remainder(x, c), c)"),
    "R45": ("remainder(iota(), c)", "remainder(and(x, 7), c)"),
    "R46": ("remainder(add(iota(), c), d)", "remainder(add(and(x, 7), c), d)"),
    # powers
    "R48": ("power(x, c)",),
    "R49": ("power(x, c)",),
    "R50": ("power(x, c)",),
    **{f"{rule}c": (f"power(x, {exponent})",) for rule, exponent in (("R49", 1), ("R50", 2), ("R51", 3), ("R52", -1))},
    "R50i": ("power(x, c)",),
    "R51": ("power(x, c)",),
    "R51i": ("power(x, c)",),
    "R52": ("power(x, c)",),
    "R53": ("power(abs(x), c)", "power(exponential(x), c)", "power(multiply(x, x), c)", "power(sqrt(x), c)"),
    "R54": ("power(abs(x), c)", "power(exponential(x), c)", "power(convert<T>(p), c)"),
    "R53r": ("power(x, c)",),
    "R54r": ("power(x, c)",),
    "R55": ("power(exponential(x), y)",),
    "R56": ("power(power(abs(x), y), z)",),
    "R57": ("log(exponential(x))",),
    "R58": ("log(power(abs(x), y))",),
    "R58x": ("log(power(x, y))",),
    "R59": ("log(sqrt(x))",),
    "R59b": ("log(rsqrt(x))",),
    "N3": ("exponential(c)",),
    "R60": ("exponential(log(x))",),
    "R61": ("sqrt(multiply(x, x))",),
    "R62": ("sqrt(divide(1, x))",),
    "R62b": ("rsqrt(divide(1, x))",),
    "R63": ("rsqrt(power(x, -2))",),
    "R64": ("add(exponential(x), -1)",),
    "R64b": ("log(add(x, 1))",),
    # extrema
    "N82": ("maximum(clamp(c, x, d), c)", "maximum(c, clamp(c, x, d))", "maximum(clamp(c, x, d), d)"),
    "R69": ("maximum(x, x)", "minimum(x, x)"),
    "R70": ("maximum(maximum(x, y), y)", "maximum(y, maximum(x, y))", "maximum(x, maximum(x, y))", "maximum(maximum(x, y), z)"),
    "R70b": ("minimum(minimum(x, y), y)", "minimum(y, minimum(x, y))", "minimum(x, minimum(x, y))", "minimum(minimum(x, y), z)"),
    "R71,R73": ("maximum(x, c)",),
    "R71b": ("minimum(x, c)",),
    "R71f": ("maximum(x, c)",),
    "R71g": ("minimum(x, c)",),
    "R72": ("maximum(x, c)",),
    "R72b,R73b": ("minimum(x, c)",),
    "N4": ("maximum(cbrt(x), cbrt(y))", "minimum(exponential(x), exponential(y))", "maximum(tanh(x), tanh(y))",
           "maximum(logistic(x), logistic(y))", "minimum(erf(x), erf(y))",
           "minimum(exponential-minus-one(x), exponential-minus-one(y))", "maximum(tanh(x), erf(y))"),
    "R74": ("maximum(minimum(x, c), d)",),
    "R74b": ("minimum(maximum(x, c), d)",),
    "R75": (
        "clamp(c, clamp(d, x, 100), 7)",
        "clamp(-1, clamp(c, x, d), 3)",
        "clamp(c, clamp(0, x, d), 3)",
        "clamp(0, clamp(c, x, 2), d)",
    ),
    "N37": ("clamp(x, clamp(x, y, z), z)", "clamp(x, clamp(z, y, x), z)"),
    "R76": ("clamp(c, iota(), d)", "clamp(c, and(x, 7), d)", "clamp(c, clamp(0, x, 5), d)", "clamp(c, x, d)"),
    # rounding
    "R65": ("abs(abs(x))", "abs(exponential(x))", "abs(multiply(x, x))", "abs(iota())", "abs(c)",
            "abs(convert<T>(p))", "abs(convert<U>(convert<u8>(x)))", "abs(sqrt(x))", "abs(and(x, c))"),
    "R65x": ("abs(sqrt(x))", "abs(maximum(x, 0))", "abs(minimum(sqrt(x), 2))", "abs(select(p, sqrt(x), 1))",
             "abs(power(x, 2))", "abs(x)"),
    "R66": ("abs(negate(x))",),
    "R67": ("floor(convert<U>(x))", "ceil(convert<U>(x))", "round-nearest-afz(convert<U>(x))",
            "round-nearest-even(convert<U>(x))"),
    "R67b": ("floor(floor(x))", "ceil(round-nearest-even(x))", "round-nearest-afz(ceil(x))"),
    "R68": ("sign(sign(x))",),
    "R77": ("is-finite(convert<U>(x))",),
    # bounds of comparisons
    "N19": ("compare<GT>(x, c)", "compare<LE>(and(x, 7), 0)", "compare<LT>(x, 0)"),
    "N20": ("compare<EQ>(select(p, c, 2), c)", "compare<LT>(select(p, 1, c), 2)", "compare<GE>(select(p, x, 3), 1)"),
    "N21": ("and(compare<LT>(x, c), compare<LE>(x, 2))", "or(compare<LT>(x, c), compare<GE>(x, 1))",
            "and(compare<EQ>(x, 1), compare<GT>(x, c))", "or(compare<NE>(x, 1), compare<LT>(x, 2))",
            "and(compare<LT>(x, 1), compare<LT>(y, 2))"),
    "N22": tuple(f"compare<{d}>(maximum({a}), x)" for d in ("GT", "LT", "GE") for a in ("x, y", "y, x")),
    "N22b": tuple(f"compare<{d}>(x, maximum({a}))" for d in ("GT", "LT", "LE") for a in ("x, y", "y, x")),
    "N22c": tuple(f"compare<{d}>(minimum({a}), x)" for d in ("GT", "LT", "LE") for a in ("x, y", "y, x")),
    "N22d": tuple(f"compare<{d}>(x, minimum({a}))" for d in ("GT", "LT", "GE") for a in ("x, y", "y, x")),
    "N30": tuple(f"select(compare<{d}>(x, y), x, y)" for d in ("EQ", "GT", "GE", "LT", "LE")),
    # conversions
    "R78": ("convert<T>(x)", "convert<U>(x)", "copy(x)"),
    "R79,R80": ("convert<V>(convert<U>(x))",),
    "R81": ("bitcast-convert<V>(bitcast-convert<U>(x))",
            "ENTRY e { x = T[4] parameter(0) a = u8[4,4] bitcast-convert(x) ROOT b = s32[4] bitcast-convert(a) }",
            "ENTRY e { x = T[4] parameter(0) a = u32[4] bitcast-convert(x) ROOT b = s8[4,4] bitcast-convert(a) }"),
    "R81b": ("bitcast-convert<T>(x)", "bitcast-convert<U>(x)"),
    "R82": ("reduce-precision<8_23>(x)", "reduce-precision<8_7>(x)", "reduce-precision<5_10>(x)",
            "reduce-precision<5_2>(x)"),
    "R82b": ("reduce-precision<5_10>(reduce-precision<5_10>(x))", "reduce-precision<4_3>(reduce-precision<4_3>(x))",
             "reduce-precision<5_10>(reduce-precision<4_3>(x))"),
    "R83": ("real(complex(x, y))",),
    "R83b": ("imag(complex(x, y))",),
    "R83c": ("complex(real(x), imag(x))", "complex(imag(x), real(x))"),
    "R83d": ("real(x)",),
    "R83e": ("imag(x)",),
    "N60": tuple(
        f"convert<T>({op}(convert<U>(x), convert<U>(y)))" for op in ("add", "subtract", "multiply", "divide", "remainder")
    ),
    "R84": (
        "ENTRY e { x = T[3] parameter(0) b = T[3,2] broadcast(x), dimensions={0} ROOT c = f32[3,2] convert(b) }",
        "ENTRY e { x = T[3] parameter(0) b = T[2,3] broadcast(x), dimensions={1} ROOT c = s8[2,3] convert(b) }",
    ),
    # comparisons
    "R85": tuple(f"compare<{d}>(x, x)" for d in ("EQ", "NE", "LT", "LE", "GT", "GE"))
    + tuple(f"compare<{d}_TOTALORDER>(x, x)" for d in ("EQ", "NE", "LT", "LE", "GT", "GE")),
    "R86,R89": tuple(
        f"compare<{direction}>({operand}, c)"
        for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")
        for operand in ("x", "iota()", "and(x, 7)")
    ),
    "N69": ("compare<LT>(abs(x), c)", "compare<LT>(exponential(x), c)", "compare<LT_TOTALORDER>(abs(x), c)"),
    "N69x": ("compare<GE>(abs(x), c)",),
    "R87": ("compare<NE>(convert<T>(p), c)", "compare<EQ>(convert<T>(p), c)"),
    "R87b": ("compare<NE>(convert<T>(p), c)", "compare<EQ>(convert<T>(p), c)"),
    "R87c": ("compare<NE>(x, c)", "compare<EQ>(x, c)"),
    "R87d": ("compare<NE>(x, c)", "compare<EQ>(x, c)"),
    "R88": tuple(f"compare<{d}>(c, x)" for d in ("EQ", "LT", "GE", "LT_TOTALORDER")),
    "R90": tuple(f"compare<{d}>(add(x, c), d)" for d in ("EQ", "NE", "LT", "GE"))
    + tuple(f"compare<{d}>(add(and(x, 7), c), d)" for d in ("LT", "LE", "GT", "GE")),
    "R91": tuple(f"not(compare<{d}>(x, y))" for d in ("EQ", "NE", "LT", "LE", "GT", "GE"))
    + tuple(f"not(compare<{d}_TOTALORDER>(x, y))" for d in ("LT", "LE", "GT", "GE")),
    # selects
    "R92": ("select(true, x, y)", "select(false, x, y)"),
    "R92b": ("select(true, x, y)", "select(false, x, y)"),
    "R93": ("select(p, x, x)",),
    "R94": ("select(not(p), x, y)",),
    "R95": ("select(p, true, false)", "select(p, false, true)", "select(p, x, false)"),
    "R95b": ("select(p, true, false)", "select(p, false, true)"),
    "R95c": ("select(p, c, 0)", "select(p, 1, c)"),
    "R96": ("select(p, select(p, x, y), z)", "select(p, select(q, x, y), z)"),
    "R96b": ("select(p, x, select(p, y, z))", "select(p, x, select(q, y, z))"),
    "R97": ("select(compare<EQ>(x, y), x, y)", "select(compare<NE>(x, y), x, y)"),
    "R97r": ("select(compare<EQ>(x, y), x, y)", "select(compare<NE>(x, y), x, y)"),
    "R98": tuple(f"select(compare<{d}>(x, y), x, y)" for d in ("EQ", "NE", "LT", "LE", "GT", "GE")),
    "R98r": tuple(f"select(compare<{d}>(x, y), x, y)" for d in ("LT", "LE", "GT", "GE")),
    # bits
    "R99a": ("and(x, c)",),
    "R99b": ("and(x, c)",),
    "R99c": ("or(x, c)", "xor(x, c)"),
    "R99d": ("or(x, c)",),
    "R99e": ("xor(x, x)",),
    "N75": tuple(
        f"ENTRY e {{ x = T[4] parameter(0) y = T[4] parameter(1) a = pred[4] compare(x, y), direction=LT "
        f"b = pred[4] compare({operands}), direction={direction} ROOT r = pred[4] xor(a, b) }}"
        for operands, direction in (("x, y", "LT"), ("x, y", "GT"), ("y, x", "LT"))
    ),
    "R99f": ("and(x, x)", "or(x, x)"),
    "R99g": ("xor(x, c)",),
    "R99h": ("not(not(x))",),
    "R99i": ("and(x, not(x))", "and(not(x), x)"),
    "R99j": ("or(x, not(x))", "or(not(x), x)"),
    "R100": ("shift-left(x, c)", "shift-right-logical(x, c)", "shift-right-arithmetic(x, c)"),
    "R100b": ("shift-left(x, c)", "shift-right-logical(x, c)", "shift-right-arithmetic(x, c)"),
    "R100c": ("shift-right-arithmetic(x, c)",),
    "R101": ("shift-right-logical(shift-left(x, c), c)", "shift-right-logical(shift-left(x, c), d)"),
    # what only moves elements
    "R102": (
        "ENTRY e { x = T[2,2] parameter(0) ROOT r = T[2,2] transpose(x), dimensions={0,1} }",
        "ENTRY e { x = T[2,2] parameter(0) ROOT r = T[2,2] transpose(x), dimensions={1,0} }",
        "ENTRY e { x = T[2,2] parameter(0) ROOT r = T[2,2] broadcast(x), dimensions={0,1} }",
        "ENTRY e { x = T[2,2] parameter(0) ROOT r = T[2,2] broadcast(x), dimensions={1,0} }",
    ),
    "R103": (
        "ENTRY e { x = T[2,3] parameter(0) a = T[4,2,3] broadcast(x), dimensions={1,2} "
        "ROOT r = T[2,4,5,3] broadcast(a), dimensions={1,0,3} }",
    ),
    "R104": (
        "ENTRY e { x = T[2,3] parameter(0) ROOT r = T[2,1,3] broadcast(x), dimensions={0,2} }",
        "ENTRY e { x = T[3,2] parameter(0) ROOT r = T[2,1,3] broadcast(x), dimensions={2,0} }",
    ),
    "R106": ("ENTRY e { x = T[2,3] parameter(0) a = T[6] reshape(x) ROOT r = T[3,2] reshape(a) }",),
    "R107": ("ENTRY e { x = T[] parameter(0) a = T[6] broadcast(x), dimensions={} ROOT r = T[3,2] reshape(a) }",),
    "R109": (
        "ENTRY e { x = T[2,3,4] parameter(0) a = T[4,2,3] transpose(x), dimensions={2,0,1} "
        "ROOT r = T[2,4,3] transpose(a), dimensions={1,0,2} }",
    ),
    "R111": (
        "ENTRY e { x = T[2,1,3] parameter(0) ROOT r = T[1,2,3] transpose(x), dimensions={1,0,2} }",
        "ENTRY e { x = T[2,1,3] parameter(0) ROOT r = T[3,1,2] transpose(x), dimensions={2,1,0} }",
    ),
    "R115": (
        "ENTRY e { x = T[2,1,3] parameter(0) ROOT r = T[2,1,3] reverse(x), dimensions={1} }",
        "ENTRY e { x = T[2,1,3] parameter(0) ROOT r = T[2,1,3] reverse(x), dimensions={0,1} }",
    ),
    "R118": (
        "ENTRY e { x = T[4] parameter(0) ROOT r = T[4] slice(x), slice={[0:4]} }",
        "ENTRY e { x = T[4] parameter(0) ROOT r = T[3] slice(x), slice={[1:4]} }",
    ),
    "R133": (
        "ENTRY e { x = T[4] parameter(0) v = T[] parameter(1) ROOT r = T[4] pad(x, v), padding=0_0 }",
        "ENTRY e { x = T[4] parameter(0) v = T[] parameter(1) ROOT r = T[4] pad(x, v), padding=-1_1 }",
    ),
    "R137": (
        "ENTRY e { x = T[4] parameter(0) ROOT r = T[4] concatenate(x), dimensions={0} }",
        "ENTRY e { x = T[4] parameter(0) ROOT r = T[8] concatenate(x, x), dimensions={0} }",
    ),
}  # fmt: skip
