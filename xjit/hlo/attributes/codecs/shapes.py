"""Shapes in HLO text: `f32[2,<=3]{1,0:T(8,128)S(1)}`, tuples, program shapes. Iterative, cached for leaf shapes.

Tiles are taken as written, as XLA takes them; the verifier says which fit their array.
"""

from __future__ import annotations

import re

from xjit.hlo.attributes.codecs.scalars import parse_int
from xjit.hlo.attributes.codecs.value_text import (
    MAX_NESTING,
    Codec,
    CodecError,
    inside,
    shorten,
    split_list,
    strip_comments,
)
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.layout import COMBINE, Layout, Tile
from xjit.hlo.types.primitive_type import BY_TEXT, PrimitiveType
from xjit.hlo.types.shape import UNBOUNDED_SIZE, Shape

_LAYOUT = r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
_LEAF = re.compile(rf"\s*([a-z]\w*)\s*\[([^\[\]]*)\]\s*({_LAYOUT})?\s*")
_OPENING = re.compile(r"\s*(b\s*)?\(\s*")
_PUNCTUATION = re.compile(r"\s*([(),])\s*")
_SUFFIX = re.compile(r"(SC|[A-Z#*])((?:\((?:[^()]|\([^()]*\))*\))+)")
_LOOSE_SPACE = re.compile(r"\s+(?!\w)|(?<!\w)\s+")  # not that between two numbers
_LAST_COMMA = re.compile(r",(?=\s*\)\s*->)")  # behind the last parameter: XLA takes it there
_GROUP = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
_CACHE: dict[str, Shape] = {}
_CACHE_LIMIT = 1 << 16


def parse_shape(text: str) -> Shape:
    """Returns the shape of an HLO shape text, row-major where no layout is written; CodecError if malformed."""
    cached = _CACHE.get(text)
    if cached is not None:
        return cached
    body = strip_comments(text)
    shape, end = parse_shape_at(body, 0)
    if body[end:].strip():
        raise CodecError(f"unexpected '{shorten(body[end:])}' after a shape", end)
    if len(_CACHE) >= _CACHE_LIMIT:
        _CACHE.clear()
    _CACHE[text] = shape
    return shape


def parse_shape_at(text: str, position: int) -> tuple[Shape, int]:
    """Returns the shape that starts at a position of a comment-free text, and where it ends."""
    stack: list[tuple[list[Shape], bool]] = []  # the elements so far, and whether it is a buffer
    while True:
        opening = _OPENING.match(text, position)
        if opening:
            if len(stack) >= MAX_NESTING:
                raise CodecError(f"tuple shapes are nested deeper than {MAX_NESTING}", position)
            stack.append(([], opening.group(1) is not None))
            position = opening.end()
            closing = _PUNCTUATION.match(text, position)
            if not (closing and closing.group(1) == ")"):
                continue
            shape, position = _closed(*stack.pop(), position), closing.end()
        else:
            shape, position = _parse_leaf(text, position)
        while stack:
            stack[-1][0].append(shape)
            separator = _PUNCTUATION.match(text, position)
            if separator is None or separator.group(1) == "(":
                raise CodecError("expected ',' or ')' in a tuple shape", position)
            position = separator.end()
            if separator.group(1) == ",":
                break
            shape = _closed(*stack.pop(), position)
        else:
            return shape, position


def _closed(elements: list[Shape], is_buffer: bool, position: int) -> Shape:
    if not is_buffer:
        return Shape.tuple_of(elements)
    if len(elements) != 1 or not elements[0].is_array:
        raise CodecError("a buffer b(...) holds one array", position)
    return Shape.buffer_of(elements[0])


def _parse_leaf(text: str, position: int) -> tuple[Shape, int]:
    match = _LEAF.match(text, position)
    if match is None:
        raise CodecError(f"expected a shape such as f32[2,3], found '{shorten(text[position:])}'", position)
    element_type = BY_TEXT.get(match.group(1))
    if element_type is None or element_type in (PrimitiveType.TUPLE, PrimitiveType.BUFFER):
        raise CodecError(f"unknown element type '{match.group(1)}'", position)
    dimensions, dynamic = _parse_dimensions(match.group(2))
    if not element_type.is_array:
        if dimensions:
            raise CodecError(f"{element_type.text} has no dimensions", position)
        return Shape(element_type), match.end()
    layout = Layout.row_major(len(dimensions)) if match.group(3) is None else parse_layout(match.group(3))
    try:
        layout.validate_order(len(dimensions))
    except InvalidArgument as error:
        raise CodecError(error.message, position) from None
    return Shape(element_type, dimensions, layout, dynamic), match.end()


