"""Collectives: a kernel hands its operands and results to the runtime, which knows the other devices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.emitters.entry.context_calls import emit_fail
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import RuntimeStatus
from xjit.llvm.inline_control_flow import return_if
from xjit.llvm.types import I32, I64, PTR, array
from xjit.llvm.values import Value, const_int
from xjit.ops.replica_groups import Groups, device_groups, permuted_devices
from xjit.thunks.collective_spec import CollectiveSpec, MovedArray

KIND = "collective"
"""The kind of kernels that wait for other devices."""

NS_PER_MEETING = 50_000.0


def emit_collective(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a collective that moves data. Errors: Unsupported for layouts that are not row-major."""
    collective = view.hero
    spec = collective_spec(collective)
    function, leaves, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    operands = _pointers(builder, [leaves[o].pointer for o in collective.operands])
    outputs = _pointers(builder, [r.pointer for r in results])
    text = spec.to_text().encode()
    place = builder.module.add_constant_bytes(text, 1, "collective")
    meet = builder.module.declare("xjit_collective", I32, [PTR, PTR, I64, PTR, PTR])
    failed = builder.call(meet, [function.args[0], place, const_int(I64, len(text)), operands, outputs])
    has_failed = builder.icmp_signed("!=", failed, const_int(I32, 0))
    return_if(builder, has_failed, lambda: emit_fail(builder, RuntimeStatus.COLLECTIVE_FAILED, const_int(I64, 0)))
    builder.ret_void()
    traffic = sum(o.shape.byte_size for o in collective.operands) + sum(r.shape.byte_size for r in results)
    return [Kernel(function, 1, NS_PER_MEETING, KIND, traffic)]


def collective_spec(collective: HloInstruction) -> CollectiveSpec:
    """Returns what the runtime must know of a collective."""
    opcode = collective.opcode
    for shape in (*(o.shape for o in collective.operands), *(leaf for _, leaf in collective.shape.leaves())):
        if not shape.is_static or not shape.is_row_major:
            what = "a dynamic shape" if not shape.is_static else "a layout that is not row-major"
            raise Unsupported(f"{opcode} '{collective.name}' of {shape}: {what}", collective.span)
    if isinstance(collective.attributes, at.CollectivePermuteAttributes):
        if collective.attributes.slice_sizes:
            raise Unsupported(f"{opcode} '{collective.name}' into slices", collective.span)
        pairs = permuted_devices(collective)
        channel, groups, dimensions = collective.attributes.channel_id, _connected(pairs), ()
    else:
        attributes = collective.attributes_as(at.CollectiveAttributes)
        channel, groups, pairs = attributes.channel_id, device_groups(collective), ()
        dimensions = attributes.dimensions
    is_ragged = opcode == "ragged-all-to-all"
    axis = 1 if is_ragged else next(iter(dimensions), 0)
    return CollectiveSpec(
        opcode=opcode,
        instruction=collective.name,
        channel=-1 if channel is None else channel,
        groups=groups,
        operands=tuple(_moved(o.shape, axis) for o in collective.operands),
        pairs=pairs,
        is_split=bool(dimensions),
        index_type=collective.operand(2).shape.element_type.text if is_ragged else "",
    )


def _moved(shape: Shape, axis: int) -> MovedArray:
    rows = math.prod(shape.dimensions[:axis])
    return MovedArray(rows, math.prod(shape.dimensions[axis:]) * shape.element_type.byte_width)


def _connected(pairs: Groups) -> Groups:
    """The devices that send to each other, directly or not: they meet."""
    groups: list[set[int]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touched]
        groups.append(set(pair).union(*touched))
    return tuple(tuple(sorted(group)) for group in groups)


def _pointers(builder: IRBuilder, values: Sequence[Value]) -> Value:
    """An array of pointers on the stack."""
    table = builder.alloca(array(PTR, max(len(values), 1)), align=8, name="pointers")
    for i, value in enumerate(values):
        builder.store(value, builder.gep(PTR, table, const_int(I64, i)), align=8)
    return table
