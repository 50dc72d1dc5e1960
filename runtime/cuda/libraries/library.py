"""How a library of NVIDIA is found and called: its functions return a status, and fail with its name."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition

PTR, I32, I64, U64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64


@dataclass(frozen=True)
class LibraryName:
    """A library: the end of its file's name, the versions that are known, and what to install."""

    name: str
    versions: tuple[int, ...]
    package: str


CUBLAS_LT = LibraryName("cublasLt", (13, 12), "nvidia-cublas")


@functools.cache
def shared_library(library: LibraryName) -> ctypes.CDLL:
    """Loads a library of the system, or of NVIDIA's wheels. Errors: FailedPrecondition says what to install."""
    names = [f"lib{library.name}.so.{version}" for version in library.versions]
    for name in (*names, ctypes.util.find_library(library.name)):
        try:
            if name is not None:
                return ctypes.CDLL(name)
        except OSError:
            continue
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib(library.name).abs_path)
    except Exception as error:  # no such package, or one that does not find it: it has errors of its own
        message = f"lib{library.name} is not installed: pip install {library.package}"
        raise FailedPrecondition(message) from error


def is_installed(library: LibraryName) -> bool:
    """Whether the library can be loaded."""
    try:
        shared_library(library)
    except FailedPrecondition:
        return False
    return True


class BoundLibrary:
    """The functions of a library: those of `signatures`, whose arguments are converted as it says.

    Args:
        api: the library; anything with functions of these names.
        signatures: the types of the arguments of each function.
        statuses: names of what functions return, but for 0, success.
    """

    def __init__(self, api: Any, signatures: Mapping[str, Sequence[Any]], statuses: Mapping[int, str]) -> None:
        self._functions = {name: getattr(api, name) for name in signatures}
        self._statuses = statuses
        for name, types in signatures.items():
            if isinstance(api, ctypes.CDLL):
                self._functions[name].argtypes = list(types)

    def call(self, name: str, *arguments: Any, instruction: str = "") -> None:
        """Calls a function. Errors: ExecutionError with the status, and for which instruction it was."""
        status = int(self._functions[name](*arguments))
        if status:
            whose = f" for '{instruction}'" if instruction else ""
            raise ExecutionError(f"{name} failed{whose}: {self._statuses.get(status, f'status {status}')}")

    def created(self, name: str, *arguments: Any) -> int:
        """Calls a function whose first argument gets what it makes; returns that."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0
