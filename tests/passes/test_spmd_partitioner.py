"""The SPMD partitioner on R x P devices of the evaluator: values under random shardings, and what it makes of known ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.spmd import check, check_annotated, exchanges, partition
from xjit.hlo import HloError
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.passes import run_passes
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner
from xjit.text.parser import parse_hlo

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) } "
MODULES = {
    "elementwise": """ENTRY e { x = f32[6,5] parameter(0) y = f32[6,5] parameter(1) p = pred[] parameter(2)
        s = f32[6,5] add(x, y) t = f32[6,5] tanh(s) ROOT r = f32[6,5] select(p, t, x) }""",
    "broadcast": """ENTRY e { x = f32[5] parameter(0) c = f32[] constant(3) b = f32[4,5,6] broadcast(x), dimensions={1}
        d = f32[4,5,6] broadcast(c), dimensions={} ROOT r = f32[4,5,6] add(b, d) }""",
    "bitcast-convert": """ENTRY e { x = s32[6,5] parameter(0) b = s8[6,5,4] bitcast-convert(x) n = s8[6,5,4] negate(b)
        ROOT r = s32[6,5] bitcast-convert(n) }""",
    "transpose": """ENTRY e { x = s32[4,5,6] parameter(0) t = s32[6,4,5] transpose(x), dimensions={2,0,1}
        ROOT r = s32[6,4,5] negate(t) }""",
    "reshape": """ENTRY e { x = s32[4,6,2] parameter(0) a = s32[24,2] reshape(x) b = s32[2,12,2] reshape(a)
        ROOT c = s32[1,8,6] reshape(b) }""",
    "reduce": ADD + """ENTRY e { x = f32[5,6,7] parameter(0) z = f32[] constant(0) n = f32[] constant(-1.5)
        a = f32[5,7] reduce(x, z), dimensions={1}, to_apply=add b = f32[] reduce(a, n), dimensions={0,1}, to_apply=add
        ROOT t = (f32[5,7], f32[]) tuple(a, b) }""",
    "product": """mul { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] multiply(a, b) }
        any { a = pred[] parameter(0) b = pred[] parameter(1) ROOT s = pred[] or(a, b) }
        ENTRY e { x = s32[5,3] parameter(0) p = pred[7] parameter(1) o = s32[] constant(1) f = pred[] constant(false)
        a = s32[3] reduce(x, o), dimensions={0}, to_apply=mul b = pred[] reduce(p, f), dimensions={0}, to_apply=any
        ROOT t = (s32[3], pred[]) tuple(a, b) }""",
    "argmax": """m { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
        g = pred[] compare(a, b), direction=GT n = pred[] compare(a, a), direction=NE w = pred[] or(g, n)
        q = pred[] compare(a, b), direction=EQ l = pred[] compare(i, j), direction=LT u = pred[] and(q, l)
        k = pred[] or(w, u) v = f32[] select(w, a, b) x = s32[] select(k, i, j) ROOT t = (f32[], s32[]) tuple(v, x) }
        ENTRY e { x = f32[3,7] parameter(0) i = s32[3,7] iota(), iota_dimension=1 l = f32[] constant(-inf)
        z = s32[] constant(0) ROOT r = (f32[3], s32[3]) reduce(x, i, l, z), dimensions={1}, to_apply=m }""",
    "unknown reducer": """f { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b) ROOT r = f32[] abs(s) }
        ENTRY e { x = f32[7] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=f }""",
    "matmul": """ENTRY e { a = f32[5,6] parameter(0) b = f32[6,7] parameter(1)
        ROOT d = f32[5,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "batch matmul": """ENTRY e { a = f32[4,3,6] parameter(0) b = f32[5,6,4] parameter(1)
        ROOT d = f32[4,3,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={2}, rhs_contracting_dims={1} }""",
    "convolution": """ENTRY e { x = f32[4,9,3] parameter(0) k = f32[3,3,6] parameter(1)
        ROOT c = f32[4,9,6] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f }""",
    "grouped convolution": """ENTRY e { x = f32[4,7,6] parameter(0) k = f32[2,3,4] parameter(1)
        ROOT c = f32[4,3,4] convolution(x, k), window={size=2 stride=2}, dim_labels=b0f_0io->b0f, feature_group_count=2 }""",
    "grouped lines": """ENTRY e { x = f32[2,16,4] parameter(0) k = f32[3,2,4] parameter(1) l = f32[3,4,4] parameter(2)
        c = f32[2,16,4] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=2
        d = f32[1,16,4] convolution(x, l), window={size=3 pad=2_0}, dim_labels=b0f_0io->b0f, batch_group_count=2
        ROOT t = (f32[2,16,4], f32[1,16,4]) tuple(c, d) }""",
    "transposed convolution": """ENTRY e { x = f32[2,12,3] parameter(0) k = f32[4,3,2] parameter(1)
        c = f32[2,24,2] convolution(x, k), window={size=4 pad=2_2 lhs_dilate=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f
        ROOT d = f32[2,36,2] convolution(x, k), window={size=4 pad=1_4 lhs_dilate=3}, dim_labels=b0f_0io->b0f }""",
    "far windows": ADD + """ENTRY e { x = f32[24] parameter(0) z = f32[] constant(0)
        r = f32[24] reduce-window(x, z), window={size=11 pad=7_3}, to_apply=add
        ROOT s = f32[24] reduce-window(r, z), window={size=24 pad=23_0}, to_apply=add }""",
    "concatenate": """ENTRY e { x = s32[3,5] parameter(0) y = s32[4,5] parameter(1)
        ROOT c = s32[7,5] concatenate(x, y), dimensions={0} }""",
    "slice": """ENTRY e { x = s32[9,8] parameter(0) a = s32[3,8] slice(x), slice={[1:8:3], [0:8]}
        ROOT b = s32[3,5] slice(a), slice={[0:3], [2:7]} }""",
    "pad": """ENTRY e { x = s32[4,5] parameter(0) v = s32[] parameter(1)
        a = s32[7,5] pad(x, v), padding=1_2x0_0 b = s32[13,6] pad(a, v), padding=0_0_1x2_-1
        ROOT c = s32[13,6] pad(b, v), padding=1_-1x0_0 }""",
    "slices of lines": """ENTRY e { x = s32[25] parameter(0) v = s32[] parameter(1) a = s32[20] slice(x), slice={[3:23]}
        b = s32[8] slice(x), slice={[2:25:3]} c = s32[24] slice(x), slice={[1:25]}
        d = s32[24] pad(b, v), padding=1_1_2 e = s32[30] pad(x, v), padding=2_3 f = s32[21] pad(x, v), padding=-3_-1
        ROOT t = (s32[20], s32[8], s32[24], s32[24], s32[30], s32[21]) tuple(a, b, c, d, e, f) }""",
    "dynamic-slice": """ENTRY e { x = s32[6,7] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
        a = s32[3,7] dynamic-slice(x, i, j), dynamic_slice_sizes={3,7}
        ROOT b = s32[3,2] dynamic-slice(a, j, i), dynamic_slice_sizes={3,2} }""",
    "dynamic-update-slice": """ENTRY e { x = s32[6,7] parameter(0) u = s32[2,7] parameter(1) v = s32[1,3] parameter(2)
        i = s32[] parameter(3) j = s32[] parameter(4) a = s32[6,7] dynamic-update-slice(x, u, i, j)
        ROOT b = s32[6,7] dynamic-update-slice(a, v, j, i) }""",
    "gather": """ENTRY e { x = f32[6,8] parameter(0) i = s32[5,1] parameter(1)
        a = f32[5,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
        ROOT b = f32[5,2,8] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,8} }""",
    "rows of a table": """ENTRY e { x = f32[24,4] parameter(0) i = s32[3,1] parameter(1) j = u8[3,2] parameter(2) k = s64[] parameter(3)
        a = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
        b = f32[3,1] gather(x, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={1,0}, index_vector_dim=1, slice_sizes={1,1}
        c = f32[4] gather(x, k), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}
        ROOT t = (f32[3,4], f32[3,1], f32[4]) tuple(a, b, c) }""",
    "parts known late": """ENTRY e { x = f32[23,5] parameter(0) u = f32[3,5] parameter(1) v = f32[9,2] parameter(2)
        i = s32[] parameter(3) j = s32[] parameter(4) a = f32[2,5] dynamic-slice(x, i, j), dynamic_slice_sizes={2,5}
        b = f32[7,1] dynamic-slice(x, j, i), dynamic_slice_sizes={7,1} c = f32[23,5] dynamic-update-slice(x, u, j, i)
        d = f32[23,5] dynamic-update-slice(c, v, i, j) e = f32[3,4] slice(x), slice={[9:12], [1:5]}
        ROOT t = (f32[2,5], f32[7,1], f32[23,5], f32[3,4]) tuple(a, b, d, e) }""",
    "batched gather": """ENTRY e { x = f32[4,6] parameter(0) i = s32[4,3,1] parameter(1)
        ROOT a = f32[4,3] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1} }""",
    "gather by iota": """ENTRY e { x = f32[4,6] parameter(0) j = s32[4,1] parameter(1) i = s32[4,1] iota(), iota_dimension=0
        k = s32[4,2] concatenate(i, j), dimensions={1}
        ROOT a = f32[4] gather(x, k), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1} }""",
    "scatter": ADD + """ENTRY e { x = f32[6,8] parameter(0) i = s32[5,1] parameter(1) u = f32[5,8] parameter(2)
        ROOT s = f32[6,8] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }""",
    "scatter of points": ADD + """ENTRY e { x = f32[16,8] parameter(0) i = s32[5,2] parameter(1) u = f32[5] parameter(2)
        j = u8[] parameter(3) v = f32[8] parameter(4) k = s32[3] parameter(5) w = f32[3,16] parameter(6)
        a = f32[16,8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=1, to_apply=add
        b = f32[16,8] scatter(a, j, v), update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add
        ROOT c = f32[16,8] scatter(b, k, w), update_window_dims={1}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add }""",
    "iota": """ENTRY e { a = s32[7,4] iota(), iota_dimension=0 b = f32[7,4] iota(), iota_dimension=1
        c = f32[7,4] convert(a) ROOT r = f32[7,4] add(b, c) }""",
    "constant": """ENTRY e { a = s32[3,4] constant({{1,2,3,4},{5,6,7,8},{9,10,11,12}}) b = s32[3,4] constant({{7,7,7,7},{7,7,7,7},{7,7,7,7}})
        x = s32[3,4] parameter(0) s = s32[3,4] add(x, a) ROOT r = s32[3,4] multiply(s, b) }""",
    "sort": """lt { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
        ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY e { x = f32[5,6] parameter(0) i = s32[5,6] iota(), iota_dimension=1
        ROOT s = (f32[5,6], s32[5,6]) sort(x, i), dimensions={1}, is_stable=true, to_apply=lt }""",
    "reduce-window": ADD + """ENTRY e { x = f32[9,6] parameter(0) z = f32[] constant(0)
        ROOT r = f32[9,3] reduce-window(x, z), window={size=3x2 stride=1x2 pad=1_1x0_0}, to_apply=add }""",
    "reverse": """ENTRY e { x = s32[5,6] parameter(0) ROOT r = s32[5,6] reverse(x), dimensions={0} }""",
    "linear algebra": """ENTRY e { a = f32[4,3,3] parameter(0) b = f32[4,3,2] parameter(1) c = f32[4,8] parameter(2)
        t = f32[4,3,2] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
        d = c64[4,5] fft(c), fft_type=RFFT, fft_length={8} ROOT r = (f32[4,3,2], c64[4,5]) tuple(t, d) }""",
    "tuples": """ENTRY e { t = (f32[4], (s32[3,2], f32[])) parameter(0) a = f32[4] get-tuple-element(t), index=0
        u = (s32[3,2], f32[]) get-tuple-element(t), index=1 b = s32[3,2] get-tuple-element(u), index=0
        v = (s32[3,2], f32[4]) tuple(b, a) o = (s32[3,2], f32[4]) opt-barrier(v)
        ROOT r = ((s32[3,2], f32[4]), (s32[3,2], f32[]), f32[4]) tuple(o, u, a) }""",
    "while": """c { s = (s32[], f32[6,4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
        ROOT l = pred[] compare(i, n), direction=LT }
        b { s = (s32[], f32[6,4]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[6,4] get-tuple-element(s), index=1
        o = s32[] constant(1) j = s32[] add(i, o) y = f32[6,4] sine(x) ROOT t = (s32[], f32[6,4]) tuple(j, y) }
        ENTRY e { x = f32[6,4] parameter(0) z = s32[] constant(0) t = (s32[], f32[6,4]) tuple(z, x)
        w = (s32[], f32[6,4]) while(t), condition=c, body=b ROOT r = f32[6,4] get-tuple-element(w), index=1 }""",
    "conditional": """f { x = f32[5,4] parameter(0) ROOT y = f32[5,4] sine(x) } g { t = (f32[5,4], f32[4]) parameter(0)
        x = f32[5,4] get-tuple-element(t), index=0 v = f32[4] get-tuple-element(t), index=1
        w = f32[5,4] broadcast(v), dimensions={1} ROOT y = f32[5,4] add(x, w) }
        ENTRY e { p = pred[] parameter(0) x = f32[5,4] parameter(1) v = f32[4] parameter(2) t = (f32[5,4], f32[4]) tuple(x, v)
        ROOT c = f32[5,4] conditional(p, x, t), true_computation=f, false_computation=g }""",
    "call twice": """f { x = f32[5,4] parameter(0) y = f32[4] parameter(1) b = f32[5,4] broadcast(y), dimensions={1} ROOT r = f32[5,4] add(x, b) }
        ENTRY e { x = f32[5,4] parameter(0) y = f32[4] parameter(1) a = f32[5,4] call(x, y), to_apply=f
        ROOT b = f32[5,4] call(a, y), to_apply=f }""",
    "random bits": """ENTRY e { s = u64[2] parameter(0)
        ROOT r = (u64[2], u32[7]) rng-bit-generator(s), algorithm=rng_three_fry }""",
    "select-and-scatter": ADD + """ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
        ENTRY e { x = f32[24,7] parameter(0) s = f32[12,7] parameter(1) u = f32[8,3] parameter(2) z = f32[] constant(0.5)
        a = f32[24,7] select-and-scatter(x, s, z), window={size=3x1 stride=2x1 pad=1_0x0_0}, select=ge, scatter=add
        b = f32[24,7] select-and-scatter(a, u, z), window={size=2x2 stride=3x3 pad=0_1x1_1}, select=ge, scatter=add
        ROOT c = f32[24,7] multiply(a, b) }""",
    "empty": ADD + """ENTRY e { x = f32[0,4] parameter(0) z = f32[] constant(0) ROOT r = f32[4] reduce(x, z), dimensions={0}, to_apply=add }""",
}  # fmt: skip
"""One per kind of instruction; sizes that devices do not divide are among them."""


@pytest.mark.parametrize("name", MODULES)
def test_values_under_random_shardings(name: str) -> None:
    for seed in range(3):
        check("HloModule m " + MODULES[name], (4, 2, 6)[seed], seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_values_under_many_shardings(name: str) -> None:
    for seed in range(3, 100):
        check("HloModule m " + MODULES[name], (2, 3, 4, 6, 8)[seed % 5], seed)


DOT = (
    "ENTRY e {{ a = f32[8,8] parameter(0), sharding={{{a}}} b = f32[8,8] parameter(1), sharding={{{b}}} "
    "ROOT d = f32[8,8] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{{d}}} }}"
)
ROWS, COLUMNS, BOTH = "devices=[4,1]<=[4]", "devices=[1,4]<=[4]", "devices=[2,2]<=[4]"


@pytest.mark.parametrize(
    ("shardings", "expected"),
    [
        (("replicated", "replicated", BOTH), []),
        ((ROWS, "replicated", ROWS), []),
        (("replicated", COLUMNS, COLUMNS), []),
        ((COLUMNS, ROWS, "replicated"), ["all-reduce"]),
        ((COLUMNS, "replicated", "replicated"), ["all-reduce"]),
        ((ROWS, COLUMNS, ROWS), ["all-gather"]),
        ((ROWS, "replicated", "replicated"), ["all-gather"]),
        ((BOTH, BOTH, BOTH), ["all-gather", "all-gather"]),
    ],
)
def test_what_a_dot_exchanges(shardings: tuple[str, str, str], expected: list[str]) -> None:
    module = partition(DOT.format(**dict(zip("abd", shardings))))
    assert exchanges(module) == expected, module


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ROWS, COLUMNS, ["all-to-all"]),
        (ROWS, BOTH, ["all-to-all"]),
        (BOTH, "devices=[1,4]<=[2,2]T(1,0)", ["all-to-all"]),
        (BOTH, COLUMNS, ["all-to-all", "collective-permute"]),
        (BOTH, "devices=[2,2]<=[2,2]T(1,0)", ["collective-permute"]),
        (COLUMNS, "devices=[2,1,2]<=[4] last_tile_dim_replicate", ["all-to-all", "collective-permute", "all-gather"]),
        (ROWS, "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate", ["collective-permute", "all-gather"]),
        (ROWS, "devices=[4,1]3,2,1,0", ["collective-permute"]),
        (ROWS, "devices=[2,1,2]<=[4] last_tile_dim_replicate", ["all-gather"]),
        ("devices=[2,1,2]<=[4] last_tile_dim_replicate", ROWS, []),
        (ROWS, "replicated", ["all-gather"]),
        ("replicated", BOTH, []),
        ("maximal device=2", "replicated", ["all-reduce"]),
    ],
)
@pytest.mark.parametrize("sizes", ["8,8", "7,5"])
def test_what_another_sharding_exchanges(before: str, after: str, expected: list[str], sizes: str) -> None:
    text = (
        f"ENTRY e {{ x = f32[{sizes}] parameter(0), sharding={{{before}}} "
        f"ROOT r = f32[{sizes}] copy(x), sharding={{{after}}} }}"
    )
    module = partition(text)
    if sizes == "8,8" or ("last_tile" not in before + after and BOTH not in (before, after)):
        assert exchanges(module) == expected, module


