// RUN: byteir-opt %s --transform-dialect-interpreter --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @halves
// CHECK-SAME: (%[[A:.*]]: tensor<10xf32>)
// CHECK: %[[E:.*]] = tensor.empty() : tensor<10xf32>
// CHECK: %[[A0:.*]] = tensor.extract_slice %[[A]][0] [6] [1]
// CHECK: %[[E0:.*]] = tensor.extract_slice %[[E]][0] [6] [1]
// CHECK: %[[R0:.*]] = linalg.exp {first} ins(%[[A0]] : tensor<6xf32>) outs(%[[E0]] : tensor<6xf32>)
// CHECK: %[[I0:.*]] = tensor.insert_slice %[[R0]] into %[[E]][0] [6] [1]
// CHECK: %[[A1:.*]] = tensor.extract_slice %[[A]][6] [4] [1]
// CHECK: %[[E1:.*]] = tensor.extract_slice %[[I0]][6] [4] [1]
// CHECK: %[[R1:.*]] = linalg.exp {second} ins(%[[A1]] : tensor<4xf32>) outs(%[[E1]] : tensor<4xf32>)
// CHECK: %[[I1:.*]] = tensor.insert_slice %[[R1]] into %[[I0]][6] [4] [1]
// CHECK: return %[[I1]]
func.func @halves(%a: tensor<10xf32>) -> tensor<10xf32> {
  %0 = tensor.empty() : tensor<10xf32>
  %1 = linalg.exp ins(%a : tensor<10xf32>) outs(%0 : tensor<10xf32>) -> tensor<10xf32>
  return %1 : tensor<10xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1:2 = transform.structured.split %0 after 6 {dimension = 0 : i64} : !transform.any_op
  transform.annotate %1#0 "first" : !transform.any_op
  transform.annotate %1#1 "second" : !transform.any_op
}

// -----

