"""What custom calls mean, by their target: facts for the evaluator, the indexing maps and the emitters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xjit.hlo.annotations.alias_config import parse_aliases
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import STATUS_RETURNING, STATUS_RETURNING_UNIFIED, registered_targets
from xjit.hlo.diagnostics import UnknownTarget, Unsupported
from xjit.hlo.ir.instruction import HloInstruction

IDENTITY_TARGETS = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "MoveToDevice",
        "MoveToHost",
        "LayoutConstraint",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.PropagationBarrier",
        "xla.sdy.ShardingGroup",
    }
)
"""Annotations for partitioners, layouts and devices: on one device the result is the operand."""


REGISTERED_API_VERSIONS = ("", "API_VERSION_ORIGINAL", STATUS_RETURNING, STATUS_RETURNING_UNIFIED)
"""The interfaces that registered functions may have (`xjit.hlo.custom_call_registry`); "" is the original one."""


def operand_aliases(call: HloInstruction) -> dict[int, int]:
    """Returns {operand: result leaf} of a custom call that writes results where operands lie.

    Errors: Unsupported for elements of tuple operands.
    """
    leaves = {index: n for n, (index, _) in enumerate(call.shape.leaves())}
    found: dict[int, int] = {}
    attributes = call.attributes_as(CustomCallAttributes)
    for alias in parse_aliases(attributes.output_to_operand_aliasing):
        if alias.parameter_index or alias.output_index not in leaves:
            message = f"custom-call to '{attributes.custom_call_target}': output_to_operand_aliasing of tuples"
            raise Unsupported(message, call.span)
        found[alias.parameter_number] = leaves[alias.output_index]
    return found


def opaque_of(call: HloInstruction) -> bytes:
    """What a registered function gets of a call's backend config."""
    return call.raw_backend_config.encode("utf-8", "surrogateescape")


def unknown_target(instruction: HloInstruction, known: Iterable[str]) -> UnknownTarget:
    """Returns the error for a target that is not known; names that differ in a letter for the type are one entry."""
    letters: dict[str, list[str]] = {}
    for name in (*known, *registered_targets()):
        lapack = re.fullmatch(r"(lapack_)([sdcz])(\w+)", name)
        letters.setdefault(f"lapack_?{lapack[3]}" if lapack else name, []).append(lapack[2] if lapack else "")
    entries = [name.replace("?", f"[{''.join(sorted(found))}]") for name, found in sorted(letters.items())]
    attributes = instruction.attributes_as(CustomCallAttributes)
    is_typed = attributes.api_version == "API_VERSION_TYPED_FFI"
    return UnknownTarget(attributes.custom_call_target, entries, is_typed=is_typed, span=instruction.span)


def check_registered_call(instruction: HloInstruction) -> None:
    """Errors: Unsupported if a call to a registered function does not have the interface of such functions."""
    attributes = instruction.attributes_as(CustomCallAttributes)
    target, version = attributes.custom_call_target, attributes.api_version
    if version not in REGISTERED_API_VERSIONS:
        raise Unsupported(
            f"custom-call to '{target}' with {version}: the interface of registered functions is one of "
            f"{', '.join(REGISTERED_API_VERSIONS[1:])}",
            instruction.span,
        )
    shape = instruction.shape
    results = shape.tuple_shapes if shape.is_tuple else (shape,)
    values = [*(o.shape for o in instruction.operands), *results]
    for value in values:
        if not value.is_array or not value.is_static or (value.layout is not None and value.layout.tiles):
            raise Unsupported(
                f"custom-call to '{target}' with a value {value}: expected static, untiled arrays",
                instruction.span,
            )