@pytest.mark.parametrize(
    ("kind", "instruction", "expected"),
    [
        ("f32", "reverse(x), dimensions={0}", ["collective-permute"]),
        ("f32", "reverse(x), dimensions={1}", []),
        ("c64", "fft(x), fft_type=FFT, fft_length={4,4}", ["all-gather"]),
        ("f32", "sort(x), dimensions={0}, is_stable=true, to_apply=lt", ["all-to-all", "all-to-all"]),
        ("f32", "sort(x), dimensions={1}, is_stable=true, to_apply=lt", []),
    ],
)
def test_a_dimension_that_has_to_be_whole_borrows_another(kind: str, instruction: str, expected: list[str]) -> None:
    module = partition(f"""lt {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}
        ENTRY e {{ x = {kind}[4,4] parameter(0), sharding={{{ROWS}}} ROOT r = {kind}[4,4] {instruction}, sharding={{{ROWS}}} }}""")
    assert exchanges(module) == expected, module


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT r = f32[1,2] slice(x), slice={[5:6], [1:3]}", ["all-reduce"]),
        ("i = s32[] parameter(1) ROOT r = f32[1,4] dynamic-slice(x, i, i), dynamic_slice_sizes={1,4}", ["all-gather"]),
        (
            "i = s32[3,1] parameter(1) ROOT r = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
            ["all-reduce"],
        ),
        (
            "u = f32[3,4] parameter(1) i = s32[] parameter(2) ROOT r = f32[16,4] dynamic-update-slice(x, u, i, i), "
            "sharding={" + ROWS + "}",
            [],
        ),
        (
            "u = f32[3,4] parameter(1) i = s32[3,1] parameter(2) ROOT r = f32[16,4] scatter(x, i, u), to_apply=add, "
            "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
            "sharding={" + ROWS + "}",
            [],
        ),
    ],
)
def test_tiles_have_parts_of_what_is_taken(body: str, expected: list[str]) -> None:
    module = partition(ADD + f"ENTRY e {{ x = f32[16,4] parameter(0), sharding={{{ROWS}}} {body} }}")
    assert exchanges(module) == expected, module


