"""Backend configs: a string that is mostly JSON. The text is kept as it came; it is compared and read as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from xjit.hlo.diagnostics import InvalidArgument


def parsed_backend_config(name: str, text: str) -> dict[str, Any]:
    """Returns the config of the instruction `name` as a new dictionary ({} if there is none).

    InvalidArgument if it is no JSON object.
    """
    return _parse(text, name) if text else {}


def checked_backend_config(name: str, config: str | Mapping[str, Any]) -> str:
    """Returns the text of a config for the instruction `name`; InvalidArgument if it is no JSON object."""
    if isinstance(config, str):
        if config:
            _parse(config, name)
        return config
    try:
        return json.dumps(dict(config), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the backend config of {name} cannot be written as JSON: {error}") from None


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
