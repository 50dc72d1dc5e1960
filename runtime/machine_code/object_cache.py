"""Object code on disk, so that a second process generates none.

A cache is a directory with one file per object. Its name is the key: a digest of everything that decides the code. A
file holds the key again, a label for people, and the code, sealed (`sealed_bytes`). A file that is damaged, or lies
under another name, counts as absent: the code is generated again and the file replaced.

Several processes may use one directory: files appear complete, by a rename, and may disappear at any time. The
directory is private to its user, because whoever can write to it decides what runs. The files that were used least
recently go first when the cache is full; the time of last use is the file's modification time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import stat
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.sealed_bytes import seal, unseal

DIRECTORY_VARIABLE: Final = "XJIT_CACHE_DIR"
SIZE_VARIABLE: Final = "XJIT_CACHE_MAX_BYTES"
DEFAULT_MAX_BYTES: Final = 1 << 30

_MAGIC: Final = b"XJITOBJECT\0\1"
_SUFFIX: Final = ".xjo"
_NAME: Final = re.compile(r"[0-9a-f]{64}\.xjo")
_TEMPORARY: Final = re.compile(r"[0-9a-f]{64}\.xjo\.[0-9a-f]+\.tmp")
_HEADER: Final = struct.Struct("<32sI")  # the key, and the label's length
_ABANDONED_SECONDS: Final = 600.0
"""A temporary file of this age has no writer any more."""
_TOUCH_SECONDS: Final = 60.0
"""The time of last use is exact to this."""
_TRIMMED: Final = 0.75
"""Of the greatest size: how much is left of a cache that was full."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One file: `label` is what it says of itself, `last_used` seconds since the epoch. A damaged one has no label."""

    key: str
    label: str
    num_bytes: int
    last_used: float
    is_intact: bool


