"""Tiled layouts end to end on the CPU: parameters, results and intermediates, plain arrays and raw buffers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, leaves_of, random_inputs
from xjit.hlo.diagnostics import HloError
from xjit.layout import linear_index_with_tile, logical_map, physical_map, tile_array, untile_array
from xjit.text.parser import parse_hlo

pytestmark = pytest.mark.padded

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }"

# dims, layout: whole tiles, cut tiles, permuted orders, tiles shorter than the rank, repeated tiles, combined dims
LAYOUTS_OF = [
    ("3,5", "{1,0:T(2,2)}"),
    ("3,5", "{0,1:T(2,2)}"),
    ("16,256", "{1,0:T(8,128)}"),
    ("13,200", "{1,0:T(8,128)}"),
    ("4,8", "{1,0:T(2,4)(2,1)}"),
    ("5,7", "{1,0:T(2,4)(2,1)}"),
    ("7", "{0:T(4)}"),
    ("3,5,7", "{2,1,0:T(2,2)}"),
    ("3,5,7", "{1,0,2:T(2,4)}"),
    ("3,5,7", "{0,2,1:T(2,2,3)}"),
    ("2,3,4,5", "{3,2,1,0:T(*,2,3)}"),
    ("2,7,3,4,5", "{4,3,2,1,0:T(*,*,2,*,3)}"),
]


def run(text: str, rtol: float = 0.0, keep: bool = True) -> None:
    """Compares a compiled module with the evaluator, which knows no layouts."""
    module = parse_hlo(text)
    inputs = random_inputs(module)
    executable = xjit.compile(module, options=LAYOUTS if keep else None)
    actual, expected = leaves_of(executable(*inputs)), leaves_of(xjit.evaluate(module, *inputs))
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(e), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dims,layout", LAYOUTS_OF)
def test_copies_to_and_from_tiles(dims: str, layout: str) -> None:
    module = parse_hlo(f"""HloModule m, entry_computation_layout={{(f32[{dims}])->f32[{dims}]{layout}}}
ENTRY e {{ x = f32[{dims}] parameter(0)
 ROOT r = f32[{dims}]{layout} copy(x) }}""")
    back = parse_hlo(f"""HloModule m, entry_computation_layout={{(f32[{dims}]{layout})->f32[{dims}]}}
ENTRY e {{ x = f32[{dims}]{layout} parameter(0)
 ROOT r = f32[{dims}] copy(x) }}""")
    (x,) = random_inputs(module)
    shape = module.entry_computation.root_instruction.shape
    (raw,) = xjit.compile(module).call_physical(x.reshape(-1))
    offsets = physical_map(shape).evaluate(np.indices(x.shape))[0]
    np.testing.assert_array_equal(raw[offsets], x)
    np.testing.assert_array_equal(untile_array(raw, shape), x)
    (plain,) = xjit.compile(back).call_physical(tile_array(x, shape, fill=np.nan))
    np.testing.assert_array_equal(plain.reshape(x.shape), x)
    np.testing.assert_array_equal(xjit.compile(module)(x), x)
    np.testing.assert_array_equal(xjit.compile(back)(x), x)


BODIES = {
    "elementwise": "ROOT r = f32[13,20]{OUT} add(x, y)",
    "broadcast": "v = f32[20] parameter(2)\nb = f32[13,20]{MID} broadcast(v), dimensions={1}\nROOT r = f32[13,20]{OUT} multiply(x, b)",
    "transpose": "t = f32[20,13]{MID} transpose(x), dimensions={1,0}\nROOT r = f32[20,13]{OUT} negate(t)",
    "reshape": "t = f32[26,10]{MID} reshape(x)\nROOT r = f32[26,10]{OUT} negate(t)",
    "slice": "ROOT r = f32[4,7]{OUT} slice(x), slice={[1:13:3], [2:16:2]}",
    "pad": "c = f32[] constant(7)\nROOT r = f32[30,22]{OUT} pad(x, c), padding=2_3_1x-1_3_0",
    "concatenate": "ROOT r = f32[26,20]{OUT} concatenate(x, y), dimensions={0}",
    "reverse": "ROOT r = f32[13,20]{OUT} reverse(x), dimensions={0,1}",
    "reduce": "c = f32[] constant(0)\nROOT r = f32[13] reduce(x, c), dimensions={1}, to_apply=add",
    "reduce major": "c = f32[] constant(0)\nROOT r = f32[20] reduce(x, c), dimensions={0}, to_apply=add",
    "dot": "ROOT r = f32[13,13]{OUT} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "dynamic-slice": "i = s32[] constant(3)\nROOT r = f32[4,7]{OUT} dynamic-slice(x, i, i), dynamic_slice_sizes={4,7}",
    "dynamic-update-slice": "i = s32[] constant(3)\nu = f32[4,7]{MID} slice(y), slice={[0:4], [0:7]}\n"
    "ROOT r = f32[13,20]{OUT} dynamic-update-slice(x, u, i, i)",
    "gather": "i = s32[5,1] constant({{3},{0},{12},{2},{2}})\nROOT r = f32[5,20]{OUT} gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}",
    "sort": "ROOT r = f32[13,20]{OUT} sort(x), dimensions={1}, to_apply=less",
    "iota": "i = f32[13,20]{MID} iota(), iota_dimension=1\nROOT r = f32[13,20]{OUT} add(x, i)",
    "tuple": "n = f32[13,20]{OUT} negate(x)\nROOT r = (f32[13,20]{OUT}, f32[13,20]) tuple(n, y)",
}
KINDS = {
    "T(2,2)": "{1,0:T(2,2)}",
    "T(8,128)": "{1,0:T(8,128)}",
    "T(4,8)(2,1)": "{1,0:T(4,8)(2,1)}",
    "turned": "{0,1:T(4,4)}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BODIES)
def test_opcodes_on_tiles(body: str, kind: str) -> None:
    layout = KINDS[kind]
    text = BODIES[body].replace("{OUT}", layout).replace("{MID}", layout)
    lines = [f"x = f32[13,20]{layout} parameter(0)", f"y = f32[13,20]{KINDS['turned']} parameter(1)", text]
    run(
        f"HloModule m\n{ADD}\nless {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        f"ROOT r = pred[] compare(a, b), direction=LT }}\nENTRY e {{\n" + "\n".join(lines) + "\n}",
        rtol=1e-5,
    )


def test_bf16_in_the_layout_of_tpus() -> None:
    module = parse_hlo("""HloModule m
