"""What is left of Shardy when JAX's converter has made HLO of a program: as shardings of HLO.

Parameters, results and constraints have shardings of HLO already. Manual computations (`shard_map`) are calls between
the custom calls `xla.sdy.GlobalToLocalShape` and `LocalToGlobalShape`, whose shardings are text over a named mesh.
The bodies become manual on all axes: on axes that a body leaves to the compiler all devices compute the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from xjit.hlo.annotations.device_sharding import MANUAL, tiled
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes import CustomCallAttributes, GetTupleElementAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.edit.replacing import replace
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.ops.mesh_groups import mesh_table

MESHES = "xla.sdy.meshes"
_TO_LOCAL, _TO_GLOBAL = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_RESULT = "xla.sdy.FuncResultSharding"
_MANUAL = HloSharding(str(MANUAL))

_MESH = re.compile(r"([\w.$-]+) = #sdy\.mesh<\[([^\]]*)\](?:, device_ids=\[([\d, ]*)\])?>")
_SIZE = re.compile(r'"([^"]+)"=(\d+)')
_SHARDING = re.compile(r"<@([\w.$-]+), \[((?:\{[^}]*\}(?:p\d+)?(?:, )?)*)\]")
_DIMENSION = re.compile(r"\{([^}]*)\}")
_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


def import_shardy(module: HloModule) -> bool:
    """Rewrites a module in place; True if it had something of Shardy's. Errors: Unsupported for what it cannot say."""
    found = [i for c in module.computations() for i in c.instructions if _target(i).startswith("xla.sdy.")]
    meshes = _read_meshes(module.frontend_attributes.pop(MESHES, ""))
    for call in found:
        if _target(call) == _RESULT:
            replace(call, call.operand(0))
    regions = [call for call in found if _target(call) in (_TO_LOCAL, _TO_GLOBAL)]
    for call in regions:
        _check_outermost(call)
    for call in regions:
        _replace_boundary(call, meshes)
    for computation in list(module.computations()):
        for call in [i for i in computation.instructions if _is_body_call(i)]:
            _make_manual(call)
    return bool(found)


def _target(instruction: HloInstruction) -> str:
    if instruction.opcode != "custom-call":
        return ""
    return instruction.attributes_as(CustomCallAttributes).custom_call_target


class _Mesh:
    """The devices of a mesh, and its axes in order."""

    def __init__(self, axes: dict[str, int], devices: Sequence[int]) -> None:
        self.axes = axes
        self.devices = np.array(devices, dtype=np.int64).reshape(tuple(axes.values()))


def _read_meshes(text: str) -> dict[str, _Mesh]:
    meshes: dict[str, _Mesh] = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = {axis: int(size) for axis, size in _SIZE.findall(axes)}
        count = int(np.prod(list(sizes.values()), dtype=np.int64))
        devices = [int(i) for i in ids.split(",")] if ids else range(count)
        if len(devices) == count:
            meshes[name] = _Mesh(sizes, devices)
    return meshes


def _check_outermost(call: HloInstruction) -> None:
    computation = call.parent
    assert computation is not None
    if "manual_computation_body" in computation.name:
        raise Unsupported("a shard_map inside of another one", call.span)


def _replace_boundary(call: HloInstruction, meshes: dict[str, _Mesh]) -> None:
    """Puts two custom calls per array in the place of one: an annotation, and the step over the boundary."""
    to_local = _target(call) == _TO_LOCAL
    attribute = "xla.sdy.in_shardings" if to_local else "xla.sdy.out_shardings"
    manual = {name for name, _, _ in _AXIS.findall(call.frontend_attributes.get("xla.sdy.manual_axes", ""))}
    texts = _SHARDING.findall(call.frontend_attributes.get(attribute, ""))
    if len(texts) != call.operand_count:
        raise Unsupported(f"the shardings of custom-call '{call.name}' are no list of meshes and axes", call.span)
    shapes = call.shape.tuple_shapes if call.shape.is_tuple else (call.shape,)
    parts: list[HloInstruction] = []
    for operand, shape, (mesh, dimensions) in zip(call.operands, shapes, texts, strict=True):
        sharding = _sharding(call, meshes.get(mesh), dimensions, manual)
        first, second = (sharding, _MANUAL) if to_local else (_MANUAL, sharding)
        annotated = _annotation(call, operand, operand.shape, "Sharding", first)
        step = "SPMDFullToShardShape" if to_local else "SPMDShardToFullShape"
        parts.append(_annotation(call, annotated, shape, step, second))
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


def _annotation(
    call: HloInstruction, operand: HloInstruction, shape: Shape, target: str, sharding: HloSharding
) -> HloInstruction:
    computation = call.parent
    assert computation is not None
    made = HloInstruction.create("custom-call", shape, [operand], CustomCallAttributes(target), name=target)
    made.metadata, made.sharding = call.metadata, sharding
    return computation.add_instruction(made)


def _sharding(call: HloInstruction, mesh: _Mesh | None, text: str, manual: set[str]) -> HloSharding:
    """The sharding of an array whose dimensions are split by the manual ones of the listed axes."""
    if mesh is None:
        raise Unsupported(f"custom-call '{call.name}' over a mesh that the module does not have", call.span)
    axes: list[tuple[str, int, int]] = []
    tiles: list[int] = []
    for dimension in _DIMENSION.findall(text):
        listed = [(n, int(pre or 1), int(size or mesh.axes[n])) for n, pre, size in _AXIS.findall(dimension)]
        kept = [axis for axis in listed if axis[0] in manual]
        axes += kept
        tiles.append(int(np.prod([size for _, _, size in kept], dtype=np.int64)))
    table = mesh_table(mesh.devices, mesh.axes, axes)
    if table is None:
        raise Unsupported(f"custom-call '{call.name}' over parts of axes that the mesh has not", call.span)
    grid = table.T.reshape(*tiles, table.shape[0])
    return HloSharding(str(tiled(grid, ("replicated",))))


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
