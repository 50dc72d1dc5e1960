"""The cache of object code: ls, stat and verify look into it; clear empties it, fill compiles libraries ahead."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from xjit.compile_options import CompileOptions
from xjit.compiler import libraries_of
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.machine_code.jit import CodegenOptions, ProgramCompiler, compile_library
from xjit.runtime.machine_code.library_cache import forget_libraries, library_cache
from xjit.runtime.machine_code.object_cache import DIRECTORY_VARIABLE, ObjectCache
from xjit.runtime.native.loader import runtime_libraries
from xjit.text.parser import parse_hlo
from xjit.tools.library_programs import library_programs

_DAMAGED = "(damaged)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `xjit cache`."""
    parser.add_argument(
        "action",
        choices=list(_ACTIONS),
        help="ls: every file; stat: number and size; verify: find damaged files, and remove them; clear: remove all; "
        "fill: compile the libraries that most programs need",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help=f"the cache (default: what {DIRECTORY_VARIABLE} names, or that of libraries)",
    )
    parser.add_argument("--json", action="store_true", help="ls and stat: one JSON object per line")


def main(options: argparse.Namespace) -> int:
    """Runs one action; status 1 if `verify` found damage."""
    cache = library_cache(options.dir)
    if cache is None:
        raise InvalidArgument(f"there is no cache: set {DIRECTORY_VARIABLE}, or give --dir")
    return _ACTIONS[options.action](cache, options.json)


def _ls(cache: ObjectCache, as_json: bool) -> int:
    for entry in cache.entries():
        if as_json:
            row = {"key": entry.key, "label": entry.label, "bytes": entry.num_bytes, "last_used": entry.last_used}
            print(json.dumps({**row, "intact": entry.is_intact}))
        else:
            day = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
            print(f"{entry.key[:16]} {entry.num_bytes:>10,} {day}  {entry.label if entry.is_intact else _DAMAGED}")
    return 0


def _stat(cache: ObjectCache, as_json: bool) -> int:
    entries = cache.entries()
    total = sum(entry.num_bytes for entry in entries)
    damaged = sum(not entry.is_intact for entry in entries)
    if as_json:
        facts = {"files": len(entries), "bytes": total, "max_bytes": cache.max_bytes, "damaged": damaged}
        print(json.dumps({"directory": str(cache.directory), **facts}))
    else:
        print(f"{cache.directory}: {len(entries)} files, {total:,} of {cache.max_bytes:,} bytes, {damaged} damaged")
    return 0


def _verify(cache: ObjectCache, as_json: bool) -> int:
    del as_json
    entries = cache.entries()
    damaged = [entry.key for entry in entries if not entry.is_intact]
    cache.remove(damaged)
    for key in damaged:
        print(f"{key[:16]} {_DAMAGED}, removed")
    print(f"{len(entries) - len(damaged)} files are whole")
    return 1 if damaged else 0


def _clear(cache: ObjectCache, as_json: bool) -> int:
    del as_json
    print(f"{cache.clear()} files removed")
    return 0


def _fill(cache: ObjectCache, as_json: bool) -> int:
    """Compiles what is not there yet: the runtime, and the libraries that `library_programs` call."""
    del as_json
    options = CompileOptions(cache_dir=str(cache.directory))
    found = (library for text in library_programs() for library in libraries_of(parse_hlo(text), options))
    libraries = {library.name: library for library in found}
    codegen = CodegenOptions(cache_dir=options.cache_dir)
    forget_libraries()  # what is in memory may not be on disk
    for library in runtime_libraries():
        compile_library(library, codegen)
    with ProgramCompiler(codegen) as compiler:
        for library in libraries.values():
            compiler.add_library(library)
        compiler.objects()
    print(f"{cache.directory}: {len(libraries)} libraries and the runtime are there")
    return 0


_ACTIONS: dict[str, Callable[[ObjectCache, bool], int]] = {
    "ls": _ls,
    "stat": _stat,
    "verify": _verify,
    "clear": _clear,
    "fill": _fill,
}
