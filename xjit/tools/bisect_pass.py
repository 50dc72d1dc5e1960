"""Find the first pass, and the first rewrite within it, after which a module computes other values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xjit.api import evaluate, load_module
from xjit.hlo.diagnostics import HloError
from xjit.hlo.ir.module import HloModule
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, make_pass
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.driver import PassDriver, StopAt
from xjit.passes.framework.pass_text import split_pass_list
from xjit.passes.pipelines import cpu_pipeline
from xjit.tools.inputs import make_inputs
from xjit.tools.leaf_comparison import compare_leaf, leaves_of
from xjit.tools.options import add_inputs, add_tolerance

MakePasses = Callable[[], Sequence[HloModulePass]]


@dataclass(frozen=True, slots=True)
class Finding:
    """The first pass that changes values: its number, from 1, of `count` that run; what is wrong after it.

    `rewrite` is the number, from 1, of the first wrong one of `rewrites` replacements by it, with the instructions
    before and after; 0 if the pass went wrong outside of any.
    """

    number: int
    count: int
    name: str
    wrong: str
    rewrite: int = 0
    rewrites: int = 0
    old: str = ""
    new: str = ""


class PassBisection:
    """A module, inputs, and passes that should not change what it computes, but by rounding (`tolerance`).

    The reference is the evaluator on the module before all passes.
    """

    def __init__(
        self, module: HloModule, inputs: Sequence[Any], make_passes: MakePasses, tolerance: float | None = None
    ) -> None:
        self._module, self._inputs, self._make_passes, self._tolerance = module, inputs, make_passes, tolerance
        self._expected = leaves_of(evaluate(module, *inputs))

    def find(self) -> Finding | None:
        """Returns the first pass, and rewrite, that is wrong; None if values are the same after the last pass."""
        everything = StopAt(-1)
        wrong = self._wrong_after(everything)
        if not wrong:
            return None
        count = len(everything.ran)
        number = _first(count, lambda n: bool(self._wrong_after(StopAt(n))))
        stop = StopAt(number)
        wrong = self._wrong_after(stop)
        rewrites = len(stop.rewritten)
        rewrite = _first(rewrites, lambda n: bool(self._wrong_after(StopAt(number, n)))) if rewrites else 0
        if rewrite and not self._wrong_after(StopAt(number, rewrite)):
            rewrite = 0
        old, new = stop.rewritten[rewrite - 1] if rewrite else ("", "")
        return Finding(number, count, stop.ran[-1], wrong, rewrite, rewrites, old, new)

    def _wrong_after(self, stop: StopAt) -> str:
        """Returns what is wrong with the module after some of the passes; "" if nothing is."""
        module = self._module.clone("")
        module.clear_schedule()
        try:
            PassDriver(stop=stop).run(self._make_passes(), module)
            verify_module(module)
            found = leaves_of(evaluate(module, *self._inputs))
        except HloError as error:
            return str(error).splitlines()[0]
        for number, (a, b) in enumerate(zip(found, self._expected, strict=True)):
            comparison = compare_leaf(a, b, self._tolerance)
            if not comparison.ok:
                return f"output {number} is off by {comparison.error:.2e}"
        return ""


def _first(count: int, is_wrong: Callable[[int], bool]) -> int:
    """Returns the least n in 1..count from which on it is wrong; `count` is."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong(middle) else (middle, high)
    return high


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit bisect-pass`."""
    parser.add_argument("file", metavar="FILE", help="HLO text, a .pb, or - for standard input")
    parser.add_argument("--passes", metavar="A,B", help="passes to run (default: the CPU pipeline)")
    add_inputs(parser)
    add_tolerance(parser)


def main(options: argparse.Namespace) -> int:
    """Prints what was found; returns 1 if values differ."""
    module = load_module(options.file)
    names = split_pass_list(options.passes) if options.passes else []
    inputs = make_inputs(module, options.input, options.seed)

    def passes() -> Sequence[HloModulePass]:
        return [make_pass(PASSES, name) for name in names] if options.passes else cpu_pipeline()

    passes()  # an unknown name is an error before anything has run
    found = PassBisection(module, inputs, passes, options.tolerance).find()
    if found is None:
        print("no pass changes what the module computes")
        return 0
    print(f"pass {found.number} of {found.count}, {found.name}: {found.wrong}")
    if found.rewrite:
        print(f"rewrite {found.rewrite} of {found.rewrites}:\n  {found.old}\nbecame\n  {found.new}")
    return 1
