"""What a device can do at most, measured in the same run: bytes per second and operations per second.

The ceilings are the best of what all targets of the device reach on programs that do nothing else: a large array copied
with a change of sign, a large array summed up, a multiplication of large matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xjit.comparison.runners import make_runner
from xjit.comparison.timing import alternate
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import HloError
from xjit.text.parser import parse_hlo

STREAM_ELEMENTS = {"cpu": 1 << 25, "cuda": 1 << 28}  # f32: well above any cache
MATRIX_SIZE = {"cpu": 1536, "cuda": 8192}
SECONDS_PER_PROGRAM = 0.5


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The best rates that were measured on a device, and which target reached them with which program."""

    device: str
    bytes_per_second: float
    flops_per_second: float
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Program:
    name: str
    text: str
    inputs: Callable[[], list[np.ndarray]]
    moved: int
    flops: int


def _programs(device: str, scale: float, stream_bytes: int | None) -> list[_Program]:
    n = max(1024, int(STREAM_ELEMENTS[device] * scale))
    copied, read = (n, n) if stream_bytes is None else (stream_bytes // 8, stream_bytes // 4)
    m = max(64, int(MATRIX_SIZE[device] * scale))
    ones = [lambda: [np.ones(copied, np.float32)], lambda: [np.ones(read, np.float32)]]
    matrices = lambda: [np.full((m, m), 0.5, np.float32)] * 2  # noqa: E731
    copy = f"HloModule copy\nENTRY e {{ x = f32[{copied}] parameter(0)\n ROOT r = f32[{copied}] negate(x) }}"
    total = (
        "HloModule read\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
        f"ENTRY e {{ x = f32[{read}] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }"
    )
    multiply = (
        f"HloModule multiply\nENTRY e {{ x = f32[{m},{m}] parameter(0)\n y = f32[{m},{m}] parameter(1)\n"
        f" ROOT r = f32[{m},{m}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    )
    return [
        _Program("copy", copy, ones[0], 8 * copied, 0),
        _Program("sum", total, ones[1], 4 * read, 0),
        _Program("f32 multiplication", multiply, matrices, 0, 2 * m**3),
    ]


def measure_ceilings(
    device: str,
    targets: Sequence[str],
    seconds: float = SECONDS_PER_PROGRAM,
    scale: float = 1.0,
    *,
    stream_bytes: int | None = None,
) -> Ceilings:
    """Measures the ceilings of "cpu" or "cuda" with those targets of it that run here. `scale` shrinks the programs.

    `stream_bytes` is the size of all arrays of a stream, for the rate of the cache that they fit in; None: of memory.
    """
    best: dict[str, tuple[float, str]] = {"bytes": (0.0, ""), "flops": (0.0, "")}
    for program in _programs(device, scale, stream_bytes):
        module, inputs = parse_hlo(program.text), program.inputs()
        runners = []
        for target in targets:
            try:
                runners.append(make_runner(target, module, inputs))
            except HloError:  # it is told where the target itself is asked for
                continue
        for runner, times in zip(runners, alternate([r.call for r in runners], seconds), strict=True):
            for kind, amount in (("bytes", program.moved), ("flops", program.flops)):
                rate = amount / times.best
                if rate > best[kind][0]:
                    best[kind] = (rate, f"{program.name} by {runner.target}")
    remarks = tuple(f"{kind}: {what}" for kind, (_, what) in best.items() if what)
    return Ceilings(device, best["bytes"][0], best["flops"][0], remarks)
