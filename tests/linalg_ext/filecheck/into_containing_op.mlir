// RUN: xjit-linalg %s --transform-dialect-interpreter --split-input-file | FileCheck %s

// A band of rows needs only that band of the product. All of the weights are read for each band.
// CHECK-LABEL: func.func @bands_of_a_product
// CHECK-SAME: %[[IMAGE:[a-z0-9]+]]: tensor<48x20xf32>, %[[WEIGHTS:[a-z0-9]+]]: tensor<20x12xf32>, %[[SUM:[a-z0-9]+]]: tensor<48x12xf32>
// CHECK-NOT: linalg.matmul
// CHECK: scf.forall (%[[ROW:.*]]) = (0) to (48) step (6)
// CHECK-DAG: %[[BAND:.*]] = tensor.extract_slice %[[IMAGE]][%[[ROW]], 0] [6, 20] [1, 1]
// CHECK-DAG: %[[START:.*]] = tensor.extract_slice %[[SUM]][%[[ROW]], 0] [6, 12] [1, 1]
// CHECK: %[[PART:.*]] = linalg.matmul ins(%[[BAND]], %[[WEIGHTS]] : tensor<6x20xf32>, tensor<20x12xf32>) outs(%[[START]] :
// CHECK: linalg.exp ins(%[[PART]] : tensor<6x12xf32>)
func.func @bands_of_a_product(%image: tensor<48x20xf32>, %weights: tensor<20x12xf32>, %sum: tensor<48x12xf32>, %room: tensor<48x12xf32>) -> tensor<48x12xf32> {
  %product = linalg.matmul ins(%image, %weights : tensor<48x20xf32>, tensor<20x12xf32>) outs(%sum : tensor<48x12xf32>) -> tensor<48x12xf32>
  %grown = scf.forall (%row) = (0) to (48) step (6) shared_outs(%target = %room) -> (tensor<48x12xf32>) {
    %band = tensor.extract_slice %product[%row, 0] [6, 12] [1, 1] : tensor<48x12xf32> to tensor<6x12xf32>
    %place = tensor.extract_slice %target[%row, 0] [6, 12] [1, 1] : tensor<48x12xf32> to tensor<6x12xf32>
    %power = linalg.exp ins(%band : tensor<6x12xf32>) outs(%place : tensor<6x12xf32>) -> tensor<6x12xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %power into %target[%row, 0] [6, 12] [1, 1] : tensor<6x12xf32> into tensor<48x12xf32>
    }
  }
  return %grown : tensor<48x12xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %producer = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// Iterations write into the same space, all of it. Each gets space of its own.
