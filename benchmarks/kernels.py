"""How fast are single kernels beside XLA:CPU? Functions of JAX, exported as HLO, compiled by both.

Rows are named here, or belong to a family (`families.py`), whose worst ratio over its sizes counts.

xjit is called with NumPy arrays and makes its results; jax.jit is called with device arrays.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Case, bfloat16, complex_normal, indices, normal, random_key, several, small
from families import FAMILY_CASES
from reporting import Report, parse_arguments
from side_by_side import alternate, geometric_mean

import xjit
from xjit.hlo.diagnostics import HloError
from xjit.tools.leaf_comparison import compare_leaf, leaves_of

COLUMNS = ("xjit ms", "xjit best", "jax ms", "jax best", "ratio", "of bests", "worst error", "agrees")


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalises rows."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * scale + bias


def rows_and_indices(rng: np.random.Generator) -> tuple[Any, ...]:
    """A table of 200,000 rows of 64 bytes, and as many indices."""
    return rng.standard_normal((200_000, 16), dtype=np.float32), rng.integers(0, 200_000, 200_000, dtype=np.int32)


def rows_indices_updates(rng: np.random.Generator) -> tuple[Any, ...]:
    """As `rows_and_indices`, and a row to add for each index."""
    return *rows_and_indices(rng), rng.standard_normal((200_000, 16), dtype=np.float32)


def logistic_map(x: Any) -> Any:
    """A thousand steps over 1024 numbers."""
    return jax.lax.fori_loop(0, 1000, lambda _, v: v * 3.7 * (1 - v), x)


def threefry(draw: Callable[[Any], Any]) -> Case:
    """What is drawn with a key."""
    return Case(lambda key: draw(jax.random.wrap_key_data(key)), random_key)


def dropout(key: Any, x: Any) -> Any:
    """Keeps nine of ten numbers."""
    return jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape), x / 0.9, 0)


def lstm(xs: Any, w: Any, u: Any, bias: Any, h: Any, c: Any) -> Any:
    """A long short-term memory over xs[step, batch, features]."""

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jax.lax.scan(step, (h, c), xs)


def lstm_arguments(steps: int, batch: int, size: int) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    """The arguments of `lstm`."""
    state = (batch, size)
    return small((steps, batch, size), (size, 4 * size), (size, 4 * size), (4 * size,), state, state)


def rnn(xs: Any, u: Any, h: Any) -> Any:
    """A recurrent network over xs[step, batch, size]."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x + h @ u)
        return h, h

    return jax.lax.scan(step, h, xs)


def scan_cumsum(x: Any) -> Any:
    """Running sums of rows, as a scan."""

    def step(total: Any, row: Any) -> Any:
        total += row
        return total, total

    return jax.lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x)


def update_rows(x: Any) -> Any:
    """Changes a row of a large array per step, which must happen in place."""
    return jax.lax.fori_loop(0, 1000, lambda i, x: x.at[i].set(x[i - 1] * 0.5 + x[i]), x)


def until_small(x: Any) -> Any:
    """Runs until the data says stop."""

    def step(state: Any) -> Any:
        y = state[1] * 0.99
        return jnp.max(jnp.abs(y)), y

    return jax.lax.while_loop(lambda state: state[0] > 1e-3, step, (jnp.float32(1), x))


def nested_loops(x: Any) -> Any:
    """50 times 100 steps."""

    def inner(j: Any, y: Any) -> Any:
        return y * 1.0001 + jnp.float32(j) * 1e-6

    return jax.lax.fori_loop(0, 50, lambda _, y: jax.lax.fori_loop(0, 100, inner, y), x)


