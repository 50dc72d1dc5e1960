"""The runtime's own native code, compiled once per process.

`library()` loads it. All of it is written with the builder of `xjit.llvm`: `call_functions`, `context_functions` and
`fast_call_functions` are what a call needs, `buffer_pool_functions` and `thread_pool_functions` are the two pools.
`records` has the structs shared with Python, `buffer_records` and `thread_pool_state` those of the pools.
"""

from xjit.runtime.native.loader import NativeLibrary, library

__all__ = ["NativeLibrary", "library"]