@pytest.mark.parametrize(
    "taken",
    [
        "f32[2] slice(x), slice={[4:6]}",
        "f32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1}",
    ],
)
def test_what_is_taken_has_the_same_bits(taken: str) -> None:
    """Parts are added, and -0 is no 0; indices beyond all signed numbers are of the last element."""
    text = (
        "HloModule m, num_partitions=4 ENTRY e { x = f32[16] parameter(0), sharding={devices=[4]<=[4]} "
        f"i = u64[2,1] constant({{{{4}}, {{18446744073709551615}}}}) ROOT r = {taken} }}"
    )
    x = np.full(16, -0.0, np.float32)
    x[15] = 3
    expected = evaluate(parse_hlo(text.replace(", num_partitions=4", "")), x)
    module = parse_hlo(text)
    assert SpmdPartitioner(allow_module_signature_change=True).run(module)
    for result in evaluate_devices(module, [[x[4 * p : 4 * p + 4]] for p in range(4)]):
        np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))


def test_one_value_is_brought_into_a_sharding_once() -> None:
    module = partition(
        "ENTRY e { x = f32[8] parameter(0), sharding={devices=[4]<=[4]} s = f32[8] sine(x), sharding={replicated} "
        "c = f32[8] cosine(x), sharding={replicated} ROOT r = f32[8] add(s, c), sharding={replicated} }"
    )
    assert exchanges(module) == ["all-gather"]