CASES = {
    "add 16M": Case(jnp.add, lambda rng: (*normal(1 << 24)(rng), *normal(1 << 24)(rng))),
    "chain 4M": Case(lambda x: jnp.tanh(x) * x + jnp.exp(-x * x), normal(1 << 22)),
    "softmax 4096x1024": Case(lambda x: jax.nn.softmax(x, -1), normal(4096, 1024)),
    "layernorm 4096x1024": Case(
        layer_norm, lambda rng: (*normal(4096, 1024)(rng), *normal(1024)(rng), *normal(1024)(rng))
    ),
    "sum 16M": Case(jnp.sum, normal(1 << 24)),
    "column sum 4096^2": Case(lambda x: x.sum(0), normal(4096, 4096)),
    "transpose+1 4096^2": Case(lambda x: x.T + 1, normal(4096, 4096)),
    "cumsum 1M": Case(jnp.cumsum, normal(1 << 20)),
    "sort 1M": Case(jnp.sort, normal(1 << 20)),
    "sort 16K": Case(jnp.sort, normal(1 << 14)),
    "sort rows 4096x256": Case(lambda x: jnp.sort(x, -1), normal(4096, 256)),
    "argsort 1M": Case(jnp.argsort, normal(1 << 20)),
    "top_k 64x16384 k=8": Case(lambda x: jax.lax.top_k(x, 8), normal(64, 16384)),
    "gather 200K rows": Case(lambda table, rows: table[rows], rows_and_indices),
    "scatter-add 200K rows": Case(lambda table, rows, updates: table.at[rows].add(updates), rows_indices_updates),
    "threefry bits 1M": threefry(lambda key: jax.random.bits(key, (1 << 20,))),
    "uniform 1M": threefry(lambda key: jax.random.uniform(key, (1 << 20,))),
    "normal 1M": threefry(lambda key: jax.random.normal(key, (1 << 20,))),
    "randint 1M": threefry(lambda key: jax.random.randint(key, (1 << 20,), 0, 100)),
    "dropout 1M": Case(dropout, lambda rng: (*random_key(rng), *normal(1024, 1024)(rng))),
    "fft 1M": Case(jnp.fft.fft, lambda rng: ((normal(1 << 20)(rng)[0] + 1j * normal(1 << 20)(rng)[0]),)),
    "fft 4096x256": Case(jnp.fft.fft, lambda rng: ((normal(4096, 256)(rng)[0] + 0j).astype(np.complex64),)),
    "fft2 256x256": Case(jnp.fft.fft2, complex_normal(256, 256)),
    "fft2 512x512": Case(jnp.fft.fft2, complex_normal(512, 512)),
    "fft2 1024x1024": Case(jnp.fft.fft2, complex_normal(1024, 1024)),
    "fft2 16x128x128": Case(jnp.fft.fft2, complex_normal(16, 128, 128)),
    "rfft2 512x512": Case(jnp.fft.rfft2, normal(512, 512)),
    "irfft2 512x512": Case(jnp.fft.irfft2, complex_normal(512, 257)),
    "fftn 64^3": Case(jnp.fft.fftn, complex_normal(64, 64, 64)),
    "complex multiply, abs": Case(
        lambda x, y: jnp.abs(x * y), several(complex_normal(512, 1024), complex_normal(512, 1024))
    ),
    "gelu of tanh 1M": Case(lambda x: jax.nn.gelu(x, approximate=True), normal(1024, 1024)),
    "gelu of erf 1M": Case(lambda x: jax.nn.gelu(x, approximate=False), normal(1024, 1024)),
    "bf16 chain 1M": Case(lambda x: jnp.tanh(x * 2 + 1) * x - x, bfloat16(1024, 1024)),
    "row sums 2048x1024": Case(lambda x: x.sum(-1), normal(2048, 1024)),
    "concatenate": Case(lambda x, y: jnp.concatenate([x, y], 1), several(normal(1024, 512), normal(1024, 700))),
    "histogram 256K": Case(lambda i: jnp.zeros(256, jnp.int32).at[i].add(1), indices(1 << 18, 256)),
    "scatter-add duplicates": Case(
        lambda rows, i: jnp.zeros((1000, 64), jnp.float32).at[i].add(rows),
        several(normal(20000, 64), indices(20000, 1000)),
    ),
    "matvec 2048": Case(lambda a, x: a @ x, several(normal(2048, 2048), normal(2048))),
    "scalar loop 10000": Case(
        lambda x: jax.lax.fori_loop(0, 10000, lambda i, v: v * 0.999 + 1.0, x), lambda rng: (np.float32(1),)
    ),
    "fori_loop 1000 x 1024": Case(logistic_map, lambda rng: (rng.random(1024, np.float32) * 0.1,)),
    "lstm 100 x 32x128": Case(lstm, lstm_arguments(100, 32, 128)),
    "lstm 500 x 1x64": Case(lstm, lstm_arguments(500, 1, 64)),
    "rnn 1000 x 4x16": Case(rnn, small((1000, 4, 16), (16, 16), (4, 16))),
    "scan cumsum 1000x64": Case(scan_cumsum, normal(1000, 64)),
    "scan cumsum 4096": Case(scan_cumsum, normal(4096)),
    "row updates 1000": Case(update_rows, normal(1024, 1024)),
    "while until small": Case(until_small, normal(1024)),
    "nested 50 x 100": Case(nested_loops, normal(256)),
    **FAMILY_CASES,
}


