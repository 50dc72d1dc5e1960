"""Meshes in HLO text: devices with named axes, and the axes that a sharding or replica groups name of them.

`mesh['x'=2,'y'=4] [{'x'},{'y'}], replicated={...}` is a sharding, `mesh['x'=2,'y'=4] {'x'}` are replica groups.
"""

from __future__ import annotations

import re

from xjit.hlo.attributes.codecs.annotations import parse_metadata
from xjit.hlo.attributes.codecs.value_text import ANY_STRING, SIZES, CodecError, inside, shorten, split_list, unquote

_NAME = rf"\s*{ANY_STRING}\s*"
_MESH = re.compile(
    rf"\s*mesh\[\s*(?P<axes>(?:{_NAME}=\s*\d+\s*(?:,{_NAME}=\s*\d+\s*)*+)?)\]"
    rf"(?:\s*,\s*device_ids=\(\s*(?:\[{SIZES}\](?:T\({SIZES}\))?|{SIZES})\s*\))?\s*,?\s*",
    re.DOTALL,
)
_AXIS = re.compile(rf"({ANY_STRING})\s*(?::\s*\(\s*\d+\s*\)\s*\d+)?", re.DOTALL)
_ONE_DEVICE = re.compile(r"maximal_mesh\[device_id=\d+\]")
_WHOLE = ("replicated", "manual", "unreduced")
_DIMENSIONS = re.compile(rf"(?:{'|'.join(_WHOLE)})\b|\[(?:[^\[\]\"']|{ANY_STRING})*+\]", re.DOTALL)


def check_named_sharding(text: str) -> None:
    """Raises CodecError unless a text is a sharding over a mesh, and the axes that it names are the mesh's."""
    if _ONE_DEVICE.fullmatch(text):
        return
    names, rest = _mesh(text)
    dimensions = _DIMENSIONS.match(rest)
    if dimensions is None:
        raise CodecError(f"expected the axes of each dimension, [{{'x'}},...], found '{shorten(rest)}'")
    if rest[0] == "[":
        for item in split_list(inside(dimensions.group(), "[]")):
            _check_axes(item, names)
    rest = rest[dimensions.end() :].strip()
    if rest and rest[0] != ",":
        raise CodecError(f"expected ',' before more of a sharding, found '{shorten(rest)}'")
    for item in split_list(rest)[1:]:
        key, _, value = (part.strip() for part in item.partition("="))
        if key in _WHOLE:
            _check_axes(value, names)
        elif key == "metadata":
            check_sharding_metadata(value)
        else:
            raise CodecError(f"expected {', '.join(_WHOLE)} or metadata, found '{shorten(item)}'")


def check_mesh_groups(text: str) -> None:
    """Raises CodecError unless a text is replica groups by the axes of a mesh: one axis or more."""
    names, rest = _mesh(text)
    if not _check_axes(rest, names):
        raise CodecError("replica groups name an axis of their mesh")


def check_sharding_metadata(text: str) -> None:
    """Raises CodecError unless a text is `{op_name="x"}`, or a list of such."""
    body = inside(text).strip()
    for item in split_list(body) if body.startswith("{") else [text]:
        parse_metadata(item)


def _mesh(text: str) -> tuple[set[str], str]:
    """Returns the names of the axes, and what follows the mesh."""
    match = _MESH.match(text)
    if match is None:
        raise CodecError(f"expected mesh['axis'=size,...], found '{shorten(text)}'")
    names = [unquote(name) for name in re.findall(ANY_STRING, match["axes"])]
    if len(names) != len(set(names)):
        raise CodecError(f"axes of a mesh have one name: {', '.join(names)}")
    return set(names), text[match.end() :].strip()


def _check_axes(text: str, names: set[str]) -> list[str]:
    """Returns the items of `{'x','y':(1)2,?}`, all but a last `?` axes of a mesh."""
    items = split_list(inside(text))
    for item in items[:-1] if items and items[-1] == "?" else items:
        axis = _AXIS.fullmatch(item)
        if axis is None or unquote(axis[1]) not in names:
            raise CodecError(f"'{shorten(item)}' is not an axis of the mesh")
    return items
