// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file --verify-diagnostics --allow-unregistered-dialect

func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{cannot be tiled}}
  %1, %loop = transform.structured.tile_ext %0 [4]
}

// -----

func.func @consumed(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_ext %0 [4]
  // expected-error @+1 {{uses a handle that 'transform.structured.tile_ext' (line 22) has consumed}}
  %2, %loop2 = transform.structured.tile_ext %0 [2]
}

// -----

func.func @suppressed(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
transform.sequence failures(suppress) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_ext %0 [4]
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  // expected-error @below {{unknown transform operation 'transform.structured.vectorize'}}
  %1 = "transform.structured.vectorize"(%arg0) : (!pdl.operation) -> !pdl.operation
}

// -----

func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = linalg.exp ins(%a : tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{'linalg.exp' op has a size without a known bound: it cannot be padded}}
  %1 = transform.structured.pad %0 {padding_dimensions = [0]} : (!transform.any_op) -> !transform.any_op
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{'linalg.exp' op has 1 loops, found dimension 1}}
  %1 = transform.structured.split %0 after 2 {dimension = 1 : i64} : !transform.any_op
}

// -----

func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%b : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1, %loop = transform.structured.tile_using_for %0 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  // expected-error @below {{failed to peel: the steps divide the loop}}
  %2, %3 = transform.loop.peel %loop : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{all alternatives failed}}
  transform.alternatives %0 : !transform.any_op {
  ^bb0(%arg1: !transform.any_op):
    %1 = transform.structured.match ops{["func.return"]} in %arg1 : (!transform.any_op) -> !transform.any_op
    %2, %loop = transform.structured.tile_using_for %1 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  // expected-error @below {{unknown pass "no-such-pass"}}
  %0 = transform.apply_registered_pass "no-such-pass" to %arg0 : (!transform.any_op) -> !transform.any_op
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.param.constant 6 : i64 -> !transform.param<i64>
  // expected-error @below {{'transform.apply_cse' op expects a handle of operations}}
  transform.apply_cse to %0 : !transform.param<i64>
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.get_operand %0[0] : (!transform.any_op) -> !transform.any_value
  // expected-error @below {{cannot get defining ops of block argument}}
  %2 = transform.get_defining_op %1 : (!transform.any_value) -> !transform.any_op
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{expects 'nth_parent' to be 1 or more, found 0}}
  %1 = transform.get_parent_op %0 {nth_parent = 0 : i64} : (!transform.any_op) -> !transform.any_op
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{expects 'num_loops' to be 1 or more, found 0}}
  %1 = transform.loop.get_parent_for %0 {num_loops = 0 : i64} : (!transform.any_op) -> !transform.any_op
}

// -----

func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  // expected-error @below {{cannot be split behind -3 iterations}}
  %1, %2 = transform.structured.split %0 after -3 {dimension = 0} : !transform.any_op
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @again(%arg0: !transform.any_op {transform.readonly}) {
    // expected-error @below {{runs a sequence inside of itself}}
    transform.include @again failures(propagate) (%arg0) : (!transform.any_op) -> ()
    transform.yield
  }
  transform.sequence failures(propagate) {
  ^bb0(%arg0: !transform.any_op):
    transform.include @again failures(propagate) (%arg0) : (!transform.any_op) -> ()
  }
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  // expected-error @below {{'transform.structured.match' op has attribute 'interface' = 7 : i32}}
  %0 = "transform.structured.match"(%arg0) {interface = 7 : i32} : (!transform.any_op) -> !transform.any_op
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  // expected-error @below {{expected 'LinalgOp' or 'TilingInterface' or 'LoopLikeInterface', found 'Foo'}}
  %0 = transform.structured.match interface{Foo} in %arg0 : (!transform.any_op) -> !transform.any_op
}

// -----

// expected-error @below {{expected 'propagate' or 'suppress', found 'ignore'}}
transform.sequence failures(ignore) {
^bb0(%arg0: !transform.any_op):
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.elemwise_unary ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{only TilingInterface ops are supported}}
  %1, %loops = transform.structured.fuse_ext %0 {tile_sizes = [2], tile_interchange = []}
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.elemwise_unary ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.elemwise_unary"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{expects interchange to be a permutation, found [2, 1]}}
  %1, %loops:2 = transform.structured.fuse_ext %0 {tile_sizes = [2, 2], tile_interchange = [2, 1]}
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.elemwise_unary ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = linalg.elemwise_unary ins(%0 : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.elemwise_unary"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{only support one target payload operation when using stop operands}}
  %1, %loops = transform.structured.fuse_ext %0, %0 {tile_sizes = [2], tile_interchange = []}
}

// -----

func.func private @outside(%a: tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = call @outside(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.call"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{inline transformation should be applied on non-external function}}
  transform.structured.inline %0
}

// -----

func.func @main(%i: tensor<16x32xf32>, %a: tensor<16xf32>) -> tensor<16x32xf32> {
  %0:4 = linalg_ext.softmax dimension(1) ins(%i : tensor<16x32xf32>) outs(%i, %a, %a, %a : tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) : tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
  return %0#0 : tensor<16x32xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg_ext.softmax"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{unsupported tiling dim at}}
  %1, %loops = transform.structured.tile_ext %0 [0, 8]
}

// -----

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.elemwise_unary ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.elemwise_unary"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{failed to detensorize op}}
  transform.structured.detensorize %0
}
