"""One key: whatever compares instructions agrees on what is the same."""

from __future__ import annotations

import pytest

from xjit.hlo.compare.equality import structural_equal
from xjit.hlo.compare.structural_key import StructuralKeys, content_key
from xjit.hlo.ir.instruction import HloInstruction
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {{
  x = f32[2,3]{{1,0}} parameter(0)
  a = f32[2,3]{first_layout} custom-call(x), custom_call_target="f"{first}
  b = f32[2,3]{second_layout} custom-call(x), custom_call_target="f"{second}
  ROOT t = (f32[2,3], f32[2,3]) tuple(a, b)
}}"""

SAME = {
    "nothing": ("", "", "", ""),
    "keys of a JSON config": ("", "", ', backend_config={"a":1,"b":[2]}', ', backend_config={"b": [2], "a": 1}'),
    "order of frontend attributes": (
        "", "", ', frontend_attributes={p="1",q="2"}', ', frontend_attributes={q="2",p="1"}',
    ),
    "an absent layout": ("{1,0}", "", "", ""),
}  # fmt: skip
DIFFERENT = {
    "a layout": ("{1,0}", "{0,1}", "", ""),
    "a config": ("", "", ', backend_config={"a":1}', ', backend_config={"a":2}'),
    "a frontend attribute": ("", "", ', frontend_attributes={p="1"}', ', frontend_attributes={p="2"}'),
    "a sharding": ("", "", ", sharding={replicated}", ""),
}


def pair(row: tuple[str, str, str, str]) -> tuple[str, HloInstruction, HloInstruction]:
    names = ("first_layout", "second_layout", "first", "second")
    text = TEXT.format(**dict(zip(names, row, strict=True)))
    _, a, b, _ = parse_hlo(text).entry_computation.instructions
    return text, a, b


@pytest.mark.parametrize(("row", "same"), [*((r, True) for r in SAME.values()), *((r, False) for r in DIFFERENT.values())],
                         ids=[*SAME, *DIFFERENT])  # fmt: skip
def test_everything_agrees(row: tuple[str, str, str, str], same: bool) -> None:
    text, a, b = pair(row)
    assert (content_key(a) == content_key(b)) is same
    assert a.identical(b) is same
    keys = StructuralKeys()
    assert (keys.instruction_key(a, (0,)) == keys.instruction_key(b, (0,))) is same
    only_first = text.replace("tuple(a, b)", "tuple(a, a)")
    only_second = text.replace("tuple(a, b)", "tuple(b, b)")
    used = [parse_hlo(t) for t in (only_first, only_second)]
    for module in used:
        _, a, b, _ = module.entry_computation.instructions
        module.entry_computation.force_remove_instruction(a if not a.users else b)
    assert structural_equal(*used) is same
    assert (used[0].hash() == used[1].hash()) is same


@pytest.mark.parametrize("name", ["keys of a JSON config", "order of frontend attributes"])
def test_cse_merges_what_is_identical(name: str) -> None:
    text = TEXT.replace('custom-call(x), custom_call_target="f"', "negate(x)")
    values = dict(zip(("first_layout", "second_layout", "first", "second"), SAME[name], strict=True))
    module = parse_hlo(text.format(**values))
    assert HloCSE().run(module)
    assert module.instruction_count == 3
