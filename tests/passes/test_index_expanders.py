"""Gathers and scatters of random dimension numbers: what the expanders leave computes the same, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.passes import leaves
from xjit import evaluate, run_passes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
from xjit.text.parser import parse_hlo

SEEDS = range(30)
KINDS = ["s32", "s64", "u32", "s8", "u8"]


class Dimensions:
    """Dimension numbers of a gather, which are those of a scatter from its result back to its operand."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.kind = KINDS[seed % len(KINDS)]
        rank = int(rng.integers(1, 5))
        self.operand = [int(n) for n in rng.integers(2, 5, rank)]
        roles = rng.integers(0, 3, rank)  # 0: kept, 1: gone, 2: batching
        self.batching = [d for d in range(rank) if roles[d] == 2][:2]
        self.gone = [d for d in range(rank) if roles[d] == 1]
        self.slice = [1 if roles[d] else int(rng.integers(1, n + 1)) for d, n in enumerate(self.operand)]
        for d in range(rank):
            if roles[d] == 2 and d not in self.batching:
                self.gone.append(d)
        self.gone.sort()
        free = [d for d in range(rank) if d not in self.batching]
        self.mapped = [int(d) for d in rng.permutation(free)[: int(rng.integers(1, len(free) + 1))]] if free else []
        extra = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
        batch = [*(self.operand[d] for d in self.batching), *extra]
        order = [int(i) for i in rng.permutation(len(batch))]
        sizes = [batch[i] for i in order]
        self.vector = int(rng.integers(0, len(sizes) + 1))
        self.indices = [*sizes[: self.vector], len(self.mapped), *sizes[self.vector :]]
        places = [order.index(i) for i in range(len(self.batching))]
        self.index_batching = [p + (p >= self.vector) for p in places]
        window = [n for d, n in enumerate(self.slice) if d not in self.gone and d not in self.batching]
        total = len(sizes) + len(window)
        self.offset = sorted(int(d) for d in rng.permutation(total)[: len(window)])
        windows, others = iter(window), iter(sizes)
        self.result = [next(windows) if d in self.offset else next(others) for d in range(total)]

    def gather(self) -> str:
        lists = {
            "offset_dims": self.offset, "collapsed_slice_dims": self.gone, "start_index_map": self.mapped,
            "operand_batching_dims": self.batching, "start_indices_batching_dims": self.index_batching,
            "slice_sizes": self.slice,
        }  # fmt: skip
        return f"""HloModule m
ENTRY e {{
  x = f32{self.operand} parameter(0)
  i = {self.kind}{self.indices} parameter(1)
  ROOT g = f32{self.result} gather(x, i), {_lists(lists)}, index_vector_dim={self.vector}
}}
"""

    def scatter(self, body: str) -> str:
        lists = {
            "update_window_dims": self.offset, "inserted_window_dims": self.gone,
            "scatter_dims_to_operand_dims": self.mapped, "input_batching_dims": self.batching,
            "scatter_indices_batching_dims": self.index_batching,
        }  # fmt: skip
        return f"""HloModule m
step {{
  a = f32[] parameter(0)
  p = s32[] parameter(1)
  b = f32[] parameter(2)
  q = s32[] parameter(3)
  {body}
}}
ENTRY e {{
  x = f32{self.operand} parameter(0)
  y = s32{self.operand} parameter(1)
  i = {self.kind}{self.indices} parameter(2)
  u = f32{self.result} parameter(3)
  v = s32{self.result} parameter(4)
  ROOT g = (f32{self.operand}, s32{self.operand}) scatter(x, y, i, u, v), {_lists(lists)},
    index_vector_dim={self.vector}, to_apply=step
}}
"""


def _lists(lists: dict[str, list[int]]) -> str:
    return ", ".join(f"{name}={{{','.join(map(str, values))}}}" for name, values in lists.items())


def check(text: str, opcode: str, pass_name: str, seed: int) -> None:
    module = parse_hlo(text)
    assert run_passes(module, [pass_name])
    verify_module(module)
    assert opcode not in {i.opcode for c in module.computations() for i in c.instructions}
    rng = np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    for p in module.entry_computation.parameter_instructions:
        kind = p.shape.element_type
        low = 0 if kind.is_unsigned else -2
        values = rng.integers(low, 6, p.shape.dimensions) if kind.is_integer else rng.random(p.shape.dimensions)
        inputs.append(np.asarray(values, kind.dtype))
    expected, found = evaluate(parse_hlo(text), *inputs), evaluate(module, *inputs)
    for e, f in zip(leaves(expected), leaves(found), strict=True):
        np.testing.assert_array_equal(f, e)


@pytest.mark.parametrize("seed", SEEDS)
def test_gather(seed: int) -> None:
    check(Dimensions(seed).gather(), "gather", "gather-expander", seed)


BODIES = [
    "s = f32[] add(a, b) n = s32[] subtract(p, q) ROOT t = (f32[], s32[]) tuple(s, n)",
    "c = pred[] compare(b, a), direction=GT s = f32[] select(c, b, a) n = s32[] select(c, q, p)"
    " ROOT t = (f32[], s32[]) tuple(s, n)",
]


@pytest.mark.parametrize("seed", SEEDS)
def test_scatter(seed: int) -> None:
    check(Dimensions(seed).scatter(BODIES[seed % len(BODIES)]), "scatter", "scatter-expander", seed)


def test_a_scatter_that_calls_is_mapped() -> None:
    """What is not elementwise stays a computation, applied by map."""
    text = Dimensions(3).scatter("ROOT c = (f32[], s32[]) call(a, p, b, q), to_apply=inner")
    inner = "inner { a = f32[] parameter(0) p = s32[] parameter(1) b = f32[] parameter(2) q = s32[] parameter(3) "
    text = text.replace("step {", inner + BODIES[0] + " }\nstep {")
    check(text, "scatter", "scatter-expander", 3)


@pytest.mark.parametrize("name", ["gather-expander", "scatter-expander"])
def test_an_unknown_mode_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="found 'all'"):
        make_pass(PASSES, f"{name}{{mode=all}}")


def test_narrow_indices_reach_far_batches() -> None:
    """The loop has more steps than the type of the indices counts."""
    text = """HloModule m
ENTRY e {
  x = f32[300,3] parameter(0)
  i = s8[300,1] parameter(1)
  ROOT g = f32[300,1] gather(x, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={1},
    operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}
}
"""
    check(text, "gather", "gather-expander", 0)
