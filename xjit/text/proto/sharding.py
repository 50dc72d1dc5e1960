"""Shardings between HLO text and `OpSharding`, with named shardings over meshes and the meshes of replica groups."""

from __future__ import annotations

import re
from typing import Any

from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.annotations import parse_metadata
from xjit.hlo.attributes.codecs.value_text import CodecError, inside, shorten, split_list
from xjit.text.proto import hlo_pb2
from xjit.text.proto.metadata import read_metadata_text, write_metadata

_KINDS = {"replicated": 0, "maximal": 1, "manual": 4, "unknown": 5, "unreduced": 6}
_AXIS_NAME = re.compile(r"[^'{}()\[\]\"]+")
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
_TOKEN = re.compile(
    r"\s*(?:(?P<metadata>metadata)=|(?P<devices>devices)=\[(?P<dims>[\d,\s]*)\](?P<list>[\d,\s]*)"
    r"(?:<=\[(?P<reshape>[\d,\s]*)\](?:T\((?P<perm>[\d,\s]*)\))?)?|device=(?P<device>-?\d+)"
    r"|last_tile_dims=\{(?P<last>[^{}]*)\}|(?P<group>shard_as|shard_like)\s+(?P<group_id>\d+)|(?P<word>\w+))\s*"
)
_MESH = re.compile(
    r"\s*mesh\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids=\((?P<ids>[^)]*(?:\)[^)]*)?)\)(?=\s*[,{]))?\s*,?\s*"
)
_AXIS = re.compile(r"\s*(?:'(?P<quoted>[^']*)'|(?P<plain>[\w.\-]+))\s*(?::\((?P<pre>\d+)\)(?P<size>\d+))?\s*")
_MESH_AXIS = re.compile(r"\s*(?:'([^']*)'|([\w.\-]+))\s*=\s*(\d+)\s*")
_IOTA = re.compile(r"\[([\d,\s]*)\](?:T\(([\d,\s]*)\))?")


def _ints(text: str) -> list[int]:
    return [int(item) for item in text.split(",") if item.strip()]


def serialized_sharding(sharding: HloSharding) -> bytes:
    """A serialized OpSharding; CodecError if the text is not a sharding."""
    proto = hlo_pb2.OpSharding()
    write_sharding(sharding, proto)
    return proto.SerializeToString()


def write_sharding(sharding: HloSharding, proto: Any) -> None:
    """Fills an OpSharding; CodecError if the text is not a sharding."""
    if sharding.elements or not sharding.text:
        proto.type = 2
        for element in sharding.elements:
            _write_single(element.text, proto.tuple_shardings.add())
        return
    _write_single(sharding.text, proto)


def _write_single(text: str, proto: Any) -> None:
    if text.startswith(("mesh", "maximal_mesh")):
        _write_named(text, proto.named_sharding)
        return
    proto.type = 3
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CodecError(f"not a sharding: '{shorten(text[position:])}'")
        position = match.end()
        if match["metadata"]:
            position = _write_sharding_metadata(text, position, proto)
        elif match["devices"]:
            proto.tile_assignment_dimensions.extend(_ints(match["dims"]))
            proto.tile_assignment_devices.extend(_ints(match["list"]))
            reshape = _ints(match["reshape"] or "")
            proto.iota_reshape_dims.extend(reshape)
            proto.iota_transpose_perm.extend(_ints(match["perm"]) if match["perm"] else range(min(1, len(reshape))))
        elif match["device"]:
            proto.tile_assignment_dimensions.append(1)
            proto.tile_assignment_devices.append(int(match["device"]))
        elif match["last"] is not None:
            proto.last_tile_dims.extend(_KINDS[name.strip()] for name in match["last"].split(",") if name.strip())
        elif match["group"]:
            proto.is_shard_group = True
            proto.shard_group_id = int(match["group_id"])
            proto.shard_group_type = int(match["group"] == "shard_like")
        elif match["word"] == "last_tile_dim_replicate":
            proto.replicate_on_last_tile_dim = True
        elif match["word"] in _KINDS:
            proto.type = _KINDS[match["word"]]
        else:
            raise CodecError(f"unknown word '{match['word']}' in a sharding")


