"""The corpus on GPUs, as far as that goes without one: what its models' kernels move, and its self-checking programs.

Slow, and only where the corpus is: `python -m pytest -m slow tests/programs/test_gpu_corpus.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support import corpus
from xjit.compile_options import CompileOptions
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.gpu.traffic import GOOD_SHARE, kernel_traffic
from xjit.gpu_compiler import compile_for_gpu
from xjit.text.parser import parse_hlo

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # the corpus's scripts leave files to be closed
]

MODELS = ["flan_t5_large/inference/1gpu", "gemma3_4b/inference/1gpu", "llama3_8b/inference/1gpu", "dit/inference/1gpu",
          "vit/inference/1gpu", "resnet50/inference/1gpu", "clip/inference/1gpu", "dit/training", "resnet50/training",
          "colabfold/inference/1gpu"]  # fmt: skip
MIN_SHARE_OF_CPU = 0.95


@pytest.mark.parametrize("name", MODELS)
def test_traffic_has_reasons(name: str) -> None:
    """No kernel moves much more than it must without a reason in the report; nothing here takes the memory it plans."""
    models, maps = corpus.module("run_models"), MapCache()
    files = [path for path in sorted((corpus.ROOT / "models").rglob("*.txt")) if name in str(path)]
    assert files
    for path in files:
        compiled = compile_for_gpu(parse_hlo(models.load_text(str(path))), "sm_90", CompileOptions())
        emitted = compiled._emitted
        assert emitted.kernels
        for kernel in emitted.kernels:
            if kernel.schedule is not None:
                traffic = kernel_traffic(kernel.schedule, emitted.views[kernel.function.name], maps)
                assert traffic.efficiency >= GOOD_SHARE or traffic.reasons, kernel.function.name
                assert all(array.needed <= array.moved for array in traffic.arrays), kernel.function.name


def test_self_checking_programs() -> None:
    """Of those that the CPU gets right, the simulated GPU gets 95 of 100; every tenth is run."""
    names = corpus.stablehlo_case_names()[::10]
    if not names:
        pytest.skip("the corpus is not there")
    judge = corpus.module("run_stablehlo")
    right = {"cpu": 0, "cuda-sim": 0}
    for name in names:
        case = judge.load_exported(str(corpus.ROOT / "stablehlo_cases" / name))
        for target in right:
            right[target] += _passes(judge.judge, case, target)
    assert right["cpu"] > 0.9 * len(names) and right["cuda-sim"] >= MIN_SHARE_OF_CPU * right["cpu"], right


def _run(text: str, inputs: list[np.ndarray], target: str) -> list[np.ndarray]:
    result = xjit.compile(text, target)(*inputs)
    return list(result) if isinstance(result, tuple) else [result]


def _passes(judge: Callable[..., tuple[bool, str]], case: Any, target: str) -> bool:
    try:
        return bool(judge(functools.partial(_run, target=target), case)[0])
    except xjit.HloError:
        return False
