"""Shardings that pass as Shardy passes them: by the axes of a mesh, and as far as all arrays agree."""

from __future__ import annotations

import pytest

from xjit import parse_hlo
from xjit.hlo import HloModule
from xjit.hlo.annotations.mesh import Mesh
from xjit.passes.sharding.sharding_propagation import ShardingPropagation

MESH = Mesh((("a", 2), ("b", 4)))
A_B, B_A = "devices=[2,4]<=[8]", "devices=[4,2]<=[2,4]T(1,0)"
A, B = "devices=[2,1,4]<=[8] last_tile_dim_replicate", "devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate"
ON_B = "devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate"


def propagated(body: str) -> HloModule:
    module = parse_hlo(f"HloModule m, num_partitions=8\n\nENTRY e {{\n{body}\n}}")
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=True, even_boundary=False, mesh=MESH).run(module)
    return module


def sharding_of(module: HloModule, name: str) -> str:
    return next(str(i.sharding).strip("{}") for i in module.entry_computation.instructions if i.name == name)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [(A_B, A, A_B), (A_B, B, ON_B), (A_B, B_A, "None"), (A_B, "replicated", A_B), (B, A, "None")],
)
def test_operands_agree_on_common_axes(left: str, right: str, result: str) -> None:
    module = propagated(f"""
        x = f32[8,16] parameter(0), sharding={{{left}}}
        y = f32[8,16] parameter(1), sharding={{{right}}}
        ROOT sum = f32[8,16] add(x, y)""")
    assert sharding_of(module, "sum") == result


@pytest.mark.parametrize(("rows", "result"), [(4, ON_B), (32, B)])
def test_the_largest_operand_takes_an_axis_that_two_dimensions_want(rows: int, result: str) -> None:
    module = propagated(f"""
        x = f32[8,{rows}] parameter(0), sharding={{{ON_B}}}
        y = f32[8,16] parameter(1), sharding={{{ON_B}}}
        ROOT product = f32[{rows},16] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}""")
    assert sharding_of(module, "product") == result


def test_axes_pass_through_dimensions_of_fewer_elements() -> None:
    module = propagated("""
        x = f32[16] parameter(0), sharding={devices=[8]<=[8]}
        part = f32[2] slice(x), slice={[0:2]}
        zero = f32[] constant(0)
        ROOT padded = f32[16] pad(part, zero), padding=0_14""")
    assert sharding_of(module, "part") == "devices=[2,4]<=[8] last_tile_dim_replicate"
    assert sharding_of(module, "padded") == "devices=[8]<=[8]"


def test_a_dimension_that_is_cut_at_a_place_known_late_is_whole() -> None:
    module = propagated(f"""
        x = f32[8,16] parameter(0), sharding={{{A_B}}}
        i = s32[] parameter(1)
        ROOT part = f32[4,16] dynamic-slice(x, i, i), dynamic_slice_sizes={{4,16}}""")
    assert sharding_of(module, "part") == ON_B


def test_dimensions_of_one_element_do_not_hide_uneven_tiles() -> None:
    module = propagated("""
        x = f32[1,18] parameter(0), sharding={devices=[1,8]<=[8]}
        ROOT flat = f32[18] reshape(x)""")
    assert sharding_of(module, "flat") == "devices=[8]<=[8]"


def test_axes_that_a_region_leaves_free_pass_over_its_edges() -> None:
    module = parse_hlo(f"""HloModule m, num_partitions=8

        body {{
          v = f32[4,16] parameter(0)
          ROOT n = f32[4,16] negate(v)
        }}

        ENTRY e {{
          x = f32[8,16] parameter(0), sharding={{{A_B}}}
          s = f32[8,16] custom-call(x), custom_call_target="Sharding", sharding={{{A}}},
            backend_config="unspecified_dims=[0,1]"
          l = f32[4,16] custom-call(s), custom_call_target="SPMDFullToShardShape", backend_config="unspecified_dims=[0,1]",
            sharding={{devices=[1,1,2,4]<=[8] last_tile_dims={{manual, replicated}}}}
          c = f32[4,16] call(l), to_apply=body, frontend_attributes={{xjit.manual_axes="a"}}
          ROOT f = f32[8,16] custom-call(c), custom_call_target="SPMDShardToFullShape", sharding={{{A}}},
            backend_config="unspecified_dims=[0,1]"
        }}""")
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=True, even_boundary=False, mesh=MESH).run(module)
    inside = "devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}"
    body = module.entry_computation.root_instruction.operand(0).to_apply
    assert {str(i.sharding).strip("{}").rstrip("}") + "}" for i in body.instructions} == {inside}
    assert sharding_of(module, "f") == A_B