def _write_sharding_metadata(text: str, position: int, proto: Any) -> int:
    depth, end = 0, position
    for end in range(position, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            break
    group = text[position : end + 1]
    body = inside(group)
    for item in split_list(body) if body.strip().startswith("{") else [group]:
        write_metadata(parse_metadata(item), proto.metadata.add())
    return end + 1


def read_sharding(proto: Any) -> HloSharding:
    """Returns the sharding of an OpSharding."""
    if proto.type == 2:
        return HloSharding(elements=tuple(HloSharding(_read_single(element)) for element in proto.tuple_shardings))
    return HloSharding(_read_single(proto))


def _read_single(proto: Any) -> str:
    if proto.HasField("named_sharding"):
        return _read_named(proto.named_sharding)
    parts: list[str] = []
    if proto.type == 1:
        parts.append(f"maximal device={proto.tile_assignment_devices[0] if proto.tile_assignment_devices else 0}")
    elif proto.type in _KIND_NAMES:
        parts.append(_KIND_NAMES[proto.type])
    else:
        text = f"devices=[{_join(proto.tile_assignment_dimensions)}]"
        if proto.iota_reshape_dims:
            text += f"<=[{_join(proto.iota_reshape_dims)}]"
            if len(proto.iota_reshape_dims) > 1:
                text += f"T({_join(proto.iota_transpose_perm)})"
        else:
            text += _join(proto.tile_assignment_devices)
        parts.append(text)
    if proto.replicate_on_last_tile_dim:
        parts.append("last_tile_dim_replicate")
    if proto.last_tile_dims:
        kinds = list(proto.last_tile_dims)
        if unknown := [kind for kind in kinds if kind not in _KIND_NAMES]:
            raise CodecError(f"a sharding has the unknown kind {unknown[0]} of tile dimension")
        names = ", ".join(_KIND_NAMES[kind] for kind in kinds)
        parts.append("last_tile_dim_replicate" if kinds == [0] else f"last_tile_dims={{{names}}}")
    if proto.is_shard_group:
        parts.append(f"{'shard_like' if proto.shard_group_type else 'shard_as'} {proto.shard_group_id}")
    if proto.metadata:
        parts.append(_metadata_text(proto))
    return " ".join(parts)


def _metadata_text(proto: Any) -> str:
    items = [read_metadata_text(m) for m in proto.metadata]
    return f"metadata={items[0]}" if len(items) == 1 else f"metadata={{{', '.join(items)}}}"


def _join(values: Any) -> str:
    return ",".join(map(str, values))


# -- meshes


def write_mesh(text: str, proto: Any) -> tuple[list[str], str]:
    """Fills a MeshProto from `mesh['a'=2,'b'=4], device_ids=(...)`; returns its axis names and the rest of the text."""
    match = _MESH.match(text)
    if match is None:
        raise CodecError(f"expected mesh['axis'=size,...], found '{shorten(text)}'")
    names: list[str] = []
    for item in match["axes"].split(",") if match["axes"].strip() else ():
        axis = _MESH_AXIS.fullmatch(item)
        if axis is None:
            raise CodecError(f"expected 'axis'=size in a mesh, found '{shorten(item)}'")
        names.append(axis[1] if axis[1] is not None else axis[2])
        proto.axes.add(name=names[-1], size=int(axis[3]))
    if match["ids"] is not None:
        iota = _IOTA.fullmatch(match["ids"].strip())
        if iota is None:
            proto.device_ids.extend(_ints(match["ids"]))
        else:
            reshape = _ints(iota[1])
            proto.iota_transform.reshape_dims.extend(reshape)
            proto.iota_transform.transpose_perm.extend(_ints(iota[2]) if iota[2] else range(len(reshape)))
    return names, text[match.end() :]


def read_mesh(proto: Any) -> str:
    """Returns `mesh['a'=2,'b'=4]`, with device ids if they are not in order."""
    text = "mesh[" + ",".join(f"'{axis.name}'={axis.size}" for axis in proto.axes) + "]"
    if proto.HasField("iota_transform"):
        iota = f"[{_join(proto.iota_transform.reshape_dims)}]"
        if len(proto.iota_transform.reshape_dims) > 1:
            iota += f"T({_join(proto.iota_transform.transpose_perm)})"
        text += f", device_ids=({iota})"
    elif proto.device_ids:
        text += f", device_ids=({_join(proto.device_ids)})"
    return text


def write_axes(text: str, names: list[str], target: Any) -> bool:
    """Appends the axes of `{'a','b':(1)2,?}` to a repeated AxisRefProto; returns whether there was a `?`."""
    is_open = False
    for item in split_list(inside(text)):
        if item == "?":
            is_open = True
            continue
        match = _AXIS.fullmatch(item)
        name = match and (match["quoted"] if match["quoted"] is not None else match["plain"])
        if match is None or name not in names:
            raise CodecError(f"'{shorten(item)}' is not an axis of the mesh")
        axis = target.add(mesh_axis_index=names.index(name))
        if match["size"]:
            axis.sub_axis_info.pre_size = int(match["pre"])
            axis.sub_axis_info.size = int(match["size"])
    return is_open


def read_axes(axes: Any, mesh: Any, is_open: bool = False) -> str:
    """Returns `{'a','b':(1)2}`."""
    parts: list[str] = []
    for axis in axes:
        if not 0 <= axis.mesh_axis_index < len(mesh.axes):
            raise CodecError(f"a mesh has no axis {axis.mesh_axis_index}")
        sub = axis.sub_axis_info
        suffix = f":({sub.pre_size}){sub.size}" if axis.HasField("sub_axis_info") else ""
        parts.append(f"'{mesh.axes[axis.mesh_axis_index].name}'{suffix}")
    return "{" + ",".join(parts + ["?"] * is_open) + "}"


def _write_named(text: str, proto: Any) -> None:
    if text.startswith("maximal_mesh"):
        match = re.match(r"maximal_mesh\[device_id=(\d+)\]$", text)
        if match is None:
            raise CodecError(f"expected maximal_mesh[device_id=N], found '{shorten(text)}'")
        proto.mesh.device_ids.append(int(match[1]))
        return
    names, rest = write_mesh(text, proto.mesh)
    for item in split_list(rest):
        key, _, value = item.partition("=")
        if item.startswith("["):
            for dimension in split_list(inside(item, "[]")):
                target = proto.dim_shardings.add()
                target.is_closed = not write_axes(dimension, names, target.axes)
        elif key in ("replicated", "unreduced", "manual") and value:
            write_axes(value, names, getattr(proto, f"{key}_axes"))
        elif key in ("unreduced", "manual"):
            for i in range(len(names)):
                getattr(proto, f"{key}_axes").add(mesh_axis_index=i)
        elif key == "metadata":
            body = inside(value)
            for entry in split_list(body) if body.strip().startswith("{") else [value]:
                write_metadata(parse_metadata(entry), proto.metadata.add())
        elif key != "replicated":
            raise CodecError(f"unexpected '{shorten(item)}' in a sharding over a mesh")


def _read_named(proto: Any) -> str:
    mesh = proto.mesh
    if not mesh.axes and mesh.device_ids:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]"
    if wrong := [axis.name for axis in mesh.axes if not _AXIS_NAME.fullmatch(axis.name)]:
        raise CodecError(f"'{shorten(wrong[0])}' is no name of a mesh axis")
    parts = [read_mesh(mesh)]
    dims = ", ".join(read_axes(d.axes, mesh, not d.is_closed) for d in proto.dim_shardings)
    parts.append(f"[{dims}]")
    for key in ("replicated", "unreduced", "manual"):
        axes = getattr(proto, f"{key}_axes")
        if axes:
            parts.append(f"{key}={read_axes(axes, mesh)}")
    if len(parts) == 2 and not proto.dim_shardings:
        parts[1] = "replicated"
    if proto.metadata:
        parts.append(_metadata_text(proto))
    return ", ".join(parts)
