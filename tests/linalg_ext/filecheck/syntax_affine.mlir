// RUN: xjit-linalg %s --split-input-file | FileCheck %s
// RUN: xjit-linalg %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK: #[[BORDER:.*]] = affine_set<(d0)[s0] : (d0 * 2 - 7 >= 0, -d0 + s0 >= 0)>
// CHECK-LABEL: func.func @brighten
// CHECK: affine.for %[[Y:.*]] = 0 to 15 {
// CHECK-NEXT: affine.for %[[X:.*]] = 0 to %arg1 step 3 {
// CHECK-NEXT: affine.load %arg0[%[[Y]], %[[X]]] : memref<16x45xf16>
// CHECK: affine.if #[[BORDER]](%[[Y]])[%arg1] {
// CHECK: affine.store %{{.*}}, %arg0[%[[Y]] + 1, %[[X]] * 3 + symbol(%arg1)] : memref<16x45xf16>
// CHECK: } else {
// CHECK: affine.store %{{.*}}, %arg0[9, %[[X]]] : memref<16x45xf16>
// GENERIC: "affine.for"
// GENERIC: "affine.if"
func.func @brighten(%image: memref<16x45xf16>, %width: index) {
  affine.for %y = 0 to 15 {
    affine.for %x = 0 to %width step 3 {
      %old = affine.load %image[%y, %x] : memref<16x45xf16>
      %new = math.sqrt %old : f16
      affine.if affine_set<(row)[last] : (row * 2 - 7 >= 0, last - row >= 0)>(%y)[%width] {
        affine.store %new, %image[%y + 1, %x * 3 + symbol(%width)] : memref<16x45xf16>
      } else {
        affine.store %old, %image[9, %x] : memref<16x45xf16>
      }
    }
  }
  return
}

// -----

// Bounds of several results, and a value that a loop carries.
// CHECK-DAG: #[[LOWER:.*]] = affine_map<()[s0] -> (s0 - 6, 2)>
// CHECK-DAG: #[[UPPER:.*]] = affine_map<(d0)[s0] -> (d0 * 4, s0 + 33)>
// CHECK-LABEL: func.func @echo
// CHECK: affine.for %{{.*}} = max #[[LOWER]]()[%arg0] to min #[[UPPER]](%arg0)[%arg0] {
// CHECK: %[[LOUD:.*]] = affine.for %{{.*}} = 5 to 21 iter_args(%[[SO_FAR:.*]] = %arg1) -> (f64) {
// CHECK-NEXT: %[[NEXT:.*]] = arith.mulf %[[SO_FAR]], %arg1 : f64
// CHECK-NEXT: affine.yield %[[NEXT]] : f64
// CHECK: return %[[LOUD]]
func.func @echo(%delay: index, %gain: f64) -> f64 {
  affine.for %t = max affine_map<()[delay] -> (delay - 6, 2)>()[%delay]
      to min affine_map<(d)[delay] -> (d * 4, delay + 33)>(%delay)[%delay] {
  }
  %loud = affine.for %repeat = 5 to 21 iter_args(%so_far = %gain) -> (f64) {
    %next = arith.mulf %so_far, %gain : f64
    affine.yield %next : f64
  }
  return %loud : f64
}

// -----

// A symbol may be a factor or a divisor.
// CHECK: #[[PARTS:.*]] = affine_map<()[s0] -> (90 ceildiv s0, s0 floordiv 7, s0 mod 11, s0 ceildiv 2)>
// CHECK: #[[REST:.*]] = affine_map<(d0)[s0] -> (s0 + 1, -(d0 * s0) + 90)>
// CHECK: #[[BOTH:.*]] = affine_map<(d0, d1)[s0, s1] -> ((d0 mod s1) * 3 + d1 ceildiv s0)>
// CHECK-LABEL: func.func @shares
// CHECK: affine.min #[[PARTS]]()[%arg1]
// CHECK: affine.min #[[REST]](%arg0)[%arg1]
// CHECK: affine.apply #[[BOTH]](%arg0, %arg0)[%arg1, %arg1]
func.func @shares(%share: index, %count: index) -> (index, index, index) {
  %0 = affine.min affine_map<()[n] -> (90 ceildiv n, n floordiv 7, n mod 11, n ceildiv 2)>()[%count]
  %1 = affine.min affine_map<(i)[n] -> (n + 1, 90 - i * n)>(%share)[%count]
  %2 = affine.apply affine_map<(i, j)[n, m] -> ((i mod m) * 3 + j ceildiv n)>(%share, %share)[%count, %count]
  return %0, %1, %2 : index, index, index
}
