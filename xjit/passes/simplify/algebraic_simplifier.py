"""Rewrites by the equations of `algebra/`, until none applies."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cache, partial

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait, opcodes_with
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.rewriting import Rewrite, Rule, Rules, apply_rules_to_all, rule_table, takes_sharding
from xjit.passes.simplify.algebra.ranges import RANGE_RULES
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.table import ALGEBRA


@dataclass
class AlgebraicSimplifier(HloModulePass):
    """Applies the rules of `algebra/` that its options allow.

    Rules that change values need `xla_compatible_fp` (what XLA does all the same) or `enable_fast_math` (real
    arithmetic, and that). Layout-sensitive, a rule must keep the layout of what it replaces. `minmax_propagate_nan`
    says that maximum and minimum of a NaN are NaN. InvalidArgument for `enable_onednn_support`: nothing here hands
    convolutions to oneDNN.
    """

    name = "algebraic-simplifier"
    aliases = ("algsimp",)
    is_local = True
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
    associative_reordering_threshold: float = 2.0
    raise_slice_and_reduce_through_dot: bool = False
    raise_slice_and_reduce_through_dot_threshold: float = 2.0
    enable_fold_transpose_into_scatter: bool = False
    enable_folding_pad_into_convolution: bool = True
    enable_dynamic_update_slice_to_pad_replacement: bool = True
    enable_broadcast_degenerate_dimension: bool = True
    enable_hoist_transpose_of_reshape: bool = False
    enable_move_dot_param_to_rhs: bool = False
    enable_conv_add_multiply_reorder: bool = False
    enable_floats_are_real: bool = False
    use_convert_constant_folding: bool = False
    unconditionally_simplify_reduce_of_transpose_or_reshape: bool = False
    rewrite_reshape_transpose_as_slice_concatenate: bool = True
    rewrite_no_op_bitcast_convert_to_bitcast: bool = False
    executing_on_cpu: bool = False
    enable_onednn_support: bool = False
    very_small_gather_size: int = 4
    run_to_fixed_point: bool = True

    def __post_init__(self) -> None:
        if self.enable_onednn_support:
            raise InvalidArgument(f"{self.name}: enable_onednn_support: there is no oneDNN here that took convolutions")

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        options = {f.name: getattr(self, f.name) for f in fields(self)}
        rules = _table(frozenset(n for n, v in options.items() if v is True), *[options[n] for n in _VALUES])
        computations = self.unsettled(selected_computations(module, execution_threads))
        return apply_rules_to_all(computations, rules, _is_plain, self._may_replace, not self.run_to_fixed_point)

    def _may_replace(self, old: HloInstruction, new: HloInstruction) -> bool:
        """Whether shape, layout (if it matters, as it does to bitcasts), sharding and frontend attributes are kept.

        A replacement without a sharding takes it.
        """
        if not new.shape.compatible(old.shape):
            return False
        if old.frontend_attributes and new.frontend_attributes != old.frontend_attributes:
            return False
        if not old.shape.is_static and _lacks_size(new):
            return False
        matters = self.is_layout_sensitive or any(user.opcode == "bitcast" for user in old.users)
        if matters and old.shape.layout != new.shape.layout:
            return False
        return takes_sharding(old, new)


_OPTIONS = {
    Exactness.XLA: frozenset({"xla_compatible_fp", "enable_fast_math", "enable_floats_are_real"}),
    Exactness.REAL: frozenset({"enable_fast_math", "enable_floats_are_real"}),
}


def is_allowed(rule: AlgebraRule, options: frozenset[str]) -> bool:
    """Whether the options that are on allow a rule."""
    if rule.exactness in _OPTIONS and not options & _OPTIONS[rule.exactness]:
        return False
    return all(any(_is_met(o, options) for o in needed.split("|")) for needed in rule.option.split())


def _is_met(option: str, options: frozenset[str]) -> bool:
    return option[1:] not in options if option.startswith("!") else option in options


_VALUES = tuple(dict.fromkeys(rule.value[1] for rule in ALGEBRA if rule.value is not None))
"""The options whose values rules get."""


@cache
def _table(options: frozenset[str], *values: float) -> Rules:
    value_of = dict(zip(_VALUES, values, strict=True))

    def rewrite_of(rule: AlgebraRule) -> Rewrite:
        return partial(rule.rewrite, **{rule.value[0]: value_of[rule.value[1]]}) if rule.value else rule.rewrite

    allowed = [rule for rule in ALGEBRA if is_allowed(rule, options)]
    rules = (Rule(f"{r.id}: {r.equation}", r.pattern, rewrite_of(r)) for r in allowed)
    return rule_table(rules, far=RANGE_RULES)


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
