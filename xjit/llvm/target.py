"""What code is generated for: vector widths and instruction-set facts that emitters ask instead of hard-coding.

A `Target` is plain data.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import llvmlite.binding as llvm

from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.types import LLVMType

_LEVELS: dict[str, str] = {
    "sse2": "+sse,+sse2,+cx8,+cmov,+fxsr,+64bit",
    "sse4.2": "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx8,+cx16,+cmov,+fxsr,+64bit,+sahf",
}
_LEVELS["avx2"] = _LEVELS["sse4.2"] + ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_LEVELS["avx512"] = _LEVELS["avx2"] + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
LEVELS = tuple(_LEVELS)
"""The x86-64 levels of `Target.for_features`, lowest first."""

_LEVEL_CPUS = {"sse2": "x86-64", "sse4.2": "x86-64-v2", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU. `features` is LLVM's string ("+avx2,-avx512f"); `vector_bits` the width of the vectors that code uses."""

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int

    @staticmethod
    def host() -> Target:
        """The machine that runs this."""
        return _host_target()

    @staticmethod
    def for_features(level: str) -> Target:
        """A generic x86-64 of level "sse2", "sse4.2", "avx2" or "avx512": narrower code also runs on wider hosts.

        InvalidArgument for another level.
        """
        if level not in _LEVELS:
            raise InvalidArgument(f"unknown x86-64 level '{level}': expected one of {', '.join(_LEVELS)}")
        features = _LEVELS[level]
        return Target("cpu", llvm.get_default_triple(), _LEVEL_CPUS[level], features, _vector_bits(features))

    def has(self, feature: str) -> bool:
        """Whether the target has an LLVM feature such as "fma"."""
        return feature in _enabled(self.features)

    @property
    def has_fma(self) -> bool:
        """Whether `llvm.fma` is one instruction (otherwise it is a slow library call)."""
        return self.has("fma") or self.has("avx512f")

    @property
    def has_f16c(self) -> bool:
        """Whether half converts to and from float in one instruction."""
        return self.has("f16c") or self.has("avx512f")

    @property
    def has_masked_ops(self) -> bool:
        """Whether masked loads and stores of 32- and 64-bit elements are single instructions."""
        return self.has("avx2") or self.has("avx512f")

    @property
    def has_rounding(self) -> bool:
        """Whether floor, ceil, trunc and roundeven are instructions (otherwise they are library calls)."""
        return self.has("sse4.1")

    @property
    def has_scalef(self) -> bool:
        """Whether x * 2^floor(n) is one instruction."""
        return self.has("avx512f") and self.has("avx512vl")

    def vector_width(self, type: LLVMType) -> int:
        """Elements of `type` (a scalar) in one register; 1-bit values count as bytes."""
        return max(1, self.vector_bits // max(8, type.elem.bits))


@functools.cache
def _enabled(features: str) -> frozenset[str]:
    return frozenset(flag[1:] for flag in features.split(",") if flag.startswith("+"))


def _vector_bits(features: str) -> int:
    enabled = _enabled(features)
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= enabled:
        return 512
    return 256 if "avx2" in enabled else 128


@functools.cache
def _host_target() -> Target:
    features = llvm.get_host_cpu_features().flatten()
    return Target("cpu", llvm.get_default_triple(), llvm.get_host_cpu_name(), features, _vector_bits(features))
