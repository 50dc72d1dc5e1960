"""Thunks as functions one by one, for the interpreter: the kernels of the native entry, called from outside.

A step has the entry's parameters, but `parameters` and `results` point to the operands and results of its thunk, and
`arena` and `constants` are not used. So it is called as an entry is: subnormals are flushed, the status comes back.
"""

from __future__ import annotations

from xjit.emitters.entry.scalar_code import emit_scalar_code
from xjit.emitters.entry.slice_pointers import ENTRY_PARAMS
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.unnested import UnnestedModule
from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.function import Function
from xjit.llvm.module import Module
from xjit.llvm.types import I32, I64, PTR, VOID
from xjit.llvm.values import Value, const_int
from xjit.thunks import InlineThunk, KernelThunk, step_symbol


def emit_thunk_steps(unnested: UnnestedModule, kernels: Module) -> Module:
    """Returns a module with a function `step_symbol(thunk)` for every thunk that computes. It calls those of `kernels`.

    Those must be visible to it when the two are linked.
    """
    context = KernelContext(Module(f"{kernels.name}.steps", kernels.target), kernels.target)
    for sequence in unnested.program.sequences.values():
        for thunk in sequence:
            if isinstance(thunk, KernelThunk | InlineThunk) and step_symbol(thunk) not in context.module.functions:
                _emit_step(context, unnested, kernels, thunk)
    return context.module


def _emit_step(
    context: KernelContext, unnested: UnnestedModule, kernels: Module, thunk: KernelThunk | InlineThunk
) -> None:
    function = context.module.add_function(step_symbol(thunk), I32, ENTRY_PARAMS)
    builder = IRBuilder(function.append_block("entry"))
    pointers = _pointers(function, builder, thunk)
    if isinstance(thunk, InlineThunk):
        emit_scalar_code(context, function, builder, unnested.inline_views[thunk.instruction], pointers)
    else:
        types = [param.type for param in kernels.functions[thunk.kernel].params]
        kernel = context.module.declare(thunk.kernel, VOID, types)
        builder.call(kernel, [function.args[0], *pointers, const_int(I64, 0), const_int(I64, thunk.units)])
    builder.ret(EXECUTION_CONTEXT.load(builder, function.args[0], "status"))


def _pointers(function: Function, builder: IRBuilder, thunk: KernelThunk | InlineThunk) -> list[Value]:
    """Loads the addresses of the operands, then those of the results."""
    _, operands, results, _, _ = function.args
    places = [(operands, n) for n in range(len(thunk.operands))] + [(results, n) for n in range(len(thunk.results))]
    return [builder.load(PTR, builder.gep(PTR, table, const_int(I64, n)), align=8) for table, n in places]
