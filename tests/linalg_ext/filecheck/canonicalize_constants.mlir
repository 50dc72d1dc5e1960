// RUN: byteir-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @conversions
// CHECK-DAG: %[[A:.*]] = arith.constant 2.550000e+02 : f32
// CHECK-DAG: %[[B:.*]] = arith.constant -3 : i32
// CHECK-DAG: %[[C:.*]] = arith.constant 1.500000e+00 : f16
// CHECK-DAG: %[[D:.*]] = arith.constant 1065353216 : i32
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @conversions() -> (f32, i32, f16, i32) {
  %minus = arith.constant -1 : i8
  %x = arith.constant -3.75 : f32
  %y = arith.constant 1.5 : f64
  %one = arith.constant 1.0 : f32
  %0 = arith.uitofp %minus : i8 to f32
  %1 = arith.fptosi %x : f32 to i32
  %2 = arith.truncf %y : f64 to f16
  %3 = arith.bitcast %one : f32 to i32
  return %0, %1, %2, %3 : f32, i32, f16, i32
}

// -----

// What means nothing is left as it is, and so is what other machines round otherwise.
// CHECK-LABEL: func.func @left
// CHECK: arith.divsi
// CHECK: arith.shli
// CHECK: arith.fptosi
// CHECK: math.exp
func.func @left() -> (i32, i32, i8, f16) {
  %zero = arith.constant 0 : i32
  %many = arith.constant 40 : i32
  %far = arith.constant 1.0e9 : f32
  %half = arith.constant 0.5 : f16
  %0 = arith.divsi %many, %zero : i32
  %1 = arith.shli %many, %many : i32
  %2 = arith.fptosi %far : f32 to i8
  %3 = math.exp %half : f16
  return %0, %1, %2, %3 : i32, i32, i8, f16
}

// -----

// CHECK-LABEL: func.func @tensors
// CHECK-DAG: %[[A:.*]] = arith.constant dense<[3, 5]> : tensor<2xi32>
// CHECK-DAG: %[[B:.*]] = arith.constant dense<4.000000e+00> : tensor<3x2xf32>
// CHECK-DAG: %[[C:.*]] = arith.constant dense<{{\[}}[1], [2]]> : tensor<2x1xi32>
// CHECK-DAG: %[[D:.*]] = arith.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-DAG: %[[E:.*]] = arith.constant dense<[true, false]> : tensor<2xi1>
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
func.func @tensors() -> (tensor<2xi32>, tensor<3x2xf32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xi1>) {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %two = arith.constant dense<2> : tensor<2xi32>
  %all = arith.constant dense<2.0> : tensor<3x2xf32>
  %0 = tensor.from_elements %c1, %c2 : tensor<2xi32>
  %1 = arith.addi %0, %0 : tensor<2xi32>
  %one = tensor.splat %c1 : tensor<2xi32>
  %2 = arith.addi %1, %one : tensor<2xi32>
  %3 = arith.mulf %all, %all : tensor<3x2xf32>
  %4 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 1] : tensor<2xi32> into tensor<2x1xi32>
  %5 = tensor.extract_slice %all[1, 0] [1, 2] [1, 1] : tensor<3x2xf32> to tensor<2xf32>
  %6 = arith.cmpi slt, %0, %two : tensor<2xi32>
  return %2, %3, %4, %5, %6 : tensor<2xi32>, tensor<3x2xf32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xi1>
}

// -----

// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[X:.*]]: i32, %[[Y:.*]]: i32, %[[B:.*]]: i1)
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-DAG: %[[N:.*]] = arith.cmpi sge, %[[X]], %[[Y]] : i32
// CHECK-DAG: %[[S:.*]] = arith.select %[[B]], %[[Y]], %[[X]] : i32
// CHECK-DAG: %[[E:.*]] = arith.extsi %[[X]] : i32 to i64
// CHECK: return %[[X]], %[[Y]], %[[ZERO]], %[[ZERO]], %[[N]], %[[S]], %[[E]], %[[B]]
func.func @identities(%x: i32, %y: i32, %b: i1) -> (i32, i32, i32, i32, i1, i32, i64, i1) {
  %true = arith.constant true
  %false = arith.constant false
  %one = arith.constant 1 : i32
  %sum = arith.addi %x, %y : i32
  %0 = arith.subi %sum, %y : i32
  %1 = arith.subi %sum, %x : i32
  %2 = arith.xori %x, %x : i32
  %3 = arith.remsi %x, %one : i32
  %less = arith.cmpi slt, %x, %y : i32
  %4 = arith.xori %less, %true : i1
  %not = arith.xori %b, %true : i1
  %5 = arith.select %not, %x, %y : i32
  %small = arith.trunci %x : i32 to i8
  %short = arith.extsi %small : i8 to i16
  %6 = arith.extsi %x : i32 to i64
  %7 = arith.select %b, %true, %false : i1
  return %0, %1, %2, %3, %4, %5, %6, %7 : i32, i32, i32, i32, i1, i32, i64, i1
}

// -----

// CHECK-LABEL: func.func @coordinates
// CHECK-DAG: %c1 = arith.constant 1 : index
// CHECK-DAG: %c5 = arith.constant 5 : index
// CHECK-DAG: %c13 = arith.constant 13 : index
// CHECK: return %c1, %c5, %c13
func.func @coordinates() -> (index, index, index) {
  %i = arith.constant 13 : index
  %0:2 = affine.delinearize_index %i into (4, 8) : index, index
  %1 = affine.linearize_index [%0#0, %0#1] by (8) : index
  return %0#0, %0#1, %1 : index, index, index
}
