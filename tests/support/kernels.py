"""Harness for kernel emitters: compiles small modules and compares them with the evaluator.

`check` runs a module through `xjit.compile`. `check_units` runs the kernels of a one-instruction module by
themselves, with their units cut in several ways: all must give the same bits.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import tests.support.verified_passes  # noqa: F401
import xjit
from tests.support.guarded_call import CanaryError, GuardedBuffer
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
from xjit.llvm.target import LEVELS, Target
from xjit.runtime.machine_code import jit, linker
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import missing_features
from xjit.runtime.machine_code.symbols import resolve_symbols
from xjit.runtime.program import PARAMETER_ALIGNMENT
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

    With a `schedule`, that is emitted instead of what the planner would make. The units run all at once, one by one, and
    in three uneven pieces in reverse order, on operands and results between canaries: the bits must not differ. Without
    one, code for another level than this machine's runs as well; with XJIT_TEST_EVERY_LEVEL=1, code for all levels.
    """
    module = parse_hlo(text)
    given = list(inputs) if inputs else random_inputs(module)
    expected = leaves_of(xjit.evaluate(module, *given))
    view = view_of(module.entry_computation.root_instruction)
    units = 0
    for target in (Target.host(),) if schedule is not None else _targets(text):
        llvm_module, kernels = emit_view(view, target, schedule)
        units = units or kernels[-1].units
        code = _load(llvm_module, kernels, target)
        runs = [_run(code, kernels, _operands(view, given), view.result_shapes, cuts) for cuts in (1, 0, 3)]
        for shape, result, want in zip(view.result_shapes, runs[0], expected, strict=True):
            logical = result.transpose(np.argsort(shape.minor_to_major[::-1])) if shape.rank else result
            compare(logical, want, rtol, atol, f"{shape} on {target.cpu}")
        for other in runs[1:]:
            assert [r.tobytes() for r in other] == [r.tobytes() for r in runs[0]], "bits depend on the partition"
    return units


def _targets(text: str) -> list[Target]:
    """Returns this machine, and a level that the text chooses; all levels that it has, if the environment asks."""
    levels = [t for t in map(Target.for_features, LEVELS) if not missing_features(t.features)]
    every = os.environ.get("XJIT_TEST_EVERY_LEVEL") == "1"
    return [Target.host(), *(levels if every else [levels[zlib.crc32(text.encode()) % len(levels)]])]


def _load(module: Module, kernels: Sequence[Kernel], target: Target) -> linker.LoadedObject:
    for kernel in kernels:
        kernel.function.linkage = ""
    options = jit.CodegenOptions(cpu=target.cpu, features=target.features)
    objects = jit.compile_modules_to_objects(
        [*[library.make_text() for library in module.libraries.values()], module.to_text()], options
    )
    return linker.load_object(objects, [k.function.name for k in kernels], resolve_symbols(undefined_symbols(objects)))


def _operands(view: KernelView, given: Sequence[Array]) -> list[Array]:
    return [_physical(a, leaf.shape) for a, leaf in zip(given, view.leaves, strict=True)]


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
    code: linker.LoadedObject, kernels: Sequence[Kernel], operands: Sequence[Array], shapes: Sequence[Shape], cuts: int
) -> list[Array]:
    """Runs kernels on arrays between canaries; CanaryError if they write outside of their results."""
    given = [GuardedBuffer(a.nbytes, PARAMETER_ALIGNMENT) for a in operands]
    for buffer, array in zip(given, operands, strict=True):
        buffer.contents[:] = np.frombuffer(array.tobytes(), np.uint8)
    made = [GuardedBuffer(s.byte_size, PARAMETER_ALIGNMENT) for s in shapes]
    context = ctypes.create_string_buffer(initial_context())
    pointers = [ctypes.addressof(context), *(buffer.address for buffer in (*given, *made))]
    for kernel in kernels:
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64, ctypes.c_int64)
        function = signature(code.address(kernel.function.name))
        for begin, end in reversed(_pieces(kernel.units, cuts or kernel.units)):
            function(*pointers, begin, end)
    for buffer, array in zip(given, operands, strict=True):
        if found := buffer.touched():
            raise CanaryError(f"an operand: {found}")
        assert buffer.contents.tobytes() == array.tobytes(), "an operand was changed"
    for buffer in made:
        if found := buffer.touched():
            raise CanaryError(f"a result: {found}")
    sizes = [[s.dimensions[d] for d in s.minor_to_major[::-1]] for s in shapes]
    return [b.contents.view(s.dtype).reshape(size).copy() for b, s, size in zip(made, shapes, sizes, strict=True)]


def _pieces(units: int, count: int) -> list[tuple[int, int]]:
    bounds = sorted({units * i // count for i in range(count + 1)})
    return list(itertools.pairwise(bounds))
