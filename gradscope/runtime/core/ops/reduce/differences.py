"""Differences and areas: diff, gradient, trapezoid."""

from __future__ import annotations

from gradscope.runtime.core.ops.in_formulas import function_alias, is_number
from gradscope.runtime.core.ops.pointwise.arithmetic import div__Scalar, mul__Scalar
from gradscope.runtime.core.ops.shape.joining import cat
from gradscope.runtime.core.ops.shape.slicing import slice__default as part
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.tensors.dims import wrapped, wrapped_all
from gradscope.runtime.core.tensors.making.factories import zeros, zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


@both
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """The difference of each element from the previous one, `n` times."""
    dim = _one_dim(input, n, dim)
    extra = [t for t in (prepend, append) if t is not None]
    for given in extra:
        _check_extra(input, given, dim)
    if not n:
        return zeros_like(input).copy_(input)
    made = _joined(input, prepend, append, dim)
    for _ in range(min(n, made.shape[dim])):
        size = made.shape[dim] - 1
        after, before = made.narrow(dim, 1, size), made.narrow(dim, 0, size)
        made = after.logical_xor(before) if made._array.dtype.kind == "b" else after - before
    return made


def _one_dim(input, n, dim):
    if not input.dim():
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    return wrapped(dim, input.dim())


def _check_extra(input, given, dim):
    if given.dim() != input.dim():
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for d, (size, there) in enumerate(zip(given.shape, input.shape, strict=True)):
        if d != dim and size != there:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {there}, but got "
                f"tensor.size({d}) = {size}"
            )


def _joined(input, prepend, append, dim):
    parts = [t for t in (prepend, input, append) if t is not None]
    return cat(parts, dim) if len(parts) > 1 else input


# -- gradient -------------------------------------------------------------------------------------