ENTRY e { x = bf16[20,300]{1,0:T(8,128)(2,1)} parameter(0)
 y = bf16[20,300]{1,0} parameter(1)
 ROOT r = bf16[20,300]{1,0:T(8,128)(2,1)} add(x, y) }""")
    x, y = random_inputs(module)
    shape = module.entry_computation.root_instruction.shape
    (raw,) = xjit.compile(module).call_physical(tile_array(x, shape), y.reshape(-1))
    assert raw.dtype == ml_dtypes.bfloat16 and raw.size == 24 * 384
    np.testing.assert_array_equal(untile_array(raw, shape), x + y)


@pytest.mark.parametrize("keep", [False, True])
def test_bitcast_between_tiled_and_untiled(keep: bool) -> None:
    options = LAYOUTS if keep else None
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    tiles = x.reshape(2, 2, 2, 4).transpose(0, 2, 1, 3)
    text = """HloModule m
ENTRY e { x = f32[4,8]{1,0:T(2,4)} parameter(0)
 ROOT r = f32[2,2,2,4] bitcast(x) }"""
    np.testing.assert_array_equal(xjit.compile(text, options=options)(x), tiles)
    back = """HloModule m
ENTRY e { x = f32[2,2,2,4] parameter(0)
 ROOT r = f32[4,8]{1,0:T(2,4)} bitcast(x) }"""
    np.testing.assert_array_equal(xjit.compile(back, options=options)(tiles), x)


@pytest.mark.parametrize("dims,layout", LAYOUTS_OF)
def test_bitcast_to_the_buffer(dims: str, layout: str) -> None:
    shape = parse_hlo(f"HloModule m\nENTRY e {{ ROOT x = f32[{dims}]{layout} parameter(0) }}").result_shape
    x = np.arange(1, 1 + shape.num_elements, dtype=np.float32).reshape(shape.dimensions)
    buffer = tile_array(x, shape)
    text = f"""HloModule m
ENTRY e {{ x = f32[{dims}]{layout} parameter(0)
 ROOT r = f32[{buffer.size}] bitcast(x) }}"""
    np.testing.assert_array_equal(xjit.compile(text)(x), buffer)
    np.testing.assert_array_equal(xjit.evaluate(text, x), buffer)


def test_tiles_inside_a_loop() -> None:
    run("""HloModule m
c { s = (s32[], f32[3,5]{1,0:T(2,2)}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(4)
 ROOT p = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[3,5]{1,0:T(2,2)}) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 one = s32[] constant(1)
 j = s32[] add(i, one)
 x = f32[3,5]{1,0:T(2,2)} get-tuple-element(s), index=1
 y = f32[3,5]{1,0:T(2,2)} add(x, x)
 ROOT r = (s32[], f32[3,5]{1,0:T(2,2)}) tuple(j, y) }
