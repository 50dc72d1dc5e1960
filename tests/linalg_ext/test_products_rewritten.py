"""Products with transposed operands, convolutions as products: the value is kept, whatever the layout."""

from __future__ import annotations

import numpy as np
import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from tests.linalg_ext.tiling_support import named
from xjit import linalg_ext
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms.single_ops.img2col import convert_conv2d_to_img2col
from xjit.linalg_ext.transforms.single_ops.transposed_operands import transpose_conv2d, transpose_matmul

CONVOLUTIONS = {
    "nhwc_hwcf": ("2x9x8x3", "2x3x3x5", "2x{h}x{w}x5"),
    "nhwc_fhwc": ("2x9x8x3", "5x2x3x3", "2x{h}x{w}x5"),
    "nchw_fchw": ("2x3x9x8", "5x3x2x3", "2x5x{h}x{w}"),
}


def convolution(layout: str, strides: tuple[int, int], kinds: tuple[str, ...] = ("f32",) * 3) -> str:
    sizes = {"h": (9 - 2) // strides[0] + 1, "w": (8 - 3) // strides[1] + 1}
    a, b, c = (f"tensor<{s.format(**sizes)}x{kind}>" for s, kind in zip(CONVOLUTIONS[layout], kinds))
    return f"""func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
  %0 = linalg.conv_2d_{layout} {{dilations = dense<1> : tensor<2xi64>, strides = dense<{list(strides)}> : tensor<2xi64>}}
    ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
  return %0 : {c}
}}"""


@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("layout", CONVOLUTIONS)
def test_img2col(layout: str, strides: tuple[int, int]) -> None:
    def rewrite(module: Operation) -> None:
        [op] = named(module, f"linalg.conv_2d_{layout}")
        gathers, result = convert_conv2d_to_img2col(op)
        assert (gathers.name, result.name) == ("linalg.generic", "tensor.expand_shape")

    after = check_transformation(convolution(layout, strides), rewrite)
    assert count(after, "linalg.generic") == 2


@pytest.mark.parametrize(
    ("image", "window", "result"),
    [("2x9x8x0", "2x3x0x5", "2x8x6x5"), ("2x9x8x3", "2x0x3x5", "2x8x9x5"), ("2x1x8x3", "2x3x3x5", "2x0x6x5")],
    ids=["no channels", "no window", "no places"],
)
def test_img2col_of_nothing(image: str, window: str, result: str) -> None:
    a, b, c = (f"tensor<{sizes}xf32>" for sizes in (image, window, result))
    text = f"""func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %0 = linalg.conv_2d_nhwc_hwcf ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %0 : {c}
    }}"""
    check_transformation(text, lambda m: convert_conv2d_to_img2col(named(m, "linalg.conv_2d_nhwc_hwcf")[0]))


def test_img2col_extends_elements() -> None:
    text = convolution("nhwc_hwcf", (1, 1), ("i8", "i8", "i32"))
    before, after = linalg_ext.parse(text), linalg_ext.parse(text)
    convert_conv2d_to_img2col(named(after, "linalg.conv_2d_nhwc_hwcf")[0])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-128, 128, n).astype(np.int8) for n in ((2, 9, 8, 3), (2, 3, 3, 5))]
    start = np.zeros((2, 8, 6, 5), np.int32)
    found = [linalg_ext.evaluate(module, "main", *arrays, start) for module in (before, after)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize("batch", ["", "3x"])
@pytest.mark.parametrize("rows", ["6", "?"])
def test_transpose_matmul(operand: int, batch: str, rows: str) -> None:
    a, b, c = f"tensor<{batch}{rows}x4xf32>", f"tensor<{batch}4x5xf32>", f"tensor<{batch}{rows}x5xf32>"
    name = "linalg.batch_matmul" if batch else "linalg.matmul"
    text = f"""func.func @main(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
      %0 = {name} ins(%a, %b : {a}, {b}) outs(%c : {c}) -> {c}
      return %0 : {c}
    }}"""
    rng = np.random.default_rng(0)
    lead = (3,) if batch else ()
    arrays = [rng.normal(size=(*lead, *n)).astype(np.float32) for n in ((6, 4), (4, 5), (6, 5))]
    after = linalg_ext.parse(text)
    made = transpose_matmul(named(after, name)[0], operand)
    assert made.name == f"{name}_transpose_{'ab'[operand]}" and count(after, "linalg.transpose") == 1
    linalg_ext.verify(after)
    found = [linalg_ext.evaluate(module, "main", *arrays) for module in (linalg_ext.parse(text), after)]
    np.testing.assert_array_equal(*found)


def test_transpose_conv2d() -> None:
    def rewrite(module: Operation) -> None:
        [op] = named(module, "linalg.conv_2d_nhwc_fhwc")
        transpose_conv2d(op)

    after = check_transformation(convolution("nhwc_fhwc", (2, 1)), rewrite)
    assert count(after, "linalg.conv_2d_nhwc_hwcf") == 1


def test_refused() -> None:
    module = linalg_ext.parse(
        convolution("nhwc_hwcf", (1, 1))
        .replace("dilations = dense<1>", "dilations = dense<[1, 2]>")
        .replace("2x8x6x5", "2x8x4x5")
    )
    [op] = named(module, "linalg.conv_2d_nhwc_hwcf")
    for rewrite, message in (
        (convert_conv2d_to_img2col, "expected all ones for dilations"),
        (transpose_matmul, "no matmul"),
        (transpose_conv2d, "no conv_2d_nhwc_fhwc"),
    ):
        with pytest.raises(LinalgError, match=message):
            rewrite(op)
