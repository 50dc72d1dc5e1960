"""Custom calls to LAPACK, matrix by matrix, with SciPy's wrappers in the precision of the call.

Each function takes a wrapper, the checked call and the operands of one matrix (its own, column-major copies), and
returns results by name; results that it leaves out are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, Value, unsupported
from xjit.ops.lapack_call import LapackCall, bind_lapack_call
from xjit.ops.lapack_targets import LAPACK_TARGETS

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

Arrays = Mapping[str, Any]
Routine = Callable[[Any, LapackCall, Arrays], Arrays]

_NOT_FINITE = -4


def evaluate_lapack(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    """Evaluates a custom call to one of `LAPACK_TARGETS`."""
    call = bind_lapack_call(
        instruction, LAPACK_TARGETS[instruction.attributes_as(at.CustomCallAttributes).custom_call_target]
    )
    row = call.row
    results: dict[str, Array] = {
        array.name: np.zeros((*call.batch, *call.dimensions(array)), array.element_type(row.letter).dtype)
        for array in row.results
    }
    for index in np.ndindex(*call.batch):
        one = {a.name: np.array(x[index], order="F") for a, x in zip(row.operands, operands, strict=True)}
        for name, value in lapack_results(call, one).items():
            if name in results:
                results[name][index] = value
    flushed = tuple(interpreter.flush(r) if r.dtype.kind in "fc" else r for r in results.values())
    return flushed if instruction.shape.is_tuple else flushed[0]


def lapack_results(call: LapackCall, arrays: Arrays) -> Arrays:
    """The results of a call for one matrix, by name; those that it leaves out are zero. `arrays` may be overwritten."""
    if any(not call.sizes[size] for size in ("m", "n") if size in call.sizes):
        return arrays  # nothing to do; the wrappers refuse empty matrices
    from scipy.linalg import blas, lapack  # at the first use: see elementwise

    library = blas if call.row.routine == "trsm" else lapack
    with np.errstate(all="ignore"):
        return _ROUTINES[call.row.routine](getattr(library, call.row.letter + call.row.routine), call, arrays)


def run_lapack(target: str, sizes: Mapping[str, int], flags: Mapping[str, str], arrays: Arrays) -> Arrays:
    """As `lapack_results`, for a checked call that its target, sizes and flags describe."""
    return lapack_results(LapackCall(LAPACK_TARGETS[target], (), sizes, flags), arrays)


def _potrf(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    a, info = f(x["a"], lower=call.flags["uplo"] == "L", clean=False)
    return {"a": a, "info": info}


def _getrf(f: Any, _call: LapackCall, x: Arrays) -> Arrays:
    a, pivots, info = f(x["a"])
    return {"a": a, "ipiv": pivots + 1, "info": info}


def _geqrf(f: Any, _call: LapackCall, x: Arrays) -> Arrays:
    a, tau, _, _ = f(x["a"])
    return {"a": a, "tau": tau}


def _geqp3(f: Any, _call: LapackCall, x: Arrays) -> Arrays:
    if x["jpvt"].any():
        raise unsupported("lapack geqp3 with columns fixed in front")
    a, jpvt, tau, _, _ = f(x["a"])
    return {"a": a, "jpvt": jpvt, "tau": tau}


def _orgqr(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    if not call.sizes["k"]:
        return {"a": np.eye(call.sizes["m"], call.sizes["n"])}
    return {"a": f(x["a"], x["tau"])[0]}


def _ormqr(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    if not call.sizes["k"]:
        return {"c": x["c"]}
    side, lwork = call.flags["side"], max(call.sizes["m"], call.sizes["n"])
    reflectors = x["a"][:, : call.sizes["k"]]  # of a wide factorization the columns behind have none
    return {"c": f(side, call.flags["trans"], reflectors, x["tau"], x["c"], lwork)[0]}


def _trsm(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    flags = call.flags
    options = {
        "side": flags["side"] == "R",
        "lower": flags["uplo"] == "L",
        "trans_a": "NTC".index(flags["trans_x"]),
        "diag": flags["diag"] == "U",
    }
    return {"b": f(1, x["a"], x["b"], **options)}


def _gtsv(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    """The first element of dl and the last of du lie outside of the matrix. The wrapper takes no empty arrays."""
    n, right = call.sizes["n"], call.sizes["r"]
    outside = np.zeros(1 if n == 1 else 0, x["d"].dtype)
    lower, upper = np.append(x["dl"][1:], outside), np.append(x["du"][:-1], outside)
    lower, d, upper, b, info = f(lower, x["d"], upper, x["b"] if right else np.zeros((n, 1), x["d"].dtype))
    dl, du = np.append(x["dl"][:1], lower[: n - 1]), np.append(upper[: n - 1], x["du"][-1:])
    return {"dl": dl, "d": d, "du": du, "b": b[:, :right], "info": info}


def _gehrd(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    a, tau, info = f(x["a"], lo=call.sizes["low"] - 1, hi=call.sizes["high"] - 1)
    return {"a": a, "tau": tau, "info": info}


def _sytrd(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    a, d, e, tau, info = f(x["a"], lower=call.flags["uplo"] == "L")
    return {"a": a, "d": d, "e": e, "tau": tau, "info": info}


def _svd(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    a, mode = x["a"], call.flags["mode"]
    u, s, vt, info = f(a, compute_uv=mode != "N", full_matrices=mode == "A", overwrite_a=True)
    return {"a": a, "s": s, "info": info} | ({"u": u, "vt": vt} if mode != "N" else {})


def _syevd(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    a = x["a"]
    w, _, info = f(a, compute_v=call.flags["mode"] == "V", lower=call.flags["uplo"] == "L", overwrite_a=True)
    return {"a": a, "w": w, "info": info}


def _geev(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    if not np.isfinite(x["a"]).all():
        return {"info": _NOT_FINITE}
    wanted = {"vl": call.flags["compute_left"] == "V", "vr": call.flags["compute_right"] == "V"}
    *values, vl, vr, info = f(x["a"], compute_vl=wanted["vl"], compute_vr=wanted["vr"])
    vectors = {name: v for name, v in (("vl", vl), ("vr", vr)) if wanted[name]}
    if len(values) == 1:
        return {"w": values[0], "info": info, **vectors}
    real, imaginary = values
    unpacked = {name: _unpack(v, imaginary) for name, v in vectors.items()} if not info else {}
    return {"wr": real, "wi": imaginary, "info": info, **unpacked}


def _unpack(packed: Array, imaginary: Array) -> Array:
    """Complex eigenvectors from real columns: a conjugate pair shares the real and the imaginary part."""
    result = packed.astype(np.result_type(packed, np.complex64))
    for first in np.flatnonzero(imaginary > 0):
        result[:, first] = packed[:, first] + 1j * packed[:, first + 1]
        result[:, first + 1] = np.conj(result[:, first])
    return result


def _gees(f: Any, call: LapackCall, x: Arrays) -> Arrays:
    vectors = call.flags["mode"] == "V"
    a, sdim, *values, vs, _, info = f(lambda *_: False, x["a"], compute_v=vectors)
    names = ("wr", "wi") if len(values) == 2 else ("w",)
    return {"a": a, "sdim": sdim, "info": info, **dict(zip(names, values, strict=True))} | (
        {"vs": vs} if vectors else {}
    )


_ROUTINES: Mapping[str, Routine] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "ormqr": _ormqr,
    "unmqr": _ormqr,
    "trsm": _trsm,
    "gtsv": _gtsv,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "hetrd": _sytrd,
    "gesdd": _svd,
    "gesvd": _svd,
    "syevd": _syevd,
    "heevd": _syevd,
    "geev": _geev,
    "gees": _gees,
}
