"""Values of GPU kernels, run by the simulator with its sanitizer, threads in either order."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.emitters.gpu.test_schedules import reduced, softmax, transposed, unary
from tests.emitters.gpu.test_traffic import concatenated
from tests.support.gpu_planning import ADD, MAX, gpu_kernels
from tests.support.gpu_simulation import check_simulated


@pytest.mark.parametrize("size", [1, 2, 31, 1000, 1024, 1027, 5003])
@pytest.mark.parametrize("kind", ["f32", "bf16", "s8"])
def test_elements(size: int, kind: str) -> None:
    check_simulated(unary(f"{kind}[{size}]"))


@pytest.mark.parametrize("kind", ["pred", "s4", "u16", "s32", "u64", "f16", "f64", "c64", "f8e4m3fn"])
def test_element_types(kind: str) -> None:
    opcode = "not" if kind == "pred" else "add"
    operands = "x" if kind == "pred" else "x, x"
    entry = f"ENTRY e {{ x = {kind}[37,29] parameter(0)\n ROOT r = {kind}[37,29] {opcode}({operands}) }}"
    check_simulated(f"HloModule m\n{entry}")


@pytest.mark.parametrize("opcode", ["exponential", "log", "tanh", "cosine", "rsqrt", "logistic", "erf", "cbrt"])
def test_functions_have_the_bits_of_the_cpus(opcode: str) -> None:
    text = unary("f32[3000]", opcode)
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32) * 5
    simulated = xjit.compile(text, "cuda-sim")(x)
    np.testing.assert_array_equal(simulated, xjit.compile(text)(x))


@pytest.mark.parametrize(
    ("shape", "result", "dimensions"),
    [
        ("f32[64,256]", "f32[64]", "1"),
        ("f32[65,259]", "f32[65]", "1"),
        ("f32[5,40]", "f32[5]", "1"),
        ("f32[9,2000]", "f32[9]", "1"),
        ("f32[3,2001]", "f32[3]", "1"),
        ("f32[200,7]", "f32[200]", "1"),
        ("f32[200,70]", "f32[70]", "0"),
        ("f32[3,100,40]", "f32[3,40]", "1"),
        ("f32[100,512]", "f32[512]", "0"),
        ("f32[10,100]", "f32[100]", "0"),
        ("f32[6,100,7]", "f32[100]", "0,2"),
        ("f32[4,5,6,7]", "f32[5,7]", "0,2"),
        ("f32[5000]", "f32[]", "0"),
        ("f32[131072]", "f32[]", "0"),
        ("f32[50,60]", "f32[]", "0,1"),
        ("f32[7,0]", "f32[7]", "1"),
        ("f32[7,1]", "f32[7]", "1"),
        ("f32[5,1,40]", "f32[5]", "1,2"),
    ],
)
def test_sums(shape: str, result: str, dimensions: str) -> None:
    check_simulated(reduced(shape, result, dimensions), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["bf16", "f16", "f64", "s32", "u8", "s64"])
@pytest.mark.parametrize(("shape", "result", "dimension"), [("20,300", "20", 1), ("300,40", "40", 0)])
def test_sums_of_other_types(kind: str, shape: str, result: str, dimension: int) -> None:
    text = reduced(f"{kind}[{shape}]", f"{kind}[{result}]", str(dimension)).replace("f32[]", f"{kind}[]")
    narrow = {"bf16": 2e-2, "f16": 2e-3, "f64": 1e-12}
    check_simulated(text, rtol=narrow.get(kind, 0.0), atol=narrow.get(kind, 0.0))


@pytest.mark.parametrize("opcode", ["maximum", "minimum", "multiply", "and", "or"])
def test_other_reducers(opcode: str) -> None:
    kind = "pred" if opcode in ("and", "or") else "f32"
    text = reduced(f"{kind}[9,400]", f"{kind}[9]", "1").replace("f32[]", f"{kind}[]").replace("add(a", f"{opcode}(a")
    check_simulated(text, rtol=1e-5 if opcode == "multiply" else 0.0)


def test_sums_over_several_dimensions_one_of_size_one() -> None:
    square = "s = f32[4,17,1,64] multiply(x, x)\n ROOT r"
    text = reduced("f32[4,17,1,64]", "f32[4]", "1,2,3").replace("ROOT r", square).replace("reduce(x", "reduce(s")
    check_simulated(text, rtol=1e-5)


def test_a_reducer_without_an_identity_is_a_threads() -> None:
    clipped = "big = f32[] constant(1e9)\n c = f32[] minimum(b, big)\n ROOT sum = f32[] maximum(a, c)"
    text = reduced("f32[9,40]", "f32[9]", "1").replace("ROOT sum = f32[] add(a, b)", clipped)
    check_simulated(text)
    assert "serial" in xjit.compile(text, "cuda-sim").as_text("schedule")


@pytest.mark.parametrize(("rows", "columns"), [(10, 256), (13, 33), (3, 4096), (2, 3001)])
def test_softmax(rows: int, columns: int) -> None:
    check_simulated(softmax(rows, columns), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "result", "dimensions"),
    [
        ("f32[64,96]", "f32[96,64]", "1,0"),
        ("f32[40,100]", "f32[100,40]", "1,0"),
        ("bf16[70,33]", "bf16[33,70]", "1,0"),
        ("s8[70,50]", "s8[50,70]", "1,0"),
        ("c64[40,50]", "c64[50,40]", "1,0"),
        ("pred[40,50]", "pred[50,40]", "1,0"),
        ("f64[3,40,20]", "f64[3,20,40]", "0,2,1"),
        ("f32[10,64,32]", "f32[32,10,64]", "2,0,1"),
        ("f32[5,6,7]", "f32[7,6,5]", "2,1,0"),
    ],
)
def test_transposes(shape: str, result: str, dimensions: str) -> None:
    check_simulated(transposed(shape, result, dimensions))


@pytest.mark.parametrize(
    ("shape", "result", "dimensions"),
    [
        ("f32[300,3]", "f32[3,300]", "1,0"),
        ("s8[100,2,9]", "s8[9,2,100]", "2,1,0"),
        ("bf16[3,90,4]", "bf16[3,4,90]", "0,2,1"),
    ],
)
def test_short_rows_are_a_threads(shape: str, result: str, dimensions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjit.emitters.planners.gpu.short_rows.MIN_BLOCKS", 0)
    (kernel,) = gpu_kernels(transposed(shape, result, dimensions))
    assert "unroll" in str(kernel.schedule) or "serial" in str(kernel.schedule)
    check_simulated(transposed(shape, result, dimensions))


@pytest.mark.parametrize("widths", [(1, 1, 1), (9, 2, 33)])
def test_short_pieces_of_a_concatenate(widths: tuple[int, ...]) -> None:
    check_simulated(concatenated("f32", 70, widths))


def test_an_argument_of_a_maximum() -> None:
    text = f"""HloModule m
{MAX}pick {{
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  first = pred[] compare(v, w), direction=GE
  value = f32[] select(first, v, w)
  index = s32[] select(first, i, j)
  ROOT both = (f32[], s32[]) tuple(value, index)
}}
ENTRY e {{
  x = f32[10,100] parameter(0)
  n = s32[10,100] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  ROOT r = (f32[10], s32[10]) reduce(x, n, low, none), dimensions={{1}}, to_apply=pick
}}"""
    check_simulated(text)


def test_loops_and_branches_are_the_hosts() -> None:
    text = """HloModule m
