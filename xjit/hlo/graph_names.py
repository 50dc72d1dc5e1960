"""The graph's classes under their names in the modules that know them as types only.

Imports go one way, so these cannot import them; `typing.get_type_hints` looks them up there.
"""

from __future__ import annotations

import sys

from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape


def bind_graph_names() -> None:
    """Binds the names in all modules of this layer that import something for type checkers."""
    for name, module in list(sys.modules.items()):
        if name.startswith("xjit.hlo.") and hasattr(module, "TYPE_CHECKING"):
            for kind in (HloInstruction, HloComputation, HloModule, Shape):
                vars(module).setdefault(kind.__name__, kind)
