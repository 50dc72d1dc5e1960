"""Shapes, layouts and literals to and from their protos."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.hlo.attributes.codecs.shapes import parse_shape
from xjit.hlo.diagnostics import HloParseError, InvalidArgument, Unsupported
from xjit.hlo.types.layout import Layout, Tile
from xjit.hlo.types.literal import Literal, NDArray
from xjit.hlo.types.primitive_type import BY_PROTO, BY_TEXT, PrimitiveType
from xjit.hlo.types.shape import UNBOUNDED_SIZE, Shape

MAX_NESTING = 256
_STAR_TILE = -(2**63)
_LEVEL_TYPES = "DCSL"
_REPEATED_FIELDS = {
    PrimitiveType.PRED: "preds",
    PrimitiveType.S32: "s32s",
    PrimitiveType.S64: "s64s",
    PrimitiveType.U32: "u32s",
    PrimitiveType.U64: "u64s",
    PrimitiveType.F32: "f32s",
    PrimitiveType.F64: "f64s",
    PrimitiveType.C64: "c64s",
    PrimitiveType.C128: "c128s",
}


def primitive_type(number: int) -> PrimitiveType:
    """Returns the element type of a proto number; HloParseError if it is unknown."""
    kind = BY_PROTO.get(number)
    if kind is None:
        raise HloParseError(f"unknown element type {number} in a proto")
    return kind


def write_shape(shape: Shape, proto: Any) -> None:
    """Fills a ShapeProto."""
    stack = [(shape, proto)]
    while stack:
        item, target = stack.pop()
        target.element_type = item.element_type.proto
        if item.tuple_shapes:
            stack.extend((element, target.tuple_shapes.add()) for element in item.tuple_shapes)
        elif item.is_array:
            target.dimensions.extend(item.dimensions)
            dynamic = item.dynamic_dimensions or (False,) * item.rank
            target.is_dynamic_dimension.extend(dynamic)
            if item.layout is not None:
                _write_layout(item.layout, target.layout)


def _write_layout(layout: Layout, proto: Any) -> None:
    proto.minor_to_major.extend(layout.minor_to_major)
    for tile in layout.tiles:
        proto.tiles.add().dimensions.extend(_STAR_TILE if d == -1 else d for d in tile.dimensions)
    proto.tail_padding_alignment_in_elements = layout.tail_padding_alignment_in_elements
    proto.element_size_in_bits = layout.element_size_in_bits
    proto.memory_space = layout.memory_space
    proto.dynamic_shape_metadata_prefix_bytes = layout.dynamic_shape_metadata_prefix_bytes
    if layout.index_primitive_type:
        proto.index_primitive_type = BY_TEXT[layout.index_primitive_type].proto
    if layout.pointer_primitive_type:
        proto.pointer_primitive_type = BY_TEXT[layout.pointer_primitive_type].proto
    for dimension, indices in layout.split_configs:
        proto.split_configs.add(dimension=dimension, split_indices=indices)
    if layout.physical_shape:
        write_shape(parse_shape(layout.physical_shape), proto.physical_shape)
    for level in layout.dim_level_types.split(",") if layout.dim_level_types else ():
        proto.dim_level_types.append(_LEVEL_TYPES.index(level[0]))
        proto.dim_unique.append("+" not in level)
        proto.dim_ordered.append("~" not in level)


def read_shape(proto: Any, depth: int = 0) -> Shape:
    """Returns the shape of a ShapeProto; HloParseError if it is malformed."""
    if depth > MAX_NESTING:
        raise HloParseError(f"tuple shapes in a proto are nested deeper than {MAX_NESTING}")
    kind = primitive_type(proto.element_type)
    if kind is PrimitiveType.TUPLE:
        return Shape.tuple_of([read_shape(element, depth + 1) for element in proto.tuple_shapes])
    if kind is PrimitiveType.BUFFER:
        elements = [read_shape(element, depth + 1) for element in proto.tuple_shapes]
        if len(elements) != 1 or not elements[0].is_array:
            raise HloParseError("a buffer shape in a proto holds one array")
        return Shape.buffer_of(elements[0])
    if not kind.is_array:
        return Shape(kind)
    dimensions = tuple(proto.dimensions)
    if any(d < 0 and d != UNBOUNDED_SIZE for d in dimensions):
        raise HloParseError(f"a shape in a proto has the negative dimensions {list(dimensions)}")
    dynamic = tuple(proto.is_dynamic_dimension)
    if dynamic and len(dynamic) != len(dimensions):
        raise HloParseError("is_dynamic_dimension in a proto is not as long as dimensions")
    layout = _read_layout(proto.layout, len(dimensions)) if proto.HasField("layout") else None
    if layout is None:
        layout = Layout.row_major(len(dimensions))
    return Shape(kind, dimensions, layout, dynamic if any(dynamic) else ())


def _read_layout(proto: Any, rank: int) -> Layout:
    levels = [
        _LEVEL_TYPES[level]
        + ("" if i >= len(proto.dim_unique) or proto.dim_unique[i] else "+")
        + ("" if i >= len(proto.dim_ordered) or proto.dim_ordered[i] else "~")
        for i, level in enumerate(proto.dim_level_types)
    ]
    layout = Layout(
        tuple(proto.minor_to_major),
        tiles=tuple(Tile(tuple(-1 if d == _STAR_TILE else d for d in tile.dimensions)) for tile in proto.tiles),
        tail_padding_alignment_in_elements=proto.tail_padding_alignment_in_elements or 1,
        index_primitive_type=_optional_type(proto.index_primitive_type),
        pointer_primitive_type=_optional_type(proto.pointer_primitive_type),
        element_size_in_bits=proto.element_size_in_bits,
        memory_space=proto.memory_space,
        split_configs=tuple((c.dimension, tuple(c.split_indices)) for c in proto.split_configs),
        dim_level_types=",".join(levels),
        physical_shape=str(read_shape(proto.physical_shape, 1)) if proto.HasField("physical_shape") else "",
        dynamic_shape_metadata_prefix_bytes=proto.dynamic_shape_metadata_prefix_bytes,
    )
    try:
        layout.validate_order(rank)
    except InvalidArgument as error:
        raise HloParseError(error.message) from None
    return layout


def _optional_type(number: int) -> str:
    return primitive_type(number).text if number else ""


def write_literal(literal: Literal, proto: Any) -> None:
    """Fills a LiteralProto; elements go in the order of the layout."""
    stack = [(literal, proto)]
    while stack:
        item, target = stack.pop()
        write_shape(item.shape, target.shape)
        if item.shape.is_tuple:
            stack.extend((element, target.tuple_literals.add()) for element in item.elements)
        elif item.shape.is_array:
            _write_elements(item, target)


def _write_elements(literal: Literal, proto: Any) -> None:
    kind = literal.shape.element_type
    order = literal.shape.minor_to_major[::-1]
    flat = np.ascontiguousarray(np.transpose(literal.array, order)).reshape(-1)
    field = _REPEATED_FIELDS.get(kind)
    if field is None:
        if kind.text + "s" not in proto.DESCRIPTOR.fields_by_name:
            raise Unsupported(f"XLA's LiteralProto has no field for constants of type {kind.text}")
        raw = flat.view(np.uint8)
        if kind.bit_width < 8:
            raw = raw & np.uint8((1 << kind.bit_width) - 1)
        setattr(proto, kind.text + "s", raw.tobytes())
        return
    if kind.is_float or kind.is_complex:
        _merge_packed(proto, field, flat.tobytes())
    else:
        getattr(proto, field).extend(flat.tolist())


def _merge_packed(proto: Any, field: str, raw: bytes) -> None:
    """Appends fixed-width values by their bits: Python floats would turn signalling NaNs into quiet ones."""
    tag = proto.DESCRIPTOR.fields_by_name[field].number << 3 | 2
    proto.MergeFromString(_varint(tag) + _varint(len(raw)) + raw)


def _packed(proto: Any, field: str) -> bytes:
    """Returns the bits of a repeated field of fixed-width values."""
    alone = type(proto)()
    getattr(alone, field).MergeFrom(getattr(proto, field))
    data = alone.SerializeToString()
    for _ in range(2):  # the tag and the length
        start = next((i for i, byte in enumerate(data) if byte < 128), -1) + 1
        data = data[start:]
    return data


def _varint(value: int) -> bytes:
    parts: list[int] = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def read_literal(proto: Any, depth: int = 0) -> Literal:
    """Returns the literal of a LiteralProto; HloParseError if data and shape do not agree."""
    shape = read_shape(proto.shape)
    if depth > MAX_NESTING:
        raise HloParseError(f"literals in a proto are nested deeper than {MAX_NESTING}")
    if shape.is_tuple:
        if len(proto.tuple_literals) != len(shape.tuple_shapes):
            raise HloParseError(f"a literal of shape {shape} in a proto has {len(proto.tuple_literals)} elements")
        return Literal(shape, None, tuple(read_literal(element, depth + 1) for element in proto.tuple_literals))
    if not shape.is_array:
        return Literal(shape)
    flat = _read_elements(proto, shape)
    order = shape.minor_to_major[::-1]
    physical = flat.reshape([shape.dimensions[d] for d in order])
    return Literal(shape, np.ascontiguousarray(np.transpose(physical, np.argsort(order))).reshape(shape.dimensions))


def _read_elements(proto: Any, shape: Shape) -> NDArray:
    kind = shape.element_type
    field = _REPEATED_FIELDS.get(kind)
    if field is None:
        raw = np.frombuffer(getattr(proto, kind.text + "s", b""), np.uint8)
        if raw.size != shape.num_elements * kind.dtype.itemsize:
            raise HloParseError(f"a literal of shape {shape} in a proto has {raw.size} bytes")
        if kind.bit_width < 8 and kind.is_integer:
            values = raw.astype(np.int16) & ((1 << kind.bit_width) - 1)
            if kind.is_signed:
                values -= (values >> (kind.bit_width - 1)) << kind.bit_width
            return values.astype(np.int8).astype(kind.dtype)
        return raw.view(kind.dtype)
    values = getattr(proto, field)
    if len(values) != shape.num_elements * (2 if kind.is_complex else 1):
        raise HloParseError(f"a literal of shape {shape} in a proto has {len(values)} values")
    if kind.is_float or kind.is_complex:
        return np.frombuffer(_packed(proto, field), kind.dtype)
    return np.array(values, kind.dtype)
