// RUN: byteir-opt %s --transform-dialect-interpreter --split-input-file --verify-diagnostics --allow-unregistered-dialect

func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  // expected-error @below {{cannot be tiled}}
  %1, %loop = transform.structured.tile_ext %0 [4]
}

// -----

func.func @consumed(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_ext %0 [4]
  // expected-error @+1 {{uses a handle that 'transform.structured.tile_ext' (line 22) has consumed}}
  %2, %loop2 = transform.structured.tile_ext %0 [2]
}

// -----

func.func @suppressed(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
transform.sequence failures(suppress) {
^bb0(%arg0: !pdl.operation):
  %0 = transform.structured.match ops{["func.return"]} in %arg0 : (!pdl.operation) -> !pdl.operation
  %1, %loop = transform.structured.tile_ext %0 [4]
}

// -----

transform.sequence failures(propagate) {
^bb0(%arg0: !pdl.operation):
  // expected-error @below {{unknown transform operation 'transform.structured.pad'}}
  %1 = "transform.structured.pad"(%arg0) : (!pdl.operation) -> !pdl.operation
}
