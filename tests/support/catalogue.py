"""The pass catalogue's pairs, where it is present: `../shared/spec/passes.md` or `$XJIT_CATALOGUE`.

A fence of the catalogue is "```hlo KEYS" and modules, each from a line that begins with HloModule: `<x>_before` and
`<x>_after`, or one module with the key `same`. The heading above it names the pass:
"### 25. Algebraic simplifier — `AlgebraicSimplifier` → `algebraic_simplifier` [frontend]".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import corpus
from tests.support.passes import random_value
from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo.attributes import ConstantAttributes
from xjit.hlo.compare.equality import first_difference
from xjit.text.parser import parse_hlo

PATH = Path(os.environ.get("XJIT_CATALOGUE", corpus.ROOT.parent / "spec" / "passes.md"))

_HEADING = re.compile(r"^### (\w+)\. .*?→ `(\w+)`", re.MULTILINE)
_FENCE = re.compile(r"^```hlo([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"^HloModule (\w+)", re.MULTILINE)
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


@dataclass(frozen=True)
class CataloguePair:
    """A module and what the pass makes of it; `after` is "" if the pass must leave it alone or refuse it.

    `keys` are those of the fence: tol, replicas, partitions, imin, imax, input, nans, static, same.
    """

    number: str
    pass_name: str
    name: str
    keys: Mapping[str, str]
    before: str
    after: str

    @property
    def id(self) -> str:
        """`25-algebraic_simplifier-alg_int`."""
        return f"{self.number}-{self.pass_name}-{self.name}"

    @property
    def must_be_rejected(self) -> bool:
        """Whether the module is wrong, so that the pass raises."""
        return self.name.endswith("_rejects")


def read_pairs() -> list[CataloguePair]:
    """Returns the pairs in the order of the catalogue; none where it is absent."""
    return list(_pairs(PATH.read_text())) if PATH.is_file() else []


def _pairs(text: str) -> Iterator[CataloguePair]:
    headings = list(_HEADING.finditer(text))
    for fence in _FENCE.finditer(text):
        above = [h for h in headings if h.start() < fence.start()]
        starts = [*_MODULE.finditer(fence[2])]
        if not above or not starts or "\n## " in text[above[-1].start() : fence.start()]:
            continue
        keys = {k.partition("=")[0]: k.partition("=")[2] for k in fence[1].split()}
        ends = [m.start() for m in starts[1:]] + [len(fence[2])]
        modules = [fence[2][m.start() : end] for m, end in zip(starts, ends, strict=True)]
        after = "" if "same" in keys else modules[1]
        name = starts[0][1].removesuffix("_before")
        yield CataloguePair(above[-1][1], above[-1][2], name, keys, modules[0], after)


def difference(got: HloModule, pair: CataloguePair) -> str:
    """Returns how a result differs from what a pair expects in words; "" if it does not.

    Names, the order of independent instructions and the placement of constants do not count. Layouts count where the
    expected module writes one, schedules where the pair has one.
    """
    expected = parse_hlo(pair.after)
    layouts = bool(re.search(r"\]\{[\d,]*[\d:]", pair.after))
    order = _schedules(got), _schedules(expected)
    aliases = got.config.input_output_alias, expected.config.input_output_alias
    modules = [m.clone("") for m in (got, expected)]
    for module in modules:
        module.clear_schedule()
        merge_constants(module)
    found = first_difference(*modules, layouts=layouts)
    if found is not None:
        return found
    if aliases[0] != aliases[1]:
        return f"input_output_alias is {aliases[0]}, not {aliases[1]}"
    if "is_scheduled=true" not in pair.before + pair.after or order[0] == order[1]:
        return ""
    return f"the schedule is {order[0]}, not {order[1]}"


def merge_constants(module: HloModule) -> None:
    """Leaves one constant of each value in a computation, and none that nobody reads."""
    for computation in module.make_computation_post_order():
        known: dict[object, HloInstruction] = {}
        for i in computation.make_instruction_post_order():
            if i.opcode != "constant" or i.is_root():
                continue
            first = known.setdefault((i.shape.to_string(), i.attributes_as(ConstantAttributes).literal.digest()), i)
            if first is not i:
                i.replace_all_uses_with(first)
            if not i.users:
                i.drop_all_control_deps()
                computation.remove_instruction(i)


def _schedules(module: HloModule) -> list[list[str]] | None:
    """The schedule as text, without parameters and constants, per computation; None without one."""
    if not module.has_schedule():
        return None
    return [
        [
            f"{i.opcode} {i.shape.to_string(layout=False)}"
            for i in module.schedule.sequence(computation)
            if i.opcode not in ("parameter", "constant")
        ]
        for computation in module.make_nonfusion_computations()
    ]


def arguments(module: HloModule, keys: Mapping[str, str], seed: int) -> list[Any]:
    """Returns random arguments of the kind that a pair's keys ask for."""
    rng = np.random.default_rng(seed)
    return [_value(p.shape, keys, rng) for p in module.entry_computation.parameter_instructions]


def _value(shape: Shape, keys: Mapping[str, str], rng: np.random.Generator) -> Any:
    if shape.is_tuple:
        return tuple(_value(s, keys, rng) for s in shape.tuple_shapes)
    if not shape.is_array or shape.element_type.text == "pred":
        return random_value(shape, rng)
    if shape.element_type.is_integer:
        low = int(keys.get("imin", 0))
        if shape.element_type.text.startswith("u"):
            low = max(low, 0)
        return rng.integers(low, int(keys.get("imax", 3)) + 1, shape.dimensions).astype(shape.dtype)
    array = rng.uniform(-2, 2, shape.dimensions)
    kind = keys.get("input")
    if kind == "pos":
        array = np.abs(array) + 0.1
    if kind in ("spd", "tril") and array.ndim >= 2 and array.shape[-1] == array.shape[-2]:
        lower = np.tril(array) + array.shape[-1] * np.eye(array.shape[-1])
        array = lower if kind == "tril" else lower @ np.swapaxes(lower, -1, -2)
    if "nans" in keys:
        count = min(array.size, len(_SPECIAL))
        array.reshape(-1)[:count] = _SPECIAL[:count]
    return array.astype(shape.dtype)
