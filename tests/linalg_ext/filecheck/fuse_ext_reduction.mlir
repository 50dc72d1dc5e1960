// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse | FileCheck %s

// Tiling along the axis of a reduction: the accumulator is filled once, before the loop.

// CHECK-LABEL: func.func @tiled_matmul
// CHECK-SAME: %[[A:.*]]: tensor<128x128xf32>, %[[B:.*]]: tensor<128x128xf32>
func.func @tiled_matmul(%arg0: tensor<128x128xf32>, %arg1: tensor<128x128xf32>) -> tensor<128x128xf32> {
  // CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<128x128xf32>
  // CHECK: %[[FILL:.*]] = linalg.fill ins(%[[ZERO]] : f32) outs(%[[EMPTY]] : tensor<128x128xf32>) -> tensor<128x128xf32>
  // CHECK: %[[LOOP:.*]] = scf.for %[[I:.*]] = %[[C0]] to %[[C128]] step %[[C8]] iter_args(%[[ACC:.*]] = %[[FILL]]) -> (tensor<128x128xf32>) {
  // CHECK-NOT: linalg.fill
  // CHECK-DAG: %[[SA:.*]] = tensor.extract_slice %[[A]][0, %[[I]]] [128, 8] [1, 1] : tensor<128x128xf32> to tensor<128x8xf32>
  // CHECK-DAG: %[[SB:.*]] = tensor.extract_slice %[[B]][%[[I]], 0] [8, 128] [1, 1] : tensor<128x128xf32> to tensor<8x128xf32>
  // CHECK: %[[MM:.*]] = linalg.matmul {{.*}}ins(%[[SA]], %[[SB]] : tensor<128x8xf32>, tensor<8x128xf32>) outs(%[[ACC]] : tensor<128x128xf32>) -> tensor<128x128xf32>
  // CHECK: scf.yield %[[MM]] : tensor<128x128xf32>
  // CHECK: return %[[LOOP]]
  %cst = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<128x128xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<128x128xf32>) -> tensor<128x128xf32>
  %2 = linalg.matmul {__root__} ins(%arg0, %arg1 : tensor<128x128xf32>, tensor<128x128xf32>) outs(%1 : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %2 : tensor<128x128xf32>
}

transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match attributes {__root__} in %arg0 : (!pdl.operation) -> !pdl.operation
  %transformed, %loops = transform.structured.fuse_ext %0 {tile_interchange = [], tile_sizes = [0, 0, 8]}
  cleanup
}