@function
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Numerical derivatives along dims: central inside, one-sided at the edges."""
    single = dim is not None and not isinstance(dim, list | tuple)
    dims = _slope_dims(input, (dim,) if single else dim)
    steps = _steps(input, spacing, dims, given=dim is not None)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return tuple(
        _along_places(input, step, d, edge_order)
        if isinstance(step, Tensor)
        else _along_steps(input, step, d, edge_order)
        for step, d in zip(steps, dims, strict=True)
    )


def _slope_dims(input, dim):
    if dim is None:
        return tuple(range(input.dim()))
    return tuple(wrapped_all(tuple(dim), input.dim()))


def _steps(input, spacing, dims, *, given):
    if spacing is None:
        return [1.0] * len(dims)
    if is_number(spacing):
        return [spacing] * len(dims)
    steps = list(spacing)
    if len(steps) != len(dims):
        if given:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and "
                f"dim arguments to have the same length, but got a spacing argument of length "
                f"{len(steps)} and a dim argument of length {len(dims)}."
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to 'self.dim() = {input.dim()}', since dim argument was not given, but got a "
            f"list of length {len(steps)}"
        )
    return steps


def _along_steps(input, step, dim, edge_order):
    """Equal distances between points."""
    inside = div__Scalar(div__Scalar(part(input, dim, 2) - part(input, dim, 0, -2), step), 2)
    if edge_order == 1:
        first = div__Scalar(part(input, dim, 1, 2) - part(input, dim, 0, 1), step)
        last = div__Scalar(part(input, dim, -1) - part(input, dim, -2, -1), step)
        return cat([first, inside, last], dim)

    def times(number, start, end=None):
        return mul__Scalar(part(input, dim, start, end), number)

    first = times(-1.5, 0, 1) + times(2, 1, 2) - times(0.5, 2, 3)
    last = times(0.5, -3, -2) - times(2, -2, -1) + times(1.5, -1)
    return cat([div__Scalar(first, step), inside, div__Scalar(last, step)], dim)


def _along_places(input, places, dim, edge_order):
    """Given coordinates: each neighbour is weighted by its distance."""
    if places.dim() != 1:
        raise RuntimeError(
            f"torch.gradient expected each element of spacing to have one dimension, but got an "
            f"element with {places.dim()} dimensions"
        )
    if places.shape[0] != input.shape[dim]:
        raise RuntimeError("torch.gradient expected length of spacing to match input.size(dim)")
    shape = [1] * input.dim()
    shape[dim] = -1
    gaps = diff(places).reshape(shape)
    before, after = part(gaps, dim, 0, -1), part(gaps, dim, 1)
    weights = _inside_weights(before, after)
    inside = _weighted(
        weights, (part(input, dim, 0, -2), part(input, dim, 1, -1), part(input, dim, 2))
    )
    if edge_order == 1:
        first = (part(input, dim, 1, 2) - part(input, dim, 0, 1)) / part(gaps, dim, 0, 1)
        last = (part(input, dim, -1) - part(input, dim, -2, -1)) / part(gaps, dim, -1)
        return cat([first, inside, last], dim)
    one, two = part(gaps, dim, 0, 1), part(gaps, dim, 1, 2)
    first = _weighted(
        _edge_weights(one, two),
        (part(input, dim, 0, 1), part(input, dim, 1, 2), part(input, dim, 2, 3)),
    )
    one, two = part(gaps, dim, -1), part(gaps, dim, -2, -1)
    third, second, nearest = _edge_weights(one, two)[::-1]
    last = _weighted(
        (-third, -second, -nearest),
        (part(input, dim, -3, -2), part(input, dim, -2, -1), part(input, dim, -1)),
    )
    return cat([first, inside, last], dim)


def _inside_weights(before, after):
    total = before + after
    return -after / (before * total), (after - before) / (before * after), before / (after * total)


def _edge_weights(one, two):
    """Weights of the edge, its neighbour and the next; the first gap is `one`."""
    total = one + two
    return -(one + total) / (one * total), total / (one * two), -one / (two * total)


def _weighted(weights, values):
    first, second, third = (x * value for x, value in zip(weights, values, strict=True))
    return first + second + third


# -- areas ----------------------------------------------------------------------------------------


def _area_shapes(y, x, dim):
    """Check the coordinates, and give them missing leading dims."""
    if x.dim() != 1 and x.dim() >= y.dim():
        return x
    if x.dim() == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
        shape = [1] * y.dim()
        shape[dim] = x.shape[0]
        return x.view(shape)
    return x.view([1] * (y.dim() - x.dim()) + list(x.shape))


def _halves(y, dim):
    """Sums of neighbours: twice the height of a strip."""
    return part(y, dim, 0, -1) + part(y, dim, 1)


def _strips(y, x, dim):
    """Twice the area of each strip between neighbours."""
    dim = wrapped(dim, y.dim())
    places = _area_shapes(y, x, dim)
    back = dim - y.dim() if places.dim() > y.dim() else dim
    widths = part(places, back, 1) - part(places, back, 0, -1)
    return _halves(y, dim) * widths


@function
def trapezoid(y, x=None, *, dx=1, dim=-1):
    """The area under the points, connected by straight lines."""
    if y.dim() and not y.shape[dim]:
        return _no_area(y, dim)
    if x is not None:
        return div__Scalar(_strips(y, x, dim).sum(wrapped(dim, y.dim())), 2.0)
    if not y.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    edges = mul__Scalar(y.select(dim, 0) + y.select(dim, -1), 0.5)
    return mul__Scalar(y.sum(dim) - edges, dx)


def _no_area(y, dim):
    shape = list(y.shape)
    shape.pop(dim)
    return zeros(shape, dtype=(y.new_zeros(()) * 1.0).dtype, device=y.device)


@function
def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    """The cumulative area under the points, connected by straight lines."""
    if x is not None:
        return div__Scalar(_strips(y, x, dim).cumsum(wrapped(dim, y.dim())), 2.0)
    return mul__Scalar(_halves(y, dim), dx / 2).cumsum(dim)


function_alias(trapezoid, "trapz")