def _parse_dimensions(text: str) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    if not text.strip():
        return (), ()
    sizes: list[int] = []
    dynamic: list[bool] = []
    for item in text.split(","):
        item = item.strip()
        bounded = item.startswith("<=")
        size = UNBOUNDED_SIZE if item in ("?", "<=?") else parse_int(item[2:] if bounded else item)
        if size < 0 and size != UNBOUNDED_SIZE:
            raise CodecError(f"a dimension cannot be negative: {size}")
        sizes.append(size)
        dynamic.append(bounded or size == UNBOUNDED_SIZE)
    return tuple(sizes), tuple(dynamic) if any(dynamic) else ()


def parse_layout(text: str) -> Layout:
    """Returns the layout of `{1,0:T(8,128)(2,1)E(4)S(1)}`; CodecError if malformed."""
    order, _, suffix = inside(text).partition(":")
    minor_to_major = tuple(parse_int(item) for item in order.split(",")) if order.strip() else ()
    fields: dict[str, list[str]] = {}
    position = 0
    suffix = _LOOSE_SPACE.sub("", suffix)
    while position < len(suffix):
        match = _SUFFIX.match(suffix, position)
        if match is None or match.group(1) not in _LAYOUT_KEYS or match.group(1) in fields:
            raise CodecError(f"malformed layout suffix '{shorten(suffix[position:])}'")
        fields[match.group(1)] = _GROUP.findall(match.group(2))
        position = match.end()
    return Layout(
        minor_to_major,
        tiles=tuple(_parse_tile(item) for item in fields.get("T", ())),
        tail_padding_alignment_in_elements=parse_int(_single(fields, "L", "1")),
        index_primitive_type=_integer_type(_single(fields, "#", "")),
        pointer_primitive_type=_integer_type(_single(fields, "*", "")),
        element_size_in_bits=parse_int(_single(fields, "E", "0")),
        memory_space=parse_int(_single(fields, "S", "0")),
        split_configs=tuple(_parse_split_config(item) for item in fields.get("SC", ())),
        dim_level_types=_single(fields, "D", ""),
        physical_shape=_single(fields, "P", ""),
        dynamic_shape_metadata_prefix_bytes=parse_int(_single(fields, "M", "0")),
    )


_LAYOUT_KEYS = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")


def _single(fields: dict[str, list[str]], key: str, default: str) -> str:
    values = fields.get(key, [default])
    if len(values) != 1:
        raise CodecError(f"layout suffix {key}(...) takes one value")
    return values[0]


def _integer_type(text: str) -> str:
    if text and not (text in BY_TEXT and BY_TEXT[text].is_integer):
        raise CodecError(f"expected an integer type, found '{shorten(text)}'")
    return text


def _parse_tile(text: str) -> Tile:
    if not text:
        return Tile(())
    return Tile(tuple(COMBINE if item.strip() == "*" else parse_int(item) for item in text.split(",")))


def _parse_split_config(text: str) -> tuple[int, tuple[int, ...]]:
    dimension, _, indices = text.partition(":")
    return parse_int(dimension), tuple(parse_int(item) for item in indices.split(",")) if indices else ()


def parse_shape_list(text: str) -> tuple[Shape, ...]:
    """Returns the shapes of `{f32[2]{0}, (s32[], f32[])}`."""
    return tuple(parse_shape(item) for item in split_list(inside(strip_comments(text))))


def parse_program_shape(text: str) -> tuple[list[Shape], Shape]:
    """Returns parameters and result of `{(f32[2]{0}, s32[])->f32[2]{0}}`."""
    body = _LAST_COMMA.sub(" ", strip_comments(inside(text)))
    parameters, end = parse_shape_at(body, 0)
    arrow = body.find("->", end)
    if not parameters.is_tuple or arrow < 0 or body[end:arrow].strip():
        raise CodecError("expected (parameters)->result", end + 1)
    return list(parameters.tuple_shapes), parse_shape(body[arrow + 2 :].strip())


SHAPE_CODECS: dict[str, Codec] = {
    "shape": Codec(parse_shape, str),
    "shape_list": Codec(parse_shape_list, lambda shapes: "{" + ", ".join(map(str, shapes)) + "}"),
}
