"""Random numbers. rng-bit-generator gives XLA's bits (ThreeFry-2x32, Philox-4x32-10); rng only its distributions.

ThreeFry counts over half of the result: the shape is split in two along its first even (else its longest) dimension,
and the two words of block i are neighbours along that dimension. Philox fills the result in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import RngAttributes, RngBitGeneratorAttributes, RngStateAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.evaluation.convert import bitcast_elements
from xjit.ops.evaluation.numerics import Array, Value, concrete_int, int_bounds, unsupported, widen, wrap
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

_MASK32, _MASK64 = 0xFFFFFFFF, (1 << 64) - 1
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def three_fry(key: tuple[int, int], low: Array, high: Array) -> tuple[Array, Array]:
    """Returns the two u32 words of each counter (low, high), 20 rounds."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = low + np.uint32(keys[0]), high + np.uint32(keys[1])
    for block in range(5):
        for r in _ROTATIONS[block % 2]:
            x = x + y
            y = ((y << np.uint32(r)) | (y >> np.uint32(32 - r))) ^ x
        x = x + np.uint32(keys[(block + 1) % 3])
        y = y + np.uint32((keys[(block + 2) % 3] + block + 1) & _MASK32)
    return x, y


def philox(key: int, counter: Sequence[Array]) -> list[Array]:
    """Returns the four u32 words of each counter of four u32 words, 10 rounds."""
    x = list(counter)
    k0, k1 = key & _MASK32, key >> 32
    for _ in range(10):
        first = x[0].astype(np.uint64) * np.uint64(0xD2511F53)
        second = x[2].astype(np.uint64) * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        x = [
            (second >> shift).astype(np.uint32) ^ x[1] ^ np.uint32(k0),
            second.astype(np.uint32),
            (first >> shift).astype(np.uint32) ^ x[3] ^ np.uint32(k1),
            first.astype(np.uint32),
        ]
        k0, k1 = (k0 + 0x9E3779B9) & _MASK32, (k1 + 0xBB67AE85) & _MASK32
    return x


def _three_fry_bits(state: list[int], shape: tuple[int, ...], bits: int) -> tuple[list[int], Array]:
    key, start = (state[0] & _MASK32, state[0] >> 32), state[1]
    if bits == 64:
        count = math.prod(shape)
        x, y = three_fry(key, *_counters(start, count))
        words = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
        return [state[0], (start + count) & _MASK64], words.reshape(shape)
    sizes = shape or (1,)
    even = [d for d, n in enumerate(sizes) if n % 2 == 0]
    split = even[0] if even else max(range(len(sizes)), key=lambda d: (sizes[d], -d))
    half = [-(-n // 2) if d == split else n for d, n in enumerate(sizes)]
    count = math.prod(half)
    x, y = three_fry(key, *_counters(start, count))
    pairs = np.stack([x.reshape(half), y.reshape(half)], axis=split + 1)
    merged = pairs.reshape([2 * n if d == split else n for d, n in enumerate(half)])
    cut = merged[tuple(slice(0, n) for n in sizes)].reshape(shape)
    return [state[0], (start + count) & _MASK64], cut


def _counters(start: int, count: int) -> tuple[Array, Array]:
    numbers = np.arange(count, dtype=np.uint64) + np.uint64(start)
    return numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)


def _philox_bits(state: list[int], shape: tuple[int, ...], bits: int) -> tuple[list[int], Array]:
    low, high = (state[1], state[2]) if len(state) >= 3 else (state[1], state[0])
    count = math.prod(shape)
    blocks = -(-count * (2 if bits == 64 else 1) // 4)
    numbers = np.arange(blocks, dtype=np.uint64) + np.uint64(low)
    carry = (numbers < np.uint64(low)).astype(np.uint64)
    upper = carry + np.uint64(high)
    shift = np.uint64(32)
    counter = [numbers.astype(np.uint32), (numbers >> shift).astype(np.uint32)]
    counter += [upper.astype(np.uint32), (upper >> shift).astype(np.uint32)]
    words = np.stack(philox(state[0], counter), axis=-1)
    if bits == 64:
        flat = (words[:, 0::2].astype(np.uint64) | (words[:, 1::2].astype(np.uint64) << shift)).reshape(-1)
    else:
        flat = words.reshape(-1)
    total = low + (high << 64) + blocks
    new_low, new_high = total & _MASK64, (total >> 64) & _MASK64
    new_state = [state[0], new_low, new_high] if len(state) >= 3 else [state[0], new_low]
    return new_state, flat[:count].reshape(shape)


def _rng_bit_generator(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    algorithm = instruction.attributes_as(RngBitGeneratorAttributes).algorithm
    state, target = operands[0], instruction.shape.tuple_shapes[1]
    if state.dtype != np.uint64 or state.ndim != 1 or not 2 <= state.size <= 3:
        raise unsupported(f"rng-bit-generator with a state of {state.dtype}{list(state.shape)}")
    kind = target.element_type
    if kind.bit_width < 8 or kind is PrimitiveType.PRED or kind.is_complex:
        raise unsupported(f"rng-bit-generator of {kind.text}")
    generate = _three_fry_bits if algorithm == "rng_three_fry" else _philox_bits
    numbers = [int(v) for v in state]
    new_state, words = generate(numbers[:2] if generate is _three_fry_bits else numbers, target.dimensions,
                                kind.bit_width)  # fmt: skip
    new_state += numbers[len(new_state) :]
    bits = words.astype(np.dtype(f"u{kind.byte_width}"))
    return np.array(new_state, np.uint64), bitcast_elements(bits, kind)


def _rng(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Uniform in [low, high) or normal(mean, deviation); the values are the evaluator's own."""
    shape, generator = instruction.shape, interpreter.generator
    kind, (a, b) = shape.element_type, (widen(np.asarray(x)) for x in operands)
    if instruction.attributes_as(RngAttributes).distribution == "rng_normal":
        return (generator.standard_normal(shape.dimensions) * b + a).astype(shape.dtype)
    if kind is PrimitiveType.PRED:
        return generator.integers(0, 2, shape.dimensions).astype(np.bool_)
    if kind.is_integer:
        low, high = concrete_int(a), concrete_int(b)
        if low >= high:
            return np.full(shape.dimensions, low).astype(shape.dtype)
        bounds = np.uint64 if int_bounds(kind)[1] >= 1 << 63 else np.int64
        return wrap(generator.integers(low, high, shape.dimensions, dtype=bounds), kind)
    values = (a + generator.random(shape.dimensions) * (np.float64(b) - a)).astype(shape.dtype)
    return np.where(widen(values) >= b, np.asarray(a).astype(shape.dtype), values)


def _rng_get_and_update_state(
    interpreter: Interpreter, instruction: HloInstruction, _operands: Sequence[Value]
) -> Array:
    """Returns the 128-bit state as u64[2], low word first, and advances it by delta."""
    state = interpreter.rng_state
    interpreter.rng_state = (state + instruction.attributes_as(RngStateAttributes).delta) % (1 << 128)
    return np.array([state & _MASK64, state >> 64], np.uint64).reshape(instruction.shape.dimensions)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        "rng": _rng,
        "rng-bit-generator": _rng_bit_generator,
        "rng-get-and-update-state": _rng_get_and_update_state,
    }
)
