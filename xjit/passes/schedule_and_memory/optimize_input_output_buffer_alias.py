"""Which parameters may give their buffers to which results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable

from xjit.dataclass import dataclass
from xjit.hlo import HloModule, Shape
from xjit.hlo.annotations.alias_config import Alias
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.framework.base import HloModulePass

Donor = tuple[int, ShapeIndex, Shape]
Donee = tuple[ShapeIndex, Shape]


@dataclass
class OptimizeInputOutputBufferAlias(HloModulePass):
    """Declares `may-alias` between arrays of the entry's parameters and of its result, each at most once.

    Pairs have the same dimensions, type and layout; without `require_equal_shape` as many bytes in the same memory
    space are enough, as in XLA. With `registered_buffer_donor_only` only parameters named in `buffer_donor` give their
    buffers. A result with dynamic dimensions is left.
    """

    registered_buffer_donor_only: bool = False
    require_equal_shape: bool = True

    name = "optimize-input-output-buffer-alias"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if an alias was added."""
        del execution_threads  # the entry belongs to the main one
        layout, aliases = module.entry_computation_layout, module.input_output_alias_config
        result = layout.result_shape
        if not all(shape.is_static for _, shape in result.leaves()):
            return False
        donors = self._donors(module, layout.parameter_shapes)
        aliased = {alias.output_index for alias in aliases.aliases}
        donees = [(i, s) for i, s in result.leaves() if s.is_array and i not in aliased]
        pairs = sorted(_pairs(donors, donees, self._key), key=lambda pair: pair[1][0])
        given = {(number, index) for (number, index, _), _ in pairs}
        config = module.config
        config.buffer_donors = tuple(
            d for d in config.buffer_donors if (d.parameter_number, d.parameter_index) not in given
        )
        aliases.set_up_aliases(Alias(output, number, index, "may-alias") for (number, index, _), (output, _) in pairs)
        return bool(pairs)

    def _key(self, shape: Shape) -> Hashable:
        """Returns what a donor and a donee have in common."""
        if self.require_equal_shape:
            return shape
        return shape.layout.memory_space if shape.layout is not None else 0, physical_byte_size(shape)

    def _donors(self, module: HloModule, shapes: Collection[Shape]) -> list[Donor]:
        aliased = {(a.parameter_number, a.parameter_index) for a in module.config.input_output_alias}
        donated = {(d.parameter_number, d.parameter_index) for d in module.config.buffer_donors}
        return [
            (number, index, leaf)
            for number, shape in enumerate(shapes)
            for index, leaf in shape.leaves()
            if leaf.is_static_array
            and (number, index) not in aliased
            and (not self.registered_buffer_donor_only or (number, index) in donated)
        ]


def _pairs(donors: list[Donor], donees: list[Donee], key: Callable[[Shape], Hashable]) -> list[tuple[Donor, Donee]]:
    """Pairs what agrees in a key, the largest first, each in the order of parameters and results."""
    free: dict[Hashable, deque[Donor]] = {}
    for donor in donors:
        free.setdefault(key(donor[2]), deque()).append(donor)
    pairs: list[tuple[Donor, Donee]] = []
    for donee in sorted(donees, key=lambda d: -physical_byte_size(d[1])):
        if waiting := free.get(key(donee[1])):
            pairs.append((waiting.popleft(), donee))
    return pairs
