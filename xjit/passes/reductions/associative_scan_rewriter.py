"""Scans by one associative operation as reduce-windows, tile by tile."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ScanAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops import build
from xjit.ops.reducers import reduction_identity
from xjit.passes.expand.matrices import working_type
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import value_everywhere
from xjit.passes.reductions.reduce_window_rewriter import PrefixScan, part


@dataclass
class AssociativeScanRewriter(OpExpander):
    """Rewrites a scan of one array that says it is associative, and is one known operation from the low end up.

    Tiles have `base_length` elements, as those of `reduce-window-rewriter`: sums are taken in another order, and floats
    below 32 bits in f32. An initial carry that changes something is combined with the result.
    """

    base_length: int = 1024
    name = "associative-scan-rewriter"
    opcodes = frozenset({"scan"})

    def __post_init__(self) -> None:
        """InvalidArgument for tiles of less than two elements."""
        if self.base_length < 2:
            raise InvalidArgument(f"base_length of {self.name} is at least 2, found {self.base_length}")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns (the scan, the last carry); None for other scans, and for arrays of no or unknown size."""
        opcode = _only_operation(instruction)
        if opcode is None:
            return None
        (x, carry), axis = instruction.operands, instruction.attributes_as(ScanAttributes).dimensions[0]
        kind, size = x.shape.element_type, x.shape.dimensions[axis]
        reducer = build.make_binary_computation(opcode, working_type(kind))
        known = reduction_identity(reducer)
        if known is None:
            return None
        writer, value = Writer(into), value_everywhere(carry)
        changes_nothing = value is not None and bool(value == known[1])
        init = writer.constant(value if changes_nothing else known[1], working_type(kind))
        scan = PrefixScan(writer, init, into.embed(reducer), self.base_length, is_backwards=False)
        result = scan.of(writer.convert(x, working_type(kind)), axis)
        if not changes_nothing:
            kept = [d for d in range(x.shape.rank) if d != axis]
            first = writer.broadcast(writer.convert(carry, working_type(kind)), x.shape.dimensions, kept)
            result = writer.make(opcode, first, result)
        result = writer.convert(result, kind)
        last = writer.reshape(part(writer, result, axis, size - 1, size), carry.shape.dimensions)
        return into.tuple_of(result, last)


def _only_operation(scan: HloInstruction) -> str | None:
    """Returns the opcode that makes output and carry of input and carry; None if it is not just that."""
    a, root = scan.attributes_as(ScanAttributes), scan.to_apply.root_instruction
    if a.is_associative != "true" or a.is_reverse or (scan.operand_count, a.num_carries) != (2, 1):
        return None
    x, carry = scan.operands
    if not x.shape.is_static_array or not x.shape.num_elements or not scan.shape.is_row_major:
        return None
    if root.opcode != "tuple" or root.operand_count != 2 or root.operand(0) is not root.operand(1):
        return None
    operation = root.operand(0)
    parameters = scan.to_apply.parameter_instructions
    is_only = scan.to_apply.instruction_count == 4 and {*operation.operands} == {*parameters}
    shapes = {i.shape for i in (*parameters, operation, carry)}
    return operation.opcode if is_only and operation.operand_count == 2 and len(shapes) == 1 else None
