"""One rule per opcode: writes a random legal instruction of it. See `tests.support.hlo_generator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.support import hlo_collective_rules as co
from tests.support import hlo_contraction_rules as ct
from tests.support import hlo_movement_rules as mv
from tests.support import hlo_state_rules as st
from tests.support.hlo_generator import ALL, COMMON, COMPLEX, FLOATS, INTEGERS, WIDE, Generator, Value, names
from xjit.hlo.types.primitive_type import PrimitiveType as P

Rule = Callable[[Generator], Value]


# -- elementwise


def _elementwise(opcode: str, kinds: tuple[P, ...], arity: int, exact: bool, g: Generator) -> Value:
    kind = g.kind(*[k for k in COMMON if k in kinds] or kinds) if g.graph else g.kind(*kinds)
    operands = g.operands(arity, kind)
    exact = exact and not (kind.is_complex and opcode in ("multiply", "divide", "sign"))
    exact = exact and all(o.exact for o in operands)
    return g.emit(
        opcode, kind, operands[0].dims, names(*operands), exact=exact or not (kind.is_float or kind.is_complex)
    )


def _compare(g: Generator) -> Value:
    kind = g.kind() if g.graph else g.kind(*ALL)
    a = g.operand(kind, exact=True)
    b = g.operand(kind, a.dims, exact=True)
    direction = g.rng.choice(("EQ", "NE") if kind.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE"))
    total = ", type=TOTALORDER" if kind in WIDE and g.rng.random() < 0.3 else ""
    return g.emit("compare", P.PRED, a.dims, names(a, b), f"direction={direction}{total}")


def _select(g: Generator) -> Value:
    kind = g.kind() if g.graph else g.kind(*ALL)
    a, b = g.operands(2, kind)
    test = g.operand(P.PRED, a.dims)
    return g.emit("select", kind, a.dims, names(test, a, b), exact=a.exact and b.exact)


def _clamp(g: Generator) -> Value:
    kind = g.kind(*FLOATS, *INTEGERS) if not g.graph else g.kind(P.F32, P.S32, P.BF16)
    x = g.operand(kind)
    bounds = x.dims if g.rng.random() < 0.5 else ()
    low, high = g.operand(kind, bounds), g.operand(kind, bounds)
    return g.emit("clamp", kind, x.dims, names(low, x, high), exact=x.exact and low.exact and high.exact)


def _convert(g: Generator) -> Value:
    x = g.operand(None if g.graph else g.kind(*ALL), exact=True)
    target = g.kind() if g.graph else g.kind(*ALL)
    if x.kind.is_complex and not target.is_complex:
        target = x.kind
    return g.emit("convert", target, x.dims, x.name)


def _bitcast_convert(g: Generator) -> Value:
    x = g.operand(None if g.graph else g.kind(*ALL), exact=True)
    fits = [k for k in ALL if k.bit_width == x.kind.bit_width and k is not P.PRED and not k.is_complex]
    target = x.kind if x.kind is P.PRED or x.kind.is_complex or not fits else g.kind(*fits)
    if x.kind.is_float or (g.graph and target.is_float):  # the bits of a NaN are not defined
        target = x.kind
    return g.emit("bitcast-convert", target, x.dims, x.name)


def _complex(g: Generator) -> Value:
    kind = g.kind(P.F32, P.F64)
    a, b = g.operands(2, kind)
    return g.emit("complex", P.C64 if kind is P.F32 else P.C128, a.dims, names(a, b), exact=a.exact and b.exact)


def _part(opcode: str, g: Generator) -> Value:
    x = g.operand(g.kind(*COMPLEX))
    return g.emit(opcode, x.kind.component, x.dims, x.name, exact=x.exact)


def _is_finite(g: Generator) -> Value:
    x = g.operand(g.kind(*WIDE) if g.graph else g.kind(*FLOATS), exact=True)
    return g.emit("is-finite", P.PRED, x.dims, x.name)


def _reduce_precision(g: Generator) -> Value:
    x = g.operand(g.kind(*WIDE), exact=True)
    attributes = f"exponent_bits={g.rng.choice((4, 5, 8))}, mantissa_bits={g.rng.choice((1, 3, 7, 10))}"
    return g.emit("reduce-precision", x.kind, x.dims, x.name, attributes)


# -- control flow


def _call(g: Generator) -> Value:
    x = g.operand()
    inner, value = _function(g, x)
    return g.emit("call", value.kind, value.dims, x.name, f"to_apply={inner}", value.exact)


def _function(g: Generator, x: Value, like: Value | None = None) -> tuple[str, Value]:
    """Writes a small computation of one argument like `x`, whose result is like `like` if that is given."""
    inner = g.subcomputation()
    inner.argument(x.kind, x.dims, x.exact)
    for _ in range(g.rng.randint(1, 4)):
        random_instruction(inner, CHEAP)
    value = inner.pool[-1]
    if like is not None:
        fits = [v for v in inner.pool if v.kind is like.kind and (v.exact or not like.exact)]
        value = inner.resized(g.rng.choice(fits), like.dims) if fits else inner.parameter(like.kind, like.dims)
    return inner.finish(value.name), value


def _conditional(g: Generator) -> Value:
    x, y = g.operand(), g.operand()
    first, value = _function(g, x)
    second, other = _function(g, y, value)
    exact = value.exact and other.exact
    if g.rng.random() < 0.5:
        selector = g.operand(P.PRED, ())
        attributes = f"true_computation={first}, false_computation={second}"
    else:
        selector = g.operand(P.S32, (), exact=True)
        attributes = f"branch_computations={{{first}, {second}}}"
    return g.emit("conditional", value.kind, value.dims, names(selector, x, y), attributes, exact)


def _while(g: Generator) -> Value:
    x = g.operand()
    shape = f"{x.kind.text}[{','.join(map(str, x.dims))}]"
    tuple_shape = f"(s32[], {shape})"

    def enter(inner: Generator) -> tuple[Value, Value]:
        state = inner.write("parameter", tuple_shape, "0")
        counter = inner.emit("get-tuple-element", P.S32, (), state, "index=0")
        value = inner.write("get-tuple-element", shape, state, "index=1")
        inner.pool.append(Value(value, x.kind, x.dims, False))
        return counter, inner.pool[-1]

    test = g.subcomputation()
    counter, _ = enter(test)
    limit = test.emit("constant", P.S32, (), str(g.rng.randint(0, 4)))
    holds = test.emit("compare", P.PRED, (), names(counter, limit), "direction=LT")
    body = g.subcomputation()
    counter, _value = enter(body)
    one = body.emit("constant", P.S32, (), "1")
    following = body.emit("add", P.S32, (), names(counter, one))
    for _ in range(g.rng.randint(0, 3)):
        random_instruction(body, CHEAP)
    fits = [v for v in body.pool if v.kind is x.kind]
    result = body.resized(g.rng.choice(fits), x.dims)
    root = body.write("tuple", tuple_shape, names(following, result))
    start = g.emit("constant", P.S32, (), "0")
    state = g.write("tuple", tuple_shape, names(start, x))
    attributes = f"condition={test.finish(holds.name)}, body={body.finish(root)}"
    loop = g.write("while", tuple_shape, state, attributes)
    return g.emit("get-tuple-element", x.kind, x.dims, loop, "index=1", exact=False)


_NUMBERS = (*FLOATS, *COMPLEX, *INTEGERS)
_REAL = (*FLOATS, *INTEGERS)
_TRANSCENDENTAL = (
    *("cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt"),
    *("sine", "sqrt", "tan", "tanh"),
)
_KINDS: Mapping[str, tuple[P, ...]] = {
    **dict.fromkeys(("add", "multiply"), (*_NUMBERS, P.PRED)),
    **dict.fromkeys(("subtract", "divide"), _NUMBERS),
    **dict.fromkeys(("maximum", "minimum"), (*_REAL, P.PRED)),
    "remainder": _REAL,
    **dict.fromkeys(("and", "or", "xor"), (*INTEGERS, P.PRED)),
    **dict.fromkeys(("shift-left", "shift-right-arithmetic", "shift-right-logical"), INTEGERS),
    "power": (*WIDE, *INTEGERS),
    "atan2": WIDE,
    "not": (*INTEGERS, P.PRED),
    **dict.fromkeys(("popcnt", "count-leading-zeros"), INTEGERS),
    **dict.fromkeys(("negate", "sign"), (*FLOATS, *COMPLEX, *INTEGERS[:5])),
    "abs": (*FLOATS, *INTEGERS[:5]),
    **dict.fromkeys(("floor", "ceil", "round-nearest-afz", "round-nearest-even"), FLOATS),
    **dict.fromkeys(_TRANSCENDENTAL, WIDE),
}
_BINARY = {
    *("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "power", "atan2"),
    *("shift-left", "shift-right-arithmetic", "shift-right-logical"),
}
_INEXACT = {*_TRANSCENDENTAL, "power", "atan2"}

CHEAP = (
    *("add", "multiply", "maximum", "select", "negate", "broadcast", "transpose", "reshape", "slice", "pad"),
    *("concatenate", "reverse", "and", "abs"),
)

ELEMENTWISE: Mapping[str, Rule] = {
    opcode: partial(_elementwise, opcode, kinds, 2 if opcode in _BINARY else 1, opcode not in _INEXACT)
    for opcode, kinds in _KINDS.items()
}
RULES: Mapping[str, Rule] = {
    **ELEMENTWISE,
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "complex": _complex,
    "real": partial(_part, "real"),
    "imag": partial(_part, "imag"),
    "is-finite": _is_finite,
    "reduce-precision": _reduce_precision,
    "copy": mv.copy,
    "iota": mv.iota,
    "broadcast": mv.broadcast,
    "transpose": mv.transpose,
    "reshape": mv.reshape,
    "slice": mv.slice_,
    "reverse": mv.reverse,
    "pad": mv.pad,
    "concatenate": mv.concatenate,
    "dynamic-slice": mv.dynamic_slice,
    "dynamic-update-slice": mv.dynamic_update_slice,
    "gather": mv.gather,
    "scatter": mv.scatter,
    "reduce": ct.reduce,
    "argmax": ct.argmax,
    "reduce-window": ct.reduce_window,
    "dot": ct.dot,
    "convolution": ct.convolution,
    "map": ct.map_,
    "sort": ct.sort,
    "call": _call,
    "conditional": _conditional,
    "while": _while,
    "loop": partial(st.loop, lambda g: random_instruction(g, CHEAP)),
    "branches": partial(st.conditional, lambda g: random_instruction(g, CHEAP)),
}
"""Opcode (or the name of a combination) -> rule."""

COLLECTIVES: Mapping[str, Rule] = {
    "all-reduce": co.all_reduce,
    "all-gather": co.all_gather,
    "reduce-scatter": co.reduce_scatter,
    "all-to-all": co.all_to_all,
    "collective-permute": co.collective_permute,
    "collective-broadcast": co.collective_broadcast,
    "replica-id": co.replica_id,
    "partition-id": co.partition_id,
}
"""The same of what asks for other devices: in modules of several only."""

GRAPH = (
    *("add", "subtract", "multiply", "maximum", "minimum", "and", "xor", "negate", "abs", "tanh", "exponential"),
    *("compare", "select", "select", "clamp", "convert", "convert", "is-finite", "copy", "floor", "logistic"),
    *(("iota", "broadcast", "transpose", "reshape", "slice", "reverse", "pad", "concatenate") * 2),
    *(
        "dynamic-slice",
        "dynamic-update-slice",
        "dynamic-update-slice",
        "gather",
        "scatter",
        "reduce",
        "reduce",
        "argmax",
    ),
    *("reduce-window", "dot", "map", "sort", "call", "conditional", "while", "while"),
)

CONTROL = (
    *("loop", "loop", "loop", "branches", "branches", "while", "conditional", "call", "convolution", "dot", "sort"),
    *("gather", "scatter", "reduce", "dynamic-update-slice", "dynamic-slice", "add", "transpose", "reshape", "slice"),
    *("broadcast", "pad", "concatenate", "select", "negate"),
)
"""Mostly loops and branches over tuples, and what is dear inside and around them."""

COLLECTIVE = (
    *(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute") * 3),
    *("collective-broadcast", "replica-id", "partition-id", "all-reduce", "all-reduce"),
    *("add", "multiply", "negate", "broadcast", "convert", "reshape", "transpose", "slice", "concatenate", "reduce"),
    *("select", "loop", "call", "dot", "dynamic-slice"),
)
"""Mostly collectives, and what their operands and results go through."""


def random_instruction(g: Generator, opcodes: tuple[str, ...]) -> Value:
    """Writes an instruction of a random one of the opcodes."""
    opcode = g.rng.choice(opcodes)
    return (RULES.get(opcode) or COLLECTIVES[opcode])(g)
