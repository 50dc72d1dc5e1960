"""from_hlo: the entry computation of a module as a function of structured operations."""

from __future__ import annotations

from collections.abc import Mapping

from xjit.hlo import HloInstruction, HloModule
from xjit.linalg_ext.from_hlo.control import CONTROL_RULES
from xjit.linalg_ext.from_hlo.elements import ELEMENT_RULES
from xjit.linalg_ext.from_hlo.gathers import GATHER_RULES
from xjit.linalg_ext.from_hlo.opaque import leaf_shapes, leaf_values, opaque_call, tuple_of
from xjit.linalg_ext.from_hlo.products import PRODUCT_RULES
from xjit.linalg_ext.from_hlo.reductions import REDUCTION_RULES
from xjit.linalg_ext.from_hlo.scatters import SCATTER_RULES
from xjit.linalg_ext.from_hlo.scope import Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.selection import SELECTION_RULES
from xjit.linalg_ext.from_hlo.softmax import SOFTMAX_RULES
from xjit.linalg_ext.from_hlo.tensors import TENSOR_RULES
from xjit.linalg_ext.from_hlo.types import raised_type
from xjit.linalg_ext.ir.attributes import StringAttr, TypeAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import FunctionType
from xjit.linalg_ext.passes import run_passes
from xjit.passes import PassDriver
from xjit.passes.dynamic.static_interface import is_dynamic, with_static_interface
from xjit.passes.fusion.exponents import state_exponents
from xjit.passes.pipelines import PipelineOptions, canonicalization
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier

__all__ = ["from_hlo"]

_RULES: Mapping[str, Rule] = {
    **ELEMENT_RULES,
    **TENSOR_RULES,
    **PRODUCT_RULES,
    **REDUCTION_RULES,
    **SELECTION_RULES,
    **GATHER_RULES,
    **SCATTER_RULES,
    **CONTROL_RULES,
}
"""By opcode. What has no rule, or not the form of its rule, is an opaque call."""

_CLEANUP = ("linalg-fuse-elementwise-ext", "canonicalize", "cse", "trivial-dce")


def from_hlo(module: HloModule, function: str = "main", fuse_elementwise: bool = True) -> Operation:
    """Returns a module of MLIR with the entry computation as a function; the HLO module is left as it is.

    Arguments and results are tensors, one per leaf of parameters and result. Collectives of one device are gone, calls
    are in line. Elementwise ops are fused, unless that is not wanted. Unsigned integers are signless ones of the same
    bits. Indices of a scatter must lie in its source. A module with dynamic shapes gets those of its bounds, and sizes
    as further arguments and results.
    """
    source = with_static_interface(module) if is_dynamic(module) else module.clone("")
    source.clear_schedule()
    more = [TupleSimplifier(), HloCSE(is_layout_sensitive=False), HloDCE()]
    passes = [*canonicalization(PipelineOptions()), *more]
    PassDriver().run(passes, source)
    for computation in source.computations():
        state_exponents(computation, [i for i in computation.instructions if i.opcode in ("exponential", "power")])
    result = _raised(source, function)
    return run_passes(result, _CLEANUP if fuse_elementwise else _CLEANUP[1:], verify_each=False)


def _raised(source: HloModule, function: str) -> Operation:
    entry = source.entry_computation
    shapes = [p.shape for p in entry.parameter_instructions]
    body = Block([raised_type(leaf) for shape in shapes for leaf in leaf_shapes(shape)])
    top = Block()
    module = Operation("builtin.module", (), (), {}, [Region([top])])
    op = Builder(top).create("func.func", (), (), {"sym_name": StringAttr(function)}, [Region([body])])
    scope = Scope(module, Builder(body), _write)
    leaves: list[Value] = list(body.arguments)
    results = leaf_values(scope.run(entry, [tuple_of(shape, leaves) for shape in shapes]))
    scope.builder.create("func.return", results)
    types = FunctionType(tuple(a.type for a in body.arguments), tuple(v.type for v in results))
    op.attributes["function_type"] = TypeAttr(types)
    return module


def _write(scope: Scope, instruction: HloInstruction) -> Raised:
    """Writes an instruction by the first rule that has its form."""
    for rules in (SOFTMAX_RULES, _RULES):
        rule = rules.get(instruction.opcode)
        found = None if rule is None else rule(scope, instruction)
        if found is not None:
            return found
    return opaque_call(scope, instruction)
