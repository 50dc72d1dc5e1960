"""Meshes in HLO text: devices with named axes, and the axes that a sharding or replica groups name of them.

`mesh['x'=2,'y'=4] [{'x'},{'y'}], replicated={...}` is a sharding, `mesh['x'=2,'y'=4] {'x'}` are replica groups, and
`[2,4]<=[4,2]T(1,0)` are groups by an order of all devices.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from xjit.hlo.annotations.mesh import AxisList, AxisRef, Iota, IotaGroups, Mesh, MeshGroups, NamedSharding
from xjit.hlo.annotations.metadata import OpMetadata
from xjit.hlo.attributes.codecs.annotations import parse_metadata
from xjit.hlo.attributes.codecs.scalars import parse_int
from xjit.hlo.attributes.codecs.value_text import ANY_STRING, SIZES, CodecError, inside, shorten, split_list, unquote

IOTA = rf"\[(?P<reshape>{SIZES})\]\s*(?:T\s*\((?P<perm>{SIZES})\))?"
"""`[8]`, or `[4,2]T(1,0)`: what `iota` reads."""

MAX_DEVICES = 1 << 24
"""More than any machine has; an order of them is a table of this size."""

_MESH = re.compile(
    rf"\s*mesh\[(?P<axes>(?:[^\[\]\"']|{ANY_STRING})*+)\]"
    rf"(?:\s*,\s*device_ids=\(\s*(?:{IOTA}|(?P<list>{SIZES}))\s*\))?\s*,?\s*",
    re.DOTALL,
)
_SIZED_AXIS = re.compile(rf"({ANY_STRING})\s*=\s*(\d+)", re.DOTALL)
_AXIS = re.compile(rf"({ANY_STRING})\s*(?::\s*\(\s*(\d+)\s*\)\s*(\d+))?", re.DOTALL)
_ONE_DEVICE = re.compile(r"maximal_mesh\[device_id=(\d+)\]")
_IOTA_GROUPS = re.compile(rf"\s*\[\s*(\d+)\s*,\s*(\d+)\s*\]\s*<=\s*{IOTA}\s*")
_WHOLE = ("replicated", "manual", "unreduced")
_DIMENSIONS = re.compile(rf"(?:{'|'.join(_WHOLE)})\b|\[(?:[^\[\]\"']|{ANY_STRING})*+\]", re.DOTALL)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Returns the numbers of `0,1,2`."""
    return tuple(parse_int(item) for item in text.split(","))


def iota(match: re.Match[str]) -> Iota:
    """Returns what a match of IOTA says; CodecError unless it gives an order of its dimensions, if they are several."""
    dims = parse_numbers(match["reshape"])
    order = parse_numbers(match["perm"]) if match["perm"] else (0,)
    if sorted(order) != list(range(len(dims))) or (match["perm"] and len(dims) == 1):
        raise CodecError(f"T({match['perm'] or ''}) is not an order of the {len(dims)} dimensions [{match['reshape']}]")
    _check_count(dims)
    return Iota(dims, order)


def parse_named_sharding(text: str) -> NamedSharding:
    """Returns the sharding over a mesh that a text is; CodecError if it is none, or names what the mesh has not."""
    if alone := _ONE_DEVICE.fullmatch(text):
        return NamedSharding(Mesh((), (int(alone[1]),)))
    mesh, rest = _mesh(text)
    found = _DIMENSIONS.match(rest)
    if found is None:
        raise CodecError(f"expected the axes of each dimension, [{{'x'}},...], found '{shorten(rest)}'")
    kind = found.group() if rest[0] != "[" else ""
    dimensions = () if kind else tuple(_axes(item, mesh) for item in split_list(inside(found.group(), "[]")))
    rest = rest[found.end() :].strip()
    if rest and rest[0] != ",":
        raise CodecError(f"expected ',' before more of a sharding, found '{shorten(rest)}'")
    others: list[tuple[str, AxisList]] = []
    metadata: tuple[OpMetadata, ...] = ()
    for item in split_list(rest)[1:]:
        key, _, value = (part.strip() for part in item.partition("="))
        if key in _WHOLE:
            others.append((key, _closed(_axes(value, mesh))))
        elif key == "metadata":
            metadata = parse_sharding_metadata(value)
        else:
            raise CodecError(f"expected {', '.join(_WHOLE)} or metadata, found '{shorten(item)}'")
    _check_apart(mesh, (axis for axes in (*dimensions, *(a for _, a in others)) for axis in axes.axes))
    return NamedSharding(mesh, dimensions, kind, tuple(others), metadata)


