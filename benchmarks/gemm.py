"""Matrix multiplications against XLA:CPU, float32.

Times are medians of alternating blocks; ours is called through ctypes, jax's through its jit. Environment for one
thread on both sides: `XJIT_NUM_THREADS=1 taskset -c 0`.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from side_by_side import Native, aligned, compare, compile_function, geometric_mean, report

from xjit.emitters.gemm.gemm import emit_gemm
from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.plan import plan_gemm
from xjit.emitters.gemm.shapes import GemmShape, row_major
from xjit.llvm import Target
from xjit.runtime.thread_pool import num_threads

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


def measure(label: str, shape: GemmShape, native: Native, repetitions: int) -> float:
    """One line of the table; also checks the result."""
    rng = np.random.default_rng(0)
    b, m, n, k = shape.num_batches, shape.m, shape.n, shape.k
    lhs, rhs, out = aligned(b * m * k, rng), aligned(b * k * n, rng), aligned(b * m * n, rng)
    parameters = plan_gemm(shape, GemmTypes(), Target.host(), num_threads()).to_array()
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
    print(f"geometric mean of ratios: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
