"""Instruction fusion and row fusion: what is fused, what is not, and that values stay the same."""

from __future__ import annotations

import random

import pytest

import xjit
from tests.support.passes import assert_same_values, check_pass, count, describe, random_arguments
from xjit.hlo import HloModule
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.edit.fusion import create_fusion, fuse_instruction_into
from xjit.ops.evaluation import evaluate
from xjit.ops.verifier import verify_module
from xjit.passes.fusion.instruction_fusion import InstructionFusion
from xjit.passes.fusion.row_fusion import RowFusion
from xjit.passes.layout.layout_assignment import ReshapeToBitcast
from xjit.text.parser import parse_hlo

REDUCERS = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }"""


def entry(body: str) -> str:
    """Wraps instructions into a module with two reducers."""
    return f"HloModule m\n{REDUCERS}\nENTRY e {{\n{body}\n}}"


def fuse(body: str, rows: bool = False) -> HloModule:
    """Fuses and validates; returns the module."""
    module = parse_hlo(entry(body))
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    ReshapeToBitcast().run(module)
    changed = InstructionFusion().run(module)
    verify_module(module)
    assert not InstructionFusion().run(module)
    if rows:
        changed |= RowFusion().run(module)
        verify_module(module)
        assert not RowFusion().run(module)
    assert_same_values(evaluate(module, *arguments), expected)
    return module


def top(module: HloModule) -> list[str]:
    """Returns the opcodes that run in the entry, without parameters, constants and plumbing."""
    skipped = ("parameter", "constant", "tuple", "get-tuple-element")
    order = module.entry_computation.make_instruction_post_order()
    return [i.opcode for i in order if i.opcode not in skipped]


def test_chain_becomes_one_fusion() -> None:
    module = check_pass(
        InstructionFusion(),
        "HloModule m ENTRY e { x = f32[64] parameter(0) y = f32[64] parameter(1) m = f32[64] multiply(x, y) "
        "a = f32[64] add(m, y) ROOT n = f32[64] negate(a) }",
        "HloModule m f { p0 = f32[64] parameter(0) p1 = f32[64] parameter(1) m = f32[64] multiply(p0, p1) "
        "a = f32[64] add(m, p1) ROOT n = f32[64] negate(a) } ENTRY e { x = f32[64] parameter(0) "
        "y = f32[64] parameter(1) ROOT f = f32[64] fusion(x, y), kind=kLoop, calls=f }",
    )
    assert count(module, "fusion") == 1


def test_single_instructions_are_not_wrapped() -> None:
    assert top(fuse("x = f32[8] parameter(0) ROOT r = f32[8] negate(x)")) == ["negate"]
    assert top(fuse("z = f32[] constant(0) ROOT r = f32[8] broadcast(z), dimensions={}")) == ["broadcast"]


def test_expensive_producer_of_two_kernels_is_stored() -> None:
    body = (
        "x = f32[8,4] parameter(0) e = f32[8,4] exponential(x) n = f32[8,4] negate(e) z = f32[] constant(0) "
        "r = f32[8] reduce(e, z), dimensions={1}, to_apply=add ROOT t = (f32[8,4], f32[8]) tuple(n, r)"
    )
    assert top(fuse(body)).count("exponential") == 1
    cheap = fuse(body.replace("exponential", "abs"))
    assert "abs" not in top(cheap)
    assert count(cheap, "abs") == 2


def test_expensive_producer_is_not_recomputed_by_a_broadcast() -> None:
    module = fuse(
        "x = f32[8] parameter(0) y = f32[8,64] parameter(1) e = f32[8] exponential(x) "
        "b = f32[8,64] broadcast(e), dimensions={0} ROOT r = f32[8,64] multiply(y, b)"
    )
    assert top(module) == ["exponential", "fusion"]


def test_producer_of_all_users_in_one_fusion_joins_once() -> None:
    module = fuse(
        "x = f32[8] parameter(0) e = f32[8] exponential(x) a = f32[8] add(e, x) b = f32[8] multiply(e, a) "
        "ROOT r = f32[8] subtract(a, b)"
    )
    assert top(module) == ["fusion"]
    assert count(module, "exponential") == 1


def test_no_cycle_through_an_unfusible_user() -> None:
    module = fuse(
        "x = f32[4,4] parameter(0) e = f32[4,4] tanh(x) d = f32[4,4] dot(e, x), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0} ROOT r = f32[4,4] add(e, d)"
    )
    assert top(module) == ["tanh", "dot", "add"]


@pytest.mark.parametrize(
    "kernel",
    [
        "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        'custom-call(a), custom_call_target="f"',
        "cholesky(a), lower=true",
    ],
)
def test_kernels_of_their_own_stay_outside(kernel: str) -> None:
    module = parse_hlo(
        entry(f"x = f32[4,4] parameter(0) a = f32[4,4] negate(x) k = f32[4,4] {kernel} ROOT r = f32[4,4] abs(k)")
    )
    assert not InstructionFusion().run(module)


def test_control_dependencies_are_respected() -> None:
    module = parse_hlo(
        entry(
            "x = f32[4] parameter(0) q = f32[4] abs(x) a = f32[4] negate(x), control-predecessors={q} ROOT r "
            "= f32[4] add(a, q)"
        )
    )
    assert not InstructionFusion().run(module)


def test_reduce_is_a_root_and_takes_its_input_in() -> None:
    module = fuse(
        "x = f32[8,4] parameter(0) m = f32[8,4] multiply(x, x) z = f32[] constant(0) "
        "r = f32[8] reduce(m, z), dimensions={1}, to_apply=add ROOT s = f32[8] sqrt(r)"
    )
    assert top(module) == ["fusion", "sqrt"]
    fusion = next(i for i in module.entry_computation.instructions if i.opcode == "fusion")
    assert fusion.attributes_as(FusionAttributes).kind == "kInput"
    assert fusion.fused_expression_root.opcode == "reduce"


def test_update_takes_the_update_in_but_not_its_target() -> None:
    module = fuse(
        "x = f32[8] parameter(0) u = f32[2] parameter(1) i = s32[] parameter(2) n = f32[8] negate(x) v = f32[2] abs(u) "
        "one = s32[] constant(1) j = s32[] add(i, one) ROOT d = f32[8] dynamic-update-slice(n, v, j)"
    )
    assert top(module) == ["negate", "fusion"]


SCATTERED = """x = f32[50] parameter(0)  i = s32[60,1] parameter(1)  u = f32[60] parameter(2)
{index}  {update}
ROOT r = f32[50] scatter(x, {names}), update_window_dims={{}}, inserted_window_dims={{0}},
  scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add"""


def mixed(name: str, kind: str, source: str, steps: int) -> str:
    lines = [f"{name}{k + 1} = {kind} add({name}{k}, {source if k % 2 else f'{name}0'})" for k in range(steps)]
    return f"{name}0 = {kind} negate({source})  " + "  ".join(lines)


@pytest.mark.parametrize(("index", "update", "kernels"), [(3, 3, 1), (20, 3, 2), (3, 20, 2), (20, 20, 3), (14, 14, 1)])
def test_update_leaves_what_costs_much_to_loops_in_lanes(index: int, update: int, kernels: int) -> None:
    bodies = {"index": mixed("i", "s32[60,1]", "i", index), "update": mixed("u", "f32[60]", "u", update)}
    assert len(top(fuse(SCATTERED.format(**bodies, names=f"i{index}, u{update}")))) == kernels


def test_update_counts_gathers_and_transcendental_functions_as_several_operations() -> None:
    gather = "offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    for gathers, kernels in ((1, 1), (3, 2)):
        chain = (f"i{k + 1} = s32[60,1] gather(t, i{k}), {gather}" for k in range(gathers))
        index = "  ".join(["t = s32[50] parameter(3)  i0 = s32[60,1] negate(i)", *chain])
        assert len(top(fuse(SCATTERED.format(index=index, update="", names=f"i{gathers}, u")))) == kernels
    update = "u0 = f32[60] tanh(u)  u1 = f32[60] sine(u0)  u2 = f32[60] cosine(u1)"
    assert len(top(fuse(SCATTERED.format(index="", update=update, names="i, u2")))) == 2


def test_update_takes_windows_of_any_cost_in() -> None:
    body = """x = f32[50,8] parameter(0)  i = s32[60,1] parameter(1)  u = f32[60,8] parameter(2)
