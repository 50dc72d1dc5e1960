// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @left
// CHECK: %[[E:.*]] = tensor.empty() : tensor<8x4xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%arg0 : tensor<4x8xf32>) outs(%[[E]] : tensor<8x4xf32>) permutation = [1, 0]
// CHECK: linalg.matmul_transpose_a ins(%[[T]], %arg1 : tensor<8x4xf32>, tensor<8x3xf32>)
func.func @left(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %o: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x3xf32>) outs(%o : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.transpose_matmul %0 : (!transform.any_op) -> !transform.any_op
}

// -----

// CHECK-LABEL: func.func @windows
// CHECK: %[[COLUMNS:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<1x6x4xf32>) attrs = {columns}
// CHECK: tensor.extract %arg0
// CHECK: linalg.generic {{.*}} ins(%[[COLUMNS]], %{{.*}} : tensor<1x6x4xf32>, tensor<4x2xf32>)
// CHECK: tensor.expand_shape {{.*}} {result}
func.func @windows(%a: tensor<1x4x3x1xf32>, %w: tensor<2x2x1x2xf32>, %o: tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%a, %w : tensor<1x4x3x1xf32>, tensor<2x2x1x2xf32>)
    outs(%o : tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  return %0 : tensor<1x3x2x2xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.conv_2d_nhwc_hwcf"]} in %root : (!transform.any_op) -> !transform.any_op
  %columns, %result = transform.structured.convert_conv2d_to_img2col %0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  transform.annotate %columns "columns" : !transform.any_op
  transform.annotate %result "result" : !transform.any_op
}

// -----

// CHECK-LABEL: func.func @parallel
// CHECK: scf.parallel (%[[I:.*]], %[[J:.*]]) = (%c0, %c0{{.*}}) to (%c4, %c2) step (%c1, %c1{{.*}}) {
// CHECK:   memref.store %{{.*}}, %arg0[%[[I]], %[[J]]]
// CHECK:   scf.reduce
func.func @parallel(%m: memref<4x2xf32>, %x: f32) {
  scf.forall (%i, %j) in (4, 2) {
    memref.store %x, %m[%i, %j] : memref<4x2xf32>
  }
  return
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %0 = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %1 = transform.loop.forall_to_parallel %0 : (!transform.any_op) -> !transform.any_op
}

// -----

// CHECK-LABEL: func.func @branch
// CHECK-NOT: scf.if
// CHECK: %[[X:.*]] = arith.mulf
// CHECK-NEXT: return %[[X]]
func.func @branch(%c: i1, %x: f32) -> f32 {
  %0 = scf.if %c -> f32 {
    %1 = arith.addf %x, %x : f32
    scf.yield %1 : f32
  } else {
    %1 = arith.mulf %x, %x : f32
    scf.yield %1 : f32
  }
  return %0 : f32
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %0 = transform.structured.match ops{["scf.if"]} in %root : (!transform.any_op) -> !transform.any_op
  transform.scf.take_assumed_branch %0 take_else_branch : (!transform.any_op) -> ()
}
