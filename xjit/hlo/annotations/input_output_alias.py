"""Which outputs of a program reuse the buffers of its parameters, and which parameters give their buffers away.

Both classes are views on fields of the module's config (`input_output_alias`, `buffer_donors`), and check every change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.annotations.alias_config import KINDS, Alias, BufferDonor, format_entries
from xjit.hlo.diagnostics import HloVerifyError, InvalidArgument
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import Shape, ShapeIndex

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule

_ALIASES, _DONORS = "input_output_alias", "buffer_donor"


class HloInputOutputAliasConfig:
    """The aliases of a module's entry: output index -> (parameter number, parameter index, may or must)."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """All entries in the order they were made."""
        return self._module.config.input_output_alias

    def set_up_alias(
        self, output_index: Sequence[int], param_number: int, param_index: Sequence[int] = (), kind: str = "may"
    ) -> None:
        """Lets an output use the buffer of a parameter (`may`), or insists on it (`must`).

        Errors: InvalidArgument if one side does not exist or is aliased already, or if their shapes differ.
        """
        kind = kind if kind.endswith("-alias") else f"{kind}-alias"
        if kind not in KINDS:
            raise InvalidArgument(f"alias kind '{kind}' is none of {', '.join(KINDS)}")
        self.set_up_aliases([Alias(tuple(output_index), param_number, tuple(param_index), kind)])

    def set_up_aliases(self, aliases: Iterable[Alias]) -> None:
        """Adds entries, all or none; InvalidArgument as for one."""
        entries = (*self.aliases, *aliases)
        donors = HloBufferDonorConfig(self._module).donors
        try:
            check_aliasing(self._module, entries, donors)
        except HloVerifyError as error:
            raise InvalidArgument(error.message) from None
        self._module.config.input_output_alias = entries

    def get_aliased_output(self, param_number: int, param_index: Sequence[int] = ()) -> ShapeIndex | None:
        """Returns the output that uses the buffer of a parameter, or None."""
        key = (param_number, tuple(param_index))
        found = (a for a in self.aliases if (a.parameter_number, a.parameter_index) == key)
        return next((a.output_index for a in found), None)

    def get_aliased_parameter(self, output_index: Sequence[int]) -> Alias | None:
        """Returns the entry of an output, or None."""
        return next((a for a in self.aliases if a.output_index == tuple(output_index)), None)

    def output_has_alias(self, output_index: Sequence[int]) -> bool:
        """Whether an output uses the buffer of a parameter."""
        return self.get_aliased_parameter(output_index) is not None

    def parameter_has_alias(self, param_number: int, param_index: Sequence[int] = ()) -> bool:
        """Whether the buffer of a parameter is used by an output."""
        return self.get_aliased_output(param_number, param_index) is not None

    def parameter_must_alias(self, param_number: int, param_index: Sequence[int] = ()) -> bool:
        """Whether the buffer of a parameter must be used by an output."""
        output = self.get_aliased_output(param_number, param_index)
        return any(a.output_index == output and a.kind == "must-alias" for a in self.aliases)

    def for_each_alias(self, visit: Callable[[ShapeIndex, Alias], None]) -> None:
        """Calls `visit(output_index, alias)` for every entry."""
        for alias in self.aliases:
            visit(alias.output_index, alias)

    def clear(self) -> None:
        """Removes all entries."""
        self._module.config.input_output_alias = ()

    def verify(self, module: HloModule | None = None) -> None:
        """Raises HloVerifyError unless the entries fit the entry computation of a module (by default their own)."""
        check_aliasing(module or self._module, self.aliases, ())

    def __str__(self) -> str:
        return format_entries(self.aliases)


