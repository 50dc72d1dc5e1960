"""Object code linked into the process. It sees no symbols but those that it is given.

LLVM's JIT linker does what `placed_image` does not.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Mapping, Sequence

import llvmlite.binding as llvm

from xjit.hlo.diagnostics import CompileError
from xjit.runtime.machine_code.elf import ElfObject, undefined_names
from xjit.runtime.machine_code.jit import CodegenOptions, create_target_machine, initialize_llvm
from xjit.runtime.machine_code.placed_image import PlacedImage, Unplaceable


class LoadedObject:
    """Object code linked into the process. The addresses are valid for as long as this object lives."""

    __slots__ = ("_addresses", "_code")

    def __init__(self, code: llvm.ResourceTracker | PlacedImage, addresses: Mapping[str, int]) -> None:
        self._code = code
        self._addresses = addresses

    def address(self, symbol: str) -> int:
        """The address of an exported symbol; KeyError if it was not asked for when loading."""
        return self._addresses[symbol]


def load_object(
    object_code: bytes | Sequence[bytes], exports: Sequence[str], symbols: Mapping[str, int]
) -> LoadedObject:
    """Links object code and returns the addresses of `exports`.

    `symbols` maps every external symbol to its address: nothing else of the process is visible to the code. Raises
    CompileError if a symbol is missing.
    """
    objects = [ElfObject(code) for code in ((object_code,) if isinstance(object_code, bytes) else object_code)]
    missing = sorted(undefined_names(objects) - symbols.keys())
    if missing:
        raise CompileError(f"the object code needs symbols that the runtime does not offer: {', '.join(missing)}")
    try:
        image = PlacedImage.of(objects, exports, symbols)
    except Unplaceable:
        return link_object([item.code for item in objects], exports, symbols)
    return LoadedObject(image, image.addresses)


def link_object(objects: Sequence[bytes], exports: Sequence[str], symbols: Mapping[str, int]) -> LoadedObject:
    """As `load_object`, by LLVM's linker. Errors: CompileError."""
    initialize_llvm()
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _link_lock:
        try:
            tracker = builder.link(_lljit(), f"xjit.{next(_library_numbers)}")
        except RuntimeError as error:
            raise CompileError(f"cannot link the object code: {error}") from error
    return LoadedObject(tracker, {name: tracker[name] for name in exports})


_link_lock = threading.Lock()
_library_numbers = itertools.count()  # library names cannot be reused


def _after_fork_in_child() -> None:
    """Another thread, which may have held the lock, does not exist in the child."""
    global _link_lock
    _link_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


@functools.cache
def _lljit() -> llvm.LLJIT:
    """The one JIT session. It is never disposed: worker threads may run its code until the process ends."""
    lljit = llvm.create_lljit_compiler(create_target_machine(CodegenOptions()), use_jit_link=True, suppress_errors=True)
    lljit._owned = True  # pyright: ignore[reportPrivateUsage]  # no dispose at interpreter exit
    return lljit
