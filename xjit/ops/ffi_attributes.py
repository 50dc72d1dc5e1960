"""Attributes of typed-FFI custom calls: a backend config that is a dictionary in MLIR's syntax.

`{mode = 86 : ui8, left = true}`: scalars only, which is all that the targets known here have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction

Scalar = bool | int | float | str

_PAIR = re.compile(
    r"\s*(?P<name>[\w.$-]+|\"[^\"]*\")\s*=\s*"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|true|false|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"\s*(?::\s*[\w.<>]+)?\s*(?P<end>,|\Z)"
)
_JSON = re.compile(r"\{\s*(?:\}|\"[^\"]*\"\s*:)")


def ffi_attributes(instruction: HloInstruction) -> Mapping[str, Scalar]:
    """Returns the attributes by name; InvalidArgument if the backend config is no dictionary of scalars."""
    text = instruction.backend_config.strip()
    if not text or _JSON.match(text):
        return instruction.parsed_backend_config
    if not (text.startswith("{") and text.endswith("}")):
        raise _malformed(instruction, text)
    found: dict[str, Scalar] = {}
    body, position = text[1:-1].strip(), 0
    while position < len(body):
        pair = _PAIR.match(body, position)
        if pair is None or (pair["end"] == "," and pair.end() == len(body)):
            raise _malformed(instruction, text)
        found[pair["name"].strip('"')] = _scalar(pair["value"])
        position = pair.end()
    return found


def _scalar(text: str) -> Scalar:
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    return json.loads(text.removeprefix("+"))


def _malformed(instruction: HloInstruction, text: str) -> InvalidArgument:
    return InvalidArgument(
        f"the backend config of {instruction.name} is {text!r}, expected attributes such as {{uplo = 76 : ui8}}",
        instruction.span,
    )
