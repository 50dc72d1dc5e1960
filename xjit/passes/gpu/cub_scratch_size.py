"""Calls to CUB get the scratch memory that they need, and their final targets."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops.library_calls.targets import call_target
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

SORT_UNASSIGNED = "xla.gpu.ext.cub_sort_unassigned_scratch_size"
SORT_KEYS = "xla.gpu.ext.cub_sort_keys"
SORT_PAIRS = "xla.gpu.ext.cub_sort_pairs"
SCAN_UNASSIGNED = "xla.gpu.ext.cub_scan_unassigned_scratch_size"
SCAN = "xla.gpu.ext.cub_scan"

ALIGNMENT = 256
"""CUB aligns each of its temporary arrays to that many bytes."""
_DIGITS = 256  # values of a radix digit
_TILE = 1024  # elements per thread block, at least
_COUNTER_BYTES = 8
_SEGMENT_OFFSET_BYTES = 4


@dataclass
class _EstimateScratchSize(OpExpander):
    """Replaces (results.., u8[1]) of one unassigned target by the same call with its scratch size and final target.

    Sizes are bounds, computed from shapes: CUB itself, which XLA asks, is not there. Attributes are those of the typed
    FFI, in MLIR's text.
    """

    opcodes = frozenset({"custom-call"})
    unassigned = ""

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call with its scratch memory; None for other targets."""
        if call_target(instruction) != self.unassigned:
            return None
        *results, scratch = instruction.shape.tuple_shapes if instruction.shape.is_tuple else (instruction.shape,)
        if not results or scratch.element_type is not PrimitiveType.U8 or scratch.rank != 1:
            raise InvalidArgument(f"{instruction.name}: {self.unassigned} returns results and u8[1] of scratch memory")
        size = _aligned(self.scratch_bytes(instruction))
        shape = Shape.tuple_of([*results, Shape.array(PrimitiveType.U8, (size,))])
        target, config = self.call(instruction)
        attributes = replace(
            instruction.attributes_as(CustomCallAttributes),
            custom_call_target=target,
            api_version="API_VERSION_TYPED_FFI",
        )
        new = HloInstruction.create("custom-call", shape, instruction.operands, attributes, name=instruction.name)
        new.raw_backend_config = "{" + ", ".join(f"{name} = {value}" for name, value in config.items()) + "}"
        return into.add(new)

    @abstractmethod
    def scratch_bytes(self, call: HloInstruction) -> int:
        """Returns how many bytes of scratch memory a call may need."""

    @abstractmethod
    def call(self, call: HloInstruction) -> tuple[str, dict[str, str]]:
        """Returns the final target, and its attributes as MLIR text."""


@dataclass
class EstimateCubSortScratchSize(_EstimateScratchSize):
    """Gives radix sorts by CUB, of keys or of keys and values, their scratch memory.

    All dimensions but the minor-most are batch dimensions; what the segmented sort of a batch needs is included.
    """

    name = "estimate-cub-sort-scratch-size"
    unassigned = SORT_UNASSIGNED

    def scratch_bytes(self, call: HloInstruction) -> int:
        """A second array for each operand, counters of digits and of blocks, and where segments start."""
        keys = call.operand(0).shape
        arrays = sum(_aligned(_bytes(operand.shape)) for operand in call.operands)
        counters = _DIGITS * _COUNTER_BYTES * (_parts(keys.num_elements) + keys.element_type.bit_width)
        segments = _SEGMENT_OFFSET_BYTES * (_batch(keys) + 1)
        return arrays + _aligned(counters) + _aligned(segments)

    def call(self, call: HloInstruction) -> tuple[str, dict[str, str]]:
        """The order, and the number of sorts."""
        target = SORT_KEYS if call.operand_count == 1 else SORT_PAIRS
        descending = _flag(call, "descending")
        return target, {"descending": descending, "batch_size": f"{_batch(call.operand(0).shape)} : i64"}


@dataclass
class EstimateCubScanScratchSize(_EstimateScratchSize):
    """Gives prefix scans by CUB their scratch memory."""

    name = "estimate-cub-scan-scratch-size"
    unassigned = SCAN_UNASSIGNED

    def scratch_bytes(self, call: HloInstruction) -> int:
        """A partial result, an inclusive prefix and a state for each block."""
        shape = call.operand(0).shape
        return (2 * max(shape.element_type.bit_width // 8, 1) + _COUNTER_BYTES) * (_parts(shape.num_elements) + 32)

    def call(self, call: HloInstruction) -> tuple[str, dict[str, str]]:
        """The extents in front of, along and behind the scanned dimension, the operation, and the direction."""
        config: dict[str, Any] = call.parsed_backend_config
        numbers = {
            name: f"{int(config.get(name, 1))} : i64" for name in ("vector_length", "row_length", "column_length")
        }
        return SCAN, {**numbers, "kind": f"{int(config.get('kind', 0))} : i64", "is_reverse": _flag(call, "is_reverse")}


def _flag(call: HloInstruction, name: str) -> str:
    return "true" if call.parsed_backend_config.get(name) else "false"


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _bytes(shape: Shape) -> int:
    return shape.num_elements * -(-shape.element_type.bit_width // 8)


def _parts(elements: int) -> int:
    return -(-elements // _TILE)


def _batch(shape: Shape) -> int:
    """The number of rows; 1 for an array of one dimension."""
    return shape.num_elements // shape.dimensions[-1] if shape.rank and shape.dimensions[-1] else 1
