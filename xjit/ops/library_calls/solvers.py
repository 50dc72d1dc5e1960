"""What the calls mean that JAX writes for GPUs (`cusolver_potrf_ffi`, ...): those to LAPACK that it writes for CPUs.

The arrays are the same, but for SVDs: gesvdj gives V where LAPACK gives V^H; the transposed form of gesvd, for wide
matrices, has U and V^H in each other's place. Types are those of the operands; attributes are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import Shape
from xjit.ops import build
from xjit.ops.ffi_attributes import Scalar, ffi_attributes
from xjit.ops.lapack_call import KINDS
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import call_target

Attributes = Mapping[str, Scalar]


def _uplo(given: Attributes) -> dict[str, Scalar]:
    return {"uplo": ord("L" if given.get("lower") else "U")}


def _eigenvectors(given: Attributes) -> dict[str, Scalar]:
    return {"mode": ord("V"), **_uplo(given)}


def _same(given: Attributes) -> dict[str, Scalar]:
    return dict(given)


_ROUTINES: Mapping[str, tuple[str, str, Callable[[Attributes], dict[str, Scalar]]]] = {
    "cusolver_potrf_ffi": ("potrf", "potrf", _uplo),
    "cusolver_getrf_ffi": ("getrf", "getrf", _same),
    "cusolver_geqrf_ffi": ("geqrf", "geqrf", _same),
    "cusolver_orgqr_ffi": ("orgqr", "ungqr", _same),
    "cusolver_ormqr_ffi": ("ormqr", "unmqr", _same),
    "cusolver_syevd_ffi": ("syevd", "heevd", _eigenvectors),
    "cusolver_sytrd_ffi": ("sytrd", "hetrd", _uplo),
}
"""By target: LAPACK's routine for real and for complex matrices, and its attributes."""

_SVDS = frozenset({"cusolver_gesvd_ffi", "cusolver_gesvdj_ffi"})
SOLVER_TARGETS = frozenset(_ROUTINES) | _SVDS


def plain_solver(call: HloInstruction) -> HloComputation:
    """The computation that a call means. Errors: Unsupported for a type that LAPACK does not have."""
    body, target = Body(call), call_target(call)
    if target in _SVDS:
        return _svd(call, body)
    routine = _ROUTINES[target]
    attributes = routine[2](ffi_attributes(call))
    name = f"{_letter(call)}{routine[1 if _is_complex(call) else 0]}"
    solved = _lapack(body, name, body.parameters, _leaves(call.shape), attributes)
    return body.build(solved if call.shape.is_tuple else _elements(body, solved)[0], call.shape)


def _svd(call: HloInstruction, body: Body) -> HloComputation:
    given = ffi_attributes(call)
    is_jacobi, transposed = call_target(call) == "cusolver_gesvdj_ffi", bool(given.get("transposed"))
    a, s, u, vt, info = _leaves(call.shape)
    *batch, m, n = a.dimensions
    least = min(m, n)
    whole = bool(given.get("full_matrices")) and bool(given.get("compute_uv"))
    sizes = (m, n) if whole else (least, least)
    shapes = [a, s, a.with_dimensions([*batch, m, sizes[0]]), a.with_dimensions([*batch, sizes[1], n]), info]
    mode = ("A" if whole else "S") if given.get("compute_uv") else "N"
    solved = _lapack(body, f"{_letter(call)}gesdd", body.parameters, shapes, {"mode": ord(mode)})
    found = _elements(body, solved)
    if mode == "N":
        found[2:4] = [body.full(shape, 0) for shape in (u, vt)]
    elif is_jacobi:
        swapped = [*range(len(batch)), len(batch) + 1, len(batch)]
        found[3] = body.add(build.transpose(_conjugate(body, found[3]), swapped))
    elif transposed:
        found[2:4] = found[3], found[2]
    return body.build(body.add(HloInstruction.create_tuple(found)), call.shape)


def _conjugate(body: Body, x: HloInstruction) -> HloInstruction:
    if not x.shape.element_type.is_complex:
        return x
    return body.op("complex", body.op("real", x), body.op("negate", body.op("imag", x)))


def _is_complex(call: HloInstruction) -> bool:
    return call.operand(0).shape.element_type.is_complex


def _letter(call: HloInstruction) -> str:
    kind = call.operand(0).shape.element_type
    for letter, own in KINDS.items():
        if own is kind:
            return letter
    raise Unsupported(f"custom-call to '{call_target(call)}' of {kind.text}: LAPACK has no such type", call.span)


def _lapack(
    body: Body, name: str, operands: Sequence[HloInstruction], results: Sequence[Shape], attributes: Attributes
) -> HloInstruction:
    """Adds a call to LAPACK, whose matrices lie columns first; the result is a tuple unless there is one array."""
    batch = operands[0].shape.rank - 2
    shapes = [_columns_first(shape, batch) for shape in results]
    custom = CustomCallAttributes(
        f"lapack_{name}_ffi",
        operand_layout_constraints=tuple(_columns_first(o.shape, batch) for o in operands),
        api_version="API_VERSION_TYPED_FFI",
    )
    shape = Shape.tuple_of(shapes) if len(shapes) > 1 else shapes[0]
    call = HloInstruction.create("custom-call", shape, operands, custom, name="lapack")
    call.backend_config = dict(attributes)
    return body.add(call)


def _leaves(shape: Shape) -> list[Shape]:
    return list(shape.tuple_shapes) if shape.is_tuple else [shape]


def _elements(body: Body, solved: HloInstruction) -> list[HloInstruction]:
    if not solved.shape.is_tuple:
        return [solved]
    return [body.add(HloInstruction.create_get_tuple_element(solved, n)) for n in range(len(solved.shape.tuple_shapes))]


def _columns_first(shape: Shape, batch: int) -> Shape:
    """The shape with its matrices columns first, batch dimensions outermost."""
    return shape.with_layout(Layout((*range(batch, shape.rank), *reversed(range(batch)))))
