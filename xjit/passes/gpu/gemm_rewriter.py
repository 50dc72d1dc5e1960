"""Matrix products become calls to cuBLAS, with the scaling, the sum, the bias and the activation behind them."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.hlo.attributes import CustomCallAttributes, DimensionsAttributes
from xjit.ops.library_calls.gemm import GELU_CUBE, GELU_SCALE, dot_attributes
from xjit.ops.library_calls.targets import GEMM, GEMM_LT, GEMM_TARGETS, call_target, library_config
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.gpu.gemm_calls import (
    constant_factor,
    gemm_config,
    json_number,
    make_call,
    may_be_gemm,
    product_of_factors,
    replaced_call,
    wrapped,
)

_RUN_AS_THEY_ARE = frozenset({"call", "while", "conditional", "async-start"})
_TOLERANCE = 1e-4


@dataclass
class GemmRewriter(HloModulePass):
    """Writes a dot that is a matrix product as a call to `__cublas$gemm`, or with `use_cublaslt` to
    `__cublas$lt$matmul`, and folds into it what only it is read by:

    a factor, a constant for all elements, which becomes alpha; the sum with an array C, perhaps times a constant, which
    becomes beta; and for `__cublas$lt$matmul` the sum with a vector along the columns, max(., 0) and the tanh form of
    gelu. `__cublas$gemm` writes over C: C must be no parameter and have no other reader. `workspace_bytes` is the size
    of the scratch memory that calls return beside the result; `wrap_config` writes XLA's nested configuration. Dots of
    fewer than `size_threshold` multiplications stay.
    """

    name = "gemm-rewriter"
    use_cublaslt: bool = False
    fuse_bias: bool = True
    workspace_bytes: int = 0
    wrap_config: bool = False
    size_threshold: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites all computations but those that a reduction, a sort or the like calls for each element."""
        calls = rule_table(self._rules())
        workspaces = rule_table([Rule("workspace", _gemm(), self._with_workspace)])
        changed = False
        for computation in selected_computations(module, execution_threads):
            if not _runs_as_it_is(computation):
                continue
            changed |= apply_rules(computation, calls, _may_rewrite)
            if self.workspace_bytes:
                changed |= apply_rules(computation, workspaces, _may_rewrite)
        return changed

    def _rules(self) -> list[Rule]:
        gemm = _gemm().named("gemm").one_use()
        zero = m.splat(0.0)
        rules = [
            Rule("dot -> gemm", m.op("dot"), self._dot),
            Rule("k * gemm -> alpha", m.op("multiply", gemm, m.splat(name="k")), _fold_alpha),
        ]
        if self.fuse_bias:
            rules += [
                Rule("gemm + broadcast(v) -> bias", m.op("add", gemm, m.op("broadcast", name="bias")), _fold_vector),
                Rule("gemm + k * c -> beta", m.op("add", gemm, _scaled_c()), _fold_scaled_sum),
                Rule("gemm + c -> beta", m.op("add", gemm, m.any("c")), _fold_sum),
            ]
        rules.append(Rule("max(gemm, 0) -> relu", m.op("maximum", gemm, zero), _fold_relu))
        rules.append(Rule("gelu(gemm) -> gelu", m.op("multiply"), _fold_gelu))
        return rules

    def _dot(self, match: Match, into: Expansion) -> HloInstruction | None:
        dot = match.root
        if not may_be_gemm(dot) or _multiplications(dot) < self.size_threshold:
            return None
        use_lt = self.use_cublaslt and dot.operand(0).shape.element_type is not PrimitiveType.S8
        config = gemm_config(dot)
        target = GEMM_LT if use_lt else GEMM
        return into.add(make_call(target, dot.shape, dot.operands, wrapped(config) if self.wrap_config else config))

    def _with_workspace(self, match: Match, into: Expansion) -> HloInstruction | None:
        call = match.root
        if call.shape.is_tuple:
            return None
        aliasing = call.attributes_as(CustomCallAttributes).output_to_operand_aliasing
        shape = Shape.tuple_of([call.shape, Shape.array(PrimitiveType.S8, (self.workspace_bytes,))])
        new = make_call(
            call_target(call), shape, call.operands, call.parsed_backend_config, aliasing.replace("{}:", "{0}:")
        )
        return into.element(into.add(new), 0)


def _gemm() -> m.Pattern:
    return m.op("custom-call").where(lambda i: call_target(i) in GEMM_TARGETS and not i.shape.is_tuple)


def _scaled_c() -> m.Pattern:
    return m.op("multiply", m.any("c"), m.splat(name="k"), name="product").one_use()


def _runs_as_it_is(computation: HloComputation) -> bool:
    return all(c.opcode in _RUN_AS_THEY_ARE for c in computation.caller_instructions())


def _may_rewrite(instruction: HloInstruction) -> bool:
    return not has_control_dependencies(instruction)


def _multiplications(dot: HloInstruction) -> int:
    attributes = dot_attributes(gemm_config(dot))
    count = dot.shape.num_elements
    for d in attributes.lhs_contracting_dims:
        count *= dot.operand(0).shape.dimensions[d]
    return count


def _is_plain(gemm: HloInstruction, *epilogues: str) -> bool:
    """Whether nothing but alpha and one of these epilogues has been folded into a call."""
    config = library_config(gemm)
    return not config.get("beta") and config.get("epilogue", "DEFAULT") in (epilogues or ("DEFAULT",))


