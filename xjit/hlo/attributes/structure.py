"""Attributes of tuples, and of opcodes that run or call something else."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo.attributes.declaration import Attributes, attr
from xjit.hlo.attributes.values import ConvolutionDimensionNumbers, Window
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape


@dataclass(frozen=True, slots=True)
class GetTupleElementAttributes(Attributes):
    index: int = attr("int")


@dataclass(frozen=True, slots=True)
class FusionAttributes(Attributes):
    kind: str = attr("fusion_kind", "kLoop", always=True)
    output_to_operand_aliasing: str = attr("raw_braces", "")


@dataclass(frozen=True, slots=True)
class CallAttributes(Attributes):
    is_composite: bool = attr("bool", False)
    output_to_operand_aliasing: str = attr("raw_braces", "")


@dataclass(frozen=True, slots=True)
class CustomCallAttributes(Attributes):
    custom_call_target: str = attr("string")
    window: Window | None = attr("window", None)
    dim_labels: ConvolutionDimensionNumbers | None = attr("dim_labels", None)
    feature_group_count: int = attr("int", 1)
    batch_group_count: int = attr("int", 1)
    custom_call_has_side_effect: bool = attr("bool", False)
    operand_layout_constraints: tuple[Shape, ...] | None = attr("shape_list", None)
    output_to_operand_aliasing: str = attr("raw_braces", "")
    api_version: str = attr("api_version", "")
    schedule: str = attr("schedule", "")
    literal: Literal | None = attr("literal", None)
    padding_type: str = attr("padding_type", "")
    operand_precision: tuple[str, ...] = attr("precisions", ())


@dataclass(frozen=True, slots=True)
class DomainAttributes(Attributes):
    domain: str = attr("domain")


@dataclass(frozen=True, slots=True)
class CopyStartAttributes(Attributes):
    cross_program_prefetch_index: int | None = attr("int", None)


@dataclass(frozen=True, slots=True)
class AsyncAttributes(Attributes):
    async_group_id: int | None = attr("int", None)
    async_execution_thread: str = attr("string", "")
    output_to_operand_aliasing: str = attr("raw_braces", "")
