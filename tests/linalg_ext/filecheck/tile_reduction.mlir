// RUN: xjit-linalg %s --transform-dialect-interpreter --canonicalize --cse --split-input-file | FileCheck %s

// Six threads look for the peak of stereo signals: each has a share of the samples, and a slot of its own for what it found.
// A slot that no samples are left for keeps minus infinity.
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0)[s0] -> (-(d0 * (s0 ceildiv 6)) + s0, s0 ceildiv 6)>
// CHECK-DAG: #[[NONE:.*]] = affine_map<(d0) -> (0, d0)>
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0)[s0] -> (d0 * (s0 ceildiv 6))>
// CHECK-LABEL: func.func @peaks
// CHECK-SAME: %[[SIGNALS:[a-z0-9]+]]: tensor<?x2x?xf64>, %[[PEAKS:[a-z0-9]+]]: tensor<2x?xf64>
// CHECK-DAG: %[[LOWEST:.*]] = arith.constant 0xFFF0000000000000 : f64
// CHECK-DAG: %[[COUNT:.*]] = tensor.dim %[[SIGNALS]], %c0
// CHECK-DAG: %[[SAMPLES:.*]] = tensor.dim %[[SIGNALS]], %c2
// CHECK: %[[SLOTS:.*]] = linalg.fill ins(%[[LOWEST]] : f64) {{.*}} -> tensor<2x?x6xf64>
// CHECK: %[[FOUND:.*]] = scf.forall (%[[ID:.*]]) in (6) shared_outs(%[[ALL:.*]] = %[[SLOTS]])
// CHECK: %[[REST:.*]] = affine.min #[[LEFT]](%[[ID]])[%[[SAMPLES]]]
// CHECK: %[[LENGTH:.*]] = affine.max #[[NONE]](%[[REST]])
// CHECK: %[[SLOT:.*]] = tensor.extract_slice %[[ALL]][0, 0, %[[ID]]] [2, %[[COUNT]], 1] [1, 1, 1] : tensor<2x?x6xf64> to tensor<2x?xf64>
// CHECK: %[[AT:.*]] = affine.apply #[[FIRST]](%[[ID]])[%[[SAMPLES]]]
// CHECK: %[[SHARE:.*]] = tensor.extract_slice %[[SIGNALS]][0, 0, %[[AT]]] [%[[COUNT]], 2, %[[LENGTH]]] [1, 1, 1]
// CHECK: %[[PEAK:.*]] = linalg.generic {{.*}} ins(%[[SHARE]] : tensor<?x2x?xf64>)
// CHECK: tensor.parallel_insert_slice %[[PEAK]] into %[[ALL]][0, 0, %[[ID]]]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[FOUND]] : tensor<2x?x6xf64>) outs(%[[PEAKS]] :
// CHECK: arith.maximumf
// CHECK-NOT: math.absf
func.func @peaks(%signals: tensor<?x2x?xf64>, %peaks: tensor<2x?xf64>) -> tensor<2x?xf64> {
  %found = linalg.generic {indexing_maps = [affine_map<(number, side, time) -> (number, side, time)>,
                                            affine_map<(number, side, time) -> (side, number)>],
                           iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%signals : tensor<?x2x?xf64>) outs(%peaks : tensor<2x?xf64>) {
  ^bb0(%sample: f64, %peak: f64):
    %height = math.absf %sample : f64
    %higher = arith.maximumf %peak, %height : f64
    linalg.yield %higher : f64
  } -> tensor<2x?xf64>
  return %found : tensor<2x?xf64>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %search = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
  %start, %share, %merge, %threads = transform.structured.tile_reduction_using_forall %search
    by num_threads = [0, 0, 6], tile_sizes = []
    : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// The inner sum of a product in tiles of 4, which two threads take in turn. The mapping stays with the loop of threads.
// CHECK-DAG: #[[FIRST:.*]] = affine_map<()[s0] -> (s0 * 4)>
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0) -> (-d0 + 30, 4)>
// CHECK-LABEL: func.func @product_in_turns
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<5x30xf32>, %[[B:[a-z0-9]+]]: tensor<30x7xf32>, %[[SUM:[a-z0-9]+]]: tensor<5x7xf32>
// CHECK: %[[SLOTS:.*]] = linalg.fill {{.*}} -> tensor<5x7x2xf32>
// CHECK: %[[SUMS:.*]] = scf.forall (%[[ID:.*]]) in (2) shared_outs(%[[ALL:.*]] = %[[SLOTS]])
// CHECK: %[[SLOT:.*]] = tensor.extract_slice %[[ALL]][0, 0, %[[ID]]] [5, 7, 1]
// CHECK: %[[AT:.*]] = affine.apply #[[FIRST]]()[%[[ID]]]
// CHECK: %[[MINE:.*]] = scf.for %[[K:.*]] = %[[AT]] to %c30 step %c8 iter_args(%[[SO_FAR:.*]] = %[[SLOT]])
// CHECK: %[[N:.*]] = affine.min #[[LEFT]](%[[K]])
// CHECK-DAG: %[[ROWS:.*]] = tensor.extract_slice %[[A]][0, %[[K]]] [5, %[[N]]]
// CHECK-DAG: %[[COLUMNS:.*]] = tensor.extract_slice %[[B]][%[[K]], 0] [%[[N]], 7]
// CHECK: linalg.matmul ins(%[[ROWS]], %[[COLUMNS]] : {{.*}}) outs(%[[SO_FAR]] :
// CHECK: tensor.parallel_insert_slice %[[MINE]] into %[[ALL]][0, 0, %[[ID]]]
// CHECK: {mapping = [#gpu.block<y>]}
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : tensor<5x7x2xf32>) outs(%[[SUM]] :
func.func @product_in_turns(%left: tensor<5x30xf32>, %right: tensor<30x7xf32>, %sum: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %product = linalg.matmul ins(%left, %right : tensor<5x30xf32>, tensor<30x7xf32>) outs(%sum : tensor<5x7xf32>) -> tensor<5x7xf32>
  return %product : tensor<5x7xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %product = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
  %start, %tile, %merge, %threads = transform.structured.tile_reduction_using_forall %product
    by num_threads = [0, 0, 2], tile_sizes = [0, 0, 4], mapping = [#gpu.block<y>]
    : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// The rows of an image are added 16 at a time, to 16 sums for each column. The end of the image may be fewer rows.
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0)[s0] -> (-d0 + s0, 16)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @column_sums
// CHECK-SAME: %[[IMAGE:[a-z0-9]+]]: tensor<?x640xi32>, %[[SUMS:[a-z0-9]+]]: tensor<640xi32>
// CHECK: %[[HEIGHT:.*]] = tensor.dim %[[IMAGE]], %c0
// CHECK: %[[ZEROS:.*]] = linalg.fill ins(%c0_i32 : i32) {{.*}} -> tensor<640x16xi32>
// CHECK: %[[PARTS:.*]] = scf.for %[[ROW:.*]] = %c0 to %[[HEIGHT]] step %c16 iter_args(%[[SO_FAR:.*]] = %[[ZEROS]])
// CHECK: %[[N:.*]] = affine.min #[[LEFT]](%[[ROW]])[%[[HEIGHT]]]
// CHECK-DAG: %[[ROWS:.*]] = tensor.extract_slice %[[IMAGE]][%[[ROW]], 0] [%[[N]], 640]
// CHECK-DAG: %[[PART:.*]] = tensor.extract_slice %[[SO_FAR]][0, 0] [640, %[[N]]]
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[TURNED]]], iterator_types = ["parallel", "parallel"]} ins(%[[ROWS]] : {{.*}}) outs(%[[PART]] :
// CHECK: tensor.insert_slice %{{.*}} into %[[SO_FAR]][0, 0] [640, %[[N]]]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%[[PARTS]] : tensor<640x16xi32>) outs(%[[SUMS]] :
func.func @column_sums(%image: tensor<?x640xi32>, %sums: tensor<640xi32>) -> tensor<640xi32> {
  %added = linalg.reduce { arith.addi } ins(%image : tensor<?x640xi32>) outs(%sums : tensor<640xi32>) dimensions = [0]
  return %added : tensor<640xi32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %reduce = transform.structured.match ops{["linalg.reduce"]} in %root : (!transform.any_op) -> !transform.any_op
  %start, %rows, %merge, %loop = transform.structured.tile_reduction_using_for %reduce by tile_sizes = [16]
    : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
}
