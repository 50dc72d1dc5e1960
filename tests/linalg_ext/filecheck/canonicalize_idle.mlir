// RUN: byteir-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @points
// CHECK: %[[P:.*]] = scf.parallel (%[[I:.*]]) = (%c0) to (%arg1) step (%c1) init (%arg2) -> f32 {
// CHECK:   memref.load %arg0[%[[I]], %c1]
// CHECK: %[[X:.*]] = memref.load %arg0[%c0, %c1]
// CHECK: %[[S:.*]] = arith.addf %[[P]], %[[X]] : f32
// CHECK-NOT: affine.for
// CHECK: return %[[S]], %arg2, %arg2
func.func @points(%m: memref<4x4xf32>, %n: index, %x: f32) -> (f32, f32, f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = scf.parallel (%i, %j) = (%c0, %c1) to (%n, %c2) step (%c1, %c1) init (%x) -> f32 {
    %v = memref.load %m[%i, %j] : memref<4x4xf32>
    scf.reduce(%v : f32) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      scf.reduce.return %s : f32
    }
  }
  %1 = scf.parallel (%i, %j) = (%c0, %c1) to (%c1, %c2) step (%c1, %c2) init (%0) -> f32 {
    %v = memref.load %m[%i, %j] : memref<4x4xf32>
    scf.reduce(%v : f32) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      scf.reduce.return %s : f32
    }
  }
  %2 = scf.parallel (%i) = (%c2) to (%c1) step (%c1) init (%x) -> f32 {
    scf.reduce(%x : f32) {
    ^bb0(%a: f32, %b: f32):
      scf.reduce.return %b : f32
    }
  }
  %3 = affine.for %i = 4 to 4 iter_args(%v = %x) -> (f32) {
    %s = arith.addf %v, %v : f32
    affine.yield %s : f32
  }
  affine.for %i = 0 to %n {
  }
  return %1, %2, %3 : f32, f32, f32
}

// -----

// CHECK-LABEL: func.func @moved
// CHECK-NEXT: return %arg0, %arg1
func.func @moved(%a: tensor<4x1x8xf32>, %b: tensor<2x3x4xf32>, %c: tensor<4x2x3xf32>) -> (tensor<4x1x8xf32>, tensor<2x3x4xf32>) {
  %0 = tensor.collapse_shape %a [[0, 1], [2]] : tensor<4x1x8xf32> into tensor<4x8xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 1, 8] : tensor<4x8xf32> into tensor<4x1x8xf32>
  %2 = linalg.transpose ins(%b : tensor<2x3x4xf32>) outs(%c : tensor<4x2x3xf32>) permutation = [2, 0, 1]
  %3 = linalg.transpose ins(%2 : tensor<4x2x3xf32>) outs(%b : tensor<2x3x4xf32>) permutation = [1, 2, 0]
  return %1, %3 : tensor<4x1x8xf32>, tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @buffers
// CHECK-NOT: linalg.fill
// CHECK: %[[V:.*]] = memref.load %arg0[%arg2] : memref<4xf32>
// CHECK: memref.store %[[V]], %arg0[%arg2] : memref<4xf32>
// CHECK: memref.cast %arg0 : memref<4xf32> to memref<?xf32, strided<[?], offset: ?>>
func.func @buffers(%m: memref<4xf32>, %none: memref<2x0xf32>, %i: index, %x: f32) -> memref<?xf32, strided<[?], offset: ?>> {
  linalg.fill ins(%x : f32) outs(%none : memref<2x0xf32>)
  %0 = memref.cast %m : memref<4xf32> to memref<?xf32>
  %1 = memref.load %0[%i] : memref<?xf32>
  memref.store %1, %0[%i] : memref<?xf32>
  %2 = memref.cast %0 : memref<?xf32> to memref<?xf32, strided<[?], offset: ?>>
  return %2 : memref<?xf32, strided<[?], offset: ?>>
}
