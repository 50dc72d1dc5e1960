// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @reduction_dictionary
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x8xf32>)
// CHECK: scf.for {{.*}} to %c40 step %c8
// CHECK:   linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<12x8xf32>) outs(%arg1 : tensor<12xf32>)
func.func @reduction_dictionary(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %1 = arith.addf %x, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!pdl.operation) -> !pdl.operation
  %init, %part, %whole, %loop = transform.structured.tile_reduction_using_scf %0 { tile_sizes = [0, 8] }
}

// -----

// CHECK-LABEL: func.func @reduction_scf
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x8xf32>)
// CHECK: scf.for {{.*}} to %c40 step %c8
// CHECK:   linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<12x8xf32>) outs(%arg1 : tensor<12xf32>)
func.func @reduction_scf(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %1 = arith.addf %x, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!pdl.operation) -> !pdl.operation
  %init, %part, %whole, %loop = transform.structured.tile_reduction_using_scf %0 by tile_sizes = [0, 8]
}

// -----

// CHECK-LABEL: func.func @reduction_for
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x8xf32>)
// CHECK: scf.for {{.*}} to %c40 step %c8
// CHECK:   linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<12x8xf32>) outs(%arg1 : tensor<12xf32>)
module attributes {transform.with_named_sequence} {
  func.func @reduction_for(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %init, %part, %whole, %loop = transform.structured.tile_reduction_using_for %0 by tile_sizes = [0, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @reduction_dims
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x8xf32>)
// CHECK: scf.for {{.*}} to %c40 step %c8
// CHECK:   linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<12x8xf32>) outs(%arg1 : tensor<12xf32>)
module attributes {transform.with_named_sequence} {
  func.func @reduction_dims(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %init, %part, %whole, %loop = transform.structured.tile_reduction_using_for %0 reduction_dims = [1] by tile_sizes = [0, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @reduction_forall
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x5xf32>)
// CHECK: scf.forall (%{{.*}}) in (5)
// CHECK: tensor.parallel_insert_slice {{.*}} : tensor<12xf32> into tensor<12x5xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<12x5xf32>) outs(%arg1 : tensor<12xf32>)
module attributes {transform.with_named_sequence} {
  func.func @reduction_forall(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %init, %part, %whole, %loop = transform.structured.tile_reduction_using_forall %0 by num_threads = [0, 5], tile_sizes = [] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @reduction_threads
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x5xf32>)
// CHECK: scf.forall (%{{.*}}) in (5)
// CHECK: tensor.parallel_insert_slice {{.*}} : tensor<12xf32> into tensor<12x5xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<12x5xf32>) outs(%arg1 : tensor<12xf32>)
func.func @reduction_threads(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %1 = arith.addf %x, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!pdl.operation) -> !pdl.operation
  %init, %part, %whole, %loop = transform.structured.tile_reduction_using_foreach_thread %0 by num_threads = [0, 5]
}

// -----

// CHECK-LABEL: func.func @reduction_forall_tiles
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<12x5xf32>)
// CHECK: scf.forall (%{{.*}}) in (5)
// CHECK: scf.for
// CHECK: tensor.parallel_insert_slice {{.*}} : tensor<12xf32> into tensor<12x5xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<12x5xf32>) outs(%arg1 : tensor<12xf32>)
module attributes {transform.with_named_sequence} {
  func.func @reduction_forall_tiles(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %init, %part, %whole, %loop = transform.structured.tile_reduction_using_forall %0 by num_threads = [0, 5], tile_sizes = [0, 3], mapping = [#gpu.thread<x>] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @split_outer
// CHECK: tensor.expand_shape %arg0 {{\[\[}}0], [1, 2]] output_shape [12, 4, 10]
// CHECK: tensor.empty() : tensor<4x12xf32>
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}} : tensor<12x4x10xf32>) outs(%{{.*}} : tensor<4x12xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%{{.*}} : tensor<4x12xf32>) outs(%arg1 : tensor<12xf32>)
module attributes {transform.with_named_sequence} {
  func.func @split_outer(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
    %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
    ^bb0(%x: f32, %sum: f32):
      %1 = arith.addf %x, %sum : f32
      linalg.yield %1 : f32
    } -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
    %1:4 = transform.structured.split_reduction %0 {split_factor = 4, insert_split_dimension = 0} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @split_inner
// CHECK: tensor.expand_shape {{.*}} output_shape [12, 10, 4]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}} : tensor<12x10x4xf32>) outs(%{{.*}} : tensor<12x4xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<12x4xf32>) outs(%arg1 : tensor<12xf32>)
func.func @split_inner(%a: tensor<12x40xf32>, %o: tensor<12xf32>) -> tensor<12xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<12x40xf32>) outs(%o : tensor<12xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %1 = arith.addf %x, %sum : f32
    linalg.yield %1 : f32
  } -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %root : (!pdl.operation) -> !pdl.operation
  %empty, %fill, %split, %merge = transform.structured.split_reduction %0 {split_factor = 4, insert_split_dimension = 1, inner_parallel}
}

// -----

// CHECK-LABEL: func.func @split_product
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<24x6x5xf32>, tensor<6x5x18xf32>) outs(%{{.*}} : tensor<24x18x6xf32>)
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<24x18x6xf32>) outs(%arg2 : tensor<24x18xf32>)
module attributes {transform.with_named_sequence} {
  func.func @split_product(%a: tensor<24x30xf32>, %b: tensor<30x18xf32>, %c: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<24x30xf32>, tensor<30x18xf32>) outs(%c : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %0 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %1:4 = transform.structured.split_reduction %0 {split_factor = 6, insert_split_dimension = 2} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}
