"""Custom calls that need no library, against the evaluator; others are refused by name."""

from __future__ import annotations

import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo.diagnostics import UnknownTarget


@pytest.mark.parametrize("target", ["Sharding", "MoveToHost", "LayoutConstraint"])
def test_identities(target: str) -> None:
    check(f"""HloModule m
ENTRY e {{
  x = f32[3,4] parameter(0)
  y = f32[3,4] negate(x)
  c = f32[3,4] custom-call(y), custom_call_target="{target}"
  ROOT r = f32[3,4] add(c, x)
}}
""")


def test_allocate_buffer() -> None:
    check("""HloModule m
ENTRY e {
  x = f32[5] parameter(0)
  b = f32[5] custom-call(), custom_call_target="AllocateBuffer"
  ROOT r = f32[5] add(b, x)
}
""")


def test_unknown_target() -> None:
    text = 'ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] custom-call(x), custom_call_target="nobody"\n}'
    with pytest.raises(xjit.Unsupported, match="nobody") as caught:
        xjit.compile(text)
    assert isinstance(caught.value, UnknownTarget) and caught.value.target == "nobody" and not caught.value.is_typed
    with pytest.raises(UnknownTarget) as caught:
        xjit.compile(text.replace('nobody"', 'nobody", api_version=API_VERSION_TYPED_FFI'))
    assert caught.value.is_typed
