"""Rewrites by the equations of `algebra/`, until none applies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cache

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait, opcodes_with
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.rewriting import Rule, Rules, apply_rules_to_all, rule_table
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.table import ALGEBRA


@dataclass
class AlgebraicSimplifier(HloModulePass):
    """Applies the rules of `algebra/` that its options allow.

    Rules that change values need `xla_compatible_fp` (what XLA does all the same) or `enable_fast_math` (real
    arithmetic, and that). Layout-sensitive, a rule must keep the layout of what it replaces. `minmax_propagate_nan`
    says that maximum and minimum of a NaN are NaN.
    """

    name = "algebraic-simplifier"
    aliases = ("algsimp",)
    is_layout_sensitive: bool = False
    xla_compatible_fp: bool = False
    enable_fast_math: bool = False
    enable_dot_strength_reduction: bool = True
    supports_non_canonical_dots: bool = True
    enable_dot_to_multiply_rewrite: bool = True
    enable_conv_simplification: bool = True
    enable_conv_operand_swap: bool = True
    enable_scalar_multiply_reduction: bool = False
    enable_window_reduce_to_reduce_replacement: bool = True
    enable_reduce_of_reshape: bool = True
    enable_negative_padding_replacement: bool = True
    enable_sink_broadcast: bool = True
    enable_unconditional_reduce_of_concat_replacement: bool = True
    merge_reduce_of_reduce: bool = True
    simplify_small_gathers: bool = True
    minmax_propagate_nan: bool = True
    disable_dynamic_slice_to_slice_conversion: bool = False
    enable_remove_no_op_reduce_precision: bool = False
    enable_conditional_simplification: bool = False
    use_associative_reordering: bool = False
    enable_transpose_into_scatter: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        rules = _table(frozenset(f.name for f in fields(self) if getattr(self, f.name)))
        return apply_rules_to_all(selected_computations(module, execution_threads), rules, _is_plain, self._may_replace)

    def _may_replace(self, old: HloInstruction, new: HloInstruction) -> bool:
        """Whether shape, layout (if it matters, as it does to bitcasts), sharding and frontend attributes are kept."""
        if not new.shape.compatible(old.shape) or (old.sharding is not None and new.sharding != old.sharding):
            return False
        if old.frontend_attributes and new.frontend_attributes != old.frontend_attributes:
            return False
        if not old.shape.is_static and _lacks_size(new):
            return False
        if old.shape.layout == new.shape.layout:
            return True
        return not self.is_layout_sensitive and all(user.opcode != "bitcast" for user in old.users)


_OPTIONS = {
    Exactness.XLA: frozenset({"xla_compatible_fp", "enable_fast_math"}),
    Exactness.REAL: frozenset({"enable_fast_math"}),
}


def is_allowed(rule: AlgebraRule, options: frozenset[str]) -> bool:
    """Whether the options that are on allow a rule."""
    if rule.exactness in _OPTIONS and not options & _OPTIONS[rule.exactness]:
        return False
    needed = rule.option
    return not needed or (needed[1:] not in options if needed.startswith("!") else needed in options)


@cache
def _table(options: frozenset[str]) -> Rules:
    return rule_table(Rule(f"{r.id}: {r.equation}", r.pattern, r.rewrite) for r in ALGEBRA if is_allowed(r, options))


_KEEPS_SIZES = frozenset(
    [*opcodes_with(Trait.ELEMENTWISE), "broadcast", "custom-call", "get-tuple-element", "transpose"]
)
"""Opcodes whose rules hold for dynamic dimensions as well: elements stay what they are, and as many."""


def _is_plain(instruction: HloInstruction) -> bool:
    if not instruction.shape.is_static and instruction.opcode not in _KEEPS_SIZES:
        return False
    return not has_control_dependencies(instruction)


def _lacks_size(new: HloInstruction) -> bool:
    """Whether a replacement, or an operand of it, is a broadcast into a dynamic dimension, whose size nothing says."""
    for i in (new, *new.operands):
        if i.opcode == "broadcast" and not i.shape.is_static:
            kept = i.attributes_as(at.DimensionsAttributes).dimensions
            if any(i.shape.is_dynamic_dimension(d) for d in range(i.shape.rank) if d not in kept):
                return True
    return False
