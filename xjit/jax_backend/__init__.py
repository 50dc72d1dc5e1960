"""A backend for JAX: xjit behind PJRT's C interface, in Python and a small native module, compiled at run time.

`JAX_PLATFORMS=xjit python script.py`, or `jax.jit(f, backend="xjit")`. From below: `c_api` (the interface as data),
`records` (the structs behind its handles), `native` (what answers without Python), `requests` (what Python sees of
one), `devices`, `transfers`, `programs`, `callbacks` (the parts), `plugin` (all functions), `registration` (JAX finds
it). Nothing here is imported by the rest of xjit.
"""
