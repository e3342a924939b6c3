"""PyTorch's rules for tensors given as `out=`, for functions that deviate from the usual ones."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEW_COPIES = _words(
    """
    _conj_copy _neg_view_copy _reshape_alias_copy alias_copy as_strided_copy detach_copy
    diagonal_copy expand_copy permute_copy select_copy slice_copy split_copy
    split_with_sizes_copy squeeze_copy t_copy
    transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy
    view_copy
    """
)
"""Functions that copy the content of a view."""

LISTED = MappingProxyType({
    "split_copy": "split_copy_Tensor_out()", "unbind_copy": "unbind_copy_int_out",
    "split_with_sizes_copy": "split_with_sizes_copy_out",
})  # fmt: skip
"""These write a list of tensors, return nothing, and have another name for its length."""

REPEATED = _words(
    """
    all amax amin aminmax any argmax argmin bmm cond cummax cummin dot eye full histc linalg_det
    linalg_matmul linalg_norm linalg_slogdet linalg_vector_norm matmul matrix_norm matrix_rank mv
    nansum norm ones prod quantile randperm slogdet std sum threshold tril triu var vdot vecdot
    zeros
    """
)
"""These write to a tensor that shows an element at several indices."""

OVERLAPPING = VIEW_COPIES | _words(
    """
    addmm amax amin aminmax bmm chain_matmul cholesky cholesky_inverse cholesky_solve column_stack
    cond cummax cummin diag diff dot dstack fft_hfft fft_hfft2 fft_hfftn fft_irfft fft_irfft2
    fft_irfftn geqrf histc histogram householder_product hstack inner ldl_factor ldl_factor_ex
    ldl_solve linalg_cholesky linalg_cholesky_ex linalg_det linalg_eigh linalg_eigvalsh linalg_inv
    linalg_inv_ex linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul
    linalg_matrix_power linalg_norm linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_svd
    linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vector_norm log_softmax logsigmoid
    logsumexp lstsq lu_solve lu_unpack matmul matrix_norm mean mm multi_dot mv mvlgamma nanmean
    nanquantile nansum narrow_copy ndtr norm orgqr ormqr pinv prod qr quantile row_stack
    slice_scatter slogdet softmax std sum svd tensordot threshold triangular_solve tril triu var
    vdot vecdot vstack
    """
)
"""These do not check whether an input shares memory with it."""

OVERLAPPING_INPUTS = MappingProxyType({
    "addbmm": (1, 2), "addmv": (1, 2), "baddbmm": (1, 2),
})  # fmt: skip
"""These do not check some of their inputs."""

APART = _words("cross linalg_cross")
"""These refuse an input itself, too."""

UNRECORDED = _words(
    """
    all any arange argmax argmin bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor chebyshev_polynomial_t chebyshev_polynomial_u
    chebyshev_polynomial_v chebyshev_polynomial_w eq gcd ge gt hermite_polynomial_h
    hermite_polynomial_he histc isin isneginf isposinf laguerre_polynomial_l lcm le
    legendre_polynomial_p logical_and logical_not logical_or logical_xor lt matrix_rank multinomial
    ne randint randperm searchsorted shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w signbit special_airy_ai
    special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_spherical_bessel_j0 split_with_sizes_copy
    """
)
"""These have no derivative, and write to a tensor that requires grad."""

COPYING = _words(
    """
    cond inner linalg_matrix_power linalg_norm linalg_tensorinv linalg_tensorsolve matrix_norm
    nanquantile ndtr quantile tensordot
    """
)
"""These copy their result to it, and the copy is recorded."""

UNWATCHED = VIEW_COPIES | _words(
    """
    conj_physical diag eye fft_fftfreq fft_ifft fft_ihfft fft_rfftfreq floor_divide full heaviside
    histogram ldl_factor ldl_factor_ex ldl_solve linalg_eigvals linspace log_softmax logspace
    normal ones rand range slice_scatter softmax zeros
    """
)
"""These refuse it if it requires grad, but not inputs that do."""

IN_ITS_DTYPE = _words("cumprod cumsum prod")
"""These compute in its dtype, as if given as `dtype=` (and so does `sum`)."""

OVER_A_DIM = _words("median nanmedian")
"""These write two tensors, of exactly their dtypes, and only over a dim."""

CONTIGUOUS = _words("cholesky cholesky_solve fft_ihfft2 fft_ihfftn linalg_tensorinv")
"""These make it contiguous when they resize it, though their result is not."""

CONTIGUOUS_AGAIN = _words("cholesky_inverse geqrf householder_product linalg_eig lstsq orgqr ormqr")
"""These do so if it had elements."""

REREADING = _words(
    """
    addr cat gather ger index_add index_copy masked_select outer scatter_add scatter_reduce stack
    take take_along_dim
    """
)
"""These report for an input of another size that it overlaps; others that it cannot grow."""

UNSAID = _words(
    """
    addbmm arange bernoulli eye fft_fftfreq fft_rfftfreq full linspace logsigmoid logspace
    multinomial narrow_copy normal ones rand randint randn randperm range zeros
    """
)
"""These resize it without a warning."""

FACTORIES = _words(
    """
    arange eye fft_fftfreq fft_rfftfreq full linspace logspace normal ones rand randint randn
    randperm range zeros
    """
)
"""These create their result on the device of `out`."""

EXACT_DEVICE = _words(
    """
    _conj_copy _neg_view_copy _reshape_alias_copy argmax argmin detach_copy gather index_reduce
    linalg_cholesky linalg_cholesky_ex linalg_det linalg_inv linalg_inv_ex linalg_svd linalg_svdvals
    scatter scatter_add select_copy slice_copy svd topk view_as_complex_copy view_as_real_copy
    """
)
"""These have another message for another device."""

_TWO = "Expected result and input tensors to be on the same device, but got result on"

ELSEWHERE = MappingProxyType({
    "angle": "out Tensor doesn't have the correct device set",
    "chain_matmul": "multi_dot(): expected out tensor to be on device {made} but got {out}",
    "multi_dot": "multi_dot(): expected out tensor to be on device {made} but got {out}",
    "cond": f"linalg.cond: {_TWO} {{out}} and input on {{made}}",
    "inner": "Expected tensor to have {made} DeviceType, but got tensor with {out} DeviceType "
    "(while checking arguments for inner())",
    "linalg_matrix_power": f"matrix_power: {_TWO} {{out}} and input on {{made}}",
    "linalg_norm": f"linalg.norm: {_TWO} {{made}} and input on {{out}}",
    "linalg_tensorinv": f"tensorinv: {_TWO} {{out}} and input on {{made}}",
    "linalg_tensorsolve": f"tensorsolve: {_TWO} {{out}} and input on {{made}}",
    "matrix_norm": f"linalg.matrix_norm: {_TWO} {{made}} and input on {{out}}",
    "matrix_rank": f"torch.linalg.matrix_rank: {_TWO} {{out}} and input on {{made}}",
    "nanquantile": "quantile() out tensor must be on the same device as the input tensor",
    "ndtr": "Expected all tensors to be on the same device, but found at least two devices, "
    "{made} and {out}!",
    "pinv": f"linalg.pinv: {_TWO} {{out}} and input on {{made}}",
    "quantile": "quantile() out tensor must be on the same device as the input tensor",
    "take_along_dim": "Expected tensor to have {made} Device, but got tensor with {out} Device "
    "(while checking arguments for torch.take_along_dim():)",
    "tensordot": "tensordot: Expected the output and input tensors to be on the same device, but "
    "got the output tensor on {out}, input tensor a on {made}, and input tensor b on {made}",
    "vecdot": f"linalg.vecdot: {_TWO} {{made}} and input on {{out}}",
})  # fmt: skip
"""Messages of functions that check the device themselves."""

SAID_AS = MappingProxyType({
    **{name: f"aten::{name}" for name in VIEW_COPIES - LISTED.keys()},
    "chain_matmul": "mm", "multi_dot": "mm", "column_stack": "cat", "dstack": "cat",
    "hstack": "cat", "row_stack": "cat", "vstack": "cat", "conj_physical": "aten::conj_physical",
    "fft_ifft": "aten::conj_physical", "fft_ihfft": "aten::conj_physical", "cross": "linalg_cross",
    "diag": "aten::diagonal_copy", "diff": "sub", "eye": "aten::eye", "fft_fft": "_fft_r2c",
    "fft_rfft": "_fft_r2c", "fft_rfft2": "_fft_r2c", "fft_rfftn": "_fft_r2c",
    "fft_fft2": "_fft_c2c", "fft_fftn": "_fft_c2c", "fft_ifft2": "_fft_c2c",
    "fft_ifftn": "_fft_c2c", "fft_ihfft2": "_fft_c2c", "fft_ihfftn": "_fft_c2c",
    "fft_hfft": "_fft_c2r", "fft_hfft2": "_fft_c2r", "fft_hfftn": "_fft_c2r",
    "fft_irfft": "_fft_c2r", "fft_irfft2": "_fft_c2r", "fft_irfftn": "_fft_c2r",
    "fft_fftfreq": "aten::fft_fftfreq", "fft_rfftfreq": "aten::fft_rfftfreq",
    "float_power": "pow", "square": "pow", "floor_divide": "aten::floor_divide",
    "full": "aten::full", "ger": "mul", "kron": "mul", "outer": "mul",
    "heaviside": "aten::heaviside", "histogram": "aten::histogram", "linalg_inv": "linalg_inv_ex",
    "linalg_cholesky": "linalg_cholesky_ex", "linalg_det": "_linalg_det",
    "linalg_eigh": "_linalg_eigh", "linalg_eigvalsh": "_linalg_eigh",
    "linalg_eigvals": "aten::linalg_eigvals", "householder_product": "linalg_householder_product",
    "orgqr": "linalg_householder_product", "ldl_factor": "aten::linalg_ldl_factor_ex",
    "ldl_factor_ex": "aten::linalg_ldl_factor_ex", "ldl_solve": "aten::linalg_ldl_solve",
    "lstsq": "linalg_lstsq", "linalg_lu_factor": "linalg_lu_factor_ex", "linalg_matmul": "matmul",
    "pinv": "linalg_pinv", "linalg_slogdet": "_linalg_slogdet", "slogdet": "_linalg_slogdet",
    "linalg_solve": "_linalg_solve_ex", "linalg_solve_ex": "_linalg_solve_ex",
    "linalg_svd": "_linalg_svd", "linalg_svdvals": "_linalg_svd", "vecdot": "sum",
    "linspace": "aten::linspace", "log_softmax": "aten::log_softmax", "logspace": "aten::logspace",
    "lu_solve": "linalg_lu_solve", "max": "maximum", "min": "minimum", "msort": "sort",
    "nanmean": "nansum", "logsigmoid": "log_sigmoid_forward", "norm": "linalg_vector_norm",
    "normal": "aten::normal", "ones": "aten::ones", "qr": "linalg_qr", "rand": "aten::rand",
    "range": "aten::range", "slice_scatter": "aten::slice_scatter", "softmax": "aten::softmax",
    "svd": "_linalg_svd",
    "xlog1py": "special_xlog1py", "zeta": "special_zeta", "take_along_dim": "gather",
    "zeros": "aten::zeros",
})  # fmt: skip
"""Names of functions in autograd's errors."""

