"""Wrong programs made of right ones: texts with other numbers, words and tokens; operations that lack parts of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from xjit.linalg_ext.ir import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    StringAttr,
    UnitAttr,
)

__all__ = ["incomplete_modules", "mutate_text"]

_TOKEN = re.compile(r'//[^\n]*|"[^"\n]*"|[%#@^!][\w$.-]*|->|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\S|\s+')
_NUMBER = re.compile(r"(?<![\w.%#@^])-?\d+(?![\w.])|(?<=[x<])\d+(?=[x>])|(?<=x)\?|(?<=<)\?")
_ENTRY = re.compile(r"(?<=[{\[(,<])\s*[^{}\[\](),<>]*,|,\s*[^{}\[\](),<>]*(?=[}\])>])")
_NUMBERS = ("-1", "0", "1", "2", "3", "7", "64", "4096", "2147483648", "9223372036854775808")
_TYPES = (
    "f32",
    "f16",
    "i1",
    "i64",
    "index",
    "tensor<4xf32>",
    "tensor<?x4xf32>",
    "memref<4xf32>",
    "!pdl.operation",
    "()",
)


def mutate_text(text: str, rng: random.Random) -> str:
    """Returns a text with one change, without comments."""
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("//"))
    return rng.choice((_other_number, _other_number, _other_word, _other_word, _without_entry, _other_token))(text, rng)


def _replaced(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def _other_number(text: str, rng: random.Random) -> str:
    """Another number, at one place or wherever it stands."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one, new = rng.choice(found), rng.choice(_NUMBERS)
    if rng.random() < 0.5:
        return _replaced(text, one, new)
    return _NUMBER.sub(lambda each: new if each.group() == one.group() else each.group(), text)


def _other_word(text: str, rng: random.Random) -> str:
    """A word, a name or a type in the place of another one, at one place or wherever it stands."""
    words = [w for w in _TOKEN.finditer(text) if not w.group().isspace() and len(w.group()) > 1]
    if not words:
        return text
    one = rng.choice(words)
    alike = [w.group() for w in words if w.group()[0].isalpha() == one.group()[0].isalpha()]
    new = rng.choice(alike) if rng.random() < 0.7 else rng.choice(_TYPES)
    if rng.random() < 0.5:
        return _replaced(text, one, new)
    return "".join(new if token == one.group() else token for token in _TOKEN.findall(text))


def _without_entry(text: str, rng: random.Random) -> str:
    """A list, dictionary or signature with an entry less."""
    found = list(_ENTRY.finditer(text))
    return _replaced(text, rng.choice(found), "") if found else text


def _other_token(text: str, rng: random.Random) -> str:
    """A token dropped, doubled, or exchanged for another one."""
    found = [t for t in _TOKEN.finditer(text) if not t.group().isspace()]
    if not found:
        return text
    one, other = rng.choice(found), rng.choice(found)
    return _replaced(text, one, rng.choice(("", f"{one.group()} {one.group()}", other.group())))


_INSTEAD: tuple[Attribute | None, ...] = (
    None,
    UnitAttr(),
    StringAttr("x"),
    IntegerAttr(-5, IntegerType(64)),
    ArrayAttr((IntegerAttr(7, IntegerType(64)),)),
    DenseArrayAttr.i64((9, -1)),
    DenseArrayAttr.i64((-(2**63),)),
)
"""What takes the place of an attribute; None: nothing."""


def incomplete_modules(module: Operation, seen: set[tuple[str, str]]) -> Iterator[tuple[str, Operation]]:
    """Yields copies of a module, each with an operation that lacks an attribute, an operand, a region, or has another
    attribute, and what that is. A part of a kind of operation is changed once, as `seen` remembers.
    """
    for number, op in enumerate(module.walk()):
        for what, change in _changes(op):
            if (op.name, what) in seen:
                continue
            seen.add((op.name, what))
            copy = module.clone()
            change(list(copy.walk())[number])
            yield f"{op.name}: {what}", copy


def _changes(op: Operation) -> Iterator[tuple[str, Callable[[Operation], object]]]:
    for name in op.attributes:
        for new in _INSTEAD:
            yield f"attribute {name} is {new}", lambda op, name=name, new=new: _set(op, name, new)
    yield "no attributes", lambda op: op.attributes.clear()
    for number in range(len(op.operands)):
        yield f"no operand {number}", lambda op, n=number: op.set_operands([*op.operands[:n], *op.operands[n + 1 :]])
    if op.operands:
        yield "no operands", lambda op: op.set_operands([])
    for number in range(len(op.regions)):
        yield f"no region {number}", lambda op, n=number: op.regions.pop(n)
        yield f"no blocks in region {number}", lambda op, n=number: op.regions[n].blocks.clear()


def _set(op: Operation, name: str, value: Attribute | None) -> None:
    if value is None:
        del op.attributes[name]
    else:
        op.attributes[name] = value
