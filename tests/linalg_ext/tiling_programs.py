"""Random structured programs, as MLIR text: a seed gives a function of tensors that all have small sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from random import Random

__all__ = ["random_program"]

Shape = tuple[int, ...]
_ZERO, _LEAST = "%zero", "%least"


def _type(shape: Shape, element: str = "f64") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _map(rank: int, results: list[str]) -> str:
    return f"affine_map<({', '.join(f'd{i}' for i in range(rank))}) -> ({', '.join(results)})>"


@dataclass(frozen=True)
class _Value:
    name: str
    shape: Shape

    @property
    def typed(self) -> str:
        return f"{self.name} : {_type(self.shape)}"


class _Program:
    """Emits operations on what there is; values are f64."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.values: list[_Value] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, fits: Callable[[_Value], bool] = lambda value: True) -> _Value | None:
        found = [v for v in self.values if fits(v)]
        return self.random.choice(found[-5:] if self.random.random() < 0.7 else found) if found else None

    def add(self, name: str, shape: Shape, line: str) -> _Value:
        self.lines.append(f"  {name} = {line}")
        self.values.append(_Value(name, shape))
        return self.values[-1]

    def init(self, shape: Shape, is_read: bool, start: str = _ZERO) -> _Value:
        """What a result is written into: an empty or filled tensor, or one that is there."""
        known = self.pick(lambda v: v.shape == shape)
        if known is not None and self.random.random() < 0.3 and start == _ZERO:
            return known
        name = self.name()
        self.lines.append(f"  {name} = tensor.empty() : {_type(shape)}")
        if not is_read:
            return _Value(name, shape)
        filled = self.name()
        self.lines.append(
            f"  {filled} = linalg.fill ins({start} : f64) outs({name} : {_type(shape)}) -> {_type(shape)}"
        )
        return _Value(filled, shape)

    def structured(self, op: str, inputs: list[_Value], init: _Value, tail: str = "") -> _Value:
        names, types = ", ".join(v.name for v in inputs), ", ".join(_type(v.shape) for v in inputs)
        outs = f"outs({init.typed}){tail}"
        return self.add(self.name(), init.shape, f"linalg.{op} ins({names} : {types}) {outs} -> {_type(init.shape)}")


def _elementwise(p: _Program) -> None:
    """A generic op over a permuted or broadcast operand and another one; it may read its output and its indices."""
    first = p.pick()
    assert first is not None
    rank = len(first.shape)
    loops = list(range(rank))
    p.random.shuffle(loops)  # loop loops[i] runs along dimension i of the first operand
    sizes = dict(zip(loops, first.shape))
    second = p.pick(lambda v: 0 < len(v.shape) <= rank and _embeds(v.shape, sizes))
    maps, inputs = [[f"d{loop}" for loop in loops]], [first]
    if second is not None:
        maps.append(_embeds(second.shape, sizes) or [])
        inputs.append(second)
    reads = p.random.random() < 0.3
    init = p.init(tuple(sizes[i] for i in range(rank)), reads)
    maps.append([f"d{i}" for i in range(rank)])
    arguments = [f"%a{i}: f64" for i in range(len(inputs))] + ["%out: f64"]
    op = p.random.choice(["addf", "subf", "maximumf"])
    body = [f"%r0 = arith.{op} %a0, {'%a1' if second else '%a0'} : f64"]
    if reads:
        body.append("%r1 = arith.addf %r0, %out : f64")
    if p.random.random() < 0.2 and rank:
        body += ["%i = linalg.index 0 : index", "%j = arith.index_cast %i : index to i64"]
        body += ["%k = arith.sitofp %j : i64 to f64", f"%r2 = arith.addf {'%r1' if reads else '%r0'}, %k : f64"]
    last = body[-1].split(" =")[0]
    text = "\n    ".join(body)
    kinds = ", ".join(['"parallel"'] * rank)
    names, types = ", ".join(v.name for v in inputs), ", ".join(_type(v.shape) for v in inputs)
    p.add(
        p.name(),
        init.shape,
        f"linalg.generic {{indexing_maps = [{', '.join(_map(rank, m) for m in maps)}], iterator_types = [{kinds}]}}"
        f" ins({names} : {types}) outs({init.typed}) {{\n  ^bb0({', '.join(arguments)}):\n    {text}\n"
        f"    linalg.yield {last} : f64\n  }} -> {_type(init.shape)}",
    )


def _embeds(shape: Shape, sizes: dict[int, int]) -> list[str] | None:
    """Returns the index of each dimension as a loop of its size, 0 for sizes of one."""
    left, result = dict(sizes), list[str]()
    for n in shape:
        loop = next((k for k, size in left.items() if size == n), None)
        if loop is not None:
            del left[loop]
            result.append(f"d{loop}")
        elif n == 1:
            result.append("0")
        else:
            return None
    return result


