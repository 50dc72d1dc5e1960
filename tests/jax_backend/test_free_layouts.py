"""Layouts of results that may have any: each instruction is looked at once."""

from __future__ import annotations

import pytest

import xjit
from xjit.jax_backend.boundary import free_layout


def test_a_long_chain_of_sums_with_themselves() -> None:
    lines = [f"  v{n + 1} = f32[2,3] add(v{n}, v{n})" for n in range(3000)]
    text = "\n".join(
        [
            "ENTRY e {",
            "  v0 = f32[2,3] parameter(0)",
            *lines,
            "  ROOT t = f32[3,2] transpose(v3000), dimensions={1,0}",
            "}",
        ]
    )
    module = xjit.parse_hlo(text)
    root, [parameter] = module.entry_computation.root_instruction, module.entry_computation.parameter_instructions
    assert free_layout(root, [parameter.shape]).minor_to_major == (0, 1)


def test_operands_that_disagree_are_row_major() -> None:
    module = xjit.parse_hlo("""
ENTRY e {
  x = f32[2,2] parameter(0)
  y = f32[2,2] transpose(x), dimensions={1,0}
  ROOT s = f32[2,2] add(x, y)
}
""")
    root, [parameter] = module.entry_computation.root_instruction, module.entry_computation.parameter_instructions
    assert free_layout(root, [parameter.shape]).minor_to_major == (1, 0)


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [
        ("f32[3,4]{0,1}", "s32[3,4]", (0, 1)),
        ("f32[3,4]{0,1}", "u8[3,4,4]", (2, 1, 0)),
        ("u8[3,4,4]{0,1,2}", "f32[3,4]", (1, 0)),
    ],
)
def test_free_layouts_of_bitcasts(source: str, target: str, order: tuple[int, ...]) -> None:
    """The operand's order is the result's where it has as many dimensions."""
    module = xjit.parse_hlo(
        f"HloModule m\nENTRY e {{\n  x = {source} parameter(0)\n  ROOT r = {target} bitcast-convert(x)\n}}\n"
    )
    entry = module.entry_computation
    parameters = [p.shape for p in entry.parameter_instructions]
    assert free_layout(entry.root_instruction, parameters).minor_to_major == order
