"""HloInstruction: edges, names, called computations, annotations, classification, identity."""

from __future__ import annotations

import pytest

from xjit.hlo import HloInstruction, HloModule, InvalidArgument, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.ops.build import make, make_binary_computation
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = f32[2] negate(x)
  d = f32[2] add(n, n)
  k = f32[2] abs(x)
  ROOT t = (f32[2], f32[2]) tuple(d, k)
}"""
VEC = Shape.array("f32", (2,))


def load(text: str = TEXT) -> tuple[HloModule, dict[str, HloInstruction]]:
    module = parse_hlo(text)
    return module, {i.name: i for c in module.computations() for i in c.instructions}


def only(body: str, header: str = "") -> HloInstruction:
    """The root of an entry of one line per instruction."""
    return parse_hlo(f"HloModule m\n{header}\nENTRY e {{\n{body}\n}}").entry_computation.root_instruction


def test_operands_and_users() -> None:
    module, i = load()
    x, n, d, k, t = (i[name] for name in "xndkt")
    assert d.operand_count == 2 and d.unique_operands() == [n] and d.operand_index(n) == 0 and d.operand(1) is n
    assert n.users == (d,) and x.users == (n, k) and x.user_count == 2 and d.is_user_of(n) and not d.is_user_of(x)
    with pytest.raises(InvalidArgument, match="x is not an operand of d"):
        d.operand_index(x)
    assert t.is_root() and not t.is_dead() and not n.is_dead() and n.module is module
    n.replace_use_with(d, k)
    assert n.is_dead() and d.operands == (k, k)
    wide = make("broadcast", x, shape=Shape.array("f32", (2, 2)), attributes=at.DimensionsAttributes((0,)))
    for change in (
        lambda: d.replace_operand_with(0, wide),
        lambda: k.replace_use_with(d, wide),
        lambda: k.replace_all_uses_with(wide),
    ):
        with pytest.raises(InvalidArgument, match=r"f32\[2,2\]"):
            change()
    d.replace_operand_with_different_shape(1, wide)
    assert d.operand(1) is wide and k.users == (t, d)
    k.replace_use_with_different_shape(d, wide)
    assert d.operands == (wide, wide) and k.users == (t,)
    wide.detach_from_operands()


def test_replacing_the_root() -> None:
    module, i = load()
    pair = module.entry_computation.add_instruction(HloInstruction.create_tuple([i["k"], i["d"]]))
    i["t"].replace_all_uses_with(pair)
    assert pair.is_root() and i["t"].is_dead()
    i["x"].replace_all_uses_with_different_shape(i["k"])
    assert i["n"].operand(0) is i["k"] and i["k"].operand(0) is i["x"]


def test_control_edges() -> None:
    module, i = load()
    x, n, d, k = (i[name] for name in "xndk")
    n.add_control_dependency_to(k)
    n.add_control_dependency_to(k)
    assert n.control_successors == [k] and k.control_predecessors == [n]
    with pytest.raises(InvalidArgument, match="different computations"):
        n.add_control_dependency_to(load()[1]["k"])
    with pytest.raises(InvalidArgument, match="before itself"):
        n.add_control_dependency_to(n)
    with pytest.raises(InvalidArgument, match="no control edge to d"):
        n.remove_control_dependency_to(d)
    k.add_control_dependency_to(d)
    k.safely_drop_all_control_dependencies()
    assert n.control_successors == [d] and not k.control_predecessors and not k.control_successors
    k.copy_all_control_deps_from(n)
    assert d.control_predecessors == [n, k]
    n.remove_control_dependency_to(d)
    k.drop_all_control_deps()
    assert not d.control_predecessors
    x.add_control_dependency_to(d)
    verify_module(module)


def test_names() -> None:
    module, i = load()
    i["n"].set_and_sanitize_name("a b%")
    assert i["n"].name == "a_b_"
    i["k"].name = "d"
    i["k"].uniquify_name()
    assert i["k"].name == "d.1"
    module.check_unique_names_and_ids_for_computations_and_instructions()
    with pytest.raises(FailedPrecondition, match="in no module"):
        make("abs", i["x"]).uniquify_name()


def test_shape_and_attributes() -> None:
    _, i = load()
    i["n"].mutable_shape = Shape.array("f32", (2,), (0,))
    assert i["n"].mutable_shape is i["n"].shape
    transpose = only("x = f32[2,3] parameter(0)\nROOT t = f32[3,2] transpose(x), dimensions={1,0}")
    transpose.update_attributes(dimensions=(0, 1))
    assert transpose.dimensions == (0, 1)
    with pytest.raises(InvalidArgument, match=r"transpose t: .*dimension_numbers"):
        transpose.update_attributes(dimension_numbers=())
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = transpose.colour
    with pytest.raises(TypeError, match="not SliceAttributes"):
        transpose.attributes_as(at.SliceAttributes)


def test_called_computations() -> None:
    module, i = load()
    scalar, one, two = (
        Shape.array("f32"),
        make_binary_computation("add", "f32"),
        make_binary_computation("multiply", "f32"),
    )
    reduce = HloInstruction.create_reduce(scalar, [i["x"], i["x"]], one, (0,))
    reduce.to_apply = two
    assert reduce.to_apply is two and not one.caller_instructions() and two.caller_instructions() == (reduce,)
    loop = HloInstruction.create_while(VEC, one, two, i["x"])
    loop.while_condition, loop.while_body = two, two
    assert loop.called_computations == (two, two) and not one.caller_instructions() and loop.while_init is i["x"]
    loop.while_body = one
    assert loop in two.caller_instructions() and loop in one.caller_instructions()
    branches = HloInstruction.create_conditional(VEC, [i["x"], i["x"]], [one, two])
    branches.set_branch_computation(0, two)
    assert branches.branch_computations == (two, two)
    with pytest.raises(InvalidArgument, match="calls 2 computations, none numbered 2"):
        branches.set_branch_computation(2, one)
    module.cleanup()
    assert i["x"].users == (i["n"], i["k"])


def test_backend_config() -> None:
    _, i = load()
    n, k = i["n"], i["k"]
    assert n.parsed_backend_config == {} and not n.has_backend_config()
    n.set_backend_config('{"a": [1, 2], "b": {"c": null}}')
    k.set_backend_config({"b": {"c": None}, "a": [1, 2]})
    assert n.parsed_backend_config == {"a": [1, 2], "b": {"c": None}} == k.parsed_backend_config
    assert n.backend_config != k.backend_config
    twin = k.clone_with_new_operands(k.shape, k.operands)
    twin.backend_config = n.backend_config
    assert twin.identical(k)
    twin.set_backend_config({"a": 3})
    assert not twin.identical(k) and twin.has_backend_config()
    for wrong in ("{", "[1]", "opaque"):
        with pytest.raises(InvalidArgument, match="backend config of n"):
            n.set_backend_config(wrong)
        with pytest.raises(InvalidArgument, match="backend config of n"):
            n.backend_config = wrong
    n.backend_config = '{"a":1}'
    assert n.parsed_backend_config == {"a": 1}
    with pytest.raises(InvalidArgument, match="cannot be written as JSON"):
        n.set_backend_config({"a": object()})
    n.raw_backend_config = "opaque"
    with pytest.raises(InvalidArgument, match="is not JSON"):
        _ = n.parsed_backend_config
    n.clear_backend_config()
    assert n.backend_config == ""


def test_sharding() -> None:
    _, i = load()
    replicated = HloSharding("replicated")
    assert not i["n"].has_sharding()
    i["n"].set_single_sharding(replicated)
    i["t"].set_single_sharding(replicated)
    assert i["n"].sharding == replicated and i["t"].sharding.elements == (replicated, replicated)
    with pytest.raises(InvalidArgument, match="sharding of a tuple"):
        i["n"].set_single_sharding(i["t"].sharding)
    i["n"].clear_sharding()
    assert not i["n"].has_sharding()


def test_identical() -> None:
    module, i = load()
    x, n = i["x"], i["n"]
    assert make("add", x, n).identical(make("add", x, n))
    swapped, straight = make("add", n, x), make("add", x, n)
    assert not swapped.identical(straight) and swapped.identical_ignoring_commutative_operand_order(straight)
    assert not make("subtract", n, x).identical_ignoring_commutative_operand_order(make("subtract", x, n))
    assert not make("add", x, n).identical(make("multiply", x, n))
    assert make("add", x, x).identical(make("add", x, n), eq_operands=lambda a, b: True)
    assert not make("compare", x, n, attributes=at.CompareAttributes("LT")).identical(
        make("compare", x, n, attributes=at.CompareAttributes("GT"))
    )
    matrix = HloInstruction.create_parameter(0, Shape.array("f32", (2, 3)))
    column = HloInstruction.create("abs", Shape.array("f32", (2, 3), (0, 1)), [matrix])
    assert not column.identical(make("abs", matrix)) and column.identical(make("abs", matrix), layout_sensitive=False)
    marked = make("abs", matrix)
    marked.sharding = HloSharding("replicated")
    assert not marked.identical(make("abs", matrix))
    sums = [make_binary_computation("add", "f32"), make_binary_computation("add", "f32", "other")]
    scalar = Shape.array("f32")
    a, b = (HloInstruction.create_reduce(scalar, [x, x], c, (0,)) for c in sums)
    assert a.identical(b) and not a.identical(b, eq_computations=lambda c, d: c is d)
    module.cleanup()
    verify_module(module)


def test_elementwise() -> None:
    header = (
        "f { p = f32[2] parameter(0)  q = f32[2] parameter(1)  r = f32[2] reverse(q), dimensions={0}\n"
        "ROOT a = f32[2] add(p, r) }"
    )
    fusion = only("x = f32[2] parameter(0)\nROOT f = f32[2] fusion(x, x), kind=kLoop, calls=f", header)
    assert (
        not fusion.is_elementwise() and fusion.is_elementwise_on_operand(0) and not fusion.is_elementwise_on_operand(1)
    )
    with pytest.raises(InvalidArgument, match="has 2 operands, none numbered 2"):
        fusion.is_elementwise_on_operand(2)
    update = only("x = f32[2] parameter(0)\nu = f32[1] parameter(1)\ni = s32[] parameter(2)\n"
                  "ROOT d = f32[2] dynamic-update-slice(x, u, i)")  # fmt: skip
    assert update.is_elementwise_on_operand(0) and not update.is_elementwise_on_operand(1)
    same = only("x = f32[2] parameter(0)\nROOT b = s32[2] bitcast-convert(x)")
    wider = only("x = f32[2] parameter(0)\nROOT b = u8[2,4] bitcast-convert(x)")
    assert same.is_elementwise() and not wider.is_elementwise()
    header = "f { p = f32[] parameter(0)  ROOT n = f32[] negate(p) }"
    assert only("x = f32[2] parameter(0)\nROOT m = f32[2] map(x), dimensions={0}, to_apply=f", header).is_elementwise()


def test_fusible_and_side_effects() -> None:
    _, i = load()
    assert i["n"].is_fusible() and not i["x"].is_fusible() and not i["n"].has_side_effect()
    call = 'x = f32[2] parameter(0)\nROOT c = f32[2] custom-call(x), custom_call_target="f"'
    assert only(call).is_fusible() and not only(call + ", custom_call_has_side_effect=true").is_fusible()
    inner = only("x = f32[2] parameter(0)\nROOT c = f32[2] call(x), to_apply=f", "f { " + (
        call + ", custom_call_has_side_effect=true").replace("ROOT c", "ROOT d") + " }")  # fmt: skip
    assert inner.has_side_effect() and not inner.has_side_effect_no_recurse() and not inner.is_fusible()
    rng = "a = f32[] constant(0)\nb = f32[] constant(1)\nr = f32[2] rng(a, b), distribution=rng_uniform\n"
    once, twice = (
        only(rng + "ROOT n = f32[2] negate(r)").operand(0),
        only(rng + "m = f32[2] abs(r)\nROOT n = f32[2] add(r, m)").operand(0),
    )
    assert once.is_fusible() and not twice.is_fusible()


@pytest.mark.parametrize("kind", ["Loop", "Input", "Output", "Custom"])
def test_fusion_kinds(kind: str) -> None:
    header = "f { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }"
    fusion = only(f"x = f32[2] parameter(0)\nROOT f = f32[2] fusion(x), kind=k{kind}, calls=f", header)
    for other in ("loop", "input", "output", "custom"):
        assert getattr(fusion, f"is_{other}_fusion")() == (other == kind.lower())
    assert not fusion.is_multi_output_fusion() and len(fusion.fused_parameters) == 1
    assert not fusion.operand(0).is_loop_fusion()


def test_all_reduces() -> None:
    header = "s { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    body = "x = f32[2] parameter(0)\nROOT r = f32[2] all-reduce(x), {}replica_groups={{}}, to_apply=s"
    replica, module = only(body.format("", "{}"), header), only(body.format("channel_id=3, ", "{}"), header)
    assert (
        replica.is_cross_replica_all_reduce()
        and not replica.is_cross_module_all_reduce()
        and replica.channel_id is None
    )
    assert module.is_cross_module_all_reduce() and not module.is_cross_replica_all_reduce() and module.channel_id == 3
    start = body.replace("ROOT r", "st").replace("all-reduce(", "all-reduce-start(").format("", "{}")
    done = only(start + "\nROOT d = f32[2] all-reduce-done(st)", header)
    assert done.is_cross_replica_all_reduce() and done.operand(0).is_cross_replica_all_reduce()
    plain = load()[1]["n"]
    assert (
        not plain.is_cross_replica_all_reduce() and not plain.is_cross_module_all_reduce() and plain.channel_id is None
    )


@pytest.mark.parametrize(
    ("operand", "line", "expected"),
    [
        ("f32[2,3]{1,0}", "f32[3,2]{0,1} transpose(x), dimensions={1,0}", True),
        ("f32[2,3]{1,0}", "f32[3,2]{1,0} transpose(x), dimensions={1,0}", False),
        ("f32[1,3]{1,0}", "f32[3,1]{1,0} transpose(x), dimensions={1,0}", True),
        ("f32[2,3]{1,0}", "f32[6]{0} bitcast(x)", True),
        ("f32[2,3]{1,0:T(2,2)}", "f32[3,2]{0,1} transpose(x), dimensions={1,0}", False),
        ("f32[2,3]{1,0}", "f32[2,3]{1,0} copy(x)", False),
    ],
)
def test_effective_bitcast(operand: str, line: str, expected: bool) -> None:
    assert only(f"x = {operand} parameter(0)\nROOT r = {line}").is_effective_bitcast() is expected


def test_latest_non_gte_ancestor() -> None:
    root = only("p = ((f32[], f32[2]), f32[]) parameter(0)\na = (f32[], f32[2]) get-tuple-element(p), index=0\n"
                "ROOT b = f32[2] get-tuple-element(a), index=1")  # fmt: skip
    assert root.latest_non_gte_ancestor().opcode == "parameter"
    assert root.latest_non_gte_ancestor_and_index()[1] == (0, 1)
    assert root.latest_non_gte_ancestor().latest_non_gte_ancestor_and_index() == (root.latest_non_gte_ancestor(), ())
