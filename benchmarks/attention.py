"""Attention and its gradient beside XLA:CPU: `python benchmarks/attention.py [--gradient] [--mask MASK] [LENGTH ...]`.

f32, batch 2, 8 heads, 64 wide; with `--shared-by N`, N heads share keys and values. Masks are all causal: a comparison
of positions, a number that is added, a constant array. Calls of xjit, of xjit without `attention-fusion` and of jaxlib
alternate; times are the least of several rounds, or with `--cpu-time` medians of what all threads take; temporaries
are what `memory_analysis` says. Without the fusion, lengths above 4096 are left out: scores would take gigabytes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xjit

BATCH, HEADS, WIDTH = 2, 8, 64
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
MASKS = ("none", "causal", "added", "constant")
LONGEST_UNFUSED = 4096
ROUND_SECONDS = 2.0


def attention(mask: str, length: int) -> Callable[..., Any]:
    """Returns attention over [batch, length, heads, width], with a mask of `MASKS`."""
    lower = np.tril(np.ones((1, 1, length, length), bool))

    def with_added(q: Any, k: Any, v: Any) -> Any:
        places = jnp.arange(length)
        bias = jnp.where(places[:, None] >= places[None, :], 0.0, -1e9)
        return jax.nn.dot_product_attention(q, k, v, bias[None, None])

    return {
        "none": jax.nn.dot_product_attention,
        "causal": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        "added": with_added,
        "constant": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, mask=jnp.asarray(lower)),
    }[mask]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the gradients of the operands, given that of the result."""
    return lambda q, k, v, g: jax.vjp(function, q, k, v)[1](g)


def seconds_of(calls: dict[str, Callable[[], Any]], of_cpu: bool) -> dict[str, float]:
    """Returns the least time of each call, of rounds that run all of them once; or the median of the CPU's time."""
    clock, choose = (time.process_time, statistics.median) if of_cpu else (time.perf_counter, min)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    start, rounds = time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - start < ROUND_SECONDS:
        for name, call in calls.items():
            before = clock()
            call()
            taken[name].append(clock() - before)
        rounds += 1
    return {name: choose(times) for name, times in taken.items()}


def run(length: int, with_gradient: bool, mask: str, shared_by: int, of_cpu: bool) -> None:
    """Prints one row."""
    rng = np.random.default_rng(0)
    heads = (HEADS, HEADS // shared_by, HEADS // shared_by, HEADS)[: 4 if with_gradient else 3]
    inputs = [rng.normal(size=(BATCH, length, n, WIDTH)).astype(np.float32) for n in heads]
    function = gradient(attention(mask, length)) if with_gradient else attention(mask, length)
    module = xjit.from_jax(function, *inputs)
    fused = xjit.compile(module)
    jitted = jax.jit(function)
    arrays = [jnp.asarray(x) for x in inputs]
    compiled = jitted.lower(*arrays).compile()
    calls: dict[str, Callable[[], Any]] = {
        "xjit": lambda: fused(*inputs),
        "jax": lambda: jax.block_until_ready(jitted(*arrays)),
    }
    if length <= LONGEST_UNFUSED:
        unfused = xjit.compile(module, options=xjit.CompileOptions(disabled_passes=("attention-fusion",)))
        calls["unfused"] = lambda: unfused(*inputs)
    seconds = seconds_of(calls, of_cpu)
    analysis = compiled.memory_analysis()
    assert analysis is not None
    temporaries = fused.memory_analysis().temp_size_in_bytes, analysis.temp_size_in_bytes
    without = f"{1e3 * seconds['unfused']:9.2f}" if "unfused" in seconds else " " * 9
    kind = "gradient" if with_gradient else "forward"
    print(
        f"{kind:8} {length:6} {1e3 * seconds['xjit']:9.2f} {without} {1e3 * seconds['jax']:9.2f} "
        f"{seconds['jax'] / seconds['xjit']:6.2f}x {temporaries[0] / 1e6:9.1f} {temporaries[1] / 1e6:9.1f}",
        flush=True,
    )


def main() -> None:
    """Prints a table: milliseconds, the ratio to XLA:CPU, and megabytes of temporaries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    parser.add_argument("--gradient", action="store_true")
    parser.add_argument("--mask", choices=MASKS, default="none")
    parser.add_argument("--shared-by", type=int, default=1, help="heads that share keys and values")
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    print(f"{'':8} {'length':>6} {'xjit ms':>9} {'unfused':>9} {'jax ms':>9} {'ratio':>7} {'xjit MB':>9} {'jax MB':>9}")
    for length in arguments.lengths:
        run(length, arguments.gradient, arguments.mask, arguments.shared_by, arguments.cpu_time)


if __name__ == "__main__":
    main()
