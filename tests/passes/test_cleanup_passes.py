"""Call inliner, CSE, DCE, tuple simplifier, trivial algebra, constant folding, flattening: golden pairs and
refusals.
"""

from __future__ import annotations

import pytest

from tests.support.passes import check_pass, count
from xjit.passes.calls_and_control.call_inliner import CallInliner
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.collectives.single_device_canonicalizer import SingleDeviceCanonicalizer
from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.passes.simplify.trivial_algebra import TrivialAlgebra
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier
from xjit.text.parser import parse_hlo

LOOP = """
cond { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  v = f32[4] get-tuple-element(p), index=1  w = f32[4] add(v, v)
  ROOT t = (s32[], f32[4]) tuple(j, w) }
ENTRY e { x = f32[4] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[4]) tuple(z, x)
  ROOT w = (s32[], f32[4]) while(t), condition=cond, body=body }"""


def entry(body: str, others: str = "") -> str:
    """Wraps instructions into a module."""
    return f"HloModule m\n{others}\nENTRY e {{\n{body}\n}}"


def test_call_inliner_inlines_in_order() -> None:
    f = "f { a = f32[4] parameter(0)  b = f32[4] parameter(1)  m = f32[4] multiply(a, b)  ROOT s = f32[4] add(m, a) }"
    check_pass(
        CallInliner(),
        entry("x = f32[4] parameter(0) y = f32[4] call(x, x), to_apply=f ROOT z = f32[4] call(y, x), to_apply=f", f),
        entry(
            "x = f32[4] parameter(0) m1 = f32[4] multiply(x, x) y = f32[4] add(m1, x) m2 = f32[4] multiply(y, x) "
            "ROOT z = f32[4] add(m2, y)"
        ),
    )


def test_call_inliner_inlines_nested_calls_and_identity() -> None:
    others = """g { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
    f { a = f32[4] parameter(0)  ROOT c = f32[4] call(a), to_apply=g }
    id { ROOT a = f32[4] parameter(0) }"""
    module = check_pass(
        CallInliner(),
        entry("x = f32[4] parameter(0) y = f32[4] call(x), to_apply=f ROOT z = f32[4] call(y), to_apply=id", others),
        entry("x = f32[4] parameter(0) ROOT y = f32[4] negate(x)"),
    )
    assert module.computation_count == 1


def test_call_inliner_keeps_control_dependencies() -> None:
    others = "f { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }"
    module = parse_hlo(
        entry(
            "x = f32[4] parameter(0) q = f32[4] abs(x) y = f32[4] call(x), to_apply=f, control-predecessors={q} "
            "ROOT t = (f32[4], f32[4]) tuple(q, y)",
            others,
        )
    )
    assert CallInliner().run(module)
    negate = next(i for i in module.entry_computation.instructions if i.opcode == "negate")
    assert [p.opcode for p in negate.control_predecessors] == ["abs"]


@pytest.mark.parametrize(
    "attributes", ['frontend_attributes={inlineable="false"}', 'backend_config="outer_dimension_partitions"']
)
def test_call_inliner_leaves_marked_calls(attributes: str) -> None:
    f = "f { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }"
    check_pass(CallInliner(), entry(f"x = f32[4] parameter(0) ROOT y = f32[4] call(x), to_apply=f, {attributes}", f))


def test_call_inliner_ignores_reducers() -> None:
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    check_pass(
        CallInliner(),
        entry(
            "x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add",
            add,
        ),
    )


def test_dce_removes_chains_and_computations() -> None:
    unused = "unused { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }"
    module = check_pass(
        HloDCE(),
        entry(
            "x = f32[4] parameter(0) y = f32[4] parameter(1) d = f32[4] multiply(y, y) d2 = f32[4] negate(d) "
            "ROOT r = f32[4] abs(x)",
            unused,
        ),
        entry("x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT r = f32[4] abs(x)"),
    )
    assert module.computation_count == 1


def test_dce_keeps_side_effects_and_control_edges() -> None:
    body = (
        'x = f32[4] parameter(0) c = f32[4] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true '
        "d = f32[4] negate(x) ROOT r = f32[4] abs(x), control-predecessors={d}"
    )
    module = parse_hlo(entry(body))
    assert not HloDCE().run(module)
    assert count(module, "custom-call") == count(module, "negate") == 1


