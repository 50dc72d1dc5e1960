"""Shardings in HLO text: `{replicated}`, `{devices=[2,1]<=[2]}`, `{mesh['x'=2], ...}`, tuples of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from xjit.hlo.annotations.mesh import Iota, NamedSharding, OpSharding
from xjit.hlo.annotations.metadata import HloSharding, OpMetadata
from xjit.hlo.attributes.codecs.annotations import format_metadata
from xjit.hlo.attributes.codecs.meshes import (
    IOTA,
    iota,
    parse_named_sharding,
    parse_numbers,
    parse_sharding_metadata,
)
from xjit.hlo.attributes.codecs.value_text import (
    ANY_STRING,
    INTS,
    SIZES,
    Codec,
    CodecError,
    inside,
    shorten,
    split_list,
    strip_comments,
    unquote,
)

_KIND = r"replicated|maximal|manual|unknown|unreduced"
_TILED = rf"devices=\[(?P<tiles>{SIZES})\](?:<={IOTA}|(?P<list>{INTS}))"
_PART = re.compile(
    rf"\s*(?:(?P<kind>{_KIND})|last_tile_dim_replicate|(?P<group>shard_(?:as|like)\s+\d+)|device=(?P<device>-?\d+)"
    rf"|{_TILED}"
    r"|last_tile_dims=\{(?P<last>[^{}]*)\}|metadata=(?P<metadata>\{.*\}))(?!(?<=\w)[\w=])\s*",
    re.DOTALL,
)
_SPACE = re.compile(rf"{ANY_STRING}|\s++(?:<=\s*+)?|<?=\s*+", re.DOTALL)
_OF_LAST_TILES = frozenset({"replicated", "maximal", "manual", "unreduced"})


def parse_sharding(text: str) -> HloSharding:
    """Returns the sharding of `{replicated}`, `{devices=[2,1]<=[2]}`, or a tuple of shardings in braces."""
    body = inside(strip_comments(text)).strip()
    if not body:
        return HloSharding()
    if body[0] != "{":
        return HloSharding(_single(body))
    elements: list[HloSharding] = []
    for item in split_list(body):
        inner = inside(item).strip()
        if inner.startswith("{"):
            raise CodecError("the sharding of a tuple is one flat list of shardings")
        elements.append(HloSharding(_single(inner)))
    return HloSharding(elements=tuple(elements))


def parse_domain(text: str) -> str:
    """Returns `{kind="sharding", entry={...}, exit={...}}` as it is: both sides of a domain."""
    sides = {name: value for name, _, value in (item.partition("=") for item in split_list(inside(text)))}
    if sides.keys() != {"kind", "entry", "exit"} or unquote(sides["kind"]) != "sharding":
        raise CodecError(f'expected {{kind="sharding", entry=..., exit=...}}, found {shorten(text)}')
    parse_sharding(sides["entry"])
    parse_sharding(sides["exit"])
    return text


def _single(text: str) -> str:
    text = _SPACE.sub(_without_space, text)
    parse_array_sharding(text)
    return text


def _without_space(match: re.Match[str]) -> str:
    """Returns a string as it is, `<=` without what is around it, `=` without what is behind it, else one space."""
    text = match.group()
    return text if text[0] in "\"'" else "<=" if "<=" in text else "=" if text[0] == "=" else " "


@lru_cache(maxsize=1024)
def parse_array_sharding(text: str) -> OpSharding | NamedSharding:
    """Returns what the text of one array's HloSharding says; CodecError if XLA would not read it."""
    if text.startswith(("mesh", "maximal_mesh")):
        return parse_named_sharding(text)
    sharding = OpSharding()
    for part in _parts(text):
        if (part["tiles"] or part["device"]) and sharding.devices:
            raise CodecError("the devices of a sharding are given twice")
        sharding = replace(sharding, **_fields(part))
    _check(sharding)
    return sharding


def format_sharding_metadata(metadata: Sequence[OpMetadata]) -> str:
    """Returns `metadata={op_name="x"}`, a list in braces if there are several; nothing for none."""
    items = [format_metadata(m) for m in metadata]
    if not items:
        return ""
    return f"metadata={items[0]}" if len(items) == 1 else f"metadata={{{', '.join(items)}}}"


def _fields(part: re.Match[str]) -> dict[str, Any]:
    """Returns what one part of a sharding's text says."""
    if part["kind"]:
        return {"kind": part["kind"]}
    if part["device"]:
        return {"devices": (int(part["device"]),)}
    if part["tiles"]:
        devices = iota(part) if part["reshape"] else parse_numbers(part["list"])
        return {"tiles": parse_numbers(part["tiles"]), "devices": devices}
    if part["metadata"]:
        return {"metadata": parse_sharding_metadata(part["metadata"])}
    if part["last"] is not None:
        words = tuple(word.strip() for word in part["last"].split(",") if word.strip())
        if not _OF_LAST_TILES.issuperset(words):
            raise CodecError(f"expected {', '.join(sorted(_OF_LAST_TILES))} in last_tile_dims, found '{part['last']}'")
        return {"last_tile_dims": words}
    if part["group"]:
        return {"group": " ".join(part["group"].split())}
    return {"replicate_on_last_tile_dim": True}


def _check(sharding: OpSharding) -> None:
    """Raises CodecError unless the parts of a sharding go together."""
    kind, devices = sharding.kind, sharding.devices
    count = 0 if isinstance(devices, Iota) else len(devices)
    if kind == "maximal" and count != 1:
        raise CodecError("a maximal sharding names its device, and no other")
    if kind not in ("", "maximal") and count:
        raise CodecError(f"a sharding that is {kind} names no devices")
    if not kind and not sharding.tiles:
        raise CodecError("expected the devices of a sharding, devices=[...]")
    if not kind and count == 1:
        raise CodecError("a sharding in tiles names more than one device")


def _parts(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            found = shorten(text[position:])
            raise CodecError(f"expected replicated, maximal, manual, devices=[...], mesh[...], ...; found '{found}'")
        yield match
        position = match.end()


SHARDING_CODECS: dict[str, Codec] = {"domain": Codec(parse_domain, str)}
