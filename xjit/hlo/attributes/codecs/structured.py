"""Codecs of the attributes with their own notation: windows, padding, slices, convolution labels, replica groups,
result accuracy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xjit.hlo.annotations.mesh import IotaGroups
from xjit.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    ReplicaGroups,
    SliceDimension,
    Window,
    WindowDimension,
)
from xjit.hlo.attributes.codecs.meshes import parse_compact_groups
from xjit.hlo.attributes.codecs.scalars import (
    format_int_lists,
    one_of,
    parse_float,
    parse_int,
    parse_int_lists,
)
from xjit.hlo.attributes.codecs.value_text import Codec, CodecError, inside, shorten, split_list

_WINDOW_FIELD = re.compile(r"\s*,?\s*(\w+)=\s*([\w\-]+)")
_LABELS = re.compile(r"([\w?]+)_([\w?]+)->([\w?]+)")
_SLICE = re.compile(r"\[\s*(-?\d+)\s*:\s*(-?\d+)\s*(?::\s*(-?\d+)\s*)?\]")


def parse_window(text: str) -> Window:
    """Returns the window of `{size=3x3 stride=2x2 pad=0_1x0_1 ...}`."""
    body = inside(text)
    fields: dict[str, list[str]] = {}
    position = 0
    end = len(body.rstrip())
    while position < end:
        match = _WINDOW_FIELD.match(body, position)
        if match is None:
            raise CodecError(f"expected 'key=value' in a window, found '{shorten(body[position:])}'", position + 1)
        key, value = match.groups()
        if key not in _WINDOW_KEYS or key in fields:
            raise CodecError(f"unexpected window key '{key}'; the keys are {', '.join(_WINDOW_KEYS)}", position + 1)
        fields[key] = value.split("x")
        position = match.end()
    rank = len(fields.get("size", ()))
    if any(len(values) != rank for values in fields.values()):
        raise CodecError("the lists of a window must all be as long as its size")
    return Window(tuple(_window_dimension({k: v[i] for k, v in fields.items()}) for i in range(rank)))


_WINDOW_KEYS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


def _window_dimension(fields: dict[str, str]) -> WindowDimension:
    low, _, high = fields.get("pad", "0_0").partition("_")
    return WindowDimension(
        size=parse_int(fields["size"]),
        stride=parse_int(fields.get("stride", "1")),
        padding_low=parse_int(low),
        padding_high=parse_int(high),
        base_dilation=parse_int(fields.get("lhs_dilate", "1")),
        window_dilation=parse_int(fields.get("rhs_dilate", "1")),
        window_reversal=parse_int(fields.get("rhs_reversal", "0")) != 0,
    )


def format_window(window: Window) -> str:
    """Returns `{size=3x3 ...}`; fields that are default in all dimensions are left out."""
    dims = window.dimensions
    default = WindowDimension()
    parts = ["size=" + "x".join(str(d.size) for d in dims)] if dims else []
    if any(d.stride != 1 for d in dims):
        parts.append("stride=" + "x".join(str(d.stride) for d in dims))
    if any((d.padding_low, d.padding_high) != (0, 0) for d in dims):
        parts.append("pad=" + "x".join(f"{d.padding_low}_{d.padding_high}" for d in dims))
    if any(d.base_dilation != default.base_dilation for d in dims):
        parts.append("lhs_dilate=" + "x".join(str(d.base_dilation) for d in dims))
    if any(d.window_dilation != default.window_dilation for d in dims):
        parts.append("rhs_dilate=" + "x".join(str(d.window_dilation) for d in dims))
    if any(d.window_reversal for d in dims):
        parts.append("rhs_reversal=" + "x".join(str(int(d.window_reversal)) for d in dims))
    return "{" + " ".join(parts) + "}"


def parse_padding(text: str) -> tuple[PaddingDimension, ...]:
    """Returns the dimensions of `1_4_1x4_8_0` (low_high[_interior])."""
    if not text.strip():
        return ()
    result: list[PaddingDimension] = []
    for item in text.split("x"):
        numbers = item.split("_")
        if len(numbers) not in (2, 3):
            raise CodecError(f"expected low_high or low_high_interior, found '{shorten(item)}'")
        result.append(PaddingDimension(*map(parse_int, numbers)))
    return tuple(result)


def format_padding(dimensions: Sequence[PaddingDimension]) -> str:
    """Returns `1_4_1x4_8_0`; the interior is written if any dimension has one."""
    interior = any(d.interior_padding for d in dimensions)
    return "x".join(
        f"{d.edge_padding_low}_{d.edge_padding_high}" + (f"_{d.interior_padding}" if interior else "")
        for d in dimensions
    )


def parse_slice_ranges(text: str) -> tuple[SliceDimension, ...]:
    """Returns the ranges of `{[0:5], [1:7:2]}`."""
    result: list[SliceDimension] = []
    for item in split_list(inside(text)):
        match = _SLICE.fullmatch(item)
        if match is None:
            raise CodecError(f"expected [start:limit] or [start:limit:stride], found '{shorten(item)}'")
        start, limit, stride = match.groups()
        result.append(SliceDimension(parse_int(start), parse_int(limit), parse_int(stride or "1")))
    return tuple(result)


def format_slice_ranges(dimensions: Sequence[SliceDimension]) -> str:
    """Returns `{[0:5], [1:7:2]}`; strides are written if any is not one."""
    strided = any(d.stride != 1 for d in dimensions)
    ranges = (f"[{d.start}:{d.limit}" + (f":{d.stride}]" if strided else "]") for d in dimensions)
    return "{" + ", ".join(ranges) + "}"


def parse_dim_labels(text: str) -> ConvolutionDimensionNumbers:
    """Returns the numbers of `b01f_01io->b01f`."""
    match = _LABELS.fullmatch(text.strip())
    if match is None:
        raise CodecError(f"expected labels such as b01f_01io->b01f, found '{shorten(text)}'")
    lhs, rhs, out = match.groups()
    spatial = len(lhs.replace("?", "")) - 2
    batch, feature, space = _label_positions(lhs, "bf", spatial)
    kernel_in, kernel_out, kernel_space = _label_positions(rhs, "io", spatial)
    out_batch, out_feature, out_space = _label_positions(out, "bf", spatial)
    return ConvolutionDimensionNumbers(
        batch, feature, space, kernel_in, kernel_out, kernel_space, out_batch, out_feature, out_space
    )


def _label_positions(labels: str, roles: str, spatial: int) -> tuple[int, int, tuple[int, ...]]:
    digits = "0123456789"[:spatial]
    if spatial < 0 or spatial > 10 or sorted(labels.replace("?", "")) != sorted(roles + digits):
        expected = ", ".join(roles + digits) if spatial >= 0 else ", ".join(roles)
        raise CodecError(f"dimension labels '{shorten(labels)}' must be an arrangement of {expected}")
    first, second = labels.index(roles[0]), labels.index(roles[1])
    return first, second, tuple(labels.index(digit) for digit in digits)


def format_dim_labels(numbers: ConvolutionDimensionNumbers) -> str:
    """Returns `b01f_01io->b01f`."""
    lhs = _labels(
        numbers.input_spatial_dimensions, {"b": numbers.input_batch_dimension, "f": numbers.input_feature_dimension}
    )
    rhs = _labels(
        numbers.kernel_spatial_dimensions,
        {"i": numbers.kernel_input_feature_dimension, "o": numbers.kernel_output_feature_dimension},
    )
    out = _labels(
        numbers.output_spatial_dimensions, {"b": numbers.output_batch_dimension, "f": numbers.output_feature_dimension}
    )
    return f"{lhs}_{rhs}->{out}"


def _labels(spatial: tuple[int, ...], roles: dict[str, int]) -> str:
    by_position = {position: str(i) for i, position in enumerate(spatial)}
    by_position.update({position: role for role, position in roles.items()})
    return "".join(by_position.get(i, "?") for i in range(max(by_position) + 1))


def parse_replica_groups(text: str) -> ReplicaGroups:
    """Returns the groups of `{{0,1},{2,3}}`, or the compact spelling as text."""
    text = text.strip()
    if text.startswith("{"):
        return ReplicaGroups(parse_int_lists(text))
    compact = parse_compact_groups(text)
    return ReplicaGroups(text=str(compact) if isinstance(compact, IotaGroups) else text)


def format_replica_groups(groups: ReplicaGroups) -> str:
    """Returns the spelling the groups came in."""
    return groups.text or format_int_lists(groups.groups)


def parse_result_accuracy(text: str) -> str:
    """Checks `{mode=highest}` or `{tolerance={atol=0,rtol=1e-3,ulps=1}}`, and returns it as it is."""
    key, _, value = inside(text).strip().partition("=")
    if key == "mode":
        _ACCURACY_MODE.parse(value.strip())
        return text
    if key != "tolerance":
        raise CodecError(f"expected mode= or tolerance=, found '{shorten(text)}'")
    for item in split_list(inside(value.strip())):
        name, _, number = item.partition("=")
        if name not in _TOLERANCES:
            raise CodecError(f"expected atol=, rtol= or ulps=, found '{shorten(item)}'")
        if not _TOLERANCES[name](number.strip()) >= 0:
            raise CodecError(f"a tolerance cannot be negative: '{shorten(item)}'")
    return text


_ACCURACY_MODE = one_of("default", "highest", ignore_case=True)
_TOLERANCES: Mapping[str, Callable[[str], float]] = {"atol": parse_float, "rtol": parse_float, "ulps": parse_int}

STRUCTURED_CODECS: dict[str, Codec] = {
    "window": Codec(parse_window, format_window),
    "padding": Codec(parse_padding, format_padding),
    "slice_ranges": Codec(parse_slice_ranges, format_slice_ranges),
    "dim_labels": Codec(parse_dim_labels, format_dim_labels),
    "replica_groups": Codec(parse_replica_groups, format_replica_groups),
    "result_accuracy": Codec(parse_result_accuracy, str),
}
