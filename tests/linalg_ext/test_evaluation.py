"""The evaluator: named ops against NumPy, extension ops against their definitions, control flow, memory, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xjit.hlo.diagnostics import HloError, InvalidArgument
from xjit.linalg_ext.evaluation import evaluate, evaluate_with_undefined
from xjit.linalg_ext.ir import LinalgError
from xjit.linalg_ext.passes import run_passes
from xjit.linalg_ext.text.parser import parse_module

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def run(text: str, *arguments, **options):
    return evaluate(parse_module(text), "f", *arguments, **options)


def conv(image, kernel, strides, dilations):
    """NHWC image, FHWC kernel."""
    f, kh, kw, _ = kernel.shape
    oh = (image.shape[1] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    ow = (image.shape[2] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    out = np.zeros((image.shape[0], oh, ow, f), np.float32)
    for y, x, i, j in np.ndindex(oh, ow, kh, kw):
        piece = image[:, y * strides[0] + i * dilations[0], x * strides[1] + j * dilations[1], :]
        out[:, y, x, :] += piece @ kernel[:, i, j, :].T
    return out


def test_matmul_and_fill() -> None:
    a, b = normal(5, 7), normal(7, 3)
    text = """
func.func @f(%a: tensor<5x7xf32>, %b: tensor<7x3xf32>) -> tensor<5x3xf32> {
  %cst = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<5x3xf32>
  %c = linalg.fill ins(%cst : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
  %r = linalg.matmul ins(%a, %b : tensor<5x7xf32>, tensor<7x3xf32>) outs(%c : tensor<5x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}"""
    np.testing.assert_allclose(run(text, a, b), a @ b + 1, rtol=1e-5, atol=1e-5)


def test_convolution() -> None:
    image, kernel = normal(2, 9, 8, 3), normal(4, 3, 2, 3)
    text = """
func.func @f(%i: tensor<2x9x8x3xf32>, %k: tensor<4x3x2x3xf32>, %o: tensor<2x4x5x4xf32>) -> tensor<2x4x5x4xf32> {
  %r = linalg.conv_2d_nhwc_fhwc {dilations = dense<[1, 3]> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>}
    ins(%i, %k : tensor<2x9x8x3xf32>, tensor<4x3x2x3xf32>) outs(%o : tensor<2x4x5x4xf32>) -> tensor<2x4x5x4xf32>
  return %r : tensor<2x4x5x4xf32>
}"""
    got = run(text, image, kernel, np.zeros((2, 4, 5, 4), np.float32))
    np.testing.assert_allclose(got, conv(image, kernel, (2, 1), (1, 3)), rtol=1e-5, atol=1e-5)


def test_pooling_reads_the_shape_of_its_window_only() -> None:
    image = normal(1, 4, 4, 2)
    text = """
func.func @f(%i: tensor<1x4x4x2xf32>, %o: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = tensor.empty() : tensor<2x2xf32>
  %r = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%i, %w : tensor<1x4x4x2xf32>, tensor<2x2xf32>) outs(%o : tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  return %r : tensor<1x2x2x2xf32>
}"""
    expected = image.reshape(1, 2, 2, 2, 2, 2).max((2, 4))
    np.testing.assert_array_equal(run(text, image, np.full((1, 2, 2, 2), -np.inf, np.float32)), expected)


def softmax_text(size: int) -> str:
    t, v = f"tensor<3x{size}xf32>", "tensor<3xf32>"
    return f"""
func.func @f(%x: {t}, %m: {v}, %a: {v}) -> ({t}, {v}, {v}, {v}) {{
  %o = tensor.empty() : {t}
  %s = tensor.empty() : {v}
  %r:4 = linalg_ext.softmax dimension(1) ins(%x : {t}) outs(%o, %m, %a, %s : {t}, {v}, {v}, {v}) : {t}, {v}, {v}, {v}
  return %r#0, %r#1, %r#2, %r#3 : {t}, {v}, {v}, {v}
}}"""


def test_softmax_carries_maximum_and_sum() -> None:
    x = normal(3, 8)
    start = np.full(3, -np.inf, np.float32), np.zeros(3, np.float32)
    whole = run(softmax_text(8), x, *start)
    np.testing.assert_allclose(whole[0], np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    first = run(softmax_text(5), x[:, :5].copy(), *start)
    second = run(softmax_text(3), x[:, 5:].copy(), first[1], first[2])
    for got, expected in zip(second[1:3], whole[1:3]):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_allclose(first[0] * second[3][:, None], whole[0][:, :5], rtol=1e-5)
    np.testing.assert_allclose(second[0], whole[0][:, 5:], rtol=1e-5)


@pytest.mark.parametrize("inclusive", [True, False])
def test_scan(inclusive: bool) -> None:
    x, start = normal(4, 3), normal(3)
    text = f"""
func.func @f(%x: tensor<4x3xf32>, %a: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {{
  %o = tensor.empty() : tensor<4x3xf32>
  %r:2 = linalg_ext.scan dimension(0) inclusive({str(inclusive).lower()})
    ins(%x : tensor<4x3xf32>) outs(%o, %a : tensor<4x3xf32>, tensor<3xf32>) {{
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    linalg_ext.yield %s : f32
  }} -> tensor<4x3xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<4x3xf32>, tensor<3xf32>
}}"""
    sums = start + np.cumsum(x, 0)
    output, total = run(text, x, start)
    np.testing.assert_allclose(total, sums[-1], rtol=1e-5)
    np.testing.assert_allclose(output, sums if inclusive else np.concatenate([start[None], sums[:-1]]), rtol=1e-5)


def test_topk_of_inits_that_nothing_wrote() -> None:
    x = np.array([[1, 5, 5, 2], [7, 0, 3, 9]], np.float32)
    text = """
func.func @f(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %v = tensor.empty() : tensor<2x3xf32>
  %i = tensor.empty() : tensor<2x3xi32>
  %r:2 = linalg_ext.topk dimension(1) ins(%x : tensor<2x4xf32>) outs(%v, %i : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>
  return %r#0, %r#1 : tensor<2x3xf32>, tensor<2x3xi32>
}"""
    values, indices = run(text, x)
    np.testing.assert_array_equal(values, [[5, 5, 2], [9, 7, 3]])
    np.testing.assert_array_equal(indices, [[1, 2, 3], [3, 0, 2]])


def test_topk_of_many_compares_lines_as_a_whole() -> None:
    """Not pair by pair, in 180,000 steps: for each element there are as many rounds as its line has records, about."""
    text = """
func.func @f(%x: tensor<300x2xbf16>) -> (tensor<300x2xbf16>, tensor<300x2xi32>) {
  %v = tensor.empty() : tensor<300x2xbf16>
  %i = tensor.empty() : tensor<300x2xi32>
  %r:2 = linalg_ext.topk dimension(0) ins(%x : tensor<300x2xbf16>) outs(%v, %i : tensor<300x2xbf16>, tensor<300x2xi32>) {
  ^bb0(%a: bf16, %b: bf16):
    %c = arith.cmpf olt, %a, %b : bf16
    linalg_ext.yield %c : i1
  } -> tensor<300x2xbf16>, tensor<300x2xi32>
  return %r#0, %r#1 : tensor<300x2xbf16>, tensor<300x2xi32>
}"""
    x = normal(300, 2).astype(ml_dtypes.bfloat16)
    values, indices = run(text, x, step_limit=20_000)
    order = np.argsort(x.astype(np.float32), 0, kind="stable")
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 0))


def test_topk_whose_body_is_no_order_walks_on() -> None:
    """Every later element is before: the last one is what a walk ends with; one that nobody may have is left out."""
    text = """
func.func @f(%x: tensor<4xi32>) -> tensor<3xi32> {
  %v = tensor.empty() : tensor<3xi32>
  %i = tensor.empty() : tensor<3xi32>
  %r:2 = linalg_ext.topk dimension(0) ins(%x : tensor<4xi32>) outs(%v, %i : tensor<3xi32>, tensor<3xi32>) {
  ^bb0(%a: i32, %b: i32):
    %c = arith.cmpi sge, %a, %b : i32
    linalg_ext.yield %c : i1
  } -> tensor<3xi32>, tensor<3xi32>
  return %r#1 : tensor<3xi32>
}"""
    np.testing.assert_array_equal(run(text, np.array([5, 7, 7, 1], np.int32)), [2, 1, 0])


def test_scatter_adds_to_repeated_places() -> None:
    source, updates = normal(2, 3, 4), normal(5, 4)
    indices = np.array([[0, 1], [1, 2], [0, 1], [1, 0], [0, 1]], np.int64)
    text = """
func.func @f(%s: tensor<2x3x4xf32>, %i: tensor<5x2xi64>, %u: tensor<5x4xf32>) -> tensor<2x3x4xf32> {
  %r = linalg_ext.scatter ins(%i, %u : tensor<5x2xi64>, tensor<5x4xf32>) outs(%s : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg_ext.yield %c : f32
  } -> tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}"""
    expected = source.copy()
    np.add.at(expected, (indices[:, 0], indices[:, 1]), updates)
    np.testing.assert_allclose(run(text, source, indices, updates), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(HloError, match=r"index \[0, 3\] is outside"):
        run(text, source, np.full((5, 2), [0, 3], np.int64), updates)


def test_diag_and_layer_norm() -> None:
    x, weight, bias = normal(2, 3), normal(3), normal(3)
    text = """
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<2x3x3xf32>, tensor<2x3xf32>) {
  %o = tensor.empty() : tensor<2x3x3xf32>
  %d = linalg_ext.diag ins(%x : tensor<2x3xf32>) outs(%o : tensor<2x3x3xf32>) : tensor<2x3x3xf32>
  %p = tensor.empty() : tensor<2x3xf32>
  %n = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%x, %w, %b : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    outs(%p : tensor<2x3xf32>) : tensor<2x3xf32>
  return %d, %n : tensor<2x3x3xf32>, tensor<2x3xf32>
}"""
    matrices, normalized = run(text, x, weight, bias)
    np.testing.assert_array_equal(matrices, x[:, :, None] * np.eye(3, dtype=np.float32))
    centred = x - x.mean(1, keepdims=True)
    expected = centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(normalized, expected, rtol=1e-4, atol=1e-5)


def test_loops_branches_and_views_of_memory() -> None:
    text = """
func.func @f(%m: memref<4x6xf32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %v = memref.subview %m[1, 0] [2, 3] [1, 2] : memref<4x6xf32> to memref<2x3xf32, strided<[6, 2], offset: 6>>
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %j = %c0 to %c3 step %c1 {
      %x = memref.load %v[%i, %j] : memref<2x3xf32, strided<[6, 2], offset: 6>>
      %big = arith.cmpf ogt, %x, %x : f32
      %y = scf.if %big -> (f32) {
        scf.yield %x : f32
      } else {
        %n = arith.negf %x : f32
        scf.yield %n : f32
      }
      memref.store %y, %v[%i, %j] : memref<2x3xf32, strided<[6, 2], offset: 6>>
    }
  }
  %n = scf.while (%i = %c0) : (index) -> index {
    %go = arith.cmpi slt, %i, %c3 : index
    scf.condition(%go) %i : index
  } do {
  ^bb0(%i: index):
    %next = arith.addi %i, %c1 : index
    scf.yield %next : index
  }
  return %n : index
}"""
    memory = normal(4, 6)
    expected = memory.copy()
    expected[1:3, 0:6:2] *= -1
    assert run(text, memory) == 3
    np.testing.assert_array_equal(memory, expected)


def test_endless_loops_end() -> None:
    text = """
func.func @f(%c: i1) {
  scf.while : () -> () {
    scf.condition(%c)
  } do {
    scf.yield
  }
  return
}"""
    with pytest.raises(HloError, match="more than 1000 steps"):
        run(text, True, step_limit=1000)


def test_what_nothing_wrote_is_undefined() -> None:
    text = """
func.func @f(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %p = tensor.insert_slice %x into %e[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %o = tensor.empty() : tensor<4xf32>
  %s = linalg.elemwise_binary ins(%p, %p : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  return %p, %s : tensor<4xf32>, tensor<4xf32>
}"""
    for _, mask in evaluate_with_undefined(parse_module(text), "f", normal(2)):
        assert mask.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "takes 1 arguments, found 0"),
        ((np.zeros(3, np.float32),), r"got an array of shape \[3\]"),
        ((np.zeros(2, np.float64),), "got elements of type float64"),
    ],
)
def test_arguments_that_do_not_fit(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n return %x : tensor<2xf32>\n}", *arguments)


def test_integers_wrap_and_divide_toward_zero() -> None:
    text = """
func.func @f(%a: i8, %b: i8) -> (i8, i8, i8, i8) {
  %s = arith.addi %a, %b : i8
  %q = arith.divsi %a, %b : i8
  %r = arith.remsi %a, %b : i8
  %u = arith.divui %a, %b : i8
  return %s, %q, %r, %u : i8, i8, i8, i8
}"""
    assert [int(v) for v in run(text, -128, -3)] == [125, 42, -2, 0]


@pytest.mark.parametrize(("a", "b", "expected"), [(-128, 3, -42), (127, 2, 64), (-7, -2, 4), (-128, 1, -128)])
def test_division_up_does_not_negate(a: int, b: int, expected: int) -> None:
    """-128 of 8 bits has no negative."""
    text = "func.func @f(%a: i8, %b: i8) -> i8 {\n %q = arith.ceildivsi %a, %b : i8\n return %q : i8\n}"
    assert run(text, a, b) == expected


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("passes", [[], ["canonicalize"]], ids=str)
def test_a_chosen_buffer_is_no_copy(first: bool, passes: list[str]) -> None:
    """Also where `canonicalize` makes a select of the branch."""
    text = """
func.func @f(%c: i1, %a: memref<2xf32>, %b: memref<2xf32>) -> index {
  %r = scf.if %c -> (memref<2xf32>) {
    scf.yield %a : memref<2xf32>
  } else {
    scf.yield %b : memref<2xf32>
  }
  %n = memref.rank %r : memref<2xf32>
  %x = arith.constant 3.0 : f32
  memref.store %x, %r[%n] : memref<2xf32>
  return %n : index
}"""
    module = parse_module(text)
    run_passes(module, passes)
    assert any(op.name == "arith.select" for op in module.walk()) == bool(passes)
    a, b = np.zeros(2, np.float32), np.zeros(2, np.float32)
    assert evaluate(module, "f", first, a, b) == 1
    np.testing.assert_array_equal([a, b], [[0, 3 * first], [0, 3 * (not first)]])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("index.divs %a, %b", -2),
        ("index.floordivs %a, %b", -3),
        ("index.ceildivs %a, %b", -2),
        ("index.rems %a, %b", -1),
        ("index.maxs %a, %b", 3),
        ("index.maxu %a, %b", -7),
        ("index.shl %b, %b", 24),
        ("index.xor %b, %a", 3 ^ -7),
    ],
)
def test_index_arithmetic(expression: str, expected: int) -> None:
    text = f"func.func @f(%a: index, %b: index) -> index {{\n  %0 = {expression}\n  return %0 : index\n}}"
    assert run(text, -7, 3) == expected


@pytest.mark.parametrize(("value", "leading", "trailing"), [(1, 31, 0), (40, 26, 3), (0, 32, 32), (-1, 0, 0)])
def test_zeros_of_integers(value: int, leading: int, trailing: int) -> None:
    for name, expected in (("ctlz", leading), ("cttz", trailing)):
        text = f"func.func @f(%a: i32) -> i32 {{\n  %0 = math.{name} %a : i32\n  return %0 : i32\n}}"
        assert run(text, np.int32(value)) == expected


@pytest.mark.parametrize("result", ["2x5x1x4x1", "2x5x4"], ids=["full", "reduced"])
def test_gather(result: str) -> None:
    module = parse_module(f"""
    func.func @main(%x: tensor<3x4x6xf32>, %i: tensor<2x5x2xindex>) -> tensor<{result}xf32> {{
      %0 = tensor.gather %x[%i] gather_dims([0, 2]) : (tensor<3x4x6xf32>, tensor<2x5x2xindex>) -> tensor<{result}xf32>
      return %0 : tensor<{result}xf32>
    }}""")
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(3, 4, 6)).astype(np.float32), rng.integers(0, 3, (2, 5, 2))
    expected = x[rows[..., 0], :, rows[..., 1]].reshape([int(n) for n in result.split("x")])
    np.testing.assert_array_equal(evaluate(module, "main", x, rows), expected)
    rows[1, 2] = 3
    with pytest.raises(LinalgError, match="outside of dimension 0, which has 3"):
        evaluate(module, "main", x, rows)
