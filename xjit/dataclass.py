"""`@dataclass`, whose methods are written when they are first used.

The standard library's decorator compiles the text of up to seven methods for every class: some 0.8 ms, for all of
xjit's 0.4 s, though a process uses few of them. This one leaves fields, slots and `__match_args__` to the standard
library, so that `fields`, `replace` and the like work, and puts in place of each method one that makes it. What that
makes does the same; frozen classes with slots have faster instances, as slots are set without a look-up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

_COMPARISONS = {"__eq__": "==", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class _Factory:
    """What a parameter is by default, if a function gives the field's value."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _initial_value(f: Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """Returns the field's parameter and its value as text; the value is empty where `__post_init__` gives it."""
    name = f.name
    if f.default is not MISSING:
        names[f"_default_{name}"] = f.default
        return f"{name}=_default_{name}", name if f.init else f"_default_{name}"
    if f.default_factory is not MISSING:
        names[f"_new_{name}"] = f.default_factory
        new = f"_new_{name}()"
        return f"{name}=_FACTORY", f"{new} if {name} is _FACTORY else {name}" if f.init else new
    return name, name if f.init else ""


def _setter(cls: type, name: str, is_frozen: bool, names: dict[str, Any]) -> str:
    """Returns the statement that sets a field, with a place for the value."""
    if not is_frozen:
        return f"self.{name} = {{}}"
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"_set(self, {name!r}, {{}})"
    names[f"_set_{name}"] = slot.__set__
    return f"_set_{name}(self, {{}})"


def _write_init(cls: type, is_frozen: bool) -> Callable[..., Any]:
    names: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": object.__setattr__}
    parameters: dict[bool, list[str]] = {False: ["self"], True: ["*"]}  # by whether they are named
    statements: list[str] = []
    for f in fields(cls):
        parameter, value = _initial_value(f, names)
        if f.init:
            parameters[bool(f.kw_only)].append(parameter)
        if value:
            statements.append(_setter(cls, f.name, is_frozen, names).format(value))
    if hasattr(cls, "__post_init__"):
        statements.append("self.__post_init__()")
    named = parameters[True] if len(parameters[True]) > 1 else []
    method = _function("__init__", [*parameters[False], *named], statements or ["pass"], names)
    method.__annotations__ = {f.name: f.type for f in fields(cls) if f.init} | {"return": None}
    return method


def _write_repr(cls: type) -> Callable[..., Any]:
    shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in fields(cls) if f.repr)
    return recursive_repr()(
        _function("__repr__", ["self"], [f'return f"{{self.__class__.__qualname__}}({shown})"'], {})
    )


def _write_hash(cls: type) -> Callable[..., Any]:
    hashed = [f.name for f in fields(cls) if (f.compare if f.hash is None else f.hash)]
    return _function("__hash__", ["self"], [f"return hash({_tuple('self', hashed)})"], {})


def _write_comparison(cls: type, name: str) -> Callable[..., Any]:
    compared = [f.name for f in fields(cls) if f.compare]
    statements = [
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', compared)} {_COMPARISONS[name]} {_tuple('other', compared)}",
        "return NotImplemented",
    ]
    return _function(name, ["self", "other"], statements, {})


def _tuple(owner: str, names: list[str]) -> str:
    return "(" + "".join(f"{owner}.{name}, " for name in names) + ")"


def _function(name: str, parameters: list[str], statements: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    """Compiles a function. `names`: what its text uses beside parameters and built-in functions."""
    lines = [f"def {name}({', '.join(parameters)}):", *(f"    {statement}" for statement in statements)]
    exec("\n".join(lines), names)
    return names[name]


def _write(cls: type, name: str, is_frozen: bool) -> Callable[..., Any]:
    if name == "__init__":
        method = _write_init(cls, is_frozen)
    elif name in _COMPARISONS:
        method = _write_comparison(cls, name)
    else:
        method = _write_repr(cls) if name == "__repr__" else _write_hash(cls)
    method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    return method


class _Deferred:
    """In a class's dictionary, a method that nobody has asked for: whoever does finds the real one in its place."""

    __slots__ = ("_cls", "_is_frozen", "_name")

    def __init__(self, cls: type, name: str, is_frozen: bool) -> None:
        self._cls, self._name, self._is_frozen = cls, name, is_frozen

    def __get__(self, instance: Any, owner: type) -> Any:
        method = _write(self._cls, self._name, self._is_frozen)
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _freeze(cls: Any) -> None:
    """Has assignments and deletions of fields refused, as the standard library does; state is set past that."""
    names = frozenset(f.name for f in fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if "__slots__" in cls.__dict__:
        cls.__getstate__ = cls.__dict__.get("__getstate__", _get_state)
        cls.__setstate__ = cls.__dict__.get("__setstate__", _set_state)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls=None,
        /,
        *,
        init=True,
        repr=True,
        eq=True,
        order=False,
        unsafe_hash=False,
        frozen=False,
        kw_only=False,
        slots=False,
    ):
        """As `dataclasses.dataclass`. `InitVar` is not known; `__dataclass_params__` does not say what there is."""
        if cls is None:
            options = {"init": init, "repr": repr, "eq": eq, "order": order, "unsafe_hash": unsafe_hash}
            return lambda cls: dataclass(cls, **options, frozen=frozen, kw_only=kw_only, slots=slots)
        is_hashed = unsafe_hash or (eq and frozen)
        has_hash = "__hash__" in cls.__dict__ and not (cls.__dict__["__hash__"] is None and "__eq__" in cls.__dict__)
        wanted = {"__init__": init, "__repr__": repr, "__eq__": eq}
        deferred = [name for name, is_wanted in wanted.items() if is_wanted and name not in cls.__dict__]
        deferred += [name for name in _COMPARISONS if order and name != "__eq__"]
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library would look for a signature
        made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)(cls)
        for name in deferred:
            setattr(made, name, _Deferred(made, name, frozen))
        if is_hashed and not has_hash:
            made.__hash__ = _Deferred(made, "__hash__", frozen)
        elif eq and not has_hash:
            made.__hash__ = None
        if frozen:
            _freeze(made)
        return made
