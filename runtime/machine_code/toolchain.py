"""The versions that decide what code comes out of a compilation."""

from __future__ import annotations

import llvmlite
import llvmlite.binding as llvm

from xjit.version import __version__


def toolchain_versions() -> tuple[str, ...]:
    """Versions of xjit, llvmlite and LLVM."""
    return __version__, llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info))