def test_a_custom_call_on_tiles_keeps_its_layouts() -> None:
    module = parse_hlo("""HloModule m, num_partitions=4 ENTRY e { x = f32[8,6,6] parameter(0), sharding={devices=[4,1,1]<=[4]}
        ROOT c = f32[8,6,6]{1,2,0} custom-call(x), custom_call_target="f", operand_layout_constraints={f32[8,6,6]{1,2,0}},
        frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i,j,k])->([i,j,k]) {i=8,j=6,k=6}, custom>"},
        sharding={devices=[4,1,1]<=[4]} }""")
    assert SpmdPartitioner().run(module)
    (call,) = (i for i in module.entry_computation.instructions if i.opcode == "custom-call")
    assert str(call.shape) == "f32[2,6,6]{1,2,0}"
    assert [str(s) for s in call.attributes_as(CustomCallAttributes).operand_layout_constraints or ()] == [
        str(call.shape)
    ]


def test_a_custom_call_makes_no_tiles_of_dimensions_that_no_operand_has() -> None:
    module = parse_hlo("""HloModule m, num_partitions=4 ENTRY e { x = f32[8] parameter(0), sharding={replicated}
        ROOT c = f32[8] custom-call(x), custom_call_target="f", sharding={devices=[4]<=[4]},
        frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i])->([j]) {i=8, j=8}, custom>"} }""")
    assert SpmdPartitioner().run(module)
    (call,) = (i for i in module.entry_computation.instructions if i.opcode == "custom-call")
    assert call.shape.dimensions == (8,)
    assert module.entry_computation.root_instruction.shape.dimensions == (2,)


