"""Random HLO modules, as text, with inputs: the raw material of the property tests.

A `Generator` writes one computation. Rules (`tests.support.hlo_rules`) ask it for operands and emit an instruction. In
a module of one instruction every operand is a new parameter; in a graph it is an earlier value, made to fit. The same
seed gives the same module.

Invariant: a value is `exact` if every correct implementation gives the same bits (element types of IEEE arithmetic,
integers, moved data). Only exact values reach operations that turn a small error into a large one: comparisons,
conversions to integers, indices.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xjit.hlo.types.primitive_type import PrimitiveType as P

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]

FLOATS = (P.F32, P.F64, P.F16, P.BF16, P.F8E5M2, P.F8E4M3FN)
WIDE = (P.F32, P.F64, P.F16, P.BF16)
COMPLEX = (P.C64, P.C128)
SIGNED = (P.S8, P.S16, P.S32, P.S64, P.S4)
UNSIGNED = (P.U8, P.U16, P.U32, P.U64, P.U4)
INTEGERS = (*SIGNED, *UNSIGNED)
COMMON = (P.F32, P.F32, P.F32, P.S32, P.S32, P.PRED, P.BF16, P.F64, P.U8, P.F16, P.S64, P.U32, P.S8)
ALL = (*FLOATS, *COMPLEX, *INTEGERS, P.PRED)
MAX_ELEMENTS = 2000


@dataclass(frozen=True, slots=True)
class Value:
    """An instruction that was written."""

    name: str
    kind: P
    dims: Dims
    exact: bool = True

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)


@dataclass(slots=True)
class ModuleText:
    """What the computations of one module share: called computations, parameters' data, names, devices, channels."""

    rng: random.Random
    layouts: float
    special: float
    computations: list[str] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    names: int = 0
    replicas: int = 1
    partitions: int = 1
    channels: int = 0

    def new_channel(self) -> int:
        """Returns the id of a channel that no instruction has yet."""
        self.channels += 1
        return self.channels

    @property
    def header(self) -> str:
        """The first line of the module."""
        devices = f", replica_count={self.replicas}, num_partitions={self.partitions}"
        return "HloModule generated" + (devices if self.replicas * self.partitions > 1 else "")

    def new_name(self, hint: str) -> str:
        """Returns a name that the module does not have yet."""
        self.names += 1
        return f"{hint.replace('-', '_')}.{self.names}"


