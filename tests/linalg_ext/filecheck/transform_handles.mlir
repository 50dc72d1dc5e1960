// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @handles
// CHECK: linalg.exp {first}
// CHECK: linalg.log {producer}
// CHECK: linalg.tanh {last, n = 1 : i32}
func.func @handles(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  %1 = linalg.log ins(%0 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  %2 = linalg.tanh ins(%1 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match interface{LinalgOp} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1:3 = transform.split_handle %0 : (!pdl.operation) -> (!pdl.operation, !pdl.operation, !pdl.operation)
  %2 = transform.annotate_ext %1#0 {first}
  %3 = transform.get_producer_of_operand %1#2[0] : (!pdl.operation) -> !pdl.operation
  %4 = transform.annotate_ext %3 {producer}
  %5 = transform.annotate_ext %1#2 {last, n = 1 : i32}
}

// -----

// CHECK-LABEL: func.func @named
// CHECK: scf.for
// CHECK:   linalg.exp
// CHECK-NOT: linalg.log {seen}
module attributes {transform.with_named_sequence} {
  func.func @named(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  transform.named_sequence @__transform_main(%arg0: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
    transform.foreach %0 : !transform.any_op {
    ^bb0(%arg1: !transform.any_op):
      %1, %loop = transform.structured.tile_using_for %arg1 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    }
    transform.yield
  }
}
