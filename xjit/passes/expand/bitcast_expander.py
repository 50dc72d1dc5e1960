"""Writes bitcasts in opcodes whose meaning does not depend on layouts."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Layout, PrimitiveType, Shape, Unsupported
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.physical_form import from_physical, to_physical
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.expansion import Expansion


@dataclass
class BitcastExpander(HloModulePass):
    """Replaces bitcasts by transposes and reshapes, before anything drops or changes the layouts they depend on.

    A bitcast reads its operand's memory under another shape. Removing the copy before it, which only changes a layout,
    would change what it means; a reshape stays what it is. Left alone: bitcasts of tuples, and of integers of less than
    a byte to others.
    """

    name = "bitcast-expander"
    opcodes = frozenset({"bitcast"})
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
    bitcasts = [i for i in computation.instructions if i.opcode == "bitcast" and not _is_plain(i)]
    sources = [i.operand(0).shape for i in bitcasts]  # as they are now: an expanded operand has another layout
    for instruction, source in zip(bitcasts, sources, strict=True):
        into = Expansion(instruction)
        into.replace_source(_expanded(instruction, source, into))
    return bool(bitcasts)


def _is_plain(bitcast: HloInstruction) -> bool:
    """Whether the bitcast is to stay: what it means is known without layouts, and no reshape can say it."""
    a, b = bitcast.operand(0).shape, bitcast.shape
    if not (a.is_array and b.is_array) or a.element_type.byte_width != b.element_type.byte_width:
        return a == b
    return a.element_type.bit_width != b.element_type.bit_width and _is_row_major(a) and _is_row_major(b)


def _is_row_major(shape: Shape) -> bool:
    return shape.layout is None or (shape.layout.is_row_major() and not shape.layout.tiles)


def _expanded(bitcast: HloInstruction, a: Shape, into: Expansion) -> HloInstruction:
    """bitcast(x) = from-physical(bitcast-convert(to-physical(x))) for x of shape `a`; the result is row-major."""
    operand, b = bitcast.operand(0), bitcast.shape
    if a.is_array and b.is_array and a.same_dimensions(b) and a.layout == b.layout and a.element_type is b.element_type:
        shape = b.with_layout(Layout.row_major(b.rank))
        return into.add(HloInstruction.create("copy", shape, [operand]))
    if not (a.is_array and b.is_array) or not _may_be_cast(a.element_type, b.element_type):
        raise Unsupported(f"bitcast {bitcast.name} from {a} to {b}: another element width", bitcast.span)
    if physical_byte_size(a) != physical_byte_size(b):
        raise Unsupported(f"bitcast {bitcast.name} from {a} to {b}: their buffers differ in size", bitcast.span)
    if _is_row_major(a) and _is_row_major(b) and a.element_type is b.element_type:
        return into.add(HloInstruction.create("reshape", b, [operand], name=bitcast.name))
    value = to_physical(operand, a, into)
    if a.element_type is not b.element_type:
        value = _cast(value, b.element_type, into)
    return from_physical(value, b, into)


def _may_be_cast(source: PrimitiveType, target: PrimitiveType) -> bool:
    """Whether elements are as wide, or both have whole bytes that one element of the other type has several of."""
    if source.bit_width == target.bit_width:
        return True
    return all((k.is_integer or k.is_float) and k.bit_width == 8 * k.byte_width for k in (source, target))


def _cast(flat: HloInstruction, kind: PrimitiveType, into: Expansion) -> HloInstruction:
    """The 1-D array of the same bytes as elements of another type."""
    (size,), source = flat.shape.dimensions, flat.shape.element_type

    def made(opcode: str, element_type: PrimitiveType, *dims: int) -> HloInstruction:
        return into.add(HloInstruction.create(opcode, Shape.array(element_type, dims), [flat]))

    if source.byte_width == kind.byte_width:
        return made("bitcast-convert", kind, size)
    if source.byte_width > kind.byte_width:
        pieces = source.byte_width // kind.byte_width
        flat = made("bitcast-convert", kind, size, pieces)
        return made("reshape", kind, size * pieces)
    pieces = kind.byte_width // source.byte_width
    flat = made("reshape", source, size // pieces, pieces)
    return made("bitcast-convert", kind, size // pieces)
