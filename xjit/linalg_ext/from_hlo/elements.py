"""Instructions whose elements are computed one by one, each from at most one element of every operand."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr
from xjit.hlo import HloInstruction, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import opcodes_with
from xjit.indexing.operand_reads import reads_of
from xjit.linalg_ext.from_hlo.scalars import code_of, has_code, is_scalar_code, write_scalar
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IndexType, IntegerType
from xjit.linalg_ext.structured.scalars import cast

__all__ = ["ELEMENT_RULES"]


def _indices(instruction: HloInstruction) -> list[tuple[AffineExpr, ...]] | None:
    """Returns, per operand, the index of the element that is read: straight from the indexing maps."""
    found: list[tuple[AffineExpr, ...]] = []
    for read in reads_of(instruction):
        if read.always is None or read.always.num_symbols:
            return None
        found.append(read.always.map.results)
    return found


def _moves(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """Elements of the operand at other places."""
    indices = _indices(instruction)
    if indices is None or not instruction.shape.is_static_array:
        return None
    return scope.moved(scope.value(instruction.operand(0)), indices[0], instruction.shape.dimensions)


def _computes(scope: Scope, instruction: HloInstruction) -> Raised | None:
    indices = _indices(instruction) if has_code(instruction) else None
    if indices is None:
        return None

    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        return [write_scalar(builder, instruction, given[:-1])]

    operands = list(zip(scope.operands(instruction), indices))
    element = raised_element(instruction.shape.element_type)
    return scope.elements(operands, instruction.shape.dimensions, element, body)


def _map(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """The computation of a `map` on the elements at one index."""
    indices = _indices(instruction)
    if indices is None or not is_scalar_code(instruction.to_apply):
        return None
    code = code_of(instruction.to_apply)
    operands = list(zip(scope.operands(instruction), indices))
    element = raised_element(instruction.shape.element_type)
    return scope.elements(operands, instruction.shape.dimensions, element, lambda b, given: code(b, given[:-1]))


def _iota(scope: Scope, instruction: HloInstruction) -> Raised | None:
    if not has_scalar_code(instruction.shape):
        return None
    axis = instruction.attributes_as(at.IotaAttributes).iota_dimension
    element, sizes = raised_element(instruction.shape.element_type), instruction.shape.dimensions
    if sizes[axis] == 1:
        return scope.zeros(sizes, element)
    loop = sum(n != 1 for n in sizes[:axis])

    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        number = builder.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(loop, IntegerType(64))})
        return [cast(builder, cast(builder, number.result, IntegerType(64)), element)]

    return scope.elements([], sizes, element, body)


def _constant(scope: Scope, instruction: HloInstruction) -> Raised | None:
    return scope.constant(instruction) if has_scalar_code(instruction.shape) else None


ELEMENT_RULES: dict[str, Rule] = {
    **dict.fromkeys(opcodes_with(Trait.ELEMENTWISE), _computes),
    **dict.fromkeys(("broadcast", "reverse", "transpose"), _moves),
    "map": _map,
    "iota": _iota,
    "constant": _constant,
}
