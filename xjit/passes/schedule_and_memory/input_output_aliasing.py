"""Results of the entry that live in the memory of its parameters, as `input_output_alias` and `buffer_donor` ask for.

A parameter and its result keep two slices, as a caller may donate the parameter or not. What is decided here is whether
the program is right if both are one buffer: nothing may be written there that is not the parameter's, before the
parameter has been read for the last time, but by what updates it in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from xjit.hlo import HloModule, Shape
from xjit.hlo.annotations.alias_config import Alias
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.schedule_and_memory.buffer_classes import BufferClasses
from xjit.thunks.result_alias import ResultAlias

_TRIES = 64
"""Results that a donated array is tried with: thousands of arrays may have one shape, and none may fit."""


def declared_aliases(module: HloModule) -> list[ResultAlias]:
    """Returns the aliases that the module declares, one per leaf, those that must be kept first.

    A caller's array is no array of another shape, of as many bytes: such an alias is not kept.
    """
    found: list[ResultAlias] = []
    numbers = _parameter_leaves(module)
    results = {index: n for n, (index, _) in enumerate(_arrays(module.result_shape))}
    for alias in module.config.input_output_alias:
        for index, shape in _arrays(module.result_shape.subshape(alias.output_index)):
            parameter, given = numbers[alias.parameter_number, (*alias.parameter_index, *index)]
            if not given.compatible(shape):
                continue
            result = results[(*alias.output_index, *index)]
            found.append(ResultAlias(parameter, result, physical_byte_size(shape), _is_must(alias)))
    return sorted(found, key=lambda a: not a.must)


def must_aliases(module: HloModule) -> list[ResultAlias]:
    """Returns the aliases that a program has to keep."""
    return [alias for alias in declared_aliases(module) if alias.must]


def keep_aliases(module: HloModule, classes: BufferClasses) -> list[ResultAlias]:
    """Reserves the buffers of results for parameters; returns the aliases that can be kept.

    Donated parameters without an output of their own take the first result of the same shape that no alias names: of
    `_TRIES`.
    """
    parameters = module.entry_computation.parameter_instructions
    values = [v for p in parameters for v in classes.flow.values(p) if v is not None]
    kept = [a for a in declared_aliases(module) if classes.share_with_parameter(values[a.parameter], a.result)]
    named = [index for alias in module.config.input_output_alias for index in _leaves_of(module, alias)]
    numbers = {index: number for number, (index, _) in enumerate(_arrays(module.result_shape))}
    return [*kept, *_donations(module, classes, values, {numbers[index] for index in named})]


def _donations(
    module: HloModule, classes: BufferClasses, values: list[HloValue], taken: set[int]
) -> Iterator[ResultAlias]:
    leaves: dict[int, list[tuple[ShapeIndex, int, Shape]]] = {}
    for (parameter, index), (number, shape) in _parameter_leaves(module).items():
        leaves.setdefault(parameter, []).append((index, number, shape))
    free: dict[Shape, dict[int, None]] = {}
    for result, (_, shape) in enumerate(_arrays(module.result_shape)):
        if result not in taken:
            free.setdefault(shape, {})[result] = None
    for donor in module.config.buffer_donors:
        for index, number, shape in leaves.get(donor.parameter_number, ()):
            if index[: len(donor.parameter_index)] != donor.parameter_index:
                continue
            candidates = free.get(shape, {})
            fitting = (r for r in islice(candidates, _TRIES) if classes.share_with_parameter(values[number], r))
            if (result := next(fitting, None)) is not None:
                del candidates[result]
                yield ResultAlias(number, result, physical_byte_size(shape))


def _leaves_of(module: HloModule, alias: Alias) -> list[ShapeIndex]:
    """The arrays of the result that an alias is for."""
    return [(*alias.output_index, *index) for index, _ in _arrays(module.result_shape.subshape(alias.output_index))]


def _parameter_leaves(module: HloModule) -> dict[tuple[int, ShapeIndex], tuple[int, Shape]]:
    """Returns the number and shape of each array among the parameters, by (parameter, index)."""
    places = [
        ((n, index), shape)
        for n, p in enumerate(module.entry_computation.parameter_instructions)
        for index, shape in _arrays(p.shape)
    ]
    return {place: (number, shape) for number, (place, shape) in enumerate(places)}


def _arrays(shape: Shape) -> list[tuple[ShapeIndex, Shape]]:
    return [(index, leaf) for index, leaf in shape.leaves() if leaf.is_array]


def _is_must(alias: Alias) -> bool:
    return alias.kind == "must-alias"
