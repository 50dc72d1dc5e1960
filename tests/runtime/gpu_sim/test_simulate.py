"""Hand-written kernels against NumPy: in both orders, with and without the sanitizer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.support.gpu_kernels import aligned, kernel, run

pytestmark = pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "sanitized"])
both_orders = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])


def floats(*shape: int) -> np.ndarray:
    """Small integers as f32: sums of them are exact in any order."""
    return aligned(np.random.default_rng(7).integers(-8, 8, shape).astype(np.float32))


@both_orders
@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000])
def test_add(n: int, reverse: bool, sanitize: bool) -> None:
    x, y, z = floats(n), floats(n), aligned(np.zeros(n, np.float32))
    run(kernel("add", max(-(-n // 256), 1), 256, n), x, y, z, reverse=reverse, sanitize=sanitize)
    assert (z == x + y).all()


@both_orders
def test_vector_accesses(reverse: bool, sanitize: bool) -> None:
    x, y, z = floats(512), floats(512), aligned(np.zeros(512, np.float32))
    run(kernel("add4", 2, 64, 512), x, y, z, reverse=reverse, sanitize=sanitize)
    assert (z == x + y).all()


@both_orders
def test_block_reduction(reverse: bool, sanitize: bool) -> None:
    x, y = floats(5, 256), aligned(np.zeros(5, np.float32))
    run(kernel("reduce", 5, 256), x, y, reverse=reverse, sanitize=sanitize)
    assert (y == x.sum(axis=1)).all()


@both_orders
def test_transpose(reverse: bool, sanitize: bool) -> None:
    x, y = floats(96, 96), aligned(np.zeros((96, 96), np.float32))
    run(kernel("transpose", (3, 3), (32, 8), 96), x, y, reverse=reverse, sanitize=sanitize)
    assert (y == x.T).all()


@both_orders
def test_histogram(reverse: bool, sanitize: bool) -> None:
    x = aligned(np.random.default_rng(3).integers(0, 32, 1000).astype(np.int32))
    y = aligned(np.zeros(32, np.int32))
    run(kernel("histogram", 8, 128, 1000), x, y, reverse=reverse, sanitize=sanitize)
    assert (y == np.bincount(x, minlength=32)).all()


@both_orders
def test_scan(reverse: bool, sanitize: bool) -> None:
    x, y = floats(3, 128), aligned(np.zeros((3, 128), np.float32))
    run(kernel("scan", 3, 128), x, y, reverse=reverse, sanitize=sanitize)
    assert (y == np.cumsum(x, axis=1)).all()


@both_orders
def test_barriers_in_nested_loops(reverse: bool, sanitize: bool) -> None:
    a, b, c = floats(48, 48), floats(48, 48), aligned(np.zeros((48, 48), np.float32))
    run(kernel("matmul", (3, 3), (16, 16), 48), a, b, c, reverse=reverse, sanitize=sanitize)
    assert (c == a @ b).all()


@both_orders
def test_last_block(reverse: bool, sanitize: bool) -> None:
    x, y, partial = floats(9, 64), aligned(np.zeros(1, np.float32)), aligned(np.zeros(9, np.float32))
    counter = aligned(np.zeros(1, np.int32))
    run(kernel("last_block", 9, 64), x, y, partial, counter, reverse=reverse, sanitize=sanitize)
    assert y[0] == x.sum() and counter[0] == 9


@both_orders
def test_dynamic_shared_memory(reverse: bool, sanitize: bool) -> None:
    x, y = aligned(np.arange(300, dtype=np.int16)), aligned(np.zeros(300, np.int16))
    run(kernel("dynamic_reverse", 3, 100, shared=200), x, y, reverse=reverse, sanitize=sanitize)
    assert (y.reshape(3, 100) == x.reshape(3, 100)[:, ::-1]).all()


@both_orders
@pytest.mark.parametrize("n", [1, 31, 33, 64])
def test_threads_that_return_early(n: int, reverse: bool, sanitize: bool) -> None:
    x, y = aligned(np.arange(n, dtype=np.int32)), aligned(np.zeros(n, np.int32))
    run(kernel("tail_return", 1, 64, n), x, y, reverse=reverse, sanitize=sanitize)
    assert (y == x[::-1]).all()


@pytest.mark.parametrize("flushes", [False, True])
def test_subnormals(flushes: bool, sanitize: bool) -> None:
    """The attribute of a kernel says whether they are flushed."""
    what = kernel("add", 1, 32, 4)
    if flushes:
        attribute = '{ "denormal-fp-math-f32"="preserve-sign,preserve-sign" }'
        text = what.ir_text.replace("i32 %n) {", "i32 %n) #0 {") + f"\nattributes #0 = {attribute}\n"
        what = dataclasses.replace(what, ir_text=text)
    x, z = aligned(np.full(4, 1e-40, np.float32)), aligned(np.zeros(4, np.float32))
    run(what, x, x.copy(), z, sanitize=sanitize)
    assert (z == (0 if flushes else x + x)).all()
