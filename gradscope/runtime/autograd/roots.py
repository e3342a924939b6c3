"""`backward` and `grad`: what to start from, with what, and which gradients are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.autograd.engine import engine
from gradscope.runtime.autograd.node import Node, prepare
from gradscope.runtime.call import wrap
from gradscope.runtime.state import local
from gradscope.runtime.tensor import Tensor


class Identity(Node):
    """Stands for an input that no root leads to, so that the engine has a place to look for it."""

    __slots__ = ()

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        return grads

    run_tensors = run_arrays


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves (or of `inputs`) they came from."""
    if local.state.task is not None and local.state.inference:
        raise RuntimeError("backward() called inside inference mode")
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    wanted: tuple[Any, ...] = ()
    if inputs is not None:
        wanted = _listed(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _listed(tensors)
    seeds = _seeds(roots, _listed(grad_tensors, len(roots)), create_graph=create_graph)
    _run(
        roots,
        seeds,
        keep_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=wanted,
        accumulate_grad=True,
        allow_unused=True,
    )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` for each of `inputs`, without touching anybody's `.grad`."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when "
            "materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    wanted = _listed(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    roots = _listed(outputs)
    given = _listed(grad_outputs, len(roots))
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        from gradscope.runtime.autograd.batched import batched_grad

        return batched_grad(roots, wanted, given, keep, create_graph, allow_unused)
    seeds = _seeds(roots, given, create_graph=create_graph)
    found = _run(
        roots,
        seeds,
        keep_graph=keep,
        create_graph=create_graph,
        inputs=wanted,
        accumulate_grad=False,
        allow_unused=allow_unused,
    )
    if materialize_grads:
        found = tuple(
            wrap(np.zeros_like(_tensor_of(x)._array)) if g is None else g
            for g, x in zip(found, wanted, strict=True)
        )
    return found


def _tensor_of(wanted: Any) -> Any:
    if not isinstance(wanted, Tensor):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    return wanted


def _listed(value: Any, count: int = 0) -> tuple[Any, ...]:
    if value is None:
        return (None,) * count
    if isinstance(value, Tensor) or _is_edge(value):
        return (value,)
    return tuple(value)


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "output_nr")


def _seeds(roots: Sequence[Any], given: Sequence[Any], *, create_graph: bool) -> list[Any]:
    """The gradient to start with at each root: what was given, or 1 for a single number."""
    if len(roots) != len(given):
        raise RuntimeError(f"got {len(roots)} tensors and {len(given)} gradients")
    return [
        _implicit(root) if seed is None else _explicit(root, seed, i, create_graph=create_graph)
        for i, (root, seed) in enumerate(zip(roots, given, strict=True))
    ]


def _implicit(root: Any) -> Any:
    if _is_edge(root):
        shape, dtype = root.node.input_metadata[root.output_nr]
        size = int(np.prod(shape))
    else:
        shape, dtype, size = root._array.shape, root._array.dtype, root._array.size
        if not root.requires_grad:
            return None
    if size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if dtype.kind not in "fV":
        kind = type(root).__name__ if _is_edge(root) else str(root.dtype)
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {kind}"
        )
    return wrap(np.ones(shape, dtype))


def _explicit(root: Any, seed: Any, index: int, *, create_graph: bool) -> Any:
    if not isinstance(seed, Tensor):
        raise TypeError("gradients can be either Tensors or None, but got " + type(seed).__name__)
    shape, dtype = (
        root.node.input_metadata[root.output_nr]
        if _is_edge(root)
        else (root._array.shape, root._array.dtype)
    )
    if seed._array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of torch.Size({list(seed._array.shape)})"
            f" and output[{index}] has a shape of torch.Size({list(shape)})."
        )
    if (dtype.kind == "c") != (seed._array.dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{index}] has a dtype of {seed.dtype} and "
            f"output[{index}] has a dtype of {root.dtype}."
        )
    return seed


def root_edge(root: Any, index: int) -> tuple[Node, int]:
    """Where a root's gradient goes."""
    if _is_edge(root):
        return root.node, root.output_nr
    edge = root.gradient_edge()
    if edge is None:
        raise RuntimeError(
            f"element {index} of tensors does not require grad and does not have a grad_fn"
        )
    return edge


def _wanted_edge(wanted: Any) -> tuple[Node, int]:
    """Where the gradient of an asked-for input can be caught."""
    if _is_edge(wanted):
        return wanted.node, wanted.output_nr
    if not wanted.requires_grad:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    edge = wanted._edge if not wanted.is_leaf else None
    edge = edge or (wanted.gradient_edge() if not wanted.is_leaf else None)
    if edge is not None:
        return edge
    held = wanted._meta.accumulator
    node = held() if held is not None else None
    if node is not None:
        return node, 0
    made = Identity()
    prepare(made, (), local.state.next_sequence_nr())
    made.input_metadata = ((wanted._array.shape, wanted._array.dtype),)
    return made, 0


def _run(
    roots: Sequence[Any],
    seeds: Sequence[Any],
    *,
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any],
    accumulate_grad: bool,
    allow_unused: bool,
) -> tuple[Any, ...]:
    edges = [root_edge(root, i) for i, root in enumerate(roots)]
    wanted = [_wanted_edge(x) for x in inputs]
    retained = [x for x in inputs if accumulate_grad and isinstance(x, Tensor) and not x.is_leaf]
    for tensor in retained:
        tensor.retain_grad()
    raw = not create_graph
    values = [None if s is None else _fit(s, e, raw=raw) for s, e in zip(seeds, edges, strict=True)]
    found = engine.execute(
        edges,
        values,
        keep_graph=keep_graph,
        create_graph=create_graph,
        accumulate_grad=accumulate_grad,
        outputs=wanted,
    )
    if accumulate_grad:
        return ()
    result = tuple(None if g is None else (wrap(g) if raw else g) for g in found)
    if not allow_unused and any(g is None for g in result):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return result


def _fit(seed: Any, edge: tuple[Node, int], *, raw: bool) -> Any:
    _, dtype = edge[0].input_metadata[edge[1]]
    if raw:
        return seed._array if seed._array.dtype == dtype else seed._array.astype(dtype)
    return seed
