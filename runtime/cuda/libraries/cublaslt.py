"""cublasLt: products of matrices with what follows them, the algorithm by the library's heuristic, once per shape.

Values of enumerations are those of cublasLt.h, cublas_api.h and library_types.h.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xjit.hlo.diagnostics import ExecutionError
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.runtime.cuda.libraries.library import (
    CUBLAS_LT,
    I32,
    I64,
    PTR,
    U64,
    BoundLibrary,
    is_installed,
    shared_library,
)
from xjit.thunks import MatmulSpec, StoredMatrices

P = PrimitiveType

_SIGNATURES: Mapping[str, Sequence[Any]] = {
    "cublasLtCreate": (PTR,),
    "cublasLtGetProperty": (I32, PTR),
    "cublasLtMatmulDescCreate": (PTR, I32, I32),
    "cublasLtMatmulDescSetAttribute": (PTR, I32, PTR, U64),
    "cublasLtMatrixLayoutCreate": (PTR, I32, U64, U64, I64),
    "cublasLtMatrixLayoutSetAttribute": (PTR, I32, PTR, U64),
    "cublasLtMatmulPreferenceCreate": (PTR,),
    "cublasLtMatmulPreferenceSetAttribute": (PTR, I32, PTR, U64),
    "cublasLtMatmulPreferenceDestroy": (PTR,),
    "cublasLtMatmulAlgoGetHeuristic": (PTR, PTR, PTR, PTR, PTR, PTR, PTR, I32, PTR, PTR),
    "cublasLtMatmul": (PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, PTR, U64, PTR),
}
STATUSES: Mapping[int, str] = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}

DATA_TYPES: Mapping[PrimitiveType, int] = {
    P.F32: 0, P.F64: 1, P.F16: 2, P.S8: 3, P.C64: 4, P.C128: 5, P.S32: 10, P.BF16: 14, P.F8E4M3FN: 28, P.F8E5M2: 29,
}  # fmt: skip
COMPUTE_TYPES: Mapping[str, int] = {"f32": 68, "tf32": 77, "bf16": 75, "f16": 74, "f64": 70, "s32": 72}

TRANSPOSE_A, TRANSPOSE_B, EPILOGUE = 3, 4, 7  # cublasLtMatmulDescAttributes_t
AUX_LEADING, AUX_STRIDE, BIAS_TYPE = 12, 13, 26
POINTERS: Mapping[str, int] = {
    "bias": 8, "aux": 11, "a_scale": 17, "b_scale": 18, "d_scale": 20, "amax": 21,
}  # fmt: skip
"""Attributes of a description that are addresses, by role."""

BATCH_COUNT, BATCH_STRIDE = 5, 6  # cublasLtMatrixLayoutAttribute_t
MAX_WORKSPACE, MIN_ALIGNMENT = 1, {"a": 5, "b": 6, "c": 7, "d": 8}  # cublasLtMatmulPreferenceAttributes_t
EPILOGUES: Mapping[str, int] = {"": 1, "relu": 2, "gelu": 32}
BIAS_EPILOGUE, AUX_EPILOGUE = 4, 128  # bits of an epilogue
_TRANSPOSED = 1  # CUBLAS_OP_T
_VERSION_PARTS = (0, 1, 2)  # libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL

_HEURISTIC_BYTES = 96  # of cublasLtMatmulHeuristicResult_t, which begins with the algorithm
_SCRATCH = 64  # place in it of the bytes of scratch memory of an algorithm
_STATE = 72  # that of its status, right behind: 0 if it may be taken
_MAX_ALGORITHMS = 128  # that are asked for
_ALIGNMENT = 256  # of workspaces; and what is told of addresses, at most


class CublasLt:
    """The library in one context; made while that is current. `api`: see `BoundLibrary`."""

    def __init__(self, api: Any) -> None:
        self.library = BoundLibrary(api, _SIGNATURES, STATUSES)
        self.handle = self.library.created("cublasLtCreate")
        self._plans: dict[MatmulSpec, _Plan] = {}
        self._lock = threading.Lock()  # addresses are attributes of descriptions

    def multiply(self, spec: MatmulSpec, addresses: Sequence[int], stream: int, instruction: str) -> None:
        """Puts a product on a stream. `addresses`: of the operands, then of the results.

        Errors: ExecutionError names the instruction and the function that failed.
        """
        with self._lock:
            self._plan(spec).run(spec.at(addresses), stream, instruction)

    def algorithms(self, spec: MatmulSpec, limit: int, instruction: str) -> list[tuple[int, int]]:
        """Returns which of the first `limit` places of the library's list may be taken for a product, and the bytes of
        scratch memory of each: what it finds for arrays that are aligned as memory of their own is.

        Errors: ExecutionError names the instruction; also if there is none.
        """
        with self._lock:
            return self._plan(replace(spec, algorithm=-1)).algorithms(limit, instruction)

    def version(self) -> str:
        """Returns such as "13.1.0"."""
        numbers = []
        for part in _VERSION_PARTS:
            number = ctypes.c_int32()
            self.library.call("cublasLtGetProperty", part, ctypes.byref(number))
            numbers.append(number.value)
        return ".".join(map(str, numbers))

    def _plan(self, spec: MatmulSpec) -> _Plan:
        plan = self._plans.get(spec)
        if plan is None:
            plan = self._plans[spec] = _Plan(self, spec)
        return plan


def has_cublaslt(wanted: bool | None) -> bool:
    """Whether programs may call the library, as an option wants it: None if it is installed.

    Errors: FailedPrecondition if it is wanted and not installed.
    """
    if wanted:
        shared_library(CUBLAS_LT)
    return is_installed(CUBLAS_LT) if wanted is None else wanted


def load_cublaslt() -> CublasLt:
    """Returns the installed library in the current context. Errors: FailedPrecondition if there is none."""
    return CublasLt(shared_library(CUBLAS_LT))


class _Plan:
    """The descriptions of one product, which live as long as the process, and its algorithms."""

    def __init__(self, owner: CublasLt, spec: MatmulSpec) -> None:
        self._spec = spec
        self._handle, library = owner.handle, owner.library
        self._library = library
        kinds = COMPUTE_TYPES[spec.products], DATA_TYPES[_scale_kind(spec)]
        self._description = library.created("cublasLtMatmulDescCreate", *kinds)
        for attribute, code, value in _attributes(spec):
            self._set("MatmulDesc", self._description, attribute, struct.pack(code, value))
        c = StoredMatrices(spec.c_kind, spec.d.rows, spec.d.columns, spec.d.leading, spec.d.stride)
        self._layouts = [self._layout(matrices) for matrices in (spec.a, spec.b, c, spec.d)]
        self._factors = [ctypes.create_string_buffer(_factor(spec, number)) for number in (spec.alpha, spec.beta)]
        self._algorithms: dict[tuple[int, ...], ctypes.Array[ctypes.c_char]] = {}

    def run(self, at: Mapping[str, int], stream: int, instruction: str) -> None:
        """Puts the product on a stream; `at` has the addresses by role."""
        alignments = self._point_at(at)
        workspace, size = -(-at.get("workspace", 0) // _ALIGNMENT) * _ALIGNMENT, self._scratch_bytes
        arrays = (at["a"], at["b"], at.get("c", at["d"]), at["d"])
        algorithm = self._algorithm(alignments, instruction)
        (alpha, beta), (a, b, c, d) = self._factors, self._layouts
        self._library.call(
            "cublasLtMatmul", self._handle, self._description, alpha, arrays[0], a, arrays[1], b, beta, arrays[2], c,
            arrays[3], d, algorithm, workspace if size else None, size, stream, instruction=instruction,
        )  # fmt: skip

    def algorithms(self, limit: int, instruction: str) -> list[tuple[int, int]]:
        """See `CublasLt.algorithms`."""
        results = self._heuristic(self._point_at(dict.fromkeys(self._spec.roles, _ALIGNMENT)), limit, instruction)
        found = [struct.unpack_from("=Qi", result, _SCRATCH) for result in results]
        return [(place, scratch) for place, (scratch, state) in enumerate(found) if not state]

    @property
    def _scratch_bytes(self) -> int:
        """What the library may use of the workspace, whose start is rounded up."""
        return max(self._spec.workspace_bytes - _ALIGNMENT, 0)

    def _point_at(self, at: Mapping[str, int]) -> tuple[int, ...]:
        """Writes addresses into the description; returns the alignments of A, B, C, D, and of what follows them."""
        for role, attribute in POINTERS.items():
            if role in at:
                self._set("MatmulDesc", self._description, attribute, struct.pack("=Q", at[role]))
        addresses = at["a"], at["b"], at.get("c", at["d"]), at["d"], *(at[role] for role in POINTERS if role in at)
        return tuple(min(address & -address, _ALIGNMENT) for address in addresses)

    def _algorithm(self, alignments: tuple[int, ...], instruction: str) -> ctypes.Array[ctypes.c_char]:
        """The algorithm for arrays that are aligned like that.

        It is the library's first choice, also where its list is too short for the one that is wanted.
        """
        found = self._algorithms.get(alignments)
        if found is None:
            wanted = min(max(self._spec.algorithm, 0), _MAX_ALGORITHMS - 1)
            results = self._heuristic(alignments, wanted + 1, instruction)
            found = self._algorithms[alignments] = _chosen(results, wanted)
        return found

    def _heuristic(self, alignments: tuple[int, ...], limit: int, instruction: str) -> list[bytes]:
        """The library's list of algorithms, at least one and at most `limit`."""
        library = self._library
        preference = library.created("cublasLtMatmulPreferenceCreate")
        self._set("MatmulPreference", preference, MAX_WORKSPACE, struct.pack("=Q", self._scratch_bytes))
        for role, alignment in zip("abcd", alignments, strict=False):
            self._set("MatmulPreference", preference, MIN_ALIGNMENT[role], struct.pack("=I", alignment))
        results, count = ctypes.create_string_buffer(limit * _HEURISTIC_BYTES), ctypes.c_int32()
        library.call(
            "cublasLtMatmulAlgoGetHeuristic", self._handle, self._description, *self._layouts, preference, limit,
            results, ctypes.byref(count), instruction=instruction,
        )  # fmt: skip
        library.call("cublasLtMatmulPreferenceDestroy", preference)
        if not count.value:
            raise ExecutionError(f"cublasLt has no algorithm for '{instruction}': {self._spec}")
        return [results.raw[n * _HEURISTIC_BYTES :][:_HEURISTIC_BYTES] for n in range(count.value)]

    def _layout(self, matrices: StoredMatrices) -> int:
        sizes = (matrices.rows, matrices.columns, matrices.leading)
        layout = self._library.created("cublasLtMatrixLayoutCreate", DATA_TYPES[matrices.kind], *sizes)
        if self._spec.count > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, struct.pack("=i", self._spec.count))
            self._set("MatrixLayout", layout, BATCH_STRIDE, struct.pack("=q", matrices.stride))
        return layout

    def _set(self, what: str, where: int, attribute: int, value: bytes) -> None:
        data = ctypes.create_string_buffer(value, len(value))
        self._library.call(f"cublasLt{what}SetAttribute", where, attribute, data, len(value))


