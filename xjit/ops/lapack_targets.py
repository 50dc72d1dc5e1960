"""The custom calls to LAPACK that JAX writes for CPUs (`lapack_spotrf_ffi`, ...): one row per routine and type.

Source of the arguments and workspaces: the LAPACK Users' Guide; of the arrays and attributes: what jaxlib's own
handlers take. `xjit.ops.lapack_call` says what the fields of a row mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.ffi_attributes import Scalar
from xjit.ops.lapack_call import (
    KINDS,
    Conditions,
    Flags,
    LapackArray,
    LapackFlag,
    LapackRoutine,
    Sizes,
    Workspace,
    Workspaces,
)


def _arrays(text: str) -> tuple[LapackArray, ...]:
    """Reads `a:T[m,n] info:I[]`."""
    found = re.findall(r"(\w+):([TRCI])\[([^\]]*)\]", text)
    return tuple(LapackArray(name, kind, tuple(d for d in dims.split(",") if d)) for name, kind, dims in found)


def _char(name: str, letters: str) -> LapackFlag:
    """An attribute that is the code of the letter."""
    return LapackFlag(name, name, MappingProxyType({ord(letter): letter for letter in letters}))


def _bool(name: str, attribute: str, true: str, false: str) -> LapackFlag:
    values: dict[Scalar, str] = {True: true, False: false}
    return LapackFlag(name, attribute, MappingProxyType(values))


def _min_mn(sizes: Sizes) -> int:
    return min(sizes["m"], sizes["n"])


def _gesdd_rwork(sizes: Sizes, flags: Flags) -> int:
    """Enough for all versions of LAPACK."""
    small, large = _min_mn(sizes), max(sizes["m"], sizes["n"])
    return 7 * small if flags["mode"] == "N" else small * max(5 * small + 7, 2 * large + 2 * small + 1)


def _svd_outputs(sizes: Sizes, flags: Flags) -> bool:
    full, thin, given = (sizes["m"], sizes["n"]), (_min_mn(sizes), _min_mn(sizes)), (sizes["x"], sizes["y"])
    return {"A": given == full, "S": given == thin, "N": given in (full, thin)}[flags["mode"]]


def _svd_flops(sizes: Sizes) -> float:
    return 20 * sizes["m"] * sizes["n"] * _min_mn(sizes)


def _solved_side(sizes: Sizes, flags: Flags) -> bool:
    return sizes["q"] == sizes["m" if flags["side"] == "L" else "n"]


_UPLO, _MODE = _char("uplo", "LU"), _char("mode", "NV")
_EIGENVECTORS = (_char("compute_left", "NV"), _char("compute_right", "NV"))
_SVD_ARRAYS = ("a:T[m,n]", "a:T[m,n] s:R[m^n] u:T[m,x] vt:T[y,n] info:I[]")
_SVD_SIZES: Conditions = (("u and vt of the sizes that the mode asks for", _svd_outputs),)
_SOLVED_SIDE = ("q = m on the left side, n on the right", _solved_side)


def _row(
    letter: str,
    routine: str,
    operands: str,
    results: str,
    arguments: str,
    flops: Callable[[Sizes], float],
    *,
    flags: tuple[LapackFlag, ...] = (),
    numbers: tuple[str, ...] = (),
    workspaces: Workspaces = MappingProxyType({}),
    copied: tuple[str, ...] = (),
    conditions: Conditions = (),
) -> LapackRoutine:
    arrays = _arrays(operands), _arrays(results)
    return LapackRoutine(
        routine, letter, *arrays, tuple(arguments.split()), flops, flags, numbers, workspaces, copied, conditions
    )


def _factorizations(letter: str) -> list[LapackRoutine]:
    """Cholesky, LU and QR, and the solves that follow."""
    real = letter in "sd"
    q, transposed = ("or", "T") if real else ("un", "C")
    rwork: Workspaces = {} if real else {"rwork": ("R", lambda s, _: 2 * s["n"])}
    return [
        _row(letter, "potrf", "a:T[n,n]", "a:T[n,n] info:I[]", "uplo n a ld:n info",
             lambda s: s["n"] ** 3 / 3, flags=(_UPLO,)),
        _row(letter, "getrf", "a:T[m,n]", "a:T[m,n] ipiv:I[m^n] info:I[]", "m n a ld:m ipiv info",
             lambda s: s["m"] * s["n"] * _min_mn(s)),
        _row(letter, "geqrf", "a:T[m,n]", "a:T[m,n] tau:T[m^n]", "m n a ld:m tau work lwork info",
             lambda s: 2 * s["m"] * s["n"] * _min_mn(s)),
        _row(letter, "geqp3", "a:T[m,n] jpvt:I[n]", "a:T[m,n] jpvt:I[n] tau:T[m^n]",
             f"m n a ld:m jpvt tau work lwork {'' if real else 'rwork'} info",
             lambda s: 3 * s["m"] * s["n"] * _min_mn(s), workspaces=rwork),
        _row(letter, f"{q}gqr", "a:T[m,n] tau:T[k]", "a:T[m,n]", "m n k a ld:m tau work lwork info",
             lambda s: 2 * s["m"] * s["n"] * s["k"],
             conditions=(("m >= n >= k", lambda s, _: s["m"] >= s["n"] >= s["k"]),)),
        _row(letter, f"{q}mqr", "a:T[q,p] tau:T[k] c:T[m,n]", "c:T[m,n]",
             "side trans m n k a ld:q tau c ld:m work lwork info", lambda s: 4 * s["m"] * s["n"] * s["k"],
             flags=(_bool("side", "left", "L", "R"), _bool("trans", "transpose", transposed, "N")), copied=("a",),
             conditions=(_SOLVED_SIDE, ("q >= k, p >= k", lambda s, _: min(s["q"], s["p"]) >= s["k"]))),
        _row(letter, "trsm", "a:T[q,q] b:T[m,n]", "b:T[m,n]", "side uplo trans_x diag m n one a ld:q b ld:m",
             lambda s: s["m"] * s["n"] * s["q"],
             flags=(_char("side", "LR"), _UPLO, _char("trans_x", "NTC"), _char("diag", "NU")),
             conditions=(_SOLVED_SIDE,)),
        _row(letter, "gtsv", "dl:T[n] d:T[n] du:T[n] b:T[n,r]", "dl:T[n] d:T[n] du:T[n] b:T[n,r] info:I[]",
             "n r next:dl d du b ld:n info", lambda s: 10 * s["n"] * (1 + s["r"])),
    ]  # fmt: skip


def _reductions(letter: str) -> list[LapackRoutine]:
    """Orthogonal reductions to Hessenberg and tridiagonal form."""
    trd = "sytrd" if letter in "sd" else "hetrd"
    return [
        _row(letter, "gehrd", "a:T[n,n]", "a:T[n,n] tau:T[n-1] info:I[]", "n low high a ld:n tau work lwork info",
             lambda s: 10 * s["n"] ** 3 / 3, numbers=("low", "high"),
             conditions=(("1 <= low <= high <= n", lambda s, _: 1 <= s["low"] <= s["high"] <= s["n"]),)),
        _row(letter, trd, "a:T[n,n]", "a:T[n,n] d:R[n] e:R[n-1] tau:T[n-1] info:I[]",
             "uplo n a ld:n d e tau work lwork info", lambda s: 4 * s["n"] ** 3 / 3, flags=(_UPLO,)),
    ]  # fmt: skip


def _decompositions(letter: str) -> list[LapackRoutine]:
    """Singular values, eigenvalues, Schur forms."""
    real = letter in "sd"
    rwork = "" if real else "rwork"
    w = "wr:R[n] wi:R[n]" if real else "w:T[n]"
    values = "wr wi" if real else "w"
    vectors = "packed_vl ld:n packed_vr ld:n" if real else "vl ld:n vr ld:n"
    gesdd_workspaces: dict[str, Workspace] = {"iwork": ("I", lambda s, _: 8 * _min_mn(s))}
    evd_workspaces: dict[str, Workspace] = {"iwork": ("I", lambda s, _: 3 + 5 * s["n"])}
    gesvd_workspaces: dict[str, Workspace] = {}
    linear: dict[str, Workspace] = {}
    packed: dict[str, Workspace] = {}
    if real:
        packed = {f"packed_{v}": ("T", lambda s, _: s["n"] ** 2) for v in ("vl", "vr")}
    else:
        gesdd_workspaces["rwork"] = ("R", _gesdd_rwork)
        gesvd_workspaces["rwork"] = ("R", lambda s, _: 5 * _min_mn(s))
        evd_workspaces["rwork"] = ("R", lambda s, _: 1 + 5 * s["n"] + 2 * s["n"] ** 2)
        linear["rwork"] = ("R", lambda s, _: 2 * s["n"])
    return [
        _row(letter, "gesdd", *_SVD_ARRAYS, f"mode m n a ld:m s u ld:m vt ld:y work lwork {rwork} iwork info",
             _svd_flops, flags=(_char("mode", "ASN"),), conditions=_SVD_SIZES, workspaces=gesdd_workspaces),
        _row(letter, "gesvd", *_SVD_ARRAYS, f"mode mode m n a ld:m s u ld:m vt ld:y work lwork {rwork} info",
             _svd_flops, flags=(_char("mode", "ASN"),), conditions=_SVD_SIZES, workspaces=gesvd_workspaces),
        _row(letter, "syevd" if real else "heevd", "a:T[n,n]", "a:T[n,n] w:R[n] info:I[]",
             f"mode uplo n a ld:n w work lwork {'' if real else 'rwork length:rwork'} iwork length:iwork info",
             lambda s: 9 * s["n"] ** 3, flags=(_MODE, _UPLO), workspaces=evd_workspaces),
        _row(letter, "geev", "a:T[n,n]", f"{w} vl:C[n,n] vr:C[n,n] info:I[]",
             f"compute_left compute_right n a ld:n {values} {vectors} work lwork {rwork} info",
             lambda s: 26 * s["n"] ** 3, flags=_EIGENVECTORS, workspaces={**linear, **packed}, copied=("a",)),
        _row(letter, "gees", "a:T[n,n]", f"a:T[n,n] vs:T[n,n] {w} sdim:I[] info:I[]",
             f"mode sort null n a ld:n sdim {values} vs ld:n work lwork {rwork} null info",
             lambda s: 25 * s["n"] ** 3, flags=(_MODE, _char("sort", "N")), workspaces=linear),
    ]  # fmt: skip


def _all_rows() -> dict[str, LapackRoutine]:
    rows = [r for c in KINDS for part in (_factorizations, _reductions, _decompositions) for r in part(c)]
    return {row.target: row for row in rows}


LAPACK_TARGETS: Mapping[str, LapackRoutine] = MappingProxyType(_all_rows())
"""The rows by `custom_call_target`."""

PERTURBED_TARGET = "tridiagonal_solve_perturbed_ffi"
"""gtsv for matrices that may be singular. No routine of LAPACK does that; jaxlib has one of its own, for all types."""


def perturbed_row(instruction: HloInstruction) -> LapackRoutine:
    """Returns the row of a call to `PERTURBED_TARGET`. Errors: InvalidArgument for a type that it cannot have."""
    shape = instruction.operand(0).shape if instruction.operand_count else instruction.shape
    letters = [c for c, kind in KINDS.items() if shape.is_array and kind is shape.element_type]
    if not letters:
        raise InvalidArgument(f"custom-call to '{PERTURBED_TARGET}' of {shape}", instruction.span)
    return _row(letters[0], "gtsv_perturbed", "dl:T[n] d:T[n] du:T[n] b:T[n,r]", "x:T[n,r]", "", lambda _: 0)
