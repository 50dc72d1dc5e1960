"""The table of codecs by name, and the fields of an attributes class with their codecs."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo.attributes import Attributes
from xjit.hlo.attributes.codecs.literals import LITERAL_CODECS
from xjit.hlo.attributes.codecs.scalars import SCALAR_CODECS
from xjit.hlo.attributes.codecs.shapes import SHAPE_CODECS
from xjit.hlo.attributes.codecs.shardings import SHARDING_CODECS
from xjit.hlo.attributes.codecs.structured import STRUCTURED_CODECS
from xjit.hlo.attributes.codecs.value_text import Codec

CODECS: dict[str, Codec] = {
    **SCALAR_CODECS, **STRUCTURED_CODECS, **SHAPE_CODECS, **SHARDING_CODECS, **LITERAL_CODECS,
}  # fmt: skip
IN_PARENTHESES = "in_parentheses"


@dataclass(frozen=True, slots=True)
class AttributeField:
    """One declared attribute: field name, key in HLO text, codec, default.

    `always`: written even if it is the default.
    """

    name: str
    key: str
    codec: Codec
    codec_name: str
    default: Any
    required: bool
    always: bool


@cache
def attribute_fields(kind: type[Attributes]) -> tuple[AttributeField, ...]:
    """Returns the fields of an attributes class that are written as `key=value`."""
    result: list[AttributeField] = []
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        codec_name = field.metadata["codec"]
        if codec_name == IN_PARENTHESES:
            continue
        required = field.default is dataclasses.MISSING
        default = None if required else field.default
        key = field.metadata["key"] or field.name
        always = required or field.metadata["always"]
        result.append(AttributeField(field.name, key, CODECS[codec_name], codec_name, default, required, always))
    return tuple(result)