u0 = f32[60,8] tanh(u)  u1 = f32[60,8] sine(u0)  u2 = f32[60,8] cosine(u1)
ROOT r = f32[50,8] scatter(x, i, u2), update_window_dims={1}, inserted_window_dims={0},
  scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    assert len(top(fuse(body))) == 1


def test_concatenate_is_only_a_root() -> None:
    module = fuse(
        "x = f32[4] parameter(0) a = f32[4] negate(x) b = f32[4] abs(x) c = f32[8] concatenate(a, b), dimensions={0} "
        "ROOT r = f32[8] negate(c)"
    )
    assert top(module) == ["fusion", "negate"]


def test_bitcasts_at_the_edge_stay_outside() -> None:
    module = fuse(
        "x = f32[2,4] parameter(0) a = f32[8] reshape(x) b = f32[8] negate(a) c = f32[8] abs(b) "
        "ROOT r = f32[4,2] reshape(c)"
    )
    assert top(module) == ["bitcast", "fusion", "bitcast"]
    inner = fuse("x = f32[2,4] parameter(0) b = f32[2,4] negate(x) a = f32[8] reshape(b) ROOT c = f32[8] abs(a)")
    assert top(inner) == ["fusion"]


def test_number_of_evaluations_is_bounded() -> None:
    lines = ["x0 = f32[4096] parameter(0)"]
    for n in range(10):  # each level reads the one below at two places: 1024 evaluations of x0 if all were fused
        size = 4096 >> (n + 1)
        lines.append(f"n{n} = f32[{size * 2}] negate(x{n})")
        lines.append(f"l{n} = f32[{size}] slice(n{n}), slice={{[0:{size}]}}")
        lines.append(f"h{n} = f32[{size}] slice(n{n}), slice={{[{size}:{2 * size}]}}")
        lines.append(f"x{n + 1} = f32[{size}] add(l{n}, h{n})")
    lines.append("ROOT r = f32[4] negate(x10)")
    assert 3 <= top(fuse(" ".join(lines))).count("fusion") <= 10


