"""What `cost_analysis()` and `memory_analysis()` of a compiled function say, with XLA's names and rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xjit.hlo import Trait
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.passes.analysis.cost_analysis import HloCostAnalysis

_POINTER_BYTES = 8
_Properties = defaultdict[str, float]


def cost_properties(module: HloModule) -> dict[str, float]:
    """Returns what is not 0 of a module's costs, where a loop runs once.

    `bytes accessed1{}` is what all instructions, and those that they call, read of their second operands,
    `utilization1{}` which part of these, added up. Within a fusion those operands count that have numbers beyond the
    fusion's own. A tuple is a table of pointers.
    """
    costs = HloCostAnalysis(as_in_xla=True)
    total = costs.computation(module.entry_computation)
    by_computation: dict[HloComputation, _Properties] = {}
    for computation in module.make_computation_post_order():
        by_computation[computation] = _operand_properties(computation, costs, by_computation)
    found = by_computation[module.entry_computation]
    properties = {
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        **found,
    }
    return {name: float(value) for name, value in sorted(properties.items()) if value}


def _operand_properties(
    computation: HloComputation, costs: HloCostAnalysis, callees: dict[HloComputation, _Properties]
) -> _Properties:
    """What instructions read operand by operand, and write; of a conditional the most of its branches."""
    found: _Properties = defaultdict(float)
    for instruction in computation.instructions:
        if instruction.op.has(Trait.CONTROL_FLOW):
            parts = [callees[callee] for callee in instruction.called_computations]
            combine = max if instruction.opcode == "conditional" else sum
            for name in {name for part in parts for name in part}:
                found[name] += combine([part[name] for part in parts])
            continue
        if instruction.op.has(Trait.PLUMBING):
            for i in range(instruction.operand_count):
                found[f"utilization{i}{{}}"] += 1
            if instruction.opcode == "tuple":
                found["bytes accessedout{}"] += instruction.operand_count * _POINTER_BYTES
                found["bytes accessed"] += instruction.operand_count * _POINTER_BYTES
            continue
        for name, value in _kernel_properties(instruction, costs, callees).items():
            found[name] += value
    return found


def _kernel_properties(
    instruction: HloInstruction, costs: HloCostAnalysis, callees: dict[HloComputation, _Properties]
) -> _Properties:
    """What one instruction reads and writes, and what is within a fusion."""
    found: _Properties = defaultdict(float)
    if instruction.opcode == "fusion":
        found.update(callees[instruction.called_computations[0]])
    moved = costs.bytes_moved(instruction)
    found["bytes accessed"] = moved.written + sum(moved.read)
    found["bytes accessedout{}"] = moved.written
    for i, (read, operand) in enumerate(zip(moved.read, instruction.operands, strict=True)):
        found[f"bytes accessed{i}{{}}"] = read
        size = sum(shape.byte_size for _, shape in operand.shape.leaves() if shape.is_array)
        found[f"utilization{i}{{}}"] = read / size if size else 0
    return found


def memory_size(shapes: Sequence[Shape], *, is_tuple: bool) -> int:
    """Returns the bytes of a program's parameters or results as XLA has them.

    Types of less than a byte are packed; of results that are a tuple, the table of pointers counts.
    """
    return sum(map(_packed_size, shapes)) + (len(shapes) * _POINTER_BYTES if is_tuple else 0)


def _packed_size(shape: Shape) -> int:
    if not shape.is_array:
        return 0
    kind = shape.element_type
    bits = kind.byte_width * 8 if kind.text == "pred" else kind.bit_width
    return -(-shape.num_elements * bits // 8)
