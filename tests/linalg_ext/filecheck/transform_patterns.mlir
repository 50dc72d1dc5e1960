// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @joined
// CHECK-SAME: (%[[A:.*]]: tensor<4x?xf32>, %[[B:.*]]: tensor<4x3xf32>)
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[A]], %c1
// CHECK-DAG: %[[M:.*]] = affine.apply #{{.*}}()[%[[N]]]
// CHECK: %[[E:.*]] = tensor.empty(%[[M]]) : tensor<4x?xf32>
// CHECK: %[[F:.*]] = tensor.insert_slice %[[A]] into %[[E]][0, 0] [4, %[[N]]] [1, 1]
// CHECK: tensor.insert_slice %[[B]] into %[[F]][0, %[[N]]] [4, 3] [1, 1]
func.func @joined(%a: tensor<4x?xf32>, %b: tensor<4x3xf32>) -> tensor<4x?xf32> {
  %0 = tensor.concat dim(1) %a, %b : (tensor<4x?xf32>, tensor<4x3xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %0 {
    transform.apply_patterns.tensor.decompose_concat
  } : !transform.any_op
}

// -----

// CHECK-LABEL: func.func @padded
// CHECK: %[[F:.*]] = linalg.fill
// CHECK: tensor.insert_slice %arg0 into %[[F]][1, 0] [4, 3] [1, 1]
// CHECK-LABEL: func.func @unused
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}], {{.*}}} ins(%arg0 : tensor<4xf32>)
// CHECK-LABEL: func.func @stack
// CHECK: memref.alloca() : memref<4xf32>
// CHECK-NOT: memref.dealloc
// CHECK: return
func.func @padded(%a: tensor<4x3xf32>, %x: f32) -> tensor<6x3xf32> {
  %0 = tensor.pad %a low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : f32
  } : tensor<4x3xf32> to tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}
#map = affine_map<(d0) -> (d0)>
func.func @unused(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %1 = arith.addf %in, %in : f32
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @stack(%x: f32, %i: index) -> f32 {
  %0 = memref.alloc() : memref<4xf32>
  memref.store %x, %0[%i] : memref<4xf32>
  %1 = memref.load %0[%i] : memref<4xf32>
  memref.dealloc %0 : memref<4xf32>
  return %1 : f32
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %0 {
    transform.apply_patterns.linalg.decompose_pad
    transform.apply_patterns.linalg.erase_unnecessary_inputs
    transform.apply_patterns.memref.alloc_to_alloca
  } : !transform.any_op
}

// -----

// CHECK-LABEL: func.func @shared
// CHECK: %[[A:.*]] = arith.addi
// CHECK-NOT: arith.addi
// CHECK: return %[[A]], %[[A]]
func.func @shared(%x: i32, %y: i32) -> (i32, i32) {
  %0 = arith.addi %x, %y : i32
  %1 = arith.addi %x, %y : i32
  return %0, %1 : i32, i32
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %0 {
    transform.apply_patterns.canonicalization
  } {apply_cse} : !transform.any_op
}
