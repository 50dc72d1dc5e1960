"""cuSOLVER and cuBLAS without a GPU: notes what is called, and does it with SciPy in the memory of the host.

Arguments are read as the libraries' prototypes have them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

DTYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
LWORK = 24


class FakeSolvers:
    """The functions of both libraries; `log` has their names, `fail` is the name of one that fails."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fail = ""
        self.streams: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("cusolverDn", "cublas")):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> int:
        self.log.append(name)
        if name == self.fail:
            return 7
        plain = name.removeprefix("cusolverDn").removeprefix("cublas").removesuffix("_v2")
        if plain.startswith("Create"):
            arguments[0]._obj.value = len(self.log)
        elif plain == "SetStream":
            self.streams.append(arguments[1])
        elif plain.endswith("_bufferSize"):
            answer = arguments[-2] if "gesvdj" in plain else arguments[-1]
            answer._obj.value = LWORK
        else:
            _FUNCTIONS[plain[1:].replace("un", "or").replace("he", "sy")](plain[0], *arguments[1:])
        return 0


def _matrix(letter: str, address: Any, rows: int, columns: int, leading: int) -> np.ndarray[Any, Any]:
    dtype = np.dtype(DTYPES[letter])
    where = address if isinstance(address, int) else ctypes.addressof(address)
    flat = np.frombuffer((ctypes.c_uint8 * (leading * columns * dtype.itemsize)).from_address(where), dtype)
    return flat.reshape(leading, columns, order="F")[:rows]


def _routine(letter: str, name: str) -> Any:
    real = letter in "SD"
    for own, other in (("orgqr", "ungqr"), ("ormqr", "unmqr"), ("syevd", "heevd"), ("sytrd", "hetrd")):
        name = other if name == own and not real else name
    return getattr(lapack, letter.lower() + name)


def _real(letter: str) -> str:
    return {"C": "S", "Z": "D"}.get(letter, letter)


def _set_info(address: int, value: int = 0) -> None:
    ctypes.c_int32.from_address(address).value = value


def _potrf(letter: str, uplo: int, n: int, a: int, lda: int, work: int, lwork: int, info: int) -> None:
    assert work and lwork == LWORK
    where = _matrix(letter, a, n, n, lda)
    where[...], status = _routine(letter, "potrf")(where, lower=uplo == 0, clean=False)
    _set_info(info, status)


def _getrf(letter: str, m: int, n: int, a: int, lda: int, work: int, pivots: int, info: int) -> None:
    where = _matrix(letter, a, m, n, lda)
    where[...], found, _ = _routine(letter, "getrf")(where)
    (ctypes.c_int32 * min(m, n)).from_address(pivots)[:] = list(map(int, found + 1))
    _set_info(info)


def _geqrf(letter: str, m: int, n: int, a: int, lda: int, tau: int, work: int, lwork: int, info: int) -> None:
    where = _matrix(letter, a, m, n, lda)
    where[...], _matrix(letter, tau, 1, min(m, n), 1)[0], *_ = _routine(letter, "geqrf")(where)
    _set_info(info)


def _orgqr(letter: str, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, lwork: int, info: int) -> None:
    where = _matrix(letter, a, m, n, lda)
    where[...] = _routine(letter, "orgqr")(where, _matrix(letter, tau, 1, k, 1)[0])[0]
    _set_info(info)


def _ormqr(letter: str, side: int, trans: int, m: int, n: int, k: int, a: int, lda: int, tau: int, c: int, ldc: int,
           work: int, lwork: int, info: int) -> None:  # fmt: skip
    q, where = _matrix(letter, a, m if side == 0 else n, k, lda), _matrix(letter, c, m, n, ldc)
    reflectors = _matrix(letter, tau, 1, k, 1)[0]
    where[...] = _routine(letter, "ormqr")("LR"[side], "NTC"[trans], q, reflectors, where, max(m, n))[0]
    _set_info(info)


def _syevd(
    letter: str, jobz: int, uplo: int, n: int, a: int, lda: int, w: int, work: int, lwork: int, info: int
) -> None:
    where = _matrix(letter, a, n, n, lda)
    values, vectors, _ = _routine(letter, "syevd")(where, compute_v=jobz, lower=uplo == 0)
    _matrix(_real(letter), w, 1, n, 1)[0] = values
    where[...] = vectors
    _set_info(info)


def _sytrd(letter: str, uplo: int, n: int, a: int, lda: int, d: int, e: int, tau: int, work: int, lwork: int,
           info: int) -> None:  # fmt: skip
    where = _matrix(letter, a, n, n, lda)
    where[...], diagonal, beside, reflectors, _ = _routine(letter, "sytrd")(where, lower=uplo == 0)
    _matrix(_real(letter), d, 1, n, 1)[0] = diagonal
    _matrix(_real(letter), e, 1, n - 1, 1)[0] = beside
    _matrix(letter, tau, 1, n - 1, 1)[0] = reflectors
    _set_info(info)


def _gesvdj(letter: str, jobz: int, econ: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int, v: int,
            ldv: int, work: int, lwork: int, info: int, parameters: int) -> None:  # fmt: skip
    assert parameters
    left, values, right, _ = _routine(letter, "gesdd")(_matrix(letter, a, m, n, lda), full_matrices=not econ)
    _matrix(_real(letter), s, 1, min(m, n), 1)[0] = values
    if jobz:
        _matrix(letter, u, m, left.shape[1], ldu)[...] = left
        _matrix(letter, v, n, right.shape[0], ldv)[...] = right.conj().T
    _set_info(info)


def _trsm(letter: str, side: int, uplo: int, trans: int, diag: int, m: int, n: int, alpha: Any, a: int, lda: int,
          b: int, ldb: int) -> None:  # fmt: skip
    order = m if side == 0 else n
    options = {"side": side, "lower": uplo == 0, "trans_a": trans, "diag": diag}
    where = _matrix(letter, b, m, n, ldb)
    one = _matrix(letter, alpha, 1, 1, 1)[0, 0]
    where[...] = getattr(blas, f"{letter.lower()}trsm")(one, _matrix(letter, a, order, order, lda), where, **options)


def _geam(letter: str, trans_a: int, trans_b: int, m: int, n: int, alpha: Any, a: int, lda: int, beta: Any, b: int,
          ldb: int, c: int, ldc: int) -> None:  # fmt: skip
    assert trans_b == 0 and _matrix(letter, beta, 1, 1, 1)[0, 0] == 0 and _matrix(letter, alpha, 1, 1, 1)[0, 0] == 1
    x = _matrix(letter, a, n, m, lda).T
    _matrix(letter, c, m, n, ldc)[...] = x.conj() if trans_a == 2 else x


_FUNCTIONS: dict[str, Callable[..., None]] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "orgqr": _orgqr, "ormqr": _ormqr, "syevd": _syevd,
    "sytrd": _sytrd, "gesvdj": _gesvdj, "trsm": _trsm, "geam": _geam,
}  # fmt: skip
