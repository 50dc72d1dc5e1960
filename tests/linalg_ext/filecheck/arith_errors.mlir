// RUN: byteir-opt %s --split-input-file --verify-diagnostics

func.func @floats(%a: i32) {
  // expected-error @below {{'arith.addf' op operand #0 must be floating-point-like, but got 'i32'}}
  %0 = arith.addf %a, %a : i32
  return
}

// -----

func.func @integers(%a: tensor<4xf32>) {
  // expected-error @below {{'arith.addi' op operand #0 must be signless-integer-like, but got 'tensor<4xf32>'}}
  %0 = arith.addi %a, %a : tensor<4xf32>
  return
}

// -----

func.func @wider(%a: f32) {
  // expected-error @below {{'arith.extf' op result type 'f16' must be wider than operand type 'f32'}}
  %0 = arith.extf %a : f32 to f16
  return
}

// -----

func.func @shorter(%a: tensor<2xi8>) {
  // expected-error @below {{'arith.trunci' op result type 'tensor<2xi32>' must be shorter than operand type 'tensor<2xi8>'}}
  %0 = arith.trunci %a : tensor<2xi8> to tensor<2xi32>
  return
}

// -----

func.func @bits(%a: f32) {
  // expected-error @below {{'arith.bitcast' op operand type 'f32' and result type 'i8' are cast incompatible}}
  %0 = arith.bitcast %a : f32 to i8
  return
}

// -----

func.func @indices(%a: i32) {
  // expected-error @below {{'arith.index_cast' op operand type 'i32' and result type 'i64' are cast incompatible}}
  %0 = arith.index_cast %a : i32 to i64
  return
}