def _matmul(p: _Program) -> None:
    left = p.pick(lambda v: len(v.shape) == 2)
    if left is None:
        return
    right = p.pick(lambda v: len(v.shape) == 2 and v.shape[0] == left.shape[1])
    if right is not None:
        p.structured("matmul", [left, right], p.init((left.shape[0], right.shape[1]), True))


def _reduce(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 1)
    if source is None:
        return
    axis = p.random.randrange(len(source.shape))
    op, start = p.random.choice([("addf", _ZERO), ("maximumf", _LEAST)])
    init = p.init(source.shape[:axis] + source.shape[axis + 1 :], True, start)
    name = p.name()
    p.add(
        name,
        init.shape,
        f"linalg.reduce {{ arith.{op} }} ins({source.typed}) outs({init.typed}) dimensions = [{axis}]",
    )


def _transpose(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 1)
    if source is None:
        return
    order = list(range(len(source.shape)))
    p.random.shuffle(order)
    init = p.init(tuple(source.shape[i] for i in order), False)
    p.add(p.name(), init.shape, f"linalg.transpose ins({source.typed}) outs({init.typed}) permutation = {order}")


def _broadcast(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) < 3)
    if source is None:
        return
    axis = p.random.randrange(len(source.shape) + 1)
    init = p.init((*source.shape[:axis], p.random.randint(1, 5), *source.shape[axis:]), False)
    p.add(p.name(), init.shape, f"linalg.broadcast ins({source.typed}) outs({init.typed}) dimensions = [{axis}]")


def _convolution(p: _Program) -> None:
    """Over the last but one dimension, with steps and holes."""
    image = p.pick(lambda v: len(v.shape) == 3 and v.shape[1] >= 3)
    if image is None:
        return
    step, hole, width = p.random.randint(1, 2), p.random.randint(1, 2), p.random.randint(1, 2)
    kernel = p.init((width, image.shape[2], p.random.randint(1, 3)), True, "%half")
    size = (image.shape[1] - (width - 1) * hole - 1) // step + 1
    init = p.init((image.shape[0], size, kernel.shape[2]), True)
    attributes = f"{{dilations = dense<{hole}> : tensor<1xi64>, strides = dense<{step}> : tensor<1xi64>}}"
    p.structured(f"conv_1d_nwc_wcf {attributes}", [image, kernel], init)


def _pad(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 0)
    if source is None:
        return
    low, high = ([p.random.choice([0, 0, 1, 3]) for _ in source.shape] for _ in range(2))
    shape = tuple(a + n + b for a, n, b in zip(low, source.shape, high))
    arguments = ", ".join(f"%i{i}: index" for i in range(len(shape)))
    p.add(
        p.name(),
        shape,
        f"tensor.pad {source.name} low{low} high{high} {{\n  ^bb0({arguments}):\n    tensor.yield %half : f64\n  }}"
        f" : {_type(source.shape)} to {_type(shape)}",
    )


def _extract(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 0)
    if source is None:
        return
    sizes = [p.random.randint(1, n) for n in source.shape]
    offsets = [p.random.randint(0, n - size) for n, size in zip(source.shape, sizes)]
    steps = [1] * len(sizes)
    kept = tuple(n for n in sizes if n != 1 or p.random.random() < 0.5)
    p.add(
        p.name(),
        kept,
        f"tensor.extract_slice {source.name}{offsets} {sizes} {steps} : {_type(source.shape)} to {_type(kept)}",
    )


def _insert(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 0)
    if source is None:
        return
    into = p.pick(lambda v: len(v.shape) == len(source.shape) and all(a <= b for a, b in zip(source.shape, v.shape)))
    if into is None:
        return
    offsets = [p.random.randint(0, b - a) for a, b in zip(source.shape, into.shape)]
    sizes, steps = list(source.shape), [1] * len(source.shape)
    p.add(
        p.name(),
        into.shape,
        f"tensor.insert_slice {source.name} into {into.name}{offsets} {sizes} {steps}"
        f" : {_type(source.shape)} into {_type(into.shape)}",
    )


