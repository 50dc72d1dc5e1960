"""Bytes that say what they are and whether they are whole: a magic word and a SHA-256 digest before the body.

A seal finds accidents: a file cut short, bits that changed, another kind of file. It proves no origin.
"""

from __future__ import annotations

import hashlib
from typing import Final

_DIGEST_BYTES: Final = 32


def seal(magic: bytes, body: bytes) -> bytes:
    """Returns `body` behind the magic word and its digest."""
    return magic + hashlib.sha256(body).digest() + body


def unseal(magic: bytes, data: bytes) -> bytes | None:
    """Returns the body of what `seal` made with this magic word; None for anything else."""
    start = len(magic) + _DIGEST_BYTES
    body = data[start:]
    if not data.startswith(magic) or hashlib.sha256(body).digest() != data[len(magic) : start]:
        return None
    return body
