"""Compiles one element-wise kernel and runs it on NumPy arrays."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from xjit.llvm import IRBuilder, Module, Param, Target
from xjit.llvm import types as ty
from xjit.llvm import values as va
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import CodegenOptions, compile_modules_to_objects
from xjit.runtime.machine_code.linker import load_object

LEVELS = ("sse2", "sse4.2", "avx2", "avx512")


def available_levels():
    """The instruction sets that the host can run, narrowest first."""
    host = Target.host()
    needs = {
        "sse2": ("sse2",),
        "sse4.2": ("sse4.2",),
        "avx2": ("avx2", "fma", "f16c"),
        "avx512": ("avx512vl", "avx512dq"),
    }
    return [level for level in LEVELS if all(host.has(feature) for feature in needs[level])]


def host_levels():
    """Parameters: `available_levels`, of which all but the narrowest and the widest are marked slow."""
    levels = available_levels()
    outer = (levels[0], levels[-1])
    return [level if level in outer else pytest.param(level, marks=pytest.mark.slow) for level in levels]


class Kernel:
    """`emit(builder, *values) -> values` over `width` elements at a time. Arrays must be multiples of `width`.

    `in_types` and `out_types` are the LLVM element types in memory.
    """

    def __init__(self, emit: Callable, in_types, out_types, width: int, target: Target | None = None):
        self.target = target or Target.host()
        self.width, self.in_types, self.out_types = width, in_types, out_types
        module = Module("kernel", self.target)
        params = [Param(ty.PTR, f"p{i}") for i in range(len(in_types) + len(out_types))]
        function = module.add_function("kernel", ty.VOID, [*params, (ty.I64, "n")])
        pointers, n = function.args[:-1], function.args[-1]
        entry, body, done = (function.append_block(label) for label in ("entry", "body", "done"))
        b = IRBuilder(entry)
        saved, flushing = b.alloca(ty.I32, align=4), b.alloca(ty.I32, align=4)
        b.store(va.const_int(ty.I32, 0x9FC0), flushing, 4)  # flush subnormals, as the runtime does
        b.intrinsic("x86.sse.stmxcsr", ty.VOID, (saved,), ())
        b.intrinsic("x86.sse.ldmxcsr", ty.VOID, (flushing,), ())
        b.br(body)
        b.position_at_end(body)
        i = b.phi(ty.I64)
        i.add_incoming(va.const_int(ty.I64, 0), entry)
        loads = [b.load(ty.vector(t, width), b.gep(t, p, i), t.bits // 8) for t, p in zip(in_types, pointers)]
        results = emit(b, *loads)
        results = results if isinstance(results, (tuple, list)) else (results,)
        for value, t, p in zip(results, out_types, pointers[len(in_types) :], strict=True):
            assert value.type is ty.vector(t, width), (value, t)
            b.store(value, b.gep(t, p, i), t.bits // 8)
        following = b.add(i, va.const_int(ty.I64, width))
        i.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, n), body, done)
        b.position_at_end(done)
        b.intrinsic("x86.sse.ldmxcsr", ty.VOID, (saved,), ())
        b.ret_void()
        self.text = module.to_text()
        texts = (*(library.make_text() for library in module.libraries.values()), self.text)
        objects = compile_modules_to_objects(texts, CodegenOptions(cpu=self.target.cpu, features=self.target.features))
        self.undefined = undefined_symbols(objects)
        if not self.undefined:
            self._loaded = load_object(objects, ["kernel"], {})
            address = self._loaded.address("kernel")
            self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(params), ctypes.c_int64)(address)

    def __call__(self, inputs, out_dtypes):
        arrays = [np.ascontiguousarray(a) for a in inputs]
        n = arrays[0].size
        assert n % self.width == 0, (n, self.width)
        outs = [np.empty(n, d) for d in out_dtypes]
        self._call(*[a.ctypes.data for a in (*arrays, *outs)], n)
        return outs


def ulp_error(result, exact):
    """|result - exact| in units of the last place of the rounded exact value; `exact` is longdouble."""
    dtype = result.dtype
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        spacing = np.spacing(np.maximum(np.abs(rounded), info.tiny).astype(dtype)).astype(np.longdouble)
        error = np.abs(result.astype(np.longdouble) - exact) / spacing
        same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        flushed = (np.abs(exact) < info.tiny) & (np.abs(result) <= info.tiny)  # subnormal results may be flushed
        error = np.where(np.isinf(result) | np.isinf(rounded), np.where(same, 0, np.inf), error)
        error = np.where(np.isnan(result) != np.isnan(rounded), np.inf, error)
    return np.where(same | flushed, np.where(same & ~np.isfinite(rounded), 0, np.where(flushed, 0, error)), error)
