"""Where failed instructions come from: spans of the text, fusions, metadata, stack frames."""

from __future__ import annotations

import pytest

import xjit
from xjit.hlo.annotations.metadata import FileLocation, OpMetadata, StackFrame, StackFrameIndex
from xjit.hlo.ir.places import find_place, source_note

FRAMES = StackFrameIndex(("a.py", "b.py"), ("f",), (FileLocation(2, 1, 30), FileLocation(3, 1, 5)), (StackFrame(1, 1), StackFrame(2), StackFrame(9)))  # fmt: skip

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] exponential(x), metadata={op_name="jit(f)/exp" source_file="model.py" source_line=7}
  b = f32[4] negate(a)
  ROOT c = f32[4] add(b, a), metadata={op_name="jit(f)/add"}
}"""


@pytest.mark.parametrize(
    ("metadata", "note"),
    [
        (OpMetadata(), ""),
        (OpMetadata(op_name="f/dot"), "(f/dot)"),
        (OpMetadata(source_file="m.py"), "from m.py"),
        (OpMetadata(source_file="m.py", source_line=3, op_name="g"), "from m.py:3 (g)"),
        (OpMetadata(stack_frame_id=1, op_name="g"), "from b.py:30 (g)"),
        (OpMetadata(stack_frame_id=2), ""),  # a file that the table has not
        (OpMetadata(stack_frame_id=3), ""),
        (OpMetadata(stack_frame_id=77), ""),
    ],
)
def test_notes(metadata: OpMetadata, note: str) -> None:
    assert source_note(metadata, FRAMES) == note


def test_instructions_and_fusions() -> None:
    module = xjit.parse_hlo(TEXT)
    span, notes = find_place(module, "b")
    assert span is not None and (span.line, span.column, notes) == (5, 3, ())
    assert find_place(module, "nobody") == (None, ())
    xjit.run_passes(module, ["instruction-fusion"])
    fusion = module.entry_computation.root_instruction
    assert fusion.opcode == "fusion"
    span, notes = find_place(module, fusion.name)
    assert span is not None and span.line == 6
    assert notes == ("(jit(f)/add)",)
