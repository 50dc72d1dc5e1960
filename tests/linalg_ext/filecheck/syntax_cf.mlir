// RUN: xjit-linalg %s --split-input-file | FileCheck %s
// RUN: xjit-linalg %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: func.func @louder
// CHECK: cf.cond_br %arg0, ^bb2, ^bb1(%arg1 : f64)
// CHECK: ^bb1(%[[QUIET:.*]]: f64):
// CHECK: cf.assert %arg0, "a silent signal"
// CHECK: cf.br ^bb3(%[[QUIET]], %arg1 : f64, f64)
// CHECK: ^bb2:
// CHECK: cf.br ^bb3(%arg1, %{{.*}} : f64, f64)
// CHECK: ^bb3(%[[A:.*]]: f64, %[[B:.*]]: f64):
// CHECK: arith.maximumf %[[A]], %[[B]]
// GENERIC: "cf.cond_br"(%{{.*}}, %{{.*}})[^bb2, ^bb1] {operandSegmentSizes = array<i32: 1, 0, 1>} : (i1, f64) -> ()
func.func @louder(%heard: i1, %level: f64) -> f64 {
  cf.cond_br %heard, ^root, ^silent(%level : f64)
^silent(%quiet: f64):
  cf.assert %heard, "a silent signal"
  cf.br ^both(%quiet, %level : f64, f64)
^root:
  %root = math.sqrt %level : f64
  cf.br ^both(%level, %root : f64, f64)
^both(%a: f64, %b: f64):
  %most = arith.maximumf %a, %b : f64
  return %most : f64
}

// -----

// CHECK-LABEL: func.func @channel
// CHECK: cf.switch %arg0 : i8, [
// CHECK-NEXT: default: ^bb1,
// CHECK-NEXT: -3: ^bb2(%arg2, %arg1 : i16, i16),
// CHECK-NEXT: 17: ^bb1,
// CHECK-NEXT: 90: ^bb2(%arg1, %arg2 : i16, i16)
// CHECK-NEXT: ]
// GENERIC: case_operand_segments = array<i32: 2, 0, 2>, case_values = dense<[-3, 17, 90]> : tensor<3xi8>, operandSegmentSizes = array<i32: 1, 0, 4>
func.func @channel(%number: i8, %left: i16, %right: i16) -> i16 {
  cf.switch %number : i8, [
    default: ^middle,
    -3: ^less(%right, %left : i16, i16),
    17: ^middle,
    90: ^less(%left, %right : i16, i16)
  ]
^middle:
  return %left : i16
^less(%from: i16, %what: i16):
  %rest = arith.subi %from, %what : i16
  return %rest : i16
}
