"""Random numbers, from the same streams as PyTorch's."""

from __future__ import annotations

from functools import partial
from operator import index as whole

import numpy as np

from gradscope.runtime.core.calls.declare import ELEMENTWISE, INTERNAL, family, inplace, op
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.memory_formats import empty_as
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.arguments.check_when_failing import judged
from gradscope.runtime.core.errors.memory import allocated
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.ops.in_formulas import zeros_like
from gradscope.runtime.core.rows.offered import METHODS, both, function
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.state.array_calls import captured_as
from gradscope.runtime.core.tensors.default_generator import chosen
from gradscope.runtime.core.tensors.dims import sizes
from gradscope.runtime.core.tensors.making.factories import dtype_named, new_leaf
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def as_it_lies(array):
    """The array with its dims in the order of memory, in which it is filled."""
    if array.flags.c_contiguous:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda dim: -array.strides[dim]))


def _uniform(self, from_=0.0, to=1.0, *, generator=None):
    target = as_it_lies(self)
    target[...] = chosen(generator).uniform(target.shape, self.dtype, float(from_), float(to))
    return self


def _normal(self, mean=0.0, std=1.0, *, generator=None):
    target, whole = as_it_lies(self), bool(self.flags.c_contiguous)
    target[...] = chosen(generator).normal(
        target.shape, self.dtype, float(mean), float(std), contiguous=whole
    )
    return self


def _bernoulli_in(self, p=0.5, *, generator=None):
    target = as_it_lies(self)
    target[...] = chosen(generator).bernoulli(p, target.shape)
    return self


def _exponential(self, lambd=1.0, *, generator=None):
    target = as_it_lies(self)
    target[...] = chosen(generator).exponential(target.shape, self.dtype, lambd)
    return self


def _whole(self, from_=None, to=None, *, generator=None):
    source, target = chosen(generator), as_it_lies(self)
    if from_ is None:
        target[...] = source.full_range(target.shape, self.dtype)
        return self
    low, high = (0, from_) if to is None else (from_, to)
    if low < high and self.dtype.kind in "iu" and self.dtype != np.int64:
        reach, name = np.iinfo(self.dtype), c_name(self)
        for what, bound in (("from", low), ("to - 1", high - 1)):
            if not reach.min <= bound <= reach.max:
                raise RuntimeError(f"{what} is out of bounds for {name}")
    target[...] = source.integers(low, high, target.shape)
    return self


def _bernoulli(self, *, generator=None):
    return chosen(generator).bernoulli(self).astype(self.dtype)


def _around(mean, std, generator):
    source = chosen(generator)
    if isinstance(std, np.ndarray):
        return source.normal_around(np.asarray(mean, std.dtype), std)
    return np.asarray(source.normal(mean.shape, mean.dtype, 0.0, float(std)) + mean)


# Random values do not depend on the old values: the gradient is zero.
NOTHING = {"self": lambda grad: zeros_like(grad)}

