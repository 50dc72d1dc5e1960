// RUN: byteir-opt %s --linalg-generalization-ext --split-input-file | FileCheck %s

func.func @moves(%x: tensor<3x4xf32>, %t: tensor<4x3xf32>, %b: tensor<2x3x4xf32>) -> (tensor<4x3xf32>, tensor<2x3x4xf32>) {
  %0 = linalg.transpose ins(%x : tensor<3x4xf32>) outs(%t : tensor<4x3xf32>) permutation = [1, 0]
  %1 = linalg.broadcast ins(%x : tensor<3x4xf32>) outs(%b : tensor<2x3x4xf32>) dimensions = [0]
  return %0, %1 : tensor<4x3xf32>, tensor<2x3x4xf32>
}
// CHECK-DAG: #[[T:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[I:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func.func @moves
// CHECK: linalg.generic {indexing_maps = [#[[T]], #[[I]]], iterator_types = ["parallel", "parallel"]}
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: linalg.yield %[[IN]] : f32
// CHECK: linalg.generic {indexing_maps = [#[[B]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel"]}

// -----

func.func @sums(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>, %o: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3xf32>) {
  %0 = linalg.map { arith.mulf } ins(%x, %y : tensor<3x4xf32>, tensor<3x4xf32>) outs(%y : tensor<3x4xf32>)
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<3x4xf32>) outs(%o : tensor<3xf32>) dimensions = [1]
  return %0, %1 : tensor<3x4xf32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @sums
// CHECK-NOT: linalg.map
// CHECK: linalg.generic
// CHECK: arith.mulf
// CHECK-NOT: linalg.reduce
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: arith.addf