def test_cse_merges_commuted_operands_and_chains() -> None:
    check_pass(
        HloCSE(),
        entry(
            "x = f32[4] parameter(0) y = f32[4] parameter(1) a = f32[4] add(x, y) b = f32[4] add(y, x) "
            "na = f32[4] negate(a) nb = f32[4] negate(b) ROOT t = (f32[4], f32[4]) tuple(na, nb)"
        ),
        entry(
            "x = f32[4] parameter(0) y = f32[4] parameter(1) a = f32[4] add(x, y) na = f32[4] negate(a) "
            "ROOT t = (f32[4], f32[4]) tuple(na, na)"
        ),
    )


def test_cse_compares_called_computations_by_structure() -> None:
    others = """a1 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    a2 { c = f32[] parameter(0)  d = f32[] parameter(1)  ROOT q = f32[] add(c, d) }
    m1 { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }"""
    reduce = "f32[] reduce(x, z), dimensions={0}, to_apply="
    module = check_pass(
        HloCSE(),
        entry(
            f"x = f32[4] parameter(0) z = f32[] constant(0) r1 = {reduce}a1 r2 = {reduce}a2 r3 = {reduce}m1 "
            "ROOT t = (f32[], f32[], f32[]) tuple(r1, r2, r3)",
            others,
        ),
        entry(
            f"x = f32[4] parameter(0) z = f32[] constant(0) r1 = {reduce}a1 r3 = {reduce}m1 "
            "ROOT t = (f32[], f32[], f32[]) tuple(r1, r1, r3)",
            others,
        ),
    )
    assert count(module, "reduce") == 2


@pytest.mark.parametrize(
    "pair",
    [
        ("f32[] constant(0)", "f32[] constant(-0)"),
        ("f32[4] subtract(x, y)", "f32[4] subtract(y, x)"),
        ("f32[4] negate(x), sharding={replicated}", "f32[4] negate(x)"),
        ("f32[4] abs(x)", "f32[4] negate(x)"),
        ("f32[1] rng(l, l), distribution=rng_uniform", "f32[1] rng(l, l), distribution=rng_uniform"),
    ],
)
def test_cse_does_not_merge(pair: tuple[str, str]) -> None:
    a, b = pair
    shape = a.split(" ")[0]
    text = entry(
        f"x = f32[4] parameter(0) y = f32[4] parameter(1) l = f32[] constant(1) a = {a} b = {b} "
        f"ROOT t = ({shape}, {shape}) tuple(a, b)"
    )
    module = parse_hlo(text)
    assert not HloCSE().run(module)


def test_cse_merges_constants_of_equal_bits() -> None:
    module = parse_hlo(
        entry(
            "a = f32[] constant(nan) b = f32[] constant(nan) c = s32[] constant(0) ROOT t = (f32[], f32[], s32[]) "
            "tuple(a, b, c)"
        )
    )
    assert HloCSE().run(module)
    assert count(module, "constant") == 2


def test_cse_layouts() -> None:
    text = entry(
        "x = f32[2,3] parameter(0) a = f32[2,3]{1,0} negate(x) b = f32[2,3]{0,1} negate(x) "
        "ROOT t = (f32[2,3]{1,0}, f32[2,3]{0,1}) tuple(a, b)"
    )
    assert not HloCSE().run(parse_hlo(text))
    assert HloCSE(is_layout_sensitive=False).run(parse_hlo(text))


def test_tuple_simplifier() -> None:
    shape = "(f32[2], s32[3])"
    check_pass(
        TupleSimplifier(),
        entry(
            f"p = {shape} parameter(0) a = f32[2] get-tuple-element(p), index=0 b = s32[3] "
            f"get-tuple-element(p), index=1 "
            f"t = {shape} tuple(a, b) g = f32[2] get-tuple-element(t), index=0 n = f32[2] negate(g) "
            f"ROOT r = (f32[2], {shape}) tuple(n, t)"
        ),
        entry(
            f"p = {shape} parameter(0) a = f32[2] get-tuple-element(p), index=0 n = f32[2] negate(a) "
            f"ROOT r = (f32[2], {shape}) tuple(n, p)"
        ),
    )


