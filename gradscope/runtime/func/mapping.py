"""vmap: a function for each sample of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.ops.pointwise.comparison import equal
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.default_generator import get_rng_state, set_rng_state
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.func.gradients import inside
from gradscope.runtime.utils._pytree import tree_flatten, tree_unflatten


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that calls `func` for each sample along these dims, and stacks the results."""

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten(args)
        dims = _dims(in_dims, args, flat)
        for x, dim in zip(flat, dims, strict=True):
            if dim is not None and not -x.dim() <= dim < x.dim():
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for "
                    f"some input, but that input is a Tensor of dimensionality {x.dim()} so "
                    f"expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}."
                )
        sizes = [x.size(d) for x, d in zip(flat, dims, strict=True) if d is not None]
        if len(set(sizes)) != 1:
            raise ValueError(_wrong_sizes(sizes, func))
        made = []
        before = get_rng_state()
        for i in range(sizes[0]):
            if randomness == "same":
                set_rng_state(before)
            sample = [x if d is None else x.select(d, i) for x, d in zip(flat, dims, strict=True)]
            made.append(inside(func, *tree_unflatten(sample, spec), **kwargs))
            if randomness == "error" and not equal(get_rng_state(), before):
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either "
                    "use the 'same' or 'different' randomness flags on vmap or perform the "
                    "randomness operation out of vmap"
                )
        if not made:
            raise ValueError("vmap: there is no sample, so nothing can be said of the result")
        return _stacked(made, out_dims)

    return mapped


def _wrong_sizes(sizes: Any, func: Any) -> str:
    if not sizes:
        return (
            f"vmap({_name(func)}, in_dims, ...)(<inputs>): at least one input must be mapped over"
        )
    return (
        "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
        f"{sizes} for the mapped dimension"
    )


def _name(func: Any) -> str:
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return getattr(func, "__name__", repr(func))


def _dims(in_dims: Any, args: tuple[Any, ...], flat: list[Any]) -> list[Any]:
    """The mapped dim of each tensor; None for one that is shared by all samples."""
    if isinstance(in_dims, int):
        return [in_dims if isinstance(x, Tensor) else None for x in flat]
    found: list[Any] = []
    for dim, arg in zip(in_dims, args, strict=True):
        leaves, spec = tree_flatten(arg)
        if dim is None or isinstance(dim, int):
            found += [dim if isinstance(x, Tensor) else None for x in leaves]
        else:
            said, shape = tree_flatten(dim)
            found += said if shape == spec else [said[0]] * len(leaves)
    return found


def _stacked(made: list[Any], out_dims: Any) -> Any:
    spec = tree_flatten(made[0])[1]
    columns = list(zip(*(tree_flatten(each)[0] for each in made), strict=True))
    dims = [out_dims] * len(columns) if isinstance(out_dims, int) else tree_flatten(out_dims)[0]
    stack = FUNCTIONS["stack"]
    return tree_unflatten([stack(list(c), d) for c, d in zip(columns, dims, strict=True)], spec)


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of several modules of one kind, stacked."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    stack = FUNCTIONS["stack"]

    def stacked(named: str) -> dict[str, Any]:
        rows = [dict(getattr(model, named)()) for model in models]
        return {name: stack([row[name].detach() for row in rows]) for name in rows[0]}

    parameters = {name: t.requires_grad_(True) for name, t in stacked("named_parameters").items()}
    return parameters, stacked("named_buffers")
