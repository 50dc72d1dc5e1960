// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize-ext --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @fuse_dictionary
// CHECK: scf.for {{.*}} to %c18 step %c9
// CHECK:   scf.for {{.*}} to %c24 step %c8
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
func.func @fuse_dictionary(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %1 = transform.structured.match attributes{last} in %root : (!pdl.operation) -> !pdl.operation
  %2, %loops:2 = transform.structured.fuse %1 {tile_sizes = [8, 9], tile_interchange = [1, 0]}
}

// -----

// CHECK-LABEL: func.func @fuse_words
// CHECK: scf.for {{.*}} to %c18 step %c9
// CHECK:   scf.for {{.*}} to %c24 step %c8
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
module attributes {transform.with_named_sequence} {
  func.func @fuse_words(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %2, %loops:2 = transform.structured.fuse %1 tile_sizes [8, 9] interchange [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @fuse_and_clean
// CHECK: scf.for {{.*}} to %c24 step %c8
// CHECK:   scf.for {{.*}} to %c18 step %c9
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
module attributes {transform.with_named_sequence} {
  func.func @fuse_and_clean(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %2, %loops:2 = transform.structured.fuse %1 tile_sizes [8, 9] {apply_cleanup} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @fuse_properties
// CHECK: scf.for {{.*}} to %c24 step %c8
// CHECK:   scf.for {{.*}} to %c18 step %c9
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
module attributes {transform.with_named_sequence} {
  func.func @fuse_properties(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
    %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
    return %1 : tensor<24x18xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
    %2, %loops:2 = "transform.structured.fuse"(%1) <{tile_interchange = [], tile_sizes = [8, 9]}> : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// CHECK-LABEL: func.func @fuse_ext_words
// CHECK: scf.for {{.*}} to %c18 step %c9
// CHECK:   scf.for {{.*}} to %c24 step %c8
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
func.func @fuse_ext_words(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
  %2, %loops:2 = transform.structured.fuse_ext %1 {tile_interchange = [1, 0], tile_sizes = [8, 9]}
}

// -----

// CHECK-LABEL: func.func @fuse_ext_types
// CHECK: scf.for {{.*}} to %c24 step %c8
// CHECK:   scf.for {{.*}} to %c18 step %c9
// CHECK:     linalg.exp {first} ins({{.*}} : tensor<8x9xf32>)
// CHECK:     linalg.log {last} ins({{.*}} : tensor<8x9xf32>)
func.func @fuse_ext_types(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %1 = transform.structured.match attributes{last} in %root : (!transform.any_op) -> !transform.any_op
  %2, %loops:2 = transform.structured.fuse_ext %1 {tile_sizes = [8, 9], tile_interchange = []} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// CHECK-LABEL: func.func @fuse_ext_stop
// CHECK: linalg.exp {first} ins(%arg0 : tensor<24x18xf32>)
// CHECK: scf.for
// CHECK-NOT: linalg.exp
// CHECK: linalg.log {last} ins({{.*}} : tensor<8x18xf32>)
func.func @fuse_ext_stop(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match attributes{first} in %root : (!pdl.operation) -> !pdl.operation
  %1 = transform.structured.match attributes{last} in %root : (!pdl.operation) -> !pdl.operation
  %2, %loop = transform.structured.fuse_ext %1, %0 {tile_sizes = [8, 0], tile_interchange = []}
}

// -----

// CHECK-LABEL: func.func @fuse_ext_keep
// CHECK: %[[BOTH:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %arg1, %{{.*}} = %arg1)
// CHECK: linalg.exp
// CHECK: linalg.log
// CHECK: scf.yield %{{.*}}, %{{.*}} : tensor<24x18xf32>, tensor<24x18xf32>
// CHECK: return %[[BOTH]]#0
func.func @fuse_ext_keep(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %1 = transform.structured.match attributes{last} in %root : (!pdl.operation) -> !pdl.operation
  %2, %loop = transform.structured.fuse_ext %1 {tile_sizes = [8], tile_interchange = [], keep_intermediates = true}
}

// -----

// CHECK-LABEL: func.func @fuse_operands
// CHECK: scf.for {{.*}} to %c3 step %c1
// CHECK: linalg.exp {first} ins({{.*}} : tensor<8x18xf32>)
// CHECK: linalg.log {last}
func.func @fuse_operands(%a: tensor<24x18xf32>, %o: tensor<24x18xf32>) -> tensor<24x18xf32> {
  %0 = linalg.exp {first} ins(%a : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  %1 = linalg.log {last} ins(%0 : tensor<24x18xf32>) outs(%o : tensor<24x18xf32>) -> tensor<24x18xf32>
  return %1 : tensor<24x18xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !pdl.operation):
  %0 = transform.structured.match ops {["func.return"]} in %root : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.fuse_operands %0 {tile_nums = [3], tile_interchange = [], use_distributed = [], expect_whole_graph_fusion = true}
}
