// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// Slices stand in the order of operands, a producer where the slice of it would stand.

// CHECK-LABEL: func.func @product_with_bias
// CHECK: scf.for
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[%{{.*}}, 0] [6, 40]
// CHECK: %[[PLACE:.*]] = tensor.extract_slice %{{.*}}[%{{.*}}, 0] [6, 30]
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} outs(%[[PLACE]] : tensor<6x30xf32>)
// CHECK: %[[PRODUCT:.*]] = linalg.matmul ins(%[[A]], %arg1 : {{.*}}) outs(%[[ZEROS]] :
// CHECK: %[[BIAS:.*]] = tensor.extract_slice %arg2[%{{.*}}, 0] [6, 30]
// CHECK: linalg.add {last} ins(%[[PRODUCT]], %[[BIAS]]
func.func @product_with_bias(%a: tensor<24x40xf32>, %b: tensor<40x30xf32>, %bias: tensor<24x30xf32>) -> tensor<24x30xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<24x30xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x30xf32>) -> tensor<24x30xf32>
  %2 = linalg.matmul ins(%a, %b : tensor<24x40xf32>, tensor<40x30xf32>) outs(%1 : tensor<24x30xf32>) -> tensor<24x30xf32>
  %3 = linalg.add {last} ins(%2, %bias : tensor<24x30xf32>, tensor<24x30xf32>) outs(%0 : tensor<24x30xf32>) -> tensor<24x30xf32>
  return %3 : tensor<24x30xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match attributes{last} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.fuse %0 {tile_sizes = [6], tile_interchange = []}
}

// -----

// Sizes are asked for operand by operand; those of tiles are computed in the order of the loops.

// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0)[s0] -> (-d0 + s0, 10)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0)[s0] -> (-d0 + s0, 16)>
// CHECK-LABEL: func.func @sizes
// CHECK: %[[M:.*]] = tensor.dim %arg0, %c0
// CHECK: %[[K:.*]] = tensor.dim %arg0, %c1
// CHECK: %[[N:.*]] = tensor.dim %arg1, %c1
// CHECK: scf.for %[[J:.*]] = %c0 to %[[N]] step %c10
// CHECK: scf.for %[[I:.*]] = %c0 to %[[M]] step %c16
// CHECK: %[[WIDTH:.*]] = affine.min #[[COLUMNS]](%[[J]])[%[[N]]]
// CHECK: %[[HEIGHT:.*]] = affine.min #[[ROWS]](%[[I]])[%[[M]]]
// CHECK: tensor.extract_slice %arg0[%[[I]], 0] [%[[HEIGHT]], %[[K]]]
func.func @sizes(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = transform.structured.tile_ext %0 [16, 10] {interchange = [1, 0]}
}

// -----

// A window that is not cut takes what it reads, which may be less than there is.

// CHECK-LABEL: func.func @pool
// CHECK: tensor.extract_slice %arg0[%{{.*}}, 0, 0, 0] [2, 9, 9, 5] [1, 1, 1, 1] : tensor<6x9x10x5xf32> to tensor<2x9x9x5xf32>
// CHECK: linalg.pooling_nhwc_min
func.func @pool(%x: tensor<6x9x10x5xf32>, %w: tensor<3x3xf32>, %o: tensor<6x4x4x5xf32>) -> tensor<6x4x4x5xf32> {
  %0 = linalg.pooling_nhwc_min {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %w : tensor<6x9x10x5xf32>, tensor<3x3xf32>) outs(%o : tensor<6x4x4x5xf32>) -> tensor<6x4x4x5xf32>
  return %0 : tensor<6x4x4x5xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match interface{LinalgOp} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_using_for %0 [2] : (!pdl.operation) -> (!pdl.operation, !pdl.operation)
}

// -----

// Tiles of buffers in any order.

// CHECK-LABEL: func.func @buffers
// CHECK: scf.forall (%[[I:.*]]) in (4) {
// CHECK: %[[AT:.*]] = affine.apply #{{.*}}(%[[I]])
// CHECK: %[[X:.*]] = memref.subview %arg0[%[[AT]], 0] [5, 7] [1, 1]
// CHECK: %[[Y:.*]] = memref.subview %arg1[%[[AT]], 0] [5, 7] [1, 1]
// CHECK: linalg.exp ins(%[[X]] : {{.*}}) outs(%[[Y]] :
func.func @buffers(%x: memref<20x7xf32>, %y: memref<20x7xf32>) {
  linalg.exp ins(%x : memref<20x7xf32>) outs(%y : memref<20x7xf32>)
  return
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_using_forall %0 num_threads [4] : (!pdl.operation) -> (!pdl.operation, !pdl.operation)
}

// -----

// CHECK-LABEL: func.func @sizes_of_casts
// CHECK: %[[N:.*]] = tensor.dim %arg0, %c0 : tensor<?x4xf32>
// CHECK-NEXT: return %[[N]]
func.func @sizes_of_casts(%x: tensor<?x4xf32>) -> index {
  %c0 = arith.constant 0 : index
  %0 = tensor.cast %x : tensor<?x4xf32> to tensor<?x?xf32>
  %n = tensor.dim %0, %c0 : tensor<?x?xf32>
  return %n : index
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %0 {
    transform.apply_patterns.memref.resolve_ranked_shaped_type_result_dims
  } : !transform.any_op
}
