"""Compiled programs as bytes."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program_file import program_from_bytes, program_to_bytes

TEXT = """HloModule m, input_output_alias={{0}: (0, {}, may-alias)}
ENTRY e {
  p = f32[4,300]{1,0} parameter(0)
  q = (bf16[3], s4[2]) parameter(1)
  c = f32[300] constant({...})
  s = f32[4,300] sine(p)
  b = bf16[3] get-tuple-element(q), index=0
  d = f32[4,4] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = (f32[4,300], f32[4,4]{0,1}, bf16[3]) tuple(s, d, b)
}""".replace("  c = f32[300] constant({...})\n", "")


def test_a_program_survives() -> None:
    executable = xjit.compile(TEXT)
    data = program_to_bytes(executable.program)
    program = program_from_bytes(data)
    assert program_to_bytes(program) == data
    for field in ("parameters", "results", "parameter_tree", "result_tree", "aliases", "kernels", "instructions"):
        assert getattr(program, field) == getattr(executable.program, field)
    p = np.linspace(-1, 1, 1200, dtype=np.float32).reshape(4, 300)
    q = tuple(np.zeros(leaf.shape, leaf.dtype) for leaf in program.parameters[1:])
    for found, expected in zip(CpuExecutable(program)(p, q), executable(p, q), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("change", ["magic", "digest", "body", "cut", "empty", "version"])
def test_other_bytes_are_refused(change: str) -> None:
    data = bytearray(program_to_bytes(xjit.compile(TEXT).program))
    if change == "version":
        from xjit.runtime import program_file

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program_file, "__version__", "0.0.0")
            data = bytearray(program_to_bytes(xjit.compile(TEXT).program))
    elif change in ("cut", "empty"):
        data = data[:-1] if change == "cut" else data[:0]
    else:
        data[{"magic": 0, "digest": 20, "body": -1}[change]] ^= 1
    with pytest.raises(InvalidArgument, match=r"damaged|compiled by xjit 0\.0\.0"):
        program_from_bytes(bytes(data))
