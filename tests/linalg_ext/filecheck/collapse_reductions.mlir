// RUN: byteir-opt %s --linalg-collapse-loops="iterator-type=reduction" | FileCheck %s --check-prefixes=BOTH,REDUCTION
// RUN: byteir-opt %s --linalg-collapse-loops="iterator-type=parallel" | FileCheck %s --check-prefixes=BOTH,PARALLEL
// RUN: byteir-opt %s --pass-pipeline="builtin.module(func.func(linalg-collapse-loops{iterator-type=reduction}, canonicalize), cse)" | FileCheck %s --check-prefixes=BOTH,REDUCTION

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#kept = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
func.func @sums(%x: tensor<2x3x4x?xf32>, %o: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = linalg.generic {indexing_maps = [#map, #kept], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%x : tensor<2x3x4x?xf32>) outs(%o : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %out, %in : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
// BOTH-LABEL: func.func @sums
// REDUCTION: tensor.collapse_shape %{{.*}} {{\[}}[0], [1], [2, 3]] : tensor<2x3x4x?xf32> into tensor<2x3x?xf32>
// REDUCTION: iterator_types = ["parallel", "parallel", "reduction"]
// PARALLEL: tensor.collapse_shape %{{.*}} {{\[}}[0, 1], [2], [3]] : tensor<2x3x4x?xf32> into tensor<6x4x?xf32>
// PARALLEL: iterator_types = ["parallel", "reduction", "reduction"]