def _aliasing(gemm: HloInstruction) -> str:
    return gemm.attributes_as(CustomCallAttributes).output_to_operand_aliasing


def _fold_alpha(match: Match, into: Expansion) -> HloInstruction | None:
    gemm, factor = match["gemm"], constant_factor(match["k"])
    kind = gemm.shape.element_type
    if factor is None or kind.is_integer or not _is_plain(gemm):
        return None
    config = library_config(gemm)
    alpha = product_of_factors(kind, factor, complex(config.get("alpha_real", 1), config.get("alpha_imag", 0)))
    if alpha is None:
        return None
    numbers = {"alpha_real": json_number(alpha.real), "alpha_imag": json_number(alpha.imag)}
    return into.add(replaced_call(gemm, gemm.operands, _aliasing(gemm), **numbers))


def _fold_sum(match: Match, into: Expansion) -> HloInstruction | None:
    return _add_c(match["gemm"], match["c"], match["c"], 1, into)


def _fold_scaled_sum(match: Match, into: Expansion) -> HloInstruction | None:
    factor = constant_factor(match["k"])
    if factor is None or factor.imag or not factor.real:
        return None
    return _add_c(match["gemm"], match["c"], match["product"], factor.real, into)


def _add_c(
    gemm: HloInstruction, c: HloInstruction, summand: HloInstruction, beta: float, into: Expansion
) -> HloInstruction | None:
    """The call with `beta * c`; `summand` is what is added now, c or its product with a constant."""
    if gemm.shape.element_type.is_integer or not _is_plain(gemm, "DEFAULT", "BIAS"):
        return None
    if c.shape != gemm.shape or c.opcode in ("constant", "broadcast") or c is gemm:
        return None
    may_overwrite = c.user_count == 1 and c.opcode != "parameter" and not c.is_root() and summand.user_count == 1
    if not may_overwrite and call_target(gemm) == GEMM:
        return None
    lhs, rhs, *bias = gemm.operands
    aliasing = "{{}: (2, {})}" if may_overwrite else ""
    return into.add(replaced_call(gemm, [lhs, rhs, c, *bias], aliasing, beta=json_number(beta)))


def _fold_vector(match: Match, into: Expansion) -> HloInstruction | None:
    """The sum with a vector that is broadcast along the columns of the result."""
    gemm, bias = match["gemm"], match["bias"]
    vector, rank = bias.operand(0), gemm.shape.rank
    count = vector.shape.rank
    dot = dot_attributes(library_config(gemm))
    columns = gemm.operand(1).shape.rank - len(dot.rhs_batch_dims) - len(dot.rhs_contracting_dims)
    dimensions = bias.attributes_as(DimensionsAttributes).dimensions
    if call_target(gemm) != GEMM_LT or not gemm.shape.element_type.is_float or not count or count != columns:
        return None
    is_row_major = gemm.shape.is_row_major and vector.shape.is_row_major
    if library_config(gemm).get("epilogue") != "DEFAULT" or not is_row_major:
        return None
    if dimensions != tuple(range(rank - count, rank)) or vector.shape.element_type is not gemm.shape.element_type:
        return None
    return into.add(replaced_call(gemm, [*gemm.operands, vector], _aliasing(gemm), epilogue="BIAS"))


def _fold_relu(match: Match, into: Expansion) -> HloInstruction | None:
    return _activate(match["gemm"], "RELU", into)


def _activate(gemm: HloInstruction, activation: str, into: Expansion) -> HloInstruction | None:
    epilogue = library_config(gemm).get("epilogue")
    if call_target(gemm) != GEMM_LT or not gemm.shape.element_type.is_float or epilogue not in ("DEFAULT", "BIAS"):
        return None
    folded = activation if epilogue == "DEFAULT" else f"BIAS_{activation}"
    return into.add(replaced_call(gemm, gemm.operands, _aliasing(gemm), epilogue=folded))


def _near(value: float) -> m.Pattern:
    def is_near(broadcast: HloInstruction) -> bool:
        found = constant_factor(broadcast.operand(0))
        return found is not None and abs(found - value) <= _TOLERANCE * abs(value)

    return m.splat().where(is_near)


def _fold_gelu(match: Match, into: Expansion) -> HloInstruction | None:
    """x * (0.5 * (1 + tanh(s * (x + c * x^3)))), where all readers of x, a call, are in this expression."""
    found = _GELU.match(match.root)
    if found is None or found["x"].user_count != _READERS_IN_GELU or found["x"].is_root():
        return None
    return _activate(found["x"], "GELU", into)


_X = _gemm().named("x")
_SQUARE = m.op("multiply", _X, _X).one_use()
_CUBE = m.op("multiply", _X, _SQUARE).one_use()
_INNER = m.op("add", _X, m.op("multiply", _CUBE, _near(GELU_CUBE)).one_use()).one_use()
_TANH = m.op("tanh", m.op("multiply", _INNER, _near(GELU_SCALE)).one_use()).one_use()
_GATE = m.op("multiply", m.op("add", _TANH, _near(1.0)).one_use(), _near(0.5)).one_use()
_GELU = m.op("multiply", _X, _GATE)
_READERS_IN_GELU = 4
