"""Windows that are trivial, cover everything, or whose input is padded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import PaddingDimension, Window, WindowDimension
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops import build
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.prefix_scan import prefix_dimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import converted_array, splat, value_of
from xjit.passes.simplify.algebra.kinds import is_float, is_integer
from xjit.passes.simplify.algebra.padding import padding_of
from xjit.passes.simplify.algebra.reductions import is_neutral, operation, reduce_with
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _window(i: HloInstruction) -> tuple[WindowDimension, ...]:
    return i.attributes_as(at.WindowAttributes).window.dimensions


def _covers(d: WindowDimension, size: int) -> bool:
    """Whether a window takes a whole dimension at once."""
    return d == WindowDimension(size=size, stride=d.stride) and size > 1


def _trivial(match: Match, into: Expansion, any_init: bool = False) -> HloInstruction | None:
    root, x = match.root, match["x"]
    edges = [PaddingDimension(d.padding_low, d.padding_high) for d in _window(root)]
    plain = all(
        replace(d, padding_low=0, padding_high=0) == WindowDimension(window_dilation=d.window_dilation)
        for d in _window(root)
    )
    is_padded = any(e != PaddingDimension() for e in edges)
    neutral = any_init or not is_padded or is_neutral(match["init"], root, match["init"])
    if not plain or not operation(root) or not neutral:
        return None
    init = into.make("broadcast", match["init"], shape=x.shape, attributes=at.DimensionsAttributes(()))
    combined = into.make(operation(root), x, init)
    if not is_padded:
        return combined
    return into.make("pad", combined, match["init"], attributes=at.PadAttributes(tuple(edges)))


def _trivial_from_any(match: Match, into: Expansion) -> HloInstruction | None:
    """Padding is what an extremum starts with, and no other extremum comes of that alone."""
    return _trivial(match, into, operation(match.root) in ("maximum", "minimum"))


def _whole(match: Match, into: Expansion) -> HloInstruction | None:
    """Every dimension is either left alone or taken as a whole."""
    root, x = match.root, match["x"]
    taken: list[int] = []
    for i, (d, size) in enumerate(zip(_window(root), x.shape.dimensions, strict=True)):
        if _covers(d, size):
            taken.append(i)
        elif d != WindowDimension():
            return None
    if not taken or not operation(root):
        return None
    return into.like_source("reshape", [reduce_with(into, x, match["init"], taken, root.to_apply)])


def _of_pad(match: Match, into: Expansion) -> HloInstruction | None:
    window = _padded_window(match.root, match["pad"]) if _pads_with(match["pad"], match["init"]) else None
    return _reduced(match, into, match["x"], window)


def _pads_with(pad: HloInstruction, init: HloInstruction) -> bool:
    """Whether what pads is what a reduction starts with, perhaps in another type, that of `init`."""
    if pad.operand(1) is init:
        return True
    a, b = value_of(pad.operand(1)), value_of(init)
    return a is not None and b is not None and converted_array(a, init.shape.element_type).tobytes() == b.tobytes()


def _reduced(match: Match, into: Expansion, x: HloInstruction, window: Window | None) -> HloInstruction | None:
    if window is None:
        return None
    called = [match.root.to_apply]
    return into.make("reduce-window", x, match["init"], attributes=at.WindowAttributes(window), called=called)


def _of_converted_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """As `_of_pad` through a conversion; along a single line only if the padding is a good part of it."""
    root, pad = match.root, match["pad"]
    lines = [i for i, d in enumerate(_window(root)) if d.size > 1]
    if len(lines) == 1:
        p, size = padding_of(pad)[lines[0]], pad.shape.dimensions[lines[0]]
        if p.edge_padding_low + p.edge_padding_high < size / 10:
            return None
    window = _padded_window(root, pad) if _pads_with(pad, match["init"]) else None
    if window is None:
        return None
    kind = root.operand(0).shape.element_type
    x = into.make("convert", match["x"], shape=match["x"].shape.with_element_type(kind))
    return _reduced(match, into, x, window)


def _padded_window(root: HloInstruction, pad: HloInstruction) -> Window | None:
    """Returns the window with the edges of a pad as padding and what it puts between elements as base dilation.

    None for prefix sums and the like: those are linear in the length of a line only while they are nothing else.
    """
    if prefix_dimension(root) is not None:
        return None
    dimensions: list[WindowDimension] = []
    for d, p in zip(_window(root), padding_of(pad), strict=True):
        low, high = d.padding_low + p.edge_padding_low, d.padding_high + p.edge_padding_high
        touched = p != PaddingDimension()
        if min(low, high, p.edge_padding_low, p.edge_padding_high) < 0 or (touched and d.base_dilation != 1):
            return None
        between = d.base_dilation * (1 + p.interior_padding)
        dimensions.append(replace(d, padding_low=low, padding_high=high, base_dilation=between))
    return Window(tuple(dimensions))


def _repeated_value(x: HloInstruction) -> Any:
    """The one value of an array, of the array's type; None if it is not a constant."""
    if x.opcode in ("convert", "copy", "reshape") or (x.opcode == "broadcast" and x.operand(0).shape.is_scalar):
        value = _repeated_value(x.operand(0))
        return None if value is None else converted_array(value, x.shape.element_type)[()]
    return value_of(x)


