#layout = affine_map<(d0, d1)[s0] -> (d0 * 20 + s0 + d1)>
memref.global "private" constant @g : memref<2xf32> = dense<[0.75, -6.0]>
memref.global @h : memref<2xf32> = uninitialized
memref.global @ext : memref<4xi32>
func.func @m(%a: memref<10x20xf32>, %n: index, %u: memref<*xf32>) -> memref<2xf32> {
  %0 = memref.alloc() {alignment = 32 : i64} : memref<10x20xf32>
  %1 = memref.alloc(%n) : memref<?x20xf32>
  %2 = memref.alloca() : memref<4xf32, 3>
  memref.copy %a, %0 : memref<10x20xf32> to memref<10x20xf32>
  %sv = memref.subview %a[%n, 0] [4, %n] [1, 2] : memref<10x20xf32> to memref<4x?xf32, strided<[20, 2], offset: ?>>
  %rr = memref.subview %a[0, 0] [1, 20] [1, 1] : memref<10x20xf32> to memref<20xf32>
  %rc = memref.reinterpret_cast %a to offset: [0], sizes: [200], strides: [1] : memref<10x20xf32> to memref<200xf32>
  %rd = memref.reinterpret_cast %a to offset: [%n], sizes: [%n, 2], strides: [%n, 1] : memref<10x20xf32> to memref<?x2xf32, strided<[?, 1], offset: ?>>
  %ex = memref.expand_shape %a [[0], [1, 2]] output_shape [10, 4, 5] : memref<10x20xf32> into memref<10x4x5xf32>
  %ex2 = memref.expand_shape %a [[0], [1, 2]] : memref<10x20xf32> into memref<10x4x5xf32>
  %co = memref.collapse_shape %a [[0, 1]] : memref<10x20xf32> into memref<200xf32>
  %ca = memref.cast %a : memref<10x20xf32> to memref<?x20xf32>
  %cb = memref.cast %u : memref<*xf32> to memref<4xf32>
  %d = memref.dim %ca, %n : memref<?x20xf32>
  %l = memref.load %a[%n, %n] : memref<10x20xf32>
  memref.store %l, %a[%n, %n] : memref<10x20xf32>
  %g = memref.get_global @g : memref<2xf32>
  %t = memref.transpose %a (i, j) -> (j, i) : memref<10x20xf32> to memref<20x10xf32, affine_map<(d0, d1) -> (d1 * 20 + d0)>>
  %rk = memref.rank %a : memref<10x20xf32>
  memref.dealloc %0 : memref<10x20xf32>
  memref.assume_alignment %a, 16 : memref<10x20xf32>
  return %g : memref<2xf32>
}

// -----