MANUAL = """ENTRY e { x = f32[8,3] parameter(0), sharding={devices=[4,1]<=[4]}
    a = f32[8,3] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
    l = f32[2,3] custom-call(a), custom_call_target="SPMDFullToShardShape", sharding={manual}
    n = f32[2,3] negate(l), sharding={manual}
    g = f32[2,3] all-reduce(n), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add, sharding={manual}
    f = f32[8,3] custom-call(g), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
    ROOT r = f32[8,3] sine(f), sharding={devices=[4,1]<=[4]} }"""


def test_a_manual_region_stays_as_it_is() -> None:
    module = parse_hlo("HloModule m, num_partitions=4 " + ADD + MANUAL)
    assert SpmdPartitioner().run(module)
    assert exchanges(module) == ["all-reduce"]
    assert module.entry_computation.root_instruction.shape.dimensions == (2, 3)
    assert not any(i.opcode == "custom-call" for i in module.entry_computation.instructions)


def test_subgroups_that_are_manual_exchange_among_themselves() -> None:
    manual = "last_tile_dims={manual}"
    module = parse_hlo(
        "HloModule m, num_partitions=4 ENTRY e { x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]} "
        'l = f32[4,4] custom-call(x), custom_call_target="SPMDFullToShardShape", '
        f"sharding={{devices=[1,2,2]<=[2,2]T(1,0) {manual}}} "
        "c = f32[4,4] copy(l), sharding={devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}} "
        'ROOT f = f32[8,4] custom-call(c), custom_call_target="SPMDShardToFullShape", '
        "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate} }"
    )
    assert SpmdPartitioner().run(module)
    (gather,) = [i for i in module.entry_computation.instructions if i.opcode == "all-gather"]
    assert "replica_groups={{0,1},{2,3}}" in str(gather)


