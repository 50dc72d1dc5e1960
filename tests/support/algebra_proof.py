"""Proof of the simplifier's rules on values: every instance of a left side, before and after, bit by bit.

An instance is an expression, `add(x, negate(y))`, or HLO text. In expressions x, y, z are arrays of the type T, p and q
of pred; c and d are constants, which are swept; `convert<U>(x)` converts to every type. They get all combinations of
values: all that there are of types of 8 bits and less, special ones of wider types. In text, `T` stands for every type.
A rule must apply to some instance, and wherever it applies it must be as exact as it says. A quick proof takes special
constants, fewer pairs of them, and every third pair of types.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.tolerance import is_float, mismatch
from xjit.hlo import HloComputation, HloError, HloInstruction, HloModule, Literal, Shape, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import BY_TEXT, PrimitiveType
from xjit.ops import build
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.evaluation.numerics import flush, widen
from xjit.ops.reducers import integer_limits
from xjit.ops.verifier import verify_module
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.text.parser import parse_hlo

Array = np.ndarray[Any, Any]

TYPES = (
    "pred", "s4", "s8", "u8", "s32", "u32", "s64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f4e2m1fn", "bf16", "f16",
    "f32", "f64", "c64",
)  # fmt: skip
TEXT_TYPES = ("pred", "s8", "u8", "s32", "f8e5m2", "bf16", "f32", "c64")
CONSTANT_TYPES = ("s8", "u8", "f8e5m2")  # whose every value is swept as a constant
SEEDS = 4  # random arguments of texts
PAIR_TYPES = ("pred", "s4", "u8", "s32", "f8e5m2", "f32")  # that have pairs of constants swept
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 4.0, 8.0, 100.0, 1 / 3, np.inf, -np.inf, np.nan)


def values_of(kind: PrimitiveType, exhaustive: bool = True) -> Array:
    """Returns all values of a small type (if wanted), special values of a wider one."""
    if kind is PrimitiveType.PRED:
        return np.array([False, True])
    if kind.is_complex:
        parts = np.array([0.0, -0.0, 1.0, -2.5, np.inf, np.nan, 1e30])
        pairs = np.stack(np.meshgrid(parts, parts), axis=-1).reshape(-1, 2)
        return np.ascontiguousarray(pairs).view(np.complex128).ravel().astype(kind.dtype)
    if kind.bit_width <= (8 if exhaustive else 4):
        codes = np.arange(1 << kind.bit_width, dtype=np.uint8)
        return codes.astype(np.int8).astype(kind.dtype) if kind.is_integer else codes.view(kind.dtype)
    if kind.is_integer:
        low, high = integer_limits(kind)
        near = [0, 1, 2, 3, 4, 7, 8, 100, kind.bit_width - 1, kind.bit_width, low, low + 1, high, high - 1, high // 2]
        numbers = sorted({n for v in near for n in (v, -v) if low <= n <= high})
        return np.array(numbers, np.uint64 if low == 0 else np.int64).astype(kind.dtype)
    info = ml_dtypes.finfo(kind.dtype)
    edges = [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal), float(info.eps)]
    numbers = np.array([*_SPECIAL, *edges, *[-e for e in edges], *[1 + e for e in edges[-1:]], 2.0**20, 1e-3, 5.5])
    with np.errstate(all="ignore"):
        return numbers.astype(kind.dtype)


@dataclass
class Expression:
    """An expression over arrays of one size, as a computation."""

    text: str
    kind: PrimitiveType
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    types: dict[str, PrimitiveType] = field(default_factory=dict[str, PrimitiveType])
    size: int = 1

    def module(self) -> HloModule:
        """Returns the module; HloError if the expression has no meaning for these types."""
        self.builder = HloComputation.Builder("e")
        self.leaves: dict[str, HloInstruction] = {}
        names = sorted(set(re.findall(r"\b[xyzpq]\b", self.text)))
        for number, name in enumerate(names):
            kind = PrimitiveType.PRED if name in "pq" else self.kind
            parameter = HloInstruction.create_parameter(number, Shape.array(kind, [self.size]), name)
            self.leaves[name] = self.builder.add_instruction(parameter)
        self.tokens = re.findall(r"[\w.\-]+(?:<\w+>)?|[(),]", self.text)
        root = self._parse()
        module = HloModule("proof")
        module.add_entry_computation(self.builder.build(root))
        return module

    def _parse(self) -> HloInstruction:
        word = self.tokens.pop(0)
        if not self.tokens or self.tokens[0] != "(":
            return self._leaf(word)
        self.tokens.pop(0)
        operands: list[HloInstruction] = []
        while self.tokens[0] != ")":
            operands.append(self._parse())
            if self.tokens[0] == ",":
                self.tokens.pop(0)
        self.tokens.pop(0)
        return self.builder.add_instruction(self._make(word, operands))

    def _make(self, word: str, operands: list[HloInstruction]) -> HloInstruction:
        opcode, _, argument = word.partition("<")
        argument = argument.rstrip(">")
        if opcode in ("convert", "bitcast-convert"):
            kind = self.types.get(argument) or (self.kind if argument == "T" else BY_TEXT[argument])
            return build.make(opcode, *operands, shape=operands[0].shape.with_element_type(kind))
        if opcode == "compare":
            direction, _, kind = argument.partition("_")
            return build.make(opcode, *operands, attributes=at.CompareAttributes(direction, kind))
        if opcode == "reduce-precision":
            exponent, _, mantissa = argument.partition("_")
            return build.make(opcode, *operands, attributes=at.ReducePrecisionAttributes(int(exponent), int(mantissa)))
        if opcode == "iota":
            shape = Shape.array(self.kind, [self.size])
            return HloInstruction.create("iota", shape, [], at.IotaAttributes(0))
        return build.make(opcode, *operands)

    def _leaf(self, word: str) -> HloInstruction:
        if word in self.leaves:
            return self.leaves[word]
        if word in ("true", "false"):
            value: Any = np.asarray(word == "true")
        elif word in self.constants:
            value = np.asarray(self.constants[word])
        else:
            value = np.asarray(float(word)).astype(self.kind.dtype)
        scalar = self.builder.add_instruction(HloInstruction.create_constant(Literal.from_array(value)))
        shape = Shape.array(scalar.shape.element_type, [self.size])
        self.leaves[word] = self.builder.add_instruction(build.broadcast_scalar(scalar, shape))
        return self.leaves[word]


def _constants(kind: PrimitiveType, names: Sequence[str], exhaustive: bool, quick: bool) -> Iterator[dict[str, Any]]:
    every = exhaustive and not quick and kind.text in CONSTANT_TYPES and len(names) == 1
    chosen = values_of(kind, every or kind.bit_width <= 4)
    if len(names) == 2:
        chosen = chosen[:: -(-len(chosen) // (8 if quick else 16))] if kind.text in PAIR_TYPES else chosen[:0]
    for values in itertools.product(chosen, repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def _arguments(text: str, kind: PrimitiveType) -> list[Array]:
    names = sorted(set(re.findall(r"\b[xyzpq]\b", text)))
    wide = sum(n in "xyz" for n in names)
    domain = values_of(kind, wide < 3)
    if wide == 3 and len(domain) > 24:
        domain = domain[:: -(-len(domain) // 24)]
    domains = [np.array([False, True]) if n in "pq" else domain for n in names]
    grid = np.meshgrid(*[np.arange(len(d)) for d in domains], indexing="ij")
    return [d[g.ravel()] for d, g in zip(domains, grid, strict=True)]


def _expressions(
    text: str, kind: PrimitiveType, exhaustive: bool, quick: bool
) -> Iterator[tuple[HloModule, list[Array]]]:
    arguments = _arguments(text, kind)
    names = sorted(set(re.findall(r"\b[cd]\b", text)))
    types = sorted(set(re.findall(r"<([UV])>", text)))
    size = len(arguments[0]) if arguments else 200
    every = itertools.product([BY_TEXT[t] for t in TYPES], repeat=len(types))
    for kinds in itertools.islice(every, 0, None, 3 if quick and len(types) > 1 else 1):
        swept = dict(zip(types, kinds, strict=True))
        for constants in _constants(kind, names, exhaustive, quick):
            try:
                module = Expression(text, kind, constants, swept, size).module()
                verify_module(module)
            except (HloError, OverflowError, ValueError):
                if not names:
                    break
                continue
            yield module, arguments


def _texts(text: str, kind: PrimitiveType, special: bool) -> Iterator[tuple[HloModule, list[Array]]]:
    try:
        module = parse_hlo(re.sub(r"\bT\b", kind.text, text))
        verify_module(module)
    except HloError:
        return
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        yield module, [_chosen(p.shape, rng, special) for p in module.entry_computation.parameter_instructions]


def _chosen(shape: Shape, rng: np.random.Generator, special: bool) -> Array:
    """Values for an argument; scalar integers may be indices, beyond the bounds, too."""
    kind = shape.element_type
    if not special and (kind.is_float or kind.is_complex):
        return rng.uniform(-2.0, 2.0, shape.dimensions).astype(shape.dtype)
    chosen = values_of(kind)
    if shape.is_scalar and kind.is_integer:
        chosen = np.arange(-3, 9).clip(*integer_limits(kind)).astype(shape.dtype)
    return np.asarray(rng.choice(chosen, shape.dimensions))


def instances(
    rule: AlgebraRule, text: str, kind: PrimitiveType, quick: bool = False
) -> Iterator[tuple[HloModule, list[Array]]]:
    """Yields the modules that an instance of a rule stands for, for one type T, each with arguments.

    Rules that sum in another order get no infinities: those may come or go on the way.
    """
    if "ENTRY" in text:
        return _texts(text, kind, rule.exactness not in (Exactness.ORDER, Exactness.FINITE))
    return _expressions(text, kind, rule.exactness is Exactness.EXACT, quick)


def prove(rule: AlgebraRule, texts: Sequence[str], quick: bool = False) -> None:
    """Checks a rule on all its instances; AssertionError with the first that is wrong, or if it applies to none."""
    table = rule_table([Rule(rule.id, rule.pattern, rule.rewrite)])
    applied, exact = False, True
    for text in texts:
        names = TYPES if "ENTRY" not in text else TEXT_TYPES if re.search(r"\bT\b", text) else ("f32",)
        if rule.exactness in (Exactness.XLA, Exactness.REAL):
            names = [n for n in names if BY_TEXT[n].is_float or BY_TEXT[n].is_complex]
        for name in names:
            for before, arguments in instances(rule, text, BY_TEXT[name], quick):
                after = before.clone("")
                if not apply_rules(after.entry_computation, table, lambda i: not has_control_dependencies(i)):
                    continue
                verify_module(after)
                applied = True
                exact &= _check(rule, f"{text} of {name}", before, after, arguments)
    assert applied, f"{rule.id} applies to none of {list(texts)}"
    if rule.exactness in (Exactness.XLA, Exactness.REAL):
        assert not exact, f"{rule.id} seems to be exact: it needs no option"


def _check(rule: AlgebraRule, what: str, before: HloModule, after: HloModule, arguments: list[Array]) -> bool:
    """Compares values as the rule's exactness says; returns whether all bits were the same."""
    exact = True
    for ftz in (False, True) if any(is_float(a.dtype) for a in arguments) else (True,):
        try:
            old = _leaves(_evaluate(before, arguments, ftz))
        except Unsupported:  # the verifier accepts more types than have a meaning
            return True
        new = _leaves(_evaluate(after, arguments, ftz))
        wrong = "; ".join(filter(None, (_difference(n, o) for n, o in zip(new, old, strict=True))))
        exact &= not wrong
        if rule.exactness is Exactness.EXACT:
            assert not wrong, f"{rule.id} on {what}: {wrong}\n{before}\n{after}"
        elif rule.exactness in (Exactness.ACCURATE, Exactness.ORDER, Exactness.FINITE):
            for n, o in zip(new, old, strict=True):
                problem = mismatch(n, o, 8.0, 0.0 if rule.exactness is Exactness.ACCURATE else 8.0)
                assert not problem, f"{rule.id} on {what}: {problem}\n{before}\n{after}"
    if rule.exactness in (Exactness.XLA, Exactness.REAL) and before.entry_computation.root_instruction.shape.is_array:
        _check_ordinary(rule, what, before, after)
    return exact


