"""Short-time Fourier transforms: stft, istft."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import w
from gradscope.runtime.core.ops.shape.aliasing import view_as_complex, view_as_real
from gradscope.runtime.core.ops.shape.padding import constant_pad_nd
from gradscope.runtime.core.ops.shape.slicing import slice__default as slice_of
from gradscope.runtime.core.ops.signal.fourier import (
    BY_COUNT,
    BY_ROOT,
    NOT_SCALED,
    _fft_c2c,
    _fft_c2r,
    _fft_r2c,
)
from gradscope.runtime.core.rows.offered import NN_FUNCTIONS, both
from gradscope.runtime.core.state.warned import warn, warn_once
from gradscope.runtime.core.tensors.dims import text
from gradscope.runtime.core.tensors.making import factories


def _flag(value):
    return "None" if value is None else int(value)


def _shown_window(window):
    return "None" if window is None else f"{window.type()}{{{text(window.shape)}}}"


def _padded_window(window, win_length, n_fft, like):
    """The window, centered in the transformed length."""
    if win_length >= n_fft:
        return window
    left = (n_fft - win_length) // 2
    if window is None:
        window = factories.ones(win_length, dtype=like)
    return constant_pad_nd(window, (left, n_fft - win_length - left))


@both
def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transform of successive windows of the signal."""
    signal = input
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft: align_to_window should only be set when center = false")
        ndim = input.dim()
        pad = n_fft // 2
        signal = input.view((1,) * (3 - ndim) + tuple(input.shape))
        signal = NN_FUNCTIONS["pad"](signal, (pad, pad), pad_mode)
        signal = signal.view(tuple(signal.shape)[-ndim:])
    hop = n_fft >> 2 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    complex_window = window is not None and window.is_complex()
    if return_complex is None:
        return_complex = signal.is_complex() or complex_window
        if not return_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
    elif not return_complex:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error.\n"
            "Note: you can still call torch.view_as_real on the complex output to recover the old "
            "return format."
        )
    call = (
        f"stft({signal.type()}{text(signal.shape)}, n_fft={n_fft}, hop_length={hop}, "
        f"win_length={length}, window={_shown_window(window)}, normalized={int(normalized)}, "
        f"onesided={_flag(onesided)}, return_complex={_flag(return_complex)}, "
        f"align_to_window={_flag(align_to_window)}) "
    )
    _check_signal(call, signal, n_fft, hop, length, window)
    made = _windows_transformed(signal, n_fft, hop, length, window, normalized, onesided)
    return made if return_complex else view_as_real(made)


def _check_signal(call, signal, n_fft, hop, length, window):
    if not (signal.dtype.is_floating_point or signal.dtype.is_complex):
        raise RuntimeError(f"{call}: expected a tensor of floating point or complex values")
    if signal.dim() not in {1, 2}:
        raise RuntimeError(f"{call}: expected a 1D or 2D tensor")
    size = signal.shape[-1]
    if not 0 < n_fft <= size:
        raise RuntimeError(f"{call}: expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    _check_window(call, n_fft, hop, length, window)


def _check_window(call, n_fft, hop, length, window):
    if hop <= 0:
        raise RuntimeError(f"{call}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{call}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and (window.dim() != 1 or window.shape[0] != length):
        raise RuntimeError(
            f"{call}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {text(window.shape)}"
        )


def _windows_transformed(signal, n_fft, hop, length, window, normalized, onesided):
    batch = signal.unsqueeze(0) if signal.dim() == 1 else signal
    count = 1 + (batch.shape[1] - n_fft) // hop
    step, element = batch.stride()
    pieces = batch.as_strided((batch.shape[0], count, n_fft), (step, hop * element, element))
    window = _padded_window(window, length, n_fft, signal.dtype.to_real())
    if window is not None:
        pieces = pieces.mul(window)
    if onesided is None:
        onesided = not pieces.is_complex()
    scaling = BY_ROOT if normalized else NOT_SCALED
    if pieces.is_complex():
        if onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        made = _fft_c2c(pieces, (2,), scaling, True)
    else:
        made = _fft_r2c(pieces, (2,), scaling, onesided)
    made.transpose_(1, 2)
    if signal.dim() == 1:
        made.squeeze_(0)
    return made


@both
def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal of an `stft`: overlapping windows are added and normalized."""
    hop = n_fft >> 2 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    call = (
        f"istft(CPU{input.dtype.scalar_name}Type{text(input.shape)}, n_fft={n_fft}, "
        f"hop_length={hop}, win_length={size}, window={_shown_window(window)}, "
        f"center={int(center)}, normalized={int(normalized)}, onesided={_flag(onesided)}, "
        f"length={length}, return_complex={int(return_complex)}) "
    )
    if not input.numel():
        raise RuntimeError(f"{call}: input tensor cannot be empty.")
    parts = view_as_real(input.resolve_conj())
    if parts.dim() not in {3, 4}:
        raise RuntimeError(
            f"{call}: expected a tensor with 3 or 4 dimensions, but got {parts.dim()}"
        )
    one_signal = parts.dim() == 3
    parts = parts.unsqueeze(0) if one_signal else parts
    onesided = parts.shape[1] != n_fft if onesided is None else onesided
    _check_bins(call, parts.shape[1], n_fft, onesided)
    _check_window(call, n_fft, hop, size, window)
    count = parts.shape[2]
    kind = input.dtype.to_real()
    whole = factories.ones(size, dtype=kind) if window is None else window
    whole = _padded_window(whole, size, n_fft, kind)
    spectrum = view_as_complex(parts.transpose(1, 2))
    scaling = BY_ROOT if normalized else BY_COUNT
    if return_complex:
        if onesided:
            raise RuntimeError("cannot have onesided output if window or input is complex")
        pieces = _fft_c2c(spectrum, (spectrum.dim() - 1,), scaling, False)
    else:
        if window is not None and window.is_complex():
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        if not onesided:
            spectrum = slice_of(spectrum, -1, 0, n_fft // 2 + 1, 1)
        pieces = _fft_c2r(spectrum, (spectrum.dim() - 1,), scaling, n_fft)
    made = _added_up(call, pieces, whole, (n_fft, hop, count), (center, length))
    return made.squeeze(0) if one_signal else made


def _check_bins(call, bins, n_fft, onesided):
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if bins != wanted:
        size = "n_fft / 2 + 1" if onesided else "n_fft"
        raise RuntimeError(
            f"{call}: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {size} when onesided={onesided}, but got {bins}"
        )


def _added_up(call, pieces, window, sizes, options):
    n_fft, hop, count = sizes
    center, length = options
    wanted = n_fft + hop * (count - 1)
    weighted = pieces * window.view(1, 1, n_fft)
    signal = w.unfold_backward(weighted, (pieces.shape[0], wanted), 1, n_fft, hop)
    squares = window.pow(2).expand((1, count, n_fft))
    envelope = w.unfold_backward(squares, (1, wanted), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = -(n_fft // 2) if center else wanted
    if length is not None:
        end = start + length
    signal, envelope = (slice_of(x, 1, start, end, 1) for x in (signal, envelope))
    least = envelope.abs().min().item()
    if not least > 1e-11:
        raise RuntimeError(f"{call}window overlap add min: 1")
    made = signal / envelope
    if end > wanted:
        warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings."
        )
        made = constant_pad_nd(made, (0, end - wanted))
    return made
