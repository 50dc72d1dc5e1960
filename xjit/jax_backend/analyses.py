"""What `cost_analysis()` and `memory_analysis()` of a compiled function say, with XLA's names and rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.passes.analysis.cost_analysis import HloCostAnalysis

_POINTER_BYTES = 8


def cost_properties(module: HloModule) -> dict[str, float]:
    """Returns what is not 0 of a module's costs.

    `bytes accessed1{}` is what all instructions of the entry read of their second operands, `utilization1{}` which
    part of these, added up.
    """
    costs = HloCostAnalysis.of(module)
    total = costs.computation(module.entry_computation)
    found = defaultdict[str, float](float)
    for instruction in module.entry_computation.instructions:
        moved = costs.bytes_moved(instruction)
        found["bytes accessedout{}"] += moved.written
        for i, (read, operand) in enumerate(zip(moved.read, instruction.operands, strict=True)):
            found[f"bytes accessed{i}{{}}"] += read
            size = sum(shape.byte_size for _, shape in operand.shape.leaves() if shape.is_array)
            found[f"utilization{i}{{}}"] += read / size if size else 0
    properties = {
        "flops": total.flops,
        "transcendentals": total.transcendentals,
        "bytes accessed": total.bytes_accessed,
        **found,
    }
    return {name: float(value) for name, value in sorted(properties.items()) if value}


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
