// RUN: byteir-opt %s --canonicalize --memref-copy-to-linalg --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @arithmetic
// CHECK-SAME: (%[[A:.*]]: index, %[[B:.*]]: index)
// CHECK: %[[FOUR:.*]] = index.constant 4
// CHECK: %[[S:.*]] = index.add %[[A]], %[[B]]
// CHECK: %[[D:.*]] = index.ceildivs %[[S]], %[[FOUR]]
// CHECK: %[[L:.*]] = index.cmp slt(%[[D]], %[[B]])
// CHECK: %[[N:.*]] = index.casts %[[D]] : index to i32
// CHECK: return %[[L]], %[[N]] : i1, i32
func.func @arithmetic(%a: index, %b: index) -> (i1, i32) {
  %0 = index.constant 4
  %1 = index.add %a, %b
  %2 = index.ceildivs %1, %0
  %3 = index.cmp slt(%2, %b)
  %4 = index.casts %2 : index to i32
  return %3, %4 : i1, i32
}

// -----

// CHECK: #[[MAP:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @copy
// CHECK-NEXT: linalg.generic {indexing_maps = [#[[MAP]], #[[MAP]]], iterator_types = ["parallel", "parallel"]} ins(%arg0 : memref<2x?xf32>) outs(%arg1 : memref<2x?xf32>) {
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:   linalg.yield %[[IN]] : f32
func.func @copy(%a: memref<2x?xf32>, %b: memref<2x?xf32>) {
  memref.copy %a, %b : memref<2x?xf32> to memref<2x?xf32>
  return
}
