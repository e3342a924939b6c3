"""`backward` and `grad`: check their arguments and start the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.batched import one_by_one
from gradscope.runtime.core.autograd.engine.engine import engine
from gradscope.runtime.core.autograd.engine.graph_task import on_arrays
from gradscope.runtime.core.autograd.modes.grad_mode import set_grad_enabled
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.engine import starting as errors
from gradscope.runtime.core.errors.engine.functional import backward_in_transform
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, Node, device_of
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn, while_failing
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.placement import mark, wrapped_on
from gradscope.runtime.core.tensors.size import Size
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class Identity(Node):
    """Stands for an input that no root leads to, so that the engine can look for it."""

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
    """Accumulate the gradients of `tensors` into the `.grad` of leaves (or of `inputs`)."""
    if grad_variables is not None:
        grad_tensors = _renamed(grad_tensors, grad_variables)
    run_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def run_backward(
    tensors: Any, grad_tensors: Any, retain_graph: bool | None, create_graph: bool, inputs: Any
) -> None:
    """The same without a gate, to save stack: backwards may be deeply nested."""
    if local.state.transforms:
        raise backward_in_transform()
    wanted = () if inputs is None else _inputs(inputs, "backward")
    roots = _listed(tensors)
    seeds = _seeds(roots, _listed(grad_tensors, len(roots)))
    try:
        run(
            roots,
            seeds,
            wanted,
            keep_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
            accumulate_grad=True,
        )
    except BaseException:
        if create_graph:
            while_failing(errors.grad_holds_graph)
        raise
    if create_graph:  # the engine's warning waits until the end
        errors.grad_holds_graph()


def _renamed(grad_tensors: Any, grad_variables: Any) -> Any:
    warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
    if grad_tensors is not None:
        raise errors.seeds_twice()
    return grad_variables


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
) -> Any:
    """Return the gradients of `outputs` by each of `inputs`, without changing any `.grad`."""
    if materialize_grads and allow_unused is False:
        raise errors.materialize_unused()
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    wanted = _inputs(inputs, "grad")
    roots = _listed(outputs)
    seeds = _seeds(roots, _listed(grad_outputs, len(roots)), batched=is_grads_batched)
    how = {
        "keep_graph": create_graph if retain_graph is None else retain_graph,
        "create_graph": create_graph,
    }
    if is_grads_batched:
        found = _one_by_one(roots, seeds, wanted, **how)
    else:
        found = run(roots, seeds, wanted, accumulate_grad=False, **how)
    if materialize_grads:
        found = [
            _zeros(x, requires_grad=create_graph) if gradient is None else gradient
            for gradient, x in zip(found, wanted, strict=True)
        ]
    elif not allow_unused:
        _refuse_unused(found, wanted)
    return dict(zip(inputs, found, strict=True)) if type(inputs) is dict else tuple(found)


def _refuse_unused(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for index, (gradient, asked) in enumerate(zip(found, wanted, strict=True)):
        if gradient is None:
            raise errors.unused_input(index, None if _is_edge(asked) else asked)


def _one_by_one(
    roots: Sequence[Any],
    seeds: Sequence[Any],
    wanted: Sequence[Any],
    *,
    keep_graph: bool,
    create_graph: bool,
) -> Sequence[Any]:
    """Stack the results of `grad` for each gradient of a batch."""
    left = max((len(seed) for seed in seeds if isinstance(seed, Tensor) and seed.dim()), default=0)

    def vjp(*rows: Any) -> Sequence[Any]:
        nonlocal left
        left -= 1  # only the last run may release saved tensors
        return run(
            roots,
            rows,
            wanted,
            keep_graph=keep_graph or left > 0,
            create_graph=create_graph,
            accumulate_grad=False,
        )

    with set_grad_enabled(create_graph):
        return one_by_one(vjp, seeds, "vjp")


def _zeros(wanted: Any, *, requires_grad: bool) -> Any:
    if not isinstance(wanted, Tensor):
        raise errors.materialize_edge()
    return zeros_like(wanted, requires_grad=requires_grad)


def _inputs(inputs: Any, caller: str) -> tuple[Any, ...]:
    """The inputs whose gradients are requested; at least one."""
    if isinstance(inputs, Mapping) and type(inputs) is not dict:
        raise errors.inputs_mapping(caller, inputs)
    wanted = _listed(inputs.values() if type(inputs) is dict else inputs)
    if not wanted:
        raise errors.no_inputs(caller)
    return wanted


def _listed(value: Any, count: int | None = None) -> tuple[Any, ...]:
    if value is None and count is not None:
        return (None,) * count
    if isinstance(value, Tensor) or _is_edge(value):
        return (value,)
    return tuple(value)


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "output_nr")


def _seeds(roots: Sequence[Any], given: Sequence[Any], *, batched: bool = False) -> list[Any]:
    """The initial gradient of each root: the given one, or 1 for a single element."""
    seeds = [
        _implicit(root) if seed is None else _explicit(root, seed, index, batched=batched)
        for index, (root, seed) in enumerate(zip(roots, given, strict=False))
    ]
    if len(roots) != len(seeds):
        raise errors.seed_count(len(roots), len(seeds))
    return seeds


def _layout(root: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an initial gradient."""
    if _is_edge(root):
        shape, dtype = root.node.input_metadata[root.output_nr]
        return shape, dtype
    if not isinstance(root, Tensor):
        raise errors.output_type()
    return root._array.shape, root._array.dtype


