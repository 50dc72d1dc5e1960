"""`benchmarks/kernels.py`: its rows are functions that JAX traces with their arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

FOLDER = Path(__file__).parents[2] / "benchmarks"
TABLES = ("families", "family", "layer_families", "numeric_families")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("cases", "kernels", "reporting", "side_by_side", *TABLES):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_families_are_traced_at_their_first_size() -> None:
    from families import ALL_FAMILIES, FAMILY_CASES  # pyright: ignore[reportMissingImports]

    assert len(FAMILY_CASES) >= 350
    assert len({family.name for family in ALL_FAMILIES}) == len(ALL_FAMILIES)
    for family in ALL_FAMILIES:
        arguments = family.arguments(*family.sizes[0])(np.random.default_rng(0))
        assert jax.eval_shape(family.function, *arguments) is not None, family.name


def test_the_worst_size_of_a_family_counts() -> None:
    from kernels import worst_ratios  # pyright: ignore[reportMissingImports]

    rows = [{"name": "add 4096", "ratio": 3.0}, {"name": "add 131072", "ratio": 2.0}, {"name": "sort 1M", "ratio": 5.0}]
    assert worst_ratios([*rows, {"name": "sum 4096"}]) == {"add": 2.0, "sort 1M": 5.0}
