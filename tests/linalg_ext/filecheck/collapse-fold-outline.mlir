// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @collapse(%x: tensor<2x3x4xf32>, %o: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x : tensor<2x3x4xf32>) outs(%o : tensor<2x3xf32>) attrs = {__root__} {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %out, %in : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match attributes {__root__} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1 = transform.structured.collapse_dims %0 [[0, 1], [2]]
}
// CHECK-LABEL: func.func @collapse
// CHECK: tensor.collapse_shape %{{.*}} {{\[}}[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#zero = affine_map<(d0, d1) -> (0, d0, 0)>
func.func @unit(%x: tensor<1x3x1xf32>, %o: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %r = linalg.generic {indexing_maps = [#zero, #map], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<1x3x1xf32>) outs(%o : tensor<3x4xf32>) attrs = {__root__} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match attributes {__root__} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1 = transform.structured.fold_unit_extent_dims %0
}
// CHECK-LABEL: func.func @unit
// CHECK: %[[C:.*]] = tensor.collapse_shape %{{.*}} {{\[}}[0, 1, 2]] : tensor<1x3x1xf32> into tensor<3xf32>
// CHECK: linalg.generic {{.*}} ins(%[[C]] : tensor<3xf32>)
