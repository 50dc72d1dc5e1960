// RUN: byteir-opt %s --split-input-file | FileCheck %s
// RUN: byteir-opt %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @softmax
// CHECK: %[[ALL:.*]]:4 = linalg_ext.softmax {kept} dimension(1) ins(%arg0 : tensor<3x?xf32>) outs(%arg1, %arg2, %arg2, %arg2 : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
// CHECK: return %[[ALL]]#0, %[[ALL]]#3
// GENERIC: "linalg_ext.softmax"(%{{.*}}) {dimension = 1 : i64, kept, operandSegmentSizes = array<i32: 1, 4>}
func.func @softmax(%x: tensor<3x?xf32>, %o: tensor<3x?xf32>, %r: tensor<3xf32>) -> (tensor<3x?xf32>, tensor<3xf32>) {
  %0:4 = linalg_ext.softmax {kept}
    dimension(1)
    ins(%x : tensor<3x?xf32>)
    outs(%o, %r, %r, %r : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return %0#0, %0#3 : tensor<3x?xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @softmax_of_buffers
// CHECK: linalg_ext.softmax dimension(0) ins(%arg0 : memref<5xf16>) outs(%arg1, %arg2, %arg2, %arg2 : memref<5xf16>, memref<f16>, memref<f16>, memref<f16>)
// CHECK-NEXT: return
// GENERIC-LABEL: "softmax_of_buffers"
func.func @softmax_of_buffers(%x: memref<5xf16>, %o: memref<5xf16>, %r: memref<f16>) {
  linalg_ext.softmax dimension(0) ins(%x : memref<5xf16>) outs(%o, %r, %r, %r : memref<5xf16>, memref<f16>, memref<f16>, memref<f16>)
  return
}

// -----

// CHECK-LABEL: func.func @scan
// CHECK: %[[SUMS:.*]]:2 = linalg_ext.scan dimension(0) inclusive(false) ins(%arg0 : tensor<6x2xi32>) outs(%arg1, %arg2 : tensor<6x2xi32>, tensor<2xi32>) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: i32, %[[B:.*]]: i32):
// CHECK-NEXT: %[[SUM:.*]] = arith.addi %[[A]], %[[B]] : i32
// CHECK-NEXT: linalg_ext.yield %[[SUM]] : i32
// CHECK-NEXT: } -> tensor<6x2xi32>, tensor<2xi32>
// CHECK: return %[[SUMS]]#0
// GENERIC: "linalg_ext.scan"
func.func @scan(%x: tensor<6x2xi32>, %o: tensor<6x2xi32>, %last: tensor<2xi32>) -> tensor<6x2xi32> {
  %0:2 = linalg_ext.scan dimension(0) inclusive(false)
    ins(%x : tensor<6x2xi32>) outs(%o, %last : tensor<6x2xi32>, tensor<2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %1 = arith.addi %a, %b : i32
    linalg_ext.yield %1 : i32
  } -> tensor<6x2xi32>, tensor<2xi32>
  return %0#0 : tensor<6x2xi32>
}

// -----

// CHECK-LABEL: func.func @scatter
// CHECK: linalg_ext.scatter ins(%arg0, %arg1 : tensor<?x1xindex>, tensor<?x4xf64>) outs(%arg2 : tensor<9x4xf64>) {
// CHECK: } -> tensor<9x4xf64>
// GENERIC: "linalg_ext.scatter"
func.func @scatter(%at: tensor<?x1xindex>, %new: tensor<?x4xf64>, %old: tensor<9x4xf64>) -> tensor<9x4xf64> {
  %0 = linalg_ext.scatter ins(%at, %new : tensor<?x1xindex>, tensor<?x4xf64>) outs(%old : tensor<9x4xf64>) {
  ^bb0(%a: f64, %b: f64):
    linalg_ext.yield %b : f64
  } -> tensor<9x4xf64>
  return %0 : tensor<9x4xf64>
}

// -----

// CHECK-LABEL: func.func @topk
// CHECK: %[[BEST:.*]]:2 = linalg_ext.topk dimension(1) ins(%arg0 : tensor<7x20xf32>) outs(%arg1, %arg2 : tensor<7x3xf32>, tensor<7x3xi32>) {
// CHECK: linalg_ext.yield %{{.*}} : i1
// CHECK-NEXT: } -> tensor<7x3xf32>, tensor<7x3xi32>
// GENERIC: "linalg_ext.topk"
func.func @topk(%x: tensor<7x20xf32>, %v: tensor<7x3xf32>, %i: tensor<7x3xi32>) -> tensor<7x3xi32> {
  %0:2 = linalg_ext.topk dimension(1) ins(%x : tensor<7x20xf32>) outs(%v, %i : tensor<7x3xf32>, tensor<7x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %1 : i1
  } -> tensor<7x3xf32>, tensor<7x3xi32>
  return %0#1 : tensor<7x3xi32>
}

// -----

// CHECK-LABEL: func.func @diagonal
// CHECK: %[[M:.*]] = linalg_ext.diag ins(%arg0 : tensor<2x5xf32>) outs(%{{.*}} : tensor<2x5x5xf32>) : tensor<2x5x5xf32>
// CHECK: linalg_ext.batch_matmul ins(%[[M]], %arg1 : tensor<2x5x5xf32>, tensor<2x6x5xf32>) outs(%arg2 : tensor<2x5x6xf32>) layout = "nt"
// GENERIC: "linalg_ext.diag"
// GENERIC: "linalg_ext.batch_matmul"
func.func @diagonal(%d: tensor<2x5xf32>, %b: tensor<2x6x5xf32>, %c: tensor<2x5x6xf32>) -> tensor<2x5x6xf32> {
  %0 = tensor.empty() : tensor<2x5x5xf32>
  %1 = linalg_ext.diag ins(%d : tensor<2x5xf32>) outs(%0 : tensor<2x5x5xf32>) : tensor<2x5x5xf32>
  %2 = linalg_ext.batch_matmul ins(%1, %b : tensor<2x5x5xf32>, tensor<2x6x5xf32>) outs(%c : tensor<2x5x6xf32>) layout = "nt"
  return %2 : tensor<2x5x6xf32>
}

// -----

// CHECK-LABEL: func.func @alias
// CHECK: linalg_ext.alias(%arg0 : f32) {marked} : f32
// CHECK: linalg_ext.alias(%arg1 : tensor<?xi8>) : tensor<?xi8>
// GENERIC: "linalg_ext.alias"
func.func @alias(%x: f32, %t: tensor<?xi8>) -> (f32, tensor<?xi8>) {
  %0 = linalg_ext.alias(%x : f32) {marked} : f32
  %1 = linalg_ext.alias(%t : tensor<?xi8>) : tensor<?xi8>
  return %0, %1 : f32, tensor<?xi8>
}

// -----

// CHECK-LABEL: func.func @layer_norm
// CHECK: linalg_ext.layer_norm axis([1]) epsilon(1.000000e-05) ins(%arg0 : tensor<4x8xf32>) outs(%arg1, %arg2, %arg2 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
// GENERIC: "linalg_ext.layer_norm"
func.func @layer_norm(%x: tensor<4x8xf32>, %o: tensor<4x8xf32>, %r: tensor<4xf32>) -> tensor<4x8xf32> {
  %0:3 = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%x : tensor<4x8xf32>) outs(%o, %r, %r : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
  return %0#0 : tensor<4x8xf32>
}
