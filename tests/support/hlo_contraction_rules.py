"""Rules of opcodes that combine elements: see `tests.support.hlo_rules`."""

from __future__ import annotations

from tests.support.hlo_generator import ALL, Generator, Value, names, product, text_of
from xjit.hlo.types.primitive_type import PrimitiveType as P


def reduce(g: Generator) -> Value:
    kind = g.kind() if g.graph else g.kind(*ALL)
    x = g.operand(kind)
    init = g.operand(kind, ())
    exact = x.exact and init.exact
    if kind is P.PRED:
        opcode = g.rng.choice(("and", "or"))
    elif kind.is_complex:
        opcode, exact = "add", False
    elif kind.is_float:
        opcode = g.rng.choice(("add", "maximum", "minimum"))
        exact = exact and opcode != "add"
    else:
        opcode = g.rng.choice(("add", "multiply", "maximum", "minimum"))
    which = sorted(g.rng.sample(range(len(x.dims)), g.rng.randint(0, len(x.dims))))
    dims = tuple(s for d, s in enumerate(x.dims) if d not in which)
    attributes = f"dimensions={text_of(which)}, to_apply={g.scalar_computation(kind, opcode)}"
    return g.emit("reduce", kind, dims, names(x, init), attributes, exact)


def argmax(g: Generator) -> Value:
    """A reduce of two arrays: the largest value and its index; returns the index."""
    kind = g.kind(P.F32, P.S32, P.BF16)
    x = g.operand(kind, None if g.graph else g.dims(1), exact=True)
    if not x.dims:
        x = g.resized(x, (5,))
    axis = g.rng.randrange(len(x.dims))
    places = g.emit("iota", P.S32, x.dims, "", f"iota_dimension={axis}")
    low = g.emit("constant", kind, (), "-inf" if kind.is_float else "-2147483648")
    zero = g.emit("constant", P.S32, (), "0")
    inner = g.subcomputation()
    a, i, b, j = (inner.argument(k, ()) for k in (kind, P.S32, kind, P.S32))
    total = ", type=TOTALORDER" if kind.is_float else ""
    larger = inner.emit("compare", P.PRED, (), names(a, b), f"direction=GT{total}")
    equal = inner.emit("compare", P.PRED, (), names(a, b), f"direction=EQ{total}")
    before = inner.emit("compare", P.PRED, (), names(i, j), "direction=LT")
    first = inner.emit("and", P.PRED, (), names(equal, before))
    test = inner.emit("or", P.PRED, (), names(larger, first))
    best = inner.emit("select", kind, (), names(test, a, b))
    place = inner.emit("select", P.S32, (), names(test, i, j))
    root = inner.write("tuple", f"({kind.text}[], s32[])", names(best, place))
    dims = tuple(s for d, s in enumerate(x.dims) if d != axis)
    shapes = [f"{k.text}[{','.join(map(str, dims))}]" for k in (kind, P.S32)]
    attributes = f"dimensions={{{axis}}}, to_apply={inner.finish(root)}"
    both = g.write("reduce", f"({', '.join(shapes)})", names(x, places, low, zero), attributes)
    g.emit("get-tuple-element", kind, dims, both, "index=0")
    return g.emit("get-tuple-element", P.S32, dims, both, "index=1")