func.func @s(%n: index, %c: i1, %t: tensor<8xf32>, %m: memref<8xf32>, %f: f32) -> (f32, tensor<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.parallel (%i, %j) = (%c0, %c0) to (%n, %n) step (%c1, %c1) init (%f) -> f32 {
    %v = memref.load %m[%i] : memref<8xf32>
    scf.reduce(%v : f32) {
      ^bb0(%x: f32, %y: f32):
        %larger = arith.maximumf %x, %y : f32
        scf.reduce.return %larger : f32
    }
  }
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    memref.store %f, %m[%i] : memref<8xf32>
    scf.reduce
  }
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    memref.store %f, %m[%i] : memref<8xf32>
    scf.yield
  } {mapping = [#gpu.loop_dim_map<processor = block_x, map = (d0) -> (d0), bound = (d0) -> (d0)>]}
  %if = scf.if %c -> (f32) {
    scf.yield %f : f32
  } else {
    %x = arith.addf %f, %f : f32
    scf.yield %x : f32
  }
  scf.if %c {
    memref.store %f, %m[%c0] : memref<8xf32>
  }
  %w:2 = scf.while (%a = %n, %b = %f) : (index, f32) -> (index, f32) {
    %cond = arith.cmpi slt, %a, %n : index
    scf.condition(%cond) %a, %b : index, f32
  } do {
  ^bb0(%a: index, %b: f32):
    %nx = arith.addi %a, %c1 : index
    scf.yield %nx, %b : index, f32
  }
  %fa = scf.forall (%i) in (8) shared_outs(%o = %t) -> (tensor<8xf32>) {
    %e = tensor.extract_slice %o[%i] [1] [1] : tensor<8xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %e into %o[%i] [1] [1] : tensor<1xf32> into tensor<8xf32>
    }
  } {mapping = [#gpu.thread<x>]}
  scf.forall (%i, %j) = (0, 0) to (%n, 8) step (2, 4) {
  }
  %z = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %f) -> f32 {
    scf.yield %acc : f32
  } {__byteir_parallel__}
  scf.for %i = %c0 to %n step %c1 {
  }
  %i32 = arith.constant 4 : i32
  scf.for %i = %i32 to %i32 step %i32 : i32 {
  }
  %er = scf.execute_region -> f32 {
    scf.yield %f : f32
  }
  %is = scf.index_switch %n -> f32
  case 6 {
    scf.yield %f : f32
  }
  case 11 {
    scf.yield %er : f32
  }
  default {
    scf.yield %f : f32
  }
  return %er, %fa : f32, tensor<8xf32>
}

// -----

func.func @t(%a: tensor<4x?xf32>, %n: index, %f: f32, %sh: tensor<2xindex>, %st: tensor<4x8xf32>, %dy: tensor<?x?xf32>) -> tensor<4x?xf32> {
  %c0 = arith.constant 0 : index
  %0 = tensor.empty(%n) : tensor<4x?xf32>
  %1 = tensor.splat %f : tensor<4x8xf32>
  %w1 = tensor.splat %f[%n] : tensor<4x?xf32>
  %2 = tensor.from_elements %f, %f : tensor<2xf32>
  %w2 = tensor.from_elements %f : tensor<f32>
  %3 = tensor.generate %n {
  ^bb0(%i: index, %j: index):
    tensor.yield %f : f32
  } : tensor<4x?xf32>
  %4 = tensor.concat dim(0) %1, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %5 = tensor.reshape %a(%sh) : (tensor<4x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %6 = tensor.cast %a : tensor<4x?xf32> to tensor<?x?xf32>
  %7 = tensor.pad %st low[1, %n] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %f : f32
  } : tensor<4x8xf32> to tensor<5x?xf32>
  %w7 = tensor.pad %st nofold low[0, 0] high[1, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %f : f32
  } {attr} : tensor<4x8xf32> to tensor<5x10xf32>
  %8 = tensor.extract_slice %st[%n, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<8xf32>
  %9 = tensor.insert_slice %8 into %st[%n, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<4x8xf32>
  %10 = tensor.extract %st[%n, %c0] : tensor<4x8xf32>
  %11 = tensor.insert %f into %st[%n, %c0] : tensor<4x8xf32>
  %12 = tensor.expand_shape %st [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %13 = tensor.expand_shape %dy [[0], [1, 2]] output_shape [%n, %n, 4] : tensor<?x?xf32> into tensor<?x?x4xf32>
  %14 = tensor.collapse_shape %dy [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %16 = tensor.dim %a, %c0 : tensor<4x?xf32>
  %17 = tensor.rank %a : tensor<4x?xf32>
  %18 = tensor.bitcast %st : tensor<4x8xf32> to tensor<4x8xi32>
  %20 = tensor.expand_shape %st [[0, 1], [2]] : tensor<4x8xf32> into tensor<1x4x8xf32>
  %21 = bufferization.alloc_tensor() : tensor<4xf32>
  %22 = bufferization.alloc_tensor(%n) : tensor<?xf32>
  %23 = bufferization.to_memref %st : memref<4x8xf32>
  %24 = bufferization.to_tensor %23 : memref<4x8xf32>
  %25 = bufferization.to_tensor %23 restrict writable : memref<4x8xf32>
  return %0 : tensor<4x?xf32>
}

// -----

func.func @ar(%i: i32, %j: i32, %f: f32, %g: f32, %b: i1, %x: index, %v: vector<4xf32>, %t: tensor<4xi32>, %t1: tensor<4xi1>, %h: f16) {
  %0 = arith.addi %i, %j overflow<nsw, nuw> : i32
  %1 = arith.addf %f, %g fastmath<fast> : f32
  %2, %3 = arith.addui_extended %i, %j : i32, i1
  %4:2 = arith.mulsi_extended %i, %j : i32
  %5, %6 = arith.mului_extended %i, %j : i32
  %7 = arith.select %b, %i, %j : i32
  %8 = arith.select %t1, %t, %t : tensor<4xi1>, tensor<4xi32>
  %9 = arith.cmpf ogt, %f, %g : f32
  %10 = arith.cmpi ult, %i, %j : i32
  %11 = arith.index_cast %x : index to i64
  %12 = arith.index_castui %x : index to i64
  %13 = arith.bitcast %i : i32 to f32
  %14 = arith.extf %h : f16 to f32
  %15 = arith.truncf %f : f32 to f16
  %16 = arith.truncf %f to_nearest_even : f32 to bf16
  %17 = arith.maximumf %f, %g : f32
  %18 = arith.minnumf %f, %g : f32
  %19 = arith.ceildivsi %i, %j : i32
  %20 = arith.remf %f, %g : f32
  %21 = arith.shrsi %i, %j : i32
  %22 = arith.constant dense<[1, 2, 3, 4]> : vector<4xi32>
  %23 = arith.constant true
  %24 = arith.constant -5 : i8
  %25 = arith.constant 0x7FC00000 : f32
  %26 = arith.constant dense<"0x0A141E28"> : tensor<1xi32>
  %27 = arith.constant dense<> : tensor<0xi32>
  %29 = arith.trunci %i : i32 to i8
  %30 = math.fma %f, %g, %f : f32
  %31 = math.fpowi %f, %i : f32, i32
  %32 = math.ipowi %i, %j : i32
  %33 = math.powf %f, %g : f32
  %34 = math.tanh %v : vector<4xf32>
  %35 = math.ctlz %i : i32
  %36 = math.copysign %f, %g : f32
  %37 = math.erf %f fastmath<contract> : f32
  %38 = math.isnan %f : f32
  %39 = math.isinf %f : f32
  %40 = math.isfinite %f : f32
  %41 = math.isnormal %f : f32
  %42 = math.clampf %f to [%f, %g] : f32
  return
}

// -----

func.func @l(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>, %c: tensor<4x6xf32>, %bt: tensor<6x8xf32>, %at: tensor<8x4xf32>, %x: tensor<8xf32>, %y: tensor<4xf32>, %f: f32, %A: tensor<2x4x8xf32>, %B: tensor<2x8x6xf32>, %C: tensor<2x4x6xf32>, %BT: tensor<2x6x8xf32>, %s: tensor<f32>, %bm: memref<4x8xf32>) {
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.matmul_transpose_b ins(%a, %bt : tensor<4x8xf32>, tensor<6x8xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = linalg.matmul_transpose_a ins(%at, %b : tensor<8x4xf32>, tensor<8x6xf32>) outs(%c : tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = linalg.batch_matmul ins(%A, %B : tensor<2x4x8xf32>, tensor<2x8x6xf32>) outs(%C : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %4 = linalg.batch_matmul_transpose_b ins(%A, %BT : tensor<2x4x8xf32>, tensor<2x6x8xf32>) outs(%C : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %5 = linalg.matvec ins(%a, %x : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  %6 = linalg.vecmat ins(%y, %a : tensor<4xf32>, tensor<4x8xf32>) outs(%x : tensor<8xf32>) -> tensor<8xf32>
  %7 = linalg.dot ins(%x, %x : tensor<8xf32>, tensor<8xf32>) outs(%s : tensor<f32>) -> tensor<f32>
  %8 = linalg.fill ins(%f : f32) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %9 = linalg.transpose ins(%a : tensor<4x8xf32>) outs(%at : tensor<8x4xf32>) permutation = [1, 0]
  %10 = linalg.broadcast ins(%x : tensor<8xf32>) outs(%a : tensor<4x8xf32>) dimensions = [0]
  %11 = linalg.reduce { arith.addf } ins(%a : tensor<4x8xf32>) outs(%y : tensor<4xf32>) dimensions = [1]
  %12 = linalg.reduce ins(%a : tensor<4x8xf32>) outs(%y : tensor<4xf32>) dimensions = [1]
    (%in: f32, %out: f32) {
      %q = arith.addf %in, %out : f32
      linalg.yield %q : f32
    }
  %13 = linalg.map { math.absf } ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)
  %14 = linalg.map ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)
    (%l: f32, %r: f32) {
      %q = arith.addf %l, %r : f32
      linalg.yield %q : f32
    }
  %w14 = linalg.map outs(%a : tensor<4x8xf32>) () {
      %ix = linalg.index 0 : index
      %iy = arith.index_cast %ix : index to i32
      %q = arith.sitofp %iy : i32 to f32
      linalg.yield %q : f32
    }
  %15 = linalg.elemwise_unary {fun = #linalg.unary_fn<log>} ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %16 = linalg.elemwise_binary {fun = #linalg.binary_fn<mul>, cast = #linalg.type_fn<cast_signed>} ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %17 = linalg.softmax dimension(1) ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %18 = linalg.add ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %19 = linalg.exp ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  %20 = linalg.copy ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  linalg.copy ins(%bm : memref<4x8xf32>) outs(%bm : memref<4x8xf32>)
  linalg.fill ins(%f : f32) outs(%bm : memref<4x8xf32>)
  %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%a : tensor<4x8xf32>) attrs = {of_stage = 3 : i8} {
    ^bb0(%o: f32):
      linalg.yield %o : f32
  } -> tensor<4x8xf32>
  return
}
func.func @windows(%photo: tensor<2x12x17x4xf16>, %blur: tensor<3x2x4x6xf16>, %soft: tensor<2x10x8x6xf16>, %planes: tensor<2x4x12x17xf16>, %edges: tensor<6x4x3x2xf16>, %found: tensor<2x6x8x16xf16>, %window: tensor<3x2xf16>, %small: tensor<2x10x8x4xf16>, %each: tensor<3x2x4xf16>) {
  %0 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%photo, %blur : tensor<2x12x17x4xf16>, tensor<3x2x4x6xf16>) outs(%soft : tensor<2x10x8x6xf16>) -> tensor<2x10x8x6xf16>
  %1 = linalg.conv_2d_nchw_fchw {dilations = dense<[2, 1]> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%planes, %edges : tensor<2x4x12x17xf16>, tensor<6x4x3x2xf16>) outs(%found : tensor<2x6x8x16xf16>) -> tensor<2x6x8x16xf16>
  %2 = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%photo, %window : tensor<2x12x17x4xf16>, tensor<3x2xf16>) outs(%small : tensor<2x10x8x4xf16>) -> tensor<2x10x8x4xf16>
  %3 = linalg.pooling_nhwc_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%photo, %window : tensor<2x12x17x4xf16>, tensor<3x2xf16>) outs(%small : tensor<2x10x8x4xf16>) -> tensor<2x10x8x4xf16>
  %4 = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<[1, 2]> : tensor<2xi64>} ins(%photo, %each : tensor<2x12x17x4xf16>, tensor<3x2x4xf16>) outs(%small : tensor<2x10x8x4xf16>) -> tensor<2x10x8x4xf16>
  return
}
