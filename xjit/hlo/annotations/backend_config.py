"""Backend configs: a string that is mostly JSON. The text is kept as it came; it is compared and read as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def parsed_backend_config(instruction: HloInstruction) -> dict[str, Any]:
    """Returns the backend config as a new dictionary ({} if there is none); InvalidArgument if it is no JSON object."""
    return _parse(instruction.backend_config, instruction.name) if instruction.backend_config else {}


def set_backend_config(instruction: HloInstruction, config: str | Mapping[str, Any]) -> None:
    """Sets the backend config from JSON text or a dictionary; InvalidArgument if it is no JSON object.

    Opaque strings, as custom calls have them, are assigned to `raw_backend_config`.
    """
    if isinstance(config, str):
        if config:
            _parse(config, instruction.name)
        instruction.raw_backend_config = config
        return
    try:
        instruction.raw_backend_config = json.dumps(dict(config), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the backend config of {instruction.name} cannot be written as JSON: {error}") from None


def has_backend_config(instruction: HloInstruction) -> bool:
    """Whether there is a backend config."""
    return bool(instruction.backend_config)


def clear_backend_config(instruction: HloInstruction) -> None:
    """Removes the backend config."""
    instruction.raw_backend_config = ""


def same_backend_config(a: str, b: str) -> bool:
    """Whether two backend configs are equal: as JSON values if both are JSON, else as texts."""
    return a == b or canonical_backend_config(a) == canonical_backend_config(b)


@lru_cache(maxsize=1024)
def canonical_backend_config(text: str) -> str:
    """Returns one spelling for all JSON texts of a value; other texts as they are."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the backend config of {name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f"the backend config of {name} must be a JSON object, found {type(value).__name__}")
    return value
