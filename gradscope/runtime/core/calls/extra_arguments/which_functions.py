"""Which functions PyTorch offers with `out=`, and which in-place methods as functions."""

from __future__ import annotations

from gradscope.runtime.core.calls.extra_arguments.out_rules import VIEW_COPIES


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


WITH_OUT = VIEW_COPIES | _names(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax
    angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor bmm bucketize cat ceil chain_matmul cholesky
    cholesky_inverse cholesky_solve clamp clamp_max clamp_min clip column_stack complex concat
    concatenate conj_physical copysign cos cosh cross cummax cummin cumprod cumsum deg2rad diag
    diff digamma div divide dot dstack empty eq erf erfc erfinv exp exp2 expm1 eye fft.fft
    fft.fft2 fft.fftfreq fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn
    fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2
    fft.rfftfreq fft.rfftn fix float_power floor floor_divide fmax fmin fmod frac frexp full
    gather gcd ge geqrf ger greater greater_equal gt hardshrink heaviside histc histogram hstack
    hypot i0 igamma igammac index_add index_copy index_reduce index_select inner inverse isin
    isneginf isposinf kron kthvalue lcm ldexp le lerp less less_equal lgamma linalg.cholesky
    linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.eig linalg.eigh linalg.eigvals
    linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.ldl_factor
    linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lu linalg.lu_factor
    linalg.lu_factor_ex linalg.lu_solve linalg.matmul linalg.matrix_norm linalg.matrix_power
    linalg.matrix_rank linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet
    linalg.solve linalg.solve_ex linalg.solve_triangular linalg.svd linalg.svdvals
    linalg.tensorinv linalg.tensorsolve linalg.vecdot linalg.vector_norm linspace log log10
    log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or
    logical_xor logit logspace logsumexp lt lu_solve lu_unpack masked_select matmul matrix_power
    max maximum mean median min minimum mm mode msort mul multinomial multiply mv mvlgamma
    nan_to_num nanmean nanmedian nanquantile nansum narrow_copy ne neg negative nextafter
    nonzero nonzero_static norm normal not_equal ones orgqr ormqr outer polar polygamma pow prod
    qr quantile rad2deg rand randint randn randperm range reciprocal remainder renorm round
    row_stack rsqrt scatter scatter_add scatter_reduce searchsorted sgn sigmoid sign signbit sin
    sinc sinh slice_scatter slogdet softmax sort special.airy_ai special.bessel_j0 special.bessel_j1
    special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
    special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv
    special.exp2 special.expit special.expm1 special.gammainc special.gammaincc special.gammaln
    special.hermite_polynomial_h special.hermite_polynomial_he special.i0 special.i0e special.i1
    special.i1e special.laguerre_polynomial_l special.legendre_polynomial_p special.log1p
    special.log_ndtr special.logit special.logsumexp special.modified_bessel_i0
    special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
    special.multigammaln special.ndtr special.ndtri special.polygamma special.psi special.round
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.sinc
    special.spherical_bessel_j0 special.xlog1py special.xlogy special.zeta sqrt square sspaddmm
    stack std sub subtract sum svd take take_along_dim tan tanh tensordot threshold topk
    triangular_solve tril triu true_divide trunc var vdot vstack where xlogy zeros
    """
)
"""Functions with `out=`, by name in the top module or one of its submodules."""

NN_WITH_OUT = ("gelu", "logsigmoid", "softplus", "softshrink")
"""Functions of `nn.functional` with `out=`."""

IN_PLACE = _names(
    """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_
    atan_ atanh_ alpha_dropout_ dropout_ feature_alpha_dropout_ feature_dropout_ as_strided_
    ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_
    erf_ erfc_ exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_
    log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_
    round_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ threshold_ trunc_
    xlogy_ zero_
    """
)
"""In-place methods that are also functions of the top module."""

WITH_AXIS = _names(
    """
    aminmax argmax argmin argsort chunk count_nonzero cross cummax cummin cumprod cumsum diff
    kthvalue log_softmax logcumsumexp logsumexp median mode nanmean nanmedian nanquantile nansum
    quantile softmax sort squeeze take_along_dim tensor_split topk unbind unsqueeze
    """
)
"""Functions and methods with `axis=` for `dim=`, besides those that declare it."""
