"""Codecs of what instructions carry besides their meaning: metadata, frontend attributes, backend config."""

from __future__ import annotations

import re

from xjit.hlo.annotations.metadata import OpMetadata
from xjit.hlo.attributes.codecs.scalars import parse_braces, parse_int, parse_int_list
from xjit.hlo.attributes.codecs.value_text import (
    ANY_STRING,
    STRING,
    CodecError,
    inside,
    is_quoted,
    quote,
    shorten,
    split_items,
    split_list,
    strip_comments,
    unquote,
)
from xjit.hlo.diagnostics import did_you_mean

_PAIR = re.compile(rf"[\s,]*+([\w.\-]+)=\s*({ANY_STRING}|\{{[^{{}}]*\}}|[^\s{{}},\"']+)[\s,]*+", re.DOTALL)
_QUOTED = re.compile(ANY_STRING, re.DOTALL)
_KEY = re.compile(r"\s*([^\s={}\"]+)=\s*", re.DOTALL)
_JSON_TOKEN = re.compile(rf'{STRING}|[{{}}()\[\]"]|[^{{}}()\[\]"]++', re.DOTALL)
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_STATISTIC = re.compile(r"visualizing_index=\s*-?\d+|[\w.\-]+=\s*-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_METADATA = {
    **dict.fromkeys(("op_type", "op_name", "source_file"), (unquote, quote)),
    **dict.fromkeys(("source_line", "source_end_line", "source_column", "source_end_column"), (parse_int, str)),
    **dict.fromkeys(("deduplicated_name", "scheduling_name"), (unquote, quote)),
    "stack_frame_id": (parse_int, str),
}
"""The fields of OpMetadata in the order of the text: how a value is read, and how it is written."""
_EXTRA = {
    "profile_type": parse_int_list,
    "metadata_payload": unquote,
    **dict.fromkeys(("size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes"), parse_int),
}
"""What else XLA, or its proto, has there: how it is read. It is kept as it was written."""


def parse_metadata(text: str) -> OpMetadata:
    """Returns the metadata of `{op_name="x" source_line=1}`; what OpMetadata has no field for goes to `extra`."""
    body = inside(text)
    fields: dict[str, str | int] = {}
    extra: list[tuple[str, str]] = []
    position = 0
    end = len(body.rstrip())
    while position < end:
        match = _PAIR.match(body, position)
        if match is None:
            raise CodecError(f"expected 'key=value' in metadata, found '{shorten(body[position:])}'", position + 1)
        key, value = match.groups()
        if key in fields or any(key == given for given, _ in extra):
            raise CodecError(f"metadata '{key}' is given twice", match.start(1) + 1)
        if key in _METADATA:
            fields[key] = _METADATA[key][0](value)
        elif key in _EXTRA:
            _EXTRA[key](value)
            extra.append((key, value))
        else:
            hint = did_you_mean(key, [*_METADATA, *_EXTRA])
            raise CodecError(f"unknown metadata '{key}'{hint}", match.start(1) + 1)
        position = match.end()
    return OpMetadata(**fields, extra=tuple(extra))  # type: ignore[arg-type]


def format_metadata(metadata: OpMetadata) -> str:
    """Returns `{op_name="x" ...}` without the fields that are empty."""
    parts: list[str] = []
    for name, (_, write) in _METADATA.items():
        value = getattr(metadata, name)
        if value:
            parts.append(f"{name}={write(value)}")
    parts.extend(f"{key}={value}" for key, value in metadata.extra)
    return "{" + " ".join(parts) + "}"


def parse_statistics(text: str) -> str:
    """Returns `{visualizing_index=1,name=2.5}` as it is: the index of a statistic, and numbers by name."""
    for item in split_list(inside(text)):
        if _STATISTIC.fullmatch(item) is None:
            raise CodecError(f"expected name=number in statistics, found '{shorten(item)}'")
    return text


def parse_frontend_attributes(text: str) -> dict[str, str]:
    """Returns the pairs of `{key="value", other={raw braces}}`."""
    body = inside(text)
    result: dict[str, str] = {}
    if not body.strip():
        return result
    for item, offset in split_items(body):
        match = _KEY.match(item)
        if match is None:
            raise CodecError(f"expected 'key=value' in frontend attributes, found '{shorten(item)}'", offset + 1)
        value = item[match.end() :].strip()
        if value.startswith("{"):
            inside(value)
            result[match.group(1)] = value
        elif _QUOTED.fullmatch(value):
            result[match.group(1)] = unquote(value)
        else:
            raise CodecError(
                f"a frontend attribute is a quoted string or in braces, found '{shorten(value)}'", offset + 1
            )
    return result


def format_frontend_attributes(attributes: dict[str, str]) -> str:
    """Returns `{key="value"}`, sorted by key."""
    return "{" + ",".join(f"{key}={format_string_or_braces(value)}" for key, value in sorted(attributes.items())) + "}"


def parse_string_or_braces(text: str) -> str:
    """Returns the value of a quoted string, or a braced text (JSON) as it is."""
    return unquote(text) if is_quoted(text) else parse_braces(text)


def format_string_or_braces(value: str) -> str:
    """Returns a quoted string, or a braced text as it is."""
    return value if is_braced(value) else quote(value)


def is_braced(value: str) -> bool:
    """Whether a string is one balanced group of braces, so that it can be written without quotes."""
    if not (value.startswith("{") and value.endswith("}")):
        return False
    expected: list[str] = []  # the closing brackets of the open ones, innermost last
    for match in _JSON_TOKEN.finditer(value):
        token = match.group()
        if token in _CLOSING:
            expected.append(_CLOSING[token])
        elif token == '"' or (token in "}])" and token != expected.pop()):
            return False
        if not expected:
            return match.end() == len(value)
    return False


def parse_name_list(text: str) -> list[str]:
    """Returns the names of `{%a, %b}` without their sigils."""
    return [item.removeprefix("%") for item in split_list(inside(strip_comments(text)))]
