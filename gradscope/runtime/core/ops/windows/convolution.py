"""The operation of all convolutions, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import GAPS, INTERNAL, family, joint, jvp, op, outputs, w
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.kernels.windows import convolution as kernels
from gradscope.runtime.core.kernels.windows.windows import windows
from gradscope.runtime.core.ops.in_formulas import handed_on, total
from gradscope.runtime.core.ops.windows.convolution_shapes import check_dtypes, checked, spread
from gradscope.runtime.core.rows.layouts import has_channels_last


def _convolution(
    input,
    weight,
    bias=None,
    stride=(1,),
    padding=(0,),
    dilation=(1,),
    transposed=False,
    output_padding=(0,),
    groups=1,
):
    shape, over = checked(
        input.shape,
        weight.shape,
        None if bias is None else bias.shape,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
    check_dtypes(input, weight, bias, dilation, transposed)
    wide = np.float32 if input.dtype in HALVES and not transposed else input.dtype
    given = input.astype(wide, copy=False), weight.astype(wide, copy=False)
    made = (kernels.to_input if transposed else kernels.forward)(*given, over, groups)
    made = made.reshape(shape)
    if bias is not None:
        made += bias.astype(wide, copy=False).reshape(-1, *(1 for _ in shape[2:]))
    made = made.astype(input.dtype, copy=False)
    asked = {3: (weight,), 4: (weight, input)}.get(made.ndim, ())
    if any(map(_is_channels_last, asked)):
        return np.moveaxis(np.moveaxis(made, 1, -1).copy("C"), -1, 1)
    return made


def _is_channels_last(array):
    """Whether a batch of images is channels last; a sequence is an image with one row."""
    shape, steps = array.shape, array.strides
    if steps[1] != array.itemsize or not array.size:
        return False
    if len(shape) == 3:
        shape = (*shape[:2], 1, shape[2])
        steps = (*steps[:2], shape[3] * steps[2], steps[2])
    return has_channels_last(shape, steps)


def _convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    """The gradients of input, weight and bias that are wanted."""
    stride, padding, dilation, _ = spread(input.ndim - 2, stride, padding, dilation, (0,))
    large, small = (grad_output, input) if transposed else (input, grad_output)
    over = windows(large.shape[2:], weight.shape[2:], small.shape[2:], stride, padding, dilation)
    found: list[Any] = [None, None, None]
    if output_mask[0]:
        back = kernels.forward if transposed else kernels.to_input
        found[0] = back(grad_output, weight, over, groups).reshape(input.shape)
    if output_mask[1]:
        found[1] = kernels.to_weight(small, large, over, groups).reshape(weight.shape)
    if output_mask[2]:
        found[2] = kernels.to_bias(grad_output)
    return tuple(found)


def _tangent(
    input_t,
    weight_t,
    bias_t,
    input,
    weight,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
):
    options = (stride, padding, dilation, transposed, output_padding, groups)
    terms = []
    if input_t is not None:
        terms.append(w.convolution(input_t, weight, None, *options))
    if weight_t is not None:
        terms.append(w.convolution(input, weight_t, None, *options))
    if bias_t is not None:
        terms.append(bias_t.reshape(1, -1, *(1 for _ in weight.shape[2:])))
    return total(terms)


WORDS = (
    "grad input weight bias_shape stride padding dilation transposed output_padding groups needs"
)
convolution__default = op(
    "ConvolutionBackward0",
    _convolution,
    jvp(_tangent),
    INTERNAL,
    joint("input", "weight", "bias", by=handed_on("convolution_backward", WORDS)),
)


def _again(
    grad,
    grad_output,
    input,
    weight,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    needs,
):
    """The gradients of the backward's inputs."""
    to_input, to_weight, to_bias = (*grad, None, None)[:3]
    options = (stride, padding, dilation, transposed, output_padding, groups)
    dims = grad_output.ndim - 2
    stride, padding, dilation, _ = spread(dims, stride, padding, dilation, output_padding)
    found: list[Any] = [None, None, None]
    if needs[0]:
        terms = []
        if to_input is not None:
            terms.append(w.convolution(to_input, weight, None, *options))
        if to_weight is not None:
            terms.append(w.convolution(input, to_weight, None, *options))
        if to_bias is not None:
            rows = w.view(to_bias, (1, -1, *(1 for _ in range(dims))))
            terms.append(w.expand(rows, tuple(grad_output.shape)))
        found[0] = total(terms)
    if needs[2] and to_input is not None:
        found[2] = _weight_again(
            to_input, grad_output, weight, stride, padding, dilation, transposed, groups
        )
    if needs[1] and to_weight is not None:
        sizes = (input.shape, grad_output.shape, weight.shape)
        more = (0,) * len(stride) if transposed else _left_over(*sizes, stride, padding, dilation)
        made = w.convolution(
            grad_output, to_weight, None, stride, padding, dilation, not transposed, more, groups
        )
        found[1] = _cut(made, input.shape)
    return tuple(found)


