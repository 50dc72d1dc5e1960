"""`from_jax`: a Python function that JAX traces becomes an HloModule, for given types and shapes of its arguments.

The module has one parameter per leaf of the arguments, also for those that the function does not use, and one result
per leaf of what it returns, in the order of `jax.tree.leaves`.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from xjit.dataclass import dataclass
from xjit.frontends.optional import import_optional
from xjit.frontends.stablehlo import from_stablehlo
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.ir.module import HloModule

PLATFORM = "cpu"
"""The platform whose lowering rules apply: those of the custom calls that xjit knows."""


@dataclass(frozen=True, slots=True)
class JaxModule:
    """A traced function: the module, and the trees that its parameters and results are the leaves of.

    `in_tree` is that of (args, kwargs). `parameters` and `results` are JAX's abstract values, one per leaf.
    """

    module: HloModule
    in_tree: Any
    out_tree: Any
    parameters: tuple[Any, ...]
    results: tuple[Any, ...]


def from_jax(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> HloModule:
    """Returns the module of a function at the types and shapes of example arguments (arrays or ShapeDtypeStructs).

    Arguments and results are pytrees. `fn` may be jitted already: its static arguments and donations count. It may be
    what `jax.export` returns. Errors: those of the function itself, as JAX raises them; InvalidArgument if it cannot be
    traced; Unsupported for what HLO cannot express; FailedPrecondition without jax.
    """
    return trace_function(fn, args, kwargs).module


def trace_function(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], jit_options: Mapping[str, Any] | None = None
) -> JaxModule:
    """Returns the module of a function and its trees; `jit_options` are those of `jax.jit`."""
    jax: Any = import_optional("jax", "jax", "to compile a JAX function")
    exported: Any = import_optional("jax.export", "jax", "to compile a JAX function")
    _leave_out_of_tracebacks()
    function = cast(Any, fn).call if isinstance(fn, exported.Exported) else cast(Any, fn)
    if not callable(function):
        raise InvalidArgument(f"expected a function that JAX can trace, found {type(fn).__name__}")
    jitted_trace: Any = getattr(function, "trace", None)
    if jitted_trace is not None:
        traced = _with_all_parameters(jitted_trace(*args, **kwargs))
    else:
        traced = jax.jit(function, keep_unused=True, **(jit_options or {})).trace(*args, **kwargs)
    lowered = traced.lower(lowering_platforms=(PLATFORM,))
    bytecode = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(bytecode)
    module = from_stablehlo(bytecode.getvalue(), f"<{module_name(fn)}>")
    parameters, results = tuple(jax.tree.leaves(lowered.in_avals)), tuple(jax.tree.leaves(lowered.out_info))
    num_parameters = module.entry_computation.num_parameters
    if num_parameters != len(parameters):
        raise Unsupported(
            f"function {module_name(fn)!r} has {len(parameters)} array arguments, but its module {num_parameters} "
            "parameters: JAX adds some for ordered effects and for constants that it hoists"
        )
    return JaxModule(module, lowered.in_tree, lowered.out_tree, parameters, results)


def _with_all_parameters(traced: Any) -> Any:
    """What a jitted function has traced, without dropping the arguments that it does not use."""
    jax: Any = import_optional("jax", "jax", "to compile a JAX function")
    core: Any = import_optional("jax.extend.core", "jax", "to compile a JAX function")
    leaves = jax.tree.leaves(traced.args_info)
    donated = [number for number, leaf in enumerate(leaves) if leaf.donated]
    run = core.jaxpr_as_fun(traced.jaxpr)

    def flat(*arrays: Any) -> Any:
        return jax.tree.unflatten(traced.out_tree, run(*arrays))

    flat.__name__ = flat.__qualname__ = traced.fun_name
    avals = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    return jax.jit(flat, keep_unused=True, donate_argnums=donated).trace(*avals)


@functools.cache
def _leave_out_of_tracebacks() -> None:
    """Lets JAX's locations end in the caller's code, not in xjit's."""
    locations: Any = import_optional("jax.extend.source_info_util", "jax", "to compile a JAX function")
    locations.register_exclusion(str(Path(__file__).parent))


def module_name(fn: Callable[..., Any]) -> str:
    """What errors call a function."""
    return getattr(fn, "__name__", type(fn).__name__)
