// RUN: byteir-opt %s --loop-invariant-code-motion | FileCheck %s

func.func @nest(%x: f32, %n: index, %m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %i step %c1 {
      %y = arith.mulf %x, %x : f32
      %k = arith.addi %i, %c1 : index
      memref.store %y, %m[%k] : memref<8xf32>
    }
  }
  return
}
// CHECK-LABEL: func.func @nest
// CHECK: arith.mulf
// CHECK-NEXT: scf.for
// CHECK-NEXT: arith.addi
// CHECK-NEXT: scf.for
// CHECK-NEXT: memref.store
