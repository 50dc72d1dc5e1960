"""Executables in numba: `@numba.njit` code calls a compiled program as it calls another compiled function.

The types come from the program's signature, the addresses of its entry and constants become part of the caller's code.
numba learns of it through its entry point `numba_extensions`, or through `xjit.enable_numba()`. What numba code has
called once stays loaded for the life of the process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.frontends.optional import import_optional
from xjit.hlo.diagnostics import ExecutionError, ResourceExhausted, Unsupported
from xjit.llvm.execution_context import RuntimeStatus
from xjit.runtime.buffer_pool import pooled_library
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program import PARAMETER_ALIGNMENT, ArraySignature, LeafTree

_NEEDED = "to call a program from numba"


@functools.cache
def enable_numba() -> None:
    """Lets `@numba.njit` code call executables, which it finds as global names or gets as arguments.

    Needed only where xjit is not installed as a package (numba asks installed ones). Errors: FailedPrecondition without
    numba.
    """
    extending: Any = import_optional("numba.extending", "numba", _NEEDED)
    types: Any = import_optional("numba.types", "numba", _NEEDED)

    @extending.typeof_impl.register(CpuExecutable)
    def type_of_executable(executable: CpuExecutable, context: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        del context
        return types.Dispatcher(numba_function(executable))


@functools.cache
def numba_function(executable: CpuExecutable) -> Any:
    """Returns the `@numba.njit` function that calls an executable.

    It takes and returns what the executable does: arrays of exactly the parameters' types and shapes (numbers for
    scalars), tuples nested as in HLO. Errors: Unsupported for element types and layouts that numba's arrays have not,
    for programs of several devices, and for those that overwrite parameters.
    In compiled code: numba.TypingError for another type, ValueError for another shape, ExecutionError.
    """
    numba: Any = import_optional("numba", "numba", _NEEDED)
    program = executable.program
    if program.num_devices > 1:
        raise Unsupported(f"program {program.name!r} runs on {program.num_devices} devices, numba code on one")
    if any(alias.must for alias in program.aliases):
        raise Unsupported(f"program {program.name!r} overwrites parameters, which numba code cannot donate")
    names: dict[str, Any] = {"np": np, "run": _make_run(executable), "keep": numba.njit(_keep)}
    lines: list[str] = []
    paths = dict(_leaf_paths(program.parameter_tree))
    for leaf, signature in enumerate(program.parameters):
        place = f"parameter {paths[leaf][1:].split('[')[0]} {signature.name!r} of {program.name!r}"
        names[f"convert{leaf}"] = _make_converter(signature, place)
        lines.append(f"b{leaf} = convert{leaf}({paths[leaf]})")
    for leaf, signature in enumerate(program.results):
        names[f"empty{leaf}"], names[f"logical{leaf}"] = _make_result(signature)
        lines.append(f"r{leaf} = empty{leaf}()")
    for kind, count in (("b", len(program.parameters)), ("r", len(program.results))):
        lines.append(f"{kind}s = np.empty({max(count, 1)}, np.uintp)")
        lines += [f"{kind}s[{leaf}] = {kind}{leaf}.ctypes.data" for leaf in range(count)]
    lines.append("run(bs, rs)")
    buffers = [f"b{leaf}" for leaf in range(len(program.parameters))]
    lines += ["keep((" + "".join(f"{name}, " for name in ("bs", "rs", *buffers)) + "))"]
    lines.append(f"return {_nested_text(program.result_tree)}")
    arguments = ", ".join(f"p{number}" for number in range(len(program.parameter_tree)))
    exec(f"def call({arguments}):\n    " + "\n    ".join(lines), names)
    return numba.njit(names["call"])


def _keep(buffer: Any) -> None:
    """Called behind the program's run: numba frees an array after its last use, and an address is none."""


def _leaf_paths(tree: tuple[LeafTree, ...]) -> list[tuple[int, str]]:
    """Each leaf, and the expression for it in terms of the arguments p0, p1, ..."""
    found: list[tuple[int, str]] = []
    stack = [(node, f"p{number}") for number, node in enumerate(tree)]
    while stack:
        node, text = stack.pop()
        if isinstance(node, int):
            found.append((node, text))
        else:
            stack.extend((child, f"{text}[{number}]") for number, child in enumerate(node))
    return found


def _nested_text(tree: LeafTree) -> str:
    """The expression for the nested results."""
    if isinstance(tree, int):
        return f"logical{tree}(r{tree})"
    return "(" + "".join(f"{_nested_text(node)}, " for node in tree) + ")"


