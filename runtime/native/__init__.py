"""The runtime's own native code, compiled once per process.

`library()` loads it. `call_functions`, `context_functions` and `fast_call_functions` are written with the builder of
`xjit.llvm`; `thread_pool_ir` and `buffer_pool_ir` are LLVM IR text. `records` has the structs shared with Python.
"""

from xjit.runtime.native.loader import NativeLibrary, library

__all__ = ["NativeLibrary", "library"]
