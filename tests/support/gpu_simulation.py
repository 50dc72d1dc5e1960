"""Harness for whole modules on a simulated GPU: every access checked, threads forward and in reverse.

With `XJIT_TEST_CUDA=1` in the environment the same modules run on the machine's GPU as well.
"""

from __future__ import annotations

import os
from typing import Any

import tests.support.verified_passes  # noqa: F401
import xjit
from tests.support.kernels import compare, leaves_of, random_inputs
from tests.support.tolerance import same_bits
from xjit.compile_options import CompileOptions
from xjit.gpu_compiler import SimulatedExecutable, compile_for_gpu
from xjit.text.parser import parse_hlo

ARCHITECTURE = "sm_90"
ON_DEVICE = os.environ.get("XJIT_TEST_CUDA") == "1"


def check_simulated(
    text: str, *inputs: Any, rtol: float = 0.0, atol: float = 0.0, options: CompileOptions | None = None, seed: int = 0
) -> SimulatedExecutable:
    """Runs HLO text on a simulated GPU, sanitized, and compares with the evaluator (exactly, by default).

    Another run with threads and blocks from the last to the first must give the same bits. Returns the executable.
    """
    module = parse_hlo(text)
    given = list(inputs) if inputs else random_inputs(module, seed)
    executable = compile_for_gpu(module, ARCHITECTURE, options or CompileOptions())
    actual = leaves_of(executable.run(*given, sanitize=True))
    expected = leaves_of(xjit.evaluate(module, *given))
    assert len(actual) == len(expected)
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        compare(a, e, rtol, atol, f"result {number}")
    backwards = leaves_of(executable.run(*given, reverse=True))
    assert all(map(same_bits, actual, backwards)), "results depend on the order of threads"
    if ON_DEVICE:
        on_device = leaves_of(xjit.compile(module, "cuda", options or CompileOptions())(*given))
        for number, (a, e) in enumerate(zip(on_device, expected, strict=True)):
            compare(a, e, rtol, atol, f"result {number} on the GPU")
    return executable