// CHECK-LABEL: func.func @space_for_each_signal
// CHECK-SAME: %[[BINS:[a-z0-9]+]]: index
// CHECK-NOT: tensor.empty
// CHECK: scf.forall (%[[SIGNAL:.*]]) in (9)
// CHECK: %[[SPACE:.*]] = tensor.empty(%[[BINS]]) : tensor<2x?xf64>
// CHECK: linalg.broadcast ins(%{{.*}} : tensor<2xf64>) outs(%[[SPACE]] : tensor<2x?xf64>) dimensions = [1]
func.func @space_for_each_signal(%bins: index, %levels: tensor<9x2xf64>, %tones: tensor<2x?xf64>, %room: tensor<9x2xf64>) -> tensor<9x2xf64> {
  %space = tensor.empty(%bins) : tensor<2x?xf64>
  %sums = scf.forall (%signal) in (9) shared_outs(%all = %room) -> (tensor<9x2xf64>) {
    %level = tensor.extract_slice %levels[%signal, 0] [1, 2] [1, 1] : tensor<9x2xf64> to tensor<2xf64>
    %place = tensor.extract_slice %all[%signal, 0] [1, 2] [1, 1] : tensor<9x2xf64> to tensor<2xf64>
    %wide = linalg.broadcast ins(%level : tensor<2xf64>) outs(%space : tensor<2x?xf64>) dimensions = [1]
    %heard = linalg.map { arith.mulf } ins(%tones, %wide : tensor<2x?xf64>, tensor<2x?xf64>) outs(%wide : tensor<2x?xf64>)
    %sum = linalg.reduce { arith.addf } ins(%heard : tensor<2x?xf64>) outs(%place : tensor<2xf64>) dimensions = [1]
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %sum into %all[%signal, 0] [1, 2] [1, 1] : tensor<2xf64> into tensor<9x2xf64>
    }
  }
  return %sums : tensor<9x2xf64>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %producer = transform.structured.match ops{["tensor.empty"]} in %root : (!transform.any_op) -> !transform.any_op
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %inside, %same = transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// All iterations use the whole window. It is computed again for each signal, on all of its samples.
// CHECK-LABEL: func.func @window_for_each_signal
// CHECK-SAME: %[[SLOPE:[a-z0-9]+]]: tensor<250xf32>
// CHECK-NOT: linalg.exp
// CHECK: scf.forall (%{{.*}}) in (9)
// CHECK: %[[WINDOW:.*]] = linalg.exp ins(%[[SLOPE]] : tensor<250xf32>) outs(%[[SLOPE]] : tensor<250xf32>)
// CHECK: linalg.map { arith.mulf } ins(%{{.*}}, %[[WINDOW]] :
func.func @window_for_each_signal(%slope: tensor<250xf32>, %signals: tensor<9x250xf32>) -> tensor<9x250xf32> {
  %window = linalg.exp ins(%slope : tensor<250xf32>) outs(%slope : tensor<250xf32>) -> tensor<250xf32>
  %weighted = scf.forall (%signal) in (9) shared_outs(%all = %signals) -> (tensor<9x250xf32>) {
    %one = tensor.extract_slice %all[%signal, 0] [1, 250] [1, 1] : tensor<9x250xf32> to tensor<250xf32>
    %scaled = linalg.map { arith.mulf } ins(%one, %window : tensor<250xf32>, tensor<250xf32>) outs(%one : tensor<250xf32>)
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %scaled into %all[%signal, 0] [1, 250] [1, 1] : tensor<250xf32> into tensor<9x250xf32>
    }
  }
  return %weighted : tensor<9x250xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %producer = transform.structured.match ops{["linalg.exp"]} in %root : (!transform.any_op) -> !transform.any_op
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %inside, %same = transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// The loop takes a line of a picture of a stack: two of three dimensions are dropped behind the tile, not in it.
// CHECK-LABEL: func.func @lines_of_a_stack
// CHECK: scf.forall (%[[P:.*]], %[[L:.*]]) in (3, 7)
// CHECK: %[[TILE:.*]] = linalg.map { math.absi } ins(%{{.*}} : tensor<1x1x11xi32>)
// CHECK-NEXT: %[[LINE:.*]] = tensor.extract_slice %[[TILE]][0, 0, 0] [1, 1, 11] [1, 1, 1] : tensor<1x1x11xi32> to tensor<11xi32>
// CHECK: linalg.map { arith.addi } ins(%[[LINE]], %[[LINE]] :
func.func @lines_of_a_stack(%stack: tensor<3x7x11xi32>, %room: tensor<3x7x11xi32>) -> tensor<3x7x11xi32> {
  %sizes = linalg.map { math.absi } ins(%stack : tensor<3x7x11xi32>) outs(%stack : tensor<3x7x11xi32>)
  %doubled = scf.forall (%picture, %row) in (3, 7) shared_outs(%target = %room) -> (tensor<3x7x11xi32>) {
    %line = tensor.extract_slice %sizes[%picture, %row, 0] [1, 1, 11] [1, 1, 1] : tensor<3x7x11xi32> to tensor<11xi32>
    %place = tensor.extract_slice %target[%picture, %row, 0] [1, 1, 11] [1, 1, 1] : tensor<3x7x11xi32> to tensor<11xi32>
    %twice = linalg.map { arith.addi } ins(%line, %line : tensor<11xi32>, tensor<11xi32>) outs(%place : tensor<11xi32>)
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %twice into %target[%picture, %row, 0] [1, 1, 11] [1, 1, 1] : tensor<11xi32> into tensor<3x7x11xi32>
    }
  }
  return %doubled : tensor<3x7x11xi32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %maps = transform.structured.match ops{["linalg.map"]} in %root : (!transform.any_op) -> !transform.any_op
  %producer, %rest = transform.split_handle %maps : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %inside, %same = transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// The loop writes into the widened samples. It starts with the room for them instead, and widens block by block.
