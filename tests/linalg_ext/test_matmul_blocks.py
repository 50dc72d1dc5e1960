"""Products by blocks of threads keep their values: computed in place, with tiles in the memory of a block's threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from xjit.linalg_ext import parse, run_passes

FILES = Path(__file__).resolve().parent / "filecheck"


def programs(name: str) -> list[str]:
    return (FILES / name).read_text(encoding="utf-8").split("// -----")


@pytest.mark.parametrize("text", programs("matmul_blocks.mlir"), ids=["in_place", "init_is_read"])
def test_epilogues(text: str) -> None:
    check_transformation(text, lambda module: run_passes(module, ["canonicalize-matmul-epilogue"]))


@pytest.mark.parametrize("text", programs("matmul_promotion.mlir"), ids=["epilogue", "copied"])
@pytest.mark.parametrize("more", [[], ["canonicalize-ext", "cse"]], ids=["", "canonical"])
def test_promotion(text: str, more: list[str]) -> None:
    after = check_transformation(text, lambda module: run_passes(module, ["linalg-promotion", *more]))
    assert count(after, "memref.alloc") == 3


def test_what_is_not_filled_or_read_between_stays() -> None:
    [text, _] = programs("matmul_promotion.mlir")
    fill = next(line for line in text.splitlines() if line.lstrip().startswith("linalg.fill"))
    after = check_transformation(text.replace(fill, ""), lambda module: run_passes(module, ["linalg-promotion"]))
    assert count(after, "memref.alloc") == 2
    for other in ("__byteir_matmul_epilogue_fusion__", "#gpu.block"):
        module = run_passes(parse(text.replace(other, other.replace("block", "thread").replace("fusion", "x"))), [])
        before = str(module)
        assert str(run_passes(module, ["linalg-promotion", "canonicalize-matmul-epilogue"])) == before