def measure(case: Case, repetitions: int) -> dict[str, Any]:
    """Returns the values of one row. Errors: HloError if xjit does not compile the function."""
    arguments = tuple(np.asarray(a, order="C") for a in case.arguments(np.random.default_rng(0)))
    function = jax.jit(case.function, keep_unused=True)  # a gradient may need no value of what it is of
    exe = xjit.compile(function.lower(*arguments).as_text("hlo"))
    device_arguments = [jax.device_put(a) for a in arguments]
    theirs = jax.tree.leaves(function(*device_arguments))
    pairs = zip(leaves_of(exe(*arguments)), map(np.asarray, theirs), strict=True)
    found = [compare_leaf(ours, expected) for ours, expected in pairs]
    start = statistics.median(alternate([lambda: exe(*arguments)], 3, 1)[0])
    inner = max(1, min(500, int(0.02 / start)))
    ours_s, theirs_s = alternate(
        (lambda: exe(*arguments), lambda: jax.block_until_ready(function(*device_arguments))), repetitions, inner
    )
    median, other = statistics.median(ours_s), statistics.median(theirs_s)
    return {
        "xjit ms": median * 1e3,
        "xjit best": min(ours_s) * 1e3,
        "jax ms": other * 1e3,
        "jax best": min(theirs_s) * 1e3,
        "ratio": other / median,
        "of bests": min(theirs_s) / min(ours_s),
        "worst error": max(c.error for c in found),
        "agrees": "yes" if all(c.ok for c in found) else "NO",
    }


def worst_ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The smallest ratio of each family, over its sizes; of other rows their own."""
    worst: dict[str, float] = {}
    for row in rows:
        if "ratio" in row:
            name = row["name"]
            family = name.rpartition(" ")[0] if name in FAMILY_CASES else name
            worst[family] = min(row["ratio"], worst.get(family, row["ratio"]))
    return worst


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of rows")
    parser.add_argument("--repetitions", type=int, default=9)
    options = parse_arguments(parser)
    report = Report(COLUMNS, 24)
    for name, case in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        try:
            report.add(name, **measure(case, options.repetitions))
        except HloError as error:
            report.add(name, agrees="error")
            print(f"    {error}")
    worst = worst_ratios(report.rows)
    for name, ratio in sorted(worst.items(), key=lambda item: item[1]):
        print(f"    worst of {name}: {ratio:.3f}")
    ratios = list(worst.values())
    report.finish(options.json, **({"mean_of_worst_ratios": geometric_mean(ratios)} if ratios else {}))


if __name__ == "__main__":
    main()
