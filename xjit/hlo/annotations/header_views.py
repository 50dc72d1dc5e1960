"""Typed access to what the header of a module keeps as text: shardings of the entry, buffers to prefetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xjit.dataclass import dataclass
from xjit.hlo.annotations.alias_config import BufferDonor, parse_buffer_donors
from xjit.hlo.annotations.input_output_alias import subshape_at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.shardings import parse_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError, inside, split_list
from xjit.hlo.diagnostics import FailedPrecondition, HloVerifyError, InvalidArgument
from xjit.hlo.types.shape import ShapeIndex

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule

OUTPUT_SHARDING = "spmd_output_sharding"
PARAMETERS_SHARDINGS = "spmd_parameters_shardings"
PREFETCHES = "cross_program_prefetches"
PROPAGATION = "allow_spmd_sharding_propagation_to_parameters"
_SIGNATURE_KEYS = (
    "dynamic_parameter_binding",
    *(OUTPUT_SHARDING, PARAMETERS_SHARDINGS, PREFETCHES),
)


_NUMBERED_KEYS = ("dynamic_parameter_binding", PREFETCHES)


def names_parameters(module: HloModule) -> bool:
    """Whether the header names parameters by number, for sizes of dimensions or prefetches, or lists flags of each."""
    header = module.config.header_attributes
    return any(key in header for key in _NUMBERED_KEYS) or "," in header.get(PROPAGATION, "")


@dataclass(frozen=True, slots=True)
class CrossProgramPrefetch:
    """A buffer of a parameter that the previous program may fetch in advance."""

    parameter: int
    index: ShapeIndex = ()


def output_sharding(module: HloModule) -> HloSharding:
    """Returns the sharding of the entry's result before partitioning; FailedPrecondition if it was not set."""
    return _sharding(_required(module, OUTPUT_SHARDING))


def set_output_sharding(module: HloModule, sharding: HloSharding) -> None:
    """Notes the sharding of the entry's result before partitioning."""
    module.config.header_attributes[OUTPUT_SHARDING] = str(sharding)


def parameters_shardings(module: HloModule) -> list[HloSharding]:
    """Returns the shardings of the entry's parameters before partitioning; FailedPrecondition if they were not set."""
    text = _required(module, PARAMETERS_SHARDINGS)
    try:
        return [_sharding(item) for item in split_list(inside(text))]
    except CodecError as error:
        raise InvalidArgument(f"{PARAMETERS_SHARDINGS} of {module.name}: {error.message}") from None


def set_parameters_shardings(module: HloModule, shardings: Sequence[HloSharding]) -> None:
    """Notes the shardings of the entry's parameters; InvalidArgument unless there is one per parameter."""
    if module.has_entry_computation() and len(shardings) != module.entry_computation.num_parameters:
        count = module.entry_computation.num_parameters
        raise InvalidArgument(f"{len(shardings)} shardings for the {count} parameters of {module.name}")
    module.config.header_attributes[PARAMETERS_SHARDINGS] = "{" + ", ".join(map(str, shardings)) + "}"


def add_cross_program_prefetch(module: HloModule, parameter: int, index: Sequence[int] = ()) -> None:
    """Appends a buffer to prefetch; InvalidArgument if the entry has no such parameter buffer."""
    prefetch = BufferDonor(parameter, tuple(index))
    what = f"cross-program prefetch of {prefetch}"
    count = module.entry_computation.num_parameters
    if not 0 <= parameter < count:
        raise InvalidArgument(f"{what}: there are only {count} parameters")
    try:
        subshape_at(module.entry_computation.parameter_instruction(parameter).shape, prefetch.parameter_index, what)
    except HloVerifyError as error:
        raise InvalidArgument(error.message) from None
    header = module.config.header_attributes
    entries = [*parse_buffer_donors(header.get(PREFETCHES, "")), prefetch]
    header[PREFETCHES] = "{ " + ", ".join(map(str, entries)) + " }"


def cross_program_prefetches(module: HloModule) -> tuple[CrossProgramPrefetch, ...]:
    """Returns the buffers to prefetch in the order they were added."""
    entries = parse_buffer_donors(module.config.header_attributes.get(PREFETCHES, ""))
    return tuple(CrossProgramPrefetch(e.parameter_number, e.parameter_index) for e in entries)


def forget_signature(module: HloModule) -> None:
    """Drops what the header says of the entry's parameters and result: the entry is another one."""
    module.config.input_output_alias = ()
    module.config.buffer_donors = ()
    for key in _SIGNATURE_KEYS:
        module.config.header_attributes.pop(key, None)


def _required(module: HloModule, key: str) -> str:
    text = module.config.header_attributes.get(key)
    if text is None:
        raise FailedPrecondition(f"module {module.name} has no {key}")
    return text


def _sharding(text: str) -> HloSharding:
    try:
        return parse_sharding(text)
    except CodecError as error:
        raise InvalidArgument(f"sharding '{text}': {error.message}") from None
