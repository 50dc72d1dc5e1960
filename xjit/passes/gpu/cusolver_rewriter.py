"""Cholesky factorizations become calls to cuSOLVER."""

from __future__ import annotations

import math

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CholeskyAttributes, CustomCallAttributes, GetTupleElementAttributes
from xjit.hlo.types.layout import Layout
from xjit.ops.library_calls.targets import CHOLESKY
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion

_TYPES = frozenset({PrimitiveType.F32, PrimitiveType.F64, PrimitiveType.C64, PrimitiveType.C128})


@dataclass
class CusolverRewriter(OpExpander):
    """Writes a cholesky of f32, f64, c64 or c128 as the first element of (factor, workspace, info), column-major.

    The workspace is one matrix, `info` one s32 for each matrix of the batch: not 0 where there is no factor.
    """

    name = "cusolver-rewriter"
    aliases = ("gpusolver-rewriter",)
    opcodes = frozenset({"cholesky"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the factor; None for another type or an empty array."""
        operand = instruction.operand(0)
        shape = operand.shape
        if shape.element_type not in _TYPES or not shape.is_static_array or not shape.num_elements:
            return None
        if has_control_dependencies(instruction):
            return None
        *batch, rows, columns = shape.dimensions
        order = (shape.rank - 2, shape.rank - 1, *reversed(range(shape.rank - 2)))
        column_major = shape.with_layout(Layout(order))
        results = Shape.tuple_of(
            [
                column_major,
                Shape.array(shape.element_type, (rows * columns,)),
                Shape.array(PrimitiveType.S32, (math.prod(batch),)),
            ]
        )
        attributes = CustomCallAttributes(CHOLESKY, operand_layout_constraints=(column_major,))
        call = HloInstruction.create("custom-call", results, [operand], attributes, name="cusolver-cholesky")
        call.backend_config = {"lower": instruction.attributes_as(CholeskyAttributes).lower}
        return into.like_source("get-tuple-element", [into.add(call)], GetTupleElementAttributes(0))
