// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse | FileCheck %s

// An intermediate that is returned, too, is a result of the loops: it is not computed twice.

// CHECK-LABEL: func.func @fuse_element
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<512x128xf32>, %[[OUT:[a-z0-9]+]]: tensor<512x128xf32>
// CHECK: %[[L0:.*]]:2 = scf.for {{.*}} -> (tensor<512x128xf32>, tensor<512x128xf32>) {
// CHECK:   %[[L1:.*]]:2 = scf.for {{.*}} -> (tensor<512x128xf32>, tensor<512x128xf32>) {
// CHECK:     %[[U:.*]] = linalg.elemwise_unary {{.*}} -> tensor<32x32xf32>
// CHECK:     %[[B:.*]] = linalg.elemwise_binary {{.*}}ins(%[[U]], {{.*}} -> tensor<32x32xf32>
// CHECK-DAG: tensor.insert_slice %[[U]] into
// CHECK-DAG: tensor.insert_slice %[[B]] into
// CHECK:     scf.yield
// CHECK:   scf.yield %[[L1]]#0, %[[L1]]#1
// CHECK: }
// CHECK-NOT: linalg.elemwise_unary
// CHECK: return %[[L0]]#1, %[[L0]]#0
func.func @fuse_element(%arg0: tensor<512x128xf32>, %arg1: tensor<512x128xf32>) -> (tensor<512x128xf32>, tensor<512x128xf32>) {
  %0 = linalg.elemwise_unary ins(%arg0 : tensor<512x128xf32>)
                             outs(%arg1: tensor<512x128xf32>) -> tensor<512x128xf32>
  %1 = linalg.elemwise_binary ins(%0, %arg0 : tensor<512x128xf32>, tensor<512x128xf32>)
                             outs(%arg1: tensor<512x128xf32>) -> tensor<512x128xf32>
  return %0, %1 : tensor<512x128xf32>, tensor<512x128xf32>
}

transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.elemwise_binary"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loops:2 = transform.structured.fuse_ext %0 {tile_sizes = [32, 32], tile_interchange = [0, 1]}
  cleanup
}
