"""Calls to cuBLAS as cublasLt does them: which matrices the arrays are, and what the library cannot do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import NoReturn, cast

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.library_calls.gemm import F8_TYPES, dot_attributes, operand_roles, product_shape, result_roles
from xjit.ops.library_calls.targets import library_config
from xjit.thunks.matmul_spec import MatmulSpec, Products, Role, StoredMatrices

P = PrimitiveType

_KINDS: Mapping[PrimitiveType, tuple[Products, frozenset[PrimitiveType]]] = {
    P.F64: ("f64", frozenset({P.F64})),
    P.C128: ("f64", frozenset({P.C128})),
    P.F32: ("f32", frozenset({P.F32})),
    P.C64: ("f32", frozenset({P.C64})),
    P.BF16: ("f32", frozenset({P.BF16, P.F32})),
    P.F16: ("f32", frozenset({P.F16, P.F32})),
    P.S8: ("s32", frozenset({P.S32})),
    P.F8E4M3FN: ("f32", frozenset({P.BF16, P.F16, P.F32, P.F8E4M3FN})),
    P.F8E5M2: ("f32", frozenset({P.BF16, P.F16, P.F32, P.F8E4M3FN, P.F8E5M2})),
}
"""By the type of the operands: how products are made, and the types that the result may have."""

_ROUNDED: Mapping[str, Products] = {
    "dot_tf32_tf32_f32": "tf32",
    "dot_bf16_bf16_f32": "bf16",
    "dot_f16_f16_f32": "f16",
}
"""Algorithms of a dot that let f32 operands be rounded."""

_MULTIPLES = {P.S8: 4, P.F8E4M3FN: 16, P.F8E5M2: 16}
"""Of operands of 8 bits, all sizes but the columns of the result must be multiples of these."""

_AUX_MULTIPLE = 8
"""The same of the leading dimension of what an activation is applied to, where it is asked for."""


@dataclass(frozen=True, slots=True)
class _Matrices:
    """An array as `count` matrices: sizes, and steps between neighbours in elements; 0 where a size is 1."""

    count: int
    stride: int
    rows: int
    row_step: int
    columns: int
    column_step: int

    @property
    def is_row_major(self) -> bool:
        """Whether rows lie along memory."""
        return self.columns == 1 or self.column_step == 1

    def stored(self, kind: PrimitiveType) -> StoredMatrices | None:
        """As the library has them, columns first: what is row-major as its transpose. None if neither is right."""
        first, second, first_step, step = self.rows, self.columns, self.row_step, self.column_step
        if self.is_row_major:
            first, second, first_step, step = second, first, step, first_step
        leading = first if second == 1 else step
        if (first > 1 and first_step != 1) or leading < first:
            return None
        return StoredMatrices(kind, first, second, leading, self.stride if self.count > 1 else first * second)


def matmul_spec(call: HloInstruction, operands: Sequence[HloInstruction] | None = None) -> MatmulSpec:
    """Returns what the library has to do for a call to one of MATMUL_TARGETS.

    `operands` are those that the step is given, each once; by default the call's. Errors: Unsupported names what the
    library cannot do.
    """
    config = library_config(call)
    dot, roles = dot_attributes(config), operand_roles(call)
    given = dict(zip(roles, call.operands, strict=True))
    result = product_shape(call)
    kinds = [o.shape.element_type for o in call.operands[:2]]
    products = _products(call, kinds, result.element_type, dot.algorithm)
    left = _matrices(call, call.operand(0).shape, dot.lhs_batch_dims, None, dot.lhs_contracting_dims)
    right = _matrices(call, call.operand(1).shape, dot.rhs_batch_dims, dot.rhs_contracting_dims, None)
    batch = range(len(dot.lhs_batch_dims))
    rows = call.operand(0).shape.rank - len(batch) - len(dot.lhs_contracting_dims)
    out = _matrices(call, result, batch, range(len(batch), len(batch) + rows), None)
    d = _stored(call, out, result.element_type)
    stored = [_stored(call, m, kind) for m, kind in zip((left, right), kinds, strict=True)]
    transposes = [m.is_row_major != out.is_row_major for m in (left, right)]
    names: tuple[str, str] = ("a", "b")
    if out.is_row_major:  # the product of the transposes, in the other order
        stored, transposes, names = stored[::-1], transposes[::-1], ("b", "a")
    epilogue = config.get("epilogue", "DEFAULT").removeprefix("BIAS").strip("_").removesuffix("_AUX").lower()
    swapped = {**{role: role for role in roles}, "a": names[0], "b": names[1]}
    if "a_scale" in roles:
        swapped |= {"a_scale": f"{names[0]}_scale", "b_scale": f"{names[1]}_scale"}
    results = result_roles(call)
    bias_kind = given["bias"].shape.element_type if "bias" in given else result.element_type
    table = list(operands if operands is not None else call.operands)
    places = [(swapped[role], table.index(operand)) for role, operand in zip(roles, call.operands, strict=True)]
    places += [(role, len(table) + n) for n, role in enumerate(results)]
    spec = MatmulSpec(
        a=stored[0],
        b=stored[1],
        d=d,
        c_kind=given["c"].shape.element_type if "c" in given else _wider(bias_kind),
        bias_kind=bias_kind,
        transpose_a=transposes[0],
        transpose_b=transposes[1],
        count=out.count,
        steps=left.columns,
        products=products,
        alpha=complex(config.get("alpha_real", 1), config.get("alpha_imag", 0)),
        beta=float(config.get("beta", 0)),
        activation=epilogue if epilogue in ("relu", "gelu") else "",
        places=cast("tuple[tuple[Role, int], ...]", tuple(places)),
        workspace_bytes=call.shape.tuple_shapes[-1].byte_size if "workspace" in results else 0,
        algorithm=max(int(config.get("selected_algorithm", -1)), -1),
    )
    _check(call, spec, given, result, out.is_row_major)
    return spec


def _wider(kind: PrimitiveType) -> PrimitiveType:
    """The type that the library wants of an array C that is not there: it has none of 8 bits."""
    return P.BF16 if kind in F8_TYPES else kind


def _refuse(call: HloInstruction, why: str) -> NoReturn:
    raise Unsupported(f"gemm '{call.name}': cublasLt has no product {why}", call.span)


def _products(call: HloInstruction, kinds: Sequence[PrimitiveType], result: PrimitiveType, algorithm: str) -> Products:
    found = _KINDS.get(kinds[0])
    is_mixed = kinds[0] is not kinds[1]
    if found is None or result not in found[1] or (is_mixed and not F8_TYPES.issuperset(kinds)):
        _refuse(call, f"of {kinds[0].text} and {kinds[1].text} as {result.text}")
    if kinds == [P.F8E5M2, P.F8E5M2]:
        _refuse(call, "of f8e5m2 and f8e5m2")
    return _ROUNDED.get(algorithm, found[0]) if kinds[0] is P.F32 else found[0]


def _matrices(
    call: HloInstruction,
    shape: Shape,
    batch: Sequence[int],
    rows: Sequence[int] | None,
    columns: Sequence[int] | None,
) -> _Matrices:
    """`rows` or `columns`: None for all dimensions that the others leave."""
    rest = [d for d in range(shape.rank) if d not in (*batch, *(rows or ()), *(columns or ()))]
    groups = [_merged(shape, rest if group is None else group) for group in (batch, rows, columns)]
    if None in groups or not shape.is_static:
        _refuse(call, f"for the layout or the dimensions of {shape}")
    (count, stride), (m, row_step), (n, column_step) = [group for group in groups if group is not None]
    return _Matrices(count, stride, m, row_step, n, column_step)


def _merged(shape: Shape, dimensions: Sequence[int]) -> tuple[int, int] | None:
    """The number of elements along some dimensions, the last of which changes first, and the step between them."""
    steps, size = [0] * shape.rank, 1
    for d in shape.minor_to_major:
        steps[d], size = size, size * shape.dimensions[d]
    kept = [d for d in dimensions if shape.dimensions[d] != 1]
    if any(steps[d] != steps[e] * shape.dimensions[e] for d, e in pairwise(kept)):
        return None
    return prod(shape.dimensions[d] for d in kept), steps[kept[-1]] if kept else 0


def _stored(call: HloInstruction, matrices: _Matrices, kind: PrimitiveType) -> StoredMatrices:
    stored = matrices.stored(kind)
    if stored is None:
        _refuse(call, "of matrices whose rows and columns do not lie along memory")
    return stored


def _check(
    call: HloInstruction, spec: MatmulSpec, given: Mapping[str, HloInstruction], result: Shape, row_major: bool
) -> None:
    """Refuses sizes and epilogues that the library does not have."""
    sizes = (spec.d.rows, spec.d.columns, spec.steps)
    if 0 in (*sizes, spec.count):
        _refuse(call, "of empty matrices")
    multiple = _MULTIPLES.get(spec.a.kind, 1)
    if multiple > 1:
        if not spec.transpose_a or spec.transpose_b:
            _refuse(call, f"of {spec.a.kind.text} unless both operands lie along the sum")
        numbers = (spec.d.rows, spec.steps, spec.a.leading, spec.b.leading, spec.d.leading)
        if any(number % multiple for number in numbers):
            _refuse(call, f"of {spec.a.kind.text} whose sizes are no multiples of {multiple}")
    if "c" in given and given["c"].shape.minor_to_major != result.minor_to_major:
        _refuse(call, "plus an array of another layout")
    if "bias" in given and (not row_major or given["bias"].shape.num_elements != spec.d.rows):
        _refuse(call, "with a bias that is no row of it")
    if "aux" in spec.roles and spec.d.leading % _AUX_MULTIPLE:
        _refuse(call, f"that keeps what gelu is applied to, in rows of {spec.d.leading}")
    if spec.activation == "gelu" and spec.d.kind is P.F64:
        _refuse(call, "of f64 with gelu")
    if not spec.d.kind.is_complex and spec.alpha.imag:
        _refuse(call, f"of {spec.d.kind.text} with a complex alpha")
