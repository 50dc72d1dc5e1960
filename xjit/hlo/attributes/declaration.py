"""How attributes are declared: frozen dataclasses whose fields name their key in HLO text and their codec."""

from __future__ import annotations

import dataclasses
from typing import Any

from xjit.dataclass import dataclass


def attr(codec: str, default: Any = dataclasses.MISSING, key: str | None = None, always: bool = False) -> Any:
    """Declares an attribute field: its codec, its default (none: required), its key if not the field's name.

    A default is not printed unless `always`: XLA's parser insists on some keys whatever their value.
    """
    metadata = {"codec": codec, "key": key, "always": always}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Attributes:
    """Base of all attribute classes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NoAttributes(Attributes):
    """Opcodes without attributes."""


NO_ATTRIBUTES = NoAttributes()
