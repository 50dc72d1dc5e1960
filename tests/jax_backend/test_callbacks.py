"""Calls of Python functions, as a module has them before it is compiled."""

import pytest

from xjit.hlo.diagnostics import InvalidArgument
from xjit.jax_backend import callbacks
from xjit.text.parser import parse_hlo

_TWO_CALLS = """
HloModule m, frontend_attributes={xjit_callbacks="NUMBER"}

ENTRY e {
  x = f32[2] parameter(0)
  a = f32[2] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", backend_config="{index = 0}"
  ROOT b = f32[2] custom-call(a), custom_call_target="xla_ffi_python_cpu_callback", backend_config="{index = 1}"
}
"""


def test_what_a_refused_program_calls_is_forgotten() -> None:
    before = dict(callbacks._targets)
    number = callbacks.announce([lambda x: (x,)])
    with pytest.raises(InvalidArgument, match="a callback without its function"):
        callbacks.bind_callbacks(parse_hlo(_TWO_CALLS.replace("NUMBER", str(number))))
    callbacks.withdraw(number)
    assert callbacks._targets == before
