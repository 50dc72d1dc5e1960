"""Branches and loops that pass on other values than they return are refused, at their place."""

from __future__ import annotations

import pytest

from xjit.linalg_ext import parse
from xjit.linalg_ext.ir.errors import LinalgError, LinalgVerifyError
from xjit.linalg_ext.passes import run_passes
from xjit.linalg_ext.verify import verify

REFUSED = {
    "a branch without its other side": (
        "%0 = scf.if %c -> (f32) { scf.yield %x : f32 }",
        r"'scf.if' op has results, so it needs an else region",
    ),
    "a side that gives nothing": (
        "%0 = scf.if %c -> (f32) { scf.yield %x : f32 } else { scf.yield }",
        r"'scf.if' op has different types: yielded \(\); results \(f32\)",
    ),
    "a side that gives another type": (
        "%0 = scf.if %c -> (f32) { scf.yield %x : f32 } else { scf.yield %i : index }",
        r"yielded \(index\); results \(f32\)",
    ),
    "a case that gives another type": (
        "%0 = scf.index_switch %i -> f32 case 2 { scf.yield %i : index } default { scf.yield %x : f32 }",
        r"'scf.index_switch' op has different types: yielded \(index\); results \(f32\)",
    ),
    "a side without a yield": (
        '%0 = "scf.if"(%c) ({\n^bb0:\n}, {\n^bb0:\n"scf.yield"(%x) : (f32) -> ()\n}) : (i1) -> f32',
        r"'scf.if' op has results, so its regions must end in scf.yield",
    ),
    "a region that gives another type": (
        "%0 = scf.execute_region -> f32 { scf.yield %i : index }",
        r"'scf.execute_region' op has different types",
    ),
    "a condition that passes another type": (
        "%0 = scf.while (%a = %i) : (index) -> f32 { scf.condition(%c) %a : index } do {\n^bb0(%b: f32):\n"
        "scf.yield %i : index }",
        r"'scf.while' op has different types: args \(index\); results \(f32\)",
    ),
    "a condition in a branch": (
        '"scf.if"(%c) ({\n"scf.condition"(%c) : (i1) -> ()\n}, {\n}) : (i1) -> ()',
        r"'scf.condition' op expects parent op 'scf.while'",
    ),
    "a condition in a region": (
        '"scf.execute_region"() ({\n"scf.condition"(%c) : (i1) -> ()\n}) : () -> ()',
        r"'scf.condition' op expects parent op 'scf.while'",
    ),
    "a loop that goes on with another type": (
        "%0 = scf.while (%a = %i) : (index) -> index { scf.condition(%c) %a : index } do {\n^bb0(%b: index):\n"
        "scf.yield %x : f32 }",
        r"'scf.while' op has different types: yielded \(f32\); inits \(index\)",
    ),
    "a loop without its condition": (
        "%0 = scf.while (%a = %i) : (index) -> index { scf.yield %a : index } do {\n^bb0(%b: index):\n"
        "scf.yield %b : index }",
        r"'scf.while' op expects regions that end in scf.condition and scf.yield",
    ),
}


ACCEPTED = {
    "a generic branch with an empty else": '"scf.if"(%c) ({\n"scf.yield"() : () -> ()\n}, {\n}) : (i1) -> ()',
    "a loop that gives another type than it carries": (
        "%0 = scf.while (%a = %i) : (index) -> f32 { scf.condition(%c) %x : f32 } do {\n^bb0(%b: f32):\n"
        "scf.yield %i : index }"
    ),
    "a region of blocks": (
        "%0 = scf.execute_region -> f32 {\ncf.cond_br %c, ^a, ^b\n^a:\nscf.yield %x : f32\n^b:\n"
        "cf.br ^d(%x : f32)\n^d(%q: f32):\nscf.yield %q : f32\n}"
    ),
    "buffers whose layout or space is the default": (
        "%m = memref.alloc() : memref<4xf32>\n%0 = scf.if %c -> (memref<4xf32, affine_map<(d0) -> (d0)>>) "
        "{ scf.yield %m : memref<4xf32> } else { scf.yield %m : memref<4xf32, 0> }"
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_values_that_fit(name: str) -> None:
    verify(parse(f"func.func @f(%c: i1, %x: f32, %i: index) {{\n{ACCEPTED[name]}\nreturn\n}}"))


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_do_not_fit(name: str) -> None:
    line, message = REFUSED[name]
    with pytest.raises(LinalgVerifyError, match=message) as error:
        verify(parse(f"func.func @f(%c: i1, %x: f32, %i: index) {{\n{line}\nreturn\n}}"))
    assert error.value.span is not None and error.value.span.line > 1


def test_a_script_operation_without_its_handle() -> None:
    script = """
      "transform.sequence"() ({
      ^bb0(%root: !transform.any_op):
        "transform.apply_patterns"() ({
        ^bb0:
        }) : () -> ()
        "transform.yield"() : () -> ()
      }) {failure_propagation_mode = 1 : i32} : () -> ()
    """
    with pytest.raises(LinalgError, match=r"'transform.apply_patterns' op has 0 operands, expected more than 0"):
        run_passes(parse(script), ["transform-dialect-interpreter"])
