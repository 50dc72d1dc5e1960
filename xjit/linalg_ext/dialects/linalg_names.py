"""The names of linalg's named ops that are printed as `ins`, `outs` and results."""

from __future__ import annotations

from xjit.linalg_ext.dialects.definition import words

__all__ = ["NAMED_OPS"]

NAMED_OPS = words(
    """
    fill fill_rng_2d copy elemwise_unary elemwise_binary abs ceil exp floor log negf reciprocal round rsqrt sqrt
    square tanh erf contract elementwise add sub mul div div_unsigned max min powf select matmul matmul_unsigned
    matmul_transpose_a matmul_transpose_b quantized_matmul mmt4d batch_mmt4d batch_matmul batch_matmul_transpose_a
    batch_matmul_transpose_b quantized_batch_matmul batch_reduce_matmul matvec vecmat batch_matvec batch_vecmat
    dot conv_1d conv_2d conv_3d conv_1d_nwc_wcf conv_1d_ncw_fcw conv_2d_nhwc_hwcf conv_2d_nhwc_fhwc
    conv_2d_nhwc_hwcf_q conv_2d_nhwc_fhwc_q conv_2d_nchw_fchw conv_2d_nchw_fchw_q conv_2d_ngchw_fgchw
    conv_2d_ngchw_gfchw conv_2d_ngchw_gfchw_q conv_2d_nhwgc_gfhwc conv_2d_nhwgc_gfhwc_q conv_3d_ndhwc_dhwcf
    conv_3d_ndhwc_dhwcf_q conv_3d_ncdhw_fcdhw depthwise_conv_2d_nhwc_hwc_q depthwise_conv_2d_nhwc_hwcm_q
    depthwise_conv_1d_nwc_wc depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wcm
    depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwcm depthwise_conv_3d_ndhwc_dhwc
    depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwcm pooling_nhwc_sum pooling_nchw_sum pooling_nhwc_max
    pooling_nhwc_max_unsigned pooling_nchw_max pooling_nhwc_min pooling_nhwc_min_unsigned pooling_nwc_sum
    pooling_ncw_sum pooling_nwc_max pooling_nwc_max_unsigned pooling_ncw_max pooling_nwc_min
    pooling_nwc_min_unsigned pooling_ndhwc_sum pooling_ndhwc_max pooling_ndhwc_min
    """
)
