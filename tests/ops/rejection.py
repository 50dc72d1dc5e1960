"""`rejects`: what the verifier says of a module that it must refuse."""

from __future__ import annotations

from typing import Any

import pytest

from xjit.hlo import HloModule, HloVerifyError
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions


def rejects(module: HloModule, message: str, **options: Any) -> HloVerifyError:
    """Returns the error, which says `message`."""
    with pytest.raises(HloVerifyError) as caught:
        verify_module(module, VerifierOptions(**options))
    assert message in caught.value.message
    return caught.value
