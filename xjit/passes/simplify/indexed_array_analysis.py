"""Showing which arrays are slices of others, chosen by indices."""

from __future__ import annotations

import sys
from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.passes.analysis.indexed_arrays import IndexedArrays, Reshaped, ScalarIndexed
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class IndexedArrayAnalysisPrinterPass(HloModulePass):
    """Describes the arrays that are gathers, and with `verbosity` of 2 or more writes them to standard error.

    Never changes anything.
    """

    name = "indexed-array-analysis"
    verbosity: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Analyses the module; returns False."""
        lines = self.describe(module, execution_threads)
        if self.verbosity >= 2 and lines:
            print("\n".join(lines), file=sys.stderr)
        return False

    def describe(self, module: HloModule, execution_threads: Collection[str] = ()) -> list[str]:
        """Returns a line for each instruction whose value is a gather, or a reshape of one."""
        arrays = analyses.get(IndexedArrays, module)
        return [
            f"%{instruction.name} = {array}"
            for computation in selected_computations(module, execution_threads)
            for instruction in computation.make_instruction_post_order()
            if isinstance(array := arrays.array(instruction), (ScalarIndexed, Reshaped))
        ]
