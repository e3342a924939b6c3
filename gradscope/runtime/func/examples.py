"""vmap: a function of one example as a function of many, by calling it for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradscope.runtime.func import trees
from gradscope.runtime.ops import FUNCTIONS
from gradscope.runtime.random import get_rng_state, set_rng_state
from gradscope.runtime.tensor import Tensor

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that takes many examples beside each other and calls `func` with one at a time.

    The results are those of PyTorch, which computes all at once; here a loop does, so that the
    graph holds each example's operations.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _dims_of(in_dims, args, _name(func))
        count = _count(dims, args, _name(func), in_dims)
        made = []
        state = get_rng_state()
        for i in range(count):
            if randomness == "same":
                set_rng_state(state)
            example = trees.refilled(args, iter(_at(trees.leaves(args), dims, i)))
            rows = iter([_row(leaf, i) for leaf in trees.leaves(kwargs)])
            made.append(func(*example, **trees.refilled(kwargs, rows)))
            if randomness == "error" and i == 0 and not state.equal(get_rng_state()):
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either "
                    "use the 'same' or 'different' randomness flags on vmap or perform the "
                    "randomness operation out of vmap"
                )
        return _stacked(made, out_dims, _name(func))

    return wrapper


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _row(leaf: Any, i: int) -> Any:
    return leaf.select(0, i) if isinstance(leaf, Tensor) else leaf


def _at(found: list[Any], dims: list[Any], i: int) -> list[Any]:
    pairs = zip(found, dims, strict=True)
    return [leaf if dim is None else leaf.select(dim, i) for leaf, dim in pairs]


def _dims_of(in_dims: Any, args: tuple[Any, ...], name: str) -> list[Any]:
    """For each leaf of the arguments, the dim its examples lie along, or None."""
    if not isinstance(in_dims, int | tuple | list | dict) and in_dims is not None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
            "(potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    if not isinstance(in_dims, tuple | list):
        return [in_dims] * len(trees.leaves(args))
    if len(in_dims) != len(args):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
            f"structure of inputs. in_dims has structure {len(in_dims)} but inputs has structure "
            f"{len(args)}."
        )
    return [dim for one, given in zip(in_dims, args, strict=True) for dim in _spread(one, given)]


def _spread(dims: Any, given: Any) -> list[Any]:
    """One dim for all leaves of an argument, or a nest of dims like it."""
    if isinstance(dims, dict):
        return [dim for key in given for dim in _spread(dims[key], given[key])]
    if isinstance(dims, tuple | list):
        pairs = zip(dims, given, strict=True)
        return [dim for one, item in pairs for dim in _spread(one, item)]
    return [dims] * len(trees.leaves(given))


def _count(dims: list[Any], args: Any, name: str, in_dims: Any) -> int:
    """How many examples there are."""
    sizes = []
    for leaf, dim in zip(trees.leaves(args), dims, strict=True):
        if dim is None:
            continue
        text = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for "
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{text}an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{text}some input, but that input is a Tensor of dimensionality {leaf.dim()} so "
                f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        sizes.append(leaf.size(dim))
    if not sizes:
        raise ValueError("At least one of the inputs must be mapped: all in_dims are None")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _stacked(made: list[Any], out_dims: Any, name: str) -> Any:
    """The results of all examples beside each other."""
    if not made:
        raise RuntimeError(f"vmap({name}): there is no example to call it with")
    first = trees.leaves(made[0])
    for leaf in first:
        if not trees.is_tensor(leaf):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did "
                "you mean to set out_dims= to None for output?"
            )
    if not isinstance(out_dims, tuple | list | dict):
        dims = [out_dims] * len(first)
    elif isinstance(made[0], tuple | list):
        pairs = zip(out_dims, made[0], strict=True)
        dims = [dim for one, item in pairs for dim in _spread(one, item)]
    else:
        dims = _spread(out_dims[0] if isinstance(out_dims, tuple) else out_dims, made[0])
    columns = zip(*[trees.leaves(one) for one in made], strict=True)
    stack = FUNCTIONS["stack"]
    joined = [
        column[0] if dim is None else stack(list(column), dim)
        for column, dim in zip(columns, dims, strict=True)
    ]
    return trees.refilled(made[0], iter(joined))