def test_tuple_simplifier_keeps_permutations_and_parts() -> None:
    check_pass(
        TupleSimplifier(),
        entry(
            "p = (f32[2], f32[2]) parameter(0) a = f32[2] get-tuple-element(p), index=0 "
            "b = f32[2] get-tuple-element(p), index=1 ROOT t = (f32[2], f32[2]) tuple(b, a)"
        ),
    )
    check_pass(
        TupleSimplifier(),
        entry("p = (f32[2], f32[2]) parameter(0) a = f32[2] get-tuple-element(p), index=0 ROOT t = (f32[2]) tuple(a)"),
    )
    check_pass(TupleSimplifier(), LOOP)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ROOT r = f32[2,3] transpose(x), dimensions={0,1}", "ROOT x = f32[2,3] parameter(0)"),
        ("a = f32[6] reshape(x) ROOT r = f32[2,3] reshape(a)", "ROOT x = f32[2,3] parameter(0)"),
        (
            "a = f32[3,2] transpose(x), dimensions={1,0} n = f32[3,2] negate(a) "
            "ROOT r = f32[2,3] transpose(n), dimensions={1,0}",
            None,
        ),
        ("ROOT r = f32[2,3] slice(x), slice={[0:2], [0:3]}", "ROOT x = f32[2,3] parameter(0)"),
        ("ROOT r = f32[2,2] slice(x), slice={[0:2], [0:2]}", None),
        (
            "a = f32[2,3,4] broadcast(x), dimensions={0,1} ROOT r = f32[5,2,3,4] broadcast(a), dimensions={1,2,3}",
            "x = f32[2,3] parameter(0) ROOT r = f32[5,2,3,4] broadcast(x), dimensions={1,2}",
        ),
        (
            "a = f32[1,2,3] reshape(x) ROOT r = f32[2,1,3] transpose(a), dimensions={1,0,2}",
            "x = f32[2,3] parameter(0) ROOT r = f32[2,1,3] reshape(x)",
        ),
        ("ROOT r = f32[2,3] convert(x)", "ROOT x = f32[2,3] parameter(0)"),
        ("ROOT r = s32[2,3] convert(x)", None),
        ("ROOT r = f32[2,3] concatenate(x), dimensions={0}", "ROOT x = f32[2,3] parameter(0)"),
    ],
)
def test_trivial_algebra(before: str, after: str | None) -> None:
    text = entry(f"x = f32[2,3] parameter(0) {before}")
    check_pass(TrivialAlgebra(is_layout_sensitive=False), text, None if after is None else entry(after))


def test_constant_folding() -> None:
    module = check_pass(
        HloConstantFolding(),
        entry(
            "x = f32[3] parameter(0) a = f32[3] constant({1,2,3}) two = f32[] constant(2) "
            "b = f32[3] broadcast(two), dimensions={} m = f32[3] multiply(a, b) ROOT r = f32[3] add(x, m)"
        ),
        entry("x = f32[3] parameter(0) m = f32[3] constant({2,4,6}) ROOT r = f32[3] add(x, m)"),
    )
    assert count(module, "constant") == 1


@pytest.mark.parametrize(
    "body",
    [
        "a = f32[] constant(1) ROOT r = f32[1000,1000] broadcast(a), dimensions={}",  # would only grow
        "a = f32[] constant(1) b = f32[100,100] broadcast(a), dimensions={} ROOT r = f32[100,100] add(b, b)",
        "x = f32[] parameter(0) a = f32[] constant(1) ROOT r = f32[] add(x, a)",
        "ROOT r = s32[5] iota(), iota_dimension=0",
    ],
)
def test_constant_folding_leaves(body: str) -> None:
    check_pass(HloConstantFolding(), entry(body))


def test_constant_folding_respects_its_budget() -> None:
    body = "a = f32[64] constant({...}) ROOT r = f32[64] add(a, a)"
    module = parse_hlo(entry(body), allow_elided_constants=True)
    assert not HloConstantFolding(max_work=10).run(module)
    assert HloConstantFolding().run(module)


def test_flatten_call_graph() -> None:
    f = "f { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }"
    module = check_pass(
        FlattenCallGraph(),
        entry("x = f32[4] parameter(0) y = f32[4] call(x), to_apply=f ROOT z = f32[4] call(y), to_apply=f", f),
        entry("x = f32[4] parameter(0) y = f32[4] call(x), to_apply=f ROOT z = f32[4] call(y), to_apply=f", f),
    )
    assert module.computation_count == 3
    check_pass(FlattenCallGraph(), LOOP)


def test_single_device_canonicalizer() -> None:
    module = check_pass(
        SingleDeviceCanonicalizer(),
        entry(
            'x = f32[4] parameter(0) s = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated} '
            "n = f32[4] negate(s) t = (f32[4], f32[4]) tuple(n, s) o = (f32[4], f32[4]) opt-barrier(t) "
            "ROOT r = f32[4] get-tuple-element(o), index=0"
        ),
        entry(
            "x = f32[4] parameter(0) n = f32[4] negate(x) t = (f32[4], f32[4]) tuple(n, x) ROOT r = f32[4] "
            "get-tuple-element(t), index=0"
        ),
    )
    assert count(module, "custom-call") == 0
    check_pass(SingleDeviceCanonicalizer(), LOOP)
