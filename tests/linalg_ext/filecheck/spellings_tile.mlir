// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @tile_of_handles
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
func.func @tile_of_handles(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = transform.structured.tile %0 [4, 6]
}

// -----

// CHECK-LABEL: func.func @tile_without_types
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     scf.for
// CHECK:       linalg.matmul ins({{.*}} : tensor<4x5xf32>, tensor<5x6xf32>)
func.func @tile_without_types(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root
  %1, %loops:3 = transform.structured.tile %0 [4, 6, 5]
}

// -----

// CHECK-LABEL: func.func @tile_with_types
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
func.func @tile_with_types(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
  %1, %loops:2 = transform.structured.tile %0 [4, 6] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// CHECK-LABEL: func.func @tile_to_scf_for
// CHECK: scf.for {{.*}} to %c18
// CHECK:   scf.for {{.*}} to %c24
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul
func.func @tile_to_scf_for(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = transform.structured.tile_to_scf_for %0 [4, 6] {interchange = [1, 0]}
}

// -----

// CHECK-LABEL: func.func @tile_ext
// CHECK: scf.for {{.*}} to %c18
// CHECK:   scf.for {{.*}} to %c24
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul
func.func @tile_ext(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = transform.structured.tile_ext %0 [4, 6] {interchange = [1, 0]}
}

// -----

// CHECK-LABEL: func.func @tile_using_for
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
module attributes {transform.with_named_sequence} {
  func.func @tile_using_for(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0[4, 6] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @tile_using_for_sizes
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     scf.for
// CHECK:       linalg.matmul ins({{.*}} : tensor<4x5xf32>, tensor<5x6xf32>)
module attributes {transform.with_named_sequence} {
  func.func @tile_using_for_sizes(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %outer, %inner:2 = transform.structured.tile_using_for %0 tile_sizes [4, 6, 5] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @tile_using_for_order
// CHECK: scf.for {{.*}} to %c18
// CHECK:   scf.for {{.*}} to %c24
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul
module attributes {transform.with_named_sequence} {
  func.func @tile_using_for_order(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [4, 6] interchange = [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @tile_using_for_kinds
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
module attributes {transform.with_named_sequence} {
  func.func @tile_using_for_kinds(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.op<"linalg.matmul">
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [4, 6] : (!transform.op<"linalg.matmul">) -> (!transform.op<"linalg.matmul">, !transform.op<"scf.for">, !transform.op<"scf.for">)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @tile_by_parameter
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
module attributes {transform.with_named_sequence} {
  func.func @tile_by_parameter(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %size = transform.param.constant 4 : i64 -> !transform.param<i64>
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [%size, 6] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @short_names
// CHECK: scf.for {{.*}} step %c4
// CHECK:   scf.for {{.*}} step %c6
// CHECK-NOT: scf.for
// CHECK:     linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
func.func @short_names(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = structured.tile_ext %0 [4, 6]
}

// -----

// CHECK-LABEL: func.func @suppressed
// CHECK-NOT: scf.for
// CHECK: return
module attributes {transform.with_named_sequence} {
  func.func @suppressed(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.sequence %root : !transform.any_op failures(suppress) {
    ^bb0(%inner: !transform.any_op):
      %0 = transform.structured.match ops{["linalg.matmul"]} in %inner : (!transform.any_op) -> !transform.any_op
      %1, %loops:4 = transform.structured.tile_using_for %0 tile_sizes [4, 4, 4, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    }
    transform.yield
  }
}
