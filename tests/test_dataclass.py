"""xjit's `dataclass` does as the standard library's, but writes methods when they are first used."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.test_layering import sources
from xjit.dataclass import _Deferred, dataclass

Decorator = Callable[..., Any]


def plain(make: Decorator, **options: bool) -> Any:
    @make(**options)
    class Plain:
        a: int
        b: str = "b"
        c: list[int] = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=4, kw_only=True)
        hidden: int = dataclasses.field(default=5, repr=False, compare=False)
        own: int = dataclasses.field(default=6, init=False)

    return Plain


def no_fields(make: Decorator, **options: bool) -> Any:
    @make(**options)
    class Empty:
        """Nothing."""

    return Empty


def derived(make: Decorator, **options: bool) -> Any:
    @make(**options)
    class Base:
        a: int
        b: str = "b"

    @make(**options)
    class Derived(Base):
        b: str = "other"
        total: tuple[int, ...] = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", (self.a,))

    return Derived


def with_own_methods(make: Decorator, **options: bool) -> Any:
    @make(**options)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    return Own


CLASSES = (plain, no_fields, derived, with_own_methods)
OPTIONS: tuple[dict[str, bool], ...] = (
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False, "slots": True},
    {"slots": True, "unsafe_hash": True},
    {"frozen": True, "slots": True, "order": True},
    {"repr": False, "init": False},
)
ARGUMENTS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((1,), {}),
    ((2, "x"), {}),
    ((1, "x", (3,)), {"d": 9, "hidden": 1}),
    ((), {"a": 1}),
    ((), {"a": math.nan}),
    ((1,), {"a": 1}),
    ((1,), {"unknown": 1}),
    ((1, 2, 3, 4, 5, 6, 7), {}),
)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns, or the error's type and text, without the name of what makes unnamed defaults."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


def set_field(value: Any, name: str) -> None:
    setattr(value, name, 1)


def observed(make: Decorator, kind: Callable[..., Any], options: dict[str, bool]) -> list[Any]:
    """All that a user of a class sees, as plain values."""
    cls = kind(make, **options)
    seen: list[Any] = [cls.__match_args__, str(inspect.signature(cls)), [f.name for f in dataclasses.fields(cls)]]
    if cls.__hash__ is None:
        seen.append("unhashable")
    values = [outcome(cls, *args, **kwargs) for args, kwargs in ARGUMENTS]
    for value in values:
        if isinstance(value, tuple):  # an error
            seen.append(value)
            continue
        if options.get("repr", True) or "__repr__" in cls.__dict__:
            seen.append(repr(value))
        if options.get("eq", True) or "__hash__" in cls.__dict__:
            seen.append(outcome(hash, value))
        names = [f.name for f in dataclasses.fields(cls)]
        seen.append([getattr(value, name, None) for name in names])
        if options.get("eq", True):  # else the identity of objects decides
            seen += [outcome(compare, value, other) for compare in COMPARISONS for other in values if other is not None]
        is_frozen = options.get("frozen", False)
        seen += [
            outcome(set_field, value, name)
            for name in (*names, *(["new"] if is_frozen and not options.get("slots") else []))
        ]
        if is_frozen:
            seen.append([outcome(delattr, value, name) for name in names])
    return seen


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", CLASSES)
def test_as_the_standard_library(kind: Callable[..., Any], options: dict[str, bool]) -> None:
    if kind is with_own_methods and "unsafe_hash" in options:
        return  # the standard library refuses a hash of one's own there
    ours, theirs = observed(dataclass, kind, options), observed(dataclasses.dataclass, kind, options)
    assert [repr(value) for value in ours] == [repr(value) for value in theirs]


def test_a_method_is_written_when_it_is_asked_for() -> None:
    cls = plain(dataclass, frozen=True, slots=True)
    assert {name for name, value in vars(cls).items() if isinstance(value, _Deferred)} == {
        "__init__",
        "__repr__",
        "__eq__",
        "__hash__",
    }
    cls(1)
    assert not isinstance(vars(cls)["__init__"], _Deferred)
    assert isinstance(vars(cls)["__eq__"], _Deferred)
    assert cls(1) == cls(1) and cls.__eq__ is vars(cls)["__eq__"]
    assert cls.__init__.__qualname__ == f"{cls.__qualname__}.__init__" and cls.__init__.__module__ == __name__


def test_a_subclass_asks_the_class_that_has_the_method() -> None:
    base = plain(dataclass)

    class Sub(base):
        def __init__(self) -> None:
            super().__init__(3)

    assert Sub().a == 3 and "__repr__" not in vars(Sub) and repr(Sub()).startswith(Sub.__qualname__ + "(a=3")
    assert not isinstance(vars(base)["__init__"], _Deferred) and Sub() == Sub() and Sub() != base(3)


@dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, as `pickle` wants it."""

    a: int
    b: tuple[int, ...] = ()


def test_frozen_slots_are_copied_and_pickled() -> None:
    value = Kept(1, (2, 3))
    for same in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), dataclasses.replace(value)):
        assert same == value and same is not value and hash(same) == hash(value)
    assert dataclasses.replace(value, a=4) == Kept(4, (2, 3)) and dataclasses.asdict(value) == {"a": 1, "b": (2, 3)}
    match value:
        case Kept(a, b):
            assert (a, b) == (1, (2, 3))


def test_a_value_that_holds_itself_is_printed() -> None:
    value = plain(dataclass)(1)
    value.c.append(value)
    assert "c=[...]" in repr(value)


def test_a_list_as_default_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Wrong:
            a: list[int] = []  # noqa: RUF012


def test_the_product_has_no_other_dataclasses() -> None:
    others = re.compile(r"from dataclasses import [^\n]*\bdataclass\b|@dataclasses\.dataclass")
    found = {path.name for path, _ in sources() if others.search(path.read_text(encoding="utf-8"))}
    assert found == {"dataclass.py"}  # for type checkers
