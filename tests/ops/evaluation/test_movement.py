"""Data movement against XLA:CPU: bit for bit, ranks 0 to 5, sizes 0 and 1 included."""

import numpy as np
import pytest

from tests.ops.evaluation import oracle
from tests.ops.evaluation.oracle import module_of, random_array, text_of


@pytest.mark.parametrize("t", oracle.some("f32 s8", "bf16 pred c64 u64"))
def test_reshape_broadcast_transpose_reverse(t: str) -> None:
    x = random_array(t, [3, 1, 5, 2])
    lines = [
        (text_of(t, [6, 5]), "reshape(p0)"),
        (text_of(t, [5, 3, 2, 1]), "transpose(p0), dimensions={2,0,3,1}"),
        (text_of(t, [3, 1, 5, 2]), "reverse(p0), dimensions={0,2}"),
        (text_of(t, [3, 4, 1, 5, 2]), "broadcast(p0), dimensions={0,2,3,4}"),
        (text_of(t, [7, 3]), "broadcast(p1), dimensions={1}"),
        (text_of(t, [2, 2]), "broadcast(p2), dimensions={}"),
        (text_of(t, []), "reshape(p3)"),
        (text_of(t, [0, 4]), "reshape(p4)"),
        (text_of(t, [2, 0, 4]), "broadcast(p4), dimensions={1,2}"),
    ]
    others = [random_array(t, d, 1) for d in ([3], [], [1, 1], [0, 4])]
    oracle.check(module_of([x, *others], lines), x, *others)


@pytest.mark.parametrize("t", oracle.some("f32 s8", "bf16 pred c64 u64"))
def test_slice_concatenate_pad(t: str) -> None:
    x, y, v = random_array(t, [5, 7]), random_array(t, [5, 2], 1), random_array(t, [], 2)
    pads = {
        "0_0_0x0_0_0": [5, 7],
        "1_2_0x-2_3_0": [8, 8],
        "2_0_1x1_1_2": [11, 21],
        "-1_-2_3x-9_4_0": [14, 2],
        "-6_3_1x0_0_0": [6, 7],
        "-3_-2_0x5_0_0": [0, 12],
        "-7_0_2x-3_-11_2": [6, 5],
    }
    lines = [
        (text_of(t, [2, 3]), "slice(p0), slice={[1:5:2], [0:7:3]}"),
        (text_of(t, [0, 7]), "slice(p0), slice={[3:3], [0:7]}"),
        (text_of(t, [5, 9]), "concatenate(p0, p1), dimensions={1}"),
        *((text_of(t, d), f"pad(p0, p2), padding={p}") for p, d in pads.items()),
    ]
    oracle.check(module_of([x, y, v], lines), x, y, v)


@pytest.mark.parametrize("t", oracle.some("s4 bf16 f32", "u8 s64 f16 f64 c64"))
def test_iota(t: str) -> None:
    lines = [(text_of(t, [7]), "iota(), iota_dimension=0"), (text_of(t, [3, 4, 2]), "iota(), iota_dimension=1")]
    oracle.check(module_of([], lines))


@pytest.mark.parametrize("index_type", oracle.some("s32", "s8 u32 s64"))
def test_dynamic_slices_clamp(index_type: str) -> None:
    x, u = random_array("f32", [5, 6]), random_array("f32", [3, 2], 1)
    for start in ([0, 0], [4, -9], [2, 4], [-1, 100], [127, 3]):
        if index_type == "u32" and min(start) < 0:
            continue
        at = [np.array(s, oracle.PrimitiveType.from_text(index_type).dtype) for s in start]
        lines = [
            ("f32[3,2]", "dynamic-slice(p0, p2, p3), dynamic_slice_sizes={3,2}"),
            ("f32[5,6]", "dynamic-update-slice(p0, p1, p2, p3)"),
        ]
        oracle.check(module_of([x, u, *at], lines), x, u, *at)


def test_bitcast_follows_the_layouts() -> None:
    x = random_array("f32", [2, 3, 4])
    text = """HloModule t
ENTRY e {
  p = f32[2,3,4]{0,2,1} parameter(0)
  a = f32[3,4,2]{2,1,0} bitcast(p)
  b = f32[24]{0} bitcast(p)
  c = s32[2,12]{0,1} bitcast(p)
  ROOT t = (f32[3,4,2]{2,1,0}, f32[24]{0}, s32[2,12]{0,1}) tuple(a, b, c)
}"""
    a, b, c = oracle.run(text, x)
    physical = x.transpose(1, 2, 0)  # major to minor
    np.testing.assert_array_equal(a, physical)
    np.testing.assert_array_equal(b, physical.reshape(-1))
    np.testing.assert_array_equal(c, physical.reshape(12, 2).T.view(np.int32))


@pytest.mark.parametrize("source", ["u8[0]{0}", "u8[0,4]{1,0}", "u8[4,0]{0,1}"])
def test_bitcast_of_nothing_to_another_width(source: str) -> None:
    text = f"HloModule t\nENTRY e {{\n  p = {source} parameter(0)\n  ROOT b = f32[0]{{0}} bitcast(p)\n}}\n"
    sizes = [int(n) for n in source[3 : source.index("]")].split(",")]
    (result,) = oracle.run(text, np.zeros(sizes, np.uint8))
    assert result.shape == (0,)


def test_dynamic_dimensions_have_their_actual_size() -> None:
    text = """HloModule t
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e {
  p = f32[5] parameter(0)
  n = s32[] parameter(1)
  d = f32[<=5] set-dimension-size(p, n), dimensions={0}
  e = f32[<=5] add(d, d)
  zero = f32[] constant(0)
  s = f32[] reduce(e, zero), dimensions={0}, to_apply=add
  g = s32[] get-dimension-size(e), dimensions={0}
  ROOT t = (f32[], s32[]) tuple(s, g)
}"""
    x = np.arange(5, dtype=np.float32)
    for n in range(6):
        total, size = oracle.run(text, x, np.array(n, np.int32))
        assert (float(total), int(size)) == (2 * sum(range(n)), n)