def test_limits() -> None:
    lines = ["x = f32[8] parameter(0)", *(f"p{i} = f32[8] parameter({i + 1})" for i in range(100))]
    previous = "x"
    for i in range(100):
        lines.append(f"a{i} = f32[8] add({previous}, p{i})")
        previous = f"a{i}"
    module = fuse(" ".join([*lines, f"ROOT r = f32[8] negate({previous})"]))
    fusions = [i for i in module.entry_computation.instructions if i.opcode == "fusion"]
    assert len(fusions) == 2
    assert all(f.operand_count <= 64 for f in fusions)


def mixing_chain(steps: int) -> list[str]:
    """Returns instructions x0 .. x<steps>, reshapes and transposes in turn that do not cancel."""
    lines = ["x0 = f32[6,10,12] parameter(0)"]
    for i in range(0, steps, 4):
        lines.append(f"x{i + 1} = f32[8,9,10] reshape(x{i})")
        lines.append(f"x{i + 2} = f32[10,9,8] transpose(x{i + 1}), dimensions={{2,1,0}}")
        lines.append(f"x{i + 3} = f32[12,6,10] reshape(x{i + 2})")
        lines.append(f"x{i + 4} = f32[6,10,12] transpose(x{i + 3}), dimensions={{1,2,0}}")
    return lines


