"""Literals in HLO text. Numbers of large arrays are read and written in bulk; the brackets are checked as a skeleton.

Floats are written with the fewest digits that read back to the same bits; NaNs carry sign and payload.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xjit.hlo.attributes.codecs.shapes import parse_shape, parse_shape_at
from xjit.hlo.attributes.codecs.value_text import Codec, CodecError, inside, shorten, split_list, strip_comments
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

NDArray = np.ndarray[Any, Any]

_PAYLOAD = re.compile(r"([-+]?)nan\s*\(\s*0[xX]([0-9a-fA-F]+)\s*\)")
_SCALAR_TEXT = re.compile(r"[^{}(),]+")
_UNSIGNED_VIEW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SHAPE_PREFIX = re.compile(r"([a-z]\w*\[[^\[\]]*\])\s*")
_SHAPED_ELEMENT = re.compile(r"\(\s*[a-z]\w*\[[^\[\]]*\]\s*(?:\{[^{}]*\})?\s*[^\s,)]")
_MISPLACED = re.compile(r"\}\s*+[^\s{},)]|\{(?<=[^\s{},(]\{)|\{(?<=[^\s{},(]\s\{)")  # a number beside a row
_FLAT_BRACES = re.compile(r"\{[^{}]*\}\s*")


_PIECE = re.compile(r"[-+]?nan\s*\([^()]*\)|\([^()]*\)|[{}()]|[^\s,{}()]+")


def parse_literal(text: str, shape: Shape) -> Literal:
    """Returns the literal that `constant(text)` of that shape holds; CodecError if the text does not fit the shape."""
    text = strip_comments(text).strip()
    stack: list[tuple[Shape, list[str], list[Literal]]] = []
    current, body = shape, text
    while True:
        if current.is_tuple:
            items = split_list(inside(body, "()"))
            if len(items) != len(current.tuple_shapes):
                raise CodecError(f"{current} needs {len(current.tuple_shapes)} values, found {len(items)}")
            stack.append((current, items, []))
        else:
            literal = _parse_leaf(body, current)
            if not stack:
                return literal
            stack[-1][2].append(literal)
        while stack and len(stack[-1][1]) == len(stack[-1][2]):
            parent, _, elements = stack.pop()
            done = Literal(parent, None, tuple(elements))
            if not stack:
                return done
            stack[-1][2].append(done)
        parent, items, elements = stack[-1]
        current, body = parent.tuple_shapes[len(elements)], items[len(elements)]


def _first_element(text: str, shape: Shape) -> Literal:
    """Returns the array that a number without braces stands for, as in XLA: its first element; the others are zero."""
    scalar = _parse_leaf(text, Shape.array(shape.element_type)).array
    values = np.zeros(shape.num_elements, shape.dtype)
    values[0] = scalar
    return Literal(shape, values.reshape(shape.dimensions))


def _parse_leaf(text: str, shape: Shape) -> Literal:
    if shape.is_token:
        return Literal(shape)
    if not shape.is_array:
        raise CodecError(f"a constant cannot have the shape {shape}")
    if _SHAPE_PREFIX.match(text):
        text = _without_shape(text, shape)
    if "..." in text:
        raise CodecError("elided constant: the text has '{...}' instead of the values (print large constants in full)")
    kind = shape.element_type
    if shape.num_elements and shape.rank and "{" not in text:
        return _first_element(text, shape)
    numbers, payloads = _bulk_text(text, kind)
    if not _has_skeleton(numbers, shape):
        written = numbers
        if shape.rank:
            numbers, payloads = _bulk_text(_with_commas(text), kind)
        if not _has_skeleton(numbers, shape):
            raise _mismatch(written, shape)
    try:
        flat = _numbers(numbers, kind, shape.num_elements)
    except CodecError:  # `1, ,2 3` has as many commas as it should have
        again, payloads = _bulk_text(_with_commas(text), kind)
        if not shape.rank or not _has_skeleton(again, shape):
            raise
        flat = _numbers(again, kind, shape.num_elements)
    if payloads:
        flat = _with_payloads(flat, kind, payloads)
    return Literal(shape, flat.reshape(shape.dimensions))


def _without_shape(text: str, shape: Shape | None) -> str:
    """Drops the `f32[2]{0}` in front of a value; it must agree with the shape of the instruction."""
    match = _SHAPE_PREFIX.match(text)
    assert match is not None
    prefix = parse_shape(match.group(1))
    if shape is not None and not prefix.compatible(shape):
        raise CodecError(f"the literal is written as {prefix}, but its instruction has the shape {shape}")
    rest = text[match.end() :]
    layout = _FLAT_BRACES.match(rest)
    return rest[layout.end() :] if layout and rest[layout.end() :].strip() else rest


def _bulk_text(text: str, kind: PrimitiveType) -> tuple[str, list[tuple[int, str, int]]]:
    """Returns the text with NaN payloads taken out, and (element index, sign, payload) of each."""
    payloads: list[tuple[int, str, int]] = []
    if "nan" not in text or "(" not in text:
        return text, payloads
    position = commas = 0
    for match in _PAYLOAD.finditer(text):
        commas += text.count(",", position, match.start())
        position = match.start()
        payloads.append((commas, match.group(1), int(match.group(2)[:32], 16)))
    return _PAYLOAD.sub(r"\1nan", text), payloads


def _with_commas(text: str) -> str:
    """Returns the text with one comma between elements: XLA takes any number of them in an array."""
    parts: list[str] = []
    for piece in _PIECE.findall(text):
        if parts and piece != "}" and parts[-1] != "{":
            parts.append(",")
        parts.append(piece)
    return "".join(parts)


def _mismatch(text: str, shape: Shape) -> CodecError:
    if shape.num_elements > len(text):
        return CodecError(f"{shape} needs {shape.num_elements} values, the text is too short for that")
    found = _SCALAR_TEXT.sub("", shorten(text, 60))
    return CodecError(
        f"expected {shape.num_elements} values nested as {shape.to_string(False)}, found '{shorten(text)}'"
        + (f" with brackets {found}" if found else "")
    )


def _has_skeleton(text: str, shape: Shape) -> bool:
    """Whether brackets and commas are those of an array of that shape."""
    is_complex = shape.element_type.is_complex
    if shape.rank and _MISPLACED.search(text):
        return False
    skeleton = re.sub(r"[^{}(),]+", "", text)
    dims = shape.dimensions
    if 0 in dims:
        dims = dims[: dims.index(0) + 1]
        if skeleton == "{}":
            return True
    expected = "(,)" if is_complex else ""
    for size in reversed(dims):
        if size * (len(expected) + 1) > len(text) + 2:
            return False
        expected = "{" + ",".join([expected] * size) + "}"
    return skeleton == expected or (is_complex and skeleton == expected.replace("(,)", ""))


def _numbers(text: str, kind: PrimitiveType, count: int) -> NDArray:
    if kind.is_complex:
        component = kind.component
        paired = "(" in text
        values = _numbers(text.translate(_NO_PARENTHESES), component, count * 2 if paired else count)
        result = np.zeros(count, kind.dtype)
        result.real = values[0::2] if paired else values
        result.imag = values[1::2] if paired else 0
        return result
    flat = text.translate(_NO_BRACKETS)
    if count == 0:
        if flat.replace(",", " ").strip():
            raise CodecError("an array without elements takes no values")
        return np.zeros(0, kind.dtype)
    if count == 1:
        return np.array([_scalar(flat, kind)], kind.dtype)
    if count < 64:
        return np.array([_scalar(item, kind) for item in flat.split(",")], kind.dtype)
    return _bulk_numbers(flat, kind, count)


_NO_BRACKETS = str.maketrans("", "", "{}")
_NO_PARENTHESES = str.maketrans("", "", "()")


def _scalar(text: str, kind: PrimitiveType) -> Any:
    text = text.strip()
    try:
        if kind is PrimitiveType.PRED:
            return {"true": True, "false": False}[text] if text[:1].isalpha() else int(text) != 0
        if kind.is_integer:
            value = int(text) if len(text) < 24 else int(float(text))
            return _in_range(value, kind, text)
        return _finite_in_range(float(text), kind, text)
    except CodecError:
        raise
    except (ValueError, KeyError, OverflowError):
        raise CodecError(f"expected a value of type {kind.text}, found '{shorten(text)}'") from None


def _integer_range(kind: PrimitiveType) -> tuple[int, int]:
    bits = kind.bit_width
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.is_signed else (0, (1 << bits) - 1)


def _in_range(value: int, kind: PrimitiveType, text: str) -> Any:
    low, high = _integer_range(kind)
    if kind is PrimitiveType.U64 and -(1 << 63) <= value < 0:
        value += 1 << 64  # XLA reads integers of 64 bits as either
    elif kind is PrimitiveType.S64 and 1 << 63 <= value < 1 << 64:
        value -= 1 << 64
    if not low <= value <= high:
        raise CodecError(f"value {shorten(text)} is out of range for {kind.text}: [{low}, {high}]")
    return value if kind.bit_width >= 32 or kind.dtype.kind in "iu" else np.int64(value).astype(kind.dtype)


def _finite_in_range(value: float, kind: PrimitiveType, text: str) -> Any:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        converted = np.float64(value).astype(kind.dtype)
    if (np.isfinite(value) or (np.isinf(value) and "inf" not in text.lower())) and not np.isfinite(converted):
        raise CodecError(f"value {shorten(text)} is out of range for {kind.text}")
    return _signed_nan(converted, value) if value != value else converted


def _signed_nan(converted: Any, value: float) -> Any:
    return np.copysign(converted, converted.dtype.type(np.copysign(1.0, value)))


def _bulk_numbers(flat: str, kind: PrimitiveType, count: int) -> NDArray:
    if kind is PrimitiveType.PRED:
        flat = flat.replace("true", "1").replace("false", "0")
    parse_dtype = np.float64
    if kind is PrimitiveType.PRED or kind.is_integer:
        parse_dtype = np.uint64 if kind.is_unsigned else np.int64
    try:
        with np.errstate(all="ignore"):
            values = np.fromstring(flat, parse_dtype, sep=",")
    except (ValueError, DeprecationWarning):
        values = np.zeros(0)
    if values.size != count or (kind.is_unsigned and "-" in flat):
        return np.array([_scalar(item, kind) for item in flat.split(",")], kind.dtype)
    if kind is PrimitiveType.PRED:
        bad = values[(values != 0) & (values != 1)]
    elif kind.is_integer:
        bits = kind.bit_width
        low, high = _integer_range(kind)
        bad = values[(values < low) | (values > high)] if bits < 64 else values[:0]
        if bits == 64 and bool(((values == values.dtype.type(high)) | (values == values.dtype.type(low))).any()):
            return np.array([_scalar(item, kind) for item in flat.split(",")], kind.dtype)
    else:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            converted = values.astype(kind.dtype)
        bad = values[np.isfinite(values) & ~np.isfinite(converted)]
        if "inf" not in flat.lower() and np.isinf(values).any():
            raise CodecError(f"a value is out of range for {kind.text}")
    if bad.size:
        raise CodecError(f"value {bad[0]} is out of range for {kind.text}")
    with np.errstate(all="ignore"):
        return values.astype(kind.dtype)


def _with_payloads(flat: NDArray, kind: PrimitiveType, payloads: list[tuple[int, str, int]]) -> NDArray:
    component = kind.component
    dtype = component.dtype
    mantissa = _mantissa_bits(component)
    for _, _, payload in payloads:
        if not component.is_float or payload >= 1 << mantissa or payload == 0:
            raise CodecError(f"NaN payload {payload:#x} is out of range for {component.text}")
    unsigned = _UNSIGNED_VIEW[dtype.itemsize]
    infinity = int(np.array(np.inf, dtype).view(unsigned))
    negative = 1 << (dtype.itemsize * 8 - 1)
    parts = flat.view(dtype).view(unsigned).copy()
    parts[[index for index, _, _ in payloads]] = np.array(
        [infinity | payload | (negative if sign == "-" else 0) for _, sign, payload in payloads], unsigned
    )
    return parts.view(dtype).view(kind.dtype)


def _mantissa_bits(kind: PrimitiveType) -> int:
    return {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4}.get(kind.text, 0)


# -- printing


def format_literal(literal: Literal, max_elements: int | None = None) -> str:
    """Returns what stands in `constant(...)`; arrays with more elements than the limit become `{...}`."""
    out: list[str] = []
    stack: list[Literal | str] = [literal]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            out.append(item)
        elif item.shape.is_tuple:
            pieces: list[Literal | str] = ["( "]
            for i, element in enumerate(item.elements):
                pieces.extend([", ", element] if i else [element])
            stack.extend(reversed([*pieces, " )"]))
        elif not item.shape.is_array:
            continue
        elif max_elements is not None and item.shape.num_elements > max_elements:
            out.append("{...}")
        else:
            out.append(_format_array(item.array, item.shape.element_type))
    return "".join(out)


def _format_array(array: NDArray, kind: PrimitiveType) -> str:
    texts = format_elements(array, kind)
    for level, size in enumerate(reversed(array.shape)):
        open_, close = ("{", "}") if level == 0 else ("{ ", " }")
        if 0 in array.shape:
            rest = array.shape[: array.ndim - 1 - level]
            groups = int(np.prod(rest, dtype=object)) if 0 not in rest else 0
            texts = [open_ + ", ".join(texts[g * size : (g + 1) * size]) + close for g in range(groups)]
            continue
        texts = [open_ + ", ".join(texts[g : g + size]) + close for g in range(0, len(texts), size)]
    return texts[0] if texts else "{}"


def format_elements(array: NDArray, kind: PrimitiveType) -> list[str]:
    """Returns the texts of the elements in row-major order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if kind is PrimitiveType.PRED:
        return ["true" if v else "false" for v in flat.tolist()]
    if kind.is_integer:
        return list(map(str, flat.astype(np.uint64 if kind.is_unsigned else np.int64).tolist()))
    if kind.is_complex:
        parts = format_elements(flat.view(kind.component.dtype), kind.component)
        return [f"({re_}, {im})" for re_, im in zip(parts[0::2], parts[1::2], strict=True)]
    if kind is PrimitiveType.F64:
        texts = list(map(repr, flat.tolist()))
    else:
        with np.errstate(invalid="ignore"):
            texts = flat.astype(np.float32).astype("U24").tolist()
    texts = [t[:-2] if t.endswith(".0") and t != "-0.0" else t for t in texts]  # XLA reads -0 as an integer
    if bool(np.isnan(flat).any()):
        bits = flat.view(_UNSIGNED_VIEW[flat.dtype.itemsize])
        for index in np.flatnonzero(np.isnan(flat)).tolist():
            texts[index] = _format_nan(int(bits[index]), kind)
    return texts