def _chosen(results: Sequence[bytes], number: int) -> ctypes.Array[ctypes.c_char]:
    """One of the results of a heuristic; the first if there are not so many, or that one has failed."""
    result = results[number] if number < len(results) else results[0]
    if struct.unpack_from("=i", result, _STATE)[0]:
        result = results[0]
    return ctypes.create_string_buffer(result, _HEURISTIC_BYTES)


def _attributes(spec: MatmulSpec) -> list[tuple[int, str, int]]:
    """What is fixed of a description: attributes, how `struct` packs them, values."""
    epilogue = EPILOGUES[spec.activation]
    found: list[tuple[int, str, int]] = []
    if spec.transpose_a:
        found.append((TRANSPOSE_A, "=i", _TRANSPOSED))
    if spec.transpose_b:
        found.append((TRANSPOSE_B, "=i", _TRANSPOSED))
    if "bias" in spec.roles:
        epilogue = (epilogue & ~1) | BIAS_EPILOGUE  # 1, the default, is no bit
        found.append((BIAS_TYPE, "=i", DATA_TYPES[spec.bias_kind]))
    if "aux" in spec.roles:
        epilogue |= AUX_EPILOGUE
        found += [(AUX_LEADING, "=q", spec.d.leading), (AUX_STRIDE, "=q", spec.d.stride)]
    return [*found, (EPILOGUE, "=I", epilogue)]


def _scale_kind(spec: MatmulSpec) -> PrimitiveType:
    """The type of alpha and beta."""
    if spec.d.kind.is_complex:
        return spec.d.kind
    return {"f64": P.F64, "s32": P.S32}.get(spec.products, P.F32)


def _factor(spec: MatmulSpec, number: complex) -> bytes:
    """alpha or beta as the library reads it."""
    kind, value = _scale_kind(spec), complex(number)
    if kind is P.S32:
        return struct.pack("=i", int(value.real))
    code = "f" if kind in (P.F32, P.C64) else "d"
    return struct.pack(f"=2{code}", value.real, value.imag) if kind.is_complex else struct.pack(f"={code}", value.real)
