"""Broadcasting: expand, and broadcast shapes."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gradscope.runtime.core.calls.declare import METHOD_ONLY, family, view
from gradscope.runtime.core.dtypes.names import error_name
from gradscope.runtime.core.rows.offered import both, function, method
from gradscope.runtime.core.tensors.dims import sizes, text
from gradscope.runtime.core.tensors.size import Size


def _expand(self, size):
    lead = len(size) - self.ndim
    if lead >= 0 and self.flags.c_contiguous and self.size:
        steps = _lead_steps(self, size, lead) if lead and 1 in size[:lead] else [0] * lead
        for had, wanted, step in zip(self.shape, size[lead:], self.strides, strict=True):
            if had != wanted and (had != 1 or wanted < 0):
                break
            steps.append(step if had == wanted else 0)
        else:
            if not lead or min(size[:lead]) >= 0:
                return np.ndarray(size, self.dtype, self, 0, steps)
    if -1 in size:
        size = _without_negatives(self, size, lead)
    try:
        made = np.broadcast_to(self, size)
    except ValueError:
        raise RuntimeError(not_expandable(self, size, lead)) from None
    if 1 in size:  # NumPy uses stride 0 there
        pairs = zip(self.shape, size[lead:], self.strides, strict=True)
        steps = [step if had == wanted else 0 for had, wanted, step in pairs]
        return as_strided(self, size, [*_lead_steps(self, size, lead), *steps])
    if self.flags.writeable:
        made.flags.writeable = True
    return made


def _lead_steps(self, size, lead):
    """The strides of new leading dims: a size of 1 steps over the next dim."""
    steps, reach = [], self.shape[0] * self.strides[0] if self.ndim else self.itemsize
    for wanted in reversed(size[:lead]):
        steps.append(reach if wanted == 1 else 0)
        reach = wanted * steps[-1]
    return steps[::-1]


def _without_negatives(self, size, lead):
    for dim, wanted in enumerate(size[: max(lead, 0)]):
        if wanted < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) isn't allowed in a leading, "
                f"non-existing dimension {dim}"
            )
    return tuple(
        self.shape[d - lead] if wanted == -1 and d >= lead else wanted
        for d, wanted in enumerate(size)
    )


def not_expandable(self, size, lead):
    """PyTorch's error for an array that cannot be expanded to these sizes."""
    if lead < 0:
        return (
            f"expand({error_name(self)}{{{text(self.shape)}}}, size={text(size)}): the number of "
            f"sizes provided ({len(size)}) must be greater or equal to the number of dimensions in "
            f"the tensor ({self.ndim})"
        )
    dim = next(
        d for d in reversed(range(lead, len(size))) if self.shape[d - lead] not in (1, size[d])
    )
    return (
        f"The expanded size of the tensor ({size[dim]}) must match the existing size "
        f"({self.shape[dim - lead]}) at non-singleton dimension {dim}.  Target sizes: "
        f"{text(size)}.  Tensor sizes: {text(self.shape)}"
    )


# The engine sums a gradient over broadcast dims. The shape is saved for inspection of the node.
expand__default = view("ExpandBackward0", _expand, METHOD_ONLY, self=lambda grad, self_shape: grad)
family(globals())


@method
def expand(self, *size, implicit=False):
    return expand__default(self, sizes(size))


@method
def expand_as(self, other):
    return expand__default(self, other._array.shape)


@both
def broadcast_to(input, size):
    return expand__default(input, tuple(size))


@function
def broadcast_tensors(*tensors):
    """All tensors expanded to their common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    shape = broadcast_shape([t._array.shape for t in tensors])
    return tuple(t if t._array.shape == shape else t.expand(shape) for t in tensors)


@function
def broadcast_shapes(*shapes):
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    made = ()
    for nr, shape in enumerate(given):
        try:
            made = np.broadcast_shapes(made, shape)
        except ValueError:
            lead = len(made) - len(shape)
            at = next(
                d
                for d in range(-1, -1 - len(shape), -1)
                if lead + len(shape) + d >= 0
                and shape[d] != made[d]
                and 1 not in (shape[d], made[d])
            )
            raise RuntimeError(
                f"Attempting to broadcast a dimension of length {shape[at]} at {at}! Mismatching "
                f"argument at index {nr} had {shape}; but expected shape should be broadcastable "
                f"to {text(made)}"
            ) from None
    return Size(made)


def broadcast_shape(shapes):
    """The common shape of several shapes; the error names the first two that do not fit."""
    made = ()
    for shape in shapes:
        try:
            made = np.broadcast_shapes(made, shape)
        except ValueError:
            raise RuntimeError(disagreement(made, shape)) from None
    return made


def disagreement(first, second):
    """PyTorch's error for two shapes that do not broadcast."""
    reach = max(len(first), len(second))
    for dim in reversed(range(reach)):
        a = first[dim - reach + len(first)] if dim >= reach - len(first) else 1
        b = second[dim - reach + len(second)] if dim >= reach - len(second) else 1
        if a != b and 1 not in (a, b):
            return (
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                f"non-singleton dimension {dim}"
            )
    return ""


@method
def sum_to_size(self, *size):
    """Sum over the dims that were broadcast from `size`."""
    shape, found = sizes(size), self._array.shape
    lead = len(found) - len(shape)
    if lead < 0 or any(s not in (1, f) for s, f in zip(shape, found[lead:], strict=False)):
        raise RuntimeError(f"size {{{text(shape)}}} is not expandable to size {{{text(found)}}}.")
    stretched = (d for d in range(lead, len(found)) if shape[d - lead] == 1 != found[d])
    if not shape:
        return self.sum()
    dims = (*range(lead), *stretched)
    made = self.sum(dims, keepdim=True) if dims else self
    return made.view(shape) if lead else made
