"""Options of a compilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.flags import check_pattern
from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.target import Target
from xjit.passes import PASSES, find_pass
from xjit.passes.framework.driver import refuse_if_required

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of `xjit.compile`.

    `cpu_level` restricts the instruction set ("sse2", "sse4.2", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx";
    empty: the host's). `opt_level` is that of LLVM's code generator. `fusion` can be turned off to see every
    instruction as a kernel of its own. `profile` counts the cycles of every kernel call. `progress` is told each phase
    as it starts. Errors: InvalidArgument for an unknown level or pass. `cache_dir` is where object code is kept for
    other processes; None: where XJIT_CACHE_DIR says, else nowhere; "": nowhere. What XJIT_FLAGS says (`xjit.flags`)
    comes on top. `memory_limit_bytes`: where a program would take more, parameters included, values are computed again
    instead of kept, as far as that goes (0: no limit). `bf16_planes`: whether matrix units of CPUs may multiply large
    matrices of f32 and f16 (docs/dots.md). A program that is estimated to take less than `unoptimized_us`, in
    microseconds, even if LLVM does not optimize it, is not optimized; nor has it vectors, if it takes less without
    (sums are in another order then). That takes half the time: for callers whose calls take far longer.
    `dump_to` is a directory for its stages, `dump_hlo_pass_re` adds the HLO after passes of such names (`xjit.dump`),
    as the flags `--xjit_dump_to` and `--xjit_dump_hlo_pass_re` do for all compilations.

    Of GPUs: with `deterministic` no result depends on the order in which threads come, as that of a scatter may. With
    `sanitize` target "cuda-sim" checks every access of every kernel, and a call raises SimulationError for a wrong one.
    With `xla_gpu_enable_cublaslt` products of matrices are calls of cublasLt where it has them, for "cuda-sim" loops on
    the host; without, they are kernels. None: for target "cuda" where the library is installed. With
    `xla_gpu_autotune_level` target "cuda" times the library's algorithms for each such product on the device while it
    compiles, and takes the fastest: 0 (the default here; XLA's is 4) does not, 1 times them on zeros, 2 on random
    numbers, 3 gives these anew where a product writes over them, and 4 also rejects algorithms whose results are wrong.
    Other targets have nothing to measure.
    """

    cpu_level: str = ""
    opt_level: int = 2
    fusion: bool = True
    disabled_passes: tuple[str, ...] = ()
    keep_intermediate_layouts: bool = False
    profile: bool = False
    deterministic: bool = False
    sanitize: bool = False
    cache_dir: str | None = None
    bf16_planes: bool = True
    memory_limit_bytes: int = 0
    unoptimized_us: float = 0.0
    dump_to: str = ""
    dump_hlo_pass_re: str = ""
    xla_gpu_enable_cublaslt: bool | None = None
    xla_gpu_autotune_level: int = 0
    progress: Progress | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.cpu_level:
            Target.for_features(self.cpu_level)
        if self.opt_level not in range(4):
            raise InvalidArgument(f"opt_level is {self.opt_level!r}, expected 0, 1, 2 or 3")
        check_pattern(self.dump_hlo_pass_re)
        if not self.unoptimized_us >= 0:
            raise InvalidArgument(f"unoptimized_us is {self.unoptimized_us!r}, expected a number, 0 or more")
        if self.xla_gpu_autotune_level not in range(5):
            level = self.xla_gpu_autotune_level
            raise InvalidArgument(f"xla_gpu_autotune_level is {level!r}, expected 0, 1, 2, 3 or 4")
        if not isinstance(self.memory_limit_bytes, int) or self.memory_limit_bytes < 0:
            raise InvalidArgument(f"memory_limit_bytes is {self.memory_limit_bytes!r}, expected a number, 0 or more")
        if isinstance(self.disabled_passes, str):
            raise InvalidArgument(f"disabled_passes is the string '{self.disabled_passes}', expected a tuple of names")
        object.__setattr__(self, "disabled_passes", tuple(self.disabled_passes))
        for name in self.disabled_passes:
            refuse_if_required(find_pass(PASSES, name))