def _format_nan(bits: int, kind: PrimitiveType) -> str:
    mantissa = _mantissa_bits(kind)
    sign = "-" if bits >> (kind.bit_width - 1) & 1 else ""
    payload = bits & ((1 << mantissa) - 1)
    if mantissa == 0 or payload == 1 << (mantissa - 1):
        return sign + "nan"
    return f"{sign}nan({payload:#x})"


def parse_shaped_literal(text: str) -> Literal:
    """Returns the literal of `f32[2]{0} {1, 2}`."""
    body = strip_comments(text).strip()
    match = _SHAPE_PREFIX.match(body)
    if match is not None:
        layout = _FLAT_BRACES.match(body, match.end())
        end = layout.end() if layout and body[layout.end() :].strip() else match.end()
        return parse_literal(body[end:], parse_shape(body[:end].strip()))
    if body.startswith("(") and _SHAPED_ELEMENT.match(body):
        elements = tuple(parse_shaped_literal(item) for item in split_list(inside(body, "()")))
        return Literal(Shape.tuple_of([element.shape for element in elements]), None, elements)
    shape, end = parse_shape_at(body, 0)
    return parse_literal(body[end:], shape)


def format_shaped_literal(literal: Literal) -> str:
    """Returns a literal with its shape in front; those of a tuple's elements are beside the values, as XLA has it."""
    if literal.shape.is_tuple:
        return f"( {', '.join(map(format_shaped_literal, literal.elements))} )"
    return f"{literal.shape} {format_literal(literal)}"


LITERAL_CODECS: dict[str, Codec] = {"literal": Codec(parse_shaped_literal, format_shaped_literal)}
