"""Shardings between HLO text and `OpSharding`, with those over meshes."""

from __future__ import annotations

import re
from typing import Any

from xjit.hlo.annotations.mesh import Iota, NamedSharding, OpSharding, join_numbers
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.shardings import format_sharding_metadata, parse_array_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError, shorten
from xjit.text.proto import hlo_pb2
from xjit.text.proto.mesh import read_axes, read_iota, read_mesh, write_axes, write_mesh
from xjit.text.proto.metadata import read_metadata, write_metadata

_KINDS = {"replicated": 0, "maximal": 1, "": 3, "manual": 4, "unknown": 5, "unreduced": 6}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
_AXIS_NAME = re.compile(r"[^'{}()\[\]\"]+")
_FURTHER_AXES = ("replicated", "unreduced", "manual")


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


def read_sharding(proto: Any) -> HloSharding:
    """Returns the sharding of an OpSharding."""
    if proto.type == 2:
        return HloSharding(elements=tuple(HloSharding(_read_single(element)) for element in proto.tuple_shardings))
    return HloSharding(_read_single(proto))


def _write_single(text: str, proto: Any) -> None:
    sharding = parse_array_sharding(text)
    if isinstance(sharding, NamedSharding):
        _write_named(sharding, proto.named_sharding)
    else:
        _write_by_devices(sharding, proto)


def _write_by_devices(sharding: OpSharding, proto: Any) -> None:
    proto.type = _KINDS[sharding.kind]
    proto.tile_assignment_dimensions.extend([1] if sharding.kind == "maximal" else sharding.tiles)
    if isinstance(sharding.devices, Iota):
        proto.iota_reshape_dims.extend(sharding.devices.reshape_dims)
        proto.iota_transpose_perm.extend(sharding.devices.transpose_perm)
    else:
        proto.tile_assignment_devices.extend(sharding.devices)
    proto.last_tile_dims.extend(_KINDS[name] for name in sharding.last_tile_dims)
    proto.replicate_on_last_tile_dim = sharding.replicate_on_last_tile_dim
    if sharding.group:
        kind, number = sharding.group.split()
        proto.is_shard_group = True
        proto.shard_group_id = int(number)
        proto.shard_group_type = int(kind == "shard_like")
    for metadata in sharding.metadata:
        write_metadata(metadata, proto.metadata.add())


def _read_single(proto: Any) -> str:
    if proto.HasField("named_sharding"):
        return _read_named(proto.named_sharding)
    parts = [_KIND_NAMES.get(proto.type, "")]
    if parts == ["maximal"]:
        parts.append(f"device={proto.tile_assignment_devices[0] if proto.tile_assignment_devices else 0}")
    elif not parts[0]:
        iota = read_iota(proto.iota_reshape_dims, proto.iota_transpose_perm)
        devices = f"<={iota}" if iota else join_numbers(proto.tile_assignment_devices)
        parts = [f"devices=[{join_numbers(proto.tile_assignment_dimensions)}]{devices}"]
    if proto.replicate_on_last_tile_dim:
        parts.append("last_tile_dim_replicate")
    if proto.last_tile_dims:
        kinds = list(proto.last_tile_dims)
        if unknown := [kind for kind in kinds if not _KIND_NAMES.get(kind)]:
            raise CodecError(f"a sharding has the unknown kind {unknown[0]} of tile dimension")
        names = ", ".join(_KIND_NAMES[kind] for kind in kinds)
        parts.append("last_tile_dim_replicate" if kinds == [0] else f"last_tile_dims={{{names}}}")
    if proto.is_shard_group:
        parts.append(f"{'shard_like' if proto.shard_group_type else 'shard_as'} {proto.shard_group_id}")
    parts.append(_read_metadata(proto))
    return " ".join(filter(None, parts))


def _write_named(sharding: NamedSharding, proto: Any) -> None:
    write_mesh(sharding.mesh, proto.mesh)
    names = sharding.mesh.names
    for dimension in sharding.dimensions:
        target = proto.dim_shardings.add()
        target.is_closed = not dimension.is_open
        write_axes(dimension.axes, names, target.axes)
    for kind, axes in sharding.others:
        write_axes(axes.axes, names, getattr(proto, f"{kind}_axes"))
    if sharding.kind in ("unreduced", "manual"):
        for i in range(len(names)):
            getattr(proto, f"{sharding.kind}_axes").add(mesh_axis_index=i)
    for metadata in sharding.metadata:
        write_metadata(metadata, proto.metadata.add())


def _read_named(proto: Any) -> str:
    mesh = proto.mesh
    if not mesh.axes and mesh.device_ids:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]"
    if wrong := [axis.name for axis in mesh.axes if not _AXIS_NAME.fullmatch(axis.name)]:
        raise CodecError(f"'{shorten(wrong[0])}' is no name of a mesh axis")
    dims = ", ".join(str(read_axes(d.axes, mesh, not d.is_closed)) for d in proto.dim_shardings)
    parts = [str(read_mesh(mesh)), f"[{dims}]"]
    for key in _FURTHER_AXES:
        if axes := getattr(proto, f"{key}_axes"):
            parts.append(f"{key}={read_axes(axes, mesh)}")
    if len(parts) == 2 and not proto.dim_shardings:
        parts[1] = "replicated"
    parts.append(_read_metadata(proto))
    return ", ".join(filter(None, parts))


def _read_metadata(proto: Any) -> str:
    return format_sharding_metadata([read_metadata(m) for m in proto.metadata])
