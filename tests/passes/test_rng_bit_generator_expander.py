"""The expanded generators give XLA's bits: golden vectors, and the evaluator's bits for all types and shapes."""

from __future__ import annotations

import numpy as np
import pytest

from xjit import evaluate, run_passes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

PASS = "rng-bit-generator-expander"


def expand(state: list[int], shape: str, algorithm: str, options: str = "") -> tuple[np.ndarray, np.ndarray]:
    n = len(state)
    text = f"""HloModule m
ENTRY e {{
  s = u64[{n}] parameter(0)
  ROOT r = (u64[{n}], {shape}) rng-bit-generator(s), algorithm={algorithm}
}}
"""
    module, argument = parse_hlo(text), np.array(state, np.uint64)
    assert run_passes(module, [PASS + options])
    assert all(i.opcode != "rng-bit-generator" for c in module.computations() for i in c.instructions)
    found = evaluate(module, argument)
    if algorithm != "rng_default":
        for a, b in zip(found, evaluate(parse_hlo(text), argument), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return found[0], found[1]


GOLDEN = [
    ("rng_three_fry", [3, 4], "u32[6]",
     [555017538, 3728210106, 1109507171, 3604763515, 3802093305, 3166652467], [3, 7]),
    ("rng_three_fry", [3, 4], "u32[2,3]",
     [[555017538, 1109507171, 3802093305], [3728210106, 3604763515, 3166652467]], [3, 7]),
    ("rng_three_fry", [3, 4], "u64[3]",
     [16012540478441710914, 15482341407848512611, 13600668787364812537], [3, 7]),
    ("rng_philox", [3, 4, 7], "u32[6]",
     [689327069, 1720352501, 1989585907, 2391323372, 120556425, 3628741996], [3, 6, 7]),
    ("rng_philox", [3, 4, 7], "u64[3]",
     [7388857730076134365, 10270655678890028019, 15585328198562319241], [3, 6, 7]),
    ("rng_philox", [3, 4, 7], "u8[5]", [221, 245, 243, 236, 137], [3, 6, 7]),
    ("rng_philox", [3, 4], "u32[6]",
     [3144060952, 1693593194, 2328100114, 3250740911, 514065308, 1112787925], [3, 6]),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "state", "shape", "bits", "after"), GOLDEN)
def test_golden(algorithm: str, state: list[int], shape: str, bits: list[int], after: list[int]) -> None:
    new_state, found = expand(state, shape, algorithm)
    assert found.tolist() == bits and new_state.tolist() == after


TOP = (1 << 64) - 1


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("state", [[5, 9], [TOP, TOP - 1], [1, TOP, 8], [1, TOP, TOP]])
@pytest.mark.parametrize("shape", ["u32[]", "u8[7]", "s16[3,5]", "u64[3,2]", "f32[5]", "f64[3]", "u32[0]", "s32[3,4]"])
def test_as_evaluated(algorithm: str, state: list[int], shape: str) -> None:
    expand(state, shape, algorithm)


def test_the_default_is_an_option() -> None:
    for algorithm in ("rng_three_fry", "rng_philox"):
        chosen = expand([3, 4], "u32[6]", "rng_default", f"{{default_algorithm={algorithm}}}")
        assert chosen[1].tolist() == expand([3, 4], "u32[6]", algorithm)[1].tolist()
    with pytest.raises(InvalidArgument, match="found 'rng_best'"):
        make_pass(PASSES, PASS + "{default_algorithm=rng_best}")
