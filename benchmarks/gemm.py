"""Matrix multiplications against XLA:CPU: float32, and narrower types through whole programs on both sides.

Times are medians of alternating blocks; ours is called through ctypes, jax's through its jit. Environment for one
thread on both sides: `XJIT_NUM_THREADS=1 taskset -c 0`.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from side_by_side import Native, aligned, compare, compile_function, geometric_mean, report

import xjit
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape, row_major
from xjit.emitters.gemm.gemm import emit_gemm
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import Target

CUBES = (64, 128, 256, 512, 1000, 1024, 2048)
OTHERS = {
    "ViT MLP up 6304x768x3072": row_major(6304, 3072, 768),
    "ViT MLP down 6304x3072x768": row_major(6304, 768, 3072),
    "ViT projection 6304x768x768": row_major(6304, 768, 768),
    "llama MLP 128x2048x5632": row_major(128, 5632, 2048),
    "attention scores 384x 197x64x197": row_major(197, 197, 64, batch=384, transpose_rhs=True),
    "attention values 384x 197x197x64": row_major(197, 64, 197, batch=384),
    "vector-matrix 4096": row_major(1, 4096, 4096),
    "vector-matrix, transposed 4096": row_major(1, 4096, 4096, transpose_rhs=True),
    "matrix-vector 4096": row_major(4096, 1, 4096),
    "two rows 2x4096x4096": row_major(2, 4096, 4096),
    "four rows 4x4096x4096": row_major(4, 4096, 4096),
    "four rows, transposed 4x4096x4096": row_major(4, 4096, 4096, transpose_rhs=True),
    "eight rows 8x4096x4096": row_major(8, 4096, 4096),
    "eight rows, transposed 8x4096x4096": row_major(8, 4096, 4096, transpose_rhs=True),
    "eight columns 2048x2048x8": row_major(2048, 8, 2048),
    "k of eight 1000x8x1000": row_major(1000, 1000, 8),
    "batched 1000 x 8^3": row_major(8, 8, 8, batch=1000),
    "batched 256 x 32^3": row_major(32, 32, 32, batch=256),
    "batched 64 x 64^3": row_major(64, 64, 64, batch=64),
    "batched 32 x 128^3": row_major(128, 128, 128, batch=32),
    "transposed lhs 1024": row_major(1024, 1024, 1024, transpose_lhs=True),
    "transposed rhs 1024": row_major(1024, 1024, 1024, transpose_rhs=True),
    "transposed rhs 1000": row_major(1000, 1000, 1000, transpose_rhs=True),
    "transposed rhs 32x2048x2048": row_major(32, 2048, 2048, transpose_rhs=True),
    "transposed rhs 128x2048x5632": row_major(128, 5632, 2048, transpose_rhs=True),
}


NARROW = [
    ("s8", "s8", "s32"), ("u8", "s8", "s32"), ("u8", "u8", "s32"), ("s16", "s16", "s32"), ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e5m2", "bf16", "f32"),
]  # fmt: skip
NARROW_CUBES = (64, 256, 512, 1024)
PRODUCT = """
HloModule product
ENTRY main {{
  x = {lhs}[{n},{n}] parameter(0)
  y = {rhs}[{n},{n}] parameter(1)
  ROOT dot = {out}[{n},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def measure(label: str, shape: GemmShape, native: Native, repetitions: int) -> float:
    """One line of the table; also checks the result."""
    rng = np.random.default_rng(0)
    b, m, n, k = shape.num_batches, shape.m, shape.n, shape.k
    lhs, rhs, out = aligned(b * m * k, rng), aligned(b * k * n, rng), aligned(b * m * n, rng)
    parameters = plan_gemm(shape, GemmTypes(), Target.host()).to_array()
    lhs_rows, rhs_rows = shape.lhs_k_inner == 1, shape.rhs_column == 1
    lhs_stored = lhs.reshape((b, m, k) if lhs_rows else (b, k, m))
    rhs_stored = rhs.reshape((b, k, n) if rhs_rows else (b, n, k))
    names = ("bmk" if lhs_rows else "bkm") + "," + ("bkn" if rhs_rows else "bnk")
    product = jax.jit(lambda x, y: jnp.einsum(f"{names}->bmn", x, y))
    x, y = jnp.asarray(lhs_stored), jnp.asarray(rhs_stored)
    pointers = (out.ctypes.data, lhs.ctypes.data, rhs.ctypes.data, 0, parameters.ctypes.data)
    native.call(*pointers)
    np.testing.assert_allclose(out.reshape(b, m, n), product(x, y), atol=2e-4 * k**0.5)
    inner = max(1, min(200, int(2e8 // max(1, shape.flops))))
    times = compare(lambda: native.call(*pointers), lambda: product(x, y).block_until_ready(), repetitions, inner)
    return report(label, shape.flops, *times)


def measure_types(n: int, names: tuple[str, str, str], repetitions: int) -> float:
    """One line of the table for other types: small integers, whose products are exact; results are compared exactly."""
    rng = np.random.default_rng(0)
    lhs, rhs, out = (PrimitiveType[name.upper()].dtype for name in names)
    x, y = (rng.integers(0 if dtype.kind == "u" else -7, 8, (n, n)).astype(dtype) for dtype in (lhs, rhs))
    exe = xjit.compile(PRODUCT.format(lhs=names[0], rhs=names[1], out=names[2], n=n))
    product = jax.jit(lambda a, b: jax.lax.dot(a, b, preferred_element_type=out))
    a, b = jnp.asarray(x), jnp.asarray(y)
    np.testing.assert_array_equal(np.asarray(exe(x, y)), np.asarray(product(a, b)))
    inner = max(1, min(200, int(2e8 // n**3)))
    times = compare(lambda: exe(x, y), lambda: product(a, b).block_until_ready(), repetitions, inner)
    return report(f"{' * '.join(names[:2])} -> {names[2]} {n}", 2 * n**3, *times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--only", default="", help="measure only lines that contain this")
    options = parser.parse_args()
    native = compile_function(lambda module: emit_gemm(module, module.target, GemmTypes()))
    print(f"compiled in {native.compile_ms:.0f} ms (CPU time)")
    cases = {f"cube {n}": row_major(n, n, n) for n in CUBES} | OTHERS
    chosen = {label: shape for label, shape in cases.items() if options.only in label}
    ratios = [measure(label, shape, native, options.repetitions) for label, shape in chosen.items()]
    ratios += [
        measure_types(n, names, options.repetitions)
        for n in NARROW_CUBES
        for names in NARROW
        if options.only in f"{' * '.join(names[:2])} -> {names[2]} {n}"
    ]
    print(f"geometric mean of ratios: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