ENTRY e { x = f32[3,5]{1,0:T(2,2)} parameter(0)
 z = s32[] constant(0)
 s = (s32[], f32[3,5]{1,0:T(2,2)}) tuple(z, x)
 ROOT w = (s32[], f32[3,5]{1,0:T(2,2)}) while(s), condition=c, body=b }""")


INVALID = {
    "repeated dimension": ("{0,0}", "permutation"),
    "zero tile": ("{1,0:T(0,2)}", "positive"),
    "negative tile": ("{1,0:T(-3,2)}", "positive|expected"),
    "longer than the rank": ("{1,0:T(2,2,2)}", "more dimensions than the 2"),
    "star on the most minor": ("{1,0:T(2,*)}", "nothing to combine"),
    "no tile": ("{1,0:T()}", "at least one|expected"),
    "second tile longer than what is left": ("{1,0:T(2,2)(2,2,2,2,2)}", "more dimensions than the 4"),
}


@pytest.mark.parametrize("what", INVALID)
def test_invalid_layouts_are_clear_errors(what: str) -> None:
    layout, message = INVALID[what]
    with pytest.raises(HloError, match=message):
        xjit.compile(f"HloModule m\nENTRY e {{\n x = f32[3,5]{layout} parameter(0)\n ROOT r = f32[3,5] negate(x)\n}}")


def test_public_layout_functions_take_shapes_and_numbers() -> None:
    shape = parse_hlo("HloModule m\nENTRY e { ROOT x = f32[3,5]{1,0:T(2,2)} parameter(0) }").result_shape
    x = np.arange(15.0).reshape(3, 5)
    by_shape = tile_array(x, shape, fill=-1)
    np.testing.assert_array_equal(by_shape, tile_array(x, shape.layout, fill=-1))
    np.testing.assert_array_equal(by_shape, tile_array(x, (1, 0), [(2, 2)], fill=-1))
    np.testing.assert_array_equal(untile_array(by_shape, (3, 5), shape.layout), x)
    assert linear_index_with_tile((2, 3), (3, 5), (2, 2)) == 17 == physical_map(shape).evaluate((2, 3))[0]
    assert logical_map(shape).evaluate((17,)) == (2, 3)
    assert not logical_map(shape).contains((18,))
    with pytest.raises(HloError, match="expected 24"):
        untile_array(by_shape[1:], shape)
    with pytest.raises(HloError, match="name each of the 2 dims"):
        tile_array(x, (1, 1))


SCALARS = """HloModule m, entry_computation_layout={(f32[]{:T(128)}, f32[10,10]{1,0:T(8,128)})->f32[]{:T(128)}}
ENTRY e {
  a = f32[]{:T(128)} parameter(0)
  b = f32[10,10]{1,0:T(8,128)} parameter(1)
  z = f32[]{:T(128)} constant(2)
  s = f32[]{:T(128)} multiply(a, z)
  c = f32[10,10]{1,0:T(8,128)} broadcast(s), dimensions={}
  d = f32[10,10]{1,0:T(8,128)} multiply(c, b)
  e = f32[1,1]{1,0:T(8,128)} slice(d), slice={[3:4], [4:5]}
  ROOT r = f32[]{:T(128)} reshape(e)
}
"""


@pytest.mark.parametrize("tiles", [[(128,)], [(2, 4)], [(8, 128), (2, 1)]])
def test_a_tiled_scalar_is_the_first_element_of_a_tile(tiles: list[tuple[int, ...]]) -> None:
    buffer = tile_array(np.float32(7), (), tiles, fill=1)
    assert buffer.size == np.prod(tiles[0]) and buffer[0] == 7 and (buffer[1:] == 1).all()
    assert untile_array(buffer, (), (), tiles) == 7
    assert linear_index_with_tile((), (), tiles) == 0
    offsets = logical_map((), (), tiles)
    assert [p for p in range(buffer.size) if offsets.contains([p])] == [0]


def test_programs_of_tiled_scalars() -> None:
    b = np.arange(100, dtype=np.float32).reshape(10, 10)
    assert xjit.compile(SCALARS)(np.float32(3), b) == xjit.evaluate(SCALARS, np.float32(3), b) == 204
    assert str(xjit.parse_hlo(str(xjit.parse_hlo(SCALARS)))) == str(xjit.parse_hlo(SCALARS))
