"""Layouts of results that may have any: each instruction is looked at once."""

from __future__ import annotations

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
