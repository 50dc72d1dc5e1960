"""Modules of custom calls to LAPACK, written from the rows of the target table, and inputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.lapack_call import LapackArray, LapackRoutine
from xjit.ops.lapack_targets import LAPACK_TARGETS

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Variant:
    """One call: its batch dimensions, the sizes that the row names, and the attributes."""

    sizes: Mapping[str, int]
    attributes: Mapping[str, str | int | bool]
    batch: tuple[int, ...] = ()


def module_text(target: str, variants: Sequence[Variant]) -> str:
    """Returns a module that makes the calls, each on parameters of its own, and returns all their results."""
    row = LAPACK_TARGETS[target]
    lines: list[str] = []
    roots: list[tuple[str, str]] = []  # (shape, name) of the results
    count, comma = 0, ", "
    for i, variant in enumerate(variants):
        shapes = [_shape(a, row, variant) for a in row.operands]
        names = [f"p{count + j}" for j in range(len(shapes))]
        lines.extend(f"{n} = {s} parameter({count + j})" for j, (n, s) in enumerate(zip(names, shapes, strict=True)))
        count += len(shapes)
        results = [_shape(a, row, variant) for a in row.results]
        is_tuple = len(results) > 1
        lines.append(
            f"c{i} = {'(' + ', '.join(results) + ')' if is_tuple else results[0]} custom-call({', '.join(names)}), "
            f'custom_call_target="{target}", operand_layout_constraints={{{comma.join(shapes)}}}, '
            f"api_version=API_VERSION_TYPED_FFI, backend_config={{{_attributes(variant.attributes)}}}"
        )
        if is_tuple:
            lines.extend(f"c{i}.{j} = {s} get-tuple-element(c{i}), index={j}" for j, s in enumerate(results))
        roots.extend((s, f"c{i}.{j}" if is_tuple else f"c{i}") for j, s in enumerate(results))
    body = "\n  ".join(lines)
    root = f"({', '.join(s for s, _ in roots)}) tuple({', '.join(n for _, n in roots)})"
    return f"HloModule m\nENTRY e {{\n  {body}\n  ROOT r = {root}\n}}\n"


def _shape(array: LapackArray, row: LapackRoutine, variant: Variant) -> str:
    dims = dimensions(array, variant)
    rank, batch = len(dims), len(variant.batch)
    order = [*range(batch, rank), *range(batch - 1, -1, -1)]
    kind = array.element_type(row.letter).text
    layout = f"{{{','.join(map(str, order))}}}" if order else ""
    return f"{kind}[{','.join(map(str, dims))}]{layout}"


def dimensions(array: LapackArray, variant: Variant) -> tuple[int, ...]:
    """The dimensions of an array of a call, batch first."""
    return (*variant.batch, *(_size(token, variant.sizes) for token in array.dims))


def _size(token: str, sizes: Mapping[str, int]) -> int:
    return eval(token if "^" not in token else f"min({token.replace('^', ',')})", {}, dict(sizes))


def _attributes(attributes: Mapping[str, str | int | bool]) -> str:
    def value(x: str | int | bool) -> str:
        if isinstance(x, bool):
            return str(x).lower()
        return f"{ord(x)} : ui8" if isinstance(x, str) else f"{x} : i32"

    return ", ".join(f"{name} = {value(x)}" for name, x in sorted(attributes.items()))


def inputs(target: str, variants: Sequence[Variant], seed: int = 0) -> list[Array]:
    """Returns random operands: numbers around zero; zeros where columns are numbered."""
    row = LAPACK_TARGETS[target]
    rng = np.random.default_rng(seed)
    return [random(rng, dimensions(a, v), a.element_type(row.letter)) for v in variants for a in row.operands]


def random(rng: np.random.Generator, dims: Sequence[int], kind: PrimitiveType) -> Array:
    """Returns an array of normal numbers, real or complex, or of zeros for integers."""
    if not (kind.is_float or kind.is_complex):
        return np.zeros(dims, kind.dtype)
    parts = rng.standard_normal((2, *dims))
    return (parts[0] + 1j * parts[1] if kind.is_complex else parts[0]).astype(kind.dtype)