def _check_ordinary(rule: AlgebraRule, what: str, before: HloModule, after: HloModule) -> None:
    """Compares on a few positive numbers, where a rule of real arithmetic must hold but for rounding."""
    rng = np.random.default_rng(1)
    arguments = [_ordinary(p.shape, rng) for p in before.entry_computation.parameter_instructions]
    constants = [i for i in before.entry_computation.instructions if i.opcode == "constant"]
    kind = before.entry_computation.root_instruction.shape.element_type
    if kind.bit_width < 32 or any(not _is_ordinary(c) for c in constants):
        return
    old, new = (_evaluate(module, arguments, True) for module in (before, after))
    problem = mismatch(np.asarray(new), np.asarray(old), 512.0, 8.0)
    assert not problem, f"{rule.id} on {what}: {problem}\n{before}\n{after}"


def _ordinary(shape: Shape, rng: np.random.Generator) -> Array:
    if shape.element_type is PrimitiveType.PRED:
        return rng.integers(0, 2, shape.dimensions).astype(np.bool_)
    return rng.uniform(0.5, 2.0, shape.dimensions).astype(shape.dtype)


def _is_ordinary(constant: HloInstruction) -> bool:
    array = constant.literal.array
    if not is_float(array.dtype) and array.dtype.kind != "c":
        return True
    size = np.abs(array.astype(np.complex128))
    return bool(np.all((size == 0) | ((size > 0.1) & (size < 10))))


def _evaluate(module: HloModule, arguments: list[Array], ftz: bool) -> Any:
    with np.errstate(all="ignore"):
        return Interpreter(ftz=ftz).call(module.entry_computation, *arguments)


def _leaves(value: Any) -> list[Array]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


def _difference(new: Array, old: Array) -> str:
    """Says where two arrays differ in more than the bits of a NaN, subnormals taken as zeros; "" if nowhere."""
    if new.dtype != old.dtype or new.shape != old.shape:
        return f"{new.dtype}{list(new.shape)} instead of {old.dtype}{list(old.shape)}"
    if new.dtype.kind == "c":
        return _difference(new.real, old.real) or _difference(new.imag, old.imag)
    if not is_float(new.dtype):
        same = new == old
    else:
        n, o = (flush(widen(a)).astype(np.float64) for a in (new, old))
        same = (np.isnan(n) & np.isnan(o)) | ((n == o) & (np.signbit(n) == np.signbit(o)))
    if np.all(same):
        return ""
    where = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{int((~same).sum())} of {same.size} elements; at {list(where)}: {new[where]!r} not {old[where]!r}"
