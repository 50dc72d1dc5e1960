"""What does the first call of a small jitted function cost? CPU time of tracing, lowering, compiling and running it on
`xjit` and on `cpu`, in turns in one process, of ten kinds of functions, each with ten constants.

`--floor` also has the part of that which JAX does before it asks a backend to compile. `--more` takes twenty other
kinds. `--start` measures whole processes instead, which import JAX and add some numbers up.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "xjit,cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from reporting import Report, parse_arguments

import xjit_jax_plugin

Function = Callable[[Any, Any, Any], Any]
NUM_CONSTANTS = 10
NUM_PROCESSES = 10
_PROCESS = "import jax.numpy as jnp; jnp.ones((4, 4)).sum().block_until_ready()"

KINDS: dict[str, Callable[[float], Function]] = {
    "affine": lambda c: lambda x, y, i: x * c + 1,
    "sin": lambda c: lambda x, y, i: jnp.sin(x) * c,
    "matmul": lambda c: lambda x, y, i: x @ y + c,
    "sum": lambda c: lambda x, y, i: (x * c).sum(0),
    "softmax": lambda c: lambda x, y, i: jax.nn.softmax(x * c),
    "sort": lambda c: lambda x, y, i: jnp.sort(y * c, axis=0),
    "take": lambda c: lambda x, y, i: x[:, i] * c,
    "where": lambda c: lambda x, y, i: jnp.where(x > c, x, c).T,
    "loop": lambda c: lambda x, y, i: lax.fori_loop(0, 3, lambda _, a: a * c, x),
    "concatenate": lambda c: lambda x, y, i: jnp.concatenate([x, y]).mean() * c,
}

MORE_KINDS: dict[str, Callable[[float], Function]] = {
    "grad": lambda c: jax.grad(lambda x, y, i: (jnp.tanh(x @ y) * c).sum()),
    "scan": lambda c: lambda x, y, i: lax.scan(lambda a, b: (a * c + b, a), x[0], x),
    "while": lambda c: lambda x, y, i: lax.while_loop(lambda a: a[0, 0] < c, lambda a: a * 2 + x, x),
    "cond": lambda c: lambda x, y, i: lax.cond(i[0] > 0, lambda: x * c, lambda: x + c),
    "random bits": lambda c: lambda x, y, i: jax.random.bits(jax.random.key(int(c)), (4,)),
    "normal": lambda c: lambda x, y, i: jax.random.normal(jax.random.key(int(c)), (4, 6)) + x,
    "cumsum": lambda c: lambda x, y, i: jnp.cumsum(x * c, axis=1),
    "argmax": lambda c: lambda x, y, i: jnp.argmax(x * c, axis=1),
    "argsort": lambda c: lambda x, y, i: jnp.argsort(y * c, axis=1),
    "einsum": lambda c: lambda x, y, i: jnp.einsum("ij,kj->ik", x, y) * c,
    "update": lambda c: lambda x, y, i: x.at[:, i].add(c),
    "slices": lambda c: lambda x, y, i: x[1:3, ::2] * c,
    "pad": lambda c: lambda x, y, i: jnp.pad(x, 1, constant_values=c),
    "variance": lambda c: lambda x, y, i: (x * c).var(axis=0),
    "logsumexp": lambda c: lambda x, y, i: jax.nn.logsumexp(x * c, axis=1),
    "layer norm": lambda c: lambda x, y, i: jax.nn.standardize(x * c),
    "gelu": lambda c: lambda x, y, i: jax.nn.gelu(x * c),
    "vmap": lambda c: lambda x, y, i: jax.vmap(lambda a: (a @ y * c).max())(x),
    "integers": lambda c: lambda x, y, i: (i * int(c) + 7) % 5,
    "transpose": lambda c: lambda x, y, i: (x.T * c).reshape(3, 8)[::-1],
}


def first_call(make: Callable[[float], Function], constant: float, arguments: tuple[Any, ...]) -> float:
    """Seconds of CPU time, of all threads."""
    function = jax.jit(make(constant))
    start = time.process_time()
    jax.block_until_ready(function(*arguments))
    return time.process_time() - start


def lowering(make: Callable[[float], Function], constant: float, arguments: tuple[Any, ...]) -> float:
    """The same, of tracing and lowering alone."""
    function = jax.jit(make(constant))
    start = time.process_time()
    function.lower(*arguments)
    return time.process_time() - start


def process(platform: str) -> float:
    """Seconds of CPU time of a new process whose backend is `platform`."""
    environment = os.environ | {"JAX_PLATFORMS": platform}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _PROCESS], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_processes(report: Report) -> None:
    """Starts processes in turns; the first of each platform compiles what is kept for the others."""
    found: dict[str, list[float]] = {name: [] for name in ("xjit", "cpu")}
    for name in found:
        process(name)
    for _ in range(NUM_PROCESSES):
        for name, times in found.items():
            times.append(1e3 * process(name))
    row = {f"{name} ms": statistics.median(times) for name, times in found.items()}
    report.add("process", **(row | {"ratio": row["xjit ms"] / row["cpu ms"]}))


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floor", action="store_true", help="measure tracing and lowering alone, too")
    parser.add_argument("--more", action="store_true", help="measure twenty other kinds of functions")
    parser.add_argument("--start", action="store_true", help="measure new processes instead")
    options = parse_arguments(parser)
    if options.start:
        report = Report(["xjit ms", "cpu ms", "ratio"])
        measure_processes(report)
        report.finish(options.json)
        return
    kinds = MORE_KINDS if options.more else KINDS
    xjit_jax_plugin.initialize()
    x = np.linspace(0.1, 1, 24, dtype=np.float32).reshape(4, 6)
    y = np.linspace(0.1, 1, 36, dtype=np.float32).reshape(6, 6)
    values = x, y, np.arange(6)
    arguments = {name: jax.device_put(values, jax.devices(name)[0]) for name in ("xjit", "cpu")}
    for make in kinds.values():  # what is loaded and made once
        for given in arguments.values():
            first_call(make, 0.5, given)
    columns = ["xjit ms", "cpu ms", "ratio", *(["lowering ms"] if options.floor else [])]
    report = Report(columns)
    totals = dict.fromkeys(columns, 0.0)
    for name, make in kinds.items():
        found: dict[str, list[float]] = {column: [] for column in columns}
        for c in range(1, NUM_CONSTANTS + 1):
            for backend in ("xjit", "cpu") if c % 2 else ("cpu", "xjit"):
                found[f"{backend} ms"].append(1e3 * first_call(make, float(c), arguments[backend]))
            if options.floor:
                found["lowering ms"].append(1e3 * lowering(make, float(c), arguments["cpu"]))
        row = {column: statistics.median(times) for column, times in found.items() if times}
        for column, value in row.items():
            totals[column] += value
        report.add(name, **(row | {"ratio": row["xjit ms"] / row["cpu ms"]}))
    report.add("all", **(totals | {"ratio": totals["xjit ms"] / totals["cpu ms"]}))
    report.finish(options.json)


if __name__ == "__main__":
    main()
