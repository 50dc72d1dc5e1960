"""Original values: which array of an earlier form of the program each leaf of an instruction's value is.

The text of an instruction, `origin={({"x"}, {"y" {1}})}`, is a tree like its shape: tuples in parentheses, and leaves
that name an instruction and, if it was a tuple, the shape index in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xjit.hlo.attributes.codecs.value_text import STRING, inside, quote, split_list
from xjit.hlo.types.shape import Shape

_NAME = re.compile(STRING)
_NONE = "{{}}"
"""The original value of an array that is none of the program's."""

SYNTHETIC_CALL = "{[synthetic_call]}"
"""The original value of a call that some pass made: names inside of its computation are those of the program."""


def origin_of(name: str, shape: Shape) -> str:
    """Returns the original value of an instruction that is its own origin."""
    return "{" + _leaves(name, shape, ()) + "}"


def _leaves(name: str, shape: Shape, index: tuple[int, ...]) -> str:
    if shape.is_tuple:
        elements = (_leaves(name, s, (*index, i)) for i, s in enumerate(shape.tuple_shapes))
        return f"({', '.join(elements)})"
    place = f" {{{','.join(map(str, index))}}}" if index else ""
    return f"{{{quote(name)}{place}}}"


def origin_of_tuple(origins: Sequence[str]) -> str:
    """Returns the original value of a tuple of values that have these."""
    return "{(" + ", ".join(map(inside, origins)) + ")}"


def origin_of_element(origin: str, index: int) -> str:
    """Returns the original value of an element of a tuple; "" if there is no such element."""
    tree = inside(origin).strip()
    elements = split_list(inside(tree, "()")) if tree.startswith("(") else []
    return "{" + elements[index] + "}" if index < len(elements) else ""


def origin_of_elements(origin: str, indices: Sequence[int], added: int = 0) -> str:
    """Returns the original value of a tuple of some elements of a tuple, and of as many more as are `added`."""
    if not origin:
        return ""
    return origin_of_tuple([*(origin_of_element(origin, i) or _NONE for i in indices), *[_NONE] * added])


def origin_of_leaves(origin: str, shape: Shape) -> str:
    """Returns the original value of the flat tuple of the leaves of a value of this shape."""
    if not origin:
        return ""
    leaves: list[str] = []
    for index, _ in shape.leaves():
        leaf = origin
        for i in index:
            leaf = origin_of_element(leaf, i) if leaf else ""
        leaves.append(leaf or _NONE)
    return origin_of_tuple(leaves)


def origin_inside_call(origin: str, call: str) -> str:
    """Returns the original value of what a call did: its names come behind that of the call, `{"call/x"}`.

    Nothing is known without the call's own origin. A call that a pass made adds no name.
    """
    if not call or not origin:
        return ""
    if call == SYNTHETIC_CALL:
        return origin
    found = _NAME.search(call)
    prefix = found[0][1:-1] + "/" if found else ""
    return _NAME.sub(lambda name: f'"{prefix}{name[0][1:-1]}"', origin)