def test_reshapes_on_a_path_are_bounded() -> None:
    module = fuse(" ".join([*mixing_chain(48), "ROOT r = f32[6,10,12] negate(x48)"]))
    fusions = [i for i in module.entry_computation.instructions if i.opcode == "fusion"]
    bodies = [f.fused_instructions_computation.instructions for f in fusions]  # chains: all reshapes are on one path
    depths = [sum(i.opcode in ("reshape", "bitcast") for i in body) for body in bodies]
    assert 4 <= len(depths) <= 6 and max(depths) <= 7


@pytest.mark.parametrize("given", [False, True])
def test_long_chains_of_reshapes_and_transposes_compile(given: bool) -> None:
    body = " ".join([*mixing_chain(52), "ROOT r = f32[6,10,12] negate(x52)"])
    call = "x = f32[6,10,12] parameter(0) ROOT c = f32[6,10,12] fusion(x), kind=kLoop, calls=f"
    module = parse_hlo(f"HloModule m f {{ {body} }} ENTRY e {{ {call} }}" if given else entry(body))
    arguments = random_arguments(module)
    assert_same_values(xjit.compile(module)(*arguments), evaluate(module, *arguments))


def test_long_chain_is_fast_and_split() -> None:
    lines = ["x0 = f32[4] parameter(0)", *(f"x{i + 1} = f32[4] negate(x{i})" for i in range(5000))]
    module = parse_hlo(entry(" ".join([*lines, "ROOT r = f32[4] abs(x5000)"])))
    assert InstructionFusion().run(module)
    assert count(module, "fusion") == 17


SOFTMAX = """x = f32[6,32] parameter(0) ninf = f32[] constant(-inf) z = f32[] constant(0)
m = f32[6] reduce(x, ninf), dimensions={1}, to_apply=max mb = f32[6,32] broadcast(m), dimensions={0}
s = f32[6,32] subtract(x, mb) e = f32[6,32] exponential(s) t = f32[6] reduce(e, z), dimensions={1}, to_apply=add
tb = f32[6,32] broadcast(t), dimensions={0} ROOT r = f32[6,32] divide(e, tb)"""

LAYER_NORM = """x = f32[2,3,16] parameter(0) g = f32[16] parameter(1) z = f32[] constant(0) n = f32[] constant(16)
s = f32[2,3] reduce(x, z), dimensions={2}, to_apply=add nb = f32[2,3] broadcast(n), dimensions={} mean = f32[2,3]
divide(s, nb)
k = f32[2,3,1] reshape(mean) k2 = f32[2,3] reshape(k) mb = f32[2,3,16] broadcast(k2), dimensions={0,1} c = f32[2,3,16]
subtract(x, mb)
q = f32[2,3,16] multiply(c, c) v = f32[2,3] reduce(q, z), dimensions={2}, to_apply=add w = f32[2,3] divide(v, nb)
i = f32[2,3] rsqrt(w) ib = f32[2,3,16] broadcast(i), dimensions={0,1} y = f32[2,3,16] multiply(c, ib)
gb = f32[2,3,16] broadcast(g), dimensions={2} ROOT r = f32[2,3,16] multiply(y, gb)"""


@pytest.mark.parametrize("body", [SOFTMAX, LAYER_NORM])
def test_row_fusion_makes_one_kernel(body: str) -> None:
    module = fuse(body, rows=True)
    assert [o for o in top(module) if o != "bitcast"] == ["fusion"], describe(module)


def test_log_sum_exp_has_a_row_root() -> None:
    module = fuse(SOFTMAX.split("\ntb =")[0] + " l = f32[6] log(t) ROOT r = f32[6] add(l, m)", rows=True)
    assert top(module) == ["fusion"]


@pytest.mark.parametrize(
    "change",
    [
        ("dimensions={0} ROOT", "dimensions={1} ROOT"),  # the sum is read along the rows, not per row
        ("dimensions={1}, to_apply=add", "dimensions={0}, to_apply=add"),  # one reduction over columns
    ],
)
def test_row_fusion_refuses_other_axes(change: tuple[str, str]) -> None:
    body = SOFTMAX.replace("6,32", "32,32").replace("f32[6]", "f32[32]").replace(*change)
    module = fuse(body, rows=True)
    fusions = [i for i in module.entry_computation.instructions if i.opcode == "fusion"]
    assert len(fusions) > 1
    assert all(sum(j.opcode == "reduce" for j in f.fused_instructions_computation.instructions) <= 1 for f in fusions)


