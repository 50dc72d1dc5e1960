"""`HloModuleConfig`: everything about a module that is not its graph, and the program shapes that it starts from."""

from __future__ import annotations

import copy
from dataclasses import field, fields, replace
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo.annotations.alias_config import Alias, BufferDonor
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape import Shape


@dataclass(slots=True)
class ComputationLayout:
    """The layouts that callers see: shapes of parameters and result with their layouts."""

    parameter_shapes: list[Shape]
    result_shape: Shape


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The signature of a computation. `parameter_names` is empty or has one name per parameter."""

    parameters: tuple[Shape, ...]
    result: Shape
    parameter_names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = self.parameter_names or tuple(f"p{i}" for i in range(len(self.parameters)))
        return f"({', '.join(f'{n}: {s}' for n, s in zip(names, self.parameters))}) -> {self.result}"


@dataclass(slots=True)
class HloModuleConfig:
    """Options of a module. `header_attributes` keeps the rest of the `HloModule` line as text.

    Typed views on that text (shardings, ...) are properties of HloModule: the text is the only copy.
    """

    entry_computation_layout: ComputationLayout | None = None
    replica_count: int = 1
    num_partitions: int = 1
    seed: int = 0
    use_spmd_partitioning: bool = False
    intra_op_parallelism_threads: int = 0
    alias_passthrough_params: bool = False
    input_output_alias: tuple[Alias, ...] = ()
    buffer_donors: tuple[BufferDonor, ...] = ()
    header_attributes: dict[str, str] = field(default_factory=dict)  # further `key=value` of the HloModule line
    debug_options: dict[str, Any] = field(default_factory=dict)
    device_assignment: tuple[tuple[int, ...], ...] = ()  # [replica][partition] -> device; empty: not assigned

    def __deepcopy__(self, memo: dict[int, Any]) -> HloModuleConfig:
        """Copies what can change: the lists and dictionaries. `copy` itself takes far longer."""
        layout = self.entry_computation_layout
        return replace(
            self,
            entry_computation_layout=layout and ComputationLayout(list(layout.parameter_shapes), layout.result_shape),
            header_attributes=dict(self.header_attributes),
            debug_options=copy.deepcopy(self.debug_options, memo),
        )


def create_module_config_from_shape(
    program_shape: ProgramShape, layout: ComputationLayout | None = None, **options: Any
) -> HloModuleConfig:
    """Returns a config for a signature; `options` are further fields (replica_count, num_partitions, seed, ...).

    `layout` overrides the layouts of the signature and must have its dimensions; arrays without a layout are row-major.
    Errors: InvalidArgument for an unknown option, a count below one, or a layout of other shapes.
    """
    if layout is None:
        layout = ComputationLayout(list(program_shape.parameters), program_shape.result)
    _check_layout(program_shape, layout)
    laid_out = [shape.with_default_layouts() for shape in layout.parameter_shapes]
    config = HloModuleConfig(ComputationLayout(laid_out, layout.result_shape.with_default_layouts()))
    return with_options(config, **options)


def with_options(config: HloModuleConfig, **options: Any) -> HloModuleConfig:
    """Returns the config with other values of some fields; InvalidArgument for an unknown one or a count below one."""
    known = {f.name for f in fields(HloModuleConfig)}
    if unknown := sorted(options.keys() - known):
        raise InvalidArgument(f"unknown module option {unknown[0]}; the options are {', '.join(sorted(known))}")
    for name in ("replica_count", "num_partitions"):
        if options.get(name, 1) < 1:
            raise InvalidArgument(f"{name} must be at least 1, not {options[name]}")
    return replace(config, **options)


def _check_layout(program_shape: ProgramShape, layout: ComputationLayout) -> None:
    wanted, given = program_shape.parameters, layout.parameter_shapes
    if len(wanted) != len(given):
        raise InvalidArgument(f"the program has {len(wanted)} parameters, the layout {len(given)}")
    pairs = [(f"parameter {i}", *pair) for i, pair in enumerate(zip(wanted, given, strict=True))]
    for what, shape, laid_out in [*pairs, ("the result", program_shape.result, layout.result_shape)]:
        if not shape.compatible(laid_out):
            raise InvalidArgument(f"{what} has shape {shape}, its layout is for {laid_out}")
