// RUN: byteir-opt %s --transform-interpreter --split-input-file | FileCheck %s
// RUN: byteir-opt %s --split-input-file | FileCheck %s --check-prefix=TEXT

// Each op gets the mark of the first matcher that it answers.
// CHECK-LABEL: func.func @ops
// CHECK: linalg.matmul {contraction, n = 1 : i64}
// CHECK: linalg.generic {{.*}} attrs =  {rows}
// CHECK: linalg.generic {{.*}} attrs =  {copy}
// CHECK: linalg.exp {wide} ins(%{{.*}} : tensor<4x4xf64>)
// CHECK: linalg.exp ins(%{{.*}} : tensor<4x4xf32>)

// TEXT: transform.match.structured failures(propagate) %{{.*}} : (!transform.any_op) -> !transform.param<i64> {
// TEXT: transform.match.structured.body %{{.*}} {contraction = ["arith.mulf", "arith.addf"]} : !transform.any_op
// TEXT: transform.match.structured.dim %{{.*}}[except(-1)] {parallel} : !transform.any_op
// TEXT: transform.match.structured.dim %{{.*}}[-1] : (!transform.any_op) -> !transform.param<i64>
// TEXT: transform.match.param.cmpi ge %{{.*}}, %{{.*}} : !transform.param<i64>
#map = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
module attributes {transform.with_named_sequence} {
  func.func @ops(%a: tensor<4x4xf32>, %r: tensor<4xf32>, %w: tensor<4x4xf64>)
      -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf64>, tensor<4x4xf32>) {
    %0 = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = linalg.generic {indexing_maps = [#map, #rows], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<4x4xf32>) outs(%r : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %m = arith.maximumf %in, %out : f32
      linalg.yield %m : f32
    } -> tensor<4xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
        ins(%a : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<4x4xf32>
    %3 = linalg.exp ins(%w : tensor<4x4xf64>) outs(%w : tensor<4x4xf64>) -> tensor<4x4xf64>
    %4 = linalg.exp ins(%a : tensor<4x4xf32>) outs(%a : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0, %1, %2, %3, %4 : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf64>, tensor<4x4xf32>
  }
  transform.named_sequence @is_contraction(%arg0: !transform.any_op {transform.readonly}) -> (!transform.any_op, !transform.param<i64>) {
    %n = transform.match.structured failures(propagate) %arg0 : (!transform.any_op) -> !transform.param<i64> {
    ^bb0(%op: !transform.any_op):
      transform.match.structured.body %op {contraction = ["arith.mulf", "arith.addf"]} : !transform.any_op
      %b, %m, %n, %k = transform.match.structured.classify_contraction_dims %op
        : (!transform.any_op) -> (!transform.param<i64>, !transform.param<i64>, !transform.param<i64>, !transform.param<i64>)
      transform.match.structured.yield %n : !transform.param<i64>
    }
    transform.yield %arg0, %n : !transform.any_op, !transform.param<i64>
  }
  transform.named_sequence @is_reduction(%arg0: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %0 = transform.match.structured failures(propagate) %arg0 : (!transform.any_op) -> !transform.any_op {
    ^bb0(%op: !transform.any_op):
      %one = transform.param.constant 1 : i64 -> !transform.param<i64>
      %count = transform.match.structured.num_inputs %op : (!transform.any_op) -> !transform.param<i64>
      transform.match.param.cmpi eq %count, %one : !transform.param<i64>
      transform.match.structured.dim %op[except(-1)] {parallel} : !transform.any_op
      transform.match.structured.dim %op[-1] {reduction} : !transform.any_op
      transform.match.structured.body %op {reduction_position = 0} : !transform.any_op
      transform.match.structured.init %op[0] {projected_permutation} : !transform.any_op
      transform.match.structured.yield %op : !transform.any_op
    }
    transform.yield %0 : !transform.any_op
  }
  transform.named_sequence @is_copy(%arg0: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.structured %arg0 : !transform.any_op {
    ^bb0(%op: !transform.any_op):
      transform.match.structured.body %op {passthrough} : !transform.any_op
      transform.match.structured.input %op[all] {permutation} : !transform.any_op
      transform.match.structured.yield
    }
    transform.yield %arg0 : !transform.any_op
  }
  transform.named_sequence @is_wide(%arg0: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %0 = transform.match.structured failures(propagate) %arg0 : (!transform.any_op) -> !transform.any_op {
    ^bb0(%op: !transform.any_op):
      transform.match.structured.body %op {elementwise} : !transform.any_op
      %rank = transform.match.structured.rank %op : (!transform.any_op) -> !transform.param<i64>
      %last = transform.match.structured.dim %op[-1] : (!transform.any_op) -> !transform.param<i64>
      transform.match.param.cmpi ge %last, %rank : !transform.param<i64>
      %value = transform.match.structured.input %op[0] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %value : (!transform.any_value) -> !transform.param<i64>
      %wide = transform.param.constant 64 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %wide : !transform.param<i64>
      transform.match.structured.yield %op : !transform.any_op
    }
    transform.yield %0 : !transform.any_op
  }
  transform.named_sequence @contraction(%op: !transform.any_op {transform.readonly}, %n: !transform.param<i64> {transform.readonly}) {
    transform.annotate %op "contraction" : !transform.any_op
    transform.annotate %op "n" = %n : !transform.any_op, !transform.param<i64>
    transform.yield
  }
  transform.named_sequence @rows(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "rows" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @copy(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "copy" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @wide(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "wide" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %0 = transform.foreach_match in %root
        @is_contraction -> @contraction, @is_reduction -> @rows, @is_copy -> @copy, @is_wide -> @wide
        : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