_drawn_uniform = op("UniformBackward0", _uniform, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_normal = op("NormalBackward0", _normal, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_bernoulli = op("BernoulliBackward2", _bernoulli_in, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_exponential = op("ExponentialBackward0", _exponential, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_whole = op("RandomBackward0", _whole, ELEMENTWISE, INTERNAL, **NOTHING)
_around_means = op(
    "NormalBackward1", lambda mean, std, *, generator=None: _around(mean, std, generator),
    ELEMENTWISE, ROW_BY_ROW, INTERNAL, mean=lambda grad: zeros_like(grad),
)  # fmt: skip
_of_stds = op(
    "NormalBackward2", lambda mean, std, *, generator=None: _around(mean, std, generator),
    ELEMENTWISE, ROW_BY_ROW, INTERNAL, std=lambda grad: zeros_like(grad),
)  # fmt: skip
_around_both = op(
    "NormalBackward3", lambda mean, std, *, generator=None: _around(mean, std, generator),
    ELEMENTWISE, ROW_BY_ROW, INTERNAL,
    mean=lambda grad: zeros_like(grad), std=lambda grad: zeros_like(grad),
)  # fmt: skip
uniform_ = inplace(_drawn_uniform)
normal_ = inplace(_drawn_normal)
bernoulli_ = inplace(_drawn_bernoulli)
exponential_ = inplace(_drawn_exponential)
random_ = inplace(_drawn_whole)
bernoulli__default = op("BernoulliBackward0", _bernoulli, ELEMENTWISE, ROW_BY_ROW, **NOTHING)
family(globals())


def _uniform_method(self, *bounds, generator=None, **named):
    low = named.get("from", bounds[0] if bounds else 0.0)
    high = named.get("to", bounds[1] if len(bounds) > 1 else 1.0)
    return uniform_(self, low, high, generator=generator)


METHODS.update(
    uniform_=_uniform_method,
    normal_=normal_,
    bernoulli_=bernoulli_,
    exponential_=exponential_,
    random_=random_,
)


def _shape(size, function):
    shape = sizes(size, function)
    bad = next((s for s in shape if s < 0), None)
    if bad is not None:
        raise RuntimeError(f"Trying to create tensor with negative dimension {bad}: {list(shape)}")
    return shape


def _dtype(dtype):
    return (dtypes.get_default_dtype() if dtype is None else dtype_named(dtype)).numpy


@function
@captured_as("drawn")
def rand(
    *size,
    generator=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
    out=None,
    **named,
):
    """Uniform values of [0, 1)."""
    where = devices.check(device)
    array = allocated(
        chosen(generator).uniform, _shape(named.get("size", size), "rand"), _dtype(dtype)
    )
    return written("rand", new_leaf(array, requires_grad, where), out)


@function
@captured_as("drawn")
def randn(
    *size,
    generator=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
    out=None,
    **named,
):
    """Values of the standard normal distribution."""
    where = devices.check(device)
    array = allocated(
        chosen(generator).normal, _shape(named.get("size", size), "randn"), _dtype(dtype)
    )
    return written("randn", new_leaf(array, requires_grad, where), out)


def _whole_numbers(low, high, shape, dtype, generator):
    return chosen(generator).integers(whole(low), whole(high), shape, (dtype or dtypes.int64).numpy)


@function
@judged
@captured_as("drawn")
def randint(
    *args,
    low=0,
    high=None,
    size=None,
    generator=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    out=None,
):
    """Integers of [low, high)."""
    where = devices.check(device)
    given = list(args)
    wanted = (size is None) + (high is None)
    if not wanted <= len(given) <= wanted + 1:
        raise invalid_combination("randint", args)
    if size is None:
        size = given.pop()
        if not isinstance(size, list | tuple):
            raise TypeError(
                f"randint(): argument 'size' (position {len(args)}) must be tuple of ints, not "
                f"{type(size).__name__}"
            )
    if high is None:
        high = given.pop()
    if given:
        low = given.pop()
    array = _whole_numbers(low, high, _shape((size,), "randint"), dtype, generator)
    return written("randint", new_leaf(array, requires_grad, where), out)


@function
@captured_as("drawn")
def randperm(
    n, *, generator=None, dtype=dtypes.int64, device=None, requires_grad=False, layout=None
):
    """0 to n - 1 in random order."""
    where = devices.check(device)
    return new_leaf(chosen(generator).permutation(n, dtype.numpy), requires_grad, where)


def _like(name, draw):
    """A factory that takes shape and dtype from a tensor."""

    @captured_as("drawn")
    def factory(
        input,
        *,
        generator=None,
        dtype=None,
        device=None,
        requires_grad=False,
        layout=None,
        memory_format=None,
    ):
        where = input.device if device is None else devices.check(device)
        array = empty_as(input._array, (dtype or input.dtype).numpy, memory_format)
        target = as_it_lies(array)
        target[...] = draw(chosen(generator), target, whole=bool(array.flags.c_contiguous))
        return new_leaf(array, requires_grad, where)

    factory.__name__ = name
    return function(factory)


rand_like = _like("rand_like", lambda source, to, whole: source.uniform(to.shape, to.dtype))
randn_like = _like(
    "randn_like", lambda source, to, whole: source.normal(to.shape, to.dtype, contiguous=whole)
)


@function
@captured_as("drawn")
def randint_like(input, *bounds, low=0, high=None, generator=None, dtype=None, **_):
    """Integers of [low, high) in a tensor's shape and dtype."""
    if bounds:
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    array = allocated(partial(empty_as, input._array), (dtype or input.dtype).numpy)
    target = as_it_lies(array)
    target[...] = _whole_numbers(low, high, target.shape, dtype or input.dtype, generator)
    return new_leaf(array, device=input.device)


@function
@captured_as("drawn")
def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    dtype=None,
    device=None,
    requires_grad=False,
    out=None,
):
    """Normal values with one mean, or with a tensor of means."""
    where = devices.check(device)
    if size is not None:
        source = chosen(generator)
        array = source.normal(_shape((size,), "normal"), _dtype(dtype), float(mean), float(std))
        return written("normal", new_leaf(array, requires_grad, where), out)
    draws = _of_stds if not isinstance(mean, Tensor) else _around_means
    draws = _around_both if isinstance(mean, Tensor) and isinstance(std, Tensor) else draws
    return written("normal", draws(mean, std, generator=generator), out)


@both
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with each element's probability, or with one probability."""
    if p is None:
        return written("bernoulli", bernoulli__default(input, generator=generator), out, (input,))
    drawn = chosen(generator).bernoulli(p, input._array.shape)
    found = new_leaf(drawn.astype(input._array.dtype), device=input.device)
    return written("bernoulli", found, out, (input,))


@both
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Classes drawn by weight, for each row of weights."""
    drawn = chosen(generator).multinomial(input._array, num_samples, replacement=replacement)
    drawn = drawn if drawn.flags.c_contiguous else drawn.copy("C")
    return written("multinomial", new_leaf(drawn, device=input.device), out)
