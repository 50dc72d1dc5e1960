"""Runs programs on one of xjit's backends and on XLA:CPU, in a process of its own; prints as JSON what went wrong.

Usage: python run_programs.py MODULUS REMAINDER [BACKEND]: the programs whose number has that remainder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

os.environ["JAX_PLATFORMS"] = ",".join(("cpu", *(sys.argv[3:] or ["xjit"])))

import jax
import numpy as np

import xjit_jax_plugin

xjit_jax_plugin.initialize()
jax.config.update("jax_enable_x64", True)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import all_programs  # noqa: E402

_EPSILONS = 64
"""Of the largest magnitude in a result, per element: both round, in orders of their own."""


def difference(found: Any, expected: Any) -> str:
    """Says how two results differ, or nothing."""
    found_leaves, tree = jax.tree.flatten(found)
    expected_leaves, expected_tree = jax.tree.flatten(expected)
    if tree != expected_tree:
        return f"structure {tree}, expected {expected_tree}"
    for a, b in zip(found_leaves, expected_leaves, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if b.dtype.kind in "biu" or b.size == 0:
            if not np.array_equal(a, b):
                return f"{a} expected {b}"
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        epsilon = float(jax.numpy.finfo(b.dtype).eps)
        scale = np.max(np.abs(b.astype(wide)), initial=0, where=np.isfinite(b.astype(wide)))
        if not np.allclose(
            a.astype(wide), b.astype(wide), rtol=_EPSILONS * epsilon, atol=_EPSILONS * epsilon * scale, equal_nan=True
        ):
            return f"{a} expected {b}"
    return ""


def main() -> None:
    modulus, remainder = (int(text) for text in sys.argv[1:3])
    (cpu,), (xjit,) = (jax.devices(name)[:1] for name in os.environ["JAX_PLATFORMS"].split(","))
    wrong: dict[str, str] = {}
    programs = all_programs()
    names = [name for i, name in enumerate(programs) if i % modulus == remainder]
    for name in names:
        function, arguments = programs[name]
        try:
            with jax.default_device(cpu):
                expected = jax.jit(lambda *a, f=function: f(*a))(*arguments)
            with jax.default_device(xjit):
                found = jax.jit(lambda *a, f=function: f(*a))(*arguments)
            assert all(leaf.devices() == {xjit} for leaf in jax.tree.leaves(found))
            text = difference(found, expected)
        except Exception:
            text = traceback.format_exc(limit=-3)
        if text:
            wrong[name] = text
    print(json.dumps({"count": len(names), "wrong": wrong}))


if __name__ == "__main__":
    main()
