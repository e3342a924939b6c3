"""The public convolutions: conv1d to conv_transpose3d, and `torch.convolution`."""

from __future__ import annotations

from gradscope.runtime.core.ops.in_formulas import Scalar, nn_alias
from gradscope.runtime.core.ops.shape.aliasing import view_as_real
from gradscope.runtime.core.ops.shape.padding import constant_pad_nd
from gradscope.runtime.core.ops.shape.shape import squeeze__dim as squeeze, unsqueeze
from gradscope.runtime.core.ops.shape.slicing import select
from gradscope.runtime.core.ops.windows.convolution import convolution__default
from gradscope.runtime.core.rows.offered import FUNCTIONS, function
from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.core.tensors.dims import text
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _hashable(option):
    return tuple(option) if option.__class__ is list else option


def _with_parts(convolved, input, weight, bias):
    """A complex convolution as three real ones."""
    if input._array.dtype.kind != "c" != weight._array.dtype.kind:
        return convolved(input, weight, bias)
    if weight._array.dtype.kind != input._array.dtype.kind or _is_real(bias):
        return convolved(input, weight, bias)  # the operation raises the error
    real, imaginary = _parts(input)
    weight_real, weight_imaginary = _parts(weight)
    first = both = None
    if bias is not None:
        first, second = _parts(bias)
        both = first + second
    a = convolved(real, weight_real, first)
    b = convolved(imaginary, weight_imaginary, None)
    c = convolved(real + imaginary, weight_real + weight_imaginary, both)
    return a - b + (c - a - b) * Scalar(1j)


def _is_real(bias):
    return bias is not None and bias._array.dtype.kind != "c"


def _parts(tensor):
    pairs = view_as_real(tensor)
    return select(pairs, -1, 0), select(pairs, -1, 1)


def _batched(input, dims, name):
    """The input as a batch, and whether it was one."""
    ndim = input._array.ndim
    if ndim == dims + 2:
        return input, True
    if ndim != dims + 1:
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got "
            f"input of size: {text(input._array.shape)}"
        )
    return unsqueeze(input, 0), False


def _checked(name, input, weight):
    for value, position in ((input, 1), (weight, 2)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}() received an invalid combination of arguments: argument {position} must "
                f"be Tensor, not {type(value).__name__}"
            )


def _check_weight(weight):
    if weight._array.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")


def _convolution(dims):
    name, nothing = f"conv{dims}d", (0,) * dims

    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        _checked(name, input, weight)
        batch, is_batch = _batched(input, dims, name)
        _check_weight(weight)
        given = [_lists(dims, option) for option in (stride, padding, dilation)]

        def convolved(x, y, z):
            if isinstance(padding, str):
                return _named_padding(x, y, z, stride, padding, dilation, groups)
            return convolution__default(x, y, z, *given, False, nothing, groups)

        made = _with_parts(convolved, batch, weight, bias)
        return made if is_batch else squeeze(made, 0)

    conv.__doc__ = f"Windows over {dims} dims, multiplied with the weight."
    return _named(conv, name)


def _lists(dims, option):
    """An option in the form of PyTorch's parser: a number becomes a list."""
    if option.__class__ is int:
        return (option,) * dims
    return _hashable(option)


def _transposed(dims):
    name = f"conv_transpose{dims}d"

    def conv(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        _checked(name, input, weight)
        batch, is_batch = _batched(input, dims, name)
        _check_weight(weight)
        given = [_lists(dims, option) for option in (stride, padding, dilation)]
        more = _lists(dims, output_padding)

        def convolved(x, y, z):
            return convolution__default(x, y, z, *given, True, more, groups)

        made = _with_parts(convolved, batch, weight, bias)
        return made if is_batch else squeeze(made, 0)

    conv.__doc__ = f"The transpose of windows over {dims} dims, as gradients go back through them."
    return _named(conv, name)


def _named(made, name):
    made.__name__ = made.__qualname__ = name
    return nn_alias(function(made), name)


def _named_padding(input, weight, bias, stride, padding, dilation, groups):
    dims = weight._array.ndim - 2
    if padding == "valid":
        given = _lists(dims, stride), (0,), _lists(dims, dilation)
        return convolution__default(input, weight, bias, *given, False, (0,), groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if input._array.ndim != weight._array.ndim:
        raise RuntimeError(
            f"Expected {dims + 2}-dimensional input for {dims + 2}-dimensional weight"
            f"{text(weight._array.shape)}, but got {input._array.ndim}-dimensional input of size "
            f"{text(input._array.shape)} instead"
        )
    steps, gaps = _spread(stride, dims, "stride"), _spread(dilation, dims, "dilation")
    if any(step != 1 for step in steps):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    missing = [gap * (k - 1) for gap, k in zip(gaps, weight._array.shape[2:], strict=True)]
    both = tuple(count // 2 for count in missing)
    if any(count % 2 for count in missing):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created"
        )
        ends = [n for count in reversed(missing) for n in (0, count % 2)]
        input = constant_pad_nd(input, tuple(ends), 0)
    options = (steps, both, gaps, False, (0,) * dims)
    return convolution__default(input, weight, bias, *options, groups)


def _spread(option, dims, name):
    given = _lists(dims, option)
    given = given * dims if len(given) == 1 else given
    if len(given) != dims:
        raise RuntimeError(f"{name} cannot broadcast to {dims} dimensions")
    return given


conv1d, conv2d, conv3d = (_convolution(dims) for dims in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_transposed(dims) for dims in (1, 2, 3))


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Any convolution, with all options."""
    given = [_hashable(option) for option in (stride, padding, dilation)]
    more = _hashable(output_padding)

    def convolved(x, y, z):
        return convolution__default(x, y, z, *given, bool(transposed), more, groups)

    return _with_parts(convolved, input, weight, bias)


FUNCTIONS["convolution"] = convolution