def test_row_fusion_refuses_values_needed_elsewhere_and_long_rows() -> None:
    module = fuse(SOFTMAX.replace("ROOT r =", "r =") + " ROOT u = (f32[6,32], f32[6]) tuple(r, m)", rows=True)
    assert len(top(module)) > 1
    module = parse_hlo(entry(SOFTMAX))
    InstructionFusion().run(module)
    assert not RowFusion(max_row_elements=31).run(module)


def random_graph(seed: int) -> str:
    """Returns a random module of elementwise, movement and reduction instructions on f32[4,6] and f32[4]."""
    rng = random.Random(seed)
    lines = [
        "x = f32[4,6] parameter(0)",
        "y = f32[4,6] parameter(1)",
        "v = f32[4] parameter(2)",
        "z = f32[] constant(0)",
    ]
    full, row = ["x", "y"], ["v"]
    for n in range(rng.randint(5, 40)):
        a, b, r, s = rng.choice(full), rng.choice(full), rng.choice(row), rng.choice(row)
        kind = rng.randrange(9)
        rows = kind in (3, 4)
        text = [
            f"f32[4,6] add({a}, {b})",
            f"f32[4,6] exponential({a})",
            f"f32[4,6] broadcast({r}), dimensions={{0}}",
            f"f32[4] reduce({a}, z), dimensions={{1}}, to_apply={rng.choice(['add', 'max'])}",
            f"f32[4] {rng.choice(['multiply', 'subtract'])}({r}, {s})",
            f"f32[4,6] reverse({a}), dimensions={{1}}",
            f"f32[4,6] negate({a})",
            f"f32[4,6] subtract({a}, {b})",
            f"f32[4,6] tanh({b})",
        ][kind]
        lines.append(f"n{n} = {text}")
        (row if rows else full).append(f"n{n}")
    outputs = [rng.choice(full[2:] or full), rng.choice(full), rng.choice(row)]
    lines.append(f"ROOT t = (f32[4,6], f32[4,6], f32[4]) tuple({', '.join(outputs)})")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int) -> None:
    fuse(random_graph(seed), rows=True)


def test_fusion_helpers() -> None:
    module = parse_hlo(
        entry("x = f32[4] parameter(0) a = f32[4] negate(x) b = f32[4] add(a, x) ROOT c = f32[4] multiply(b, a)")
    )
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    by_name = {i.opcode: i for i in module.entry_computation.instructions}
    fusion = create_fusion([by_name["multiply"], by_name["add"]])
    verify_module(module)
    assert fusion.operand_count == 2
    fuse_instruction_into(fusion, by_name["negate"])
    verify_module(module)
    assert [o.name for o in fusion.operands] == ["x"]
    assert top(module) == ["fusion"]
    assert_same_values(evaluate(module, *arguments), expected)


def test_a_full_fusion_still_takes_what_is_made_from_nothing() -> None:
    text = """HloModule m
    ENTRY e { x = f32[64] parameter(0)  c = f32[] constant(2)  b = f32[64] broadcast(c), dimensions={}
      i = f32[64] iota(), iota_dimension=0  y = f32[64] multiply(x, b)  ROOT z = f32[64] add(y, i) }"""
    module = parse_hlo(text)
    InstructionFusion(max_instructions=2).run(module)
    assert [i.opcode for i in module.entry_computation.instructions] == ["parameter", "fusion"]


