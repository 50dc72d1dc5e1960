"""cuSOLVER and cuBLAS for LAPACK-like routines: one call per matrix, arguments in the order of a table.

Values of enumerations are those of cublas_api.h and cusolver_common.h.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.libraries.cublaslt import STATUSES as CUBLAS_STATUSES
from xjit.runtime.cuda.libraries.library import I32, PTR, BoundLibrary, LibraryName, shared_library
from xjit.thunks import SolverSpec
from xjit.thunks.solver_spec import SOLVER_FUNCTIONS, solver_function

CUBLAS = LibraryName("cublas", (13, 12), "nvidia-cublas")
CUSOLVER = LibraryName("cusolver", (12, 11), "nvidia-cusolver")

_STATUSES: Mapping[int, str] = {
    1: "CUSOLVER_STATUS_NOT_INITIALIZED",
    2: "CUSOLVER_STATUS_ALLOC_FAILED",
    3: "CUSOLVER_STATUS_INVALID_VALUE",
    4: "CUSOLVER_STATUS_ARCH_MISMATCH",
    6: "CUSOLVER_STATUS_EXECUTION_FAILED",
    7: "CUSOLVER_STATUS_INTERNAL_ERROR",
    9: "CUSOLVER_STATUS_NOT_SUPPORTED",
}

_ARGUMENTS: Mapping[str, str] = {
    "potrf": "uplo n a ld:n | work lwork info",
    "getrf": "m n a ld:m | work ipiv info",
    "geqrf": "m n a ld:m | tau work lwork info",
    "orgqr": "m n k a ld:m tau | work lwork info",
    "ormqr": "side trans m n k a ld:q tau c ld:m | work lwork info",
    "syevd": "mode uplo n a ld:n w | work lwork info",
    "sytrd": "uplo n a ld:n d e tau | work lwork info",
    "gesvdj": "mode econ m n a ld:m s u ld:m v ld:n | work lwork info",
}
"""By function: its arguments behind the handle. What is before the bar, its query for a workspace takes, too."""

_TRSM = "side uplo trans_x diag m n one a ld:q b ld:m"
_SAME = {"ungqr": "orgqr", "unmqr": "ormqr", "heevd": "syevd", "hetrd": "sytrd", "gesdd": "gesvdj", "gesvd": "gesvdj"}
_POINTERS = frozenset(["a", "b", "c", "d", "e", "s", "u", "v", "w", "tau", "ipiv", "info", "work", "one"])
_TRANSPOSE = {"s": 1, "d": 1, "c": 2, "z": 2}  # CUBLAS_OP_T, CUBLAS_OP_C
_CODES: Mapping[str, Mapping[str, int]] = {
    "uplo": {"L": 0, "U": 1},
    "side": {"L": 0, "R": 1},
    "trans": {"N": 0, "T": 1, "C": 2},
    "trans_x": {"N": 0, "T": 1, "C": 2},
    "diag": {"N": 0, "U": 1},
    "mode": {"N": 0, "V": 1, "A": 1, "S": 1},
}
"""Flags of LAPACK as the libraries have them."""


def _types(arguments: str) -> list[Any]:
    return [PTR if token in _POINTERS else I32 for token in arguments.replace("| ", "").split()]


def _signatures() -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]]]:
    """Those of cuBLAS, and of cuSOLVER."""
    cublas: dict[str, Sequence[Any]] = {"cublasCreate_v2": (PTR,), "cublasSetStream_v2": (PTR, PTR)}
    cusolver: dict[str, Sequence[Any]] = {
        "cusolverDnCreate": (PTR,),
        "cusolverDnSetStream": (PTR, PTR),
        "cusolverDnCreateGesvdjInfo": (PTR,),
    }
    for letter in SOLVER_FUNCTIONS["trsm"][1]:
        cublas[f"cublas{letter.upper()}trsm_v2"] = (PTR, *_types(_TRSM))
        cublas[f"cublas{letter.upper()}geam"] = (PTR, I32, I32, I32, I32, PTR, PTR, I32, PTR, PTR, I32, PTR, I32)
    solvers = [(routine, letter) for routine, (_, letters) in SOLVER_FUNCTIONS.items() for letter in letters]
    for routine, letter in solvers:
        if routine == "trsm":
            continue
        arguments = _ARGUMENTS[_SAME.get(routine, routine)]
        name = solver_function(routine, letter)
        parameters = (PTR,) if name.endswith("gesvdj") else ()
        cusolver[name] = (PTR, *_types(arguments), *parameters)
        cusolver[f"{name}_bufferSize"] = (PTR, *_types(arguments.split("|")[0]), PTR, *parameters)
    return cublas, cusolver


class Solvers:
    """Both libraries on one device; made while its context is current. Arguments: see `BoundLibrary`."""

    def __init__(self, driver: CudaDriver, cublas: Any, cusolver: Any) -> None:
        signatures = _signatures()
        self.driver = driver
        self.cublas = BoundLibrary(cublas, signatures[0], CUBLAS_STATUSES)
        self.cusolver = BoundLibrary(cusolver, signatures[1], _STATUSES)
        self.blas_handle = self.cublas.created("cublasCreate_v2")
        self.handle = self.cusolver.created("cusolverDnCreate")
        self.parameters = self.cusolver.created("cusolverDnCreateGesvdjInfo")
        self._lock = threading.Lock()  # a handle has one stream

    def solve(self, spec: SolverSpec, addresses: Sequence[int], stream: int, instruction: str) -> None:
        """Puts the calls on a stream. `addresses`: of the operands, then of the results.

        Errors: ExecutionError names the instruction and the function that failed.
        """
        with self._lock:
            self.cublas.call("cublasSetStream_v2", self.blas_handle, stream, instruction=instruction)
            self.cusolver.call("cusolverDnSetStream", self.handle, stream, instruction=instruction)
            run = _Solution(self, spec, addresses, stream, instruction)
            try:
                run.put_on_stream()
            finally:
                run.free()


def load_solvers(driver: CudaDriver) -> Solvers:
    """Returns the installed libraries in the current context. Errors: FailedPrecondition says what to install."""
    return Solvers(driver, shared_library(CUBLAS), shared_library(CUSOLVER))


@dataclass(slots=True)
class _Arrays:
    """Where an array begins, and the bytes of one batch element."""

    address: int
    step: int


class _Solution:
    """One step while it is put on a stream: its arrays, and scratch memory that is given back behind it."""

    def __init__(
        self, owner: Solvers, spec: SolverSpec, addresses: Sequence[int], stream: int, instruction: str
    ) -> None:
        self._owner, self._spec, self._stream, self._instruction = owner, spec, stream, instruction
        self._sizes, self._flags = dict(spec.sizes), dict(spec.flags)
        self._scratch: list[int] = []
        self._kind = spec.element_type
        self._one = ctypes.create_string_buffer(np.ones(1, self._kind.dtype).tobytes())
        self._zero = ctypes.create_string_buffer(np.zeros(1, self._kind.dtype).tobytes())
        self._arrays = self._placed(addresses)

    def put_on_stream(self) -> None:
        """Puts the calls for all matrices there."""
        if 0 in (self._sizes.get("m"), self._sizes.get("n")):
            self._clear()
            return
        is_blas = self._spec.routine == "trsm"
        solve = self._solve_triangular if is_blas else self._prepared()
        for number in range(self._spec.count):
            solve(number)

    def _clear(self) -> None:
        """Empty matrices: what else there is of results, such as the status, is zero."""
        for array in self._spec.results:
            size = array.byte_size * self._spec.count
            if size:
                zeros = np.zeros(size, np.uint8)
                self._owner.driver.copy_to_device(
                    self._arrays[array.name].address, zeros.ctypes.data, size, self._stream
                )

    def free(self) -> None:
        """Gives the scratch memory back, behind what is on the stream."""
        for address in self._scratch:
            self._owner.driver.free(address, self._stream)

    def _placed(self, addresses: Sequence[int]) -> dict[str, _Arrays]:
        """Where the arrays lie; operands that are worked on are copied to the results first."""
        found = {array.name: _Arrays(addresses[array.number], array.byte_size) for array in self._spec.operands}
        for array in self._spec.results:
            source, address, size = found.get(array.name), addresses[array.number], array.byte_size * self._spec.count
            if source is not None and source.address != address and size:
                self._owner.driver.copy_on_device(address, source.address, size, self._stream)
            found[array.name] = _Arrays(address, array.byte_size)
        return found

    def _allocate(self, size: int) -> int:
        self._scratch.append(self._owner.driver.allocate(max(size, 1), self._stream))
        return self._scratch[-1]

    def _prepared(self) -> Callable[[int], None]:
        """Asks for the workspace and allocates it; returns what calls the function for a matrix."""
        name, library = self._spec.symbol, self._owner.cusolver
        is_svd = name.endswith("gesvdj")
        last = [self._owner.parameters] if is_svd else []
        if "info" not in self._arrays:
            self._arrays["info"] = _Arrays(self._allocate(4), 0)
        if is_svd:
            self._arrays["v"] = _Arrays(self._allocate(self._arrays["vt"].step), 0)
        query, rest = _ARGUMENTS[_SAME.get(self._spec.routine, self._spec.routine)].split(" | ")
        length = ctypes.c_int32()
        arguments = [self._argument(token, 0, 0) for token in query.split()]
        asked = (self._owner.handle, *arguments, ctypes.byref(length), *last)
        library.call(f"{name}_bufferSize", *asked, instruction=self._instruction)
        self._arrays["work"] = _Arrays(self._allocate(length.value * self._kind.byte_width), 0)

        def solve(number: int) -> None:
            values = [self._argument(token, number, length.value) for token in (*query.split(), *rest.split())]
            library.call(name, self._owner.handle, *values, *last, instruction=self._instruction)
            if is_svd and self._flags["mode"] != "N":
                self._transpose_v(number)

        return solve

    def _argument(self, token: str, number: int, length: int) -> Any:
        """An argument for matrix `number`, whose workspace has `length` elements."""
        flags, sizes = self._flags, self._sizes
        if token in self._arrays:
            return self._arrays[token].address + number * self._arrays[token].step
        if token in _CODES:
            return _CODES[token][flags[token]]
        if token in ("econ", "lwork", "one"):
            return {"econ": int(flags.get("mode") != "A"), "lwork": length, "one": self._one}[token]
        return max(sizes[token.removeprefix("ld:")], 1) if token.startswith("ld:") else sizes[token]

    def _transpose_v(self, number: int) -> None:
        """gesvdj gives V [n, y], LAPACK V^H [y, n]."""
        n, y = self._sizes["n"], self._sizes["y"]
        v, vt = (self._argument(name, number, 0) for name in ("v", "vt"))
        name = f"cublas{self._spec.letter.upper()}geam"
        codes = (_TRANSPOSE[self._spec.letter], 0)
        arguments = (*codes, y, n, self._one, v, n, self._zero, vt, y, vt, y)
        self._owner.cublas.call(name, self._owner.blas_handle, *arguments, instruction=self._instruction)

    def _solve_triangular(self, number: int) -> None:
        arguments = [self._argument(token, number, 0) for token in _TRSM.split()]
        handle, name = self._owner.blas_handle, self._spec.symbol
        self._owner.cublas.call(name, handle, *arguments, instruction=self._instruction)
