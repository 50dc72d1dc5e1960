"""Meshes, their axes and orders of devices between values and protos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjit.hlo.annotations.mesh import AxisList, AxisRef, Iota, Mesh
from xjit.hlo.attributes.codecs.value_text import CodecError


def write_mesh(mesh: Mesh, proto: Any) -> None:
    """Fills a MeshProto."""
    for name, size in mesh.axes:
        proto.axes.add(name=name, size=size)
    if isinstance(mesh.device_ids, Iota):
        proto.iota_transform.reshape_dims.extend(mesh.device_ids.reshape_dims)
        proto.iota_transform.transpose_perm.extend(mesh.device_ids.transpose_perm)
    elif mesh.device_ids:
        proto.device_ids.extend(mesh.device_ids)


def read_mesh(proto: Any) -> Mesh:
    """Returns the mesh of a MeshProto."""
    ids: Iota | tuple[int, ...] | None = tuple(proto.device_ids) or None
    if proto.HasField("iota_transform"):
        ids = read_iota(proto.iota_transform.reshape_dims, proto.iota_transform.transpose_perm)
    return Mesh(tuple((axis.name, axis.size) for axis in proto.axes), ids)


def read_iota(reshape_dims: Sequence[int], transpose_perm: Sequence[int]) -> Iota | None:
    """Returns an order of devices; None if it has no dimensions."""
    return Iota(tuple(reshape_dims), tuple(transpose_perm) or (0,)) if reshape_dims else None


def write_axes(axes: Sequence[AxisRef], names: Sequence[str], target: Any) -> None:
    """Appends axes of a mesh with such names to a repeated AxisRefProto."""
    for axis in axes:
        proto = target.add(mesh_axis_index=names.index(axis.name))
        if axis.size:
            proto.sub_axis_info.pre_size = axis.pre_size
            proto.sub_axis_info.size = axis.size


def read_axes(axes: Any, mesh: Any, is_open: bool = False) -> AxisList:
    """Returns the axes of a repeated AxisRefProto over a MeshProto."""
    parts: list[AxisRef] = []
    for axis in axes:
        if not 0 <= axis.mesh_axis_index < len(mesh.axes):
            raise CodecError(f"a mesh has no axis {axis.mesh_axis_index}")
        name = mesh.axes[axis.mesh_axis_index].name
        sub = axis.sub_axis_info
        parts.append(AxisRef(name, sub.pre_size, sub.size) if axis.HasField("sub_axis_info") else AxisRef(name))
    return AxisList(tuple(parts), is_open)
