// RUN: byteir-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @index_with_one_value
// CHECK: scf.forall (%[[J:.*]]) in (3) shared_outs(%[[OUT:.*]] = %arg0)
// CHECK: tensor.extract_slice %[[OUT]][0, %[[J]]] [5, 1] [1, 1]
// CHECK: tensor.parallel_insert_slice %{{.*}} into %[[OUT]][0, %[[J]]] [5, 1] [1, 1]
func.func @index_with_one_value(%a: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %c1 = arith.constant 1 : index
  %0 = scf.forall (%i, %j) in (%c1, 3) shared_outs(%o = %a) -> (tensor<5x3xf64>) {
    %s = tensor.extract_slice %o[%i, %j] [5, 1] [1, 1] : tensor<5x3xf64> to tensor<5x1xf64>
    %e = linalg.tanh ins(%s : tensor<5x1xf64>) outs(%s : tensor<5x1xf64>) -> tensor<5x1xf64>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %e into %o[%i, %j] [5, 1] [1, 1] : tensor<5x1xf64> into tensor<5x3xf64>
    }
  }
  return %0 : tensor<5x3xf64>
}

// -----

// CHECK-LABEL: func.func @one_point
// CHECK-NOT: scf.forall
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0[4, 1] [1, 2] [1, 1]
// CHECK: %[[NEW:.*]] = linalg.tanh ins(%[[PART]]
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[NEW]] into %arg0[4, 1] [1, 2] [1, 1]
// CHECK: return %[[ALL]]
func.func @one_point(%a: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = scf.forall (%i, %j) = (4, 1) to (5, 3) step (2, 2) shared_outs(%o = %a) -> (tensor<5x3xf64>) {
    %s = tensor.extract_slice %o[%i, %j] [1, 2] [1, 1] : tensor<5x3xf64> to tensor<1x2xf64>
    %e = linalg.tanh ins(%s : tensor<1x2xf64>) outs(%s : tensor<1x2xf64>) -> tensor<1x2xf64>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %e into %o[%i, %j] [1, 2] [1, 1] : tensor<1x2xf64> into tensor<5x3xf64>
    }
  }
  return %0 : tensor<5x3xf64>
}

// -----

// CHECK-LABEL: func.func @no_points
// CHECK-NEXT: return %arg0
func.func @no_points(%a: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0 = scf.forall (%i, %j) in (7, 0) shared_outs(%o = %a) -> (tensor<5x3xf64>) {
    %s = tensor.extract_slice %o[0, 0] [1, 1] [1, 1] : tensor<5x3xf64> to tensor<1x1xf64>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %s into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf64> into tensor<5x3xf64>
    }
  }
  return %0 : tensor<5x3xf64>
}

// -----

// CHECK-LABEL: func.func @mapped
// CHECK: scf.forall (%{{.*}}, %{{.*}}) in (1, 3)
func.func @mapped(%m: memref<1x3xf64>, %x: f64) {
  scf.forall (%i, %j) in (1, 3) {
    memref.store %x, %m[%i, %j] : memref<1x3xf64>
  } {mapping = [#gpu.block<y>, #gpu.block<x>]}
  return
}

// -----

// CHECK-LABEL: func.func @unknown_bound
// CHECK: scf.forall (%{{.*}}) in (%arg1)
func.func @unknown_bound(%m: memref<?x3xf64>, %n: index, %x: f64) {
  scf.forall (%i, %j) in (%n, 1) {
    memref.store %x, %m[%i, %j] : memref<?x3xf64>
  }
  return
}