def _calculate_shape(output: Any, grad: Any, is_grads_batched: bool) -> tuple[Any, Any]:
    """The shapes of an output and of its gradient, which must be equal."""
    if is_grads_batched and _is_edge(output):
        raise RuntimeError("Batched grads are not supported with GradientEdge")
    return Size(_layout(output)[0]), grad.shape[1:] if is_grads_batched else grad.shape


def _device(root: Any) -> Any:
    return device_of(root.node) if _is_edge(root) else root.device


def _implicit(root: Any) -> Any:
    shape, dtype = _layout(root)
    if not _is_edge(root) and not root.requires_grad:
        return None
    if prod(shape) != 1:
        raise errors.not_a_scalar(shape, None if _is_edge(root) else root)
    if dtype.kind not in "fV":
        raise errors.not_real(dtypes.from_numpy(dtype), None if _is_edge(root) else root)
    one = np.empty(shape, dtype)
    one.fill(1)
    made = wrapped_on(one, _device(root))
    if local.state.dispatch_modes:
        return upward.given_to_modes("ones_like.default", (root,), {}, lambda _: made)
    return made


def _explicit(root: Any, seed: Any, index: int, *, batched: bool) -> Any:
    if not isinstance(seed, Tensor):
        raise errors.seed_type(seed)
    shape, dtype = _layout(root)
    if batched:
        _fits_in_rows(root, seed, index, shape)
    elif seed._array.shape != shape:
        raise errors.seed_shape(index, seed.shape, Size(shape))
    if (dtype.kind == "c") != (seed._array.dtype.kind == "c"):
        raise errors.seed_dtype(index, seed.dtype, dtypes.from_numpy(dtype))
    return seed


def _fits_in_rows(root: Any, seed: Any, index: int, shape: tuple[int, ...]) -> None:
    row = seed[0]
    if row.shape == shape:
        return
    if _is_edge(root):
        raise errors.batch_of_edge()
    raise errors.batch_shape(index, row.shape[1:], Size(shape))


def root_edge(root: Any, index: int) -> tuple[Node, int]:
    """The edge where a root's gradient starts."""
    if _is_edge(root):
        return root.node, root.output_nr
    node, nr = root.gradient_edge() or NOWHERE
    if node is None:
        raise errors.no_grad_fn(index, root)
    return node, nr


def _wanted_edge(wanted: Any) -> tuple[Node, int]:
    """The edge where the gradient of a requested input is captured."""
    if _is_edge(wanted):
        return wanted.node, wanted.output_nr
    if not isinstance(wanted, Tensor):
        raise errors.input_type(wanted)
    if not wanted.requires_grad:
        raise errors.input_without_grad(wanted)
    if wanted.history() is not None:
        return root_edge(wanted, 0)
    held = wanted.meta().accumulator
    node = held() if held is not None else None
    if node is not None:
        return node, 0
    made = Identity()
    prepare(made, (), local.state)
    made.input_metadata = ((wanted._array.shape, wanted._array.dtype),)
    mark(made, wanted)
    return made, 0


def run(
    roots: Sequence[Any],
    seeds: Sequence[Any],
    inputs: Sequence[Any],
    *,
    keep_graph: bool,
    create_graph: bool,
    accumulate_grad: bool,
) -> list[Any]:
    """Run the engine from the roots. Returns the gradients of the inputs, None if unused."""
    edges = [root_edge(root, i) for i, root in enumerate(roots)]
    if accumulate_grad:
        for tensor in inputs:
            if isinstance(tensor, Tensor):
                tensor.history()  # so that a view knows whether it is a leaf
                tensor.retain_grad()
    wanted = [_wanted_edge(x) for x in inputs]
    state, wanted_mode = local.state, create_graph
    create_graph = create_graph and not state.inference
    raw = on_arrays(create_graph=create_graph)
    values = [None if s is None else _fit(s, e, raw=raw) for s, e in zip(seeds, edges, strict=True)]
    if probe.here is not None and state.task is None:
        probe.here.differentiates(roots)
    before, state.grad_wanted = state.grad_wanted, wanted_mode
    try:
        found = engine.execute(
            edges,
            values,
            keep_graph=keep_graph,
            create_graph=create_graph,
            accumulate_grad=accumulate_grad,
            outputs=wanted,
        )
    finally:
        state.grad_wanted = before
    if accumulate_grad:
        return []
    result = [
        wrapped_on(gradient, device_of(node)) if raw and gradient is not None else gradient
        for gradient, (node, _) in zip(found, wanted, strict=True)
    ]
    if probe.here is not None and probe.here.look is not None:
        for (node, nr), gradient in zip(wanted, result, strict=True):
            probe.here.look.handed(node, (gradient,), nr)
    return result


@layout_only
def _fit(seed: Any, edge: tuple[Node, int], *, raw: bool) -> Any:
    _, dtype = edge[0].input_metadata[edge[1]]
    if dtype is None:
        return seed._array if raw else seed
    if raw:
        return seed._array if seed._array.dtype == dtype else seed._array.astype(dtype)
    return seed if seed._array.dtype == dtype else seed.to(dtypes.from_numpy(dtype))
