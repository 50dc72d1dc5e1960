"""`xjit.jit`: a Python function that JAX can trace, compiled and run by xjit.

    @xjit.jit
    def step(params, batch): ...

Arguments and results are pytrees; arrays in may be NumPy's, JAX's or of DLPack, arrays out are NumPy's. Each set of
types, shapes, weak types, trees and static arguments is traced and compiled once.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from xjit.compile_options import CompileOptions
from xjit.compiler import Executable, GpuExecutable, compile_module
from xjit.frontends.jax_functions import JaxModule, module_name, trace_function
from xjit.frontends.jit_arguments import StaticArguments, explain_leaf, for_program, leaf_type, result_leaf
from xjit.frontends.optional import import_optional
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.runtime.program import PARAMETER_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Lowered:
    """A function traced for some arguments, not compiled yet."""

    traced: JaxModule
    target: str
    options: CompileOptions

    @property
    def module(self) -> HloModule:
        """What will be compiled."""
        return self.traced.module

    def as_text(self) -> str:
        """Returns the HLO text."""
        return str(self.module)

    def compile(self) -> CompiledFunction:
        """Returns it compiled. Errors: as of `xjit.compile`."""
        return CompiledFunction(self.traced, compile_module(self.module, self.target, self.options))


class CompiledFunction:
    """A function compiled for the types and shapes of some arguments. Call it with such arguments, without static ones.

    `executable` is the program below: its kernels, costs, texts.
    """

    __slots__ = ("_described", "_donated", "_dtypes", "_is_single", "_jax", "_traced", "executable")

    def __init__(self, traced: JaxModule, executable: Executable | GpuExecutable) -> None:
        self.executable = executable
        self._jax: Any = import_optional("jax", "jax", "to call a JAX function")
        self._traced = traced
        self._dtypes = [signature.dtype for signature in executable.program.parameters]
        self._is_single = isinstance(executable.program.result_tree, int)
        self._donated = frozenset(alias.parameter for alias in executable.program.aliases)
        plain = all(isinstance(d.dtype, np.dtype) and d.dtype.itemsize for d in traced.results)
        self._described = None if plain else traced.results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Errors: InvalidArgument for arguments of another structure, type or shape."""
        leaves, tree = self._jax.tree.flatten((args, kwargs))
        if tree != self._traced.in_tree:
            raise InvalidArgument(f"the function was compiled for arguments {self._traced.in_tree}, got {tree}")
        return self.call_leaves(leaves)

    def call_leaves(self, leaves: list[Any]) -> Any:
        """Runs on the leaves of the dynamic arguments."""
        jax = self._jax
        arrays = [for_program(leaf, dtype, jax) for leaf, dtype in zip(leaves, self._dtypes, strict=True)]
        if self._donated:
            arrays = [_to_overwrite(a) if n in self._donated else a for n, a in enumerate(arrays)]
            outputs = self.executable(*arrays, donate=self._donated)
        else:
            outputs = self.executable(*arrays)
        if self._is_single:
            outputs = (outputs,)
        if self._described is not None:
            outputs = map(result_leaf, outputs, self._described)
        return jax.tree.unflatten(self._traced.out_tree, outputs)


class JitFunction:
    """What `xjit.jit` returns. Call it as the function; `lower(*args)` gives what would run."""

    def __init__(
        self,
        fn: Callable[..., Any],
        static: StaticArguments,
        jit_options: dict[str, Any],
        target: str,
        options: CompileOptions,
    ) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._static = static
        self._jit_options = jit_options
        self._target = target
        self._options = options
        self._compiled: dict[Any, CompiledFunction] = {}
        self._lock = threading.RLock()  # a traced function may call others that are compiled
        self._jax: Any = import_optional("jax", "jax", "to use xjit.jit")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function; traces and compiles it first if no call with such arguments was before."""
        jax = self._jax
        dynamic, named, static = self._static.split(args, kwargs)
        leaves, tree = jax.tree.flatten((dynamic, named))
        types_ = tuple([leaf_type(leaf, jax) for leaf in leaves])
        key = (tree, types_, static, jax.config.jax_enable_x64)
        compiled = self._compiled.get(key)
        if compiled is None:
            if None in types_:
                raise explain_leaf(self._fn, dynamic, named, jax)
            with self._lock:
                compiled = self._compiled.get(key)
                if compiled is None:
                    compiled = self._compiled[key] = self.lower(*args, **kwargs).compile()
        return compiled.call_leaves(leaves)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces the function for arguments like these, which may be ShapeDtypeStructs."""
        return Lowered(trace_function(self._fn, args, kwargs, self._jit_options), self._target, self._options)

    def clear_cache(self) -> None:
        """Forgets all that was compiled."""
        self._compiled.clear()

    def cache_size(self) -> int:
        """How many versions of the function are compiled."""
        return len(self._compiled)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is argument 0, which `static_argnums=0` makes static."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<xjit.jit of {module_name(self._fn)}>"


@overload
def jit(fn: Callable[..., Any], /) -> JitFunction: ...
@overload
def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    target: str = "cpu",
    options: CompileOptions | None = None,
) -> Any: ...
def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    target: str = "cpu",
    options: CompileOptions | None = None,
) -> Any:
    """Returns a function that runs as `fn` does, compiled by xjit; without `fn`, a decorator.

    Args:
        fn: what JAX can trace. A function of `jax.jit` loses its own options.
        static_argnums, static_argnames: arguments whose values are compiled in; they must be hashable.
        donate_argnums, donate_argnames: arguments whose memory results may take: NumPy arrays are overwritten.
        target, options: as of `xjit.compile`.

    Errors: InvalidArgument; FailedPrecondition without jax; when called, also what the function and tracing it raise.
    """
    if fn is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            target=target,
            options=options,
        )
    if not callable(fn):
        raise InvalidArgument(f"expected a function, found {type(fn).__name__}")
    function: Any = getattr(fn, "__wrapped__", fn) if hasattr(fn, "trace") else fn
    static = StaticArguments.of(function, static_argnums, static_argnames)
    given = {
        "static_argnums": tuple(sorted(static.positions)),
        "static_argnames": tuple(sorted(static.names)),
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }
    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    return JitFunction(function, static, chosen, target, CompileOptions() if options is None else options)


def _to_overwrite(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself if a result can be written there, else a copy."""
    flags = array.flags
    if flags.writeable and flags.c_contiguous and array.ctypes.data % PARAMETER_ALIGNMENT == 0:
        return array
    return np.array(array, order="C")
