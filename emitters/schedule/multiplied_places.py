"""Which elements of operand tiles a thread reads for a Contract: those that it multiplies, or a unit's fragments."""

from __future__ import annotations

from collections.abc import Iterator

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.statements import Contract
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.matrix_units import MATRIX_UNITS


def multiplied_places(
    table: VariableTable, contract: Contract, thread: int
) -> Iterator[tuple[int, tuple[AffineExpr, AffineExpr], int | None]]:
    """Yields (operand, (row, step), variable) for each register that a thread fills.

    `thread` is the variable of its number. The variable that is yielded numbers the elements of a register, if it has
    several.
    """
    unit = MATRIX_UNITS[contract.unit] if contract.unit else None
    if unit is None:
        for operand, row in contract.rows:
            yield operand, (row, contract.step), None
        return
    fragments = ((unit.lhs_place, unit.lhs_registers), (unit.rhs_place, unit.rhs_registers))
    for (operand, row), (place, count) in zip(contract.rows, fragments, strict=True):
        element = table.new_variable(unit.per_register)
        for register in range(count):
            number = {0: dim(thread).mod(WARP_SIZE), 1: dim(element) + register * unit.per_register}
            more = [substitute(e, number) for e in place]
            yield operand, (row + more[0], contract.step + more[1]), element
