"""Manual computations of Shardy (`shard_map`) as regions of HLO whose devices have arrays of their own.

They come as calls between the custom calls `xla.sdy.GlobalToLocalShape` and `LocalToGlobalShape`, whose shardings are
text over a named mesh. A region that is manual on all axes is annotated as such. One that leaves axes to the compiler
names its own (`MANUAL_AXES`): the propagation begins with arrays that are whole along the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xjit.frontends.shardy_text import SHARDING, AxesSharding, leave_open, manual_axes, shardings_of
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
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.sharding.manual_regions import MANUAL_AXES, MANUAL_PART, computations_of
from xjit.passes.sharding.sharding_annotations import target_of
from xjit.passes.sharding.spmd.summands import SUMMANDS

_TO_LOCAL, _TO_GLOBAL = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_MANUAL = HloSharding(str(MANUAL))


@dataclass(frozen=True, slots=True)
class _Crossing:
    """One array at a boundary: its shape behind it, its sharding, the axes that are manual around and within."""

    call: HloInstruction
    operand: HloInstruction
    shape: Shape
    mesh: Mesh
    given: AxesSharding
    around: frozenset[str]
    within: frozenset[str]

    @property
    def is_closed(self) -> bool:
        """Whether the region leaves no axis to the compiler."""
        return covers(self.within, self.mesh)

    def outside(self) -> DeviceSharding:
        """The sharding of the array outside of the region."""
        return self._sharding(self.given.dimensions, self.around)

    def manual_part(self) -> DeviceSharding:
        """The same, split by the region's own axes only."""
        own = self.within - self.around
        return self._sharding([[a for a in axes if a.name in own] for axes in self.given.dimensions], self.around)

    def inside(self) -> DeviceSharding:
        """The sharding of the array in the region."""
        if self.is_closed:
            return MANUAL
        free = [[a for a in axes if a.name not in self.within] for axes in self.given.dimensions]
        return self._sharding(free, self.within)

    def _sharding(self, dimensions: Sequence[Sequence[AxisRef]], manual: Collection[str]) -> DeviceSharding:
        return sharding_on(self.mesh, dimensions, manual, self.call, self.shape.rank)

    def summands(self) -> HloSharding:
        """The sharding outside, of which devices along some axes have summands."""
        return HloSharding(_summands_text(self.mesh, self.given, self.around, self.call))


def import_regions(module: HloModule, meshes: Mapping[str, Mesh]) -> None:
    """Rewrites boundaries and bodies. Errors: Unsupported for what they cannot say."""
    if any(_is_body_call(i) for c in module.computations() for i in c.instructions):
        FlattenCallGraph().run(module)  # what a region shares with the rest means something else in it
    instructions = [i for c in module.computations() for i in c.instructions]
    bodies = [i for i in instructions if _is_body_call(i)]
    around: dict[HloInstruction, frozenset[str]] = {}
    own = {body: _axes_of_body(body) for body in bodies}
    for body in bodies:
        within = [i for c in computations_of(body) for i in c.instructions]
        for inner in [i for i in within if _is_boundary(i) or _is_body_call(i)]:
            around[inner] = around.get(inner, frozenset()) | own[body]
    mesh_of = {body: _mesh_of_body(body, meshes) for body in bodies}
    for call in filter(_is_boundary, instructions):
        _replace_boundary(call, meshes, around.get(call, frozenset()))
    for body in sorted(bodies, key=lambda body: len(around.get(body, ()))):
        _make_region(body, mesh_of[body], own[body] | around.get(body, frozenset()))


def _is_boundary(instruction: HloInstruction) -> bool:
    return target_of(instruction) in (_TO_LOCAL, _TO_GLOBAL)


def _is_body_call(instruction: HloInstruction) -> bool:
    return instruction.opcode == "call" and "manual_computation_body" in instruction.to_apply.name


def _boundaries_around(body: HloInstruction) -> list[HloInstruction]:
    before = [o.operand(0) if o.opcode == "get-tuple-element" else o for o in body.operands]
    after = [i for u in body.users for i in (u.users if u.opcode == "get-tuple-element" else (u,))]
    return [call for call in (*before, *after) if _is_boundary(call)]


def _axes_of_body(body: HloInstruction) -> frozenset[str]:
    """The axes on which the region of a body is manual itself: its boundaries name them."""
    return frozenset(axis for call in _boundaries_around(body) for axis in manual_axes(call))


def _mesh_of_body(body: HloInstruction, meshes: Mapping[str, Mesh]) -> Mesh | None:
    names = (s.mesh for call in _boundaries_around(body) for s in shardings_of(call, _attribute(call)))
    return next((meshes[name] for name in names if name in meshes), None)


def _attribute(call: HloInstruction) -> str:
    return "xla.sdy.in_shardings" if target_of(call) == _TO_LOCAL else "xla.sdy.out_shardings"


def _replace_boundary(call: HloInstruction, meshes: Mapping[str, Mesh], around: frozenset[str]) -> None:
    """Puts two custom calls per array in the place of one: an annotation, and the step over the boundary."""
    to_local = target_of(call) == _TO_LOCAL
    parts: list[HloInstruction] = []
    for crossing in _crossings(call, meshes, around):
        operand, open_ = crossing.operand, () if crossing.is_closed else crossing.given.open
        outside, inside = (HloSharding(str(s)) for s in (crossing.outside(), crossing.inside()))
        summands = crossing.summands() if crossing.given.unreduced else None
        first, second = (outside, inside) if to_local else (inside, summands or outside)
        annotated = _annotation(call, operand, operand.shape, "Sharding", first)
        step = "SPMDFullToShardShape" if to_local else "SPMDShardToFullShape"
        parts.append(_annotation(call, annotated, crossing.shape, step, second))
        parts[-1].frontend_attributes[MANUAL_PART] = str(crossing.manual_part())
        if to_local and summands:
            parts[-1].frontend_attributes[SUMMANDS] = summands.text
        for part in (annotated, parts[-1]) if open_ else ():
            leave_open(part, open_)
    _replace_arrays(call, parts)


