"""Tiling and fusing by the cost model: the form of nests, values, and the stage that prints them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xjit
from tests.support.hlo_cases import leaves
from xjit import linalg_ext
from xjit.linalg_ext.automatic.estimate import Estimate, FusionEstimator
from xjit.linalg_ext.automatic.repeated import Choices
from xjit.linalg_ext.automatic.tile_and_fuse import choose_tile_sizes
from xjit.linalg_ext.ir import Operation
from xjit.linalg_ext.structured import structured
from xjit.llvm.cache_sizes import USUAL_BYTES, second_level_bytes, tile_bytes
from xjit.llvm.target import Target
from xjit.tools.main import main

REDUCERS = """
larger { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
"""


def attention(length: int, depth: int) -> str:
    rows, scores = f"f32[2,{length}]", f"f32[2,{length},{length}]"
    return f"""
HloModule attention
{REDUCERS}
ENTRY main {{
  q = f32[2,{length},{depth}] parameter(0)
  k = f32[2,{length},{depth}] parameter(1)
  v = f32[2,{length},{depth}] parameter(2)
  products = {scores} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}
  scale = f32[] constant(0.125)
  scales = {scores} broadcast(scale), dimensions={{}}
  scores = {scores} multiply(products, scales)
  low = f32[] constant(-inf)
  top = {rows} reduce(scores, low), dimensions={{2}}, to_apply=larger
  tops = {scores} broadcast(top), dimensions={{0,1}}
  shifted = {scores} subtract(scores, tops)
  weights = {scores} exponential(shifted)
  zero = f32[] constant(0)
  total = {rows} reduce(weights, zero), dimensions={{2}}, to_apply=sum
  totals = {scores} broadcast(total), dimensions={{0,1}}
  probabilities = {scores} divide(weights, totals)
  ROOT y = f32[2,{length},{depth}] dot(probabilities, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
}}
"""


MLP = """
HloModule mlp
ENTRY main {
  x = f32[48,16] parameter(0)
  w = f32[16,64] parameter(1)
  b = f32[64] parameter(2)
  v = f32[64,16] parameter(3)
  h = f32[48,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = f32[48,64] broadcast(b), dimensions={1}
  sum = f32[48,64] add(h, bias)
  active = f32[48,64] tanh(sum)
  ROOT y = f32[48,16] dot(active, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def loops_around(op: Operation) -> int:
    return sum(each.name == "scf.for" for each in op.ancestors())


def innermost(module: Operation) -> list[str]:
    """The structured ops in most loops."""
    ops = [op for op in module.walk() if op.dialect.startswith("linalg") and op.results]
    ops = [op for op in ops if op.parent_op is not None and op.parent_op.name in ("scf.for", "func.func")]
    depth = max(map(loops_around, ops))
    return [op.name for op in ops if loops_around(op) == depth and op.name != "linalg.fill"]


def tiled(text: str, near: int) -> Operation:
    """Tiles a module, and compares values before and after."""
    source = xjit.parse_hlo(text)
    module = linalg_ext.from_hlo(source)
    assert linalg_ext.tile_and_fuse(module, near) == 1
    linalg_ext.run_passes(module, ["canonicalize-ext", "cse"])
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=p.shape.dimensions).astype(np.float32) for p in source.entry_computation.parameter_instructions
    ]
    [found], [expected] = (
        leaves(result) for result in (linalg_ext.evaluate(module, "main", *arrays), xjit.evaluate(source, *arrays))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return module


def test_scores_of_attention_are_a_tile() -> None:
    module = tiled(attention(64, 8), 16 << 10)
    assert innermost(module) == [
        "linalg.batch_matmul_transpose_b",
        "linalg.generic",
        "linalg_ext.softmax",
        "linalg_ext.diag",
        "linalg_ext.batch_matmul",
        "linalg.batch_matmul",
    ]
    whole = "tensor<2x64x64xf32>"
    assert whole not in str(module)


def test_the_hidden_layer_of_an_mlp_is_a_tile() -> None:
    module = tiled(MLP, 16 << 10)
    assert innermost(module) == ["linalg.matmul", "linalg.generic", "linalg.matmul"]
    assert "tensor<48x64xf32>" not in str(module)


def test_tile_sizes_of_attention() -> None:
    """Rows and columns are cut, and the width is not: scores would be computed for each part of it."""
    module = linalg_ext.from_hlo(xjit.parse_hlo(attention(2048, 64)))
    product = [op for op in module.walk() if op.name == "linalg.batch_matmul"][-1]
    estimator = FusionEstimator(structured(product))
    found = choose_tile_sizes(estimator, 512 << 10)
    batch, rows, width, columns = found.sizes
    assert batch == 1 and width == 64 and 16 <= rows < 2048 and 16 <= columns < 2048
    assert found == estimator.of(found.sizes)
    assert found.tile_bytes <= 512 << 10 and not found.outside
    narrow = estimator.of([batch, rows, 16, columns])
    assert [op.name for op in narrow.outside] == ["linalg_ext.softmax"]
    stopped = estimator.of(narrow.sizes, found)  # when it turned out worse
    assert found.rank < stopped.rank <= narrow.rank


def test_what_fits_is_left_alone() -> None:
    module = linalg_ext.from_hlo(xjit.parse_hlo(MLP))
    before = str(module)
    assert linalg_ext.tile_and_fuse(module, 1 << 20) == 0
    assert str(linalg_ext.run_passes(module, ["canonicalize", "cse"])) == before


def test_near_memory(tmp_path: Path) -> None:
    assert second_level_bytes(tmp_path) == USUAL_BYTES
    for number, (level, size) in enumerate([("1", "32K"), ("2", "768K"), ("3", "9216K")]):
        index = tmp_path / "caches" / f"index{number}"
        index.mkdir(parents=True)
        (index / "level").write_text(f"{level}\n")
        (index / "size").write_text(f"{size}\n")
    assert second_level_bytes(tmp_path / "caches") == 768 << 10
    assert tile_bytes(Target.for_gpu("sm_90")) == 227 << 10


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_the_stage_is_text_of_two_modules(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "attention.hlo"
    file.write_text(attention(1024, 64))
    assert main(["opt", str(file), "--stage", "linalg", "--target", target]) == 0
    structured_text, tiled_text = capsys.readouterr().out.split("// -----\n")
    assert "scf.for" not in structured_text and "scf.for" in tiled_text
    for text in (structured_text, tiled_text):
        assert str(linalg_ext.parse(text)) in text


def test_the_stage_shows_what_is_compiled_from_structured_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "logsumexp.hlo"
    file.write_text(f"""
HloModule logsumexp
{REDUCERS}
ENTRY main {{
  x = f32[4,131072] parameter(0)
  low = f32[] constant(-inf)
  top = f32[4] reduce(x, low), dimensions={{1}}, to_apply=larger
  tops = f32[4,131072] broadcast(top), dimensions={{0}}
  shifted = f32[4,131072] subtract(x, tops)
  weights = f32[4,131072] exponential(shifted)
  zero = f32[] constant(0)
  total = f32[4] reduce(weights, zero), dimensions={{1}}, to_apply=sum
  log.1 = f32[4] log(total)
  ROOT y = f32[4] add(log.1, top)
}}
""")
    assert main(["opt", str(file), "--stage", "linalg"]) == 0
    *_, compiled = capsys.readouterr().out.split("// -----\n")
    assert "rows in 16 parts" in compiled and "tensor<4x131072xf32> into tensor<4x16x8192xf32>" in compiled
    assert "linalg_ext.softmax" not in compiled
    assert str(linalg_ext.parse(compiled)) in compiled


def test_what_is_estimated_grows_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nest has so many producers at most, however long the chain is that leads to it."""
    visits = 0
    nodes = FusionEstimator.node

    def node(self: FusionEstimator, op: Operation) -> object:
        nonlocal visits
        visits += 1
        return nodes(self, op)

    monkeypatch.setattr(FusionEstimator, "node", node)
    counts: list[int] = []
    for length in (80, 160):
        lines = [f"  y{i + 1} = f32[64,64] reverse(y{i}), dimensions={{{i % 2}}}" for i in range(length)]
        text = "HloModule chain\nENTRY main {\n  y0 = f32[64,64] parameter(0)\n" + "\n".join(lines)
        text += f"\n  ROOT z = f32[64,64] tanh(y{length})\n}}"
        module = linalg_ext.from_hlo(xjit.parse_hlo(text), fuse_elementwise=False)
        root = [op for op in module.walk() if op.name == "linalg.generic"][-1]
        visits = 0
        found = FusionEstimator(structured(root)).of([8, 64])
        counts.append(visits)
        assert len(found.beyond) == 1
    assert counts[0] == counts[1]


def block(number: int, width: int) -> str:
    """One layer of products and a sum with what came in."""
    return f"""
  x{number} = f32[64,64] parameter({3 * number})
  w{number} = f32[64,{width}] parameter({3 * number + 1})
  v{number} = f32[{width},64] parameter({3 * number + 2})
  h{number} = f32[64,{width}] dot(x{number}, w{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a{number} = f32[64,{width}] tanh(h{number})
  d{number} = f32[64,64] dot(a{number}, v{number}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y{number} = f32[64,64] add(x{number}, d{number})"""


def test_equal_blocks_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And get the same tiles as if each had been estimated; blocks of other sizes get their own."""
    body = "".join(block(i, width) for i, width in enumerate([96, 96, 160, 96]))
    text = f"HloModule blocks\nENTRY main {{{body}\n  ROOT z = tuple(y0, y1, y2, y3)\n}}"
    estimated: list[Estimate] = []
    add = Choices.add

    def counted(self: Choices, estimator: FusionEstimator, chosen: Estimate) -> object:
        estimated.append(chosen)
        return add(self, estimator, chosen)

    def printed() -> str:
        estimated.clear()
        module = linalg_ext.from_hlo(xjit.parse_hlo(text))
        linalg_ext.tile_and_fuse(module, 32 << 10)
        return str(module)

    monkeypatch.setattr(Choices, "add", counted)
    shared, count = printed(), len(estimated)
    monkeypatch.setattr(Choices, "find", lambda self, estimator: None)
    assert printed() == shared
    assert 2 * count == len(estimated)
