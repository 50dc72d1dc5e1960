"""What `gpu.py` measures: small programs of one kind each, as HLO, with the bytes they must move and their operations.

Every case has a full size, for a GPU, and a tiny one, for a dry run on the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) }\n"
LESS = "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT }\n"


TF32_TOLERANCE = 2e-3  # factors have 11 bits
EXACT = ", operand_precision={highest,highest}"
"""Without it XLA:GPU rounds factors of f32 to tf32; here only an algorithm asks for that."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program. `moved` are the bytes of what it reads and writes, each once; `flops` is 0 where they do not matter.

    `library` is the type of a matrix product that cublasLt is measured on, too: (m, n, k, type). Values are right
    within a relative L2 error of `tolerance`; None: that of their type.
    """

    name: str
    text: str
    moved: int
    flops: int = 0
    library: tuple[int, int, int, str] | None = None
    tolerance: float | None = None


def _module(name: str, body: str, called: str = "") -> str:
    return f"HloModule {name}\n{called}ENTRY main {{\n{body}\n}}"


def _copy(n: int) -> Case:
    return Case("copy", _module("copy", f"  x = f32[{n}] parameter(0)\n  ROOT r = f32[{n}] copy(x)"), 8 * n)


def _transpose(n: int) -> Case:
    body = f"  x = f32[{n},{n}] parameter(0)\n  ROOT r = f32[{n},{n}] transpose(x), dimensions={{1,0}}"
    return Case("transpose", _module("transpose", body), 8 * n * n)


def _reduction(name: str, n: int, dimension: int) -> Case:
    body = (
        f"  x = f32[{n},{n}] parameter(0)\n  z = f32[] constant(0)\n"
        f"  ROOT r = f32[{n}] reduce(x, z), dimensions={{{dimension}}}, to_apply=add"
    )
    return Case(name, _module("reduction", body, ADD), 4 * n * n + 4 * n)


def _softmax(rows: int, columns: int) -> Case:
    full, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    body = f"""  x = {full} parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = {row} reduce(x, low), dimensions={{1}}, to_apply=max
  tops = {full} broadcast(top), dimensions={{0}}
  below = {full} subtract(x, tops)
  raised = {full} exponential(below)
  total = {row} reduce(raised, zero), dimensions={{1}}, to_apply=add
  totals = {full} broadcast(total), dimensions={{0}}
  ROOT share = {full} divide(raised, totals)"""
    return Case("softmax", _module("softmax", body, ADD + MAX), 8 * rows * columns)


def _layernorm(rows: int, columns: int) -> Case:
    full, row = f"f32[{rows},{columns}]", f"f32[{rows}]"
    body = f"""  x = {full} parameter(0)
  scale = f32[{columns}] parameter(1)
  zero = f32[] constant(0)
  part = f32[] constant({1.0 / columns!r})
  parts = {row} broadcast(part), dimensions={{}}
  tiny = f32[] constant(1e-5)
  tinies = {row} broadcast(tiny), dimensions={{}}
  total = {row} reduce(x, zero), dimensions={{1}}, to_apply=add
  mean = {row} multiply(total, parts)
  means = {full} broadcast(mean), dimensions={{0}}
  centred = {full} subtract(x, means)
  squares = {full} multiply(centred, centred)
  spread = {row} reduce(squares, zero), dimensions={{1}}, to_apply=add
  variance = {row} multiply(spread, parts)
  above = {row} add(variance, tinies)
  inverse = {row} rsqrt(above)
  inverses = {full} broadcast(inverse), dimensions={{0}}
  normal = {full} multiply(centred, inverses)
  scales = {full} broadcast(scale), dimensions={{1}}
  ROOT r = {full} multiply(normal, scales)"""
    return Case("layernorm", _module("layernorm", body, ADD), 8 * rows * columns + 4 * columns)


def _attention(heads: int, length: int, depth: int) -> Case:
    head, scores, row = f"bf16[{heads},{length},{depth}]", f"f32[{heads},{length},{length}]", f"f32[{heads},{length}]"
    body = f"""  q = {head} parameter(0)
  k = {head} parameter(1)
  v = {head} parameter(2)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  s = {scores} dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  top = {row} reduce(s, low), dimensions={{2}}, to_apply=max
  tops = {scores} broadcast(top), dimensions={{0,1}}
  below = {scores} subtract(s, tops)
  raised = {scores} exponential(below)
  total = {row} reduce(raised, zero), dimensions={{2}}, to_apply=add
  totals = {scores} broadcast(total), dimensions={{0,1}}
  share = {scores} divide(raised, totals)
  p = bf16[{heads},{length},{length}] convert(share)
  ROOT r = {head} dot(p, v), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}"""
    flops = 4 * heads * length * length * depth
    return Case("attention", _module("attention", body, ADD + MAX), 8 * heads * length * depth, flops)


def _gather(rows: int, taken: int, width: int) -> Case:
    body = f"""  x = f32[{rows},{width}] parameter(0)
  i = s32[{taken}] parameter(1)
  ROOT r = f32[{taken},{width}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}"""
    return Case("gather", _module("gather", body), 8 * taken * width + 4 * taken)


def _scatter(rows: int, taken: int, width: int) -> Case:
    body = f"""  x = f32[{rows},{width}] parameter(0)
  i = s32[{taken}] parameter(1)
  u = f32[{taken},{width}] parameter(2)
  ROOT r = f32[{rows},{width}] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add"""
    return Case("scatter", _module("scatter", body, ADD), 8 * rows * width + 12 * taken * width)


def _sort(lines: int, length: int) -> Case:
    shape = f"f32[{lines},{length}]"
    body = f"  x = {shape} parameter(0)\n  ROOT r = {shape} sort(x), dimensions={{1}}, to_apply=less"
    return Case("sort", _module("sort", body, LESS), 8 * lines * length)


def _scan(lines: int, length: int) -> Case:
    shape = f"f32[{lines},{length}]"
    body = f"""  x = {shape} parameter(0)
  z = f32[] constant(0)
  ROOT r = {shape} reduce-window(x, z), window={{size=1x{length} pad=0_0x{length - 1}_0}}, to_apply=add"""
    return Case("scan", _module("scan", body, ADD), 8 * lines * length)


def _gemm(name: str, n: int, kind: str, algorithm: str = "") -> Case:
    attribute = f", algorithm={algorithm}" if algorithm else EXACT * (kind == "f32")
    body = (
        f"  x = {kind}[{n},{n}] parameter(0)\n  y = {kind}[{n},{n}] parameter(1)\n"
        f"  ROOT r = {kind}[{n},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{attribute}"
    )
    width, tolerance = 2 if kind == "bf16" else 4, TF32_TOLERANCE if "tf32" in algorithm else None
    library = (n, n, n, name.removeprefix("gemm "))
    return Case(name, _module("gemm", body), 3 * width * n * n, 2 * n**3, library, tolerance)


def _convolution(batch: int, size: int, features: int) -> Case:
    image, kernel = f"f32[{batch},{size},{size},{features}]", f"f32[3,3,{features},{features}]"
    body = f"""  x = {image} parameter(0)
  w = {kernel} parameter(1)
  ROOT r = {image} convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{EXACT}"""
    pixels = batch * size * size
    moved = 8 * pixels * features + 36 * features * features
    return Case("convolution", _module("convolution", body), moved, 2 * pixels * 9 * features * features)


def cases(tiny: bool) -> list[Case]:
    """Returns all programs, at full size or so small that a simulator does each within seconds."""

    def size(full: int, small: int) -> int:
        return small if tiny else full

    makers: list[Callable[[], Case]] = [
        lambda: _copy(size(1 << 28, 5000)),
        lambda: _transpose(size(16384, 96)),
        lambda: _reduction("row reduction", size(16384, 128), 1),
        lambda: _reduction("column reduction", size(16384, 128), 0),
        lambda: _softmax(size(32768, 16), size(4096, 256)),
        lambda: _layernorm(size(32768, 16), size(4096, 256)),
        lambda: _attention(size(64, 2), size(2048, 32), size(128, 16)),
        lambda: _gather(size(1 << 20, 64), size(1 << 19, 32), size(256, 32)),
        lambda: _scatter(size(1 << 20, 64), size(1 << 19, 32), size(256, 32)),
        lambda: _sort(size(4096, 4), size(4096, 64)),
        lambda: _scan(size(4096, 4), size(4096, 64)),
        lambda: _gemm("gemm bf16", size(8192, 32), "bf16"),
        lambda: _gemm("gemm tf32", size(8192, 32), "f32", "dot_tf32_tf32_f32"),
        lambda: _gemm("gemm f32", size(8192, 32), "f32"),
        lambda: _convolution(size(128, 1), size(56, 8), size(64, 8)),
    ]
    return [make() for make in makers]