def _running_sum(match: Match, into: Expansion) -> HloInstruction | None:
    """Sums over all elements so far of a constant line: the constant times their number."""
    root, shape = match.root, match.root.shape
    start, c = value_of(match["init"]), _repeated_value(match["x"])
    lines = [i for i, d in enumerate(_window(root)) if d != WindowDimension()]
    if operation(root) != "add" or start is None or start != 0 or c is None or len(lines) != 1:
        return None
    size = shape.dimensions[lines[0]]
    if _window(root)[lines[0]] != WindowDimension(size=size, padding_low=size - 1):
        return None
    kind = shape.element_type if shape.element_type.is_integer else PrimitiveType.S32
    numbers = HloInstruction.create("iota", shape.with_element_type(kind), [], at.IotaAttributes(lines[0]))
    count = into.make("add", into.add(numbers), into.full(numbers.shape, 1))
    if kind is not shape.element_type:
        count = into.make("convert", count, shape=shape)
    return into.make("multiply", count, splat(into, c, shape))


def _of_slice(match: Match, into: Expansion) -> HloInstruction | None:
    """One window of each dimension that has windows of several elements: the reduction of what is in it."""
    window, x, init = match["window"], match["window"].operand(0), match["window"].operand(1)
    if not operation(window) or not is_neutral(init, window, init) or not match.root.shape.num_elements:
        return None
    ranges: list[at.SliceDimension] = []
    taken: list[int] = []
    cuts = match.root.attributes_as(at.SliceAttributes).slice
    for i, (d, cut_out, size) in enumerate(zip(_window(window), cuts, x.shape.dimensions, strict=True)):
        if d == WindowDimension():
            ranges.append(cut_out)
            continue
        if d.window_dilation != 1 or d.base_dilation != 1 or match.root.shape.dimensions[i] != 1:
            return None
        start = cut_out.start * d.stride - d.padding_low
        begin, end = max(start, 0), min(start + d.size, size)
        if begin >= end:
            return None
        ranges.append(at.SliceDimension(begin, end))
        taken.append(i)
    if not taken:
        return None
    part = into.make("slice", x, attributes=at.SliceAttributes(tuple(ranges)))
    return into.like_source("reshape", [reduce_with(into, part, init, taken, window.to_apply)])


def _is_single(root: HloInstruction) -> bool:
    return root.operand_count == 2 and root.shape.is_array


def _nothing(match: Match, into: Expansion) -> HloInstruction:
    """Windows over an empty array see padding only."""
    return into.like_source("broadcast", [match["init"]], at.DimensionsAttributes(()))


def _sees_padding_only(root: HloInstruction) -> bool:
    """Whether a reduction of several arrays sees nothing but constants that its reducer makes of themselves."""
    arrays, inits = root.operands[: root.operand_count // 2], root.operands[root.operand_count // 2 :]
    values = [value_of(init) for init in inits]
    if not root.shape.is_tuple or any(a.shape.num_elements for a in arrays) or any(v is None for v in values):
        return False
    combined = Interpreter().call(root.to_apply, *map(np.asarray, [*values, *values]))
    same = zip(combined if isinstance(combined, tuple) else (combined,), values, strict=True)
    return all(np.asarray(new).tobytes() == np.asarray(old).tobytes() for new, old in same)


def _inits(match: Match, into: Expansion) -> HloInstruction:
    inits = match.root.operands[match.root.operand_count // 2 :]
    results = zip(inits, match.root.shape.tuple_shapes, strict=True)
    return into.tuple_of(*(into.add(build.broadcast_scalar(init, shape)) for init, shape in results))


_X, _INIT = m.any("x"), m.any("init")
_REDUCE_WINDOW = m.op("reduce-window", _X, _INIT).where(_is_single)

WINDOWS = (
    AlgebraRule("R151", "reduce-window(x) of single elements = reducer(init, x)", _REDUCE_WINDOW, _trivial),
    AlgebraRule("R151x", "reduce-window(x) of single elements = pad(reducer(init, x), init)", _REDUCE_WINDOW,
                _trivial_from_any),
    AlgebraRule("R152", "reduce-window(x) of everything = reduce(x)", _REDUCE_WINDOW, _whole, Exactness.ORDER,
                "enable_window_reduce_to_reduce_replacement"),
    AlgebraRule("R153", "reduce-window(pad(x, init)) = reduce-window(x) with padding",
                m.op("reduce-window", m.op("pad", _X, m.any(), name="pad"), _INIT).where(_is_single), _of_pad,
                Exactness.ORDER),
    AlgebraRule("R151b", "reduce-window(nothing, init) = broadcast(init)",
                m.op("reduce-window", m.any("x").where(lambda x: not x.shape.num_elements), _INIT)
                .where(lambda i: _is_single(i) and is_neutral(i.operand(1), i, i.operand(1))), _nothing),
    AlgebraRule("R151c", "reduce-window(nothing, inits) = tuple(broadcast(inits))",
                m.op("reduce-window").where(_sees_padding_only), _inits),
    AlgebraRule("N15", "slice(reduce-window(x)) of one window = reduce(slice(x))",
                m.op("slice", m.op("reduce-window", m.any(), m.any(), name="window").where(_is_single).one_use()),
                _of_slice, Exactness.ORDER, "enable_window_reduce_to_reduce_replacement"),
    AlgebraRule("N73", "reduce-window(convert(pad(x, init))) = reduce-window(convert(x)) with padding",
                m.op("reduce-window", m.op("convert", m.op("pad", _X, m.any(), name="pad")), _INIT).where(_is_single),
                _of_converted_pad, Exactness.ORDER),
    AlgebraRule("N66", "reduce-window(broadcast(c)) of running sums = multiply(iota + 1, c)",
                _REDUCE_WINDOW.where(is_integer), _running_sum),
    AlgebraRule("N66x", "reduce-window(broadcast(c)) of running sums = multiply(iota + 1, c) of floats",
                _REDUCE_WINDOW.where(is_float), _running_sum, Exactness.XLA),
)  # fmt: skip
