// RUN: byteir-opt %s --cse --split-input-file --allow-unregistered-dialect | FileCheck %s

// CHECK-LABEL: func.func @pure
// CHECK: %[[S:.*]] = arith.addf
// CHECK-NOT: arith.addf
// CHECK: scf.for
// CHECK:   "test.use"(%[[S]])
// CHECK: return %[[S]], %[[S]]
func.func @pure(%a: f32, %b: f32, %n: index) -> (f32, f32) {
  %0 = arith.addf %a, %b : f32
  %1 = arith.addf %b, %a : f32
  scf.for %i = %n to %n step %n {
    %2 = arith.addf %a, %b : f32
    "test.use"(%2) : (f32) -> ()
  }
  return %0, %1 : f32, f32
}

// -----

#map = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @bodies
// CHECK: %[[A:.*]] = linalg.generic
// CHECK: arith.addf
// CHECK: %[[B:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK: return %[[A]], %[[A]], %[[B]]
func.func @bodies(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %3 = arith.addf %in, %in : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %3 = arith.addf %in, %in : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %3 = arith.mulf %in, %in : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What has effects stays.

// CHECK-LABEL: func.func @effects
// CHECK-COUNT-2: "test.effect"
// CHECK-COUNT-2: memref.load
func.func @effects(%m: memref<4xf32>, %i: index) -> (f32, f32) {
  %0 = "test.effect"() : () -> f32
  %1 = "test.effect"() : () -> f32
  %2 = memref.load %m[%i] : memref<4xf32>
  memref.store %0, %m[%i] : memref<4xf32>
  %3 = memref.load %m[%i] : memref<4xf32>
  return %2, %3 : f32, f32
}
