"""Dots, with what is computed from them: one multiplication of the GEMM, or loops for other types, layouts that no
strides describe, and little work.

A dot's dimensions fall into batch, rows (of the left operand), columns (of the right) and contracted ones. Each has a
stride in every array, read off the layouts' maps; `blocking.dot_plan` makes one multiplication of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import dim, physical_map
from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.direct_plan import DirectProduct, plan_direct
from xjit.emitters.gemm.blocking.dot_plan import DotDimension, DotPlan, plan_dot
from xjit.emitters.gemm.blocking.facts import direct_facts, gemm_facts
from xjit.emitters.gemm.blocking.method import MAX_ROWS, GemmTypes, prefers_swap, transposed, with_unit
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.blocking.shapes import GemmParameters, GemmShape
from xjit.emitters.gemm.blocking.storage import FLOAT8, ROUNDED, UNSIGNED
from xjit.emitters.gemm.blocking.units import Unit
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.epilogue import epilogue_fact, place_of_sums
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.target import Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF, LLVMType, int_type

GEMM_TYPES = {
    PrimitiveType.F32: FLOAT,
    PrimitiveType.F64: DOUBLE,
    PrimitiveType.BF16: BFLOAT,
    PrimitiveType.F16: HALF,
} | FLOAT8
INTEGER_GEMM_TYPES = {
    kind: int_type(kind.bit_width) for kind in PrimitiveType if kind.is_integer and kind.bit_width >= 8
} | {PrimitiveType.U8: UNSIGNED}
MIN_GEMM_FLOPS = 2_000
EXACT_CONVERSIONS = {
    PrimitiveType.S8: (PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.F64),
    PrimitiveType.BF16: (PrimitiveType.F32, PrimitiveType.F64),
    PrimitiveType.F16: (PrimitiveType.F32, PrimitiveType.F64),
    PrimitiveType.F32: (PrimitiveType.F64,),
}
"""Element types that the GEMM may read instead of the converted ones."""
_SPLIT_ALGORITHMS = ("", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6")
"""Algorithms that six products of bf16 planes are exact enough for."""
_WIDENED = (PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16)
"""Integers that s32 operands may be converted from: the multiplication reads them, and sums in s32."""
TINY_FLOPS = 512  # of one of many multiplications: below this its loops, unrolled, beat a call of the GEMM
TINY_K = 8


@dataclass(frozen=True, slots=True)
class GemmWork:
    """The multiplication that a view's dot is; `operands` are the numbers of its left and right leaf.

    With an epilogue they are in the order that the GEMM wants, as it counts elements in that order. Sums are kept in
    result number `sums` (None: in scratch memory).
    """

    shape: GemmShape
    types: GemmTypes
    operands: tuple[int, int]
    sums: int | None
    has_epilogue: bool

    def plan(self, target: Target) -> GemmParameters:
        """How the library blocks it."""
        return plan_gemm(self.shape, self.types, target, may_swap=not self.has_epilogue, in_scratch=self.sums is None)

    def direct(self, target: Target) -> DirectProduct | None:
        """How it is done without the library, where that needs no copies."""
        return plan_direct(self.shape, self.types, self.plan(target), target, in_scratch=self.sums is None)

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """Its sizes, and how it is blocked."""
        plan, direct = self.plan(context.target), self.direct(context.target)
        facts = gemm_facts(self.shape, self.types, plan, register_tile(context.target, self.types))
        if direct is not None:
            facts |= direct_facts(direct)
        return facts | {"epilogue": epilogue_fact(self.has_epilogue, self.sums)}


def plan_dot_kernels(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a dot with conversions of its operands and what is computed from it: one GEMM call, or loops.

    Errors: Unsupported for an algorithm that is more exact than the multiplication would be.
    """
    _check_algorithm(view.hero)
    work = gemm_work(view, context.target)
    if work is None:
        return [*plan_loops(context, view)]
    return [HandWritten(view.instruction.name, "gemm", "blocked for registers and caches", work)]


