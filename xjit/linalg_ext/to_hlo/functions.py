"""A function of static tensors as an HLO module: an entry computation; loops and branches have their own."""

from __future__ import annotations

from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.linalg_ext.ir.attributes import StringAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, TensorType, Type
from xjit.linalg_ext.to_hlo.affine_ops import AFFINE_HANDLERS
from xjit.linalg_ext.to_hlo.control import CONTROL_HANDLERS, call_function
from xjit.linalg_ext.to_hlo.extension import EXTENSION_HANDLERS
from xjit.linalg_ext.to_hlo.forall import FORALL_HANDLERS
from xjit.linalg_ext.to_hlo.pointwise import POINTWISE_HANDLERS
from xjit.linalg_ext.to_hlo.scalars import SCALAR_HANDLERS
from xjit.linalg_ext.to_hlo.scope import Lowered, Program, Scope
from xjit.linalg_ext.to_hlo.tensors import TENSOR_HANDLERS
from xjit.linalg_ext.to_hlo.writer import FunctionWriter, primitive_type

__all__ = ["to_hlo"]

_HANDLERS = {
    **SCALAR_HANDLERS,
    **AFFINE_HANDLERS,
    **TENSOR_HANDLERS,
    **CONTROL_HANDLERS,
    **FORALL_HANDLERS,
    **POINTWISE_HANDLERS,
    **EXTENSION_HANDLERS,
}


def to_hlo(module: Operation, function: str) -> HloModule:
    """Returns a function of a module as an HLO module; the module is left as it is.

    Arguments are scalars and tensors of static shape. One result is an array, several are a tuple. LinalgError, with
    the place, for memrefs, dynamic shapes that no loop explains, and operations without a meaning in HLO.
    """
    program = Program(_functions(module), _HANDLERS)
    made = HloModule(function)
    scope = Scope(program, FunctionWriter(made, f"{function}_entry"))
    op = program.functions.get(function)
    types: list[Type] = [] if op is None or not op.regions[0].blocks else [a.type for a in op.body.arguments]
    arguments: list[Lowered] = [_parameter(scope, number, t, op) for number, t in enumerate(types)]
    results = call_function(scope, function, arguments, None)
    assert op is not None
    arrays = [scope.materialized(x, v) for x, v in zip(results, op.body.terminator.operands)]
    root = arrays[0] if len(arrays) == 1 else scope.writer.tuple_of(*arrays)
    made.add_entry_computation(scope.writer.builder.build(root))
    made.remove_unused_computations()
    made.entry_computation.cleanup()
    return made


def _functions(module: Operation) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for op in module.body.operations:
        symbol = op.attributes.get("sym_name")
        if op.name == "func.func" and isinstance(symbol, StringAttr):
            found[symbol.value] = op
    return found


def _parameter(scope: Scope, number: int, t: Type, function: Operation | None) -> HloInstruction:
    if isinstance(t, TensorType):
        sizes = [n for n in t.shape if n is not None]
        if len(sizes) == t.rank:
            return scope.writer.parameter(number, Shape.array(primitive_type(t), tuple(sizes)))
    elif isinstance(t, FloatType | IntegerType | IndexType):
        return scope.writer.parameter(number, Shape.array(primitive_type(t), ()))
    place = None if function is None else function.location
    raise LinalgError(f"cannot compile argument {number} of type {t}: expected a scalar or a static tensor", place)