body { s = (s32[], f32[8]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[8] get-tuple-element(s), index=1
 one = s32[] constant(1)
 next = s32[] add(i, one)
 y = f32[8] add(x, x)
 ROOT t = (s32[], f32[8]) tuple(next, y) }
cond { s = (s32[], f32[8]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(5)
 ROOT p = pred[] compare(i, n), direction=LT }
twice { x = f32[8] parameter(0)
 ROOT y = f32[8] add(x, x) }
same { x = f32[8] parameter(0)
 c = f32[8] cosine(x)
 ROOT y = f32[8] negate(c) }
ENTRY e { i = s32[] parameter(0)
 x = f32[8] parameter(1)
 s = (s32[], f32[8]) tuple(i, x)
 w = (s32[], f32[8]) while(s), condition=cond, body=body
 y = f32[8] get-tuple-element(w), index=1
 p = s32[] get-tuple-element(w), index=0
 ROOT r = f32[8] conditional(p, y, y), branch_computations={twice, same} }"""
    for start in (0, 3, 9):
        check_simulated(text, np.int32(start), np.linspace(0, 1, 8, dtype=np.float32), rtol=1e-6)


MOVEMENT = {
    "pad": "ROOT r = f32[20,69] pad(x, z), padding=2_3_0x1_-1_1",
    "reverse": "ROOT r = f32[15,35] reverse(x), dimensions={1}",
    "slice": "ROOT r = f32[5,12] slice(x), slice={[2:12:2], [1:35:3]}",
    "concatenate": "y = f32[15,35] negate(x)\n ROOT r = f32[15,70] concatenate(x, y), dimensions={1}",
    "broadcast": "ROOT r = f32[15,4,35] broadcast(x), dimensions={0,2}",
    "reshape": "ROOT r = f32[35,15] reshape(x)",
    "dynamic-slice": "ROOT r = f32[4,20] dynamic-slice(x, i, j), dynamic_slice_sizes={4,20}",
    "dynamic-update-slice": "u = f32[4,20] constant({...})\n".replace("constant({...})", "broadcast(z), dimensions={}")
    + "ROOT r = f32[15,35] dynamic-update-slice(x, u, i, j)",
    "iota": "n = f32[15,35] iota(), iota_dimension=1\n ROOT r = f32[15,35] add(x, n)",
    "windows": "ROOT r = f32[14,33] reduce-window(x, z), window={size=2x3}, to_apply=add",
    "dot": "ROOT r = f32[15,15] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "gather": "n = s32[6,1] constant({{0}, {3}, {14}, {99}, {-5}, {7}})\n"
    "ROOT r = f32[6,35] gather(x, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,35}",
}


@pytest.mark.parametrize("name", MOVEMENT)
def test_elements_from_elsewhere(name: str) -> None:
    entry = f"""ENTRY e {{ x = f32[15,35] parameter(0)
 z = f32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 {MOVEMENT[name]} }}"""
    check_simulated(f"HloModule m\n{ADD}{entry}", rtol=1e-5 if name in ("windows", "dot") else 0.0, atol=1e-5)


def test_a_convolution() -> None:
    check_simulated(
        """HloModule m
ENTRY e { x = f32[2,9,9,3] parameter(0)
 k = f32[3,3,3,5] parameter(1)
 ROOT r = f32[2,5,5,5] convolution(x, k), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }""",
        rtol=1e-4,
        atol=1e-5,
    )


def test_results_that_alias_parameters_are_written_there() -> None:
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[100] parameter(0)
 ROOT r = f32[100] negate(x) }"""
    x = np.arange(100, dtype=np.float32)
    result = xjit.compile(text, "cuda-sim")(x, donate=[0])
    assert result is x and result[7] == -7


def gathered(rows: int, taken: int, width: int) -> str:
    return f"""HloModule m
ENTRY e {{ x = f32[{rows},{width}] parameter(0)
 i = s32[{taken}] parameter(1)
 ROOT r = f32[{taken},{width}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
   index_vector_dim=1, slice_sizes={{1,{width}}} }}"""


@pytest.mark.parametrize(("width", "has_vectors"), [(256, True), (8, True), (12, True), (7, False), (1, False)])
def test_gathered_rows_are_read_in_vectors(width: int, has_vectors: bool) -> None:
    """Where a vector's elements are all of one row, whose number is read once; numbers outside are clamped."""
    rng = np.random.default_rng(width)
    rows = rng.standard_normal((50, width)).astype(np.float32)
    executable = check_simulated(gathered(50, 300, width), rows, rng.integers(-3, 53, 300).astype(np.int32))
    assert ("ld.global.nc.v4.b32" in executable.as_text("ptx")) is has_vectors
