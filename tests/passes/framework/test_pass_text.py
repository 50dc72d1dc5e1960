"""Passes written as text: options, lists, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import xjit
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes import PASSES
from xjit.passes.calls_and_control.call_inliner import CallInliner
from xjit.passes.framework.pass_text import make_pass, option_types, split_pass_list
from xjit.passes.simplify.hlo_dce import HloDCE

TEXT = """HloModule m
f { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
ENTRY e { x = f32[2] parameter(0) a = f32[2] call(x), to_apply=f ROOT b = f32[2] call(a), to_apply=f }"""


def test_options_are_the_fields() -> None:
    made = make_pass(PASSES, "call_inliner{single_call_site=true, max-instructions=0x10}")
    assert made == CallInliner(single_call_site=True, max_instructions=16)
    assert make_pass(PASSES, " dce ") == make_pass(PASSES, "dce{}") == HloDCE()
    assert option_types(CallInliner)["single_call_site"] is bool


def test_lists() -> None:
    assert split_pass_list("cse, inline{single_call_site=true,max_instructions=1},,dce") == [
        "cse", "inline{single_call_site=true,max_instructions=1}", "dce",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "inline{single_call=true}",
            r"'call-inliner' has no option 'single_call'[\s\S]*did you mean 'single_call_site'",
        ),
        ("hlo-descheduler{a=1}", r"'hlo-descheduler' has no option 'a'[\s\S]*it has none"),
        ("inline{single_call_site=maybe}", "'single_call_site' of pass 'call-inliner' is true or false, found 'maybe'"),
        ("inline{max_instructions}", "is an integer, found ''"),
        ("inline{max_instructions=1.5}", "is an integer, found '1.5'"),
        ("inline{should_inline=f}", "can only be set from Python"),
        ("inline{single_call_site=true", r"expected inline\{option=value,...\}"),
        ("inline{a=1}b", r"expected inline\{option=value,...\}"),
        ("inlin{a=1}", "did you mean"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    module = xjit.parse_hlo(TEXT)
    with pytest.raises(InvalidArgument, match=message):
        xjit.run_passes(module, ["inline", text])
    assert "call(" in str(module)


def test_run_passes_takes_options() -> None:
    module = xjit.parse_hlo(TEXT)
    assert not xjit.run_passes(module, ["call-inliner{single_call_site=true}"])
    assert xjit.run_passes(module, ["call-inliner{single_call_site=false}"])
    assert "call(" not in str(module)


def test_every_registered_pass_has_readable_options() -> None:
    for cls in PASSES.values():
        assert isinstance(cls.name, str) and cls.name
        for kind in option_types(cls).values():
            from_python = any(part in str(kind) for part in (Callable.__name__, "xjit.", "tuple["))
            assert kind in (bool, int, float, str) or from_python


def test_compile_refuses_to_leave_out_required_passes() -> None:
    with pytest.raises(InvalidArgument, match="'layout-assignment' cannot be disabled"):
        xjit.CompileOptions(disabled_passes=("layout_assignment",))
    assert xjit.CompileOptions(disabled_passes=("cse",)).disabled_passes == ("cse",)
