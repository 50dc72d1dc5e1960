// RUN: xjit-linalg %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// Loops are numbered in another way, and the product is added from the other side.
// CHECK-LABEL: func.func @products
// CHECK-SAME: %[[A:.*]]: tensor<4x6xf32>, %[[B:.*]]: tensor<8x6xf32>, %[[C:.*]]: tensor<4x8xf32>
// CHECK: linalg.matmul_transpose_b ins(%[[A]], %[[B]] : tensor<4x6xf32>, tensor<8x6xf32>) outs(%[[C]] : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @products(%a: tensor<4x6xf32>, %b: tensor<8x6xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(k, n, m) -> (n, k)>, affine_map<(k, n, m) -> (m, k)>,
                                        affine_map<(k, n, m) -> (m, n)>],
                       iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%b, %a : tensor<8x6xf32>, tensor<4x6xf32>) outs(%c : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.specialize %0 : (!transform.any_op) -> !transform.any_op
}

// -----

// The second input is subtracted from: inputs change places. What is fixed in memory has no result.
// CHECK-LABEL: func.func @elementwise
// CHECK-SAME: %[[A:.*]]: memref<?x?xf32>, %[[B:.*]]: memref<?x?xf32>, %[[C:.*]]: memref<?x?xf32>
// CHECK: linalg.sub ins(%[[B]], %[[A]] : memref<?x?xf32>, memref<?x?xf32>) outs(%[[C]] : memref<?x?xf32>)
// CHECK: linalg.exp ins(%[[C]] : memref<?x?xf32>) outs(%[[A]] : memref<?x?xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @elementwise(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %p = arith.subf %y, %x : f32
    linalg.yield %p : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : memref<?x?xf32>) outs(%a : memref<?x?xf32>) {
  ^bb0(%x: f32, %out: f32):
    %e = math.exp %x : f32
    linalg.yield %e : f32
  }
  return
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1 = transform.structured.specialize %0
}

// -----

// CHECK-LABEL: func.func @moves
// CHECK-SAME: %[[A:.*]]: tensor<4x6xf32>, %[[T:.*]]: tensor<6x4xf32>, %[[V:.*]]: tensor<6xf32>, %[[Z:.*]]: f32
// CHECK: linalg.transpose ins(%[[A]] : tensor<4x6xf32>) outs(%[[T]] : tensor<6x4xf32>) permutation = [1, 0]
// CHECK: linalg.broadcast ins(%[[V]] : tensor<6xf32>) outs(%[[A]] : tensor<4x6xf32>) dimensions = [0]
// CHECK: linalg.fill ins(%[[Z]] : f32) outs(%[[V]] : tensor<6xf32>) -> tensor<6xf32>
// CHECK: linalg.copy ins(%[[V]] : tensor<6xf32>) outs(%[[V]] : tensor<6xf32>) -> tensor<6xf32>
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @moves(%a: tensor<4x6xf32>, %t: tensor<6x4xf32>, %v: tensor<6xf32>, %z: f32)
    -> (tensor<6x4xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x6xf32>) outs(%t : tensor<6x4xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<6x4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j, i)>],
                       iterator_types = ["parallel", "parallel"]} ins(%v : tensor<6xf32>) outs(%a : tensor<4x6xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<4x6xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]} ins(%z : f32) outs(%v : tensor<6xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<6xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]} ins(%v : tensor<6xf32>) outs(%v : tensor<6xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<6xf32>
  return %0, %1, %2, %3 : tensor<6x4xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.specialize %0 : (!transform.any_op) -> !transform.any_op
}