# -- dtypes ------------------------------------------------------------------------------------
# {made} and {out} are dtypes as PyTorch's C++ prints them, {made_c} and {out_c} as C does.

OTHER = {
    "Expected self.dtype() == output.dtype() to be true, but got false.  (Could this error message "
    "be improved?  If so, please report an enhancement request to PyTorch.)": "narrow_copy",
    "Expected out tensor to have dtype {made_c}, but got {out_c} instead": f"""
        {" ".join(VIEW_COPIES)}
        addmm addmv aminmax argmax argmin baddbmm bmm cross diag gather index_add index_copy
        index_reduce isin ldl_factor ldl_factor_ex ldl_solve linalg_cholesky linalg_cholesky_ex
        linalg_cross linalg_det linalg_eigh linalg_eigvalsh linalg_inv linalg_inv_ex linalg_lu
        linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_slogdet linalg_solve
        linalg_solve_ex linalg_vector_norm log_softmax lu_solve lu_unpack mm msort norm qr renorm
        scatter scatter_add scatter_reduce slice_scatter slogdet softmax sort take_along_dim topk
        triangular_solve tril triu""",
    "Found dtype {out} but expected {made}": """
        abs bitwise_not ceil clamp clamp_max clamp_min conj_physical floor frac gelu hardshrink neg
        round sgn sign softplus softshrink trunc""",
    "Expected the dtype for input and out to match, but got {made} for input's dtype and {out} "
    "for out's dtype.": "amax amin",
    "expected scalar_type {made} but found {out}": "cummax cummin logcumsumexp",
    "result dtype {out} does not match input dtype {made}": "dot matmul vdot",
    "{name} does not support non-boolean outputs.": "isneginf isposinf signbit",
    "{name} only supports bool tensor for result, got: {out}": "all any",
    "Expected object of scalar type {made} but got scalar type {out} for argument 'out'":
        "complex polar",
    "{name}(): self and result must have the same scalar type": "index_select masked_select",
    "addmv input tensors must have the same dtype, but got {out}, {made}, and {made}":
        "linalg_matmul mv",
    "expected scalar type {made} but found {out}": "linalg_solve_triangular logsigmoid",
    "self and mat2 must have the same dtype, but got {out} and {made}": "addbmm",
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or "
    "Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype "
    "{out} and out_int32 flag is False": "searchsorted",
    "multi_dot(): expected out tensor to have dtype {made_c} but got {out_c}":
        "chain_matmul multi_dot",
    "the output given to float_power has dtype {out} but the operation's result requires dtype "
    "{made}": "float_power",
    "torch.frexp() expects mantissa to have dtype {made_c} but got {out_c}": "frexp",
    "heaviside is not yet implemented for tensors with different dtypes.": "heaviside",
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input "
    "{made_c} and hist {out_c}": "histc histogram",
    "tensordot: Expected the output tensor to have dtype {made}, but got an output tensor with "
    "dtype {out}": "inner tensordot",
    "output values must be of same type as input": "kthvalue",
    "nonzero: Expected out tensor to have scalar type Long but got scalar type{out}": "nonzero",
    "linalg.{name} expected out tensor dtype {made} but got: {out}": "matrix_norm",
    "linalg.norm expected out tensor dtype {made} but got: {out}": "linalg_norm",
    "linalg.vecdot: Expected out of dtype{made} but found {out}": "vecdot",
    "expected scalar type '{made}' but got '{out}' for values output": "mode",
    "multinomial expects Long tensor out, got: {out}": "multinomial",
    "nan_to_num: dtype of out: {out} should be same as input: {made}": "nan_to_num",
    "quantile() out tensor must be same dtype as the input tensor": "nanquantile quantile",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{made} and "
    "result has dtype {out}": "ormqr",
    "take(): self and out expected to have the same dtype, but got self.dtype = {made} and "
    "out.dtype = {out}": "take",
    "Expected out type to be {made} but got {out}": "where",
}  # fmt: skip
"""Messages of functions that require exactly the dtype of their result."""

