"""Capsules are read by functions of xjit's own: those of `ctypes.pythonapi` belong to all packages of the process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes
import numpy as np
import xjit

class Array:
    def __init__(self, array):
        self.array = array
    def __dlpack__(self, **options):
        return xjit.DlpackArray(self.array).__dlpack__()
    def __dlpack_device__(self):
        return (1, 0)

solve = '''HloModule m
ENTRY e { x = f32[3,3] parameter(0)
  ROOT r = f32[3,3] cholesky(x), lower=true }'''
eye = np.eye(3, dtype=np.float32)
assert np.array_equal(xjit.compile(solve)(Array(eye)), eye)
for name in ("New", "GetName", "GetPointer", "SetName", "IsValid"):
    function = getattr(ctypes.pythonapi, f"PyCapsule_{name}")
    assert function.restype is ctypes.c_int and function.argtypes is None, name
"""


def test_the_functions_of_the_process_keep_their_types() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
