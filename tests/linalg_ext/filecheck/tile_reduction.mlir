// RUN: xjit-linalg %s --transform-dialect-interpreter --canonicalize --cse --split-input-file | FileCheck %s

// CHECK-DAG: #[[MIN:[a-z0-9]+]] = affine_map<(d0)[s0] -> (-(d0 * (s0 ceildiv 5)) + s0, s0 ceildiv 5)>
// CHECK-DAG: #[[MAX:.*]] = affine_map<(d0) -> (0, d0)>
// CHECK-DAG: #[[OFFSET:.*]] = affine_map<(d0)[s0] -> (d0 * (s0 ceildiv 5))>
// CHECK-LABEL: func.func @reduction_tile_parallel(
// CHECK: %[[FILL:.*]] = linalg.fill {{.*}} -> tensor<?x5xf32>
// CHECK: scf.forall (%[[I:.*]]) in (5) shared_outs(%[[OUT:.*]] = %[[FILL]])
// CHECK: %[[COLUMN:.*]] = tensor.extract_slice %[[OUT]][0, %[[I]]] [%{{.*}}, 1] [1, 1]
// CHECK: %[[SIZE:.*]] = affine.min #[[MIN]](%[[I]])[%[[N:.*]]]
// CHECK: %[[LEFT:.*]] = affine.max #[[MAX]](%[[SIZE]])
// CHECK: %[[AT:.*]] = affine.apply #[[OFFSET]](%[[I]])[%[[N]]]
// CHECK: tensor.extract_slice %arg0[0, %[[AT]]] [%{{.*}}, %[[LEFT]]] [1, 1]
// CHECK: %[[INIT:.*]] = tensor.extract_slice %[[COLUMN]][0] [%{{.*}}] [1] : tensor<?xf32> to tensor<?xf32>
// CHECK: linalg.generic {{.*}} outs(%[[INIT]]
func.func @reduction_tile_parallel(%arg0: tensor<?x?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %red = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
   iterator_types = ["parallel", "reduction"]}
   ins(%arg0 : tensor<?x?xf32>) outs(%out : tensor<?xf32>) {
    ^bb0(%arg7: f32, %arg9: f32):
      %1 = arith.mulf %arg7, %arg7 : f32
      %2 = arith.addf %1, %arg9 : f32
      linalg.yield %2 : f32
    } -> tensor<?xf32>
  return %red : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg1: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg1 : (!transform.any_op) -> !transform.any_op
  %1, %2, %3, %loop = transform.structured.tile_reduction_using_forall %0
    by num_threads = [0, 5], tile_sizes = [] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// CHECK-DAG: #[[OFFSET:.*]] = affine_map<(d0) -> (d0 * 3)>
// CHECK-DAG: #[[MIN:[a-z0-9]+]] = affine_map<(d0)[s0] -> (-d0 + s0, 3)>
// CHECK-LABEL: func.func @reduction_tile_parallel_cyclic_dist
// CHECK: scf.forall
// CHECK: %[[START:.*]] = affine.apply #[[OFFSET]]
// CHECK: scf.for %[[I:[a-z0-9]+]] = %[[START]] to %[[N:[a-z0-9_]+]] step
// CHECK: affine.min #[[MIN]](%[[I]])[%[[N]]]
// CHECK: {mapping = [#gpu.thread<x>]}
func.func @reduction_tile_parallel_cyclic_dist(%arg0: tensor<?x?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %red = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
   iterator_types = ["parallel", "reduction"]}
   ins(%arg0 : tensor<?x?xf32>) outs(%out : tensor<?xf32>) {
    ^bb0(%arg7: f32, %arg9: f32):
      %1 = arith.mulf %arg7, %arg7 : f32
      %2 = arith.addf %1, %arg9 : f32
      linalg.yield %2 : f32
    } -> tensor<?xf32>
  return %red : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg1: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg1 : (!transform.any_op) -> !transform.any_op
  %1, %2, %3, %loop = transform.structured.tile_reduction_using_forall %0
    by num_threads = [0, 5], tile_sizes = [0, 3], mapping = [#gpu.thread<x>] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// CHECK-DAG: #[[MIN:[a-z0-9]+]] = affine_map<(d0)[s0] -> (-d0 + s0, 5)>
// CHECK-LABEL: func.func @reduction_tile(
// CHECK: scf.for %[[I:[a-z0-9]+]] =
// CHECK: affine.min #[[MIN]](%[[I]])[%{{.*}}]
func.func @reduction_tile(%arg0: tensor<?x?xf32>, %out: tensor<?xf32>) -> tensor<?xf32> {
  %red = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
   iterator_types = ["parallel", "reduction"]}
   ins(%arg0 : tensor<?x?xf32>) outs(%out : tensor<?xf32>) {
    ^bb0(%arg7: f32, %arg9: f32):
      %1 = arith.mulf %arg7, %arg7 : f32
      %2 = arith.addf %1, %arg9 : f32
      linalg.yield %2 : f32
    } -> tensor<?xf32>
  return %red : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg1: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg1 : (!transform.any_op) -> !transform.any_op
  %1, %2, %3, %loop = transform.structured.tile_reduction_using_for %0 by tile_sizes = [0, 5] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}
