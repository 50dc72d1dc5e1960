// RUN: byteir-opt %s --canonicalize --split-input-file --allow-unregistered-dialect | FileCheck %s

// CHECK-LABEL: func.func @constants
// CHECK: %[[C:.*]] = arith.constant 11 : index
// CHECK-NEXT: return %[[C]]
func.func @constants() -> index {
  %a = arith.constant 4 : index
  %b = arith.constant 7 : index
  %sum = arith.addi %a, %b : index
  %zero = arith.constant 0 : index
  %same = arith.addi %zero, %sum : index
  %least = arith.minsi %same, %same : index
  return %least : index
}

// -----

// CHECK-LABEL: func.func @maps
// CHECK-SAME: %[[X:.*]]: index
// CHECK: %[[R:.*]] = affine.apply #map()[%[[X]]]
// CHECK: %[[M:.*]] = affine.min #map1()[%[[X]]]
// CHECK: return %[[R]], %[[M]]
func.func @maps(%x: index) -> (index, index) {
  %c3 = arith.constant 3 : index
  %0 = affine.apply affine_map<(d0) -> (d0 * 2)>(%x)
  %1 = affine.apply affine_map<(d0, d1)[s0] -> (d0 + s0 - d1 + d1)>(%0, %x)[%c3]
  %2 = affine.min affine_map<(d0) -> (d0 + 5, d0 + 3, 8)>(%0)
  return %1, %2 : index, index
}

// -----

// CHECK-LABEL: func.func @sizes
// CHECK-SAME: %[[T:.*]]: tensor<?x4xf32>, %[[N:.*]]: index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-NOT: tensor.dim
// CHECK: return %[[N]], %[[C4]], %[[N]]
func.func @sizes(%t: tensor<?x4xf32>, %n: index) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = tensor.empty(%n) : tensor<?x4xf32>
  %1 = linalg.copy ins(%t : tensor<?x4xf32>) outs(%0 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = tensor.dim %1, %c0 : tensor<?x4xf32>
  %3 = tensor.dim %1, %c1 : tensor<?x4xf32>
  %4 = tensor.extract_slice %t[0, 0] [%n, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
  %5 = tensor.dim %4, %c0 : tensor<?x4xf32>
  return %2, %3, %5 : index, index, index
}

// -----

// CHECK-LABEL: func.func @loops
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[N:.*]]: index
// CHECK-NOT: iter_args
// CHECK: scf.for
// CHECK: "test.effect"
// CHECK: return %[[A]], %[[A]], %[[A]]
func.func @loops(%a: tensor<4xf32>, %n: index) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %0 = scf.for %i = %c4 to %c0 step %c4 iter_args(%x = %a) -> (tensor<4xf32>) {
    %y = linalg.exp ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  %1 = scf.for %i = %c0 to %c4 step %c4 iter_args(%x = %a) -> (tensor<4xf32>) {
    scf.yield %x : tensor<4xf32>
  }
  %2 = scf.for %i = %c0 to %n step %c4 iter_args(%x = %a) -> (tensor<4xf32>) {
    "test.effect"(%x) : (tensor<4xf32>) -> ()
    scf.yield %x : tensor<4xf32>
  }
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What a constant says of a slice becomes part of types; consumers take the tensor that knows more.

// CHECK-LABEL: func.func @static_sizes
// CHECK: tensor.extract_slice %{{.*}}[2, 0] [4, 8] [1, 1] : tensor<?x8xf32> to tensor<4x8xf32>
// CHECK: linalg.exp ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[2, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<?x8xf32>
func.func @static_sizes(%t: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %0 = tensor.extract_slice %t[%c2, 0] [%c4, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %1 = linalg.exp ins(%0 : tensor<?x8xf32>) outs(%0 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = tensor.insert_slice %1 into %t[%c2, 0] [%c4, 8] [1, 1] : tensor<?x8xf32> into tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// -----

// CHECK-LABEL: func.func @there_and_back
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<2x2xf32>
// CHECK-NEXT: return %[[A]], %[[B]], %[[A]], %[[A]]
func.func @there_and_back(%a: tensor<4x8xf32>, %b: tensor<2x2xf32>) -> (tensor<4x8xf32>, tensor<2x2xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tensor.extract_slice %a[1, 1] [2, 2] [1, 1] : tensor<4x8xf32> to tensor<2x2xf32>
  %1 = tensor.insert_slice %0 into %a[1, 1] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x8xf32>
  %2 = tensor.insert_slice %b into %a[1, 1] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x8xf32>
  %3 = tensor.extract_slice %2[1, 1] [2, 2] [1, 1] : tensor<4x8xf32> to tensor<2x2xf32>
  %4 = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %5 = tensor.expand_shape %4 [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
  %6 = tensor.cast %a : tensor<4x8xf32> to tensor<?x8xf32>
  %7 = tensor.cast %6 : tensor<?x8xf32> to tensor<4x8xf32>
  return %1, %3, %5, %7 : tensor<4x8xf32>, tensor<2x2xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
