"""What is left of Shardy when JAX's converter has made HLO of a program: as shardings of HLO.

Parameters, results and constraints have shardings of HLO already. Manual computations (`shard_map`) are calls between
the custom calls `xla.sdy.GlobalToLocalShape` and `LocalToGlobalShape`, whose shardings are text over a named mesh.
The bodies become manual on all axes: on axes that a body leaves to the compiler all devices compute the same.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from xjit.hlo.annotations.device_sharding import MANUAL, DeviceSharding, tiled
from xjit.hlo.annotations.mesh import AxisRef, Mesh
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes import CustomCallAttributes, GetTupleElementAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.edit.replacing import replace
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.passes.sharding.spmd.builder import SpmdBuilder, SpmdModule
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.summands import SUMMANDS

MESHES = "xla.sdy.meshes"
_TO_LOCAL, _TO_GLOBAL = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_RESULT = "xla.sdy.FuncResultSharding"
_GROUP = "xla.sdy.ShardingGroup"
_MANUAL = HloSharding(str(MANUAL))

_MESH = re.compile(r"([\w.$-]+) = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_SIZE = re.compile(r'"([^"]+)"=(\d+)')
_SHARDING = re.compile(
    r"<@([\w.$-]+), \[((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)\](?:, replicated=\{[^}]*\})?(?:, unreduced=\{([^}]*)\})?"
)
_DIMENSION = re.compile(r"\{([^}]*)\}")
_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


def import_shardy(module: HloModule) -> tuple[Mesh, ...]:
    """Rewrites a module in place; returns the meshes it names. Errors: Unsupported for what it cannot say."""
    found = [i for c in module.computations() for i in c.instructions if _target(i).startswith("xla.sdy.")]
    meshes = _read_meshes(module.frontend_attributes.pop(MESHES, ""))
    for call in found:
        if _target(call) == _RESULT:
            replace(call, call.operand(0))
        elif _target(call) == _GROUP:
            _join_group(call)
    _keep_constraints(module)
    bodies = [i for c in module.computations() for i in c.instructions if _is_body_call(i)]
    outer: dict[HloInstruction, set[str]] = {}
    for body in bodies:
        for computation in _called(body):
            for call in filter(_is_boundary, computation.instructions):
                outer.setdefault(call, set()).update(_axes_of_body(body))
    spmd = SpmdModule(module)
    for call in filter(_is_boundary, found):
        if call in outer:
            _replace_inner_boundary(call, meshes, outer[call], spmd)
        else:
            _replace_boundary(call, meshes)
    for body in bodies:
        _make_manual(body)
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


def _target(instruction: HloInstruction) -> str:
    if instruction.opcode != "custom-call":
        return ""
    return instruction.attributes_as(CustomCallAttributes).custom_call_target


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


def _read_meshes(text: str) -> dict[str, Mesh]:
    meshes: dict[str, Mesh] = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = tuple((axis, int(size)) for axis, size in _SIZE.findall(axes))
        mesh = Mesh(sizes, tuple(int(i) for i in ids.split(",")) if ids else None)
        if mesh.has_all_devices:
            meshes[name] = mesh
    return meshes


def _is_boundary(instruction: HloInstruction) -> bool:
    return _target(instruction) in (_TO_LOCAL, _TO_GLOBAL)


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
        for call in [i for i in computation.instructions if _target(i) == "Sharding"]:
            text = _SHARDING.search(call.frontend_attributes.get("xla.sdy.sharding", ""))
            dimensions = _DIMENSION.findall(text[2]) if text else []
            open_ = [str(d) for d, axes in enumerate(dimensions) if "?" in axes]
            if open_:
                call.raw_backend_config = f"unspecified_dims=[{','.join(open_)}]"
            elif call.is_root():
                copy = HloInstruction.create("copy", call.shape, [call])
                copy.metadata = call.metadata
                computation.set_root_instruction(computation.add_instruction(copy))


def _replace_boundary(call: HloInstruction, meshes: dict[str, Mesh]) -> None:
    """Puts two custom calls per array in the place of one: an annotation, and the step over the boundary."""
    to_local = _target(call) == _TO_LOCAL
    parts: list[HloInstruction] = []
    for operand, shape, mesh, axes, summed in _boundary_arrays(call, meshes):
        sharding = HloSharding(str(_sharding(call, mesh, axes, shape.rank)))
        summands = _summands(call, mesh, axes, summed) if summed else None
        first, second = (sharding, _MANUAL) if to_local else (_MANUAL, summands or sharding)
        annotated = _annotation(call, operand, operand.shape, "Sharding", first)
        step = "SPMDFullToShardShape" if to_local else "SPMDShardToFullShape"
        parts.append(_annotation(call, annotated, shape, step, second))
        if to_local and summands:
            parts[-1].frontend_attributes[SUMMANDS] = summands.text
    _replace_arrays(call, parts)


def _replace_inner_boundary(call: HloInstruction, meshes: dict[str, Mesh], outer: set[str], spmd: SpmdModule) -> None:
    """Inside of another region, whose devices all have all of it: each takes its part, or they gather all parts."""
    builder = SpmdBuilder(spmd, call)
    parts: list[HloInstruction] = []
    for operand, shape, mesh, axes, summed in _boundary_arrays(call, meshes):
        if summed:
            raise Unsupported(f"custom-call '{call.name}': arrays of summands in a region within another", call.span)
        split, whole = (_sharding(call, mesh, some, shape.rank, outer) for some in (axes, [[]] * shape.rank))
        if _target(call) == _TO_LOCAL:
            part = reshard(PartitionedHlo(operand, operand.shape, whole), split, builder)
        else:
            part = reshard(PartitionedHlo(operand, shape, split), whole, builder)
        parts.append(part.local)
    _replace_arrays(call, parts)


def _boundary_arrays(
    call: HloInstruction, meshes: dict[str, Mesh]
) -> Iterator[tuple[HloInstruction, Shape, Mesh, list[list[AxisRef]], list[AxisRef]]]:
    """Yields the operands of a boundary, their shapes behind it, the manual axes that split each dimension, and those
    whose devices have summands.
    """
    attribute = "xla.sdy.in_shardings" if _target(call) == _TO_LOCAL else "xla.sdy.out_shardings"
    manual, given = _manual_axes(call), call.frontend_attributes.get(attribute, "")
    texts = _SHARDING.findall(given)
    if len(texts) != call.operand_count:
        raise Unsupported(f"the shardings of custom-call '{call.name}' are no list of meshes and axes", call.span)
    shapes = call.shape.tuple_shapes if call.shape.is_tuple else (call.shape,)
    for operand, shape, (name, text, summed) in zip(call.operands, shapes, texts, strict=True):
        mesh = meshes.get(name)
        if mesh is None:
            raise Unsupported(f"custom-call '{call.name}' over a mesh that the module does not have", call.span)
        sizes = dict(mesh.axes)
        *dimensions, added = (
            [AxisRef(n, int(pre or 1), int(size or sizes[n])) for n, pre, size in _AXIS.findall(part) if n in manual]
            for part in (*_DIMENSION.findall(text), summed)
        )
        yield operand, shape, mesh, dimensions, added


def _replace_arrays(call: HloInstruction, parts: Sequence[HloInstruction]) -> None:
    """Puts arrays into the place of a call's."""
    computation = call.parent
    assert computation is not None
    if not call.shape.is_tuple:
        replace(call, parts[0])
        return
    for user in list(call.users):
        if user.opcode != "get-tuple-element":
            raise Unsupported(f"custom-call '{call.name}' as a whole tuple", call.span)
        replace(user, parts[user.attributes_as(GetTupleElementAttributes).index])
    if call.parent is not None:
        computation.force_remove_instruction(call)


