// RUN: byteir-opt %s --split-input-file --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: byteir-opt %s --split-input-file | FileCheck %s

// What scripts choose from a list is a number in the generic form, as in MLIR, and a word in the other.

// GENERIC: "transform.structured.match"(%{{.*}}) {interface = 1 : i32}
// GENERIC: "transform.match.param.cmpi"(%{{.*}}, %{{.*}}) {predicate = 5 : i32}
// GENERIC: "transform.include"(%{{.*}}) {failure_propagation_mode = 2 : i32, target = @nothing}
// GENERIC: }) {failure_propagation_mode = 1 : i32, operandSegmentSizes = array<i32: 0, 0>}
// CHECK: transform.structured.match interface{TilingInterface} in
// CHECK: transform.match.param.cmpi ge
// CHECK: include @nothing failures(suppress) (%{{.*}})
transform.named_sequence @nothing(%arg0: !transform.any_op) {
  transform.yield
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match interface{TilingInterface} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.param.constant 1 : i64 -> !transform.param<i64>
  transform.match.param.cmpi ge %1, %1 : !transform.param<i64>
  transform.include @nothing failures(suppress) (%0) : (!transform.any_op) -> ()
}

// -----

// GENERIC: }) {failure_propagation_mode = 2 : i32, operandSegmentSizes = array<i32: 1, 1>}
// GENERIC: }) {failure_propagation_mode = 1 : i32, operandSegmentSizes = array<i32: 0, 0>}
// CHECK: transform.sequence failures(propagate) {
// CHECK: interface{LoopLikeInterface}
// CHECK: sequence %{{.*}}, %{{.*}} : !transform.any_op, !transform.any_op failures(suppress) {
"transform.sequence"() <{failure_propagation_mode = 1 : i32, operandSegmentSizes = array<i32: 0, 0>}> ({
^bb0(%arg0: !transform.any_op):
  %0 = "transform.structured.match"(%arg0) <{interface = 2 : i32}> : (!transform.any_op) -> !transform.any_op
  transform.sequence %arg0, %0 : !transform.any_op, !transform.any_op failures(suppress) {
  ^bb0(%arg1: !transform.any_op, %arg2: !transform.any_op):
  }
  "transform.yield"() : () -> ()
}) : () -> ()

// -----

// GENERIC: {predicate = #index<cmp_predicate slt>}
// GENERIC: {roundingmode = 3 : i32}
// CHECK: index.cmp slt(
// CHECK: arith.truncf %{{.*}} toward_zero : f64 to f32
func.func @words(%a: index, %b: index, %x: f64) -> (i1, f32) {
  %0 = "index.cmp"(%a, %b) {predicate = #index<cmp_predicate slt>} : (index, index) -> i1
  %1 = "arith.truncf"(%x) <{roundingmode = 3 : i32}> : (f64) -> f32
  return %0, %1 : i1, f32
}
