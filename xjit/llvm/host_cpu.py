"""What the CPU of this machine has, and whether the kernel lets this process use it.

Linux gives a process the state of matrix units (AMX tiles) only if it asks, once; threads and forked children inherit
the answer. Where it says no, the features are as good as missing.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

import llvmlite.binding as llvm

_SYS_ARCH_PRCTL = 158
_ARCH_GET_XCOMP_PERM = 0x1022
_ARCH_REQ_XCOMP_PERM = 0x1023
_XFEATURE_XTILEDATA = 18


@functools.cache
def host_features() -> str:
    """LLVM's feature string of this machine, sorted: "+avx,+avx2,-avx512f". A process that has it may use all of it."""
    features = llvm.get_host_cpu_features()
    return (features if not features.get("amx-tile") or _may_use_tiles() else without_tiles(features)).flatten()


def slow_features(cpu: str) -> frozenset[str]:
    """The features of a CPU, by LLVM's name, whose instructions take longer than those that they stand for.

    Intel's cores start a `vdpbf16ps` of 512 bits every other cycle, and two multiply-adds of f32 in each: dots of bf16
    ran at 150 GFLOP/s with the one, at 310 with the others. AMD's start as many of either.
    """
    return frozenset() if cpu.startswith("znver") else frozenset({"avx512bf16"})


@functools.lru_cache(maxsize=64)
def enabled_features(features: str) -> frozenset[str]:
    """The names of the features that a feature string turns on."""
    return frozenset(flag[1:] for flag in features.split(",") if flag.startswith("+"))


def without_tiles(features: llvm.FeatureMap) -> llvm.FeatureMap:
    """The features without those of matrix units."""
    kept = {name: has and not name.startswith("amx-") for name, has in features.items()}
    return llvm.FeatureMap(kept)


def _may_use_tiles() -> bool:
    """Asks the kernel for the tile state; whether it agrees, and says so afterwards: a sandbox may ignore the call."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    granted = ctypes.c_uint64(0)
    agrees = _arch_prctl(_ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0
    known = _arch_prctl(_ARCH_GET_XCOMP_PERM, ctypes.addressof(granted)) == 0
    return agrees and known and bool(granted.value >> _XFEATURE_XTILEDATA & 1)


def _arch_prctl(code: int, argument: int) -> int:
    """Makes the system call; 0 if it succeeds."""
    arguments = (_SYS_ARCH_PRCTL, code, argument)
    return int(ctypes.CDLL(None).syscall(*[ctypes.c_long(number) for number in arguments]))