def gemm_work(view: KernelView, target: Target) -> GemmWork | None:
    """Returns the multiplication that a view's dot is on a target; None if it is to be loops."""
    dot = view.hero
    sources = _sources(view)
    types = gemm_types(dot, sources) if sources is not None else None
    plan = plan_of(dot) if types is not None else None
    if plan is None or types is None or sources is None or _prefers_loops(plan.shape, types):
        return None
    has_epilogue = view.roots != (dot,)
    shape, swapped = plan.shape, plan.swapped
    few_columns = types.out.is_float and types.lhs is not types.rhs and shape.n <= MAX_ROWS < shape.m
    if few_columns or (has_epilogue and prefers_swap(shape, types)):  # the GEMM itself swaps operands of one type
        shape, swapped = transposed(shape), not swapped
    operands = tuple(view.leaves.index(source) for source in sources)
    if swapped:
        types, operands = GemmTypes(types.rhs, types.lhs, types.out), operands[::-1]
    types = _rounded(dot, types, target, shape) or with_unit(types, target, shape, planes=_may_split(dot))
    return GemmWork(shape, types, (operands[0], operands[1]), place_of_sums(view, types), has_epilogue)


def _check_algorithm(dot: HloInstruction) -> None:
    algorithm = dot.attributes_as(at.DotAttributes).algorithm
    kinds = [i.shape.element_type for i in (*dot.operands, dot)]
    if algorithm == "dot_f64_f64_f64" and PrimitiveType.F64 not in kinds:
        message = f"dot '{dot.name}' cannot be compiled: algorithm {algorithm} without an operand or result of f64"
        raise Unsupported(message, dot.span)


def _rounded(dot: HloInstruction, types: GemmTypes, target: Target, shape: GemmShape) -> GemmTypes | None:
    """The types with f32 operands rounded to bf16, where the dot's algorithm is that and a unit gains by it.

    Other algorithms that split f32 in bf16 are no more exact than what is used for f32.
    """
    if dot.attributes_as(at.DotAttributes).algorithm != "dot_bf16_bf16_f32":
        return None
    lhs, rhs = (ROUNDED[BFLOAT] if storage is FLOAT else storage for storage in (types.lhs, types.rhs))
    rounded = with_unit(GemmTypes(lhs, rhs, types.out), target, shape)
    return rounded if rounded.unit is not Unit.FMA else None


def _may_split(dot: HloInstruction) -> bool:
    """Whether a dot's algorithm and precision allow sums of bf16 products for f32."""
    attrs = dot.attributes_as(at.DotAttributes)
    return attrs.algorithm in _SPLIT_ALGORITHMS and "highest" not in attrs.operand_precision


def _sources(view: KernelView) -> list[HloInstruction] | None:
    """Returns the leaves that the operands of the view's dot are, or are converted from; None if it has others."""
    sources: list[HloInstruction] = []
    for operand in view.hero.operands:
        source = operand.operand(0) if operand.opcode == "convert" and operand not in view.leaves else operand
        if source not in view.leaves or source.shape.layout != operand.shape.layout:
            return None
        sources.append(source)
    return sources


