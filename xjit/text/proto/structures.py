"""Structured attributes (windows, slices, replica groups, ...) to and from their messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xjit.hlo.annotations.mesh import IotaGroups, MeshGroups
from xjit.hlo.attributes import (
    ConvolutionDimensionNumbers,
    PaddingDimension,
    ReplicaGroups,
    SliceDimension,
    Window,
    WindowDimension,
)
from xjit.hlo.attributes.codecs.meshes import parse_compact_groups
from xjit.hlo.attributes.codecs.scalars import parse_int, parse_int_list
from xjit.hlo.attributes.codecs.shardings import parse_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError, inside, shorten, split_items, split_list, unquote
from xjit.hlo.types.shape_index import format_shape_index
from xjit.text.proto import hlo_pb2 as pb
from xjit.text.proto.mesh import read_axes, read_iota, read_mesh, write_axes, write_mesh
from xjit.text.proto.sharding import read_sharding, write_sharding

_WINDOW_FIELDS = WindowDimension.__slots__
_CONV_SINGLE = tuple(name for name in ConvolutionDimensionNumbers.__slots__ if not name.endswith("spatial_dimensions"))
_CONV_LISTS = tuple(name for name in ConvolutionDimensionNumbers.__slots__ if name.endswith("spatial_dimensions"))
_ALIAS = re.compile(r"(\{[\d,\s]*\})\s*:\s*\(\s*(\d+)\s*(?:,\s*(\{[\d,\s]*\})\s*)?(?:,[^)]*)?\)")


def write_window(window: Window, proto: Any) -> None:
    """Fills `window`."""
    proto.window.SetInParent()
    for dimension in window.dimensions:
        proto.window.dimensions.add(**{name: getattr(dimension, name) for name in _WINDOW_FIELDS})


def read_window(proto: Any) -> Window:
    """Returns `window`."""
    return Window(
        tuple(WindowDimension(**{name: getattr(d, name) for name in _WINDOW_FIELDS}) for d in proto.window.dimensions)
    )


def write_dim_labels(numbers: ConvolutionDimensionNumbers, proto: Any) -> None:
    """Fills `convolution_dimension_numbers`."""
    target = proto.convolution_dimension_numbers
    for name in _CONV_SINGLE:
        setattr(target, name, getattr(numbers, name))
    for name in _CONV_LISTS:
        getattr(target, name).extend(getattr(numbers, name))


def read_dim_labels(proto: Any) -> ConvolutionDimensionNumbers:
    """Returns `convolution_dimension_numbers`."""
    source = proto.convolution_dimension_numbers
    fields: dict[str, Any] = {name: getattr(source, name) for name in _CONV_SINGLE}
    fields.update((name, tuple(getattr(source, name))) for name in _CONV_LISTS)
    return ConvolutionDimensionNumbers(**fields)


def write_slices(dimensions: tuple[SliceDimension, ...], proto: Any) -> None:
    """Fills `slice_dimensions`."""
    for d in dimensions:
        proto.slice_dimensions.add(start=d.start, limit=d.limit, stride=d.stride)


def read_slices(proto: Any) -> tuple[SliceDimension, ...]:
    """Returns `slice_dimensions`."""
    return tuple(SliceDimension(d.start, d.limit, d.stride) for d in proto.slice_dimensions)


def write_padding(dimensions: tuple[PaddingDimension, ...], proto: Any) -> None:
    """Fills `padding_config`."""
    proto.padding_config.SetInParent()
    for d in dimensions:
        proto.padding_config.dimensions.add(
            edge_padding_low=d.edge_padding_low,
            edge_padding_high=d.edge_padding_high,
            interior_padding=d.interior_padding,
        )


def read_padding(proto: Any) -> tuple[PaddingDimension, ...]:
    """Returns `padding_config`."""
    return tuple(
        PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
        for d in proto.padding_config.dimensions
    )


def write_precision(words: tuple[str, ...], proto: Any) -> None:
    """Fills the operand precisions of `precision_config`."""
    proto.precision_config.operand_precision.extend(pb.PrecisionConfig.Precision.Value(w.upper()) for w in words)


def read_precision(proto: Any) -> tuple[str, ...]:
    """Returns the operand precisions; none if all are default."""
    values = list(proto.precision_config.operand_precision)
    return tuple(pb.PrecisionConfig.Precision.Name(v).lower() for v in values) if any(values) else ()


def write_accuracy(text: str, proto: Any) -> None:
    """Fills `result_accuracy` from a checked `{mode=highest}` or `{tolerance={atol=0,rtol=0,ulps=1}}`."""
    if not text:
        return
    key, _, value = inside(text).strip().partition("=")
    if key.strip() == "mode":
        proto.result_accuracy.mode = pb.ResultAccuracy.Mode.Value(value.strip().upper())
        return
    for item in split_list(inside(value.strip())):
        name, number = (part.strip() for part in item.split("=", 1))
        setattr(proto.result_accuracy.tolerance, name, parse_int(number) if name == "ulps" else float(number))


def read_accuracy(proto: Any) -> str:
    """Returns the text of `result_accuracy`; nothing if it is the default."""
    accuracy = proto.result_accuracy
    if accuracy.HasField("tolerance"):
        t = accuracy.tolerance
        return f"{{tolerance={{atol={t.atol:g},rtol={t.rtol:g},ulps={t.ulps}}}}}"
    return "" if accuracy.mode == 0 else f"{{mode={pb.ResultAccuracy.Mode.Name(accuracy.mode).lower()}}}"


def write_aliasing(text: str, proto: Any) -> None:
    """Fills `output_operand_aliasing` from `{{}: (0, {}), {1}: (2, {0})}`."""
    for output, operand, index in alias_entries(text):
        proto.output_operand_aliasing.add(output_shape_index=output, operand_index=operand, operand_shape_index=index)


def alias_entries(text: str) -> list[tuple[tuple[int, ...], int, tuple[int, ...]]]:
    """Returns (output index, operand, operand index) of each entry of an aliasing text."""
    entries: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    for item, offset in split_items(inside(text)) if text and inside(text).strip() else ():
        match = _ALIAS.fullmatch(item)
        if match is None:
            raise CodecError(f"expected {{output}}: (operand, {{index}}), found '{shorten(item)}'", offset + 1)
        index = parse_int_list(match[3]) if match[3] else ()
        entries.append((parse_int_list(match[1]), int(match[2]), index))
    return entries


def read_aliasing(proto: Any) -> str:
    """Returns the text of `output_operand_aliasing`; nothing if there is none."""
    entries = [
        f"{format_shape_index(a.output_shape_index)}: ({a.operand_index}, {format_shape_index(a.operand_shape_index)})"
        for a in proto.output_operand_aliasing
    ]
    return "{" + ", ".join(entries) + "}" if entries else ""


def write_replica_groups(groups: ReplicaGroups, proto: Any) -> None:
    """Fills the device list of a collective: plain groups, an iota, or axes of a mesh."""
    if not groups.text:
        proto.collective_device_list.SetInParent()
        for group in groups.groups:
            proto.collective_device_list.replica_groups.add(replica_ids=group)
        return
    compact = parse_compact_groups(groups.text)
    if isinstance(compact, MeshGroups):
        target = proto.mesh_axes_replica_group_list
        write_mesh(compact.mesh, target.mesh)
        write_axes(compact.axes.axes, compact.mesh.names, target.axes)
        return
    target = proto.iota_collective_device_list
    target.num_replica_groups, target.num_devices_per_group = compact.count, compact.size
    target.iota_reshape_dims.extend(compact.order.reshape_dims)
    target.iota_transpose_perm.extend(compact.order.transpose_perm)


def read_replica_groups(proto: Any) -> ReplicaGroups:
    """Returns the device list of a collective."""
    if proto.HasField("mesh_axes_replica_group_list"):
        source = proto.mesh_axes_replica_group_list
        return ReplicaGroups(text=str(MeshGroups(read_mesh(source.mesh), read_axes(source.axes, source.mesh))))
    if proto.HasField("iota_collective_device_list"):
        source = proto.iota_collective_device_list
        order = read_iota(source.iota_reshape_dims, source.iota_transpose_perm)
        if order is None:
            raise CodecError("replica groups by an order of devices have none")
        return ReplicaGroups(text=str(IotaGroups(source.num_replica_groups, source.num_devices_per_group, order)))
    groups = proto.collective_device_list.replica_groups or proto.replica_groups
    return ReplicaGroups(tuple(tuple(g.replica_ids) for g in groups))


def write_pairs(pairs: tuple[tuple[int, ...], ...], proto: Any) -> None:
    """Fills `source_target_pairs`."""
    for pair in pairs:
        if len(pair) != 2:
            raise CodecError(f"a source-target pair has {len(pair)} numbers")
        proto.source_target_pairs.add(source=pair[0], target=pair[1])


def read_pairs(proto: Any) -> tuple[tuple[int, ...], ...]:
    """Returns `source_target_pairs`."""
    return tuple((p.source, p.target) for p in proto.source_target_pairs)


def write_domain(text: str, proto: Any) -> None:
    """Fills the shardings of `{kind="sharding", entry={...}, exit={...}}`."""
    for item in split_list(inside(text)):
        key, _, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if key == "kind":
            if unquote(value) != "sharding":
                raise CodecError(f"unknown kind of domain {shorten(value)}")
        elif key in ("entry", "exit"):
            # XLA's proto names the sides as the data flows: what the text calls entry is the proto's exit.
            target = proto.domain_exit_sharding if key == "entry" else proto.domain_entry_sharding
            write_sharding(parse_sharding(value), target)
        else:
            raise CodecError(f"unexpected '{shorten(item)}' in a domain")


def read_domain(proto: Any) -> str:
    """Returns the text of a domain."""
    entry, leave = read_sharding(proto.domain_exit_sharding), read_sharding(proto.domain_entry_sharding)
    return f'{{kind="sharding", entry={entry}, exit={leave}}}'


def write_thread(name: str, proto: Any) -> None:
    """Fills `async_execution_thread`; the main thread has no name."""
    if name and name != "main":
        proto.async_execution_thread = name


def shortest(value: float) -> float:
    """Returns the number with the fewest digits that is this 32-bit float."""
    return float(str(np.float32(value)))


def write_api_version(word: str, proto: Any) -> None:
    """Fills `custom_call_api_version`; no word is the original one."""
    proto.custom_call_api_version = pb.CustomCallApiVersion.Value(word or "API_VERSION_ORIGINAL")


def read_api_version(proto: Any) -> str:
    """Returns the API version of a custom call; nothing for the original one."""
    number = proto.custom_call_api_version
    return pb.CustomCallApiVersion.Name(number) if number > 1 else ""