// The last of the blocks is shorter where %block does not divide the number of samples.
// CHECK-LABEL: func.func @widen_in_place
// CHECK-SAME: %[[RAW:[a-z0-9]+]]: tensor<2x100xf16>, %[[ROOM:[a-z0-9]+]]: tensor<2x100xf32>
// CHECK-NOT: linalg.generic
// CHECK: scf.forall (%[[ID:.*]]) in (%{{.*}}) shared_outs(%[[ALL:.*]] = %[[ROOM]])
// CHECK: %[[LENGTH:.*]] = affine.min #{{.*}}(%[[ID]])
// CHECK: %[[AT:.*]] = affine.apply #{{.*}}(%[[ID]])
// CHECK: %[[NARROW:.*]] = tensor.extract_slice %[[RAW]][0, %[[AT]]] [2, %[[LENGTH]]] [1, 1]
// CHECK: %[[PART:.*]] = tensor.extract_slice %[[ALL]][0, %[[AT]]] [2, %[[LENGTH]]] [1, 1]
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[NARROW]] : {{.*}}) outs(%[[PART]] : tensor<2x?xf32>)
// CHECK: linalg.exp ins(%[[WIDE]] : tensor<2x?xf32>) outs(%[[WIDE]] : tensor<2x?xf32>)
#same = affine_map<(channel, time) -> (channel, time)>
#blocks = affine_map<()[block] -> (100 ceildiv block)>
#first = affine_map<(id)[block] -> (block * id)>
#length = affine_map<(id)[block] -> (block, 100 - block * id)>
func.func @widen_in_place(%raw: tensor<2x100xf16>, %room: tensor<2x100xf32>, %block: index) -> tensor<2x100xf32> {
  %wide = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%raw : tensor<2x100xf16>) outs(%room : tensor<2x100xf32>) {
  ^bb0(%narrow: f16, %old: f32):
    %sample = arith.extf %narrow : f16 to f32
    linalg.yield %sample : f32
  } -> tensor<2x100xf32>
  %count = affine.apply #blocks()[%block]
  %result = scf.forall (%id) in (%count) shared_outs(%all = %wide) -> (tensor<2x100xf32>) {
    %length = affine.min #length(%id)[%block]
    %at = affine.apply #first(%id)[%block]
    %part = tensor.extract_slice %all[0, %at] [2, %length] [1, 1] : tensor<2x100xf32> to tensor<2x?xf32>
    %power = linalg.exp ins(%part : tensor<2x?xf32>) outs(%part : tensor<2x?xf32>) -> tensor<2x?xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %power into %all[0, %at] [2, %length] [1, 1] : tensor<2x?xf32> into tensor<2x100xf32>
    }
  }
  return %result : tensor<2x100xf32>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %producer = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %inside, %same = transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}

// -----

// Quotients are used in the loop, remainders only behind it. Iterations compute both, and the loop gives the remainders.
// CHECK-LABEL: func.func @quotients_and_remainders
// CHECK-SAME: %{{.*}}: tensor<5x90xi16>, %{{.*}}: tensor<5x90xi16>, %[[REST:[a-z0-9]+]]: tensor<5x90xi16>, %[[ROOM:[a-z0-9]+]]: tensor<90x5xi16>
// CHECK-NOT: linalg.generic
// CHECK: %[[BOTH:.*]]:2 = scf.forall (%[[COLUMN:.*]]) = (0) to (90) step (15) shared_outs(%{{.*}} = %[[ROOM]], %[[RESTS:.*]] = %[[REST]])
// CHECK: %[[TILES:.*]]:2 = linalg.generic
// CHECK: linalg.transpose ins(%[[TILES]]#0 : tensor<5x15xi16>)
// CHECK: tensor.parallel_insert_slice %[[TILES]]#1 into %[[RESTS]][0, %[[COLUMN]]] [5, 15] [1, 1]
// CHECK: return %[[BOTH]]#1, %[[BOTH]]#0
#same = affine_map<(row, column) -> (row, column)>
func.func @quotients_and_remainders(%x: tensor<5x90xi16>, %q: tensor<5x90xi16>, %r: tensor<5x90xi16>, %room: tensor<90x5xi16>) -> (tensor<5x90xi16>, tensor<90x5xi16>) {
  %ten = arith.constant 10 : i16
  %pair:2 = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<5x90xi16>) outs(%q, %r : tensor<5x90xi16>, tensor<5x90xi16>) {
  ^bb0(%number: i16, %old_q: i16, %old_r: i16):
    %quotient = arith.divui %number, %ten : i16
    %remainder = arith.remui %number, %ten : i16
    linalg.yield %quotient, %remainder : i16, i16
  } -> (tensor<5x90xi16>, tensor<5x90xi16>)
  %turned = scf.forall (%column) = (0) to (90) step (15) shared_outs(%target = %room) -> (tensor<90x5xi16>) {
    %block = tensor.extract_slice %pair#0[0, %column] [5, 15] [1, 1] : tensor<5x90xi16> to tensor<5x15xi16>
    %place = tensor.extract_slice %target[%column, 0] [15, 5] [1, 1] : tensor<90x5xi16> to tensor<15x5xi16>
    %flipped = linalg.transpose ins(%block : tensor<5x15xi16>) outs(%place : tensor<15x5xi16>) permutation = [1, 0]
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %flipped into %target[%column, 0] [15, 5] [1, 1] : tensor<15x5xi16> into tensor<90x5xi16>
    }
  }
  return %pair#1, %turned : tensor<5x90xi16>, tensor<90x5xi16>
}
transform.sequence failures(propagate) {
^bb0(%root: !transform.any_op):
  %producer = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op
  %loop = transform.structured.match ops{["scf.forall"]} in %root : (!transform.any_op) -> !transform.any_op
  %inside, %same = transform.structured.fuse_into_containing_op %producer into %loop
    : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
}
