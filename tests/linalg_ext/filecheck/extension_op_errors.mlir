// RUN: byteir-opt %s --split-input-file --verify-diagnostics

func.func @rank_of_maximum(%x: tensor<3x4xf32>, %r: tensor<3x4xf32>) {
  // expected-error @below {{'linalg_ext.softmax' op expected max/accumulator/scale rank to be equal to input rank - 1}}
  %0:4 = linalg_ext.softmax dimension(1) ins(%x : tensor<3x4xf32>) outs(%x, %r, %r, %r : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
  return
}

// -----

func.func @one_output_of_softmax(%x: tensor<3x4xf32>) {
  // expected-error @below {{expected 4 output operands, found 1}}
  %0 = linalg_ext.softmax dimension(1) ins(%x : tensor<3x4xf32>) outs(%x : tensor<3x4xf32>) : tensor<3x4xf32>
  return
}

// -----

func.func @dimension_of_softmax(%x: tensor<3x4xf32>, %r: tensor<3xf32>) {
  // expected-error @below {{dimension exceeds rank: 2, for an input of rank 2}}
  %0:4 = linalg_ext.softmax dimension(2) ins(%x : tensor<3x4xf32>) outs(%x, %r, %r, %r : tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) : tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return
}

// -----

func.func @elements_of_scan(%x: tensor<6xf32>, %o: tensor<6xf32>, %last: tensor<f64>) {
  // expected-error @below {{'linalg_ext.scan' op expected input/accumulator element types to be identical}}
  %0:2 = linalg_ext.scan dimension(0) inclusive(true) ins(%x : tensor<6xf32>) outs(%o, %last : tensor<6xf32>, tensor<f64>) {
  ^bb0(%a: f32, %b: f32):
    linalg_ext.yield %a : f32
  } -> tensor<6xf32>, tensor<f64>
  return
}

// -----

func.func @depth_of_scatter(%at: tensor<5x?xi64>, %new: tensor<5x4xf32>, %old: tensor<9x4xf32>) {
  // expected-error @below {{the last dimension of indices must be static}}
  %0 = linalg_ext.scatter ins(%at, %new : tensor<5x?xi64>, tensor<5x4xf32>) outs(%old : tensor<9x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg_ext.yield %b : f32
  } -> tensor<9x4xf32>
  return
}

// -----

func.func @indices_of_scatter(%at: tensor<5x1xf32>, %new: tensor<5x4xf32>, %old: tensor<9x4xf32>) {
  // expected-error @below {{expected indices element type to be int or index}}
  %0 = linalg_ext.scatter ins(%at, %new : tensor<5x1xf32>, tensor<5x4xf32>) outs(%old : tensor<9x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg_ext.yield %b : f32
  } -> tensor<9x4xf32>
  return
}

// -----

func.func @order_of_topk(%x: tensor<20xf32>, %v: tensor<3xf32>, %i: tensor<3xi32>) {
  // expected-error @below {{expected the region to yield one i1}}
  %0:2 = linalg_ext.topk dimension(0) ins(%x : tensor<20xf32>) outs(%v, %i : tensor<3xf32>, tensor<3xi32>) {
  ^bb0(%a: f32, %b: f32):
    linalg_ext.yield %a : f32
  } -> tensor<3xf32>, tensor<3xi32>
  return
}

// -----

func.func @square(%d: tensor<5xf32>, %o: tensor<5x6xf32>) {
  // expected-error @below {{expected square matrices, found 5 rows and 6 columns}}
  %0 = linalg_ext.diag ins(%d : tensor<5xf32>) outs(%o : tensor<5x6xf32>) : tensor<5x6xf32>
  return
}

// -----

func.func @other_type(%x: f32) {
  // expected-error @below {{expected same type of operand and result}}
  %0 = linalg_ext.alias(%x : f32) : f64
  return
}

// -----

func.func @values_of_topk(%x: tensor<20xf32>, %v: tensor<3xf16>, %i: tensor<3xi32>) {
  // expected-error @below {{'linalg_ext.topk' op expected input/output value types to be identical}}
  %0:2 = linalg_ext.topk dimension(0) ins(%x : tensor<20xf32>) outs(%v, %i : tensor<3xf16>, tensor<3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<3xf16>, tensor<3xi32>
  return
}

// -----

func.func @places_of_topk(%x: tensor<20xf32>, %v: tensor<3xf32>, %i: tensor<4xi32>) {
  // expected-error @below {{'linalg_ext.topk' op output indices/values shape must match}}
  %0:2 = linalg_ext.topk dimension(0) ins(%x : tensor<20xf32>) outs(%v, %i : tensor<3xf32>, tensor<4xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<3xf32>, tensor<4xi32>
  return
}

// -----

func.func @rows_of_topk(%x: tensor<2x20xf32>, %v: tensor<3x4xf32>, %i: tensor<3x4xi32>) {
  // expected-error @below {{'linalg_ext.topk' op incompatible input/output shapes}}
  %0:2 = linalg_ext.topk dimension(1) ins(%x : tensor<2x20xf32>) outs(%v, %i : tensor<3x4xf32>, tensor<3x4xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<3x4xf32>, tensor<3x4xi32>
  return
}

// -----

func.func @batch_sizes(%a: tensor<3x4x5xf32>, %b: tensor<2x5x6xf32>, %c: tensor<3x4x6xf32>) -> tensor<3x4x6xf32> {
  // expected-error @below {{batch size' dimension sizes don't match}}
  %0 = linalg_ext.batch_matmul ins(%a, %b : tensor<3x4x5xf32>, tensor<2x5x6xf32>) outs(%c : tensor<3x4x6xf32>) layout = "nn"
  return %0 : tensor<3x4x6xf32>
}

// -----

func.func @batch_matrices(%a: tensor<3x4x5xf32>, %b: tensor<3x5x6xf32>, %c: tensor<3x4x6xf32>) -> tensor<3x4x6xf32> {
  // expected-error @below {{batch matmul dimension mismatch}}
  %0 = linalg_ext.batch_matmul ins(%a, %b : tensor<3x4x5xf32>, tensor<3x5x6xf32>) outs(%c : tensor<3x4x6xf32>) layout = "nt"
  return %0 : tensor<3x4x6xf32>
}

// -----

func.func @weights(%a: tensor<4x8xf32>, %w: tensor<8xf64>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{expected input/weight/bias/output element types to be identical}}
  %0 = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%a, %w, %w : tensor<4x8xf32>, tensor<8xf64>, tensor<8xf64>) outs(%o : tensor<4x8xf32>) : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @weight_ranks(%a: tensor<4x8xf32>, %w: tensor<4x8xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{expected weight/bias rank to be equal to axis size}}
  %0 = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%a, %w, %w : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @weight_sizes(%a: tensor<4x8xf32>, %w: tensor<4xf32>, %o: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{incompatible input/weight/bias shapes}}
  %0 = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%a, %w, %w : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4x8xf32>) : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @outputs(%a: tensor<4x8xf32>, %o: tensor<4x9xf32>) -> tensor<4x9xf32> {
  // expected-error @below {{incompatible input/output shapes}}
  %0 = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%a : tensor<4x8xf32>) outs(%o : tensor<4x9xf32>) : tensor<4x9xf32>
  return %0 : tensor<4x9xf32>
}