class Generator:
    """Writes one computation of a module."""

    def __init__(self, module: ModuleText, graph: bool, entry: bool = True) -> None:
        self.module = module
        self.rng = module.rng
        self.graph = graph
        self.entry = entry
        self.lines: list[str] = []
        self.pool: list[Value] = []
        self.parameters = 0

    # -- shapes

    def dims(self, low: int = 0, high: int = 5, empty: bool = True) -> Dims:
        """Returns random dimensions: sizes 0, 1 and odd ones included, not too many elements."""
        rank = self.rng.randint(low, high)
        sizes = (1, 2, 3, 4, 5, 7, 8, 17) if rank < 4 else (1, 1, 2, 3, 4, 5)
        result = [self.rng.choice(sizes) for _ in range(rank)]
        if rank and self.rng.random() < 0.2:
            result[self.rng.randrange(rank)] = self.rng.choice((33, 64, 130))
        while math.prod(result) > MAX_ELEMENTS:
            result[result.index(max(result))] = self.rng.choice((1, 2, 3))
        if rank and empty and self.rng.random() < 0.03 and not self.graph:
            result[self.rng.randrange(rank)] = 0
        return tuple(result)

    def shape_text(self, kind: P, dims: Dims) -> str:
        """Returns the shape in HLO, often with a permuted layout."""
        text = f"{kind.text}[{','.join(map(str, dims))}]"
        if len(dims) > 1 and self.rng.random() < self.module.layouts:
            text += "{" + ",".join(map(str, self.permutation(len(dims)))) + "}"
        return text

    def permutation(self, rank: int) -> list[int]:
        """Returns a random permutation of range(rank)."""
        return self.rng.sample(range(rank), rank)

    def kind(self, *among: P) -> P:
        """Returns an element type of those; usual ones more often if none are given."""
        return self.rng.choice(among or COMMON)

    # -- instructions

    def emit(self, opcode: str, kind: P, dims: Dims, operands: str, attributes: str = "", exact: bool = True) -> Value:
        """Writes an instruction and returns its value."""
        value = self.write(opcode, self.shape_text(kind, dims), operands, attributes)
        result = Value(value, kind, tuple(dims), exact)
        self.pool.append(result)
        return result

    def write(self, opcode: str, shape: str, operands: str, attributes: str = "") -> str:
        """Writes a line and returns the name of its instruction."""
        name = self.module.new_name(opcode)
        self.lines.append(f"{name} = {shape} {opcode}({operands}){', ' if attributes else ''}{attributes}")
        return name

    def parameter(self, kind: P, dims: Dims, data: Array | None = None) -> Value:
        """Writes a parameter of the entry computation, with its data; elsewhere, a constant array takes its place."""
        if not self.entry:
            scalar = self.emit("constant", kind, (), literal(kind, self.rng))
            return scalar if not dims else self.broadcast(scalar, dims)
        number = self.parameters
        self.parameters += 1
        self.module.inputs.append(self.data(kind, dims) if data is None else data)
        return self.emit("parameter", kind, dims, str(number))

    def argument(self, kind: P, dims: Dims, exact: bool = True) -> Value:
        """Writes a parameter of a called computation."""
        self.parameters += 1
        return self.emit("parameter", kind, dims, str(self.parameters - 1), exact=exact)

    def data(self, kind: P, dims: Dims) -> Array:
        """Returns random elements; with probability `special`, some NaNs, infinities, zeros and extremes."""
        seed = np.random.default_rng(self.rng.getrandbits(32))
        special = self.rng.random() < self.module.special
        return random_data(kind, dims, seed, special)

    def operand(self, kind: P | None = None, dims: Dims | None = None, exact: bool = False) -> Value:
        """Returns an operand of a type and dimensions (or any): an earlier value made to fit, or a parameter."""
        if self.graph and self.pool and self.rng.random() < 0.92:
            fits = [v for v in self.pool[-12:] if (kind is None or v.kind is kind) and (v.exact or not exact)]
            same = [v for v in fits if dims is None or v.dims == dims]
            if same and self.rng.random() < 0.97:
                return self.rng.choice(same)
            if fits and dims is not None:
                return self.resized(self.rng.choice(fits), dims)
            others = [v for v in self.pool[-12:] if v.exact and dims in (None, v.dims) and not v.kind.is_complex]
            if others and kind is not None and not kind.is_complex:
                return self.converted(self.rng.choice(others), kind)
        kind = kind or self.kind()
        return self.parameter(kind, self.dims() if dims is None else dims)

    def operands(self, count: int, kind: P | None = None, dims: Dims | None = None) -> list[Value]:
        """Returns operands of one type and dimensions."""
        first = self.operand(kind, dims)
        return [first, *(self.operand(first.kind, first.dims) for _ in range(count - 1))]

    # -- making values fit

    def broadcast(self, value: Value, dims: Dims) -> Value:
        """Broadcasts a scalar."""
        return self.emit("broadcast", value.kind, dims, value.name, "dimensions={}", value.exact)

    def converted(self, value: Value, kind: P) -> Value:
        """Converts to another type."""
        if value.kind is kind:
            return value
        return self.emit("convert", kind, value.dims, value.name, exact=value.exact)

    def resized(self, value: Value, dims: Dims) -> Value:
        """Returns a value of other dimensions made of elements of `value` and zeros."""
        if value.dims == dims:
            return value
        if not value.dims:
            return self.broadcast(value, dims)
        size = math.prod(dims)
        flat = value if len(value.dims) == 1 else self.reshaped(value, (value.size,))
        if flat.size > size:
            start = self.rng.randint(0, flat.size - size)
            flat = self.emit(
                "slice", value.kind, (size,), flat.name, f"slice={{[{start}:{start + size}]}}", value.exact
            )
        elif flat.size < size:
            zero = self.emit("constant", value.kind, (), literal(value.kind, self.rng))
            low = self.rng.randint(0, size - flat.size)
            high = size - flat.size - low
            operands = f"{flat.name}, {zero.name}"
            flat = self.emit("pad", value.kind, (size,), operands, f"padding={low}_{high}", value.exact)
        return flat if flat.dims == dims else self.reshaped(flat, dims)

    def reshaped(self, value: Value, dims: Dims) -> Value:
        """Reshapes to dimensions of as many elements."""
        return self.emit("reshape", value.kind, dims, value.name, exact=value.exact)

    # -- computations and the module

    def subcomputation(self, graph: bool = True) -> Generator:
        """Returns a generator of a computation of the same module."""
        return Generator(self.module, graph, entry=False)

    def finish(self, root: str, name: str = "") -> str:
        """Ends a called computation whose root is the instruction of that name; returns the computation's name."""
        name = name or self.module.new_name("computation")
        self.module.computations.append(f"{name} {{\n{self.body(root)}}}\n")
        return name

    def body(self, root: str) -> str:
        """Returns the lines; the root marked."""
        marked = ("ROOT " if line.split(" ", 1)[0] == root else "" for line in self.lines)
        return "".join(f"  {mark}{line}\n" for mark, line in zip(marked, self.lines, strict=True))

    def scalar_computation(self, kind: P, opcode: str) -> str:
        """Writes the computation (a, b) -> opcode(a, b)."""
        inner = self.subcomputation()
        a, b = inner.argument(kind, ()), inner.argument(kind, ())
        return inner.finish(inner.emit(opcode, kind, (), f"{a.name}, {b.name}").name)

    def text(self, roots: Sequence[Value]) -> str:
        """Returns the whole module: this is the entry computation, its result one value or a tuple."""
        root = roots[0].name
        if len(roots) != 1:
            shapes = ", ".join(f"{v.kind.text}[{','.join(map(str, v.dims))}]" for v in roots)
            root = self.write("tuple", f"({shapes})", ", ".join(v.name for v in roots))
        computations = "\n".join(self.module.computations)
        return f"{self.module.header}\n\n{computations}\nENTRY entry {{\n{self.body(root)}}}\n"


