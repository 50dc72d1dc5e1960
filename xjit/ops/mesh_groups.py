"""Replica groups by the axes of a mesh: `mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y','x':(1)2}`.

The mesh is an array of devices with a named axis per dimension. A group is the devices that differ in the listed axes
only; its order is that of these axes, the first the slowest. `'x':(p)s` is a part of an axis of size p * s * rest: the
factor s of it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_TEXT = re.compile(r"mesh\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids=\((?P<ids>.*)\))?\s*,?\s*\{(?P<groups>[^}]*)\}")
_SIZE = re.compile(r"\s*'?([^'=,]+?)'?\s*=\s*(\d+)\s*(?:,|$)")
_AXIS = re.compile(r"\s*'?([^':,]+?)'?\s*(?::\((\d+)\)(\d+))?\s*(?:,|$)")
_IOTA = re.compile(r"\[([\d,\s]+)\](?:T\(([\d,\s]+)\))?")

Groups = tuple[tuple[int, ...], ...]


def mesh_groups(text: str) -> Groups | None:
    """Returns the groups as lists of devices; None if the text is none, or names what the mesh has not."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _SIZE.findall(match["axes"])}
    devices = _devices(match["ids"], tuple(sizes.values()))
    axes = [(name, int(pre or 1), int(size or 0)) for name, pre, size in _AXIS.findall(match["groups"])]
    if devices is None or not all(name in sizes for name, _, _ in axes):
        return None
    table = mesh_table(devices, sizes, axes)
    return None if table is None else tuple(tuple(int(i) for i in row) for row in table)


def _devices(ids: str | None, shape: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
    """The devices of a mesh as an array of its shape: 0, 1, 2, ... unless it lists them, or has a transposed iota."""
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(count)
    if ids:
        iota = _IOTA.fullmatch(ids.strip())
        if iota is None:
            numbers = np.array([int(i) for i in ids.split(",")])
        else:
            dims = [int(d) for d in iota[1].split(",")]
            order = [int(d) for d in iota[2].split(",")] if iota[2] else list(range(len(dims)))
            if int(np.prod(dims)) != count or sorted(order) != list(range(len(dims))):
                return None
            numbers = numbers.reshape(dims).transpose(order)
    return numbers.reshape(shape) if numbers.size == count else None


def mesh_table(
    devices: np.ndarray[Any, Any], sizes: dict[str, int], axes: list[tuple[str, int, int]]
) -> np.ndarray[Any, Any] | None:
    """Returns the groups of devices that differ in parts of axes only, a row each; None if the axes have no such parts.

    `devices` is an array over the axes of `sizes`; a part is (axis, p, s): the factor s of p * s * rest; s = 0 is the
    whole axis. Columns count the parts, the first the slowest.
    """
    factors: list[int] = []
    chosen: dict[int, int] = {}  # the number of an entry of `axes` -> the dimension of its factor
    for name, size in sizes.items():
        parts = sorted((pre, part or size, number) for number, (axis, pre, part) in enumerate(axes) if axis == name)
        done = 1
        for pre, part, number in parts:
            if pre % done or size % (pre * part):
                return None
            factors += [pre // done, part]
            chosen[number] = len(factors) - 1
            done = pre * part
        factors.append(size // done)
    last = [chosen[number] for number in range(len(axes))]
    order = [d for d in range(len(factors)) if d not in last] + last
    group = int(np.prod([factors[d] for d in last], dtype=np.int64))
    return devices.reshape(factors).transpose(order).reshape(-1, group)
