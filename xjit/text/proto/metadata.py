"""Source metadata, statistics and original values to and from their protos."""

from __future__ import annotations

import re
from typing import Any

from xjit.hlo.annotations.metadata import OpMetadata
from xjit.hlo.attributes.codecs.value_text import STRING, CodecError, inside, quote, shorten, unquote

_FIELDS = (
    *("op_type", "op_name", "source_file", "source_line", "source_end_line", "source_column", "source_end_column"),
    *("stack_frame_id", "scheduling_name", "deduplicated_name"),
)
_STATISTIC = re.compile(r'[^{}()\[\],="\s]+')
_PROFILE_TYPES = {"WINDOW": 1, "FLAG": 2, "INTEGER": 3}
_ORIGIN_TOKEN = re.compile(rf"\s*(?:([(){{}},])|({STRING})(?:\s*\{{([\d,\s]*)\}})?|(\[synthetic_call\]))\s*")


def write_metadata(metadata: OpMetadata, proto: Any) -> None:
    """Fills an OpMetadata proto. Keys that the proto does not have are left out."""
    for name in _FIELDS:
        value = getattr(metadata, name)
        if value:
            setattr(proto, name, value)
    for key, value in metadata.extra:
        if key == "profile_type":
            proto.profile_type.extend(
                int(v) if v.isdigit() else _PROFILE_TYPES.get(v, 0) for v in inside(value).replace(" ", "").split(",")
            )
        elif key in ("size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes"):
            setattr(proto, key, int(value))


def read_metadata(proto: Any) -> OpMetadata:
    """Returns the metadata of an OpMetadata proto."""
    extra: list[tuple[str, str]] = []
    if proto.profile_type:
        extra.append(("profile_type", "{" + ",".join(map(str, proto.profile_type)) + "}"))
    for key in ("size_of_generated_code_in_bytes", "size_of_memory_working_set_in_bytes"):
        if getattr(proto, key):
            extra.append((key, str(getattr(proto, key))))
    return OpMetadata(**{name: getattr(proto, name) for name in _FIELDS}, extra=tuple(extra))


def write_statistics(text: str, proto: Any) -> None:
    """Fills a StatisticsViz from `{visualizing_index=1,name=2.5}`."""
    for item in inside(text).split(","):
        key, _, value = item.strip().partition("=")
        try:
            if key == "visualizing_index":
                proto.stat_index_to_visualize = int(value)
            elif key:
                proto.statistics.add(stat_name=key, stat_val=float(value))
        except ValueError:
            raise CodecError(f"malformed statistic '{shorten(item)}'") from None


def read_statistics(proto: Any) -> str:
    """Returns the text of a StatisticsViz; nothing if it is empty."""
    if not proto.statistics:
        return ""
    if wrong := [s.stat_name for s in proto.statistics if not _STATISTIC.fullmatch(s.stat_name)]:
        raise CodecError(f"'{shorten(wrong[0])}' is no name of a statistic")
    values = [f"{s.stat_name}={s.stat_val:g}" for s in proto.statistics]
    return "{" + ",".join([f"visualizing_index={proto.stat_index_to_visualize}", *values]) + "}"


def write_origin(text: str, proto: Any) -> None:
    """Fills an OriginalValueProto from `{({"x"}, {"y" {1}})}`: a tree of instruction names with shape indices."""
    body = inside(text)
    position = 0
    index: list[int] = []
    while position < len(body):
        match = _ORIGIN_TOKEN.match(body, position)
        if match is None:
            raise CodecError(f"malformed original value '{shorten(body[position:])}'")
        position = match.end()
        punctuation, name, shape_index, synthetic = match.groups()
        if synthetic:
            proto.is_synthetic_call = True
        elif name is not None:
            element = proto.elements.add(shape_index=index)
            element.original_array.instruction_name = unquote(name)
            element.original_array.shape_index.extend(int(i) for i in (shape_index or "").split(",") if i.strip())
        elif punctuation == "(":
            index.append(0)
        elif punctuation == ")":
            if not index:
                raise CodecError("unexpected ')' in an original value")
            index.pop()
        elif punctuation == "," and index:
            index[-1] += 1


def read_origin(proto: Any) -> str:
    """Returns the text of an OriginalValueProto; nothing if it is empty."""
    if proto.is_synthetic_call and not proto.elements:
        return "{[synthetic_call]}"
    leaves = {tuple(e.shape_index): _origin_leaf(e) for e in proto.elements}
    return "{" + _origin_tree(leaves) + "}" if leaves else ""


def _origin_leaf(element: Any) -> str:
    array = element.original_array
    index = f" {{{','.join(map(str, array.shape_index))}}}" if array.shape_index else ""
    return f"{{{quote(array.instruction_name)}{index}}}"


def _origin_tree(leaves: dict[tuple[int, ...], str]) -> str:
    """Prints leaves by index; levels are merged from the deepest up, so nothing recurses."""
    level = dict(leaves)
    while list(level) != [()]:
        depth = max(map(len, level))
        groups: dict[tuple[int, ...], dict[int, str]] = {}
        for index in [i for i in level if len(i) == depth]:
            groups.setdefault(index[:-1], {})[index[-1]] = level.pop(index)
        for parent, items in groups.items():
            level[parent] = "(" + ", ".join(items.get(i, "{}") for i in range(max(items) + 1)) + ")"
    return level[()]