def _manual_axes(call: HloInstruction) -> set[str]:
    return {name for name, _, _ in _AXIS.findall(call.frontend_attributes.get("xla.sdy.manual_axes", ""))}


def _axes_of_body(body: HloInstruction) -> set[str]:
    """The axes on which the region of a body is manual: its boundaries name them."""
    around = [i for o in body.operands for i in (o, *o.operands)] + [i for u in body.users for i in (u, *u.users)]
    return {axis for call in filter(_is_boundary, around) for axis in _manual_axes(call)}


def _annotation(
    call: HloInstruction, operand: HloInstruction, shape: Shape, target: str, sharding: HloSharding
) -> HloInstruction:
    computation = call.parent
    assert computation is not None
    made = HloInstruction.create("custom-call", shape, [operand], CustomCallAttributes(target), name=target)
    made.metadata, made.sharding = call.metadata, sharding
    return computation.add_instruction(made)


def _sharding(
    call: HloInstruction, mesh: Mesh, dimensions: Sequence[Sequence[AxisRef]], rank: int, outer: Collection[str] = ()
) -> DeviceSharding:
    """The sharding of an array whose dimensions are split by axes; devices of different `outer` parts share nothing."""
    split = [axis for axes in dimensions for axis in axes]
    if len(dimensions) != rank or not set(outer) <= set(mesh.names):
        raise Unsupported(f"custom-call '{call.name}' over other axes than its mesh and its array have", call.span)
    table = mesh.groups([*split, *map(AxisRef, outer)])
    if table is None:
        raise Unsupported(f"custom-call '{call.name}' over parts of axes that the mesh has not", call.span)
    tiles = [math.prod(axis.size for axis in axes) for axes in dimensions]
    alone = math.prod(size for name, size in mesh.axes if name in outer)
    return tiled(table.T.reshape(*tiles, alone, table.shape[0]), ("manual", "replicated"))


