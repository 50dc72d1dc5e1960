"""The fastest algorithm of each library call is measured and written into its configuration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from dataclasses import field
from functools import partial
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo.attributes import CustomCallAttributes
from xjit.ops.library_calls.targets import MATMUL_TARGETS, call_target, library_config, with_changes
from xjit.passes.framework import match as m
from xjit.passes.framework.base import (
    HloModulePass,
    PassWarning,
    has_control_dependencies,
    selected_computations,
)
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.gpu.conv_calls import has_scratch, is_conv_call, result_shape, with_empty_scratch


@dataclass(frozen=True)
class Measured:
    """The algorithm that a measurement chose: its number, its scratch memory in bytes, and if it uses tensor cores."""

    algorithm: int
    scratch_bytes: int = 0
    tensor_ops_enabled: bool = False


DEFAULT = "-1"
"""The algorithm of a call for which none has been chosen."""

Measure = Callable[[HloInstruction], Measured | None]
Choices = dict[str, Measured | None]
"""What was measured, by device and the text of a call with its operands' shapes; None where nothing was chosen."""


def _choose(call: HloInstruction, measure: Measure, choices: Choices, device: str) -> Measured | None:
    """The measured choice for a call, once per device and text. Failed measurements warn and choose nothing."""
    shapes = ", ".join(str(o.shape) for o in call.operands)
    key = f"{device}: {call.shape} {call.attributes!r} ({shapes}) {call.backend_config}"
    if key not in choices:
        try:
            choices[key] = measure(call)
        except Exception as error:  # whatever it is, the default algorithm is there
            warnings.warn(f"no algorithm was measured for {call.name}: {error}", PassWarning, stacklevel=2)
            choices[key] = None
    return choices[key]


@dataclass
class GemmAlgorithmPicker(HloModulePass):
    """Writes `selected_algorithm` into matrix products that have none. Without `measure` nothing changes.

    `choices` is the cache of measurements; passes that share it measure a call once for each `device`, which is any
    text that describes one. `xjit.passes.gpu.autotuner` measures.
    """

    name = "gemm-algorithm-picker"
    measure: Measure | None = None
    choices: Choices = field(default_factory=dict)
    device: str = ""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Measures and writes, in all computations."""
        if self.measure is None:
            return False
        changed = False
        for computation in selected_computations(module, execution_threads):
            for call in computation.make_instruction_post_order():
                if call_target(call) not in MATMUL_TARGETS or _has_algorithm(call, "selected_algorithm"):
                    continue
                chosen = _choose(call, self.measure, self.choices, self.device)
                if chosen is not None:
                    call.backend_config = with_changes(call, {"selected_algorithm": str(chosen.algorithm)})
                    changed = True
        return changed


@dataclass
class GpuConvAlgorithmPicker(HloModulePass):
    """Gives convolution calls without an algorithm the measured one, and its scratch memory as a second result.

    Who reads a call gets a tuple like before. Without `measure` nothing changes; `choices` as for matrix products.
    """

    name = "gpu-conv-algorithm-picker"
    measure: Measure | None = None
    choices: Choices = field(default_factory=dict)
    device: str = ""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Measures and rewrites, in all computations."""
        if self.measure is None:
            return False
        pattern = m.op("custom-call").where(_needs_algorithm)
        rules = rule_table([Rule("algorithm", pattern, partial(self._pick, self.measure))])
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, rules)
        return changed

    def _pick(self, measure: Measure, match: Match, into: Expansion) -> HloInstruction | None:
        call = match.root
        chosen = _choose(call, measure, self.choices, self.device)
        if chosen is None:
            return None
        scratch = Shape.array(PrimitiveType.U8, (chosen.scratch_bytes,))
        shape = Shape.tuple_of([result_shape(call), scratch])
        attributes = call.attributes_as(CustomCallAttributes)
        new = HloInstruction.create("custom-call", shape, call.operands, attributes, name=call.name)
        numbers: dict[str, Any] = {
            "algorithm": str(chosen.algorithm),
            "tensor_ops_enabled": chosen.tensor_ops_enabled,
        }
        new.backend_config = with_changes(call, numbers)
        return with_empty_scratch(into, into.element(into.add(new), 0))


def _has_algorithm(call: HloInstruction, key: str) -> bool:
    """Whether an algorithm is chosen: XLA writes -1 for the default."""
    return str(library_config(call).get(key, DEFAULT)) != DEFAULT


def _needs_algorithm(call: HloInstruction) -> bool:
    return (
        is_conv_call(call)
        and not has_scratch(call)
        and not _has_algorithm(call, "algorithm")
        and not has_control_dependencies(call)
    )
