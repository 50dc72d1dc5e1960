"""What code is generated for: facts about instruction set, memory and calls that emitters ask instead of hard-coding.

A `Target` is plain data. Its data layout is the one of LLVM's target machine.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import llvmlite.binding as llvm

from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.gpu_models import GPU_MODELS, GpuModel
from xjit.llvm.host_cpu import enabled_features, host_features, slow_features
from xjit.llvm.types import LLVMType

_LEVELS: dict[str, str] = {
    "sse2": "+sse,+sse2,+cx8,+cmov,+fxsr,+64bit",
    "sse4.2": "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx8,+cx16,+cmov,+fxsr,+64bit,+sahf",
}
_LEVELS["avx2"] = _LEVELS["sse4.2"] + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_LEVELS["avx512"] = _LEVELS["avx2"] + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
_LEVELS["avx512_vnni"] = _LEVELS["avx512"] + ",+avx512vnni"
_LEVELS["avx512_bf16"] = _LEVELS["avx512_vnni"] + ",+avx512bf16"
_LEVELS["amx"] = _LEVELS["avx512_bf16"] + ",+amx-tile,+amx-int8,+amx-bf16"
LEVELS = tuple(_LEVELS)
"""The x86-64 levels of `Target.for_features`, lowest first."""

_LEVEL_CPUS = {"sse2": "x86-64", "sse4.2": "x86-64-v2", "avx2": "x86-64-v3"}  # others: x86-64-v4
_EMULATED = {
    "avx512_bf16_emulated": ("avx512", ("avx512bf16",)),
    "amx_emulated": ("avx512", ("avx512bf16", "amx-int8", "amx-bf16")),
}
"""Levels for tests: (the level that code needs, features whose instructions are done by others)."""

NVPTX_TRIPLE = "nvptx64-nvidia-cuda"
GPU_VECTOR_BITS = 128
"""The widest access of one thread in one instruction; arithmetic is scalar."""


@dataclass(frozen=True, slots=True)
class AddressSpaces:
    """LLVM's number of each kind of memory. On CPUs all are the generic address space, 0."""

    global_: int = 0
    shared: int = 0  # among the threads of a block
    constant: int = 0
    local: int = 0  # of one thread


