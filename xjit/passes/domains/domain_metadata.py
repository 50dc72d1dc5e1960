"""What a domain instruction says: `domain={kind="sharding", entry={maximal device=1}, exit={maximal device=0}}`.

`entry` is what its users see, `exit` what its operand sees. The kind `sharding` carries shardings, or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.shardings import parse_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError
from xjit.hlo.diagnostics import HloVerifyError

SHARDING = "sharding"
_TEXT = re.compile(r'\s*kind="([^"]*)"\s*,\s*entry=(\{.*\})\s*,\s*exit=(\{.*\})\s*', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Domain:
    """The kind of a domain instruction and its two sides, as text in braces."""

    kind: str
    user_side: str
    operand_side: str

    def __str__(self) -> str:
        return f'{{kind="{self.kind}", entry={self.user_side}, exit={self.operand_side}}}'


def domain_of(instruction: HloInstruction) -> Domain:
    """Returns what a domain instruction says; HloVerifyError if its text is not of that form."""
    text = instruction.attributes_as(at.DomainAttributes).domain
    inner = text.strip().removeprefix("{").removesuffix("}")
    match = _TEXT.fullmatch(inner)
    if match is None:
        raise HloVerifyError(f"domain={text} is not {{kind=..., entry={{...}}, exit={{...}}}}", instruction.span)
    return Domain(match[1], match[2], match[3])


def sharding_of(text: str) -> HloSharding | None:
    """Returns a side of a sharding domain as a sharding; None for `{}`, which is none."""
    if "".join(text.split()) == "{}":
        return None
    try:
        return parse_sharding(text)
    except CodecError as error:
        raise HloVerifyError(f"a domain names a sharding that is none: {error}") from None


def common_sharding(sharding: HloSharding | None) -> HloSharding | None:
    """Returns a tuple's sharding as one for a single array, if it is the same for all leaves."""
    if sharding is not None and sharding.elements and len(set(sharding.elements)) == 1:
        return sharding.elements[0]
    return sharding


def sharding_text(sharding: HloSharding | None) -> str:
    """Returns a sharding as a side of a domain."""
    return "{}" if sharding is None else str(sharding)
