"""A cublasLt without a GPU: notes what it is told, and multiplies by what it was told, in the memory of the host."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[int, Any] = {
    0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 4: np.complex64, 5: np.complex128, 10: np.int32,
    14: ml_dtypes.bfloat16, 28: ml_dtypes.float8_e4m3fn, 29: ml_dtypes.float8_e5m2,
}  # fmt: skip
NOT_SUPPORTED = 15


class FakeCublasLt:
    """The functions of the library. `log` has their names; `made` what was created: its kind, sizes and attributes.

    `algorithms` is how many the heuristic finds, of which `failed_algorithm` may not be taken, and `taken` the one that
    the last product took; `fail` is the name of a function that fails. `after_product` gets the algorithm and D.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.made: dict[int, dict[Any, Any]] = {}
        self.algorithms = 1
        self.fail = ""
        self.workspace = (0, 0)
        self.taken = -1
        self.failed_algorithm = -1
        self.after_product: Callable[[int, np.ndarray[Any, Any]], None] = lambda _number, _d: None
        self._numbers = itertools.count(1, 16)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cublasLt"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def attributes(self, kind: str) -> list[dict[Any, Any]]:
        """What was created of a kind."""
        return [made for made in self.made.values() if made["kind"] == kind]

    def _call(self, name: str, *arguments: Any) -> int:
        self.log.append(name)
        if name == self.fail:
            return NOT_SUPPORTED
        if name == "cublasLtMatmul":
            self._multiply(*arguments)
        elif name == "cublasLtGetProperty":
            arguments[-1]._obj.value = 13 - arguments[0]
        elif name == "cublasLtMatmulAlgoGetHeuristic":
            wanted = arguments[-3]
            arguments[-1]._obj.value = min(self.algorithms, wanted)
            arguments[-2].raw = b"".join(self._algorithm(n) for n in range(wanted))
        elif name.endswith("SetAttribute"):
            where, attribute, data, size = arguments
            assert len(data) == size
            self.made[where][attribute] = data.raw
        elif name.endswith("Destroy"):
            del self.made[arguments[0]]
        else:
            number = next(self._numbers)
            kind = name.removeprefix("cublasLt").removesuffix("Create")
            self.made[number] = {"kind": kind, "sizes": arguments[1:]}
            arguments[0]._obj.value = number
        return 0

    def _algorithm(self, number: int) -> bytes:
        state = NOT_SUPPORTED if number == self.failed_algorithm else 0
        return (b"algorithm" + bytes([number])).ljust(72, b"\0") + struct.pack("=i", state).ljust(24, b"\0")

    def _matrix(self, layout: int, address: int) -> np.ndarray[Any, Any]:
        made = self.made[layout]
        kind, rows, columns, leading = made["sizes"]
        assert leading >= rows
        (count,) = struct.unpack("=i", made.get(5, struct.pack("=i", 1)))
        (stride,) = struct.unpack("=q", made.get(6, struct.pack("=q", 0)))
        dtype = np.dtype(DTYPES[kind])
        flat = _memory(address, dtype, (count - 1) * stride + (columns - 1) * leading + rows)
        steps = [dtype.itemsize * step for step in (stride, 1, leading)]
        return np.ndarray((count, rows, columns), dtype, flat, strides=steps)

    def _multiply(self, _handle: int, description: int, alpha: Any, *rest: Any) -> None:
        a_at, a_layout, b_at, b_layout, beta, c_at, c_layout, d_at, d_layout, algorithm, scratch, size, _stream = rest
        assert algorithm.raw.startswith(b"algorithm")
        self.taken = algorithm.raw[9]
        assert not (scratch or 0) % 256
        self.workspace = (scratch or 0, size)
        told = self.made[description]
        _, scale_type = told["sizes"]
        a, b = self._matrix(a_layout, a_at), self._matrix(b_layout, b_at)
        wide = np.result_type(np.float64, DTYPES[scale_type]) if scale_type != 10 else np.dtype(np.int64)
        a, b = (m.astype(wide).transpose(0, 2, 1) if 3 + n in told else m.astype(wide) for n, m in enumerate((a, b)))
        one, other = (_memory(ctypes.addressof(x), np.dtype(DTYPES[scale_type]), 1)[0] for x in (alpha, beta))
        value = one * (a @ b) * self._scale(told, 17) * self._scale(told, 18)
        if other:
            value = value + other * self._matrix(c_layout, c_at).astype(wide)
        (epilogue,) = struct.unpack("=I", told[7])
        d = self._matrix(d_layout, d_at)
        if epilogue & 4:
            kind = np.dtype(DTYPES[struct.unpack("=i", told[26])[0]])
            value = value + _memory(_pointer(told, 8), kind, d.shape[1])[:, None].astype(wide)
        if epilogue & 128:
            assert struct.unpack("=q", told[12])[0] % 8 == 0
            aux = np.ndarray(d.shape, d.dtype, _memory(_pointer(told, 11), d.dtype, d.size), strides=d.strides)
            aux[...] = value.astype(d.dtype)
        if epilogue & 2:
            value = np.maximum(value, 0)
        if epilogue & 32:
            value = 0.5 * value * (1 + np.tanh(0.7978845608028654 * (value + 0.044715 * value**3)))
        if 21 in told:
            _memory(_pointer(told, 21), np.dtype(np.float32), 1)[0] = np.abs(value).max()
        d[...] = (value * self._scale(told, 20)).astype(d.dtype)
        self.after_product(self.taken, d)

    def _scale(self, told: dict[Any, Any], attribute: int) -> Any:
        return float(_memory(_pointer(told, attribute), np.dtype(np.float32), 1)[0]) if attribute in told else 1


def _pointer(told: dict[Any, Any], attribute: int) -> int:
    return struct.unpack("=Q", told[attribute])[0]


def _memory(address: int, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    return np.frombuffer((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address), dtype)