def _left_over(input, made, weight, stride, padding, dilation):
    """The size of the rest of an input that no window reaches."""
    return tuple(
        n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, o, k, s, p, d in zip(
            input[2:], made[2:], weight[2:], stride, padding, dilation, strict=True
        )
    )


def _weight_again(to_input, grad_output, weight, stride, padding, dilation, transposed, groups):
    """The weight's gradient: images and channels are exchanged, and so are stride and dilation."""
    large, small = (grad_output, to_input) if transposed else (to_input, grad_output)
    if groups == 1:
        made = [_swapped(large, small, stride, padding, dilation)]
    else:
        made = [
            _swapped(
                _group(large, nr, groups), _group(small, nr, groups), stride, padding, dilation
            )
            for nr in range(groups)
        ]
    joined = made[0] if groups == 1 else w.cat(made, 1)
    return w.transpose(_cut(joined, weight.shape), 0, 1)


def _cut(tensor, shape):
    """Drop the gradient where windows saw only padding."""
    for dim, size in enumerate(shape[2:], 2):
        if tensor.shape[dim] > size:
            tensor = w.slice(tensor, dim, 0, size, 1)
    return tensor


def _swapped(large, small, stride, padding, dilation):
    nothing = (0,) * len(stride)
    return w.convolution(
        w.transpose(large, 0, 1),
        w.transpose(small, 0, 1),
        None,
        dilation,
        padding,
        stride,
        False,
        nothing,
        1,
    )


def _group(tensor, nr, groups):
    width = tensor.shape[1] // groups
    return w.slice(tensor, 1, nr * width, (nr + 1) * width, 1)


def _backward_tangent(
    grad_output_t,
    input_t,
    weight_t,
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    """Each of the three gradients is linear in both of its factors."""
    options = (bias_sizes, stride, padding, dilation, transposed, output_padding, groups)
    given = [
        ((grad_output_t, input, weight), (True, True, True)),
        ((grad_output, input_t, weight), (False, True, False)),
        ((grad_output, input, weight_t), (True, False, False)),
    ]
    found: list[Any] = [None, None, None]
    for arrays, moved in given:
        wanted = tuple(a and b for a, b in zip(output_mask, moved, strict=True))
        if any(array is None for array in arrays) or not any(wanted):
            continue
        terms = w.convolution_backward(*arrays, *options, wanted)
        found = [
            t if f is None else f if t is None else f + t for f, t in zip(found, terms, strict=True)
        ]
    return tuple(found)


convolution_backward = op(
    "ConvolutionBackwardBackward0",
    _convolution_backward,
    jvp(_backward_tangent),
    INTERNAL,
    GAPS,
    outputs("grad_input", "grad_weight", "grad_bias"),
    joint("grad_output", "input", "weight", by=_again),
)
family(globals())
