"""Random modules and how their results are compared: single instructions, and graphs of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.hlo_generator import Array, Generator, ModuleText, Value
from tests.support.hlo_rules import GRAPH, RULES, random_instruction
from tests.support.tolerance import is_float, mismatch
from xjit.hlo import HloModule
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.text.parser import parse_hlo

MAX_ROOTS = 5
ULPS = {"float64": 512, "complex128": 512, "float32": 64, "complex64": 64, "float16": 4, "bfloat16": 4}
"""How many units in the last place a result of some inexact operations may be off, relative to its terms."""
ULPS_NARROW = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A module with inputs; `exact` says for each result (of each device) whether its bits are determined."""

    text: str
    inputs: list[Array]
    exact: tuple[bool, ...]


def single_instruction(opcode: str, seed: int) -> Case:
    """Returns a module of one random instruction of an opcode, on parameters.

    Windows of convolutions are finite: zeros that pad times infinity may be NaN, as in XLA's libraries, or left out, as
    in its own loops.
    """
    g = _generator(f"{opcode} {seed}", graph=False, layouts=0.6, special=0.5)
    case = _case(g, [RULES[opcode](g)])
    if opcode == "convolution":
        window = case.inputs[1]
        window[~np.isfinite(window)] = 1
    return case


def graph(
    seed: int, opcodes: tuple[str, ...] = GRAPH, low: int = 5, high: int = 40, devices: tuple[int, int] = (1, 1)
) -> Case:
    """Returns a module of `low` to `high` random instructions, and those that make their operands fit.

    It is for that many (replicas, partitions); the inputs are those of the first device.
    """
    g = _generator(f"graph {seed}", graph=True, layouts=0.2, special=0.15)
    g.module.replicas, g.module.partitions = devices
    for _ in range(g.rng.randint(1, 3)):
        g.parameter(g.kind(), g.dims())
    for _ in range(g.rng.randint(low, high)):
        random_instruction(g, opcodes)
    used = {word.strip("(),") for line in g.lines for word in line.split(" ")[1:]}
    unused = [v for v in g.pool if v.name not in used]
    return _case(g, g.rng.sample(unused, min(MAX_ROOTS, len(unused))))


def _generator(seed: str, graph: bool, layouts: float, special: float) -> Generator:
    return Generator(ModuleText(random.Random(seed), layouts, special), graph)


def _case(g: Generator, roots: list[Value]) -> Case:
    devices = g.module.replicas * g.module.partitions
    return Case(g.text(roots), g.module.inputs, tuple(v.exact for v in roots) * devices)


def leaves(result: Any) -> list[Array]:
    """Returns the arrays of a result."""
    return [x for item in result for x in leaves(item)] if isinstance(result, tuple) else [np.asarray(result)]


def computed(module: HloModule, inputs: list[Array]) -> list[Array]:
    """Returns the arrays that a module computes, those of one device after the other.

    Each device is given the inputs' elements, one place further than the one before.
    """
    count = module.config.replica_count * module.config.num_partitions
    if count == 1:
        return leaves(evaluate(module, *inputs))
    given = [[np.roll(x, device) for x in inputs] for device in range(count)]
    return leaves(tuple(evaluate_devices(module, given)))


def magnitudes(case: Case) -> list[Array | None]:
    """Returns for each result that is not exact how large its terms are: what comes of the magnitudes of the inputs.

    That is the sum of the magnitudes of all terms for sums of any kind, where terms of two signs may cancel.
    """
    if all(case.exact):
        return [None] * len(case.exact)
    positive = [abs(x).astype(x.dtype) if is_float(x.dtype) else x for x in case.inputs]
    results = computed(parse_hlo(case.text), positive)
    return [None if exact or not is_float(r.dtype) else _magnitude(r) for r, exact in zip(results, case.exact)]


def _magnitude(x: Array) -> Array:
    size = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    return np.where(np.isfinite(size), size, 0.0)


def difference(actual: Array, expected: Array, exact: bool, magnitude: Array | None = None) -> str:
    """Returns what is different between two results, in words; "" if they agree. A NaN agrees with any NaN."""
    if not exact:
        scale = 0.0 if magnitude is None else magnitude
        return mismatch(actual, expected, ULPS.get(expected.dtype.name, ULPS_NARROW), scale)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    same = (actual == expected) & (_sign(actual) == _sign(expected)) | (actual != actual) & (expected != expected)
    if bool(np.all(same)):
        return ""
    where = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
    count = int(np.sum(~np.asarray(same)))
    return f"{count} of {actual.size} elements; at {list(where)}: {actual[where]!r} instead of {expected[where]!r}"


def _sign(x: Array) -> Any:
    return np.signbit(x) if x.dtype.kind == "f" else np.zeros((), bool)
