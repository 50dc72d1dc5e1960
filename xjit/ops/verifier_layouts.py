"""Rules about layouts, for modules whose layouts are final: what may change an order of dimensions or a memory space.

Tiles and memory spaces may differ more often than the order, as they belong to the place where an array lies.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.diagnostics import HloVerifyError
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.verifier_options import VerifierOptions

_DEFAULT_SPACE, _FAST_SPACE, _HOST_SPACE = 0, 1, 5

_GIVES_WHAT_IT_READS = frozenset({
    "call", "conditional", "constant", "copy-done", "copy-start", "custom-call", "dynamic-update-slice", "fusion",
    "get-tuple-element", "infeed", "outfeed", "opt-barrier", "parameter", "recv", "recv-done", "send", "send-done",
    "tuple", "while",
})  # fmt: skip
_ORDER_ONLY = frozenset(("constant", "copy-start", "dynamic-update-slice", "infeed", "outfeed", "recv", "send"))
"""Among them, these take tiles and memory spaces from the transfer, not from the operand."""

_CALLS = frozenset(("call", "fusion", "while", "conditional"))
_KEEPS_ORDER = frozenset(name for name, op in OPCODES.items() if op.has(Trait.ELEMENTWISE) and name != "copy") | {
    "add-dependency", "concatenate", "dynamic-slice", "dynamic-update-slice", "map", "pad", "reduce-window", "reverse",
    "select-and-scatter", "set-dimension-size", "slice", "sort",
}  # fmt: skip
"""Their result has the order of each array operand of the same rank."""


def check_layouts(instruction: HloInstruction, inferred: Shape, options: VerifierOptions) -> None:
    """Raises HloVerifyError if an instruction changes layouts that it passes on; `inferred` is its operands'."""
    opcode = instruction.opcode
    if opcode in _GIVES_WHAT_IT_READS:
        what = f"{opcode}: result and what the operands give"
        check_same_layouts(instruction.shape, inferred, opcode in _ORDER_ONLY, what)
    may_change = options.instruction_can_change_layout
    keeps_order = opcode in _KEEPS_ORDER if may_change is None else not may_change(instruction)
    if keeps_order and instruction.shape.is_array:
        _check_order(instruction)
    if opcode in _CALLS:
        _check_calls(instruction)
    elif opcode == "bitcast":
        _check_bitcast(instruction, options.shape_size)
    elif opcode == "copy-done":
        target, source = instruction.operand(0).shape.tuple_shapes[:2]
        check_same_layouts(target, source, True, "copy-done: target and source")
    elif opcode in ("dynamic-slice", "dynamic-update-slice"):
        _check_spaces(instruction)


def check_same_layouts(a: Shape, b: Shape, order_only: bool, what: str) -> None:
    """Raises HloVerifyError that names the first array whose layout differs; absent layouts are row-major."""
    if a is b:
        return
    for (index, x), (_, y) in zip(a.leaves(), b.leaves(), strict=True):
        same = x.minor_to_major == y.minor_to_major
        if same and not order_only and x.layout is not None and y.layout is not None:
            same = x.layout == y.layout
        if not same:
            place = f" at index {{{','.join(map(str, index))}}}" if index else ""
            raise HloVerifyError(f"{what}: layouts differ{place}, {x} and {y}")


def _check_order(instruction: HloInstruction) -> None:
    result = instruction.shape
    for operand in instruction.operands:
        shape = operand.shape
        if shape.is_array and shape.rank == result.rank and shape.minor_to_major != result.minor_to_major:
            message = f"{instruction.opcode}: the layout must not change, operand {operand.name} is {shape}, "
            raise HloVerifyError(f"{message}the result {result}")


def _check_calls(instruction: HloInstruction) -> None:
    opcode = instruction.opcode
    for i, computation in enumerate(instruction.called_computations):
        operands = [instruction.operand(i + 1)] if opcode == "conditional" else instruction.operands
        for parameter, operand in zip(computation.parameter_instructions, operands, strict=True):
            what = f"{opcode}: operand {operand.name} and parameter of {computation.name}"
            check_same_layouts(operand.shape, parameter.shape, False, what)
        if opcode == "while" and i == 0:
            continue  # the condition's result is a predicate
        what = f"{opcode}: result and root of {computation.name}"
        check_same_layouts(instruction.shape, computation.root_instruction.shape, False, what)


def _space(shape: Shape) -> int:
    return shape.layout.memory_space if shape.layout is not None else _DEFAULT_SPACE


def check_no_host_memory(shape: Shape) -> None:
    """Raises HloVerifyError if an array lies in the memory of the host."""
    if any(_space(leaf) == _HOST_SPACE for _, leaf in shape.leaves()):
        raise HloVerifyError(f"{shape} lies in the memory of the host, S({_HOST_SPACE})")


def _check_bitcast(bitcast: HloInstruction, shape_size: Callable[[Shape], int] | None) -> None:
    """A bitcast moves nothing between host and device; only constants may be made in either."""
    source = bitcast.operand(0)
    if shape_size is not None and (before := shape_size(source.shape)) != (after := shape_size(bitcast.shape)):
        raise HloVerifyError(f"bitcast: the operand takes {before} bytes, the result {after}")
    while source.opcode == "copy":
        source = source.operand(0)
    spaces = [_space(bitcast.operand(0).shape), _space(bitcast.shape)]
    if source.opcode != "constant" and (spaces[0] == _HOST_SPACE) != (spaces[1] == _HOST_SPACE):
        raise HloVerifyError(f"bitcast: the memory space must not change, from S({spaces[0]}) to S({spaces[1]})")


def _check_spaces(instruction: HloInstruction) -> None:
    """A slice may be read from the host, and an update written there, but not the other way round."""
    result = _space(instruction.shape)
    forbidden = {
        "dynamic-slice": (_DEFAULT_SPACE, _HOST_SPACE),
        "dynamic-update-slice": (_HOST_SPACE, _DEFAULT_SPACE),
    }[instruction.opcode]
    for operand in instruction.operands:
        space = _space(operand.shape)
        if operand.shape.rank != instruction.shape.rank:
            continue
        if (space, result) == forbidden or (space == _FAST_SPACE and result != _FAST_SPACE):
            message = f"the memory space must not change from S({space}) to S({result})"
            raise HloVerifyError(f"{instruction.opcode}: {message}")
