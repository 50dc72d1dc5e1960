// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @old_threads
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
// CHECK: tensor.parallel_insert_slice
// CHECK: {the_loop}
func.func @old_threads(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %loop, %tiled = transform.structured.tile_to_forall_op %0 num_threads [6, 3]
  transform.annotate %loop "the_loop" : !pdl.operation
}

// -----

// CHECK-LABEL: func.func @old_sizes
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
// CHECK: tensor.parallel_insert_slice
// CHECK: mapping = [#gpu.thread<y>, #gpu.thread<x>]
func.func @old_sizes(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %1:2 = transform.structured.tile_to_forall_op %0 tile_sizes [4, 6] (mapping = [#gpu.thread<y>, #gpu.thread<x>])
}

// -----

// CHECK-LABEL: func.func @oldest_name
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: the_loop
func.func @oldest_name(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %0 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!pdl.operation) -> !pdl.operation
  %loop, %tiled = transform.structured.tile_to_foreach_thread_op %0 num_threads [6, 3]
  transform.annotate %loop "the_loop" : !pdl.operation
}

// -----

// CHECK-LABEL: func.func @threads
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
// CHECK: tensor.parallel_insert_slice
// CHECK: {the_loop}
module attributes {transform.with_named_sequence} {
  func.func @threads(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_forall %0 num_threads [6, 3] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop "the_loop" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @sizes_and_mapping
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
// CHECK: tensor.parallel_insert_slice
// CHECK: mapping = [#gpu.block<y>, #gpu.block<x>]
module attributes {transform.with_named_sequence} {
  func.func @sizes_and_mapping(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_forall %0 tile_sizes [4, 6] ( mapping = [#gpu.block<y>, #gpu.block<x>] ) : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @sizes_by_parameter
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (6, 3) shared_outs
// CHECK: linalg.matmul ins({{.*}} : tensor<4x30xf32>, tensor<30x6xf32>)
// CHECK: tensor.parallel_insert_slice
module attributes {transform.with_named_sequence} {
  func.func @sizes_by_parameter(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %size = transform.param.constant 6 : i64 -> !transform.param<i64>
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_forall %0 tile_sizes [4, %size] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @into_old_loop
// CHECK: scf.forall
// CHECK:   linalg.exp {first} ins({{.*}} : tensor<8x18xf32>)
// CHECK:   linalg.log {last} ins({{.*}} : tensor<8x18xf32>)
// CHECK-NOT: linalg.exp
func.func @into_old_loop(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match attributes{first} in %root : (!pdl.operation) -> !pdl.operation
  %1 = transform.structured.match attributes{last} in %root : (!pdl.operation) -> !pdl.operation
  %loop, %tiled = transform.structured.tile_to_forall_op %1 tile_sizes [8]
  %fused = transform.structured.fuse_into_containing_op %0 into %loop
}

// -----

// CHECK-LABEL: func.func @into_loop
// CHECK: scf.forall
// CHECK:   linalg.exp {first, fused} ins({{.*}} : tensor<8x18xf32>)
// CHECK:   linalg.log {last} ins({{.*}} : tensor<8x18xf32>)
// CHECK-NOT: linalg.exp
module attributes {transform.with_named_sequence} {
  func.func @into_loop(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match attributes{first} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_forall %1 tile_sizes [8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %fused, %around = transform.structured.fuse_into_containing_op %0 into %loop : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %fused "fused" : !transform.any_op
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @into_scf_for
// CHECK: scf.for
// CHECK:   linalg.exp {first} ins({{.*}} : tensor<8x18xf32>)
// CHECK:   linalg.log {last}
module attributes {transform.with_named_sequence} {
  func.func @into_scf_for(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match attributes{first} in %root : (!transform.any_op) -> !transform.any_op
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %loop = transform.structured.tile_using_for %1 tile_sizes [8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %fused, %around = transform.structured.fuse_into_containing_op %0 into %loop : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
