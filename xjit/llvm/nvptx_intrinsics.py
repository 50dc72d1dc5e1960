"""Which LLVM intrinsics code for NVIDIA GPUs may use, per architecture.

LLVM aborts the process on what its back end cannot select: `llvm.exp` and its kin, which have no library here, or
an instruction that the architecture lacks. So a module is checked before any code is generated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo.diagnostics import CompileError
from xjit.llvm.gpu_models import GpuModel
from xjit.llvm.matrix_units import MATRIX_UNITS

_SPECIAL_REGISTERS = tuple(
    f"llvm.nvvm.read.ptx.sreg.{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"
)
_SHUFFLES = tuple(
    f"llvm.nvvm.shfl.sync.{how}.{kind}" for how in ("bfly", "down", "up", "idx") for kind in ("i32", "f32")
)

NVVM_INTRINSICS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(_SPECIAL_REGISTERS, 0),
        "llvm.nvvm.read.ptx.sreg.laneid": 0,
        "llvm.nvvm.barrier.cta.sync.aligned.all": 0,
        "llvm.nvvm.bar.warp.sync": 0,
        **dict.fromkeys(_SHUFFLES, 0),
        "llvm.nvvm.vote.any.sync": 0,
        "llvm.nvvm.vote.all.sync": 0,
        "llvm.nvvm.vote.ballot.sync": 0,
        "llvm.nvvm.match.any.sync.i32": 0,
        "llvm.nvvm.redux.sync.add": 80,
        "llvm.nvvm.cp.async.cg.shared.global.16.s": 80,
        "llvm.nvvm.cp.async.wait.all": 80,
        **{f"llvm.{unit.intrinsic}": unit.compute_capability for unit in MATRIX_UNITS.values()},
    }
)
"""Full name -> the lowest compute capability that has it; 0: all that `GPU_MODELS` lists."""

_PTX_VERSIONS: Mapping[str, str] = MappingProxyType(
    {f"llvm.{unit.intrinsic}": unit.ptx_version for unit in MATRIX_UNITS.values()}
)
"""The lowest version of PTX that has an intrinsic, where that may be later than its architecture's."""

_OVERLOADED = frozenset(
    [
        "sqrt", "fma", "fmuladd", "fabs", "copysign", "floor", "ceil", "trunc", "rint", "nearbyint", "roundeven",
        "ldexp", "is.fpclass", "minnum", "maxnum", "minimum", "maximum", "minimumnum", "maximumnum", "abs", "smax",
        "smin", "umax", "umin", "ctpop", "ctlz", "cttz", "bswap", "bitreverse", "fshl", "fshr", "fptosi.sat",
        "fptoui.sat", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat", "sadd.with.overflow", "uadd.with.overflow",
        "ssub.with.overflow", "usub.with.overflow", "smul.with.overflow", "umul.with.overflow", "masked.load",
        "masked.store", "masked.gather", "masked.scatter", "vector.reduce.add", "vector.reduce.and",
        "vector.reduce.or", "memcpy", "memmove", "memset", "lifetime.start", "lifetime.end",
    ]
)  # fmt: skip
"""Without `llvm.` and the types at the end."""

_PLAIN = frozenset(["llvm.assume", "llvm.sideeffect"])
_NAME = re.compile(r"@(llvm\.[\w.]+)")
_TYPE_SUFFIX = re.compile(r"(?:\.(?:v\d+)?(?:i\d+|f\d+|bf16|p\d+))*")


def check_nvptx_ir(ir_text: str, model: GpuModel) -> None:
    """Raises CompileError if a module uses an intrinsic that LLVM cannot select for an architecture."""
    for name in sorted(set(_NAME.findall(ir_text))):
        lowest = NVVM_INTRINSICS.get(name)
        if lowest is not None:
            if model.compute_capability < lowest:
                raise CompileError(f"the LLVM intrinsic {name} needs sm_{lowest}; the target is {model.name}")
        elif name not in _PLAIN and not _is_overload(name):
            raise CompileError(f"the LLVM intrinsic {name} cannot be compiled for {model.name}")


def ptx_version(ir_text: str, model: GpuModel) -> str:
    """Returns the lowest version of PTX that has an architecture, and the intrinsics of a module."""
    needed = [_PTX_VERSIONS[name] for name in set(_NAME.findall(ir_text)) if name in _PTX_VERSIONS]
    return max([model.ptx_version, *needed], key=lambda version: tuple(map(int, version.split("."))))


def _is_overload(name: str) -> bool:
    """Whether a name is one of `_OVERLOADED` with types at its end."""
    parts = name.removeprefix("llvm.").split(".")
    bases = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return any(
        base in _OVERLOADED and _TYPE_SUFFIX.fullmatch(name[len("llvm.") + len(base) :]) is not None for base in bases
    )
