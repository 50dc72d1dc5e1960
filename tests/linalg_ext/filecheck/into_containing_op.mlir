// RUN: xjit-linalg %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @tileable
// CHECK-SAME: %[[CHUNK:[a-z0-9]+]]: index, %[[IN:[a-z0-9]+]]: tensor<64xf32>
// CHECK: scf.forall
// CHECK: %[[INIT:.*]] = tensor.extract_slice %[[IN]][%{{.*}}] [%{{.*}}] [1]
// CHECK: %[[FILL:.*]] = linalg.fill {{.*}} outs(%[[INIT]]
// CHECK: linalg.elemwise_unary ins(%[[FILL]]
#map0 = affine_map<()[s0] -> (64 ceildiv s0)>
#map1 = affine_map<(d0)[s0] -> (d0 * s0)>
#map2 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
module {
  func.func @tileable(%arg0: index, %arg1: tensor<64xf32>, %arg2: tensor<64xf32>) -> tensor<64xf32> {
    %cst = arith.constant 4.200000e+01 : f32
    %c0 = arith.constant 0 : index
    %0 = linalg.fill ins(%cst : f32) outs(%arg1 : tensor<64xf32>) -> tensor<64xf32>
    %d0 = tensor.dim %0, %c0 : tensor<64xf32>
    %1 = affine.apply #map0()[%arg0]
    %2 = scf.forall (%arg3) in (%1) shared_outs(%o = %arg2) -> (tensor<64xf32>) {
      %3 = affine.apply #map1(%arg3)[%arg0]
      %4 = affine.min #map2(%arg3)[%arg0]
      %5 = tensor.extract_slice %o[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %6 = tensor.extract_slice %0[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %7 = linalg.elemwise_unary ins(%6 : tensor<?xf32>) outs(%5 : tensor<?xf32>) -> tensor<?xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %7 into %o[%3] [%4] [1] : tensor<?xf32> into tensor<64xf32>
      }
    }
    func.return %2 : tensor<64xf32>
  }
  transform.sequence failures(propagate) {
    ^bb1(%arg1: !transform.any_op):
      %0 = transform.structured.match ops{["linalg.fill"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %1 = transform.structured.match ops{["scf.forall"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      transform.structured.fuse_into_containing_op %0 into %1
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

// CHECK-LABEL: func.func @untileable
// CHECK: scf.forall
// CHECK: %[[EMPTY:.*]] = tensor.empty(%arg0) : tensor<?xf32>
// CHECK: linalg.elemwise_unary ins(%[[EMPTY]]
#map0 = affine_map<()[s0] -> (64 ceildiv s0)>
#map1 = affine_map<(d0)[s0] -> (d0 * s0)>
#map2 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
module {
  func.func @untileable(%arg0: index, %arg1: tensor<64xf32>) -> tensor<64xf32> {
    %0 = tensor.empty(%arg0) : tensor<?xf32>
    %1 = affine.apply #map0()[%arg0]
    %2 = scf.forall (%arg3) in (%1) shared_outs(%o = %arg1) -> (tensor<64xf32>) {
      %3 = affine.apply #map1(%arg3)[%arg0]
      %4 = affine.min #map2(%arg3)[%arg0]
      %5 = tensor.extract_slice %o[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %7 = linalg.elemwise_unary ins(%0 : tensor<?xf32>) outs(%5 : tensor<?xf32>) -> tensor<?xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %7 into %o[%3] [%4] [1] : tensor<?xf32> into tensor<64xf32>
      }
    }
    func.return %2 : tensor<64xf32>
  }
  transform.sequence failures(propagate) {
    ^bb1(%arg1: !transform.any_op):
      %0 = transform.structured.match ops{["tensor.empty"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %1 = transform.structured.match ops{["scf.forall"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %f, %n = transform.structured.fuse_into_containing_op %0 into %1
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

// CHECK-LABEL: func.func @rank_reducing
// CHECK: scf.forall
// CHECK: linalg.fill {{.*}} outs(%{{.*}} : tensor<1x5xf32>)
#map = affine_map<(d0, d1) -> (d0, d1)>
#map0 = affine_map<()[s0] -> (64 ceildiv s0)>
#map1 = affine_map<(d0)[s0] -> (d0 * s0)>
#map2 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
module {
  func.func @rank_reducing(%arg0: index, %arg1: tensor<64x5xf32>, %arg2: tensor<64x5xf32>) -> tensor<64x5xf32> {
    %cst = arith.constant 4.200000e+01 : f32
    %0 = linalg.fill ins(%cst : f32) outs(%arg1 : tensor<64x5xf32>) -> tensor<64x5xf32>
    %2 = scf.forall (%i) in (64) shared_outs(%o = %arg2) -> (tensor<64x5xf32>) {
      %5 = tensor.extract_slice %o[%i, 0] [1, 5] [1, 1] : tensor<64x5xf32> to tensor<5xf32>
      %6 = tensor.extract_slice %0[%i, 0] [1, 5] [1, 1] : tensor<64x5xf32> to tensor<5xf32>
      %7 = linalg.elemwise_unary ins(%6 : tensor<5xf32>) outs(%5 : tensor<5xf32>) -> tensor<5xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %7 into %o[%i, 0] [1, 5] [1, 1] : tensor<5xf32> into tensor<64x5xf32>
      }
    }
    func.return %2 : tensor<64x5xf32>
  }
  transform.sequence failures(propagate) {
    ^bb1(%arg1: !transform.any_op):
      %0 = transform.structured.match ops{["linalg.fill"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %1 = transform.structured.match ops{["scf.forall"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %f, %n = transform.structured.fuse_into_containing_op %0 into %1
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

// What the loop starts with is the fill: it is computed on the tiles that iterations read of their argument.
// CHECK-LABEL: func.func @bbarg
// CHECK-NOT: linalg.fill
// CHECK: scf.forall {{.*}} shared_outs(%[[OUT:.*]] = %arg2)
// CHECK: %[[TILE:.*]] = tensor.extract_slice %[[OUT]][%{{.*}}] [%{{.*}}] [1]
// CHECK: linalg.fill {{.*}} outs(%[[TILE]]
#map0 = affine_map<()[s0] -> (64 ceildiv s0)>
#map1 = affine_map<(d0)[s0] -> (d0 * s0)>
#map2 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
module {
  func.func @bbarg(%arg0: index, %arg1: tensor<?xf32>, %arg2: tensor<64xf32>) -> tensor<64xf32> {
    %cst = arith.constant 4.200000e+01 : f32
    %c0 = arith.constant 0 : index
    %0 = linalg.fill ins(%cst : f32) outs(%arg2 : tensor<64xf32>) -> tensor<64xf32>
    %1 = affine.apply #map0()[%arg0]
    %2 = scf.forall (%arg3) in (%1) shared_outs(%o = %0) -> (tensor<64xf32>) {
      %3 = affine.apply #map1(%arg3)[%arg0]
      %4 = affine.min #map2(%arg3)[%arg0]
      %5 = tensor.extract_slice %o[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %7 = linalg.elemwise_unary ins(%5 : tensor<?xf32>) outs(%5 : tensor<?xf32>) -> tensor<?xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %7 into %o[%3] [%4] [1] : tensor<?xf32> into tensor<64xf32>
      }
    }
    func.return %2 : tensor<64xf32>
  }
  transform.sequence failures(propagate) {
    ^bb1(%arg1: !transform.any_op):
      %0 = transform.structured.match ops{["linalg.fill"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %1 = transform.structured.match ops{["scf.forall"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %f, %n = transform.structured.fuse_into_containing_op %0 into %1
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}

// -----

// The second result is used behind the loop: the loop gives it.
// CHECK-LABEL: func.func @multi
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]]:2 = scf.forall {{.*}} shared_outs(%{{.*}} = %arg3, %[[O:.*]] = %arg4)
// CHECK: %[[G:.*]]:2 = linalg.generic
// CHECK: tensor.parallel_insert_slice %[[G]]#1 into %[[O]]
// CHECK: return %[[R]]#0, %[[R]]#1
#map0 = affine_map<()[s0] -> (64 ceildiv s0)>
#map1 = affine_map<(d0)[s0] -> (d0 * s0)>
#map2 = affine_map<(d0)[s0] -> (-(d0 * s0) + 64, s0)>
#map3 = affine_map<(d0) -> (d0)>
module {
  func.func @multi(%idx: index, %in: tensor<64xf32>, %out_1: tensor<64xf32>, %out_2: tensor<64xf32>, %out_3: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    %0:2 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel"]} ins(%in : tensor<64xf32>) outs(%out_1, %out_3 : tensor<64xf32>, tensor<64xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %d = arith.addf %a, %b : f32
        %e = arith.addf %d, %c : f32
        linalg.yield %d, %e : f32, f32
    } -> (tensor<64xf32>, tensor<64xf32>)
    %1 = affine.apply #map0()[%idx]
    %2 = scf.forall (%i) in (%1) shared_outs(%o = %out_2) -> (tensor<64xf32>) {
      %3 = affine.apply #map1(%i)[%idx]
      %4 = affine.min #map2(%i)[%idx]
      %5 = tensor.extract_slice %o[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %6 = tensor.extract_slice %0#0[%3] [%4] [1] : tensor<64xf32> to tensor<?xf32>
      %7 = linalg.elemwise_unary ins(%6 : tensor<?xf32>) outs(%5 : tensor<?xf32>) -> tensor<?xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %7 into %o[%3] [%4] [1] : tensor<?xf32> into tensor<64xf32>
      }
    }
    func.return %2, %0#1 : tensor<64xf32>, tensor<64xf32>
  }
  transform.sequence failures(propagate) {
    ^bb1(%arg1: !transform.any_op):
      %0 = transform.structured.match ops{["linalg.generic"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %1 = transform.structured.match ops{["scf.forall"]} in %arg1 : (!transform.any_op) -> !transform.any_op
      %f, %n = transform.structured.fuse_into_containing_op %0 into %1
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
  }
}
