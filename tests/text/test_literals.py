"""Literals and shapes in text: exact round trips of values of every type, bulk reading, malformed layouts."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xjit.hlo import Literal, PrimitiveType, Shape
from xjit.hlo.attributes.codecs import CodecError
from xjit.hlo.attributes.codecs.literals import format_literal, parse_literal
from xjit.hlo.attributes.codecs.shapes import parse_program_shape, parse_shape

ARRAYS = [t for t in PrimitiveType if t.is_array and t.value.dtype is not None]


@pytest.mark.parametrize("kind", ARRAYS, ids=lambda t: t.text)
@pytest.mark.parametrize("dims", [(), (7,), (3, 5), (2, 1, 3), (0, 3), (3, 0), (13, 17)], ids=str)
def test_random_bits_round_trip(kind: PrimitiveType, dims: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(dims) + kind.proto)
    shape = Shape.array(kind, dims)
    count = shape.num_elements
    if kind is PrimitiveType.PRED:
        flat = rng.integers(0, 2, count).astype(bool)
    elif kind.bit_width < 8:
        numbers = rng.integers(0, 1 << kind.bit_width, count)
        if kind.is_signed:
            numbers -= (numbers >> (kind.bit_width - 1)) << kind.bit_width
        flat = (
            numbers.astype(np.int8).astype(kind.dtype) if kind.is_integer else numbers.astype(np.uint8).view(kind.dtype)
        )
    else:
        flat = np.frombuffer(rng.bytes(count * kind.dtype.itemsize), kind.dtype)
    if (kind.is_float or kind.is_complex) and kind.component.text not in ("f64", "f32", "f16", "bf16"):
        flat = np.where(np.isnan(flat.astype(np.float32)), kind.dtype.type(1), flat)
    literal = Literal(shape, flat.reshape(dims))
    assert parse_literal(format_literal(literal), shape) == literal


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_floats_are_short_and_exact(values: list[float]) -> None:
    literal = Literal.from_array(np.array(values, np.float32))
    text = format_literal(literal)
    assert parse_literal(text, literal.shape) == literal
    assert all(len(item) <= 15 for item in text.strip("{}").split(", "))


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("f32[]", "f32[] 3", [3]),
        ("f32[2]", "f32[2]{0} {1, 2}", [1, 2]),
        ("f32[2]", "f32[2] {1, 2}", [1, 2]),
        ("f32[2]", "f32[2]{1, 2}", [1, 2]),
        ("s32[2,2]", "{ /*i=0*/ {1, 2}, /*i=1*/ {3, 4} }", [1, 2, 3, 4]),
        ("pred[3]", "{true, 0, 1}", [True, False, True]),
        ("c64[2]", "{(1, 2), (-0.5, inf)}", [1 + 2j, complex(-0.5, np.inf)]),
        ("s4[2]", "{-8, 7}", [-8, 7]),
        ("f32[3]", "{inf, -inf, 1e-45}", [np.inf, -np.inf, 1e-45]),
    ],
)
def test_spellings(shape: str, text: str, expected: list[complex]) -> None:
    literal = parse_literal(text, parse_shape(shape))
    want = np.array(expected, complex if "c" in shape[:1] else float).astype(literal.array.dtype)
    np.testing.assert_array_equal(literal.array.reshape(-1), want)


def test_nan_sign_and_payload_are_kept() -> None:
    literal = parse_literal("{nan(0x400001), -nan(0x1), -nan, nan}", parse_shape("f32[4]"))
    assert [f"{v:08x}" for v in literal.array.view(np.uint32)] == ["7fc00001", "ff800001", "ffc00000", "7fc00000"]
    assert format_literal(literal) == "{nan(0x400001), -nan(0x1), -nan, nan}"


def test_a_million_numbers_are_read_and_written_in_bulk() -> None:
    array = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)
    literal = Literal.from_array(array)
    start = time.process_time()
    text = format_literal(literal)
    assert parse_literal(text, literal.shape) == literal
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("f32[2]", "{1 2}", [1, 2]),
        ("s32[2,2]", "{,{1,,2,}{3 4},}", [[1, 2], [3, 4]]),
        ("c64[2]", "{(1,2) (3,4),}", [1 + 2j, 3 + 4j]),
        ("pred[2]", "{2, -1}", [True, True]),
        ("pred[3]", "101", [True, False, False]),
        ("s64[]", "18446744073709551615", -1),
    ],
)
def test_forms_that_xla_reads_too(shape: str, text: str, expected: object) -> None:
    np.testing.assert_array_equal(parse_literal(text, parse_shape(shape)).array, np.array(expected))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[2]", "{1}"),
        ("f32[2]", "{1, 2"),
        ("f32[2]", "{1, {2}}"),
        ("f32[2,2]", "{{1, 2}, {3}}"),
        ("f32[999999999999,999999999999]", "{1}"),
        ("(f32[], f32[])", "(1)"),
        ("u8[2]", "{-1, 0}"),
        ("u64[]", "18446744073709551616"),
        ("s64[2]", "{18446744073709551616, 0}"),
        ("f16[]", "65520"),
        ("f32[100]", "{" + "1, " * 99 + "x}"),
        ("s8[100]", "{" + "1, " * 99 + "200}"),
        ("u32[100]", "{" + "1, " * 99 + "-1}"),
    ],
)
def test_malformed_literals(shape: str, text: str) -> None:
    with pytest.raises(CodecError):
        parse_literal(text, parse_shape(shape))


@pytest.mark.parametrize(
    "text",
    [
        "f32[2,3]{1,0:T(8,128)(2,1)S(1)}",
        "s4[16,128]{1,0:T(8,128)E(4)}",
        "f32[16]{0:T(256)L(64)S(5)}",
        "f32[16,8]{1,0:SC(1:4)}",
        "f32[16,8]{1,0:M(1024)}",
        "f32[16,8]{1,0:T(*,8)}",
        "f32[16,8]{1,0:#(u32)*(u16)}",
        "(f32[2]{0}, (), (s32[<=3,?]{1,0}, token[]), opaque[])",
        "(f32[]" + ", f32[]" * 3 + ")",
    ],
)
def test_shapes_round_trip(text: str) -> None:
    assert str(parse_shape(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "f32", "f32[", "f32[2]]", "q8[2]", "f32[2,]", "f32[-1]", "f32[2]{1}", "f32[2]{0,0}",
        "f32[2]{0:X(1)}", "f32[2]{0:S(1)S(2)}", "(f32[2]", "(f32[2],)", "()x",
        "token[2]", "tuple[]", "f32[99999999999999999999]",
    ],
)  # fmt: skip
def test_malformed_shapes(text: str) -> None:
    with pytest.raises(CodecError):
        parse_shape(text)


def test_program_shape() -> None:
    parameters, result = parse_program_shape("{(f32[2]{0}, /*index=1*/(s32[], f32[]))->f32[2]{0}}")
    assert [str(p) for p in parameters] == ["f32[2]{0}", "(s32[], f32[])"]
    assert str(result) == "f32[2]{0}"
    with pytest.raises(CodecError, match="expected"):
        parse_program_shape("{(f32[2]{0}) f32[2]{0}}")
