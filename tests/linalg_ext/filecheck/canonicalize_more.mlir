// RUN: byteir-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @reshapes_of_reshapes
// CHECK-DAG: %[[FLAT:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1, 2]] : tensor<2x7x3xf32> into tensor<42xf32>
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %arg0 {{\[}}[0, 1], [2]] : tensor<2x7x3xf32> into tensor<14x3xf32>
// CHECK-DAG: %[[WIDE:.*]] = tensor.expand_shape %arg1 {{\[}}[0, 1, 2]] output_shape [5, 2, 3] : tensor<30xf32> into tensor<5x2x3xf32>
// CHECK: return %[[FLAT]], %[[ROWS]], %[[WIDE]]
func.func @reshapes_of_reshapes(%a: tensor<2x7x3xf32>, %b: tensor<30xf32>) -> (tensor<42xf32>, tensor<14x3xf32>, tensor<5x2x3xf32>) {
  %0 = tensor.collapse_shape %a [[0], [1, 2]] : tensor<2x7x3xf32> into tensor<2x21xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<2x21xf32> into tensor<42xf32>
  %2 = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [2, 7, 3, 1] : tensor<2x7x3xf32> into tensor<2x7x3x1xf32>
  %3 = tensor.collapse_shape %2 [[0, 1], [2, 3]] : tensor<2x7x3x1xf32> into tensor<14x3xf32>
  %4 = tensor.expand_shape %b [[0, 1]] output_shape [5, 6] : tensor<30xf32> into tensor<5x6xf32>
  %5 = tensor.expand_shape %4 [[0], [1, 2]] output_shape [5, 2, 3] : tensor<5x6xf32> into tensor<5x2x3xf32>
  return %1, %3, %5 : tensor<42xf32>, tensor<14x3xf32>, tensor<5x2x3xf32>
}

// -----

// Groups that are cut stay.

// CHECK-LABEL: func.func @cut_groups
// CHECK: tensor.expand_shape %arg0
// CHECK: tensor.collapse_shape
func.func @cut_groups(%a: tensor<6x35xf32>) -> tensor<30x7xf32> {
  %0 = tensor.expand_shape %a [[0], [1, 2]] output_shape [6, 5, 7] : tensor<6x35xf32> into tensor<6x5x7xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<6x5x7xf32> into tensor<30x7xf32>
  return %1 : tensor<30x7xf32>
}

// -----

// CHECK-LABEL: func.func @filled
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %arg1
// CHECK: %[[A:.*]] = linalg.fill ins(%arg0 : f64) outs(%[[FLAT]] : tensor<15xf64>)
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<5x6xf64>
// CHECK: %[[B:.*]] = linalg.fill ins(%arg0 : f64) outs(%[[EMPTY]] : tensor<5x6xf64>)
// CHECK: return %[[A]], %[[B]]
func.func @filled(%x: f64, %o: tensor<3x5xf64>) -> (tensor<15xf64>, tensor<5x6xf64>) {
  %0 = linalg.fill ins(%x : f64) outs(%o : tensor<3x5xf64>) -> tensor<3x5xf64>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<3x5xf64> into tensor<15xf64>
  %2 = tensor.pad %0 low[2, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : f64
  } : tensor<3x5xf64> to tensor<5x6xf64>
  return %1, %2 : tensor<15xf64>, tensor<5x6xf64>
}

// -----

// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : i32
// CHECK-DAG: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-DAG: %[[THREE:.*]] = arith.constant 3 : index
// CHECK: %[[PADDED:.*]] = tensor.pad %arg0 low[2, 0, 0] high[0, 0, 1]
// CHECK: : tensor<1x4x5xf32> to tensor<3x4x6xf32>
// CHECK: tensor.cast %[[PADDED]] : tensor<3x4x6xf32> to tensor<?x4x6xf32>
// CHECK: return %[[SEVEN]], %[[HALF]], %[[THREE]]
func.func @constants(%a: tensor<1x4x5xf32>, %i: index, %x: f32) -> (i32, f32, index, tensor<?x4x6xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %table = arith.constant dense<[[4, 5], [6, 7]]> : tensor<2x2xi32>
  %same = arith.constant dense<0.5> : tensor<9xf32>
  %0 = tensor.extract %table[%c1, %c1] : tensor<2x2xi32>
  %1 = tensor.extract %same[%i] : tensor<9xf32>
  %2 = tensor.rank %a : tensor<1x4x5xf32>
  %3 = tensor.pad %a low[%c2, 0, 0] high[0, 0, %c1] {
  ^bb0(%l: index, %m: index, %n: index):
    tensor.yield %x : f32
  } : tensor<1x4x5xf32> to tensor<?x4x6xf32>
  return %0, %1, %2, %3 : i32, f32, index, tensor<?x4x6xf32>
}

// -----

// CHECK-LABEL: func.func @buffers
// CHECK: %[[NEW:.*]] = memref.alloc() : memref<6xf32>
// CHECK-NEXT: %[[CAST:.*]] = memref.cast %[[NEW]] : memref<6xf32> to memref<?xf32>
// CHECK-NEXT: %[[VIEW:.*]] = memref.subview %arg0[6, 0] [2, 3] [1, 1] : memref<9x10xf32> to memref<2x3xf32, strided<[10, 1], offset: 60>>
// CHECK-NEXT: %[[PART:.*]] = memref.cast %[[VIEW]]
// CHECK-NEXT: return %[[CAST]], %[[PART]]
func.func @buffers(%m: memref<9x10xf32>) -> (memref<?xf32>, memref<2x3xf32, strided<[10, 1], offset: ?>>) {
  %c6 = arith.constant 6 : index
  %0 = memref.alloc(%c6) : memref<?xf32>
  %1 = memref.alloc() : memref<4xf32>
  memref.dealloc %1 : memref<4xf32>
  %2 = memref.subview %m[%c6, 0] [2, 3] [1, 1] : memref<9x10xf32> to memref<2x3xf32, strided<[10, 1], offset: ?>>
  return %0, %2 : memref<?xf32>, memref<2x3xf32, strided<[10, 1], offset: ?>>
}

