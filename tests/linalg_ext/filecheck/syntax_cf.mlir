// RUN: xjit-linalg %s --split-input-file | FileCheck %s
// RUN: xjit-linalg %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @branches
// CHECK: cf.cond_br %arg0, ^bb1(%arg1 : i32), ^bb2
// CHECK: ^bb1(%[[Y:.*]]: i32):
// CHECK: cf.br ^bb3(%[[Y]] : i32)
// CHECK: ^bb3(%[[R:.*]]: i32):
// CHECK: cf.assert %arg0, "message"
// CHECK: return %[[R]] : i32
// GENERIC: "cf.cond_br"(%{{.*}}, %{{.*}})[^bb1, ^bb2] {operandSegmentSizes = array<i32: 1, 1, 0>} : (i1, i32) -> ()
func.func @branches(%c: i1, %x: i32) -> i32 {
  cf.cond_br %c, ^bb1(%x : i32), ^bb2
^bb1(%y: i32):
  cf.br ^bb3(%y : i32)
^bb2:
  %z = arith.constant 7 : i32
  cf.br ^bb3(%z : i32)
^bb3(%r: i32):
  cf.assert %c, "message"
  return %r : i32
}

// -----

// CHECK-LABEL: func.func @switch
// CHECK: cf.switch %arg0 : i32, [
// CHECK-NEXT: default: ^bb1(%arg1 : i32),
// CHECK-NEXT: 42: ^bb2,
// CHECK-NEXT: -1: ^bb1(%arg1 : i32)
// CHECK-NEXT: ]
// GENERIC: case_operand_segments = array<i32: 0, 1>, case_values = dense<[42, -1]> : tensor<2xi32>, operandSegmentSizes = array<i32: 1, 1, 1>
func.func @switch(%f: i32, %x: i32) -> i32 {
  cf.switch %f : i32, [
    default: ^bb1(%x : i32),
    42: ^bb2,
    -1: ^bb1(%x : i32)
  ]
^bb1(%y: i32):
  return %y : i32
^bb2:
  return %x : i32
}