def _expand(p: _Program) -> None:
    source = p.pick(lambda v: 0 < len(v.shape) < 3)
    if source is None:
        return
    axis = p.random.randrange(len(source.shape))
    n = source.shape[axis]
    inner = p.random.choice([d for d in range(1, n + 1) if n % d == 0])
    shape = (*source.shape[:axis], n // inner, inner, *source.shape[axis + 1 :])
    groups = [[i] if i < axis else [i, i + 1] if i == axis else [i + 1] for i in range(len(source.shape))]
    p.add(
        p.name(),
        shape,
        f"tensor.expand_shape {source.name} {groups} output_shape {list(shape)}"
        f" : {_type(source.shape)} into {_type(shape)}",
    )


def _collapse(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 1)
    if source is None:
        return
    axis = p.random.randrange(len(source.shape) - 1)
    shape = (*source.shape[:axis], prod(source.shape[axis : axis + 2]), *source.shape[axis + 2 :])
    groups = [[i] if i < axis else [i, i + 1] if i == axis else [i + 1] for i in range(len(shape))]
    p.add(p.name(), shape, f"tensor.collapse_shape {source.name} {groups} : {_type(source.shape)} into {_type(shape)}")


def _softmax(p: _Program) -> None:
    """Of rows, into a product of matrices where there is one of the right size."""
    source = p.pick(lambda v: len(v.shape) == 2)
    if source is None:
        return
    rows = source.shape[:1]
    inits = [p.init(source.shape, False), p.init(rows, True, _LEAST), p.init(rows, True, "%none"), p.init(rows, False)]
    name = p.name()
    types = ", ".join(_type(v.shape) for v in inits)
    outs = ", ".join(v.name for v in inits)
    p.lines.append(f"  {name}:4 = linalg_ext.softmax dimension(1) ins({source.typed}) outs({outs} : {types}) : {types}")
    result = _Value(f"{name}#0", source.shape)
    values = p.pick(lambda v: len(v.shape) == 2 and v.shape[0] == source.shape[1])
    if values is not None and p.random.random() < 0.8:
        empty = p.name()
        shape = (source.shape[0], values.shape[1])
        p.lines.append(f"  {empty} = tensor.empty() : {_type(shape)}")
        zeros = p.name()
        p.lines.append(f"  {zeros} = linalg.fill ins({_ZERO} : f64) outs({empty} : {_type(shape)}) -> {_type(shape)}")
        p.structured("matmul", [result, values], _Value(zeros, shape))
    else:
        p.values.append(result)


def _scan(p: _Program) -> None:
    source = p.pick(lambda v: len(v.shape) > 0)
    if source is None:
        return
    axis = p.random.randrange(len(source.shape))
    inits = [p.init(source.shape, False), p.init(source.shape[:axis] + source.shape[axis + 1 :], True, "%half")]
    name, outs = p.name(), ", ".join(v.name for v in inits)
    types = ", ".join(_type(v.shape) for v in inits)
    inclusive = p.random.choice(["true", "false"])
    p.lines.append(
        f"  {name}:2 = linalg_ext.scan dimension({axis}) inclusive({inclusive}) ins({source.typed}) outs({outs} : {types})"
        f" {{\n  ^bb0(%a: f64, %b: f64):\n    %s = arith.addf %a, %b : f64\n    linalg_ext.yield %s : f64\n  }} -> {types}"
    )
    p.values += [_Value(f"{name}#{i}", v.shape) for i, v in enumerate(inits)]


_OPERATIONS = [
    *[_elementwise] * 5,
    *[_matmul] * 3,
    *[_reduce] * 2,
    _transpose,
    _broadcast,
    *[_convolution] * 2,
    *[_pad] * 2,
    *[_extract] * 2,
    _insert,
    _expand,
    _collapse,
    *[_softmax] * 2,
    _scan,
]


def random_program(seed: int, length: int = 8) -> str:
    """Returns a module with the function @main of up to three tensors, which returns up to three."""
    random = Random(seed)
    p = _Program(random)
    sizes = [random.randint(1, 7) for _ in range(3)]
    arguments: list[_Value] = []
    for i in range(3):
        rank = random.choice([1, 2, 2, 2, 3])
        arguments.append(_Value(f"%arg{i}", tuple(random.choice(sizes) for _ in range(rank))))
    p.values += arguments
    while len(p.values) < len(arguments) + length:
        before = p.count
        random.choice(_OPERATIONS)(p)
        if p.count > 6 * length and p.count == before:
            break
    results = [p.values[-1], *random.sample(p.values[3:], k=min(len(p.values) - 3, random.randint(0, 2)))]
    results = list({v.name: v for v in results}.values())
    constants = [
        f"  {_ZERO} = arith.constant 0.0 : f64",
        f"  {_LEAST} = arith.constant 0xFFF0000000000000 : f64",
        "  %none = arith.constant 0.0 : f64",
        "  %half = arith.constant 0.5 : f64",
    ]
    signature = ", ".join(f"{v.name}: {_type(v.shape)}" for v in arguments)
    types = ", ".join(_type(v.shape) for v in results)
    lines = "\n".join([*constants, *p.lines])
    names = ", ".join(v.name for v in results)
    return f"func.func @main({signature}) -> ({types}) {{\n{lines}\n  return {names} : {types}\n}}\n"
