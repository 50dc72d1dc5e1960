"""Cases of xjit/ops/shape_inference/random_linalg.py."""

from __future__ import annotations

from tests.ops.shape_cases.prelude import Broken, Valid

VALID: list[Valid] = [
    ("rng(y, y), distribution=rng_normal", "f32[7]"),
    ("rng-bit-generator(st), algorithm=rng_default", "(u64[2], u32[5])"),
    ("rng-get-and-update-state(), delta=1", "u64[2]"),
    ("fft(cc), fft_type=FFT, fft_length={8,3}", "c64[8,3]"),
    ("fft(r), fft_type=RFFT, fft_length={8}", "c64[2,5]"),
    ("fft(ir), fft_type=IRFFT, fft_length={8}", "f32[2,8]"),
    ("fft(ir), fft_type=IRFFT, fft_length={9}", "f32[2,9]"),
    ("fft(none), fft_type=FFT, fft_length={3,4}", "c64[2,0]"),
    ("cholesky(a), lower=true", "f64[5,5]"),
    ("triangular-solve(a, e), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "f64[5,2]"),
    ("batch-norm-training(im, bn, bn), epsilon=0.1, feature_index=3", "(f32[2,9,9,4], f32[4], f32[4])"),
    ("batch-norm-inference(im, bn, bn, bn, bn), epsilon=0.1, feature_index=3", "f32[2,9,9,4]"),
    ("batch-norm-grad(im, bn, bn, bn, im), epsilon=0.1, feature_index=3", "(f32[2,9,9,4], f32[4], f32[4])"),
]

INVALID: list[Broken] = [
    ("rng(y, n), distribution=rng_uniform", "f32[7]", "operand 1 s32[] and result f32[7] have different element types"),
    ("rng(n, n), distribution=rng_normal", "s32[7]", "distribution=rng_normal cannot give elements of type s32"),
    ("rng(y), distribution=rng_normal", "f32[7]", "takes the 2 scalars of the distribution, got 1 operands"),
    ("rng-bit-generator(st), algorithm=rng_default", "(u64[3], u32[5])", "the result must be (state u64[2], bits)"),
    ("rng-get-and-update-state(), delta=1", "u64[3]", "the declared shape is u64[3]"),
    ("fft(x), fft_type=FFT, fft_length={3}", "f32[8,3]", "FFT needs complex elements"),
    ("fft(cc), fft_type=RFFT, fft_length={3}", "c64[8,2]", "RFFT needs f32 or f64 elements"),
    (
        "fft(r), fft_type=RFFT, fft_length={7}",
        "c64[2,4]",
        "RFFT needs minor dimensions [7], but the operand is f32[2,8]",
    ),
    ("fft(ir), fft_type=IRFFT, fft_length={7}", "f32[2,7]", "IRFFT needs minor dimensions [4]"),
    ("fft(ir), fft_type=FFT, fft_length={2,2,5}", "c64[2,5]", "got fft_length of 3 for c64[2,5]"),
    ("cholesky(x)", "f32[8,3]", "the matrices must be square, but have shape f32[8,3]"),
    ("cholesky(it)", "s32[8,3]", "must be floating-point or complex"),
    ("triangular-solve(a, e), left_side=false, lower=true", "f64[5,2]", "the columns of b f64[5,2] do not fit"),
    ("triangular-solve(a, x), left_side=true, lower=true", "f32[8,3]", "have different element types"),
    (
        "batch-norm-training(im, bn, v), epsilon=0.1, feature_index=3",
        "(f32[2,9,9,4], f32[4], f32[4])",
        "operand 2 must be",
    ),
    (
        "batch-norm-inference(im, bn, bn, bn, v), epsilon=0.1, feature_index=3",
        "f32[2,9,9,4]",
        "operand 4 must be f32[4]",
    ),
    (
        "batch-norm-grad(im, bn, bn, bn, x), epsilon=0.1, feature_index=3",
        "(f32[2,9,9,4], f32[4], f32[4])",
        "the output gradient f32[8,3] must have the operand's shape",
    ),
    (
        "batch-norm-training(im, bn, bn), epsilon=0.1, feature_index=4",
        "(f32[2,9,9,4], f32[4], f32[4])",
        "feature_index 4",
    ),
]
