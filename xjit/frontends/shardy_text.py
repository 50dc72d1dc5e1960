"""Shardy's attributes as JAX's converter leaves them in HLO: text over named meshes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xjit.hlo.annotations.mesh import AxisRef, Mesh
from xjit.hlo.ir.instruction import HloInstruction

SHARDING: Final = "xla.sdy.sharding"
"""The frontend attribute of a constraint."""

_MESH = re.compile(r"([\w.$-]+) = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_SIZE = re.compile(r'"([^"]+)"=(\d+)')
_SHARDING = re.compile(
    r"<@([\w.$-]+), \[((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)\](?:, replicated=\{[^}]*\})?(?:, unreduced=\{([^}]*)\})?"
)
_DIMENSION = re.compile(r"\{([^}]*)\}")
_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


@dataclass(frozen=True, slots=True)
class AxesSharding:
    """The sharding of one array: the axes that split each dimension, those whose devices have summands (`unreduced`),
    and the dimensions that may be split further (`open`). A `size` of 0 is the whole axis.
    """

    mesh: str
    dimensions: tuple[tuple[AxisRef, ...], ...]
    unreduced: tuple[AxisRef, ...]
    open: tuple[int, ...]


def read_meshes(text: str) -> dict[str, Mesh]:
    """Returns the meshes of a module, by name; those without devices are left out."""
    meshes: dict[str, Mesh] = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = tuple((axis, int(size)) for axis, size in _SIZE.findall(axes))
        mesh = Mesh(sizes, tuple(int(i) for i in ids.split(",")) if ids else None)
        if mesh.has_all_devices:
            meshes[name] = mesh
    return meshes


def shardings_of(instruction: HloInstruction, attribute: str) -> list[AxesSharding]:
    """Returns the shardings that a frontend attribute lists."""
    found = _SHARDING.findall(instruction.frontend_attributes.get(attribute, ""))
    return [_sharding(*texts) for texts in found]


def _sharding(mesh: str, text: str, unreduced: str) -> AxesSharding:
    dimensions = _DIMENSION.findall(text)
    open_ = tuple(d for d, axes in enumerate(dimensions) if "?" in axes)
    return AxesSharding(mesh, tuple(map(_axes, dimensions)), _axes(unreduced), open_)


def _axes(text: str) -> tuple[AxisRef, ...]:
    return tuple(AxisRef(name, int(pre or 1), int(size or 0)) for name, pre, size in _AXIS.findall(text))


def manual_axes(call: HloInstruction) -> frozenset[str]:
    """The axes on which the region behind a boundary is manual."""
    return frozenset(axis.name for axis in _axes(call.frontend_attributes.get("xla.sdy.manual_axes", "")))


def leave_open(call: HloInstruction, dimensions: Sequence[int]) -> None:
    """Says of an annotation which dimensions may be split further."""
    call.raw_backend_config = f"unspecified_dims=[{','.join(map(str, dimensions))}]"
