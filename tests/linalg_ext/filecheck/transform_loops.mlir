// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize --split-input-file | FileCheck %s

// CHECK: #[[NEXT:.*]] = affine_map<(d0) -> (d0 + 2)>
// CHECK-LABEL: func.func @unrolled
// CHECK: %[[S:.*]] = scf.for %[[I:.*]] = %c0 to %c8 step %c4 iter_args(%[[X:.*]] = %{{.*}}) -> (index) {
// CHECK:   %[[Y:.*]] = arith.addi %[[X]], %[[I]] : index
// CHECK:   %[[J:.*]] = affine.apply #[[NEXT]](%[[I]])
// CHECK:   %[[Z:.*]] = arith.addi %[[Y]], %[[J]] : index
// CHECK:   scf.yield %[[Z]] : index
// CHECK: %[[R:.*]] = arith.addi %[[S]], %c8 : index
// CHECK: return %[[R]]
func.func @unrolled(%a: index) -> index {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c10 = arith.constant 10 : index
  %0 = scf.for %i = %c0 to %c10 step %c2 iter_args(%x = %a) -> (index) {
    %1 = arith.addi %x, %i : index
    scf.yield %1 : index
  }
  return %0 : index
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["scf.for"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  transform.loop.unroll %0 {factor = 2 : i64} : !transform.any_op
}

// -----

// CHECK: #[[SPLIT:.*]] = affine_map<()[s0] -> ((s0 floordiv 4) * 4)>
// CHECK: #[[REST:.*]] = affine_map<(d0)[s0] -> (-d0 + s0)>
// CHECK-LABEL: func.func @peeled
// CHECK: %[[N:.*]] = tensor.dim
// CHECK: %[[M:.*]] = affine.apply #[[SPLIT]]()[%[[N]]]
// CHECK: %[[W:.*]] = scf.for %{{.*}} = %c0 to %[[M]] step %c4
// CHECK-NOT: affine.min
// CHECK:   linalg.exp ins(%{{.*}} : tensor<4xf32>)
// CHECK: } {main}
// CHECK: scf.for %[[I:.*]] = %[[M]] to %[[N]] step %c4 iter_args(%{{.*}} = %[[W]])
// CHECK:   affine.apply #[[REST]](%[[I]])[%[[N]]]
// CHECK:   linalg.exp ins(%{{.*}} : tensor<?xf32>)
// CHECK: } {rest}
func.func @peeled(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.exp ins(%a : tensor<?xf32>) outs(%b : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1, %loop = transform.structured.tile_using_for %0 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %main, %rest = transform.loop.peel %loop : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  transform.annotate %main "main" : !transform.any_op
  transform.annotate %rest "rest" : !transform.any_op
}

// -----

// CHECK-LABEL: func.func @invariant
// CHECK: %[[P:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: scf.for
// CHECK-NEXT: scf.for
// CHECK-NEXT: arith.divsi
// CHECK-NEXT: memref.store %[[P]]
func.func @invariant(%x: f32, %n: index, %m: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %0 = arith.mulf %x, %x : f32
      %1 = arith.divsi %n, %n : index
      memref.store %0, %m[%1] : memref<?xf32>
    }
  }
  return
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["scf.for"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1, %2 = transform.split_handle %0 {overflow_result = 0} : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  transform.apply_licm to %2 : !transform.any_op
}
