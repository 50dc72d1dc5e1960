"""Rows too long for the cache, whose reductions need each other: they are cut into parts by the linalg-ext engine.

The maximum of a row and the sum of exponentials below it, or its mean and its variance, take it through memory twice,
and a result once more. What lies between two such reductions is raised to structured operations, cut
(`xjit/linalg_ext/transforms`: each part of a row is reduced to what can be merged, while it is in the cache), and
lowered to HLO again, which takes its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo.compare.structural_key import StructuralKeys
from xjit.hlo.edit.cloning import HloCloneContext
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.hlo.provided import Provided
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.row_regions import RowRegion, find_row_regions
from xjit.passes.framework.base import HloModulePass, selected_computations

tiled_rows: Provided[[HloModule, int], HloModule | None] = Provided("the engine that cuts long rows")
"""From a module of rows, and into how many parts to cut each, to what takes its place; None if it stays as it is."""


@dataclass
class RowTiling(HloModulePass):
    """Cuts long rows, whose reductions need each other, into parts of at most `max_tile_bytes`.

    Rows of more than `max_row_elements` are cut, and shorter ones where there are at most `few_rows` in an array of
    `min_elements`: threads share out parts, of which there are at least `min_tiles`. Where whole arrays are computed
    from the reductions, rows are read again: up to `max_fused_elements` a fusion keeps them in the cache, and arrays of
    less than `min_result_bytes` stay there anyway.
    """

    name = "row-tiling"
    opcodes = frozenset({"reduce"})
    max_tile_bytes: int = 1 << 15
    max_row_elements: int = 1 << 16
    max_fused_elements: int = 1 << 18
    few_rows: int = 32
    min_elements: int = 1 << 17
    min_tiles: int = 64
    min_result_bytes: int = 1 << 23

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every computation that is no fusion; True if something changed."""
        replaced: dict[HloInstruction, HloInstruction] = {}
        keys = StructuralKeys()
        known: dict[tuple[int, int], HloModule | None] = {}  # layers have equal rows
        for found, parts in self.regions(module, execution_threads):
            region = dataclasses.replace(found, inputs=tuple(replaced.get(i, i) for i in found.inputs))
            rows = region.as_module()
            key = (keys.computation(rows.entry_computation), parts)
            if key not in known:
                known[key] = tiled_rows(rows, parts)
            tiled = known[key]
            if tiled is not None:
                replaced.update(_replace(region, tiled))
        return bool(replaced)

    def regions(self, module: HloModule, execution_threads: Collection[str] = ()) -> list[tuple[RowRegion, int]]:
        """Returns what is to be cut, and into how many parts each row."""
        found = [
            (region, self._parts(region))
            for computation in selected_computations(module, execution_threads)
            for region in find_row_regions(computation, self._is_long)
        ]
        return [(region, parts) for region, parts in found if parts > 1]

    def _is_long(self, rows: Shape) -> bool:
        length, elements = rows.dimensions[-1], rows.num_elements
        is_few = elements >= self.min_elements and elements <= self.few_rows * length
        return elements > 0 and (length > self.max_row_elements or is_few)

    def _is_better_cut(self, rows: Shape) -> bool:
        """Whether an array with such rows, which is computed from reductions of them, is read from memory twice."""
        length, elements = rows.dimensions[-1], rows.num_elements
        is_long = length > self.max_fused_elements or elements <= self.few_rows * length
        return is_long and physical_byte_size(rows) >= self.min_result_bytes

    def _parts(self, region: RowRegion) -> int:
        """Returns into how many parts rows are cut, as few as fit; 1 if they stay, or no divisor is near."""
        rows = region.rows
        is_read_again = any(o.shape.dimensions == rows.dimensions for o in region.outputs)
        length = rows.dimensions[-1]
        if is_read_again and not self._is_better_cut(rows):
            return 1
        row_bytes = length * rows.element_type.byte_width
        fewest = max(-(-row_bytes // self.max_tile_bytes), -(-self.min_tiles * length // rows.num_elements), 2)
        return next((n for n in range(fewest, 4 * fewest + 1) if length % n == 0), 1)


def _replace(region: RowRegion, tiled: HloModule) -> dict[HloInstruction, HloInstruction]:
    """Puts a module in the place of a region; its result is a tuple if there are several outputs.

    Returns what is in the place of each output.
    """
    computation = region.instructions[0].parent
    assert computation is not None and computation.parent is not None
    module = computation.parent
    for called in tiled.computations():
        called.execution_thread = computation.execution_thread
    entry = module.deep_clone_computation(tiled.entry_computation, HloCloneContext(module))
    mapping = entry.clone_instructions(computation, dict(zip(entry.parameter_instructions, region.inputs)))
    module.remove_embedded_computation(entry)
    root = mapping[entry.root_instruction]
    results = root.operands if len(region.outputs) > 1 else (root,)
    made = [new for old, new in mapping.items() if old.opcode not in ("parameter", "tuple")]
    for new in made:
        inherit_annotations(new, region.instructions[-1])
    for old, new in zip(reversed(region.outputs), reversed(results)):
        replace(old, new, made)
    if not root.user_count and not root.is_root():
        computation.remove_instruction(root)
    return dict(zip(region.outputs, results))
