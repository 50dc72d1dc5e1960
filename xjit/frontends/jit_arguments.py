"""The arguments of a jitted function: which are static, what tells two calls apart, and arrays for the program.

A leaf's `LeafType` is what JAX specializes on: type, shape, and whether the type is weak (that of a Python number).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.frontends.optional import import_optional
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.python_numbers import PYTHON_NUMBERS

LeafType = tuple[Any, tuple[int, ...], bool]
"""The type that JAX has given to a leaf's type, its shape, and whether the type is weak."""


@dataclass(frozen=True, slots=True)
class StaticArguments:
    """Which arguments of a function are static, by position and by name."""

    positions: frozenset[int]
    names: frozenset[str]

    @staticmethod
    def of(
        fn: Callable[..., Any], argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
    ) -> StaticArguments:
        """Returns them. As in `jax.jit`, positions say the names and names the positions, unless both are given.

        Errors: InvalidArgument for a position or a name that the function does not have.
        """
        positions = {argnums} if isinstance(argnums, int) else set(argnums or ())
        names = {argnames} if isinstance(argnames, str) else set(argnames or ())
        try:
            parameters = list(inspect.signature(fn).parameters.values())
        except (ValueError, TypeError):  # builtins do not say
            return StaticArguments(frozenset(positions), frozenset(names))
        by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        is_variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        has_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters)
        name = getattr(fn, "__name__", "the function")
        for number in positions:
            if not -len(by_position) <= number < len(by_position) and not (is_variadic and number >= 0):
                raise InvalidArgument(
                    f"static_argnums: {name} has {len(by_position)} positional parameters, no number {number}"
                )
        for unknown in names - {p.name for p in parameters}:
            if not has_keywords:
                raise InvalidArgument(f"static_argnames: {name} has no parameter {unknown!r}")
        positions = {n + len(by_position) if n < 0 else n for n in positions}
        if argnums is None:
            positions = {n for n, p in enumerate(by_position) if p.name in names}
        elif argnames is None:
            names = {p.name for n, p in enumerate(by_position) if n in positions and p.kind is not p.POSITIONAL_ONLY}
        return StaticArguments(frozenset(positions), frozenset(names))

    def split(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, tuple[Any, ...]]:
        """Returns the dynamic positional and keyword arguments, and a hashable value of the static ones.

        Errors: InvalidArgument for a static argument that is not hashable.
        """
        if not self.positions and not self.names:
            return args, kwargs, ()
        dynamic = tuple(a for n, a in enumerate(args) if n not in self.positions)
        named = {k: v for k, v in kwargs.items() if k not in self.names}
        static = [(n, a) for n, a in enumerate(args) if n in self.positions]
        static += [(k, v) for k, v in sorted(kwargs.items()) if k in self.names]
        for place, value in static:
            try:
                hash(value)
            except TypeError as error:
                raise InvalidArgument(
                    f"static argument {place!r} is a {type(value).__name__}, which is not hashable: {error}"
                ) from error
        return dynamic, named, tuple((place, type(value), value) for place, value in static)


def leaf_type(leaf: Any, jax: Any) -> LeafType | None:
    """Returns what JAX would specialize on for a leaf; None for what is no array."""
    kind = type(leaf)
    if kind is np.ndarray:
        return leaf.dtype, leaf.shape, False
    if kind in PYTHON_NUMBERS:
        return kind, (), True
    if isinstance(leaf, jax.core.Tracer):
        return None
    if isinstance(leaf, jax.Array):
        return leaf.dtype, leaf.shape, bool(getattr(leaf, "weak_type", False))
    if isinstance(leaf, np.generic | np.ndarray):
        return leaf.dtype, leaf.shape, False
    if hasattr(leaf, "__dlpack__") or hasattr(leaf, "__array__") or hasattr(leaf, "__jax_array__"):
        array = as_numpy(leaf, jax)
        return array.dtype, array.shape, False
    return None


def as_numpy(leaf: Any, jax: Any) -> np.ndarray[Any, Any]:
    """Returns a leaf as a NumPy array, without a copy where its memory can be shared. Keys of JAX become their data."""
    if isinstance(leaf, jax.Array):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)
    if hasattr(leaf, "__jax_array__"):
        return as_numpy(leaf.__jax_array__(), jax)
    return np.asarray(leaf)


def for_program(leaf: Any, dtype: np.dtype[Any], jax: Any) -> np.ndarray[Any, Any]:
    """Returns a leaf as what a program takes: a NumPy array of the type that JAX has chosen (without x64, narrower)."""
    array: np.ndarray[Any, Any] = leaf if type(leaf) is np.ndarray else as_numpy(leaf, jax)
    return array if array.dtype == dtype else array.astype(dtype)


def explain_leaf(fn: Callable[..., Any], args: Any, kwargs: Any, jax: Any) -> InvalidArgument:
    """Returns the error for the first leaf that is no array."""
    for path, leaf in jax.tree_util.tree_flatten_with_path((args, kwargs))[0]:
        if leaf_type(leaf, jax) is not None:
            continue
        place = f"argument {jax.tree_util.keystr(path[1:])} of {getattr(fn, '__name__', 'the function')}"
        if isinstance(leaf, jax.core.Tracer):
            return InvalidArgument(
                f"{place} is traced by JAX ({leaf.aval}): a compiled function cannot be part of jax.jit, grad or vmap; "
                "transform the Python function first, as in xjit.jit(jax.grad(f))"
            )
        return InvalidArgument(
            f"{place} is a {type(leaf).__name__}, which is no array: static_argnums or static_argnames make it static"
        )
    raise AssertionError("every leaf is an array")


def result_leaf(array: np.ndarray[Any, Any], described: Any) -> Any:
    """Returns a result as JAX's type asks for: a NumPy array; keys of JAX and gradients of integers as JAX has them."""
    dtype = described.dtype
    if isinstance(dtype, np.dtype):
        return array if array.dtype == dtype else np.zeros(described.shape, dtype)  # float0 has no values
    random: Any = import_optional("jax.random", "jax", "to return a key of JAX")
    return random.wrap_key_data(array, impl=dtype._impl.name)