@dataclass(frozen=True, slots=True)
class Target:
    """A processor. `features` is LLVM's string ("+avx2,-avx512f"); `vector_bits` the width of vectors that code uses.

    `kernel_calling_convention` is LLVM's word in the definitions of kernels ("ptx_kernel"), "" for C's.
    """

    name: str
    triple: str
    data_layout: str  # from `data_layout(triple)`
    cpu: str
    features: str
    vector_bits: int
    kernel_calling_convention: str = ""
    address_spaces: AddressSpaces = AddressSpaces()
    gpu: GpuModel | None = None  # of a GPU: its limits
    emulated: tuple[str, ...] = ()  # features that code may use by functions that do the same, for tests
    slow: frozenset[str] = frozenset()  # features that the processor has, and does better without
    bf16_planes: bool = True  # whether matrix units may multiply f32 and f16 as sums of bf16 numbers
    scalar_loops: bool = False  # whether loops take one element at a time: less code, sooner compiled

    @staticmethod
    def host() -> Target:
        """The machine that runs this."""
        return _host_target()

    @staticmethod
    def for_features(level: str) -> Target:
        """A generic x86-64 of one of `LEVELS`, such as "sse2" or "avx512": narrower code also runs on wider hosts.

        InvalidArgument for another level.
        """
        if level in _EMULATED:
            base, emulated = _EMULATED[level]
            return replace(Target.for_features(base), emulated=emulated)
        if level not in _LEVELS:
            raise InvalidArgument(f"unknown x86-64 level '{level}': expected one of {', '.join(LEVELS)}")
        return _cpu_target(_LEVEL_CPUS.get(level, "x86-64-v4"), _LEVELS[level])

    @staticmethod
    def for_gpu(name: str) -> Target:
        """An NVIDIA architecture such as "sm_90". InvalidArgument for one that is not in the table."""
        if name not in GPU_MODELS:
            raise InvalidArgument(f"unknown GPU '{name}': expected one of {', '.join(GPU_MODELS)}")
        return _gpu_target(GPU_MODELS[name])

    def has(self, feature: str) -> bool:
        """Whether the target has an LLVM feature such as "fma"."""
        return feature in enabled_features(self.features)

    def offers(self, feature: str) -> bool:
        """Whether code should be written for a feature: the target has it and gains by it, or it is emulated."""
        return feature not in self.slow and (self.has(feature) or feature in self.emulated)

    @property
    def has_fma(self) -> bool:
        """Whether `llvm.fma` is one instruction (otherwise it is a slow library call)."""
        return self.gpu is not None or self.has("fma") or self.has("avx512f")

    @property
    def has_f16c(self) -> bool:
        """Whether half converts to and from float in one instruction."""
        return self.gpu is not None or self.has("f16c") or self.has("avx512f")

    @property
    def has_masked_ops(self) -> bool:
        """Whether masked loads and stores of 32- and 64-bit elements are single instructions."""
        return self.has("avx2") or self.has("avx512f")

    @property
    def has_rounding(self) -> bool:
        """Whether floor, ceil, trunc and roundeven are instructions (otherwise they are library calls)."""
        return self.gpu is not None or self.has("sse4.1")

    @property
    def keeps_nan_payloads(self) -> bool:
        """Whether a NaN that arithmetic returns has the payload of one of its operands, or none."""
        return self.gpu is None

    @property
    def has_vector_arithmetic(self) -> bool:
        """Whether lanes of a register are computed with in one instruction."""
        return self.gpu is None

    @property
    def has_prefetch(self) -> bool:
        """Whether memory can be fetched into the cache ahead: threads of a GPU hide its latency from one another."""
        return self.gpu is None

    @property
    def has_aligned_vectors(self) -> bool:
        """Whether access to a vector is one instruction only where it is known to be aligned."""
        return self.gpu is not None

    @property
    def has_scalef(self) -> bool:
        """Whether x * 2^floor(n) is one instruction."""
        return self.has("avx512f") and self.has("avx512vl")

    def vector_width(self, type: LLVMType) -> int:
        """Elements of `type` (a scalar) in one register; 1-bit values count as bytes."""
        return max(1, self.vector_bits // max(8, type.elem.bits))


def _vector_bits(features: str) -> int:
    enabled = enabled_features(features)
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= enabled:
        return 512
    return 256 if "avx2" in enabled else 128


@functools.cache
def _host_target() -> Target:
    cpu = llvm.get_host_cpu_name()
    return replace(_cpu_target(cpu, host_features()), slow=slow_features(cpu))


def _cpu_target(cpu: str, features: str) -> Target:
    triple = llvm.get_default_triple()
    return Target("cpu", triple, data_layout(triple), cpu, features, _vector_bits(features))


@functools.cache
def _gpu_target(model: GpuModel) -> Target:
    layout = data_layout(NVPTX_TRIPLE, model.name)
    features = ptx_feature(model.ptx_version)
    spaces = AddressSpaces(global_=1, shared=3, constant=4, local=5)
    return Target("cuda", NVPTX_TRIPLE, layout, model.name, features, GPU_VECTOR_BITS, "ptx_kernel", spaces, model)


def ptx_feature(version: str) -> str:
    """LLVM's name of a version of PTX such as "7.8"."""
    return f"+ptx{version.replace('.', '')}"


@functools.cache
def data_layout(triple: str, cpu: str = "") -> str:
    """LLVM's data layout string for a triple. RuntimeError if this LLVM has no such target."""
    llvm.initialize_all_targets()
    return str(llvm.Target.from_triple(triple).create_target_machine(cpu=cpu).target_data)
