"""Writes down how often loops run."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, InvalidArgument
from xjit.passes.analysis.loop_evaluation import trip_count
from xjit.passes.framework.base import HloModulePass, selected_computations

KEY = "known_trip_count"


@dataclass
class WhileLoopTripCountAnnotator(HloModulePass):
    """Sets `known_trip_count` in the backend config of each while loop whose trip count is known; drops it elsewhere.

    The other keys of a config stay. What is no JSON is not touched.
    """

    name = "while-loop-trip-count-annotator"
    opcodes = frozenset({"while"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Annotates; True if a backend config changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.instructions:
                if instruction.opcode == "while":
                    changed |= _annotate(instruction)
        return changed


def known_trip_count(loop: HloInstruction) -> int | None:
    """Returns what is written down about a loop; None if nothing is, or nothing that makes sense."""
    try:
        count = int(loop.parsed_backend_config[KEY]["n"])
    except (InvalidArgument, KeyError, TypeError, ValueError):
        return None
    return count if count >= 0 else None


def _annotate(loop: HloInstruction) -> bool:
    try:
        config = loop.parsed_backend_config
    except InvalidArgument:
        return False
    found = trip_count(loop)
    expected = None if found is None else {"n": str(found)}
    if config.get(KEY) == expected:
        return False
    if expected is None:
        del config[KEY]
    else:
        config[KEY] = expected
    loop.backend_config = config if config else ""
    return True