@pytest.mark.parametrize(("size", "fusions"), [(2, 1), (64, 2)])
def test_what_is_tiny_is_computed_twice_rather_than_stored(size: int, fusions: int) -> None:
    text = f"""HloModule m
    ENTRY e {{ x = u32[{size}] parameter(0)  y = u32[{size}] parameter(1)  s = u32[{size}] add(x, y)
      t = u32[{size}] xor(s, y)  a = u32[{size}] multiply(t, x)
      ROOT c = u32[{2 * size}] concatenate(a, t), dimensions={{0}} }}"""
    module = parse_hlo(text)
    InstructionFusion().run(module)
    assert count(module, "fusion") == fusions


@pytest.mark.parametrize(
    ("producer", "fusions"),
    [("negate(a)", 1), ("add(a, a)", 1), ("multiply(b, b)", 1), ("add(a, b)", 1), ("add(b, c)", 0)],
    ids=["one it reads", "one it reads, twice", "one more, twice", "one it reads and one more", "two more"],
)
def test_operands_that_a_fusion_reads_already_are_not_counted_again(producer: str, fusions: int) -> None:
    text = f"""HloModule m
    ENTRY e {{ a = f32[64] parameter(0)  b = f32[64] parameter(1)  c = f32[64] parameter(2)
      p = f32[64] {producer}  ROOT r = f32[64] subtract(a, p) }}"""
    module = parse_hlo(text)
    InstructionFusion(max_operands=2).run(module)
    assert count(module, "fusion") == fusions


ACTIVATION = """
x = f32[64,16] parameter(0)  w = f32[16,32] parameter(1)  v = f32[32,16] parameter(2)  u = f32[64,32] parameter(3)
c = f32[] constant(0.04)  cs = f32[64,32] broadcast(c), dimensions={}
h = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
cube = f32[64,32] multiply(h, h)  part = f32[64,32] multiply(cube, cs)  s = f32[64,32] add(h, part)
t = f32[64,32] tanh(s)  g = f32[64,32] multiply(h, t)
y = f32[64,16] dot(g, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
d = f32[64,32] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
e = f32[64,32] multiply(d, t)  f = f32[64,32] add(e, h)
ROOT r = (f32[64,16], f32[64,32]) tuple(y, f)"""
"""An activation, something between, and its gradient, which reads tanh and what tanh is made of."""

TURNED = """q = f32[32,64] transpose(s), dimensions={1,0}
j = f32[64,32] reshape(q)  t = f32[64,32] tanh(j)"""


@pytest.mark.parametrize(
    ("change", "least_bytes", "times"),
    [
        (("", ""), 8192, 2),
        (("", ""), 8193, 1),
        (("add(e, h)", "negate(e)"), 8192, 1),
        (("t = f32[64,32] tanh(s)", "su = f32[64,32] add(s, u)  t = f32[64,32] tanh(su)"), 8192, 1),
        (("(f32[64,16], f32[64,32]) tuple(y, f)", "(f32[64,16], f32[64,32], f32[64,32]) tuple(y, f, t)"), 8192, 1),
        (("e = f32[64,32] multiply(d, t)", "o = f32[64,32] copy(t)  e = f32[64,32] multiply(d, o)"), 8192, 2),
        (("t = f32[64,32] tanh(s)", TURNED), 8192, 1),
        (("t = f32[64,32] tanh(s)", "w2 = f32[64,32] sine(s)  t = f32[64,32] tanh(w2)"), 8192, 1),
    ],
    ids=["kept", "small", "argument not read", "half of it read", "a result", "copied", "other places", "a sine, too"],
)
def test_large_activations_are_computed_again(change: tuple[str, str], least_bytes: int, times: int) -> None:
    module = parse_hlo(entry(ACTIVATION.replace(*change)))
    arguments = random_arguments(module)
    expected = evaluate(module, *arguments)
    assert InstructionFusion(recompute_bytes=least_bytes).run(module)
    verify_module(module)
    inside = [c for c in module.computations() if c.is_fusion_computation()]
    assert sum(i.opcode == "tanh" for c in inside for i in c.instructions) == times
    assert_same_values(evaluate(module, *arguments), expected)
    kept = [i.name for i in module.entry_computation.instructions if i.shape.dimensions == (64, 32)]
    assert len(kept) == (5 if times == 2 else 6), kept