// CHECK: #[[FIRST:.*]] = affine_map<()[s0] -> (6, s0)>
// CHECK: #[[REST:.*]] = affine_map<()[s0, s1] -> (s0 - s1)>
// CHECK-LABEL: func.func @at_a_parameter
// CHECK: %[[DIM:.*]] = tensor.dim
// CHECK: %[[N:.*]] = affine.min #[[FIRST]]()[%[[DIM]]]
// CHECK: %[[M:.*]] = affine.apply #[[REST]]()[%[[DIM]], %[[N]]]
// CHECK: linalg.exp ins(%{{.*}} : tensor<?xf32>)
// CHECK: linalg.exp ins(%{{.*}} : tensor<?xf32>)
func.func @at_a_parameter(%a: tensor<?xf32>) -> tensor<?xf32> {
  %1 = linalg.exp ins(%a : tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %at = transform.param.constant 6 : i64 -> !transform.param<i64>
  %1 = transform.structured.split %0 after %at {dimension = 0 : i64} : !transform.any_op, !transform.param<i64>
  %2:2 = transform.split_handle %1 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// CHECK: #[[SIZE:.*]] = affine_map<(d0) -> (-d0 + 10, 4)>
// CHECK: #[[HIGH:.*]] = affine_map<(d0) -> (-d0 + 4)>
// CHECK-LABEL: func.func @tiles_of_one_size
// CHECK: scf.for
// CHECK:   %[[N:.*]] = affine.min #[[SIZE]]
// CHECK:   %[[H:.*]] = affine.apply #[[HIGH]](%[[N]])
// CHECK:   %[[A:.*]] = tensor.pad %{{.*}} low[0] high[%[[H]]]
// CHECK:   } : tensor<?xf32> to tensor<4xf32>
// CHECK:   tensor.pad %{{.*}} nofold low[0] high[%{{.*}}]
// CHECK:   %[[R:.*]] = linalg.exp ins(%[[A]] : tensor<4xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK:   %[[C:.*]] = tensor.extract_slice %[[R]][0] [%[[N]]] [1]
// CHECK:   tensor.insert_slice %[[C]]
func.func @tiles_of_one_size(%a: tensor<10xf32>, %b: tensor<10xf32>) -> tensor<10xf32> {
  %1 = linalg.exp ins(%a : tensor<10xf32>) outs(%b : tensor<10xf32>) -> tensor<10xf32>
  return %1 : tensor<10xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %size = transform.param.constant 4 : i64 -> !transform.param<i64>
  %1, %loop = transform.structured.tile_using_for %0 tile_sizes [%size] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
  %2, %3, %4 = transform.structured.pad %1 {
    padding_values = [0.0 : f32, 0.0 : f32], padding_dimensions = [0], nofold_flags = [0, 1], copy_back_op = "none"
  } : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
}

// -----

// CHECK-LABEL: func.func @copies
// CHECK: %[[S:.*]] = tensor.extract_slice %{{.*}}[2] [4] [1] : tensor<10xf32> to tensor<4xf32>
// CHECK: %[[C:.*]] = linalg.copy {copied} ins(%{{.*}} : tensor<4xf32>) outs(%[[S]] : tensor<4xf32>) -> tensor<4xf32>
// CHECK: tensor.insert_slice %[[C]] into %{{.*}}[2] [4] [1]
func.func @copies(%a: tensor<4xf32>, %b: tensor<10xf32>) -> tensor<10xf32> {
  %0 = tensor.insert_slice %a into %b[2] [4] [1] : tensor<4xf32> into tensor<10xf32>
  return %0 : tensor<10xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["tensor.insert_slice"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.insert_slice_to_copy %0 : (!transform.any_op) -> !transform.any_op
  transform.annotate %1 "copied" : !transform.any_op
}

// -----

// CHECK-LABEL: func.func @in_place
// CHECK: %[[E:.*]] = tensor.empty() : tensor<7xf32>
// CHECK: %[[F:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%[[E]] : tensor<7xf32>)
// CHECK: tensor.insert_slice %{{.*}} into %[[F]][1] [4] [1]
// CHECK: %[[N:.*]] = tensor.empty(%{{.*}}) : tensor<?xindex>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}], iterator_types = ["parallel"]} outs(%[[N]] : tensor<?xindex>)
// CHECK:   %[[I:.*]] = linalg.index 0
// CHECK:   %[[J:.*]] = arith.addi %[[I]], %[[I]]
// CHECK:   linalg.yield %[[J]] : index
// CHECK: %[[T:.*]] = tensor.empty() : tensor<2xf32>
// CHECK: %[[T0:.*]] = tensor.insert %{{.*}} into %[[T]][%c0]
// CHECK: tensor.insert %{{.*}} into %[[T0]][%c1]
func.func @in_place(%a: tensor<4xf32>, %n: index, %x: f32) -> (tensor<7xf32>, tensor<?xindex>, tensor<2xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %a low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<7xf32>
  %1 = tensor.generate %n {
  ^bb0(%i: index):
    %j = arith.addi %i, %i : index
    tensor.yield %j : index
  } : tensor<?xindex>
  %2 = tensor.from_elements %x, %zero : tensor<2xf32>
  return %0, %1, %2 : tensor<7xf32>, tensor<?xindex>, tensor<2xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !transform.any_op):
  %0 = transform.structured.match ops{["tensor.pad", "tensor.generate", "tensor.from_elements"]} in %arg0 : (!transform.any_op) -> !transform.any_op
  %1 = transform.structured.rewrite_in_destination_passing_style %0 : (!transform.any_op) -> !transform.any_op
}

// -----

#none = affine_map<() -> ()>
// CHECK-LABEL: func.func @scalars
// CHECK-SAME: (%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>)
// CHECK-NEXT: %[[X:.*]] = tensor.extract %[[A]][] : tensor<f32>
// CHECK-NEXT: %[[Y:.*]] = tensor.extract %[[B]][] : tensor<f32>
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[X]], %[[Y]] : f32
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[S]], %[[S]] : f32
// CHECK-NEXT: %[[R:.*]] = tensor.from_elements %[[P]] : tensor<f32>
// CHECK-NEXT: return %[[R]]
func.func @scalars(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = tensor.empty() : tensor<f32>
  %1 = linalg.generic {indexing_maps = [#none, #none, #none], iterator_types = []} ins(%a, %b : tensor<f32>, tensor<f32>) outs(%0 : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %2 = arith.addf %x, %y : f32
    linalg.yield %2 : f32
  } -> tensor<f32>
  %3 = linalg.generic {indexing_maps = [#none, #none], iterator_types = []} ins(%1 : tensor<f32>) outs(%0 : tensor<f32>) {
  ^bb0(%x: f32, %out: f32):
    %4 = arith.mulf %x, %x : f32
    linalg.yield %4 : f32
  } -> tensor<f32>
  return %3 : tensor<f32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.generic"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  transform.structured.detensorize %0
}