class HloBufferDonorConfig:
    """The parameters of a module's entry whose buffers any output may reuse."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    @property
    def donors(self) -> tuple[BufferDonor, ...]:
        """All entries in the order they were made."""
        return self._module.config.buffer_donors

    def add_buffer_donor(self, param_number: int, param_index: Sequence[int] = ()) -> None:
        """Gives the buffer of a parameter away; InvalidArgument if it does not exist or is given away already."""
        entries = (*self.donors, BufferDonor(param_number, tuple(param_index)))
        try:
            check_aliasing(self._module, HloInputOutputAliasConfig(self._module).aliases, entries)
        except HloVerifyError as error:
            raise InvalidArgument(error.message) from None
        self._module.config.buffer_donors = entries

    def remove_buffer_donor(self, param_number: int, param_index: Sequence[int] = ()) -> None:
        """Takes a donation back; InvalidArgument if there is none."""
        donor = BufferDonor(param_number, tuple(param_index))
        if donor not in self.donors:
            raise InvalidArgument(f"parameter buffer {donor} is not donated")
        self._module.config.buffer_donors = tuple(d for d in self.donors if d != donor)

    def parameter_is_buffer_donor(self, param_number: int, param_index: Sequence[int] = ()) -> bool:
        """Whether the buffer of a parameter is given away."""
        return BufferDonor(param_number, tuple(param_index)) in self.donors

    def clear(self) -> None:
        """Removes all entries."""
        self._module.config.buffer_donors = ()

    def verify(self, module: HloModule | None = None) -> None:
        """Raises HloVerifyError unless the entries fit the entry computation of a module (by default their own)."""
        module = module or self._module
        check_aliasing(module, HloInputOutputAliasConfig(module).aliases, self.donors)

    def __str__(self) -> str:
        return format_entries(self.donors)


def check_aliasing(module: HloModule, aliases: Iterable[Alias], donors: Iterable[BufferDonor]) -> None:
    """Raises HloVerifyError unless indices exist, shapes agree and no buffer is given away twice.

    An array that may be aliased may have another shape of the same bytes.
    """
    shapes, result = [p.shape for p in module.entry_computation.parameter_instructions], module.result_shape
    outputs: set[ShapeIndex] = set()
    inputs: set[tuple[int, ShapeIndex]] = set()
    for alias in aliases:
        what = f"{_ALIASES} {alias}"
        source = _parameter_shape(shapes, alias, what)
        target = subshape_at(result, alias.output_index, what)
        if not source.compatible(target) and not (alias.kind == "may-alias" and _take_the_same(source, target)):
            shapes = f"shape {source.to_string(layout=False)}, the output {target.to_string(layout=False)}"
            raise HloVerifyError(f"{what}: the parameter has {shapes}")
        key = (alias.parameter_number, alias.parameter_index)
        if alias.output_index in outputs or key in inputs:
            raise HloVerifyError(f"{what}: the output or the parameter is aliased twice")
        outputs.add(alias.output_index)
        inputs.add(key)
    for donor in donors:
        what = f"{_DONORS} {donor}"
        _parameter_shape(shapes, donor, what)
        key = (donor.parameter_number, donor.parameter_index)
        if key in inputs:
            raise HloVerifyError(f"{what}: the buffer is donated or aliased already")
        inputs.add(key)


def _take_the_same(source: Shape, target: Shape) -> bool:
    is_static = source.is_static_array and target.is_static_array
    return is_static and physical_byte_size(source) == physical_byte_size(target)


def subshape_at(shape: Shape, index: ShapeIndex, what: str) -> Shape:
    """Returns the shape at an index; HloVerifyError that starts with `what` if there is none."""
    try:
        return shape.subshape(index)
    except InvalidArgument as error:
        raise HloVerifyError(f"{what}: {error.message}") from None


def _parameter_shape(shapes: Sequence[Shape], entry: Alias | BufferDonor, what: str) -> Shape:
    if not 0 <= entry.parameter_number < len(shapes):
        raise HloVerifyError(f"{what}: there are only {len(shapes)} parameters")
    return subshape_at(shapes[entry.parameter_number], entry.parameter_index, what)
