// RUN: xjit-linalg %s --split-input-file --canonicalize | FileCheck %s
// RUN: xjit-linalg %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// The bounds of a loop are expressions of the text, so that their maps have no names.
// CHECK-NOT: affine_map
// CHECK-LABEL: func.func @paths
// CHECK: %[[R:.*]]:2 = affine.parallel (%[[I:.*]], %[[J:.*]]) = (0, max(%arg1, 2, %arg2 floordiv 2)) to (min(%arg1 + 3, 8), -%arg1 + symbol(%arg2) * 2) step (2, 1) reduce ("addf", "maxs") -> (f32, i32) {
// CHECK:   affine.yield
// CHECK: } {lanes}
// CHECK: affine.parallel () = () to () {
// CHECK-NEXT: affine.prefetch %arg0[%arg1, %arg2 + 1], write, locality<2>, instr : memref<8x8xf32>
// CHECK-NEXT: }
// GENERIC: lowerBoundsGroups = dense<[1, 3]> : tensor<2xi32>
// GENERIC-SAME: reductions = [0, 4], steps = [2, 1], upperBoundsGroups = dense<[2, 1]> : tensor<2xi32>
func.func @paths(%m: memref<8x8xf32>, %a: index, %b: index) -> (f32, i32) {
  %one = arith.constant 1 : i32
  %0:2 = affine.parallel (%i, %j) = (0, max(%a, 2, %b floordiv 2)) to (min(%a + 3, 8), symbol(%b) * 2 - %a)
      step (2, 1) reduce ("addf", "maxs") -> (f32, i32) {
    %1 = affine.load %m[%i, %j] : memref<8x8xf32>
    affine.yield %1, %one : f32, i32
  } {lanes}
  affine.parallel () = () to () {
    affine.prefetch %m[%a, %b + 1], write, locality<2>, instr : memref<8x8xf32>
  }
  return %0#0, %0#1 : f32, i32
}

// -----

// CHECK-LABEL: func.func @coordinates
// CHECK: %[[C:.*]]:3 = affine.delinearize_index %arg0 into (4, %arg1, 8) : index, index, index
// CHECK: %[[D:.*]]:2 = affine.delinearize_index %arg0 into (8) : index, index
// CHECK: affine.linearize_index [%[[C]]#1, %[[D]]#1] by (%arg1, 8) : index
// CHECK: affine.linearize_index disjoint [%[[C]]#0, %[[D]]#0] by (8) : index
func.func @coordinates(%i: index, %n: index) -> (index, index) {
  %0:3 = affine.delinearize_index %i into (4, %n, 8) : index, index, index
  %1:2 = affine.delinearize_index %i into (8) : index, index
  %2 = affine.linearize_index [%0#1, %1#1] by (%n, 8) : index
  %3 = affine.linearize_index disjoint [%0#0, %1#0] by (8) : index
  return %2, %3 : index, index
}

// -----

// CHECK-LABEL: func.func @updates
// CHECK: memref.alloca_scope  {
// CHECK-NEXT: memref.prefetch %arg0[%arg1], read, locality<3>, data : memref<?xf32>
// CHECK: %[[S:.*]] = memref.alloca_scope  -> (f32) {
// CHECK:   memref.alloca_scope.return %{{.*}} : f32
// CHECK: memref.atomic_rmw maximumf %[[S]], %arg0[%arg1] : (f32, memref<?xf32>) -> f32
// CHECK: memref.generic_atomic_rmw %arg0[%arg1] : memref<?xf32> {
// CHECK-NEXT: ^bb0(%[[OLD:.*]]: f32):
// CHECK-NEXT: memref.atomic_yield %[[OLD]] : f32
// CHECK: memref.realloc %arg0(%arg1) : memref<?xf32> to memref<?xf32>
// GENERIC: "memref.atomic_rmw"(%{{.*}}, %{{.*}}, %{{.*}}) {kind = 3 : i64}
func.func @updates(%m: memref<?xf32>, %i: index) -> memref<?xf32> {
  memref.alloca_scope {
    memref.prefetch %m[%i], read, locality<3>, data : memref<?xf32>
  }
  %0 = memref.alloca_scope -> (f32) {
    %1 = memref.load %m[%i] : memref<?xf32>
    memref.alloca_scope.return %1 : f32
  }
  %2 = memref.atomic_rmw maximumf %0, %m[%i] : (f32, memref<?xf32>) -> f32
  %3 = memref.generic_atomic_rmw %m[%i] : memref<?xf32> {
  ^bb0(%old: f32):
    memref.atomic_yield %old : f32
  }
  %4 = memref.realloc %m(%i) : memref<?xf32> to memref<?xf32>
  return %4 : memref<?xf32>
}

// -----

// CHECK-LABEL: func.func @chosen
// CHECK: %[[F:.*]] = constant @twice : (f32) -> f32
// CHECK: call_indirect %[[F]](%arg0) : (f32) -> f32
// CHECK: %sin, %cos = math.sincos %arg0 : f32
// CHECK: return %{{.*}}, %sin, %cos
func.func @chosen(%x: f32) -> (f32, f32, f32) {
  %f = constant @twice : (f32) -> f32
  %0 = call_indirect %f(%x) : (f32) -> f32
  %1, %2 = math.sincos %x : f32
  return %0, %1, %2 : f32, f32, f32
}
func.func @twice(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  return %0 : f32
}

// -----

// Results of several kinds have names of their own.
// CHECK-LABEL: func.func @layout
// CHECK: %base_buffer, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %arg0 : memref<4x?xf32> -> memref<f32>, index, index, index, index, index
// CHECK: %sum, %overflow = arith.addui_extended
// CHECK: %low, %high = arith.mulsi_extended
// CHECK: return %sizes#1, %strides#0, %overflow, %high
func.func @layout(%m: memref<4x?xf32>, %a: i32) -> (index, index, i1, i32) {
  %base, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %m : memref<4x?xf32> -> memref<f32>, index, index, index, index, index
  %0, %1 = arith.addui_extended %a, %a : i32, i1
  %2, %3 = arith.mulsi_extended %a, %a : i32
  return %sizes#1, %strides#0, %1, %3 : index, index, i1, i32
}