@pytest.mark.parametrize(
    ("one", "other", "result", "expected"),
    [("x", "y", "x", B_A), ("y", "x", "y", A_B), ("x", "y", "sum", "None"), ("x", "y", "y", A_B)],
)
def test_what_has_another_use_is_passed_on_later(one: str, other: str, result: str, expected: str) -> None:
    module = propagated(f"""
        x = f32[8,16] parameter(0), sharding={{{A_B}}}
        y = f32[8,16] parameter(1), sharding={{{B_A}}}
        one = f32[8,16] sine({one})
        other = f32[8,16] sine({other})
        sum = f32[8,16] add(one, other)
        ROOT r = (f32[8,16], f32[8,16]) tuple(sum, {result})""")
    assert sharding_of(module, "sum") == expected


def test_contracted_axes_are_passed_before_broadcasts_pass_theirs_on() -> None:
    module = propagated(f"""
        x = f32[8] parameter(0), sharding={{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}}
        y = f32[16,16] parameter(1), sharding={{{B_A}}}
        wide = f32[8,16] broadcast(x), dimensions={{0}}
        ROOT product = f32[8,16] dot(wide, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}""")
    assert sharding_of(module, "product") == "devices=[1,2,4]<=[8] last_tile_dim_replicate"


LOOP = """HloModule m, num_partitions=8

    condition {{
      s = (s32[], f32[8,16], f32[8,16]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT
    }}

    body {{
      s = (s32[], f32[8,16], f32[8,16]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      next = s32[] add(i, one)
      a = f32[8,16] get-tuple-element(s), index=1
      b = f32[8,16] get-tuple-element(s), index=2
      {body}
    }}

    ENTRY e {{
      x = f32[8,16] parameter(0), sharding={{{x}}}
      y = f32[8,16] parameter(1), sharding={{{y}}}
      zero = s32[] constant(0)
      t = (s32[], f32[8,16], f32[8,16]) tuple(zero, x, y)
      w = (s32[], f32[8,16], f32[8,16]) while(t), condition=condition, body=body
      first = f32[8,16] get-tuple-element(w), index=1
      second = f32[8,16] get-tuple-element(w), index=2
      ROOT r = (f32[8,16], f32[8,16]) tuple(first, second)
    }}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT t = (s32[], f32[8,16], f32[8,16]) tuple(next, b, a)", [A_B, A_B]),
        ("v = f32[8,16] sine(b) ROOT t = (s32[], f32[8,16], f32[8,16]) tuple(next, v, b)", [A_B, B_A]),
        ("v = f32[8,16] add(a, a) ROOT t = (s32[], f32[8,16], f32[8,16]) tuple(next, v, b)", [A_B, B_A]),
    ],
)
def test_what_a_loop_begins_and_goes_on_with_may_differ(body: str, expected: list[str]) -> None:
    module = parse_hlo(LOOP.format(body=body, x=A_B, y=B_A))
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=True, even_boundary=False, mesh=MESH).run(module)
    assert [sharding_of(module, name) for name in ("first", "second")] == expected


@pytest.mark.parametrize(
    ("no", "yes", "expected"), [("sine", "negate", "None"), ("copy", "copy", "None"), ("negate", "copy", "None")]
)
def test_branches_with_other_shardings_are_whole(no: str, yes: str, expected: str) -> None:
    module = parse_hlo(f"""HloModule m, num_partitions=8

        no {{
          v = f32[8,16] parameter(0)
          ROOT r = f32[8,16] {no}(v)
        }}

        yes {{
          v = f32[8,16] parameter(0)
          ROOT r = f32[8,16] {yes}(v)
        }}

        ENTRY e {{
          p = pred[] parameter(0)
          x = f32[8,16] parameter(1), sharding={{{A_B}}}
          y = f32[8,16] parameter(2), sharding={{{B_A}}}
          ROOT c = f32[8,16] conditional(p, x, y), true_computation=yes, false_computation=no
        }}""")
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=True, even_boundary=False, mesh=MESH).run(module)
    assert sharding_of(module, "c") == expected