// -----

// CHECK-LABEL: func.func @branches
// CHECK-NEXT: %[[S:.*]] = arith.select %arg0, %arg1, %arg2 : tensor<3xf32>
// CHECK-NEXT: %[[IF:.*]] = scf.if %arg0
// CHECK: linalg.exp
// CHECK: return %[[S]], %[[IF]], %arg2
func.func @branches(%c: i1, %a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:2 = scf.if %c -> (tensor<3xf32>, tensor<3xf32>) {
    scf.yield %a, %b : tensor<3xf32>, tensor<3xf32>
  } else {
    scf.yield %b, %b : tensor<3xf32>, tensor<3xf32>
  }
  %1 = scf.if %c -> (tensor<3xf32>) {
    %2 = linalg.exp ins(%a : tensor<3xf32>) outs(%b : tensor<3xf32>) -> tensor<3xf32>
    scf.yield %2 : tensor<3xf32>
  } else {
    scf.yield %b : tensor<3xf32>
  }
  return %0#0, %1, %0#1 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// A copy into another tensor stays: it says where the elements are.

// CHECK-LABEL: func.func @copies
// CHECK: %[[COPY:.*]] = linalg.copy ins(%arg0 : {{.*}}) outs(%arg1
// CHECK: return %[[COPY]], %arg1
func.func @copies(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = linalg.copy ins(%a : tensor<3xf32>) outs(%b : tensor<3xf32>) -> tensor<3xf32>
  %1 = linalg.copy ins(%b : tensor<3xf32>) outs(%b : tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @numbers
// CHECK-DAG: %[[FOUR:.*]] = arith.constant 4 : i32
// CHECK-DAG: %[[BITS:.*]] = arith.constant 40 : i32
// CHECK: %[[SUM:.*]] = arith.addi %arg0, %[[FOUR]] : i32
// CHECK: return %[[SUM]], %[[BITS]], %arg1, %arg2, %arg0
func.func @numbers(%i: i32, %b: i1, %x: f32) -> (i32, i32, i1, f32, i32) {
  %c7 = arith.constant 7 : i32
  %c3 = arith.constant 3 : i32
  %c5 = arith.constant 5 : i32
  %true = arith.constant true
  %0 = arith.addi %i, %c7 : i32
  %1 = arith.subi %0, %c3 : i32
  %2 = arith.shli %c5, %c3 : i32
  %3 = arith.xori %b, %true : i1
  %4 = arith.xori %3, %true : i1
  %5 = arith.negf %x : f32
  %6 = arith.negf %5 : f32
  %7 = arith.extui %i : i32 to i64
  %8 = arith.trunci %7 : i64 to i32
  return %1, %2, %4, %6, %8 : i32, i32, i1, f32, i32
}

// -----

// What is cut to fewer bits than it had, what is turned by other bits, and what is subtracted from a constant, stay.

// CHECK-LABEL: func.func @other_numbers
// CHECK: arith.extsi
// CHECK: arith.trunci
// CHECK: arith.xori
// CHECK: arith.xori
// CHECK: arith.subi
func.func @other_numbers(%i: i32, %a: i8, %b: i8) -> (i16, i8, i32) {
  %c7 = arith.constant 7 : i32
  %0 = arith.extsi %i : i32 to i64
  %1 = arith.trunci %0 : i64 to i16
  %2 = arith.xori %a, %b : i8
  %3 = arith.xori %2, %a : i8
  %4 = arith.addi %i, %c7 : i32
  %5 = arith.subi %c7, %4 : i32
  return %1, %3, %5 : i16, i8, i32
}

// -----

// CHECK-LABEL: func.func @buffer_copies
// CHECK-NEXT: memref.copy %arg0, %arg1
// CHECK-NEXT: return
func.func @buffer_copies(%m: memref<3xf32>, %n: memref<3xf32>) {
  memref.copy %m, %m : memref<3xf32> to memref<3xf32>
  linalg.copy ins(%n : memref<3xf32>) outs(%n : memref<3xf32>)
  memref.copy %m, %n : memref<3xf32> to memref<3xf32>
  return
}

// -----

// A value that a product needs as a symbol is one where it is added, too: a map multiplies no dims.
#sum = affine_map<(d0, d1) -> (d0 + d1)>
// CHECK: #[[MAP:.*]] = affine_map<(d0)[s0, s1] -> (d0 * ((s0 - s1) ceildiv 3) + s1)>
// CHECK-LABEL: func.func @dim_and_symbol
func.func @dim_and_symbol(%n: index, %out: memref<9xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    // CHECK: %[[K:.*]] = memref.load
    %k = memref.load %out[%i] : memref<9xindex>
    %0 = affine.apply affine_map<(d0)[s0, s1] -> (d0 * ((s0 - s1) ceildiv 3))>(%i)[%n, %k]
    // CHECK: affine.apply #[[MAP]](%{{.*}})[%{{.*}}, %[[K]]]
    %1 = affine.apply #sum(%k, %0)
    memref.store %1, %out[%i] : memref<9xindex>
  }
  return
}
