"""Shardings in HLO text: `{replicated}`, `{devices=[2,1]<=[2]}`, `{mesh['x'=2], ...}`, tuples of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.meshes import check_named_sharding, check_sharding_metadata
from xjit.hlo.attributes.codecs.scalars import parse_int
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
_TILED = (
    rf"devices=\[(?P<tiles>{SIZES})\]"
    rf"(?:<=\[(?P<reshape>{INTS})\](?:T\((?P<perm>{INTS})\))?|(?P<list>{INTS}))"
)
_PART = re.compile(
    rf"\s*(?:(?P<kind>{_KIND})|last_tile_dim_replicate|shard_(?:as|like)\s+\d+|device=(?P<device>-?\d+)|{_TILED}"
    r"|last_tile_dims=\{(?P<last>[^{}]*)\}|metadata=(?P<metadata>\{.*\}))(?!(?<=\w)[\w=])\s*",
    re.DOTALL,
)
_SPACE = re.compile(rf"{ANY_STRING}|\s++(?:<=\s*+)?|<=\s*+", re.DOTALL)
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
    if text.startswith(("mesh", "maximal_mesh")):
        check_named_sharding(text)
    else:
        _check(text)
    return text


def _without_space(match: re.Match[str]) -> str:
    """Returns a string as it is, `<=` without what is around it, and one space for others."""
    text = match.group()
    return text if text[0] in "\"'" else "<=" if "<=" in text else " "


def _check(text: str) -> None:
    """Raises CodecError unless the parts of a sharding are what XLA reads, and go together."""
    kind, devices = "", 0
    tiled: re.Match[str] | None = None
    for part in _parts(text):
        kind = part["kind"] or kind
        devices += part["device"] is not None
        if part["tiles"]:
            if tiled:
                raise CodecError("the devices of a sharding are given twice")
            tiled = part
            devices += len(_ints(part["list"])) if part["list"] else _check_iota(part["reshape"], part["perm"])
        if part["metadata"]:
            check_sharding_metadata(part["metadata"])
        words = [word.strip() for word in (part["last"] or "").split(",") if word.strip()]
        if not _OF_LAST_TILES.issuperset(words):
            raise CodecError(f"expected {', '.join(sorted(_OF_LAST_TILES))} in last_tile_dims, found '{part['last']}'")
    if kind == "maximal" and devices != 1:
        raise CodecError("a maximal sharding names its device, and no other")
    if kind not in ("", "maximal") and devices:
        raise CodecError(f"a sharding that is {kind} names no devices")
    if not kind and not tiled:
        raise CodecError("expected the devices of a sharding, devices=[...]")
    if not kind and tiled and tiled["list"] and devices < 2:
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


def _check_iota(reshape: str, perm: str | None) -> int:
    """Returns 0, the number of devices that are listed; CodecError for an order that is not of the dimensions."""
    rank = len(_ints(reshape))
    order = _ints(perm) if perm else list(range(rank))
    if len(order) != rank or not all(0 <= d < rank for d in order) or (perm and rank == 1):
        raise CodecError(f"T({perm}) is not an order of the {rank} dimensions [{reshape}]")
    return 0


def _ints(text: str) -> list[int]:
    return [parse_int(item) for item in text.split(",")]


SHARDING_CODECS: dict[str, Codec] = {"domain": Codec(parse_domain, str)}