def _crossings(call: HloInstruction, meshes: Mapping[str, Mesh], around: frozenset[str]) -> Iterator[_Crossing]:
    given = shardings_of(call, _attribute(call))
    if len(given) != call.operand_count:
        raise Unsupported(f"the shardings of custom-call '{call.name}' are no list of meshes and axes", call.span)
    shapes = call.shape.tuple_shapes if call.shape.is_tuple else (call.shape,)
    for operand, shape, sharding in zip(call.operands, shapes, given, strict=True):
        mesh = meshes.get(sharding.mesh)
        if mesh is None:
            raise Unsupported(f"custom-call '{call.name}' over a mesh that the module does not have", call.span)
        yield _Crossing(call, operand, shape, mesh, sharding, around, around | manual_axes(call))


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


def _annotation(
    call: HloInstruction, operand: HloInstruction, shape: Shape, target: str, sharding: HloSharding
) -> HloInstruction:
    computation = call.parent
    assert computation is not None
    made = HloInstruction.create("custom-call", shape, [operand], CustomCallAttributes(target), name=target)
    made.metadata, made.sharding = call.metadata, sharding
    return computation.add_instruction(made)


def sharding_on(
    mesh: Mesh, dimensions: Sequence[Sequence[AxisRef]], manual: Collection[str], call: HloInstruction, rank: int
) -> DeviceSharding:
    """The sharding of an array whose dimensions are split by axes; devices along `manual` ones share nothing.

    Errors: Unsupported, at `call`, for axes that the mesh has not.
    """
    split = [axis for axes in dimensions for axis in axes]
    own = [AxisRef(name) for name in mesh.names if name in manual]
    if len(dimensions) != rank or len(own) != len(set(manual)):
        raise Unsupported(f"custom-call '{call.name}' over other axes than its mesh and its array have", call.span)
    table = mesh.groups([*split, *own])
    if table is None:
        raise Unsupported(f"custom-call '{call.name}' over parts of axes that the mesh has not", call.span)
    tiles = [_count(mesh, axes) for axes in dimensions]
    return tiled(table.T.reshape(*tiles, _count(mesh, own), table.shape[0]), ("manual", "replicated"))


def _count(mesh: Mesh, axes: Sequence[AxisRef]) -> int:
    sizes = dict(mesh.axes)
    return math.prod(axis.size or sizes[axis.name] for axis in axes)


def _summands_text(mesh: Mesh, given: AxesSharding, around: Collection[str], call: HloInstruction) -> str:
    own = [AxisRef(name) for name in mesh.names if name in around]
    table = mesh.groups([*(axis for axes in given.dimensions for axis in axes), *given.unreduced, *own])
    if table is None:
        raise Unsupported(f"custom-call '{call.name}' over parts of axes that the mesh has not", call.span)
    grid = (*(_count(mesh, axes) for axes in (*given.dimensions, given.unreduced, own)), table.shape[0])
    devices = ",".join(str(device) for device in table.T.flat)
    return f"devices=[{','.join(map(str, grid))}]{devices} last_tile_dims={{unreduced, manual, replicated}}"


def _make_region(call: HloInstruction, mesh: Mesh | None, manual: frozenset[str]) -> None:
    """Marks a call of a body, and all it runs, as manual, on all axes or on some."""
    call.frontend_attributes.pop("inlineable", None)
    if mesh is not None and not covers(manual, mesh):
        call.frontend_attributes[MANUAL_AXES] = ",".join(name for name in mesh.names if name in manual)
        _constrain_in(call, mesh, manual)
        return
    for around in (call, *call.users):
        _mark(around)
    for computation in computations_of(call):
        _drop_constraints(computation)
        for instruction in computation.instructions:
            _mark(instruction)


def covers(names: Collection[str], mesh: Mesh) -> bool:
    """Whether no axis of a mesh, but those of one device, has another name."""
    return all(size == 1 or name in names for name, size in mesh.axes)


def _drop_constraints(computation: HloComputation) -> None:
    for call in [i for i in computation.instructions if target_of(i) == "Sharding"]:
        replace(call, call.operand(0))


def _constrain_in(body: HloInstruction, mesh: Mesh, manual: frozenset[str]) -> None:
    """Has constraints within a region be some on arrays of a device's own; kernels have none."""
    kept = set(computations_of(body, of_control_flow=True))
    for computation in computations_of(body):
        if computation not in kept:
            _drop_constraints(computation)
        for call in [i for i in computation.instructions if target_of(i) == "Sharding"]:
            if given := shardings_of(call, SHARDING):
                sharding = sharding_on(mesh, given[0].dimensions, manual, call, call.shape.rank)
                call.sharding = HloSharding(str(sharding))


def _mark(instruction: HloInstruction) -> None:
    leaves = sum(1 for _ in instruction.shape.leaves())
    is_tuple = instruction.shape.is_tuple
    instruction.sharding = HloSharding(elements=(_MANUAL,) * leaves) if is_tuple and leaves else _MANUAL
