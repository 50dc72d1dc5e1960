"""While loops: the closure of what the body reads, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.indexing.relations import Array, observed, random_input, relation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.indexing import compute_input_to_output_indexing, compute_output_to_input_indexing
from xjit.indexing.composition import Composer
from xjit.indexing.structure import leaf_shape
from xjit.text.parser import parse_hlo

STATE = "(s32[], f32[4,3], f32[4,3], f32[3])"
ADD = "add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"


GO_ON = "ROOT go = pred[] compare(i, three), direction=LT"


def loop(*body: str, condition: str = GO_ON, result: str = "tuple(i1, a1, b1, c1)") -> HloModule:
    """Returns a module whose entry is a while over STATE; `body` computes i1, a1, b1, c1 from i, a, b, c."""
    state = [f"{name} = {kind} get-tuple-element(s), index={n}" for n, (name, kind) in enumerate(LEAVES)]
    lines = "\n  ".join([*state, *body])
    return parse_hlo(f"""HloModule loops
{ADD}
condition {{
  s = {STATE} parameter(0)
  three = s32[] constant(3)
  {state[0]}
  {state[3]}
  {condition}
}}
body {{
  s = {STATE} parameter(0)
  one = s32[] constant(1)
  zero = s32[] constant(0)
  low = f32[] constant(0)
  {lines}
  i1 = s32[] add(i, one)
  ROOT r = {STATE} {result}
}}
ENTRY e {{
  i = s32[] parameter(0)
  a = f32[4,3] parameter(1)
  b = f32[4,3] parameter(2)
  c = f32[3] parameter(3)
  s = {STATE} tuple(i, a, b, c)
  ROOT w = {STATE} while(s), condition=condition, body=body
}}""")


LEAVES = [("i", "s32[]"), ("a", "f32[4,3]"), ("b", "f32[4,3]"), ("c", "f32[3]")]
A_KEPT, B_KEPT, C_KEPT = (f"{n}1 = {kind} copy({n})" for n, kind in LEAVES[1:])
BODIES = {
    "elementwise": ("a1 = f32[4,3] add(a, b)", B_KEPT, C_KEPT),
    "handed around": ("a1 = f32[4,3] copy(b)", "b1 = f32[4,3] negate(a)", C_KEPT),
    "row sums": (
        "t = f32[3] reduce(a, low), dimensions={0}, to_apply=add_f32",
        "c1 = f32[3] add(c, t)",
        A_KEPT,
        B_KEPT,
    ),
    "a row each": (
        "t = f32[1,3] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,3}",
        "u = f32[3] reshape(t)",
        "c1 = f32[3] add(c, u)",
        "v = f32[1,3] reshape(c1)",
        "b1 = f32[4,3] dynamic-update-slice(b, v, i, zero)",
        A_KEPT,
    ),
    "shifted": (
        "t = f32[3,3] slice(a), slice={[1:4],[0:3]}",
        "u = f32[1,3] slice(a), slice={[0:1],[0:3]}",
        "a1 = f32[4,3] concatenate(t, u), dimensions={0}",
        "b1 = f32[4,3] reverse(b), dimensions={0}",
        C_KEPT,
    ),
    "everything": (
        "t = f32[12] reshape(a)",
        "u = f32[12] reverse(t), dimensions={0}",
        "a1 = f32[4,3] reshape(u)",
        "v = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "b1 = f32[4,3] slice(v), slice={[0:4],[1:4]}",
        C_KEPT,
    ),
}  # fmt: skip


def _values(inputs: list[Array]):
    def value(source: HloInstruction) -> Array:
        return inputs[source.parameter_number]

    return value


@pytest.mark.parametrize("name", BODIES)
def test_what_matters_is_in_the_maps(name: str) -> None:
    module = loop(*BODIES[name])
    root = module.entry_computation.root_instruction
    rng = np.random.default_rng(3)
    inputs = [random_input(p.shape, rng) for p in module.entry_computation.parameter_instructions]
    inputs[0] = np.zeros((), np.int32)
    for p, (_, kind) in enumerate(LEAVES):
        dims = leaf_shape(root.shape, p).dimensions
        for place in np.ndindex(*dims):
            changes = observed(module, inputs, p, place)
            for output, changed in enumerate(changes):
                out = leaf_shape(root.shape, output).dimensions
                reads = [r for r in Composer().reads(root, output) if r.leaf == p]
                maps = [m for r in reads for m in r.maps]
                assert not any(m.is_unknown or m.rt_vars for m in maps)
                said = relation(maps, out, dims, _values(inputs))
                flat = int(np.ravel_multi_index(place, dims)) if dims else 0
                assert not (changed & ~said[:, flat]).any(), (kind, place, output)


def test_what_the_body_leaves_alone_is_the_operand_s() -> None:
    root = loop("a1 = f32[4,3] negate(a)", B_KEPT, result="tuple(i1, a1, b1, c)").entry_computation
    (read,) = Composer().reads(root.root_instruction, 3)
    assert read.leaf == 3 and read.is_exact and read.maps[0].is_identity


def test_an_elementwise_body_reads_the_same_element() -> None:
    root = loop(*BODIES["elementwise"]).entry_computation.root_instruction
    maps = [str(m.map) for m in compute_output_to_input_indexing(root, 1)[0]]
    assert maps == ["(d0, d1) -> ()", "(d0, d1) -> (d0, d1)"]  # the counter, and a and b
    back = compute_input_to_output_indexing(root, 0)
    assert [str(m.map) for m in back[1]] == ["()[s0, s1] -> (s0, s1)", "(d0, d1) -> (d0, d1)"]


def test_shifts_are_widened() -> None:
    root = loop(*BODIES["shifted"]).entry_computation.root_instruction
    reads = {r.leaf: r for r in Composer().reads(root, 1)}
    assert [str(m.map) for m in reads[1].maps] == ["(d0, d1)[s0] -> (s0, d1)"] and not reads[1].is_exact


def test_a_condition_on_data_counts() -> None:
    condition = """t = f32[1] slice(c), slice={[1:2]}
  u = f32[] reshape(t)
  small = f32[] constant(40)
  ROOT go = pred[] compare(u, small), direction=LT"""
    root = loop("a1 = f32[4,3] negate(a)", B_KEPT, "c1 = f32[3] add(c, c)", condition=condition).entry_computation
    reads = {r.leaf: [str(m.map) for m in r.maps] for r in Composer().reads(root.root_instruction, 1)}
    assert reads == {1: ["(d0, d1) -> (d0, d1)"], 3: ["(d0, d1) -> (1)"]}
