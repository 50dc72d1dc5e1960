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
  // expected-error @below {{dimension 2 is none of an input of rank 2}}
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
  // expected-error @below {{expects 'result' of type f32, found f64}}
  %0 = linalg_ext.alias(%x : f32) : f64
  return
}
