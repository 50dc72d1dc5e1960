// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @coalesce
// CHECK: scf.for %[[I:.*]] = %c0 to %c18 step %c1
// CHECK-DAG: affine.apply #{{.*}}(%[[I]])
// CHECK-NOT: scf.for
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
module attributes {transform.with_named_sequence} {
  func.func @coalesce(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [4, 6] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %2 = transform.loop.coalesce %loops#0 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @scalarize
// CHECK: linalg.exp
// CHECK: scf.for
// CHECK:   scf.for
// CHECK:     linalg.log {last} ins({{.*}} : tensor<1x1xf32>)
module attributes {transform.with_named_sequence} {
  func.func @scalarize(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %2 = transform.structured.scalarize %1 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @decompose_softmax
// CHECK-DAG: arith.constant 0xFF800000 : f32
// CHECK: linalg.generic
// CHECK: arith.maxnumf
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK-NEXT: math.exp
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.divf
module attributes {transform.with_named_sequence} {
  func.func @decompose_softmax(%a: tensor<4x?x8xf32>, %o: tensor<4x?x8xf32>) -> tensor<4x?x8xf32> {
    %0 = linalg.softmax dimension(2) ins(%a : tensor<4x?x8xf32>) outs(%o : tensor<4x?x8xf32>) -> tensor<4x?x8xf32>
    return %0 : tensor<4x?x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.softmax"]} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.structured.decompose_interface %0 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @pad_tiles
// CHECK: tensor.pad
// CHECK: linalg.matmul ins({{.*}} : tensor<5x30xf32>, tensor<30x7xf32>)
// CHECK-NOT: linalg.copy
// CHECK: tensor.insert_slice
module attributes {transform.with_named_sequence} {
  func.func @pad_tiles(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [5, 7, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %padded, %pads, %copies = transform.structured.pad %1 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @pad_to_multiples
// CHECK: linalg.matmul ins({{.*}} : tensor<8x32xf32>, tensor<32x8xf32>)
module attributes {transform.with_named_sequence} {
  func.func @pad_to_multiples(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [5, 7, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %padded, %pads, %copies = transform.structured.pad %1 pad_to_multiple_of [4, 4, 16] {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2]} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @pad_and_copy
// CHECK: linalg.matmul ins({{.*}} : tensor<5x30xf32>, tensor<30x7xf32>)
// CHECK: linalg.copy {{{ *}}copied{{ *}}}
module attributes {transform.with_named_sequence} {
  func.func @pad_and_copy(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [5, 7, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %padded, %pads, %copies = transform.structured.pad %1 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], copy_back_op = "linalg.copy"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %copies "copied" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @pad_and_materialize
// CHECK: linalg.matmul ins({{.*}} : tensor<5x30xf32>, tensor<30x7xf32>)
// CHECK: bufferization.materialize_in_destination %{{.*}} in %{{.*}} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
module attributes {transform.with_named_sequence} {
  func.func @pad_and_materialize(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1, %loops:2 = transform.structured.tile_using_for %0 tile_sizes [5, 7, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %padded, %pads, %copies = transform.structured.pad %1 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], copy_back_op = "bufferization.materialize_in_destination"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @copy_slices
// CHECK: scf.for
// CHECK: linalg.copy
// CHECK: tensor.insert_slice
module attributes {transform.with_named_sequence} {
  func.func @copy_slices(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %2, %loop = transform.structured.tile_using_for %1 tile_sizes [8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %3 = transform.structured.match ops{["tensor.insert_slice"]} in %root : (!transform.any_op) -> !transform.any_op
    %4 = transform.structured.insert_slice_to_copy_ext %3 : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
