// RUN: byteir-opt %s --linalg-ext-bufferize --split-input-file | FileCheck %s

func.func @scan(%x: tensor<4x3xf32>, %a: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {
  %o = tensor.empty() : tensor<4x3xf32>
  %r:2 = linalg_ext.scan dimension(0) inclusive(true)
    ins(%x : tensor<4x3xf32>) outs(%o, %a : tensor<4x3xf32>, tensor<3xf32>) {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    linalg_ext.yield %s : f32
  } -> tensor<4x3xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<4x3xf32>, tensor<3xf32>
}
// CHECK-LABEL: func.func @scan
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>, %[[A:.*]]: tensor<3xf32>
// CHECK: %[[IN:.*]] = bufferization.to_memref %[[X]]
// CHECK: %[[OUT:.*]] = memref.alloc() : memref<4x3xf32>
// CHECK: %[[ACC:.*]] = memref.alloc() : memref<3xf32>
// CHECK: %[[OLD:.*]] = bufferization.to_memref %[[A]]
// CHECK: memref.copy %[[OLD]], %[[ACC]]
// CHECK: linalg_ext.scan dimension(0) inclusive(true) ins(%[[IN]] : memref<4x3xf32>) outs(%[[OUT]], %[[ACC]] : memref<4x3xf32>, memref<3xf32>)
// CHECK-DAG: bufferization.to_tensor %[[OUT]]
// CHECK-DAG: bufferization.to_tensor %[[ACC]]
// CHECK: return
