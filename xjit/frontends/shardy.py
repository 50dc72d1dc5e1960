"""What is left of Shardy when JAX's converter has made HLO of a program: as shardings of HLO.

Parameters, results and constraints have shardings of HLO already; manual computations are `shardy_regions`'.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.frontends.shardy_regions import import_regions
from xjit.frontends.shardy_text import SHARDING, leave_open, read_meshes, shardings_of
from xjit.hlo.annotations.device_sharding import DeviceSharding, tiled
from xjit.hlo.annotations.mesh import Mesh
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.edit.replacing import replace
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.passes.sharding.sharding_annotations import target_of

MESHES = "xla.sdy.meshes"
_RESULT = "xla.sdy.FuncResultSharding"
_GROUP = "xla.sdy.ShardingGroup"


def import_shardy(module: HloModule) -> tuple[Mesh, ...]:
    """Rewrites a module in place; returns the meshes it names. Errors: Unsupported for what it cannot say."""
    found = [i for c in module.computations() for i in c.instructions if target_of(i).startswith("xla.sdy.")]
    meshes = read_meshes(module.frontend_attributes.pop(MESHES, ""))
    for call in found:
        if target_of(call) == _RESULT:
            replace(call, call.operand(0))
        elif target_of(call) == _GROUP:
            _join_group(call)
    _keep_constraints(module)
    import_regions(module, meshes)
    return tuple(meshes.values())


def split_constants(module: HloModule) -> None:
    """Gives each use of an array of constants one of its own: uses may be split in different ways."""
    for computation in module.computations():
        for instruction in [i for i in computation.instructions if _is_constant_array(i)]:
            users = list(instruction.users)
            uses = [(user, n) for user in users for n, operand in enumerate(user.operands) if operand is instruction]
            for user, number in uses[1:]:
                copy = computation.add_instruction(instruction.clone())
                user.replace_operand_with(number, copy)


def _is_constant_array(instruction: HloInstruction) -> bool:
    if instruction.opcode == "broadcast":
        return instruction.operand(0).opcode == "constant"
    return instruction.opcode == "iota" or (instruction.opcode == "constant" and bool(instruction.shape.rank))


def on_whole_axes(mesh: Mesh, sharding: DeviceSharding, dimensions: Sequence[int]) -> DeviceSharding | None:
    """The sharding that JAX's PartitionSpecs can say: each dimension keeps the first of its axes, as long as these
    are whole and divide it evenly. None for a sharding of other devices than the mesh's.
    """
    if not sharding.is_tiled:
        return sharding
    devices = mesh.devices()
    if sorted(sharding.devices) != sorted(int(i) for i in devices.flat):
        return None
    cells = np.stack(np.unravel_index(np.argsort(np.array(sharding.devices)), sharding.tiles), axis=-1)
    coordinates = cells[devices]
    kept = [_whole_axes(coordinates[..., d], size) for d, size in enumerate(dimensions)]
    split = [axis for axes in kept for axis in axes]
    order = [*split, *(axis for axis in range(devices.ndim) if axis not in split)]
    tiles = [math.prod(devices.shape[axis] for axis in axes) for axes in kept]
    return tiled(devices.transpose(order).reshape(*tiles, -1), ("replicated",))


def _whole_axes(tiles: np.ndarray[Any, np.dtype[np.int64]], size: int) -> list[int]:
    """The axes, major to minor, that split a dimension of a size into tiles, of which each device has one."""
    lines = [tiles[(0,) * axis + (slice(None),) + (0,) * (tiles.ndim - axis - 1)] for axis in range(tiles.ndim)]
    if not (functools.reduce(np.add.outer, lines) == tiles).all():
        return []
    kept: list[int] = []
    count = 1
    for axis in sorted((a for a in range(tiles.ndim) if lines[a].any()), key=lambda a: -lines[a].max()):
        line = lines[axis]
        count *= len(line)
        if not (line == np.arange(len(line)) * line[1]).all() or size % count:
            break
        kept.append(axis)
    return kept


def _join_group(call: HloInstruction) -> None:
    """Puts the operand of a group's call under an annotation of HLO's that says the same."""
    number = call.frontend_attributes.get("xla.sdy.sharding_group_id", "").split(":")[0].strip()
    operand, computation = call.operand(0), call.parent
    assert computation is not None
    computation.force_remove_instruction(call)
    copy = computation.add_instruction(HloInstruction.create("copy", operand.shape, ()))
    copy.metadata, copy.sharding = call.metadata, HloSharding(f"unknown shard_as {number}")
    operand.replace_all_uses_with(copy)
    copy.append_operand(operand)


def _keep_constraints(module: HloModule) -> None:
    """Says of constraints which dimensions they leave open; no other may be improved, not even as the result."""
    for computation in module.computations():
        for call in [i for i in computation.instructions if target_of(i) == "Sharding"]:
            given = shardings_of(call, SHARDING)
            if given and given[0].open:
                leave_open(call, given[0].open)
            elif call.is_root():
                copy = HloInstruction.create("copy", call.shape, [call])
                copy.metadata = call.metadata
                computation.set_root_instruction(computation.add_instruction(copy))
