// RUN: byteir-opt %s --linalg-promotion --split-input-file | FileCheck %s
// RUN: byteir-opt %s --linalg-promotion --canonicalize-ext --split-input-file | FileCheck %s --check-prefix=FOLDED

#map = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0) -> (d0 * 4)>
func.func @promoted(%a: memref<8x6xf32>, %b: memref<6x8xf32>, %c: memref<8x8xf32>) attributes {__byteir_matmul_epilogue_fusion__} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %c2 = arith.constant 2 : index
  scf.forall (%i, %j) in (2, 2) {
    %x = affine.apply #row(%i)
    %y = affine.apply #row(%j)
    %part = memref.subview %c[%x, %y] [4, 4] [1, 1] : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1], offset: ?>>
    linalg.fill ins(%zero : f32) outs(%part : memref<4x4xf32, strided<[8, 1], offset: ?>>)
    scf.for %k = %c0 to %c6 step %c2 {
      %l = memref.subview %a[%x, %k] [4, 2] [1, 1] : memref<8x6xf32> to memref<4x2xf32, strided<[6, 1], offset: ?>>
      %m = memref.subview %b[%k, %y] [2, 4] [1, 1] : memref<6x8xf32> to memref<2x4xf32, strided<[8, 1], offset: ?>>
      linalg.matmul ins(%l, %m : memref<4x2xf32, strided<[6, 1], offset: ?>>, memref<2x4xf32, strided<[8, 1], offset: ?>>) outs(%part : memref<4x4xf32, strided<[8, 1], offset: ?>>)
    }
    linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel"]} outs(%part : memref<4x4xf32, strided<[8, 1], offset: ?>>) attrs = {__byteir_epilogue__} {
    ^bb0(%out: f32):
      %s = arith.mulf %out, %out : f32
      linalg.yield %s : f32
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return
}
// CHECK-LABEL: func.func @promoted
// CHECK: scf.forall
// CHECK-NEXT: %[[C:.*]] = memref.alloc() {__byteir_alloca_accumulator__} : memref<4x4xf32, #gpu.address_space<workgroup>>
// CHECK-NEXT: %[[B:.*]] = memref.alloc() {__byteir_alloca_matrix_b__} : memref<2x4xf32, #gpu.address_space<workgroup>>
// CHECK-NEXT: %[[A:.*]] = memref.alloc() {__byteir_alloca_matrix_a__} : memref<4x2xf32, #gpu.address_space<workgroup>>
// CHECK: %[[PART:.*]] = memref.subview
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%[[C]] : memref<4x4xf32, #gpu.address_space<workgroup>>)
// CHECK-NEXT: %[[SUM:.*]] = memref.subview %[[C]][0, 0] [4, 4] [1, 1]
// CHECK-NEXT: scf.for
// CHECK: %[[VIEW:.*]] = memref.subview %[[A]][0, 0] [4, 2] [1, 1] : memref<4x2xf32, #gpu.address_space<workgroup>> to memref<4x2xf32, strided<[2, 1]>, #gpu.address_space<workgroup>>
// CHECK-NEXT: linalg.copy {__byteir_load_matrix_a__, __internal_linalg_transform__ = "__byteir_copy_related_to_workgroup_memory__"} {{.*}} outs(%[[VIEW]]
// CHECK: linalg.copy {__byteir_load_matrix_b__
// CHECK: gpu.barrier
// CHECK-NEXT: linalg.matmul {{.*}} outs(%[[SUM]]
// CHECK-NEXT: }
// CHECK-NEXT: gpu.barrier
// CHECK-NOT: linalg.copy
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : {{.*}}) outs(%[[PART]] : {{.*}}) attrs =  {__byteir_epilogue__, __internal_linalg_transform__ = "__byteir_copy_related_to_workgroup_memory__"}
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.mulf %[[IN]], %[[IN]]

// FOLDED-LABEL: func.func @promoted
// FOLDED: memref.subview
// FOLDED: scf.for
// FOLDED: memref.subview
// FOLDED: memref.subview
// FOLDED-NOT: memref.subview
// FOLDED: linalg.matmul ins(%{{.*}}, %{{.*}} : memref<4x2xf32, #gpu.address_space<workgroup>>, memref<2x4xf32, #gpu.address_space<workgroup>>)

// -----

// A product whose sum nobody reads in the loop over blocks is copied back.
#row = affine_map<(d0) -> (d0 * 4)>
func.func @copied(%a: memref<8x6xf32>, %b: memref<6x8xf32>, %c: memref<8x8xf32>) attributes {__byteir_matmul_epilogue_fusion__} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %c2 = arith.constant 2 : index
  scf.forall (%i, %j) in (2, 2) {
    %x = affine.apply #row(%i)
    %y = affine.apply #row(%j)
    %part = memref.subview %c[%x, %y] [4, 4] [1, 1] : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1], offset: ?>>
    linalg.fill ins(%zero : f32) outs(%part : memref<4x4xf32, strided<[8, 1], offset: ?>>)
    scf.for %k = %c0 to %c6 step %c2 {
      %l = memref.subview %a[%x, %k] [4, 2] [1, 1] : memref<8x6xf32> to memref<4x2xf32, strided<[6, 1], offset: ?>>
      %m = memref.subview %b[%k, %y] [2, 4] [1, 1] : memref<6x8xf32> to memref<2x4xf32, strided<[8, 1], offset: ?>>
      linalg.matmul ins(%l, %m : memref<4x2xf32, strided<[6, 1], offset: ?>>, memref<2x4xf32, strided<[8, 1], offset: ?>>) outs(%part : memref<4x4xf32, strided<[8, 1], offset: ?>>)
    }
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return
}
// CHECK-LABEL: func.func @copied
// CHECK: gpu.barrier
// CHECK: gpu.barrier
// CHECK-NEXT: linalg.copy {__byteir_store_matrix_c__