class ObjectCache:
    """The cache in `directory`, which need not exist. Any number of threads may use it.

    `warns`: if it cannot be written.

    Errors: InvalidArgument if the directory cannot be made, or if another user may write to it.
    """

    def __init__(
        self, directory: str | os.PathLike[str], max_bytes: int = DEFAULT_MAX_BYTES, *, warns: bool = True
    ) -> None:
        self.directory = Path(directory).expanduser().absolute()
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._written = max_bytes  # since the sizes were last summed up: the first write sums
        self._may_write = True
        self._warns = warns
        _make_private(self.directory)

    def get(self, key: str) -> bytes | None:
        """The object code of a key; None if it is not there, or not whole."""
        path = self._path(key)
        data = _read(path)
        found = None if data is None else _unpack(key, data[0])
        if data is None or found is None:
            return None
        if abs(time.time() - data[1]) > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):  # a cache that can only be read
                os.utime(path)
        return found[1]

    def put(self, key: str, code: bytes, label: str = "") -> None:
        """Keeps the object code of a key. If that fails, one warning says so, and nothing is kept from then on."""
        if not self._may_write:
            return
        name = label.encode(errors="replace")
        data = seal(_MAGIC, _HEADER.pack(bytes.fromhex(key), len(name)) + name + code)
        if len(data) > self.max_bytes:
            return
        path = self._path(key)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            _write_new(temporary, data)
            os.replace(temporary, path)
        except OSError as error:
            self._may_write = False
            with contextlib.suppress(OSError):
                temporary.unlink()
            if self._warns:
                warnings.warn(f"xjit's cache of object code is not written: {error}", RuntimeWarning, stacklevel=2)
            return
        self._make_room(len(data))

    def entries(self) -> list[CacheEntry]:
        """All files, those used last first. Reads every file."""
        return [_entry(path, status) for path, status in sorted(self._files(_NAME), key=_last_used, reverse=True)]

    def clear(self) -> int:
        """Removes all files of the cache, and no others; returns how many."""
        return sum(_remove(path) for path, _ in [*self._files(_NAME), *self._files(_TEMPORARY)])

    def remove(self, keys: Iterable[str]) -> int:
        """Removes the files of some keys; returns how many there were."""
        return sum(_remove(self._path(key)) for key in keys)

    @property
    def num_bytes(self) -> int:
        """The size of all files."""
        return sum(status.st_size for _, status in self._files(_NAME))

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)

    def _files(self, name: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self.directory) as found:
            for file in found:
                if name.fullmatch(file.name):
                    with contextlib.suppress(OSError):  # another process was faster
                        yield Path(file.path), file.stat(follow_symlinks=False)

    def _make_room(self, written: int) -> None:
        """Removes what was used least recently, if the cache may be full. Sums sizes up now and then only."""
        with self._lock:
            self._written += written
            if self._written < self.max_bytes // 16:
                return
            self._written = 0
            now = time.time()
            for path, status in self._files(_TEMPORARY):
                if now - status.st_mtime > _ABANDONED_SECONDS:
                    _remove(path)
            files = sorted(self._files(_NAME), key=_last_used)
            total = sum(status.st_size for _, status in files)
            if total <= self.max_bytes:
                self._written = max(0, total - self.max_bytes * 15 // 16)
                return
            for path, status in files:
                if total <= _TRIMMED * self.max_bytes:
                    return
                _remove(path)
                total -= status.st_size


def cache_key(*parts: str | bytes) -> str:
    """A digest of texts; where one ends and the next begins counts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


def object_cache(directory: str | None = None, *, warns: bool = True) -> ObjectCache | None:
    """The cache in a directory; of None, the one that the environment names. An empty name is none. `warns`: see there.

    Errors: InvalidArgument as of `ObjectCache`, and for a size in the environment that is no number.
    """
    name = os.environ.get(DIRECTORY_VARIABLE, "") if directory is None else directory
    return _cache(name, os.environ.get(SIZE_VARIABLE, ""), warns) if name else None


def cached_code(
    directory: str | None, parts: Callable[[], Iterable[str]], make: Callable[[], bytes], label: str
) -> bytes:
    """Returns code from the cache of a directory (see `object_cache`), or makes it, and keeps it if there is a cache.

    `parts` are all that decides the code: they are asked for only where there is a cache.
    """
    cache = object_cache(directory)
    if cache is None:
        return make()
    key = cache_key(*parts())
    code = cache.get(key)
    if code is None:
        code = make()
        cache.put(key, code, label)
    return code


@functools.cache
def _cache(directory: str, max_bytes: str, warns: bool) -> ObjectCache:
    if max_bytes and not max_bytes.isdecimal():
        raise InvalidArgument(f"{SIZE_VARIABLE} is '{max_bytes}', expected a number of bytes")
    return ObjectCache(directory, int(max_bytes) if max_bytes else DEFAULT_MAX_BYTES, warns=warns)


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        raise InvalidArgument(f"'{directory}' cannot be a cache of object code: {error}") from error
    if not _is_trusted(status):
        raise InvalidArgument(
            f"'{directory}' cannot be a cache of object code: other users may write to it",
            None,
            f"make it your own: chmod 700 '{directory}'",
        )


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only this user, or root, decides what is there."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> tuple[bytes, float] | None:
    """A file's bytes and its time of last use; None if it is not there, or not a plain file of this user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not _is_trusted(status):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        try:
            return file.read(), status.st_mtime
        except OSError:
            return None


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _unpack(key: str, data: bytes) -> tuple[str, bytes] | None:
    """The label and the code of a file; None if it is damaged, or the file of another key."""
    body = unseal(_MAGIC, data)
    if body is None or len(body) < _HEADER.size:
        return None
    found, length = _HEADER.unpack_from(body)
    start = _HEADER.size + length
    if found.hex() != key or start > len(body):
        return None
    return body[_HEADER.size : start].decode(errors="replace"), body[start:]


def _entry(path: Path, status: os.stat_result) -> CacheEntry:
    key = path.name.removesuffix(_SUFFIX)
    data = _read(path)
    found = None if data is None else _unpack(key, data[0])
    return CacheEntry(key, found[0] if found else "", status.st_size, status.st_mtime, found is not None)


def _last_used(file: tuple[Path, os.stat_result]) -> float:
    return file[1].st_mtime


def _after_fork_in_child() -> None:
    """A thread that does not exist in the child may have held a cache's lock."""
    _cache.cache_clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