def parse_compact_groups(text: str) -> IotaGroups | MeshGroups:
    """Returns the replica groups of `[2,4]<=[8]`, or `mesh['x'=2,'y'=4] {'x'}`."""
    if match := _IOTA_GROUPS.fullmatch(text):
        return IotaGroups(int(match[1]), int(match[2]), iota(match))
    if not text.startswith("mesh"):
        raise CodecError(f"expected {{{{0,1}},...}} or [groups,size]<=[devices], found '{shorten(text)}'")
    mesh, rest = _mesh(text)
    axes = _closed(_axes(rest, mesh))
    if not axes.axes:
        raise CodecError("replica groups name an axis of their mesh")
    _check_apart(mesh, axes.axes)
    return MeshGroups(mesh, axes)


def parse_sharding_metadata(text: str) -> tuple[OpMetadata, ...]:
    """Returns the metadata of `{op_name="x"}`, or of a list of such."""
    body = inside(text).strip()
    return tuple(parse_metadata(item) for item in (split_list(body) if body.startswith("{") else [text]))


def _mesh(text: str) -> tuple[Mesh, str]:
    """Returns a mesh, and what follows it."""
    match = _MESH.match(text)
    if match is None:
        raise CodecError(f"expected mesh['axis'=size,...], found '{shorten(text)}'")
    axes = tuple(_sized_axis(item) for item in split_list(match["axes"]))
    if repeated := [name for name, count in Counter(name for name, _ in axes).items() if count > 1]:
        raise CodecError(f"axes of a mesh have one name each, '{shorten(repeated[0])}' is given twice")
    _check_count(size for _, size in axes)
    ids = iota(match) if match["reshape"] else parse_numbers(match["list"]) if match["list"] else None
    mesh = Mesh(axes, ids)
    if not mesh.has_all_devices:
        raise CodecError(f"{mesh} does not list a device for each of its places")
    return mesh, text[match.end() :].strip()


def _check_count(sizes: Iterable[int]) -> None:
    if (count := math.prod(sizes)) > MAX_DEVICES:
        raise CodecError(f"expected {MAX_DEVICES} devices at most, found {count}")


def _sized_axis(text: str) -> tuple[str, int]:
    match = _SIZED_AXIS.fullmatch(text)
    if match is None or not int(match[2]):
        raise CodecError(f"expected 'axis'=size in a mesh, found '{shorten(text)}'")
    return unquote(match[1]), int(match[2])


def _axes(text: str, mesh: Mesh) -> AxisList:
    """Returns the axes of `{'x','y':(1)2,?}`."""
    items = split_list(inside(text))
    is_open = bool(items) and items[-1] == "?"
    axes: list[AxisRef] = []
    for item in items[:-1] if is_open else items:
        axis = _AXIS.fullmatch(item)
        if axis is None or unquote(axis[1]) not in mesh.names or (axis[3] and not int(axis[3])):
            raise CodecError(f"'{shorten(item)}' is not an axis of the mesh")
        axes.append(AxisRef(unquote(axis[1]), int(axis[2] or 1), int(axis[3] or 0)))
    return AxisList(tuple(axes), is_open)


def _closed(axes: AxisList) -> AxisList:
    if axes.is_open:
        raise CodecError("only the axes of a dimension are left open by '?'")
    return axes


def _check_apart(mesh: Mesh, axes: Iterable[AxisRef]) -> None:
    """Raises CodecError unless axes, or parts of them, are of a mesh and do not overlap."""
    axes = tuple(axes)
    if not mesh.has_parts(axes):
        raise CodecError(f"{AxisList(axes)} overlap, or are no parts of the axes of {mesh}")