def gemm_types(dot: HloInstruction, sources: Sequence[HloInstruction] | None = None) -> GemmTypes | None:
    """Returns the types of the multiplication that a dot (or convolution) is; None if the GEMM has no such types.

    `sources` are what its operands are converted from, if they are not in memory as they are. Integers are all of one
    type or signed, as then wrapping sums do not depend on the sign, or bytes, which know theirs.
    """
    if dot.operand_count != 2:
        return None
    kinds = [i.shape.element_type for i in (*dot.operands, dot)]
    if all(kind in GEMM_TYPES for kind in kinds):
        pairs = [(s.shape.element_type, kind) for s, kind in zip(sources or dot.operands, kinds)]
        lhs, rhs = (_storage_type(*pair) for pair in pairs)
        return GemmTypes(lhs, rhs, GEMM_TYPES[kinds[2]]) if lhs is not None and rhs is not None else None
    if sources is not None and any(a is not b for a, b in zip(sources, dot.operands)):
        kinds[:2] = [source.shape.element_type for source in sources]
        if kinds[2] is not PrimitiveType.S32 or not all(kind in _WIDENED for kind in kinds[:2]):
            return None
    if all(kind in INTEGER_GEMM_TYPES for kind in kinds) and (
        len(set(kinds)) == 1 or all(kind.is_signed or kind is PrimitiveType.U8 for kind in kinds[:2])
    ):
        lhs, rhs, out = (INTEGER_GEMM_TYPES[kind] for kind in kinds)
        return GemmTypes(lhs, rhs, out)
    return None


def _storage_type(source: PrimitiveType, kind: PrimitiveType) -> LLVMType | None:
    """The type as which the GEMM reads elements that are converted to `kind`; None if it cannot."""
    if source is kind:
        return GEMM_TYPES[kind]
    if kind in EXACT_CONVERSIONS.get(source, ()):
        return int_type(8) if source is PrimitiveType.S8 else GEMM_TYPES[source]
    return ROUNDED.get(GEMM_TYPES[kind]) if source is PrimitiveType.F32 else None


def _prefers_loops(shape: GemmShape, types: GemmTypes) -> bool:
    """Whether the loop kernel is faster: little work, many tiny multiplications, integer matrices by vectors."""
    if shape.flops < MIN_GEMM_FLOPS or (types.out.is_int and 1 in (shape.m, shape.n)):
        return True
    return shape.num_batches > 1 and shape.k <= TINY_K and shape.flops // shape.num_batches <= TINY_FLOPS


def plan_of(dot: HloInstruction) -> DotPlan | None:
    """Returns the multiplication that a dot is; None if strides cannot describe it, or it has no elements."""
    attrs = dot.attributes_as(at.DotAttributes)
    lhs_shape, rhs_shape = dot.operand(0).shape, dot.operand(1).shape
    lhs, rhs, out = (element_strides(s) for s in (lhs_shape, rhs_shape, dot.shape))
    if lhs is None or rhs is None or out is None or 0 in (*lhs_shape.dimensions, *rhs_shape.dimensions):
        return None
    sizes = lhs_shape.dimensions
    result = iter(out)  # batch, rows, columns: in that order
    batch = [
        DotDimension(sizes[a], lhs[a], rhs[b], next(result))
        for a, b in zip(attrs.lhs_batch_dims, attrs.rhs_batch_dims, strict=True)
    ]
    rows = [
        DotDimension(sizes[d], lhs=lhs[d], out=next(result))
        for d in range(lhs_shape.rank)
        if d not in attrs.lhs_batch_dims and d not in attrs.lhs_contracting_dims
    ]
    columns = [
        DotDimension(rhs_shape.dimensions[d], rhs=rhs[d], out=next(result))
        for d in range(rhs_shape.rank)
        if d not in attrs.rhs_batch_dims and d not in attrs.rhs_contracting_dims
    ]
    contracted = [
        DotDimension(sizes[a], lhs=lhs[a], rhs=rhs[b])
        for a, b in zip(attrs.lhs_contracting_dims, attrs.rhs_contracting_dims, strict=True)
    ]
    return plan_dot(batch, rows, columns, contracted)


def element_strides(shape: Shape) -> list[int] | None:
    """Returns the stride of every logical dimension in elements; None if the layout is tiled."""
    if shape.layout is not None and shape.layout.tiles:
        return None
    if not shape.rank:
        return []
    offset = physical_map(shape.dimensions, shape.minor_to_major, ()).map.results[0]
    terms = dict(offset.terms)
    return [terms.get(dim(d), 0) for d in range(shape.rank)]
