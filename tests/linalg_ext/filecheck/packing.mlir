// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize --split-input-file | FileCheck %s

// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d2, d3, d5)>
// CHECK-DAG: #[[RIGHT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d1, d4, d5)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d4)>
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[A:.*]]: tensor<16x30xf32>, %[[B:.*]]: tensor<30x20xf32>, %[[C:.*]]: tensor<16x20xf32>)
// CHECK: %[[P:.*]] = tensor.pack %[[A]] padding_value(%{{.*}} : f32) inner_dims_pos = [0, 1] inner_tiles = [4, 8] into %{{.*}} : tensor<16x30xf32> -> tensor<4x4x4x8xf32>
// CHECK: %[[Q:.*]] = tensor.pack %[[B]] padding_value(%{{.*}} : f32) inner_dims_pos = [1, 0] inner_tiles = [5, 8] into %{{.*}} : tensor<30x20xf32> -> tensor<4x4x5x8xf32>
// CHECK: %[[R:.*]] = tensor.pack %[[C]] inner_dims_pos = [0, 1] inner_tiles = [4, 5] into %{{.*}} : tensor<16x20xf32> -> tensor<4x4x4x5xf32>
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[LEFT]], #[[RIGHT]], #[[RESULT]]], iterator_types = ["parallel", "parallel", "reduction", "parallel", "parallel", "reduction"]}
// CHECK-SAME: ins(%[[P]], %[[Q]] : {{.*}}) outs(%[[R]] : {{.*}})
// CHECK: tensor.unpack %[[S]] inner_dims_pos = [0, 1] inner_tiles = [4, 5] into %[[C]] : tensor<4x4x4x5xf32> -> tensor<16x20xf32>
func.func @product(%a: tensor<16x30xf32>, %b: tensor<30x20xf32>, %c: tensor<16x20xf32>) -> tensor<16x20xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<16x30xf32>, tensor<30x20xf32>) outs(%c : tensor<16x20xf32>) -> tensor<16x20xf32>
  return %0 : tensor<16x20xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.pack %0 packed_sizes = [4, 5, 8] : (!transform.any_op) -> !transform.op<"linalg.generic">
}

// -----

// CHECK-LABEL: func.func @steps
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0, 1], [2, 3]] output_shape [2, 8, 1, 32] : tensor<16x32xf32> into tensor<2x8x1x32xf32>
// CHECK: linalg.transpose ins(%{{.*}} : tensor<2x8x1x32xf32>) outs(%{{.*}} : tensor<2x1x32x8xf32>) permutation = [0, 2, 3, 1]
// CHECK: tensor.pad %{{.*}} low[0, 0] high[0, 12]
// CHECK: linalg.transpose ins(%{{.*}} : tensor<1x32x2x16xf32>) outs(%{{.*}} : tensor<2x1x16x32xf32>) permutation = [2, 0, 3, 1]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "reduction", "parallel", "parallel"]
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[J:.*]] = tensor.collapse_shape %[[T]] {{\[}}[0, 1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<16x32xf32>
// CHECK: %[[E:.*]] = tensor.extract_slice %[[J]][0, 0] [16, 20] [1, 1]
// CHECK: linalg.copy ins(%[[E]] : tensor<16x20xf32>)
func.func @steps(%a: tensor<16x32xf32>, %b: tensor<32x20xf32>, %c: tensor<16x20xf32>) -> tensor<16x20xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<16x32xf32>, tensor<32x20xf32>) outs(%c : tensor<16x20xf32>) -> tensor<16x20xf32>
  return %0 : tensor<16x20xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.pack_greedily %0 matmul_packed_sizes = [8, 16, 32] matmul_inner_dims_order = [1, 2, 0]
    : (!transform.any_op) -> !transform.op<"linalg.generic">
  %2 = transform.get_producer_of_operand %1[1] : (!transform.op<"linalg.generic">) -> !transform.op<"tensor.pack">
  %3, %4, %5 = transform.structured.pack_transpose %2 with_compute_op(%1) outer_perm = [1, 0] inner_perm = [1, 0]
    : (!transform.op<"tensor.pack">, !transform.op<"linalg.generic">) -> (!transform.any_op, !transform.any_op, !transform.any_op)
  %6 = transform.structured.match ops{["tensor.pack"]} in %arg0 : (!transform.any_op) -> !transform.op<"tensor.pack">
  transform.structured.lower_pack %6 : (!transform.op<"tensor.pack">)
    -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
  %10 = transform.structured.match ops{["tensor.unpack"]} in %arg0 : (!transform.any_op) -> !transform.op<"tensor.unpack">
  transform.structured.lower_unpack %10 : (!transform.op<"tensor.unpack">) -> (!transform.op<"tensor.empty">,
    !transform.op<"linalg.transpose">, !transform.op<"tensor.collapse_shape">, !transform.op<"tensor.extract_slice">)
}

// -----

// The tiles of a product are unpacked, and packed again, in the loops over tiles.
// CHECK-LABEL: func.func @fused
// CHECK: scf.for %{{.*}} = %c0 to %c15 step %c8
// CHECK: scf.for %{{.*}} = %c0 to %c30 step %c8
// CHECK: %[[P:.*]] = linalg.pack %{{.*}} padding_value(%{{.*}} : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 4] into %{{.*}} : tensor<?x?xf32> -> tensor<?x?x8x4xf32>
// CHECK: linalg.unpack %[[P]] outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 4] into %{{.*}} : tensor<?x?x8x4xf32> -> tensor<?x?xf32>
// CHECK: tensor.insert_slice
func.func @fused(%a: tensor<15x30xf32>, %b: tensor<4x4x8x4xf32>, %p: f32, %c: tensor<15x30xf32>) -> tensor<15x30xf32> {
  %0 = linalg.pack %a padding_value(%p : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 4] into %b : tensor<15x30xf32> -> tensor<4x4x8x4xf32>
  %1 = linalg.unpack %0 outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [8, 4] into %c : tensor<4x4x8x4xf32> -> tensor<15x30xf32>
  return %1 : tensor<15x30xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.unpack"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1, %2:2 = transform.structured.fuse_ext %0 {tile_sizes = [8, 8], tile_interchange = []} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
}