def literal(kind: P, rng: random.Random) -> str:
    """Returns the text of a small scalar constant."""
    if kind is P.PRED:
        return rng.choice(("true", "false"))
    if kind.is_complex:
        return f"({rng.choice((0, 1, -0.5))}, {rng.choice((0, 2))})"
    if kind.is_float:
        return str(rng.choice((0, 1, -0.5, 2)))
    return str(rng.choice((0, 1, 2, 3)) if not kind.is_signed else rng.choice((0, 1, -1, -2)) if kind.bit_width < 4
               else rng.choice((0, 1, -3, 5)))  # fmt: skip


def random_data(kind: P, dims: Dims, rng: np.random.Generator, special: bool) -> Array:
    """Returns random elements: quarters for floats (sums of few are exact), small and extreme integers, coin flips."""
    if kind is P.PRED:
        return rng.integers(0, 2, dims).astype(np.bool_)
    if kind.is_complex:
        parts = [random_data(kind.component, dims, rng, special) for _ in range(2)]
        result = np.empty(dims, kind.dtype)
        result.real, result.imag = parts
        return result
    if kind.is_float:
        values = np.asarray(rng.integers(-16, 17, dims) / 4)
        if special:
            extremes = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -300.0])
            values = np.where(rng.random(dims) < 0.3, rng.choice(extremes, dims), values)
        with np.errstate(all="ignore"):
            return np.asarray(values.astype(np.float32).astype(kind.dtype))
    low = -(1 << (kind.bit_width - 1)) if kind.is_signed else 0
    high = low + (1 << kind.bit_width) - 1
    values = rng.integers(max(low, -5), min(high, 9) + 1, dims).astype(object)
    if special:
        extremes = np.array([low, high, high - 1, 0, kind.bit_width, kind.bit_width - 1], dtype=object)
        extremes = np.clip(extremes, low, high)
        values = np.where(rng.random(dims) < 0.4, rng.choice(extremes, dims), values)
    base = kind.dtype if kind.bit_width >= 8 else np.dtype(np.int8)
    return np.asarray(np.asarray(values).astype(base).astype(kind.dtype))


def text_of(numbers: Iterable[int]) -> str:
    """Returns an attribute's list."""
    return "{" + ",".join(map(str, numbers)) + "}"


def names(*values: Value) -> str:
    return ", ".join(v.name for v in values)


def product(dims: Iterable[int]) -> int:
    return math.prod(dims)
