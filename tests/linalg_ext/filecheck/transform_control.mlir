// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @first_that_succeeds
// CHECK: scf.for
// CHECK:   linalg.exp
func.func @first_that_succeeds(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%b : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // CHECK: transform.sequence
  // CHECK: alternatives %{{.*}} : !transform.any_op {
  transform.alternatives %0 : !transform.any_op {
  ^bb0(%arg1: !transform.any_op):
    %1 = transform.structured.match ops{["linalg.exp"]} in %arg1 : (!transform.any_op) -> !transform.any_op
    %2, %loop:2 = transform.structured.tile_using_for %1 tile_sizes [4, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  // CHECK: }, {
  }, {
  ^bb0(%arg1: !transform.any_op):
    %1 = transform.structured.match ops{["linalg.exp"]} in %arg1 : (!transform.any_op) -> !transform.any_op
    %2, %loop = transform.structured.tile_using_for %1 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

// CHECK-LABEL: func.func @matched
// CHECK: linalg.exp {is_exp = 7 : i64}
// CHECK: linalg.tanh {is_tanh}
// CHECK: linalg.exp {is_exp = 7 : i64}
module attributes {transform.with_named_sequence} {
  func.func @matched(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
    %1 = linalg.tanh ins(%0 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
    %2 = linalg.exp ins(%1 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
  transform.named_sequence @is_exp(%op: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.param<i64>) {
    transform.match.operation_name %op ["linalg.exp", "linalg.log"] : !transform.any_op
    %seven = transform.param.constant 7 : i64 -> !transform.param<i64>
    transform.yield %op, %seven : !transform.any_op, !transform.param<i64>
  }
  transform.named_sequence @is_tanh(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.tanh"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark_exp(%op: !transform.any_op {transform.readonly}, %n: !transform.param<i64> {transform.readonly}) {
    transform.annotate %op "is_exp" = %n : !transform.any_op, !transform.param<i64>
    transform.yield
  }
  transform.named_sequence @mark_tanh(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "is_tanh" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.consumed}) {
    // CHECK: foreach_match in %{{.*}} @is_exp -> @mark_exp, @is_tanh -> @mark_tanh : (!transform.any_op) -> !transform.any_op
    transform.foreach_match in %root @is_exp -> @mark_exp, @is_tanh -> @mark_tanh : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @neighbours
// CHECK: linalg.exp {producer}
// CHECK: linalg.log {middle}
// CHECK: linalg.tanh {consumer}
// CHECK: } {outer}
module attributes {transform.with_named_sequence} {
  func.func @neighbours(%a: tensor<8xf32>, %n: index) -> tensor<8xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (tensor<8xf32>) {
      %s = scf.for %j = %c0 to %n step %c1 iter_args(%y = %x) -> (tensor<8xf32>) {
        %0 = linalg.exp ins(%y : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
        %1 = linalg.log ins(%0 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
        %2 = linalg.tanh ins(%1 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
        scf.yield %2 : tensor<8xf32>
      }
      scf.yield %s : tensor<8xf32>
    }
    return %r : tensor<8xf32>
  }
  transform.named_sequence @marks(%op: !transform.any_op {transform.readonly}) {
    %0 = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value
    %1 = transform.get_defining_op %0 : (!transform.any_value) -> !transform.any_op
    transform.annotate %1 "producer" : !transform.any_op
    %2 = transform.get_result %op[all] : (!transform.any_op) -> !transform.any_value
    %3 = transform.get_defining_op %2 : (!transform.any_value) -> !transform.any_op
    transform.annotate %3 "middle" : !transform.any_op
    %4 = transform.get_consumers_of_result %op[0] : (!transform.any_op) -> !transform.any_op
    transform.annotate %4 "consumer" : !transform.any_op
    %5 = transform.get_parent_op %op {op_name = "scf.for", nth_parent = 2 : i64} : (!transform.any_op) -> !transform.any_op
    transform.annotate %5 "outer" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match interface{LinalgOp} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.select "linalg.log" in %0 : (!transform.any_op) -> !transform.any_op
    %one = transform.param.constant 1 : i64 -> !transform.param<i64>
    %n = transform.num_associations %1 : (!transform.any_op) -> !transform.param<i64>
    transform.match.param.cmpi eq %n, %one : !transform.param<i64>
    // CHECK: get_operand
    // CHECK: include @marks failures(propagate)
    transform.include @marks failures(propagate) (%1) : (!transform.any_op) -> ()
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @pass
// CHECK-NEXT: return %arg0
func.func @pass(%a: index) -> index {
  %c0 = arith.constant 0 : index
  %0 = arith.addi %a, %c0 : index
  return %0 : index
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.apply_registered_pass "canonicalize" to %0 : (!transform.any_op) -> !transform.any_op
  transform.verify %1 : !transform.any_op
}
