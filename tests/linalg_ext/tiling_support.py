"""Texts and helpers of the tests of tiling and fusing."""

from __future__ import annotations

from xjit import linalg_ext
from xjit.linalg_ext.ir import Operation

__all__ = ["ATTENTION", "MATMUL", "inner_body", "loops_of", "named", "residual_blocks", "resnet_block", "root_of"]


def named(module: Operation, name: str) -> list[Operation]:
    """Returns the operations of a name, in order."""
    return [op for op in module.walk() if op.name == name]


def root_of(module: Operation) -> Operation:
    """Returns the operation that is marked `__root__`."""
    [found] = [op for op in module.walk() if "__root__" in op.attributes]
    return found


def loops_of(module: Operation) -> list[Operation]:
    return named(module, "scf.for")


def inner_body(text: str) -> list[str]:
    """Returns the names of the operations in the innermost loop of a text."""
    module = linalg_ext.parse(text)
    return [op.name for op in loops_of(module)[-1].body.operations]


MATMUL = """
func.func @main(%a: tensor<12x10xf32>, %b: tensor<10x9xf32>) -> tensor<12x9xf32> {
  %zero = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<12x9xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<12x9xf32>) -> tensor<12x9xf32>
  %2 = linalg.matmul {__root__} ins(%a, %b : tensor<12x10xf32>, tensor<10x9xf32>) outs(%1 : tensor<12x9xf32>)
    -> tensor<12x9xf32>
  return %2 : tensor<12x9xf32>
}
"""

ATTENTION = """
func.func @main(%q: tensor<16x8xf32>, %k: tensor<8x20xf32>, %v: tensor<20x8xf32>) -> tensor<16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %0 = tensor.empty() : tensor<16x20xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<16x20xf32>) -> tensor<16x20xf32>
  %2 = linalg.matmul ins(%q, %k : tensor<16x8xf32>, tensor<8x20xf32>) outs(%1 : tensor<16x20xf32>) -> tensor<16x20xf32>
  %3 = tensor.empty() : tensor<16xf32>
  %4 = linalg.fill ins(%least : f32) outs(%3 : tensor<16xf32>) -> tensor<16xf32>
  %5 = linalg.fill ins(%zero : f32) outs(%3 : tensor<16xf32>) -> tensor<16xf32>
  %6:4 = linalg_ext.softmax dimension(1) ins(%2 : tensor<16x20xf32>)
    outs(%0, %4, %5, %3 : tensor<16x20xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    : tensor<16x20xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
  %7 = tensor.empty() : tensor<16x8xf32>
  %8 = linalg.fill ins(%START : f32) outs(%7 : tensor<16x8xf32>) -> tensor<16x8xf32>
  %9 = linalg.matmul {__root__} ins(%6#0, %v : tensor<16x20xf32>, tensor<20x8xf32>) outs(%8 : tensor<16x8xf32>)
    -> tensor<16x8xf32>
  return %9 : tensor<16x8xf32>
}
""".replace("%START", "%zero")


def resnet_block(height: int, width: int, channels: int, inner: int, element: str = "f32") -> str:
    """A residual block of three convolutions, the middle one over a padded image; `inner` channels inside."""
    outer_type = f"tensor<1x{height}x{width}x{channels}x{element}>"
    inner_type = f"tensor<1x{height}x{width}x{inner}x{element}>"
    padded_type = f"tensor<1x{height + 2}x{width + 2}x{inner}x{element}>"
    kernels = [f"tensor<{channels}x1x1x{inner}x{element}>", f"tensor<{inner}x3x3x{inner}x{element}>"]
    kernels.append(f"tensor<{inner}x1x1x{channels}x{element}>")
    ones = "dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>"
    return f"""
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @main(%arg0: {outer_type}, %k2: {kernels[0]}, %k1: {kernels[1]}, %k0: {kernels[2]}) -> {outer_type} {{
  %zero = arith.constant 0.000000e+00 : {element}
  %0 = tensor.empty() : {outer_type}
  %1 = linalg.fill ins(%zero : {element}) outs(%0 : {outer_type}) -> {outer_type}
  %2 = linalg.elemwise_unary {{__revisited__}} ins(%arg0 : {outer_type}) outs(%1 : {outer_type}) -> {outer_type}
  %3 = tensor.empty() : {inner_type}
  %4 = linalg.fill ins(%zero : {element}) outs(%3 : {inner_type}) -> {inner_type}
  %5 = linalg.conv_2d_nhwc_fhwc {{__conv_0__, {ones}}} ins(%2, %k0 : {outer_type}, {kernels[2]})
    outs(%4 : {inner_type}) -> {inner_type}
  %padded = tensor.pad %5 nofold low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : {element}
  }} : {inner_type} to {padded_type}
  %8 = linalg.conv_2d_nhwc_fhwc {{__conv_1__, {ones}}} ins(%padded, %k1 : {padded_type}, {kernels[1]})
    outs(%4 : {inner_type}) -> {inner_type}
  %9 = tensor.empty() : {outer_type}
  %10 = linalg.fill ins(%zero : {element}) outs(%9 : {outer_type}) -> {outer_type}
  %11 = linalg.conv_2d_nhwc_fhwc {{__conv_2__, {ones}}} ins(%8, %k2 : {inner_type}, {kernels[0]})
    outs(%10 : {outer_type}) -> {outer_type}
  %12 = tensor.empty() : {outer_type}
  %13 = linalg.generic {{__root__, indexing_maps = [#map, #map, #map],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%2, %11 : {outer_type}, {outer_type}) outs(%12 : {outer_type}) {{
  ^bb0(%in: {element}, %in_3: {element}, %out: {element}):
    %14 = arith.addf %in, %in_3 : {element}
    linalg.yield %14 : {element}
  }} -> {outer_type}
  return %13 : {outer_type}
}}
"""


def residual_blocks(count: int, kernel: int = 3) -> str:
    """A chain of `x + conv(x)`, each over a window of the rows, so that tiles grow from block to block."""
    length = 4 + count * (kernel - 1)
    lines = []
    value, size = "%x", length
    for i in range(count):
        shorter = size - kernel + 1
        t, s = f"tensor<1x{size}x2xf32>", f"tensor<1x{shorter}x2xf32>"
        lines.append(
            f"""
  %e{i} = tensor.empty() : {s}
  %f{i} = linalg.fill ins(%zero : f32) outs(%e{i} : {s}) -> {s}
  %c{i} = linalg.conv_1d_nwc_wcf {{dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}}
    ins({value}, %k : {t}, tensor<{kernel}x2x2xf32>) outs(%f{i} : {s}) -> {s}
  %s{i} = tensor.extract_slice {value}[0, 1, 0] [1, {shorter}, 2] [1, 1, 1] : {t} to {s}
  %r{i} = linalg.add {"{__root__}" if i == count - 1 else ""} ins(%s{i}, %c{i} : {s}, {s}) outs(%e{i} : {s}) -> {s}"""
        )
        value, size = f"%r{i}", shorter
    return f"""
func.func @main(%x: tensor<1x{length}x2xf32>, %k: tensor<{kernel}x2x2xf32>) -> tensor<1x{size}x2xf32> {{
  %zero = arith.constant 0.0 : f32{"".join(lines)}
  return {value} : tensor<1x{size}x2xf32>
}}
"""