REGION = """ENTRY e {{
    x = f32[8,6] parameter(0), sharding={{devices=[2,2]<=[4]}}
    l = f32[4,6] custom-call(x), custom_call_target="SPMDFullToShardShape",
      sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
    {body}, sharding={{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={{manual}}}}
    ROOT f = f32[8,6] custom-call(c), custom_call_target="SPMDShardToFullShape", sharding={{devices=[2,2]<=[4]}} }}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "c = f32[4,6] all-reduce(l), channel_id=1, replica_groups={{0,2},{1,3}}, to_apply=add",
            "f32[4,3]{1,0} all-reduce",
        ),
        (
            "c = f32[4,6] collective-permute(l), channel_id=1, source_target_pairs={{0,2},{2,0}}",
            "f32[4,3]{1,0} collective-permute",
        ),
        (
            "g = f32[8,6] all-gather(l), channel_id=1, replica_groups={{0,2},{1,3}}, dimensions={0}, "
            "sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}} c = f32[4,6] slice(g), slice={[0:4], [0:6]}",
            "f32[8,3]{1,0} all-gather",
        ),
    ],
)
def test_collectives_of_a_region_are_done_tile_by_tile(body: str, expected: str) -> None:
    module = parse_hlo("HloModule m, num_partitions=4 " + ADD + REGION.format(body=body))
    assert SpmdPartitioner().run(module)
    assert len(exchanges(module)) == 1 and expected in str(module)


@pytest.mark.parametrize("rows", [4, 3])
def test_tiles_that_differ_at_the_edge_of_a_region_are_gathered(rows: int) -> None:
    module = parse_hlo(
        f"HloModule m, num_partitions=4 ENTRY e {{ x = f32[{2 * rows},4] parameter(0), sharding={{devices=[4,1]<=[4]}} "
        f'l = f32[{rows},4] custom-call(x), custom_call_target="SPMDFullToShardShape", '
        "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}, "
        'frontend_attributes={xjit.manual_part="devices=[2,1,2]<=[4] last_tile_dim_replicate"} '
        f'ROOT f = f32[{2 * rows},4] custom-call(l), custom_call_target="SPMDShardToFullShape", '
        "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, "
        'frontend_attributes={xjit.manual_part="devices=[2,1,2]<=[4] last_tile_dim_replicate"} }'
    )
    assert SpmdPartitioner().run(module)
    assert exchanges(module) == ["all-gather"] * (1 if rows == 4 else 2)
    x = np.arange(8.0 * rows, dtype=np.float32).reshape(2 * rows, 4)
    tile = -(-2 * rows // 4)
    padded = np.concatenate([x, np.full((4 * tile - len(x), 4), np.nan, np.float32)])
    results = evaluate_devices(module, [[padded[p * tile : (p + 1) * tile]] for p in range(4)])
    for device, result in enumerate(results):
        np.testing.assert_array_equal(result, x[device // 2 * rows :][:rows])


def test_collectives_stay_within_replicas() -> None:
    module = parse_hlo(
        "HloModule m, num_partitions=2, replica_count=2 "
        + DOT.format(a="devices=[1,2]<=[2]", b="devices=[2,1]<=[2]", d="replicated")
    )
    assert SpmdPartitioner().run(module)
    assert "replica_groups={{0,1},{2,3}}" in str(module)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ENTRY e { ROOT p = u32[] partition-id(), sharding={replicated} }", "partition-id 'p' outside of a manual"),
        (
            "ENTRY e { x = f32[4] parameter(0), sharding={devices=[3]<=[3]} ROOT r = f32[4] negate(x) }",
            "is not one of an array of rank 1 on 4 devices",
        ),
        (
            'ENTRY e { x = f32[4] parameter(0) l = f32[4] custom-call(x), custom_call_target="SPMDFullToShardShape", '
            "sharding={manual} ROOT r = f32[4] negate(l), sharding={replicated} }",
            "needs a custom-call",
        ),
        (
            'ENTRY e { x = f32[4] parameter(0) ROOT l = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape", '
            "sharding={manual} }",
            "is no part of",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(body: str, message: str) -> None:
    module = parse_hlo("HloModule m, num_partitions=4 " + body)
    with pytest.raises(HloError, match=message):
        SpmdPartitioner().run(module)


@pytest.mark.parametrize("header", ["num_partitions=1", "num_partitions=4"])
def test_nothing_to_partition(header: str) -> None:
    sharding = ", sharding={replicated}" if header.endswith("1") else ""
    module = parse_hlo(
        f"HloModule m, {header} ENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] negate(x){sharding} }}"
    )
    before = module_fingerprint(module)
    assert not SpmdPartitioner().run(module) and module_fingerprint(module) == before


def test_behind_the_propagation() -> None:
    text = (
        "HloModule m, num_partitions=4 ENTRY e { x = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]} "
        "w = f32[6,12] parameter(1), sharding={devices=[2,2]<=[2,2]T(1,0)} "
        "d = f32[8,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[8,12] tanh(d) "
        "ROOT y = f32[12,8] transpose(t), dimensions={1,0} }"
    )
    module = parse_hlo(text)
    run_passes(module, ["sharding-propagation"])
    check_annotated(module, 0, allow_change=True)
