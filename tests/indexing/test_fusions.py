"""Fusions: random graphs against the evaluator, run-time variables with known sources, tuples, calls, budgets."""

from __future__ import annotations

import numpy as np
import pytest

from tests.indexing.relations import Array, observed, random_input, relation
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.indexing import compute_input_to_output_indexing, compute_output_to_input_indexing
from xjit.indexing.hlo_indexing import compute_epilogue_indexing, compute_hero_indexing
from xjit.indexing.structure import leaf_count, leaf_shape
from xjit.indexing.utilization import operand_utilizations
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.text.parser import parse_hlo

ADD = "add_f32 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"


def show(dims: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, dims))}]"


class Generator:
    """Grows a fused computation of opcodes in which every element read shows in the result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines = [
            "  p0 = f32[4,6] parameter(0)",
            "  p1 = f32[6] parameter(1)",
            "  start = s32[] parameter(2)",
            "  zero = f32[] constant(0)",
            "  one = f32[] constant(1)",
        ]
        self.values: list[tuple[str, tuple[int, ...]]] = [("p0", (4, 6)), ("p1", (6,))]

    def emit(self, dims: tuple[int, ...], text: str) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"  {name} = {show(dims)} {text}")
        self.values.append((name, dims))

    def pick(self) -> tuple[str, tuple[int, ...]]:
        return self.values[-1 - int(self.rng.integers(0, min(3, len(self.values))))]

    def step(self) -> None:
        name, dims = self.pick()
        kinds = (
            "transpose",
            "reshape",
            "slice",
            "reverse",
            "add",
            "broadcast",
            "concatenate",
            "pad",
            "reduce",
            "dynamic",
        )
        kind = kinds[int(self.rng.integers(len(kinds)))]
        axis = int(self.rng.integers(len(dims))) if dims else 0
        changed = {**dict(enumerate(dims))}
        if kind == "transpose":
            order = [int(d) for d in self.rng.permutation(len(dims))]
            self.emit(tuple(dims[d] for d in order), f"transpose({name}), dimensions={{{','.join(map(str, order))}}}")
        elif kind == "reshape":
            total = int(np.prod(dims))
            divisors = [d for d in range(1, total + 1) if total % d == 0]
            first = divisors[int(self.rng.integers(len(divisors)))]
            self.emit((first, total // first), f"reshape({name})")
        elif kind == "slice" and dims:
            stride = int(self.rng.integers(1, 3))
            start = int(self.rng.integers(0, dims[axis]))
            spans = [(start, n, stride) if d == axis else (0, n, 1) for d, n in enumerate(dims)]
            changed[axis] = -(-(dims[axis] - start) // stride)
            ranges = ", ".join(f"[{a}:{b}:{c}]" for a, b, c in spans)
            self.emit(tuple(changed.values()), f"slice({name}), slice={{{ranges}}}")
        elif kind == "reverse" and dims:
            self.emit(dims, f"reverse({name}), dimensions={{{axis}}}")
        elif kind == "add":
            other = next((v for v, d in reversed(self.values) if d == dims and v != name), name)
            self.emit(dims, f"add({name}, {other})")
        elif kind == "broadcast" and np.prod(dims) < 40 and len(dims) < 3:
            kept = ",".join(str(d + 1) for d in range(len(dims)))
            self.emit((2, *dims), f"broadcast({name}), dimensions={{{kept}}}")
        elif kind == "concatenate" and dims and np.prod(dims) < 40:
            changed[axis] = 2 * dims[axis]
            self.emit(tuple(changed.values()), f"concatenate({name}, {name}), dimensions={{{axis}}}")
        elif kind == "pad" and dims and np.prod(dims) < 40:
            changed[axis] = 2 * dims[axis] - 1 + 2
            pads = "x".join("2_0_1" if d == axis else "0_0_0" for d in range(len(dims)))
            self.emit(tuple(changed.values()), f"pad({name}, one), padding={pads}")
        elif kind == "reduce" and dims:
            rest = tuple(n for d, n in enumerate(dims) if d != axis)
            self.emit(rest, f"reduce({name}, zero), dimensions={{{axis}}}, to_apply=add_f32")
        elif kind == "dynamic" and dims and dims[axis] > 2:
            changed[axis] = dims[axis] - 2
            zeros = ", ".join("start" for _ in dims)
            sizes = ",".join(str(n) for n in changed.values())
            self.emit(tuple(changed.values()), f"dynamic-slice({name}, {zeros}), dynamic_slice_sizes={{{sizes}}}")

    def module(self, steps: int) -> HloModule:
        """Returns a module whose root is a fusion of what the last instruction reads."""
        while len(self.lines) < steps + 5:
            self.step()
        body = "\n".join([*self.lines[:-1], "  ROOT " + self.lines[-1].strip()])
        module = parse_hlo(f"HloModule m\n{ADD}\nENTRY e {{\n{body}\n}}")
        HloDCE().run(module)
        fused = [i for i in module.entry_computation.make_instruction_post_order() if i.opcode != "parameter"]
        module.entry_computation.create_fusion_instruction(fused[::-1])
        return module


@pytest.mark.parametrize("seed", range(40))
def test_random_fusion(seed: int) -> None:
    module = Generator(seed).module(4 + seed % 9)
    root = module.entry_computation.root_instruction
    rng = np.random.default_rng(seed)
    inputs = [random_input(p.shape, rng) for p in module.entry_computation.parameter_instructions]
    inputs[2] = np.int32(seed % 4)

    def value(source: HloInstruction) -> Array:
        assert source.opcode == "parameter"  # of the fused computation
        return np.asarray(inputs[root.operand(source.parameter_number).parameter_number])

    indexing = compute_output_to_input_indexing(root)
    dims = root.shape.dimensions
    for number, operand in enumerate(root.operands):
        sizes = operand.shape.dimensions
        if operand.shape.is_scalar:
            continue
        said = relation(indexing[number], dims, sizes, value)
        for flat in range(int(np.prod(sizes))):
            place = tuple(int(i) for i in np.unravel_index(flat, sizes))
            (changed,) = observed(module, inputs, operand.parameter_number, place)
            assert np.array_equal(said[:, flat], changed), (number, place)
        back = compute_input_to_output_indexing(root, number)
        assert np.array_equal(relation(back[0], sizes, dims, value).T, said)


def entry(body: str) -> HloInstruction:
    return parse_hlo(f"HloModule m\n{ADD}\nENTRY e {{\n{body}\n}}").entry_computation.root_instruction


def fusion(body: str, operands: str, shape: str, names: str) -> HloInstruction:
    text = f"HloModule m\n{ADD}\nf {{\n{body}\n}}\nENTRY e {{\n{operands}\nROOT r = {shape} fusion({names}), kind=kLoop, calls=f\n}}"
    return parse_hlo(text).entry_computation.root_instruction


def test_constant_offset_is_no_run_time_variable() -> None:
    root = entry("""x = f32[10] parameter(0)
      c = s32[] constant(3)
      ROOT r = f32[4] dynamic-slice(x, c), dynamic_slice_sizes={4}""")
    assert str(compute_output_to_input_indexing(root)[0][0]) == "(d0) -> (d0 + 3)\ndomain:\nd0 in [0, 3]"


def test_constant_offset_is_clamped() -> None:
    root = entry("""x = f32[10] parameter(0)
      c = s32[] constant(30)
      ROOT r = f32[4] dynamic-slice(x, c), dynamic_slice_sizes={4}""")
    assert str(compute_output_to_input_indexing(root)[0][0]).startswith("(d0) -> (d0 + 6)\n")


def test_iota_indices_become_affine() -> None:
    root = entry("""x = f32[10,4] parameter(0)
      i = s32[5] iota(), iota_dimension=0
      two = s32[] constant(2)
      b = s32[5] broadcast(two), dimensions={}
      j = s32[5] multiply(i, b)
      k = s32[5,1] reshape(j)
      ROOT r = f32[5,4] gather(x, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}""")
    assert (
        str(compute_output_to_input_indexing(root)[0][0])
        == "(d0, d1) -> (d0 * 2, d1)\ndomain:\nd0 in [0, 4]\nd1 in [0, 3]"
    )


def test_wrapping_arithmetic_stays_a_run_time_variable() -> None:
    root = entry("""x = f32[200] parameter(0)
      i = s8[5] iota(), iota_dimension=0
      c = s8[] constant(60)
      b = s8[5] broadcast(c), dimensions={}
      j = s8[5] multiply(i, b)
      k = s8[5,1] reshape(j)
      ROOT r = f32[5] gather(x, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}""")
    (m,) = compute_output_to_input_indexing(root)[0]
    assert len(m.rt_vars) == 1


def test_scatter_outside_is_skipped_not_clamped() -> None:
    root = entry("""x = f32[10] parameter(0)
      c = s32[1,1] constant({{30}})
      u = f32[1] parameter(1)
      ROOT r = f32[10] scatter(x, c, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32""")
    (m,) = compute_output_to_input_indexing(root)[2]
    assert m.is_known_empty


def test_multi_output_fusion() -> None:
    root = fusion(
        """p0 = f32[4,6] parameter(0)
        p1 = f32[6] parameter(1)
        n = f32[4,6] negate(p0)
        t = f32[6,4] transpose(n), dimensions={1,0}
        b = f32[4,6] broadcast(p1), dimensions={1}
        ROOT r = (f32[6,4], f32[4,6]) tuple(t, b)""",
        "x = f32[4,6] parameter(0)\ny = f32[6] parameter(1)", "(f32[6,4], f32[4,6])", "x, y",
    )  # fmt: skip
    first, second = (compute_output_to_input_indexing(root, n) for n in (0, 1))
    assert [str(m.map) for m in first[0]] == ["(d0, d1) -> (d1, d0)"]
    assert first[1] == () and second[0] == ()
    assert [str(m.map) for m in second[1]] == ["(d0, d1) -> (d1)"]
    back = compute_input_to_output_indexing(root, 1)
    assert back[0] == () and [str(m.map) for m in back[1]] == ["(d0)[s0] -> (s0, d0)"]


def test_hero_and_epilogue() -> None:
    root = fusion(
        """p0 = f32[8,16] parameter(0)
        zero = f32[] constant(0)
        hero = f32[8] reduce(p0, zero), dimensions={1}, to_apply=add_f32
        e = f32[8] negate(hero)
        ROOT r = f32[2,4] reshape(e)""",
        "x = f32[8,16] parameter(0)", "f32[2,4]", "x",
    )  # fmt: skip
    fused = root.fused_expression_root
    hero = fused.operand(0).operand(0)
    assert [str(m.map) for m in compute_hero_indexing(fused, hero)] == ["(d0, d1) -> (d0 * 4 + d1)"]
    assert [str(m.map) for m in compute_epilogue_indexing(hero, fused)] == ["(d0) -> (d0 floordiv 4, d0 mod 4)"]
    with pytest.raises(InvalidArgument, match="no path"):
        compute_hero_indexing(hero, fused)


def test_calls_and_conditionals_are_looked_into() -> None:
    module = parse_hlo("""HloModule m
t { x = f32[3,4] parameter(0) ROOT r = f32[4,3] transpose(x), dimensions={1,0} }
u { x = f32[3,4] parameter(0) ROOT r = f32[4,3] reshape(x) }
ENTRY e {
  a = f32[3,4] parameter(0)
  p = pred[] parameter(1)
  c = f32[4,3] call(a), to_apply=t
  d = f32[4,3] conditional(p, a, a), true_computation=t, false_computation=u
  ROOT r = (f32[4,3], f32[4,3]) tuple(c, d)
}""")
    call, conditional = module.entry_computation.root_instruction.operands
    assert [str(m.map) for m in compute_output_to_input_indexing(call)[0]] == ["(d0, d1) -> (d1, d0)"]
    choose, true, false = compute_output_to_input_indexing(conditional)
    assert [str(m.map) for m in choose] == ["(d0, d1) -> ()"]
    assert [str(m.map) for m in true] == ["(d0, d1) -> (d1, d0)"]
    reshape = module.get_computation_with_name("u").root_instruction
    assert false == compute_output_to_input_indexing(reshape)[0]


def test_annotations_hand_their_operand_on() -> None:
    text = "x = f32[4,3] parameter(0)\nROOT r = f32[4,3] custom-call(x), custom_call_target={}"
    assert compute_output_to_input_indexing(entry(text.format('"Sharding"')))[0][0].is_identity
    assert compute_output_to_input_indexing(entry(text.format('"of_a_library"'))).is_unknown
    shards = text.replace("x = f32[4,3]", "x = f32[8,3]").format('"SPMDFullToShardShape"')
    assert compute_output_to_input_indexing(entry(shards)).is_unknown


def test_collectives_say_which_replica() -> None:
    root = parse_hlo("""HloModule m, replica_count=4
ENTRY e { x = f32[8,3] parameter(0) ROOT r = f32[32,3] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}} }""").entry_computation.root_instruction
    indexing = compute_output_to_input_indexing(root)
    assert [str(m.map) for m in indexing[0]] == ["(d0, d1) -> (d0 mod 8, d1)"]
    (joint,) = indexing.replica_maps[0]
    assert str(joint.map) == "(d0, d1, d2) -> (d0 mod 8, d1, d0 floordiv 8)"
    assert joint.dim_vars[2].name == "replica" and joint.dim_bounds[2].upper == 3


def test_many_paths_are_widened() -> None:
    """Every step doubles the paths: p + p shifted; 2^40 of them. The rows stay apart."""
    lines = ["v0 = f32[3,64] parameter(0)"]
    for i in range(40):
        shift = i % 5 + 1
        lines.append(f"a{i} = f32[3,{64 - shift}] slice(v{i}), slice={{[0:3],[{shift}:64]}}")
        lines.append(f"b{i} = f32[3,{shift}] slice(v{i}), slice={{[0:3],[0:{shift}]}}")
        lines.append(f"c{i} = f32[3,64] concatenate(a{i}, b{i}), dimensions={{1}}")
        lines.append(f"v{i + 1} = f32[3,64] add(v{i}, c{i})")
    root = fusion("\n".join([*lines[:-1], "ROOT " + lines[-1]]), "x = f32[3,64] parameter(0)", "f32[3,64]", "x")
    maps = compute_output_to_input_indexing(root)[0]
    everything = "(d0, d1)[s0] -> (d0, s0)\ndomain:\nd0 in [0, 2]\nd1 in [0, 63]\ns0 in [0, 63]"
    assert everything in [str(m) for m in maps] and len(maps) <= 32
    (used,) = operand_utilizations(root)
    assert used.elements_read == 192 and not used.exact


def test_deep_chains_do_not_recurse() -> None:
    lines = ["v0 = f32[4,4] parameter(0)"]
    for i in range(20_000):
        lines.append(f"v{i + 1} = f32[4,4] transpose(v{i}), dimensions={{1,0}}")
    root = fusion("\n".join([*lines[:-1], "ROOT " + lines[-1]]), "x = f32[4,4] parameter(0)", "f32[4,4]", "x")
    (m,) = compute_output_to_input_indexing(root)[0]
    assert m.is_identity or m.is_unknown


def test_wrong_numbers_are_errors() -> None:
    root = entry("x = f32[4] parameter(0)\nROOT r = f32[4] negate(x)")
    with pytest.raises(InvalidArgument, match="there is no output 1"):
        compute_output_to_input_indexing(root, 1)
    with pytest.raises(InvalidArgument, match="there is no operand 3"):
        compute_input_to_output_indexing(root, 3)
    assert leaf_count(root.shape) == 1 and leaf_shape(root.shape, 0) is root.shape
