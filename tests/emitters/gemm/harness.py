"""Compiles multiplications and runs them on NumPy arrays with guarded buffers."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape
from xjit.emitters.gemm.blocking.storage import FLOAT8_KINDS, UNSIGNED
from xjit.emitters.gemm.gemm import ANY_METHOD, emit_gemm
from xjit.emitters.gemm.routine import Routine, routine_for
from xjit.llvm import LLVMType, Module, Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF, I8, I16, I32, I64
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import CodegenOptions, compile_ir_to_object
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.machine_code.symbols import resolve_symbols

DTYPES = {
    FLOAT: np.dtype(np.float32),
    DOUBLE: np.dtype(np.float64),
    HALF: np.dtype(np.float16),
    BFLOAT: np.dtype(ml_dtypes.bfloat16),
    I8: np.dtype(np.int8),
    UNSIGNED: np.dtype(np.uint8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    **{storage: kind.dtype for storage, kind in FLOAT8_KINDS.items()},
}
GUARD_BYTES = 4096
FLOAT_TYPES = GemmTypes()
GUARD = 0xC5


@dataclass(frozen=True, slots=True)
class Compiled:
    """A loaded function of five or more pointers; the object keeps its code alive."""

    loaded: LoadedObject
    call: Callable[..., None]


def compile_module(module: Module, exports: Sequence[str], num_pointers: int) -> dict[str, Compiled]:
    """Generates code for the module's target and links it."""
    target = module.target
    options = CodegenOptions(cpu=target.cpu, features=target.features)
    code = compile_ir_to_object(module.to_text(), options)
    loaded = load_object(code, exports, resolve_symbols(undefined_symbols([code])))
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * num_pointers)
    return {name: Compiled(loaded, prototype(loaded.address(name))) for name in exports}


def target_of(level: str) -> Target:
    """The target of a level: "host", or one of `Target.for_features`."""
    return Target.host() if level == "host" else Target.for_features(level)


@functools.cache
def compiled_gemm(level: str, types: GemmTypes, routine: Routine = ANY_METHOD) -> tuple[Target, Compiled]:
    """The multiplication for a level ("host" or of `Target.for_features`) and types."""
    target = target_of(level)
    module = Module("gemm", target)
    function = emit_gemm(module, target, types, routine)
    return target, compile_module(module, [function.name], 5)[function.name]


class GuardedBuffer:
    """Memory for a strided operand, at an offset from a 64-byte boundary, between guard bytes."""

    def __init__(self, elem: LLVMType, num_elements: int, misalign: int = 0) -> None:
        self.dtype = DTYPES[elem]
        num_bytes = num_elements * self.dtype.itemsize
        self.raw = np.full(num_bytes + 2 * GUARD_BYTES + 128, GUARD, np.uint8)
        start = GUARD_BYTES + (-(self.raw.ctypes.data + GUARD_BYTES)) % 64 + misalign * self.dtype.itemsize
        self.start, self.num_bytes = start, num_bytes
        self.array = self.raw[start : start + num_bytes].view(self.dtype)

    @property
    def address(self) -> int:
        return self.array.ctypes.data if self.num_bytes else self.raw.ctypes.data + self.start

    def check_guards(self) -> None:
        """Fails if a byte around the buffer was written."""
        assert (self.raw[: self.start] == GUARD).all(), "wrote in front of the buffer"
        assert (self.raw[self.start + self.num_bytes :] == GUARD).all(), "wrote behind the buffer"


def span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one of a strided operand with strides >= 0."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))


def strided(buffer: np.ndarray, sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The operand as an array view."""
    size = buffer.itemsize  # NumPy strides only types of its own
    plain = np.lib.stride_tricks.as_strided(buffer.view(f"u{size}"), sizes, [stride * size for stride in strides])
    return plain.view(buffer.dtype)


def operand_layouts(shape: GemmShape) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sizes and strides of lhs [batch, m, ko, ki], rhs [batch, ko, ki, n] and out [batch, m, n]."""
    sizes = tuple(dimension.size for dimension in shape.batch)
    return {
        "lhs": (
            (*sizes, shape.m, shape.k_outer, shape.k_inner),
            (*(d.lhs_stride for d in shape.batch), shape.lhs_row, shape.lhs_k_outer, shape.lhs_k_inner),
        ),
        "rhs": (
            (*sizes, shape.k_outer, shape.k_inner, shape.n),
            (*(d.rhs_stride for d in shape.batch), shape.rhs_k_outer, shape.rhs_k_inner, shape.rhs_column),
        ),
        "out": (
            (*sizes, shape.m, shape.n),
            (*(d.out_stride for d in shape.batch), shape.out_row, shape.out_column),
        ),
    }


def run_gemm(
    shape: GemmShape,
    types: GemmTypes = FLOAT_TYPES,
    level: str = "host",
    seed: int = 0,
    misalign: int = 1,
    tolerance: float = 0,
    fits: bool = False,
) -> np.ndarray:
    """Runs one multiplication of random numbers, checks it against NumPy and its guards; returns the result.

    Numbers are small multiples of 1/8 (1 for integers), the result is exact. With a tolerance they have all bits: it
    bounds each error beside the sum of absolute products. What runs can do any multiplication, or if it `fits` no more
    than this one needs.
    """
    target = target_of(level)
    plan = plan_gemm(shape, types, target)
    routine = replace(routine_for(plan, types, target), linked=False) if fits else ANY_METHOD
    _, compiled = compiled_gemm(level, types, routine)
    layouts = operand_layouts(shape)
    rng = np.random.default_rng(seed)
    buffers: dict[str, GuardedBuffer] = {}
    for name, elem in (("lhs", types.lhs), ("rhs", types.rhs), ("out", types.out)):
        buffers[name] = GuardedBuffer(elem, span(*layouts[name]), misalign)
        size = buffers[name].array.size
        unit = 8 if elem.is_float else 1
        numbers = rng.standard_normal(size) if tolerance else rng.integers(-8, 9, size) / unit
        buffers[name].array[:] = (numbers if name != "out" else np.full(size, 77)).astype(buffers[name].dtype)
    views = {name: strided(buffers[name].array, *layouts[name]) for name in layouts}
    before = buffers["out"].array.copy()
    record = plan.to_array()
    compiled.call(buffers["out"].address, buffers["lhs"].address, buffers["rhs"].address, 0, record.ctypes.data)
    lhs, rhs = (views[name].astype(np.float64) for name in ("lhs", "rhs"))
    lhs = lhs.reshape(*lhs.shape[:-2], shape.k)
    rhs = rhs.reshape(*rhs.shape[:-3], shape.k, shape.n)
    expected = (lhs @ rhs).astype(DTYPES[types.out])
    result = views["out"].copy()
    if tolerance:
        assert (np.abs(result - expected) <= tolerance * (np.abs(lhs) @ np.abs(rhs))).all(), shape
        expected = result
    np.testing.assert_array_equal(result, expected, err_msg=str(shape))
    strided(before, *layouts["out"])[...] = expected
    np.testing.assert_array_equal(buffers["out"].array, before, err_msg="wrote between the rows of the result")
    for buffer in buffers.values():
        buffer.check_guards()
    return result
