// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse | FileCheck %s

// A residual block: the operation that two paths start from is tiled once, with a tile for both. What iterations share,
// as its tiles are not those of the loops, goes through the loops: all but the last convolution and its init.

// CHECK-LABEL: func.func @resnet_block
// CHECK: %[[WIDE:.*]] = tensor.empty() : tensor<1x56x56x256xf16>
// CHECK: %[[THIN:.*]] = tensor.empty() : tensor<1x56x56x64xf16>
// CHECK: %[[L0:.*]]:7 = scf.for {{.*}} iter_args(%{{.*}} = %[[WIDE]], %{{.*}} = %[[THIN]], %{{.*}} = %[[THIN]], %{{.*}} = %[[THIN]], %{{.*}} = %[[WIDE]], %{{.*}} = %[[THIN]], %{{.*}} = %[[WIDE]])
// CHECK:   %[[L1:.*]]:7 = scf.for {{.*}} iter_args(%{{[a-z0-9]*}} = {{.*}}, %[[C1:[a-z0-9]*]] = {{.*}}, %[[F1:[a-z0-9]*]] = {{.*}}, %[[C0:[a-z0-9]*]] = {{.*}}, %[[R:[a-z0-9]*]] = {{.*}}, %[[F0:[a-z0-9]*]] = {{.*}}, %[[FR:[a-z0-9]*]] = {{.*}}) ->
// CHECK:     %[[S:.*]] = tensor.extract_slice %[[R]][0, %{{.*}}, 0, %{{.*}}] [1, %{{.*}}, 56, %{{.*}}]
// CHECK:     %[[FILLED:.*]] = linalg.fill {{.*}} outs(%[[S]] :
// CHECK:     %[[U:.*]] = linalg.elemwise_unary {__revisited__} {{.*}}outs(%[[FILLED]] : {{.*}} -> tensor<1x?x56x{{.*}}xf16>
// CHECK-NOT: linalg.elemwise_unary
// CHECK:     tensor.extract_slice %[[C0]][0, %{{.*}}, 0, 0] [1, %{{.*}}, 56, 64]
// CHECK:     %[[CONV0:.*]] = linalg.conv_2d_nhwc_fhwc {__conv_0__, {{.*}} -> tensor<1x?x56x64xf16>
// CHECK:     tensor.pad %[[CONV0]] nofold low[0, %{{.*}}, 1, 0] high[0, %{{.*}}, 1, 0] {
// CHECK:     } : tensor<1x?x56x64xf16> to tensor<1x10x58x64xf16>
// CHECK:     tensor.extract_slice %[[C1]][0, %{{.*}}, 0, 0] [1, 8, 56, 64]
// CHECK:     linalg.conv_2d_nhwc_fhwc {__conv_1__, {{.*}} -> tensor<1x8x56x64xf16>
// CHECK:     tensor.empty() : tensor<1x8x56x32xf16>
// CHECK:     linalg.conv_2d_nhwc_fhwc {__conv_2__, {{.*}} -> tensor<1x8x56x32xf16>
// CHECK:     linalg.generic {{.*}} attrs = {__root__} {
// CHECK-DAG: tensor.insert_slice %[[FILLED]] into %[[FR]]
// CHECK-DAG: tensor.insert_slice %[[U]] into %[[R]]
// CHECK-DAG: tensor.insert_slice %[[CONV0]] into %[[C0]]
// CHECK:     scf.yield
// CHECK:   scf.yield %[[L1]]#0, %[[L1]]#1, %[[L1]]#2, %[[L1]]#3, %[[L1]]#4, %[[L1]]#5, %[[L1]]#6
// CHECK: return %[[L0]]#0
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

func.func @resnet_block(%arg0: tensor<1x56x56x256xf16>) -> tensor<1x56x56x256xf16> {
  %cst = arith.constant dense_resource<__elided__> : tensor<256x1x1x64xf32>
  %cst_0 = arith.constant dense_resource<__elided__> : tensor<64x3x3x64xf32>
  %cst_1 = arith.constant dense_resource<__elided__> : tensor<64x1x1x256xf32>
  %cst_2 = arith.constant 0.000000e+00 : f16
  %0 = tensor.empty() : tensor<1x56x56x256xf16>
  %1 = linalg.fill ins(%cst_2 : f16) outs(%0 : tensor<1x56x56x256xf16>) -> tensor<1x56x56x256xf16>
  %2 = linalg.elemwise_unary {__revisited__} ins(%arg0 : tensor<1x56x56x256xf16>) outs(%1 : tensor<1x56x56x256xf16>) -> tensor<1x56x56x256xf16>
  %3 = tensor.empty() : tensor<1x56x56x64xf16>
  %4 = linalg.fill ins(%cst_2 : f16) outs(%3 : tensor<1x56x56x64xf16>) -> tensor<1x56x56x64xf16>
  %5 = linalg.conv_2d_nhwc_fhwc {__conv_0__, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%2, %cst_1 : tensor<1x56x56x256xf16>, tensor<64x1x1x256xf32>) outs(%4 : tensor<1x56x56x64xf16>) -> tensor<1x56x56x64xf16>
  %padded = tensor.pad %5 nofold low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%arg1: index, %arg2: index, %arg3: index, %arg4: index):
    tensor.yield %cst_2 : f16
  } : tensor<1x56x56x64xf16> to tensor<1x58x58x64xf16>
  %6 = tensor.empty() : tensor<1x56x56x64xf16>
  %7 = linalg.fill ins(%cst_2 : f16) outs(%6 : tensor<1x56x56x64xf16>) -> tensor<1x56x56x64xf16>
  %8 = linalg.conv_2d_nhwc_fhwc {__conv_1__, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%padded, %cst_0 : tensor<1x58x58x64xf16>, tensor<64x3x3x64xf32>) outs(%7 : tensor<1x56x56x64xf16>) -> tensor<1x56x56x64xf16>
  %9 = tensor.empty() : tensor<1x56x56x256xf16>
  %10 = linalg.fill ins(%cst_2 : f16) outs(%9 : tensor<1x56x56x256xf16>) -> tensor<1x56x56x256xf16>
  %11 = linalg.conv_2d_nhwc_fhwc {__conv_2__, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%8, %cst : tensor<1x56x56x64xf16>, tensor<256x1x1x64xf32>) outs(%10 : tensor<1x56x56x256xf16>) -> tensor<1x56x56x256xf16>
  %12 = tensor.empty() : tensor<1x56x56x256xf16>
  %13 = linalg.generic {__root__, indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%2, %11 : tensor<1x56x56x256xf16>, tensor<1x56x56x256xf16>) outs(%12 : tensor<1x56x56x256xf16>) {
  ^bb0(%in: f16, %in_3: f16, %out: f16):
    %14 = arith.addf %in, %in_3 : f16
    linalg.yield %14 : f16
  } -> tensor<1x56x56x256xf16>
  return %13 : tensor<1x56x56x256xf16>
}
transform.sequence  failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match attributes {__root__} in %arg0 : (!pdl.operation) -> !pdl.operation
  %transformed, %loops:2 = transform.structured.fuse_ext %0 {tile_interchange = [], tile_sizes = [0, 8, 0, 32]}
  cleanup
}
