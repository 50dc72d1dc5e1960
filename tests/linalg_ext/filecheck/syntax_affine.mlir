// RUN: xjit-linalg %s --split-input-file | FileCheck %s
// RUN: xjit-linalg %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @loops
// CHECK: affine.for %[[I:.*]] = 0 to 10 {
// CHECK-NEXT: affine.for %[[J:.*]] = 0 to %arg1 step 2 {
// CHECK-NEXT: affine.load %arg0[%[[I]], %[[J]]] : memref<10x20xf32>
// CHECK: affine.store %{{.*}}, %arg0[%[[I]] + 1, %[[J]] * 2 + symbol(%arg1)] : memref<10x20xf32>
// CHECK: affine.if #set(%[[I]])[%arg1] {
// CHECK: } else {
// CHECK: affine.for %{{.*}} = max #map{{.*}}()[%arg1] to min #map{{.*}}(%arg1)[%arg1] {
// CHECK: %{{.*}} = affine.for %{{.*}} = 0 to 10 iter_args(%{{.*}} = %{{.*}}) -> (f32) {
// CHECK: affine.yield %{{.*}} : f32
// GENERIC: "affine.for"
#set = affine_set<(d0)[s0] : (d0 - 10 >= 0, -d0 + s0 >= 0)>
func.func @loops(%m: memref<10x20xf32>, %n: index) {
  %cst = arith.constant 1.0 : f32
  affine.for %i = 0 to 10 {
    affine.for %j = 0 to %n step 2 {
      %0 = affine.load %m[%i, %j] : memref<10x20xf32>
      %1 = arith.addf %0, %cst : f32
      affine.store %1, %m[%i + 1, %j * 2 + symbol(%n)] : memref<10x20xf32>
      affine.if #set(%i)[%n] {
        affine.store %0, %m[%i, 0] : memref<10x20xf32>
      } else {
        affine.store %1, %m[0, %j] : memref<10x20xf32>
      }
    }
  }
  affine.for %i = max affine_map<()[s0] -> (s0, 1)>()[%n] to min affine_map<(d0)[s0] -> (d0 + 10, s0)>(%n)[%n] {
  }
  %s = affine.for %i = 0 to 10 iter_args(%acc = %cst) -> (f32) {
    %t = arith.addf %acc, %acc : f32
    affine.yield %t : f32
  }
  return
}

// -----

// CHECK: #map = affine_map<()[s0] -> (64 ceildiv s0, s0 floordiv 4, s0 mod 3, s0 ceildiv 5)>
// CHECK: #map1 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
// CHECK: #map2 = affine_map<(d0, d1)[s0, s1] -> (d0 mod s0 + d1 floordiv s1)>
// CHECK-LABEL: func.func @semi_affine
func.func @semi_affine(%i: index, %n: index) -> (index, index, index) {
  %0 = affine.min affine_map<()[s0] -> (64 ceildiv s0, s0 floordiv 4, s0 mod 3, s0 ceildiv 5)>()[%n]
  %1 = affine.min affine_map<(d0)[s0] -> (64 - d0 * s0, s0)>(%i)[%n]
  %2 = affine.apply affine_map<(d0, d1)[s0, s1] -> (d0 mod s0 + d1 floordiv s1)>(%i, %i)[%n, %n]
  return %0, %1, %2 : index, index, index
}
