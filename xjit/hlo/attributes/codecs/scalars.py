"""Codecs of plain values: integers, booleans, words, strings, and braced lists of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xjit.affine.interval import INT64_MAX, INT64_MIN
from xjit.hlo.attributes.codecs.value_text import Codec, CodecError, inside, quote, shorten, split_list, unquote

_INT = re.compile(r"[-+]?\d+")
_WORD = re.compile(r"[\w.\-+:]+")


def parse_int(text: str) -> int:
    """Returns a 64-bit integer; CodecError if the text is none."""
    text = text.strip()
    if not _INT.fullmatch(text):
        raise CodecError(f"expected an integer, found '{shorten(text)}'")
    value = int(text) if len(text) < 24 else INT64_MAX + 1
    if not INT64_MIN <= value <= INT64_MAX:
        raise CodecError(f"integer {shorten(text)} does not fit into 64 bits")
    return value


def parse_bool(text: str) -> bool:
    """Returns a boolean, true or false; CodecError for another text."""
    value = {"true": True, "false": False}.get(text.strip())
    if value is None:
        raise CodecError(f"expected true or false, found '{shorten(text)}'")
    return value


def format_bool(value: bool) -> str:
    """Returns `true` or `false`."""
    return "true" if value else "false"


def parse_float(text: str) -> float:
    """Returns a float; CodecError if the text is none."""
    try:
        return float(text)
    except ValueError:
        raise CodecError(f"expected a number, found '{shorten(text)}'") from None


def parse_word(text: str) -> str:
    """Returns a bare word such as an enumeration value."""
    if not _WORD.fullmatch(text):
        raise CodecError(f"expected a word, found '{shorten(text)}'")
    return text


def parse_int_list(text: str) -> tuple[int, ...]:
    """Returns the integers of `{1,2}`."""
    return tuple(parse_int(item) for item in split_list(inside(text)))


def format_int_list(values: tuple[int, ...]) -> str:
    """Returns `{1,2}`."""
    return "{" + ",".join(map(str, values)) + "}"


def parse_int_in_list(text: str) -> int:
    """Returns the integer of `{1}`."""
    values = parse_int_list(text)
    if len(values) != 1:
        raise CodecError(f"expected exactly one integer in braces, found {len(values)}")
    return values[0]


def parse_int_lists(text: str) -> tuple[tuple[int, ...], ...]:
    """Returns the lists of `{{0,1},{2,3}}`."""
    return tuple(parse_int_list(item) for item in split_list(inside(text)))


def parse_int_pairs(text: str) -> tuple[tuple[int, ...], ...]:
    """Returns the pairs of `{{0,1},{1,2}}`."""
    pairs = parse_int_lists(text)
    if any(len(pair) != 2 for pair in pairs):
        raise CodecError(f"expected a list of pairs, found '{shorten(text)}'")
    return pairs


def format_int_lists(values: tuple[tuple[int, ...], ...]) -> str:
    """Returns `{{0,1},{2,3}}`."""
    return "{" + ",".join(map(format_int_list, values)) + "}"


def parse_braces(text: str) -> str:
    """Returns a braced text as it is."""
    inside(text)
    return text


def word_unless(default: str, words: tuple[str, ...] = ()) -> Codec:
    """Returns the codec of a word that is left out (the empty string) where it has its default value.

    `words` are the others; none means any.
    """
    parse = one_of(*words).parse if words else parse_word
    return Codec(lambda text: "" if text == default else parse(text), lambda word: word or default)


_API_VERSIONS = ("API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI")


def one_of(*words: str, ignore_case: bool = False) -> Codec:
    """Returns the codec of an enumeration; CodecError names the words for any other text."""

    def parse(text: str) -> str:
        word = text.lower() if ignore_case else text
        if word not in words:
            raise CodecError(f"expected one of {', '.join(words)}; found '{shorten(text)}'")
        return word

    return Codec(parse, str)


def list_of(parse: Callable[[str], Any], form: Callable[[Any], str]) -> Codec:
    """Returns the codec of a braced list."""
    return Codec(
        lambda text: tuple(parse(item) for item in split_list(inside(text))),
        lambda values: "{" + ",".join(form(v) for v in values) + "}",
    )


FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")
_DOT_ALGORITHMS = (
    *("dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum", "dot_f16_f16_f16", "dot_f16_f16_f32"),
    *("dot_bf16_bf16_bf16", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6"),
    *("dot_bf16_bf16_f32_x9", "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f64_f64_f64"),
)
_PRECISION = one_of("default", "high", "highest", ignore_case=True)

SCALAR_CODECS: dict[str, Codec] = {
    "int": Codec(parse_int, str),
    "bool": Codec(parse_bool, format_bool),
    "float": Codec(parse_float, repr),
    "word": Codec(parse_word, str),
    "comparison_direction": one_of("EQ", "NE", "GE", "GT", "LE", "LT"),
    "comparison_type": one_of("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "dot_algorithm": one_of(*_DOT_ALGORITHMS),
    "fft_type": one_of("FFT", "IFFT", "RFFT", "IRFFT"),
    "fusion_kind": one_of(*FUSION_KINDS),
    "precisions": list_of(_PRECISION.parse, _PRECISION.format),
    "rng_algorithm": one_of("rng_default", "rng_three_fry", "rng_philox", ignore_case=True),
    "rng_distribution": one_of("rng_uniform", "rng_normal", ignore_case=True),
    "transpose": one_of("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    "api_version": word_unless("API_VERSION_ORIGINAL", _API_VERSIONS),
    "schedule": word_unless("SCHEDULE_NONE"),
    "padding_type": word_unless("PADDING_INVALID"),
    "string": Codec(unquote, quote),
    "int_list": Codec(parse_int_list, format_int_list),
    "int_in_list": Codec(parse_int_in_list, lambda value: f"{{{value}}}"),
    "int_lists": Codec(parse_int_lists, format_int_lists),
    "int_pairs": Codec(parse_int_pairs, format_int_lists),
    "bool_list": list_of(parse_bool, format_bool),
    "raw_braces": Codec(parse_braces, str),
}
