// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @operand_types
// CHECK: linalg.exp {first, hit}
// CHECK: linalg.log {hit, last}
module attributes {transform.with_named_sequence} {
  func.func @operand_types(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match interface{LinalgOp} filter_operand_types = [tensor<24x18xf32>] in %root : (!transform.any_op) -> !transform.any_op
    transform.annotate %0 "hit" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @operand_types_of_each
// CHECK: linalg.matmul {hit}
module attributes {transform.with_named_sequence} {
  func.func @operand_types_of_each(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match filter_operand_types = [tensor<24x30xf32>, tensor<30x18xf32>, tensor<24x18xf32>] in %root : (!transform.any_op) -> !transform.any_op
    transform.annotate %0 "hit" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @closest_isolated_parent
// CHECK: attributes {around}
func.func @closest_isolated_parent(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1 = transform.get_closest_isolated_parent %0 : (!pdl.operation) -> !pdl.operation
  transform.annotate %1 "around" : !pdl.operation
}

// -----

// CHECK-LABEL: func.func @pass_by_name
// CHECK-NOT: arith.addf %[[A:.*]], %[[A]]
// CHECK: return
module attributes {transform.with_named_sequence} {
  func.func @pass_by_name(%a: tensor<12x40xf32>, %o: tensor<12x40xf32>) -> tensor<12x40xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12x40xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12x40xf32>
    return %0 : tensor<12x40xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.apply_registered_pass "linalg-fuse-elementwise-ext" with options = "shared-input" to %0 : (!transform.any_op) -> !transform.any_op
    %2 = transform.apply_registered_pass "linalg-fuse-elementwise-ext" with options = {"shared-input" = true} to %1 : (!transform.any_op) -> !transform.any_op
    %3 = transform.apply_registered_pass "linalg-fuse-elementwise-ext" to %2 {options = "diff-shapes=false"} : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @flatten_results
// CHECK: linalg.exp {first, hit, twice}
// CHECK: linalg.log {last}
module attributes {transform.with_named_sequence} {
  func.func @flatten_results(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @is_exp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.exp"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.annotate %op "hit" : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.consumed}) {
    %0, %1 = transform.foreach_match flatten_results in %root @is_exp -> @mark : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %1 "twice" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @restrict_root
// CHECK: linalg.exp {first, hit}
// CHECK: linalg.log {last}
module attributes {transform.with_named_sequence} {
  func.func @restrict_root(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @is_exp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.exp"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.annotate %op "hit" : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.consumed}) {
    %all = transform.structured.match interface{LinalgOp} in %root : (!transform.any_op) -> !transform.any_op
    %0, %1 = transform.foreach_match restrict_root flatten_results in %all @is_exp -> @mark : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @restricted_to_the_module
// CHECK: linalg.exp {first} ins
// CHECK: linalg.log {last}
module attributes {transform.with_named_sequence} {
  func.func @restricted_to_the_module(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @is_exp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["linalg.exp"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.annotate %op "hit" : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.consumed}) {
    %0, %1 = transform.foreach_match restrict_root in %root @is_exp -> @mark : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
