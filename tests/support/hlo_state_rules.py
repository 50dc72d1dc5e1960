"""Random control flow over tuples: loops that carry several arrays, conditionals whose branches share them.

`step` writes one cheap instruction into a computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.hlo_generator import Generator, Value, names
from xjit.hlo.types.primitive_type import PrimitiveType as P

Step = Callable[[Generator], Value]


def loop(step: Step, g: Generator) -> Value:
    """A loop of zero to four rounds over two to five arrays, each of which becomes any that fits, or stays."""
    values = [g.operand() for _ in range(g.rng.randint(2, 5))]
    if g.rng.random() < 0.3:
        values.append(values[0])
    counter = g.emit("constant", P.S32, (), "0")
    shape = _tuple_shape([counter, *values])
    test = g.subcomputation()
    (count, *_) = _enter(test, shape, [counter, *values])
    limit = test.emit("constant", P.S32, (), str(g.rng.randint(0, 4)))
    holds = test.emit("compare", P.PRED, (), names(count, limit), "direction=LT")
    body = g.subcomputation()
    (count, *elements) = _enter(body, shape, [counter, *values])
    one = body.emit("constant", P.S32, (), "1")
    following = body.emit("add", P.S32, (), names(count, one))
    for _ in range(g.rng.randint(0, 4)):
        step(body)
    root = body.write("tuple", shape, names(following, *[_next(body, e, elements) for e in elements]))
    state = g.write("tuple", shape, names(counter, *values))
    attributes = f"condition={test.finish(holds.name)}, body={body.finish(root)}"
    return _leave(g, g.write("while", shape, state, attributes), values, 1)


def conditional(step: Step, g: Generator) -> Value:
    """A conditional of two or three branches that all take one tuple, and return one like it."""
    values = [g.operand() for _ in range(g.rng.randint(1, 3))]
    shape = _tuple_shape(values)
    given = g.write("tuple", shape, names(*values))
    branches: list[str] = []
    for _ in range(g.rng.randint(2, 3)):
        branch = g.subcomputation()
        elements = _enter(branch, shape, values)
        for _ in range(g.rng.randint(0, 3)):
            step(branch)
        root = branch.write("tuple", shape, names(*[_next(branch, e, elements) for e in elements]))
        branches.append(branch.finish(root))
    selector = g.operand(P.S32, (), exact=True)
    operands = ", ".join([selector.name, *[given] * len(branches)])
    result = g.write("conditional", shape, operands, f"branch_computations={{{', '.join(branches)}}}")
    return _leave(g, result, values, 0)


def _tuple_shape(values: Sequence[Value]) -> str:
    return "(" + ", ".join(_shape(value) for value in values) + ")"


def _shape(value: Value) -> str:
    return f"{value.kind.text}[{','.join(map(str, value.dims))}]"


def _enter(inner: Generator, shape: str, values: Sequence[Value]) -> list[Value]:
    """Writes the parameter and its elements, which later instructions may read."""
    state = inner.write("parameter", shape, "0")
    elements: list[Value] = []
    for number, value in enumerate(values):
        name = inner.write("get-tuple-element", _shape(value), state, f"index={number}")
        elements.append(Value(name, value.kind, value.dims, number == 0 and value.kind is P.S32 and not value.dims))
    inner.pool.extend(elements)
    return elements


def _next(inner: Generator, element: Value, elements: Sequence[Value]) -> Value:
    """Returns what an element becomes: itself, another of its shape, or what was computed, made to fit."""
    chance = inner.rng.random()
    if chance < 0.3:
        return element
    alike = [e for e in elements if (e.kind, e.dims) == (element.kind, element.dims)]
    if chance < 0.6:
        return inner.rng.choice(alike)
    return inner.resized(inner.rng.choice([v for v in inner.pool if v.kind is element.kind]), element.dims)


def _leave(g: Generator, result: str, values: Sequence[Value], first: int) -> Value:
    """Reads one or two of the elements of a result from `first` on, and returns the last of them."""
    chosen = g.rng.sample(range(len(values)), g.rng.randint(1, min(2, len(values))))
    read = [
        g.emit("get-tuple-element", values[n].kind, values[n].dims, result, f"index={first + n}", exact=False)
        for n in chosen
    ]
    return read[-1]
