"""Writes bitcasts in opcodes whose meaning does not depend on layouts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Layout, Shape, Unsupported
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.physical_form import from_physical, to_physical
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.expansion import Expansion


@dataclass
class BitcastExpander(HloModulePass):
    """Replaces bitcasts by transposes and reshapes, before anything drops or changes the layouts they depend on.

    A bitcast reads its operand's memory under another shape. Removing the copy before it, which only changes a layout,
    would change what it means; a reshape stays what it is. Left alone: bitcasts of tuples and to another bit width.
    """

    name = "bitcast-expander"
    is_required = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands, inside of fusions, too; True if there was a bitcast."""
        changed = False
        for computation in module.make_computation_post_order():
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            changed |= expand_bitcasts(computation)
        return changed


def expand_bitcasts(computation: HloComputation) -> bool:
    """Expands the bitcasts of one computation; True if there were any. Errors: Unsupported, if sizes differ."""
    changed = False
    for instruction in computation.instructions:
        if instruction.opcode == "bitcast" and not _is_plain(instruction):
            into = Expansion(instruction)
            into.replace_source(_expanded(instruction, into))
            changed = True
    return changed


def _is_plain(bitcast: HloInstruction) -> bool:
    """Whether the bitcast is to stay: what it means is known without layouts, and no reshape can say it."""
    a, b = bitcast.operand(0).shape, bitcast.shape
    if not (a.is_array and b.is_array) or a.element_type.byte_width != b.element_type.byte_width:
        return a == b
    return a.element_type.bit_width != b.element_type.bit_width and _is_row_major(a) and _is_row_major(b)


def _is_row_major(shape: Shape) -> bool:
    return shape.layout is None or (shape.layout.is_row_major() and not shape.layout.tiles)


def _expanded(bitcast: HloInstruction, into: Expansion) -> HloInstruction:
    """bitcast(x) = from-physical(bitcast-convert(to-physical(x))); the result is row-major."""
    operand = bitcast.operand(0)
    a, b = operand.shape, bitcast.shape
    if a.is_array and b.is_array and a.same_dimensions(b) and a.layout == b.layout and a.element_type is b.element_type:
        shape = b.with_layout(Layout.row_major(b.rank))
        return into.add(HloInstruction.create("copy", shape, [operand]))
    if not (a.is_array and b.is_array) or a.element_type.bit_width != b.element_type.bit_width:
        raise Unsupported(f"bitcast {bitcast.name} from {a} to {b}: another element width", bitcast.span)
    if physical_byte_size(a) != physical_byte_size(b):
        raise Unsupported(f"bitcast {bitcast.name} from {a} to {b}: their buffers differ in size", bitcast.span)
    if _is_row_major(a) and _is_row_major(b) and a.element_type is b.element_type:
        return into.add(HloInstruction.create("reshape", b, [operand], name=bitcast.name))
    value = to_physical(operand, into)
    if a.element_type is not b.element_type:
        shape = Shape.array(b.element_type, value.shape.dimensions)
        value = into.add(HloInstruction.create("bitcast-convert", shape, [value]))
    return from_physical(value, b, into)
