// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file --canonicalize --cse | FileCheck %s

func.func @two_sizes(%a: tensor<200xf32>, %b: tensor<200xf32>) -> tensor<200xf32> {
  %0 = linalg.exp ins(%a : tensor<200xf32>) outs(%b : tensor<200xf32>) -> tensor<200xf32>
  return %0 : tensor<200xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %s:3 = transform.structured.multitile_sizes %0 {dimension = 0, target_size = 30, divisor = 4} : (!transform.any_op) -> !transform.any_op
  %p:2 = transform.structured.split %0 after %s#2 {dimension = 0} : !transform.any_op, !transform.any_op
  %t, %l = transform.structured.tile_using_for %p#0 tile_sizes [%s#0] : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  %u, %m = transform.structured.tile_using_for %p#1 tile_sizes [%s#1] : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}
// CHECK-LABEL: func.func @two_sizes
// CHECK-DAG: %[[HIGH:.*]] = arith.constant 28 : index
// CHECK-DAG: %[[LOW:.*]] = arith.constant 24 : index
// CHECK: scf.for {{.*}} step %[[LOW]]
// CHECK: scf.for {{.*}} step %[[HIGH]]

// -----

func.func @as_parameters(%a: tensor<100xf32>, %b: tensor<100xf32>) -> tensor<100xf32> {
  %0 = linalg.exp ins(%a : tensor<100xf32>) outs(%b : tensor<100xf32>) -> tensor<100xf32>
  return %0 : tensor<100xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %low, %high, %point = transform.structured.multitile_sizes %0 {dimension = 0, target_size = 30} : (!transform.any_op) -> !transform.param<i64>
  %t, %l = transform.structured.tile_using_for %0 tile_sizes [%low] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
}
// CHECK-LABEL: func.func @as_parameters
// CHECK: %[[LOW:.*]] = arith.constant 25 : index
// CHECK: scf.for {{.*}} step %[[LOW]]
// CHECK: transform.structured.multitile_sizes {{.*}} : (!transform.any_op) -> !transform.param<i64>

// -----

func.func @in_order(%a: tensor<100x32xf32>, %b: tensor<100x32xf32>) -> tensor<100x32xf32> {
  %0 = linalg.exp ins(%a : tensor<100x32xf32>) outs(%b : tensor<100x32xf32>) -> tensor<100x32xf32>
  return %0 : tensor<100x32xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %t, %l = transform.structured.tile_using_forall %0 tile_sizes [10, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %m:2 = transform.loop.forall_to_for %l : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %e = transform.structured.flatten_elementwise %t : (!transform.any_op) -> !transform.any_op
  transform.loop.outline %m#0 {func_name = "foo"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
}
// CHECK: func.func private @foo
// CHECK: scf.for
// CHECK-NEXT: scf.for
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<80xf32>)
// CHECK-LABEL: func.func @in_order
// CHECK: scf.execute_region
// CHECK: func.call @foo

// -----

func.func @near(%a: memref<100x32xf32>, %b: memref<100x32xf32>) {
  linalg.exp ins(%a : memref<100x32xf32>) outs(%b : memref<100x32xf32>)
  return
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %t, %l = transform.structured.tile_using_for %0 tile_sizes [10] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %e = transform.structured.promote %t {operands_to_promote = [0], memory_space = 3} : (!transform.any_op) -> !transform.any_op
}
// CHECK-LABEL: func.func @near
// CHECK: scf.for
// CHECK: %[[NEAR:.*]] = memref.alloc() : memref<10x32xf32, 3>
// CHECK: linalg.copy {{.*}} outs(%[[NEAR]]
// CHECK: linalg.exp ins(%[[NEAR]]

// -----

func.func @script_in_a_module(%a: tensor<1x8x1xf32>, %b: tensor<1x8x1xf32>) -> tensor<1x8x1xf32> {
  %0 = linalg.generic {
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%a : tensor<1x8x1xf32>) outs(%b : tensor<1x8x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<1x8x1xf32>
  return %0 : tensor<1x8x1xf32>
}
module attributes {transform.with_named_sequence} {
  transform.named_sequence @fold(%arg0: !transform.any_op {transform.readonly}) {
    transform.apply_patterns to %arg0 {
      transform.apply_patterns.linalg.fold_unit_extent_dims_via_reshapes
    } : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%arg0: !transform.any_op {transform.readonly}) {
    %0 = transform.structured.match ops{["func.func"]} in %arg0 : (!transform.any_op) -> !transform.any_op
    transform.include @fold failures(propagate) (%0) : (!transform.any_op) -> ()
    %1 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!transform.any_op) -> !transform.any_op
    %2, %3 = transform.structured.tile_using_for %1 tile_sizes [4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
// CHECK-LABEL: func.func @script_in_a_module
// CHECK: tensor.collapse_shape {{.*}} : tensor<1x8x1xf32> into tensor<8xf32>
// CHECK: scf.for
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]} ins({{.*}} : tensor<4xf32>)
// CHECK: tensor.expand_shape

// -----

// The tile of the result does not move with the inner loop, which carries it instead of all of the result. The handle of
// the loop stands for the one that there is then.
// CHECK-LABEL: func.func @hoisted
// CHECK: %[[R:.*]] = scf.for %[[I:.*]] = %c0 to %c128 step %c4 iter_args(%[[C:.*]] = %arg2)
// CHECK:   %[[T:.*]] = tensor.extract_slice %[[C]][%[[I]], 0] [4, 128] [1, 1]
// CHECK:   %[[S:.*]] = scf.for %{{.*}} = %c0 to %c128 step %c8 iter_args(%[[X:.*]] = %[[T]]) -> (tensor<4x128xf32>) {
// CHECK:     %[[M:.*]] = linalg.matmul {{.*}} outs(%[[X]] : tensor<4x128xf32>)
// CHECK-NEXT: scf.yield %[[M]]
// CHECK:   } {inner}
// CHECK:   tensor.insert_slice %[[S]] into %[[C]][%[[I]], 0] [4, 128] [1, 1]
func.func @hoisted(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>, %c: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<128x128xf32>, tensor<128x128xf32>) outs(%c : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1, %2:2 = transform.structured.tile_using_for %0 tile_sizes [4, 0, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  transform.loop.hoist_loop_invariant_subsets %2#1 : !transform.any_op
  transform.annotate %2#1 "inner" : !transform.any_op
}

// -----

// Tiles of 9, then of 4, 2 and 1: all of them full.
// CHECK-LABEL: func.func @falling
// CHECK: scf.for %{{.*}} = %c0 to %c18 step %c9
// CHECK:   linalg.matmul {{.*}} outs(%{{.*}} : tensor<9x25xf32>)
// CHECK: linalg.matmul {{.*}} outs(%{{.*}} : tensor<4x25xf32>)
// CHECK: linalg.matmul {{.*}} outs(%{{.*}} : tensor<2x25xf32>)
// CHECK: linalg.matmul {{.*}} outs(%{{.*}} : tensor<1x25xf32>)
// CHECK-NOT: linalg.matmul
// CHECK: return
func.func @falling(%a: tensor<25x34xf32>, %b: tensor<34x25xf32>, %c: tensor<25x25xf32>) -> tensor<25x25xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<25x34xf32>, tensor<34x25xf32>) outs(%c : tensor<25x25xf32>) -> tensor<25x25xf32>
  return %0 : tensor<25x25xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %sizes, %chunks = transform.structured.continuous_tile_sizes %0 {dimension = 0, target_size = 9} : (!transform.any_op) -> !transform.any_op
  %parts, %none = transform.structured.split %0 after %chunks {dimension = 0, multiway} : !transform.any_op, !transform.any_op
  transform.foreach %parts, %sizes with_zip_shortest : !transform.any_op, !transform.any_op {
  ^bb1(%part: !transform.any_op, %size: !transform.any_op):
    %1, %2 = transform.structured.tile_using_for %part tile_sizes [%size] : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}
