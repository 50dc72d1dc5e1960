"""The sets of rules that passes apply."""

from __future__ import annotations

from xjit.linalg_ext.rewrite.affine_rules import AFFINE_RULES
from xjit.linalg_ext.rewrite.arith_rules import ARITH_RULES
from xjit.linalg_ext.rewrite.constant_folding import FOLDING_RULES
from xjit.linalg_ext.rewrite.driver import RuleTable
from xjit.linalg_ext.rewrite.forall_rules import FORALL_RULES
from xjit.linalg_ext.rewrite.linalg_rules import LINALG_EXT_RULES, LINALG_RULES
from xjit.linalg_ext.rewrite.loop_rules import LOOP_RULES
from xjit.linalg_ext.rewrite.memref_rules import MEMREF_RULES
from xjit.linalg_ext.rewrite.packing_rules import PACKING_RULES
from xjit.linalg_ext.rewrite.parallel_rules import PARALLEL_RULES
from xjit.linalg_ext.rewrite.reshape_rules import RESHAPE_RULES
from xjit.linalg_ext.rewrite.tensor_rules import TENSOR_RULES

__all__ = ["CANONICALIZE", "CANONICALIZE_EXT"]

_PLAIN = (
    *ARITH_RULES,
    *FOLDING_RULES,
    *AFFINE_RULES,
    *TENSOR_RULES,
    *RESHAPE_RULES,
    *PACKING_RULES,
    *MEMREF_RULES,
    *LOOP_RULES,
    *FORALL_RULES,
    *PARALLEL_RULES,
    *LINALG_RULES,
)

CANONICALIZE = RuleTable(_PLAIN)
CANONICALIZE_EXT = RuleTable((*_PLAIN, *LINALG_EXT_RULES))
