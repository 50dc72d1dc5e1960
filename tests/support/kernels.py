"""Harness for kernel emitters: compiles small modules and compares them with the evaluator.

`check` runs a module through `xjit.compile`. `check_units` runs the kernels of a one-instruction module by
themselves, with their units cut in several ways: all must give the same bits.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import tests.support.verified_passes  # noqa: F401
import xjit
from xjit.compile_options import CompileOptions
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.table import emit_kernels
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.schedule.parser import parse_schedule
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.verify_view import verify_for_view
from xjit.emitters.schedule_emitter import emit_schedule
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.execution_context import initial_context
from xjit.llvm.module import Module
from xjit.llvm.target import Target
from xjit.runtime import jit
from xjit.runtime.elf import undefined_symbols
from xjit.runtime.symbols import resolve_symbols
from xjit.text.parser import parse_hlo

Array = np.ndarray[Any, Any]
LAYOUTS = CompileOptions(keep_intermediate_layouts=True)
"""Keeps the layouts that the text gives to inner instructions."""


def random_inputs(module: xjit.HloModule, seed: int = 0, low: int = -4, high: int = 9) -> list[Any]:
    """Returns one array per parameter: normal floats, small integers, coin flips."""
    return [
        random_array(p.shape, np.random.default_rng([seed, number]), low, high)
        for number, p in enumerate(module.entry_computation.parameter_instructions)
    ]


def random_array(shape: Shape, rng: np.random.Generator, low: int = -4, high: int = 9) -> Any:
    """Returns random elements of the shape's type; a tuple of arrays for a tuple, () for a token."""
    if not shape.is_array:
        return tuple(random_array(s, rng, low, high) for s in shape.tuple_shapes)
    kind, size = shape.element_type, shape.dimensions
    if kind.is_complex:
        return (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(shape.dtype)
    if kind.is_float:
        return rng.standard_normal(size).astype(shape.dtype)
    if kind.is_integer:
        bottom = low if kind.is_signed else 0
        return rng.integers(bottom, min(high, 1 << (kind.bit_width - kind.is_signed)), size).astype(shape.dtype)
    return rng.integers(0, 2, size).astype(shape.dtype)


def check(
    text: str,
    *inputs: Array,
    rtol: float = 0.0,
    atol: float = 0.0,
    options: CompileOptions | None = None,
    seed: int = 0,
) -> list[Array]:
    """Compiles HLO text and compares every result with the evaluator (exactly, by default); returns the results.

    NaNs match NaNs whatever their bits; zeros must have the same sign when the comparison is exact.
    """
    module = parse_hlo(text)
    given = list(inputs) if inputs else random_inputs(module, seed)
    actual = leaves_of(xjit.compile(module, options=options)(*given))
    expected = leaves_of(xjit.evaluate(module, *given))
    assert len(actual) == len(expected)
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        compare(a, e, rtol, atol, f"result {number}")
    return actual


def leaves_of(value: Any) -> list[Array]:
    """Returns the arrays of a nested tuple, left to right."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves_of(item)]
    return [] if value is None else [np.asarray(value)]


def compare(actual: Array, expected: Array, rtol: float, atol: float, what: str) -> None:
    """Asserts that two arrays agree in type, shape and elements."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64 if _is_float(expected) else expected.dtype
    a, e = actual.astype(wide), expected.astype(wide)
    if rtol or atol:
        np.testing.assert_allclose(a, e, rtol=rtol, atol=atol, err_msg=what)
        return
    np.testing.assert_array_equal(a, e, err_msg=what)
    if wide is np.float64:
        numbers = ~np.isnan(e)
        np.testing.assert_array_equal(np.signbit(a[numbers]), np.signbit(e[numbers]), err_msg=what)


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" or (x.dtype.kind == "V" and not np.can_cast(x.dtype, np.int32))


def check_units(
    text: str, *inputs: Array, rtol: float = 0.0, atol: float = 0.0, schedule: Schedule | None = None
) -> int:
    """Runs the kernels of the root instruction, whose operands are the parameters; returns the units of the last one.

    With a `schedule`, that is emitted instead of what the planner would make. The units run all at once, one by one, and in three uneven pieces in reverse order: the bits must not differ.
    """
    module = parse_hlo(text)
    entry = module.entry_computation
    given = list(inputs) if inputs else random_inputs(module)
    view = view_of(entry.root_instruction)
    llvm_module, kernels = emit_view(view, schedule=schedule)
    for kernel in kernels:
        kernel.function.linkage = ""
    text_ir = llvm_module.to_text()
    objects = jit.compile_modules_to_objects([*llvm_module.libraries.values(), text_ir])
    code = jit.load_object(objects, [k.function.name for k in kernels], resolve_symbols(undefined_symbols(objects)))
    operands = [_physical(a, p.shape) for a, p in zip(given, entry.parameter_instructions, strict=True)]
    expected = leaves_of(xjit.evaluate(module, *given))
    runs = [_run(code, kernels, operands, view.result_shapes, cuts) for cuts in (1, 0, 3)]
    for shape, result, want in zip(view.result_shapes, runs[0], expected, strict=True):
        logical = result.transpose(np.argsort(shape.minor_to_major[::-1])) if shape.rank else result
        compare(logical, want, rtol, atol, str(shape))
    for other in runs[1:]:
        assert [r.tobytes() for r in other] == [r.tobytes() for r in runs[0]], "bits depend on the partition"
    return kernels[-1].units


def view_of(root: HloInstruction) -> KernelView:
    """Returns the view of an instruction whose operands, in order, are the parameters of its computation."""
    if root.opcode == "fusion":
        return KernelView.of(root)
    return KernelView(root, (root,), tuple(root.parent.parameter_instructions))


def emit_view(
    view: KernelView, target: Target | None = None, schedule: Schedule | None = None
) -> tuple[Module, list[Kernel]]:
    """Emits the kernels of a view, or one of a schedule, into a module of their own."""
    module = Module("kernels", target or Target.host())
    context = KernelContext(module, module.target)
    kernels = emit_kernels(context, view) if schedule is None else [emit_schedule(context, view, schedule)]
    for made in (kernel.schedule for kernel in kernels if kernel.schedule is not None):
        assert parse_schedule(str(made)) == made
        verify_for_view(made, view)
    return module, kernels


def kernel_text(text: str, target: Target | None = None) -> str:
    """Returns the LLVM IR of the kernels of a module's root instruction."""
    return emit_view(view_of(parse_hlo(text).entry_computation.root_instruction), target)[0].to_text()


def _physical(array: Array, shape: Shape) -> Array:
    order = shape.minor_to_major[::-1]
    return np.ascontiguousarray(np.transpose(array, order)).reshape([array.shape[d] for d in order])


def _run(
    code: jit.LoadedObject, kernels: Sequence[Kernel], operands: Sequence[Array], shapes: Sequence[Shape], cuts: int
) -> list[Array]:
    results = [np.zeros([s.dimensions[d] for d in s.minor_to_major[::-1]], s.dtype) for s in shapes]
    context = ctypes.create_string_buffer(initial_context())
    pointers = [ctypes.addressof(context), *(x.ctypes.data for x in (*operands, *results))]
    for kernel in kernels:
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64, ctypes.c_int64)
        function = signature(code.address(kernel.function.name))
        for begin, end in reversed(_pieces(kernel.units, cuts or kernel.units)):
            function(*pointers, begin, end)
    return results


def _pieces(units: int, count: int) -> list[tuple[int, int]]:
    bounds = sorted({units * i // count for i in range(count + 1)})
    return list(itertools.pairwise(bounds))
