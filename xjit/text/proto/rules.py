"""Building blocks of the attribute table: a `Rule` writes one attribute to a proto and reads it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjit.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """How one attribute field travels. `write` gets (value, proto), `read` the proto."""

    name: str
    write: Callable[[Any, Any], None]
    read: Callable[[Any], Any]


def same(name: str, field: str = "", default: Any = None) -> Rule:
    """A scalar field; in the proto, `default` (if given) stands for its zero value."""
    field = field or name

    def read(proto: Any) -> Any:
        value = getattr(proto, field)
        return default if default is not None and not value else value

    return Rule(name, lambda value, proto: setattr(proto, field, value), read)


def optional_int(name: str, field: str = "") -> Rule:
    """An integer that is None where the proto has 0."""
    field = field or name
    return Rule(name, lambda v, proto: setattr(proto, field, v or 0), lambda proto: getattr(proto, field) or None)


def repeated(name: str, field: str = "") -> Rule:
    """A tuple of scalars."""
    field = field or name
    return Rule(name, lambda v, proto: getattr(proto, field).extend(v), lambda proto: tuple(getattr(proto, field)))


def first_of(name: str, field: str, default: int = 0) -> Rule:
    """A scalar that is the first element of a repeated field."""

    def read(proto: Any) -> int:
        values = getattr(proto, field)
        return values[0] if values else default

    def write(value: int, proto: Any) -> None:
        if value != default or default == 0:
            getattr(proto, field).append(value)

    return Rule(name, write, read)


def text_bytes(name: str) -> Rule:
    """A string that the proto keeps as bytes."""
    return Rule(
        name,
        lambda v, proto: setattr(proto, name, v.encode("utf-8", "surrogateescape")),
        lambda proto: getattr(proto, name).decode("utf-8", "surrogateescape"),
    )


def enum(name: str, field: str, kind: Any, prefix: str = "", lower: bool = False, zero: str | None = None) -> Rule:
    """An enumeration: the word is the proto's name without a prefix; `zero` is the word of the proto's zero."""

    def write(value: str, proto: Any) -> None:
        if value and value != zero:
            setattr(proto, field, kind.Value(prefix + value.upper()))

    def read(proto: Any) -> str:
        number = getattr(proto, field)
        if number == 0 and zero is not None:
            return zero
        word = kind.Name(number).removeprefix(prefix)
        return word.lower() if lower else word

    return Rule(name, write, read)


def nested(field: str, rule: Rule) -> Rule:
    """A rule about a message inside of the proto."""
    return Rule(
        rule.name,
        lambda value, proto: rule.write(value, getattr(proto, field)),
        lambda proto: rule.read(getattr(proto, field)),
    )