TRANSFORMS = {
    "a complex": "fft fftn ifft ifftn ihfft ihfftn rfft rfftn",
    "a floating point": "hfft hfftn irfft irfftn",
}
"""The kind of dtype that transforms require; those over two dims use the names of those over n."""

SAID_OF_FFT = {"fft_ifft2": "fftn", "fft_ifftn": "fftn"}

UNFIT = {
    "torch.cat(): input types can't be cast to the desired output type {out}":
        "cat column_stack dstack hstack row_stack stack vstack",
    "{name}: Expected result to be safely castable from {made} dtype, but got result with dtype "
    "{out}": "cholesky cholesky_inverse cholesky_solve",
    "linalg.{name}: Expected result to be safely castable from {made} dtype, but got result with "
    "dtype {out}": "cond pinv",
    "torch.linalg.{name}: Expected result to be safely castable from {made} dtype, but got result "
    "with dtype {out}": "householder_product matrix_rank",
    "torch.linalg.householder_product: Expected result to be safely castable from {made} dtype, "
    "but got result with dtype {out}": "orgqr",
    "{short}: Expected result to be safely castable from {made} dtype, but got result with dtype "
    "{out}": "linalg_matrix_power linalg_tensorinv linalg_tensorsolve",
    "torch.linalg.{short}: Expected eigenvalues to be safely castable from {made} dtype, but got "
    "eigenvalues with dtype {out}": "linalg_eig linalg_eigvals",
    "torch.geqrf: Expected a to be safely castable from {made} dtype, but got a with dtype {out}":
        "geqrf",
    "torch.linalg.lstsq: Expected solution to be safely castable from {made} dtype, but got "
    "solution with dtype {out}": "lstsq",
    "logsumexp(): Expected floating point type for result tensor, but got: {out}": "logsumexp",
    "ldexp can't be cast to the desired output type {out}": "ldexp",
    "mvlgamma: result type {made} can't be cast to the desired output type {made}": "mvlgamma",
}  # fmt: skip
"""Messages about a dtype to which the result cannot be cast."""

TYPE_ERRORS = _words("cat column_stack dstack hstack row_stack stack vstack")


OLD_CLASSES = _words("Byte Char Double Float Half Int Long Short")
"""Dtypes with a legacy class of tensors: `torch.FloatTensor`."""


@cache
def other_dtype(name: str) -> str | None:
    """The message of a function that requires exactly the dtype of its result."""
    return _found(OTHER, name)


@cache
def unfit_dtype(name: str) -> str:
    """The message about a dtype to which a function's result cannot be cast."""
    for kind, names in TRANSFORMS.items():
        called = SAID_OF_FFT.get(name) or name.removeprefix("fft_").replace("2", "n")
        if name.startswith("fft_") and called in names.split():
            return f"{called} expects {kind} output tensor, but got {{out}}"
    default = "result type {made} can't be cast to the desired output type {out}"
    return _found(UNFIT, name) or default


def _found(said: dict[str, str], name: str) -> str | None:
    return next((text for text, names in said.items() if name in names.split()), None)