def _summands(
    call: HloInstruction, mesh: Mesh, dimensions: Sequence[Sequence[AxisRef]], summed: list[AxisRef]
) -> HloSharding:
    """The sharding of an array that is split by axes and of which devices along other axes have summands."""
    table = mesh.groups([*(axis for axes in dimensions for axis in axes), *summed])
    if table is None:
        raise Unsupported(f"custom-call '{call.name}' over parts of axes that the mesh has not", call.span)
    tiles = [math.prod(axis.size for axis in axes) for axes in (*dimensions, summed)]
    grid = (*tiles, table.shape[0])
    devices = ",".join(str(device) for device in table.T.flat)
    return HloSharding(f"devices=[{','.join(map(str, grid))}]{devices} last_tile_dims={{unreduced, replicated}}")


def _is_body_call(instruction: HloInstruction) -> bool:
    return instruction.opcode == "call" and "manual_computation_body" in instruction.to_apply.name


def _make_manual(call: HloInstruction) -> None:
    """Marks a call of a body, and all it runs, as manual; annotations inside are for axes that nobody splits."""
    call.frontend_attributes.pop("inlineable", None)
    _mark(call)
    for user in call.users:
        _mark(user)
    for computation in _called(call):
        for instruction in list(computation.instructions):
            if _target(instruction) == "Sharding":
                replace(instruction, instruction.operand(0))
        for instruction in computation.instructions:
            _mark(instruction)


def _mark(instruction: HloInstruction) -> None:
    leaves = sum(1 for _ in instruction.shape.leaves())
    is_tuple = instruction.shape.is_tuple
    instruction.sharding = HloSharding(elements=(_MANUAL,) * leaves) if is_tuple and leaves else _MANUAL


def _called(call: HloInstruction) -> Iterator[HloComputation]:
    """The computations that an instruction runs, and those that they run."""
    pending, seen = list(call.called_computations), set[HloComputation]()
    while pending:
        computation = pending.pop()
        if computation not in seen:
            seen.add(computation)
            yield computation
            pending += [c for i in computation.instructions for c in i.called_computations]