def _make_run(executable: CpuExecutable) -> Any:
    """A function of the tables of parameters and results: one call of the native entry."""
    numba: Any = import_optional("numba", "numba", _NEEDED)
    native, entry, program = pooled_library(), executable.entry, executable.program
    word = ctypes.c_size_t
    call_entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[word] * 6, ctypes.c_int64)(native.address("xjit_call_entry"))
    alloc = ctypes.CFUNCTYPE(word, ctypes.c_int64)(native.address("xjit_scratch_alloc"))
    free = ctypes.CFUNCTYPE(None, word)(native.address("xjit_scratch_free"))
    initial = np.frombuffer(entry.initial_context, np.uint8)
    address, constants, arena_size = entry.address, entry.constants_address, entry.arena_size
    no_memory = f"program {program.name!r}: no memory for {arena_size:,} bytes of temporary values"
    failed = f"program {program.name!r} failed; a call from Python says where"
    keep = numba.njit(_keep)
    exhausted = int(RuntimeStatus.RESOURCE_EXHAUSTED)

    @numba.njit
    def run(parameters: Any, results: Any) -> None:
        arena = 0
        if arena_size > 0:
            arena = alloc(arena_size)
            if arena == 0:
                raise ResourceExhausted(no_memory)
        context = initial.copy()
        status = call_entry(
            address, context.ctypes.data, parameters.ctypes.data, results.ctypes.data, arena, constants, 0
        )
        keep(context)
        if arena_size > 0:
            free(arena)
        if status == exhausted:
            raise ResourceExhausted(no_memory)
        if status != 0:
            raise ExecutionError(failed)

    return run


def _major_to_minor(signature: ArraySignature) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory. Errors: Unsupported for padded buffers."""
    rank = len(signature.shape)
    if signature.tiles or signature.byte_size != int(np.prod(signature.shape, dtype=object)) * signature.dtype.itemsize:
        raise Unsupported(f"{signature.describe()} has no form as an array of numba")
    order = signature.minor_to_major
    return tuple(range(rank)) if order is None else order[::-1]


def _element_type(signature: ArraySignature) -> Any:
    support: Any = import_optional("numba.np.numpy_support", "numba", _NEEDED)
    errors: Any = import_optional("numba.core.errors", "numba", _NEEDED)
    try:
        return support.from_dtype(signature.dtype)
    except (errors.NumbaError, NotImplementedError) as error:
        raise Unsupported(f"{signature.describe()}: numba has no arrays of {signature.dtype.name}") from error


def _make_converter(signature: ArraySignature, place: str) -> Any:
    """A function from an argument to the program's buffer: the same memory, or a copy in the right order."""
    extending: Any = import_optional("numba.extending", "numba", _NEEDED)
    types: Any = import_optional("numba.types", "numba", _NEEDED)
    errors: Any = import_optional("numba.core.errors", "numba", _NEEDED)
    shape, dtype, element, order = (
        signature.shape,
        signature.dtype,
        _element_type(signature),
        _major_to_minor(signature),
    )
    message = f"{place}: expected {signature.describe()}"
    takes_number = types.Complex if dtype.kind == "c" else types.Float if dtype.kind == "f" else types.Integer

    def convert(value: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
        raise NotImplementedError("only compiled code calls this")

    def scalar(value: Any) -> Any:
        result = np.empty((), dtype)
        result[()] = value
        return result

    def in_order(value: Any) -> Any:
        if value.shape != shape:
            raise ValueError(message)
        return value if value.ctypes.data % PARAMETER_ALIGNMENT == 0 else value.copy()

    def reordered(value: Any) -> Any:
        if value.shape != shape:
            raise ValueError(message)
        return np.ascontiguousarray(value.transpose(order))

    @extending.overload(convert)
    def choose(value: Any) -> Callable[[Any], Any]:  # pyright: ignore[reportUnusedFunction]
        is_number = isinstance(value, (types.Number, types.Boolean))
        if shape == () and is_number and (value == element or isinstance(value, (takes_number, types.Integer))):
            return scalar
        if not isinstance(value, types.Array) or value.dtype != element or value.ndim != len(shape):
            raise errors.TypingError(f"{message}, got {value}")
        return in_order if value.layout == "C" and order == tuple(range(len(shape))) else reordered

    return convert


def _make_result(signature: ArraySignature) -> tuple[Any, Any]:
    """Two functions: a fresh buffer for a result, and from that buffer to the logical array."""
    numba: Any = import_optional("numba", "numba", _NEEDED)
    _element_type(signature)
    order, dtype = _major_to_minor(signature), signature.dtype
    physical_shape = tuple(signature.shape[dimension] for dimension in order)
    inverse = tuple(int(position) for position in np.argsort(order))

    @numba.njit
    def empty() -> Any:
        return np.empty(physical_shape, dtype)

    @numba.njit
    def logical(buffer: Any) -> Any:
        return buffer.transpose(inverse)

    @numba.njit
    def same(buffer: Any) -> Any:
        return buffer

    return empty, same if inverse == tuple(range(len(order))) else logical
