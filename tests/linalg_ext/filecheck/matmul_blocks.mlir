// RUN: byteir-opt %s --canonicalize-matmul-epilogue --canonicalize-ext --cse --split-input-file | FileCheck %s

#map = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0) -> (d0 * 4)>
func.func @epilogue(%a: tensor<8x6xf32>, %b: tensor<6x8xf32>, %bias: tensor<4x4xf32>) -> tensor<8x8xf32> attributes {__byteir_matmul_epilogue_fusion__} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %c2 = arith.constant 2 : index
  %empty = tensor.empty() : tensor<8x8xf32>
  %r = scf.forall (%i, %j) in (2, 2) shared_outs(%o = %empty) -> (tensor<8x8xf32>) {
    %x = affine.apply #row(%i)
    %y = affine.apply #row(%j)
    %part = tensor.extract_slice %o[%x, %y] [4, 4] [1, 1] : tensor<8x8xf32> to tensor<4x4xf32>
    %start = linalg.fill ins(%zero : f32) outs(%part : tensor<4x4xf32>) -> tensor<4x4xf32>
    %sum = scf.for %k = %c0 to %c6 step %c2 iter_args(%acc = %start) -> (tensor<4x4xf32>) {
      %l = tensor.extract_slice %a[%x, %k] [4, 2] [1, 1] : tensor<8x6xf32> to tensor<4x2xf32>
      %m = tensor.extract_slice %b[%k, %y] [2, 4] [1, 1] : tensor<6x8xf32> to tensor<2x4xf32>
      %p = linalg.matmul ins(%l, %m : tensor<4x2xf32>, tensor<2x4xf32>) outs(%acc : tensor<4x4xf32>) -> tensor<4x4xf32>
      scf.yield %p : tensor<4x4xf32>
    }
    %other = tensor.extract_slice %empty[%x, %y] [4, 4] [1, 1] : tensor<8x8xf32> to tensor<4x4xf32>
    %end = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%sum, %bias : tensor<4x4xf32>, tensor<4x4xf32>) outs(%other : tensor<4x4xf32>) attrs = {__byteir_epilogue__} {
    ^bb0(%in: f32, %w: f32, %out: f32):
      %s = arith.subf %in, %w : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %end into %o[%x, %y] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<8x8xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<8x8xf32>
}
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK: scf.forall
// CHECK: %[[SUM:.*]] = scf.for
// CHECK-NOT: tensor.extract_slice %{{.*}} tensor<8x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[BIAS]] : tensor<4x4xf32>) outs(%[[SUM]] : tensor<4x4xf32>) attrs =  {__byteir_epilogue__}
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %[[OUT:.*]]: f32):
// CHECK-NEXT: arith.subf %[[OUT]], %[[IN]]

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @read_init(%a: tensor<4x6xf32>, %b: tensor<6x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {__byteir_matmul_epilogue_fusion__} {
  %r = scf.forall (%i, %j) in (1, 1) shared_outs(%o = %c) -> (tensor<4x4xf32>) {
    %p = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
    %end = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) attrs = {__byteir_epilogue__} {
    ^bb0(%in: f32, %out: f32):
      %s = arith.subf %in, %out : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %end into %o[0, 0] [4, 4] [1, 1] : tensor<4x4xf32> into tensor<4x4xf32>
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return %r : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @read_init
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4x4xf32>) outs(%{{.*}} : tensor<4x4xf32>)
