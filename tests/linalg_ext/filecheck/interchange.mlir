// RUN: xjit-linalg %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// Loops change places, and so do the indices that the body asks for.
// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d2, d0)>
// CHECK-DAG: #[[C:.*]] = affine_map<(d0, d1, d2) -> (d1, d0)>
// CHECK-LABEL: func.func @product
// CHECK: linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK: linalg.index 1 : index
func.func @product(%a: tensor<4x6xf32>, %b: tensor<6x8xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x6xf32>, tensor<6x8xf32>) outs(%c : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %row = linalg.index 0 : index
    %number = arith.index_cast %row : index to i32
    %float = arith.sitofp %number : i32 to f32
    %p = arith.mulf %x, %y : f32
    %q = arith.addf %p, %float : f32
    %s = arith.addf %q, %out : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.interchange %0 iterator_interchange = [1, 0, 2] : (!transform.any_op) -> !transform.any_op
}

// -----

// Results of script operations need no names.
// CHECK-LABEL: func.func @unnamed
// CHECK: linalg.generic
// CHECK-SAME: {marked}
func.func @unnamed(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.exp ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  transform.structured.generalize %0
  %1 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  transform.annotate_ext %1 {marked}
}

// -----

// CHECK-LABEL: func.func @buffers
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: linalg.exp ins
func.func @buffers(%a: memref<4x6xf32>, %b: memref<4x6xf32>) {
  linalg.exp ins(%a : memref<4x6xf32>) outs(%b : memref<4x6xf32>)
  return
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.convert_to_loops %0 : (!transform.any_op) -> !transform.any_op
}
