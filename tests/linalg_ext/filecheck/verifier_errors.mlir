// RUN: byteir-opt %s --split-input-file --verify-diagnostics

func.func @matmul(%a: tensor<5x6xf32>, %b: tensor<9x2xf32>, %c: tensor<5x2xf32>) {
  // expected-error @+1 {{'linalg.matmul' op inferred input/output operand #1 has shape's dimension #0 to be 6, but found 9}}
  %0 = linalg.matmul ins(%a, %b : tensor<5x6xf32>, tensor<9x2xf32>) outs(%c : tensor<5x2xf32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @missing_map(%a: tensor<5xf32>) {
  // expected-error @+1 {{'linalg.generic' op expected the number of indexing_map (1) to be equal to the number of input/output operands (2)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<5xf32>) outs(%a : tensor<5xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<5xf32>
  return
}

// -----

func.func @map_of_other_loops(%a: tensor<5xf32>) {
  // expected-error @+1 {{expected indexing_map #1 to have 1 dim(s) to match the number of loops}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<5xf32>) outs(%a : tensor<5xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<5xf32>
  return
}

// -----

func.func @yielded(%a: tensor<5xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<5xf32>) outs(%a : tensor<5xf32>) {
  ^bb0(%x: f32, %y: f32):
    // expected-error @+1 {{'linalg.yield' op expected number of yield values (2) to match the number of inits / outs operands of the enclosing LinalgOp (1)}}
    linalg.yield %x, %y : f32, f32
  } -> tensor<5xf32>
  return
}

// -----

func.func @argument(%a: tensor<5xf32>) {
  // expected-error @+1 {{expected type of bb argument #0 ('i8') to match element or self type of the corresponding operand ('f32')}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<5xf32>) outs(%a : tensor<5xf32>) {
  ^bb0(%x: i8, %y: f32):
    linalg.yield %y : f32
  } -> tensor<5xf32>
  return
}

// -----

func.func @broadcast(%a: tensor<5xf32>, %o: tensor<5x6xf32>) {
  // expected-error @+1 {{'linalg.broadcast' op input dim 0 should match init dim 1. input: 5, init: 6}}
  %0 = linalg.broadcast ins(%a : tensor<5xf32>) outs(%o : tensor<5x6xf32>) dimensions = [0]
  return
}

// -----

func.func @reduce(%a: tensor<5x6xf32>, %o: tensor<5xf32>) {
  // expected-error @+1 {{'linalg.reduce' op init dimensions [5] doesn't match input dimensions after reduction [6]}}
  %0 = linalg.reduce { arith.addf } ins(%a : tensor<5x6xf32>) outs(%o : tensor<5xf32>) dimensions = [0]
  return
}

// -----

func.func @transpose(%a: tensor<5x6xf32>, %o: tensor<5x6xf32>) {
  // expected-error @+1 {{'linalg.transpose' op dim(result, 0) = 5 doesn't match dim(input, permutation[0]) = 6}}
  %0 = linalg.transpose ins(%a : tensor<5x6xf32>) outs(%o : tensor<5x6xf32>) permutation = [1, 0]
  return
}

// -----

func.func @slice(%a: tensor<5x6xf32>) {
  // expected-error @+1 {{expected type to be 'tensor<2x3xf32>' or a rank-reduced version. (size mismatch)}}
  %0 = tensor.extract_slice %a[0, 0] [2, 3] [1, 1] : tensor<5x6xf32> to tensor<3xf32>
  return
}

// -----

func.func @load(%m: memref<5x6xf32>, %i: index) {
  // expected-error @+1 {{'memref.load' op incorrect number of indices for load, expected 2 but got 1}}
  %0 = memref.load %m[%i] : memref<5x6xf32>
  return
}

// -----

func.func @index() -> index {
  // expected-error @+1 {{'linalg.index' op expected parent op with LinalgOp interface}}
  %0 = linalg.index 0 : index
  return %0 : index
}

// -----

func.func @nothing(%x: f32) -> f32 {
  // expected-error @+1 {{'func.return' op has 0 operands, but enclosing function (@nothing) returns 1}}
  return
}

// -----

func.func @scatter(%at: tensor<5x2xi32>, %new: tensor<7x4xf32>, %old: tensor<3x9x4xf32>) {
  // expected-error @+1 {{'linalg_ext.scatter' op expected the first `indicesRank - 1` dimensions of indices/update to be compatible}}
  %0 = linalg_ext.scatter ins(%at, %new : tensor<5x2xi32>, tensor<7x4xf32>) outs(%old : tensor<3x9x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg_ext.yield %b : f32
  } -> tensor<3x9x4xf32>
  return
}

// -----

func.func @layout(%a: tensor<2x3x3xf32>) {
  // expected-error @+1 {{expected batch_matmul layout to be among nn, nt, tn, tt}}
  %0 = linalg_ext.batch_matmul ins(%a, %a : tensor<2x3x3xf32>, tensor<2x3x3xf32>) outs(%a : tensor<2x3x3xf32>) layout = "mn"
  return
}

// -----

func.func @reductions_without_bodies(%n: index, %x: f32) -> f32 {
  // expected-error @below {{op expects number of results: 1 to be the same as number of reductions: 0}}
  %0 = scf.parallel (%i) = (%n) to (%n) step (%n) init (%x) -> f32 {
    scf.reduce
  }
  return %0 : f32
}

// -----

func.func @rank_of_what_is_joined(%a: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<8x3xf32> {
  // expected-error @below {{op rank of concatenated inputs must match result rank}}
  %0 = tensor.concat dim(0) %a, %b : (tensor<4x3xf32>, tensor<4xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// -----

func.func @dimension_of_what_is_joined(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{op concatenation dim must be less than the tensor rank}}
  %0 = tensor.concat dim(2) %a : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @tiles_that_are_not_full(%a: tensor<7xf32>, %b: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{op invalid tile factor or output size provided. Only full tiles are supported when padding_value is not set}}
  %0 = tensor.pack %a inner_dims_pos = [0] inner_tiles = [4] into %b : tensor<7xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @too_few_tiles(%a: tensor<9xf32>, %b: tensor<2x4xf32>, %p: f32) -> tensor<2x4xf32> {
  // expected-error @below {{op the shape of output is not large enough to hold the packed data. Expected at least 'tensor<3x4xf32>', got 'tensor<2x4xf32>'}}
  %0 = tensor.pack %a padding_value(%p : f32) inner_dims_pos = [0] inner_tiles = [4] into %b : tensor<9xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @far_from_the_cache(%m: memref<4xf32>, %i: index) {
  // expected-error @below {{op expects a locality between 0 and 3, found 7 : i32}}
  "memref.prefetch"(%m, %i) {isWrite = false, localityHint = 7 : i32, isDataCache = true} : (memref<4xf32>, index) -> ()
  return
}