def reduce_window(g: Generator) -> Value:
    kind = g.kind(P.F32, P.S32, P.BF16, P.F64)
    x = g.operand(kind, None if g.graph else g.dims(1, 4))
    if not x.dims:
        x = g.resized(x, g.dims(1, 4))
    dims: list[int] = []
    size, stride, pads, dilate = [], [], [], []
    for n in x.dims:
        k, s, w = g.rng.choice((1, 1, 2, 3, n or 1)), g.rng.choice((1, 1, 2)), g.rng.choice((1, 1, 1, 2))
        low, high = g.rng.randint(0, 2), g.rng.randint(0, 2)
        reach = (k - 1) * w + 1
        if n + low + high < reach:
            low = reach - n
        size.append(k), stride.append(s), dilate.append(w), pads.append(f"{low}_{high}")
        dims.append((n + low + high - reach) // s + 1)
    opcode = g.rng.choice(("add", "maximum", "minimum"))
    init = g.operand(kind, ())
    window = f"size={_by(size)} stride={_by(stride)} pad={'x'.join(pads)} rhs_dilate={_by(dilate)}"
    attributes = f"window={{{window}}}, to_apply={g.scalar_computation(kind, opcode)}"
    exact = x.exact and init.exact and (opcode != "add" or kind is P.S32)
    return g.emit("reduce-window", kind, tuple(dims), names(x, init), attributes, exact)


def _by(numbers: list[int]) -> str:
    return "x".join(map(str, numbers))


def dot(g: Generator) -> Value:
    kind = g.kind(P.F32, P.F32, P.F64, P.S32, P.BF16, P.F16, *(() if g.graph else (P.C64, P.S8, P.U8, P.C128)))
    batch, free_l, free_r, inner = g.dims(0, 2), g.dims(0, 2), g.dims(0, 2), g.dims(0, 2)
    while product(batch + free_l + free_r + inner) > 20_000:
        batch, free_l, free_r, inner = batch[1:], free_l[1:], free_r[1:], g.dims(0, 1)
    left_order = g.permutation(len(batch + free_l + inner))
    right_order = g.permutation(len(batch + free_r + inner))
    left, right = batch + free_l + inner, batch + free_r + inner
    lhs = g.operand(kind, tuple(left[d] for d in left_order))
    rhs = g.operand(kind, tuple(right[d] for d in right_order))
    nb, nl, nr = len(batch), len(free_l), len(free_r)
    result = batch + tuple(lhs.dims[i] for i, d in enumerate(left_order) if nb <= d < nb + nl)
    result += tuple(rhs.dims[i] for i, d in enumerate(right_order) if nb <= d < nb + nr)
    attributes = [
        f"lhs_batch_dims={text_of(left_order.index(d) for d in range(nb))}" if nb else "",
        f"lhs_contracting_dims={text_of(left_order.index(nb + nl + d) for d in range(len(inner)))}",
        f"rhs_batch_dims={text_of(right_order.index(d) for d in range(nb))}" if nb else "",
        f"rhs_contracting_dims={text_of(right_order.index(nb + nr + d) for d in range(len(inner)))}",
    ]
    joined = ", ".join(a for a in attributes if a)
    return g.emit("dot", kind, result, names(lhs, rhs), joined, kind.is_integer)


def convolution(g: Generator) -> Value:
    """One of one or two spatial dimensions, strided, dilated and padded at random, never without a result."""
    kind = g.kind(P.F32, P.F32, P.F64, P.S32)
    batch, features, groups = g.rng.randint(1, 2), g.rng.randint(1, 3), g.rng.choice((1, 1, 2))
    outputs = groups * g.rng.randint(1, 3)
    sizes = [g.rng.randint(1, 7) for _ in range(g.rng.randint(1, 2))]
    taps = [g.rng.randint(1, 3) for _ in sizes]
    strides = [g.rng.randint(1, 2) for _ in sizes]
    dilations = [g.rng.randint(1, 2) for _ in sizes]
    spans = [(t - 1) * d + 1 for t, d in zip(taps, dilations, strict=True)]
    low = [g.rng.randint(0, s) for s in spans]
    high = [max(g.rng.randint(0, 2), s - n - p) for s, n, p in zip(spans, sizes, low, strict=True)]
    padded = [n + a + b for n, a, b in zip(sizes, low, high, strict=True)]
    result = [(n - s) // stride + 1 for n, s, stride in zip(padded, spans, strides, strict=True)]
    lhs = g.operand(kind, (batch, features * groups, *sizes))
    rhs = g.operand(kind, (outputs, features, *taps))
    padding = "x".join(f"{a}_{b}" for a, b in zip(low, high, strict=True))
    window = f"window={{size={_by(taps)} stride={_by(strides)} pad={padding} rhs_dilate={_by(dilations)}}}"
    places = "01"[: len(sizes)]
    labels = f"dim_labels=bf{places}_oi{places}->bf{places}"
    attributes = f"{window}, {labels}, feature_group_count={groups}"
    dims = (batch, outputs, *result)
    return g.emit("convolution", kind, dims, names(lhs, rhs), attributes, kind.is_integer)


def map_(g: Generator) -> Value:
    kind = g.kind(P.F32, P.S32, P.BF16)
    x = g.operand(kind)
    y = g.operand(kind, x.dims)
    attributes = f"dimensions={text_of(range(len(x.dims)))}, to_apply={g.scalar_computation(kind, 'maximum')}"
    return g.emit("map", kind, x.dims, names(x, y), attributes, x.exact and y.exact)


def sort(g: Generator) -> Value:
    kind = g.kind(P.F32, P.S32, P.S64, P.U8, P.BF16)
    x = g.operand(kind, None if g.graph else g.dims(1), exact=True)
    if not x.dims:
        x = g.resized(x, (7,))
    inner = g.subcomputation()
    a, b = inner.argument(kind, ()), inner.argument(kind, ())
    total = ", type=TOTALORDER" if kind.is_float else ""
    test = inner.emit("compare", P.PRED, (), names(a, b), f"direction={g.rng.choice(('LT', 'GT'))}{total}")
    axis = g.rng.randrange(len(x.dims))
    return g.emit("sort", kind, x.dims, x.name, f"dimensions={{{axis}}}, to_apply={inner.finish(test.name)}")
