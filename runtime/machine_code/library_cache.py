"""Object code of xjit's own libraries, kept for the next program of this process and, on disk, for the next process.

It lies in the directory that `XJIT_CACHE_DIR` or an option names, as all code does, and where none is named in the
user's directory for caches: it holds nothing of the user's. An empty name is no directory. There, a directory that
cannot be used means that nothing is kept, without a word.
"""

from __future__ import annotations

import functools
import itertools
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.library import Library
from xjit.runtime.machine_code.object_cache import DIRECTORY_VARIABLE, ObjectCache, cache_key, object_cache

_PACKAGE = str(Path(__file__).absolute().parents[2])
_in_memory: dict[str, tuple[bytes, ...]] = {}
"""By key; few: one per combination of element types, or stage of a transform."""


def library_key(library: Library, *decisive: str) -> str:
    """The key of a library's code; `decisive` is all that decides what code comes of a text."""
    return cache_key("library", *decisive, source_fingerprint(), library.name, library.identity)


def kept_library(key: str, directory: str | None) -> tuple[bytes, ...] | None:
    """The objects of a key, from memory or from the cache of a directory (None: see `library_cache`)."""
    objects = _in_memory.get(key)
    if objects is not None:
        return objects
    cache = library_cache(directory)
    code = None if cache is None else cache.get(key)
    if code is None:
        return None
    return _in_memory.setdefault(key, _objects_of(code))


def keep_library(key: str, directory: str | None, library: Library, objects: tuple[bytes, ...]) -> None:
    """Keeps the objects of a key. Two threads may both have made it; what they made is equal."""
    _in_memory[key] = objects
    cache = library_cache(directory)
    if cache is not None:
        cache.put(key, _as_bytes(objects), f"library {library.name}")


def forget_libraries() -> None:
    """Forgets all code in memory: the next programs find it on disk, or compile it again."""
    _in_memory.clear()


def library_cache(directory: str | None = None) -> ObjectCache | None:
    """The cache that libraries are kept in: that of a directory; of None, what the environment names, or the user's.

    Errors: as of `object_cache`, for a directory that was named.
    """
    if directory is not None or DIRECTORY_VARIABLE in os.environ:
        return object_cache(directory)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        return object_cache(os.path.join(home, "xjit"), warns=False) if os.path.isabs(home) else None
    except InvalidArgument:
        return None


def _as_bytes(objects: tuple[bytes, ...]) -> bytes:
    """How many there are, where each ends, and the objects."""
    ends = itertools.accumulate(map(len, objects))
    return struct.pack(f"<{1 + len(objects)}Q", len(objects), *ends) + b"".join(objects)


def _objects_of(code: bytes) -> tuple[bytes, ...]:
    (count,) = struct.unpack_from("<Q", code)
    ends = struct.unpack_from(f"<{count}Q", code, 8)
    objects = code[8 + 8 * count :]
    return tuple(objects[begin:end] for begin, end in itertools.pairwise((0, *ends)))


@functools.cache
def source_fingerprint() -> str:
    """A digest of names, sizes and times of the Python files of this package: any may decide what code is written."""
    return cache_key(*sorted(_python_files(_PACKAGE)))


def _python_files(folder: str) -> Iterator[str]:
    """A line for each file; none for what cannot be looked at: a package in an archive, a link to nowhere."""
    try:
        found = os.scandir(folder)
    except OSError:
        return
    with found as entries:
        for entry in entries:
            if entry.name.endswith(".py") and entry.is_file():
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":  # a clone has links
                yield from _python_files(entry.path)
