"""Gradients of functions as functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.autograd.engine.backward import grad as gradients_of
from gradscope.runtime.core.autograd.forward.forward_grad import (
    ForwardADLevel,
    fw_grad,
    set_fw_grad,
)
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


class _Depth:
    """Number of nested transforms that take gradients."""

    now = 0


def inside(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function as part of a transform: it cannot call `backward`."""
    state = local.state
    state.transforms += 1
    try:
        return func(*args, **kwargs)
    finally:
        state.transforms -= 1


def variable(tensor: Any) -> Any:
    """The same values as something to differentiate by, still connected to its history."""
    if not isinstance(tensor, Tensor):
        return tensor
    made: Any = tensor
    if made.requires_grad:
        return made.view_as(made)
    return with_tangent_of(made, made.detach().requires_grad_(True))


def with_tangent_of(tensor: Any, plain: Any) -> Any:
    """`plain` with the tangent of `tensor`: an outer `jvp` sees gradients taken inside."""
    tangent = fw_grad(tensor)
    if tangent is not None:
        set_fw_grad(plain, tangent)
    return plain


def differentiated(
    outputs: list[Any], inputs: list[Any], given: list[Any], *, graph: bool
) -> list[Any]:
    """The gradients of outputs by inputs; zeros for independent ones."""
    reached = [(y, g) for y, g in zip(outputs, given, strict=True) if y.requires_grad]
    if not reached:
        return [zeros_like(x) for x in inputs]
    found = gradients_of(
        [y for y, _ in reached],
        inputs,
        [g for _, g in reached],
        create_graph=graph,
        retain_graph=True,
        allow_unused=True,
    )
    return [zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def leads_elsewhere(outputs: list[Any], inputs: list[Any]) -> bool:
    """Whether other tensors than these inputs require grad: then the result has a history."""
    tangents = [fw_grad(x) for x in inputs]
    if any(t is not None and t.requires_grad for t in tangents):
        return True
    own, seen = {id(x) for x in inputs}, set()
    pending = [y.grad_fn for y in outputs if y.grad_fn is not None]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in own:
            return True
        pending += [each for each, _ in node.next_functions if each is not None]
    return False


def chosen_inputs(args: tuple[Any, ...], argnums: Any) -> tuple[list[Any], Any, tuple[Any, ...]]:
    """The tensors of the arguments with these numbers, their structure, and all arguments."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    numbers = tuple(number % len(args) for number in numbers)
    made = tuple(tree_map(variable, a) if i in numbers else a for i, a in enumerate(args))
    picked = made[numbers[0]] if isinstance(argnums, int) else tuple(made[i] for i in numbers)
    leaves, spec = tree_flatten(picked)
    return leaves, spec, made


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, and the result of `func`."""

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        _Depth.now += 1
        try:
            with enable_grad():
                inputs, spec, made = chosen_inputs(args, argnums)
                _check_tensors(inputs)
                result = inside(func, *made, **kwargs)
                value, aux = result if has_aux else (result, None)
                _check_scalar(value)
                graph = _Depth.now > 1 or leads_elsewhere([value], inputs)
                found = differentiated([value], inputs, [None], graph=graph)
        finally:
            _Depth.now -= 1
        if not graph:
            value, aux = tree_map(without_history, (value, aux))
        gradients = tree_unflatten(found, spec)
        return (gradients, (value, aux)) if has_aux else (gradients, value)

    return both


def _check_tensors(inputs: list[Any]) -> None:
    for each in inputs:
        if not isinstance(each, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(each)}")


def without_history(value: Any) -> Any:
    """A detached tensor that keeps its tangent."""
    if not isinstance(value, Tensor):
        return value
    found: Any = value.detach()
    tangent = fw_grad(value)
    if tangent is not None:
        set_fw_grad(found, tangent.detach())
    return found


def _check_scalar(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}"
        )
    if value.dim() != 0:
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
            f"with {value.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, which must return one number."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `func`, and a function that multiplies vectors with its Jacobian."""
    with enable_grad():
        inputs, spec, made = chosen_inputs(primals, tuple(range(len(primals))))
        result = inside(func, *made)
    value, aux = result if has_aux else (result, None)
    outputs, shape = tree_flatten(value)
    graph = leads_elsewhere(outputs, inputs)

    def product(cotangents: Any, retain_graph: bool = True, create_graph: bool = graph) -> Any:
        given = tree_leaves(cotangents)
        with enable_grad():
            found = differentiated(outputs, inputs, given, graph=create_graph)
        return tree_unflatten(found, spec)

    shown = tree_unflatten([y if graph else without_history(y) for y in outputs], shape)
    aux = aux if graph else tree_map(without_history, aux)
    return (shown, product, aux) if has_aux else (shown, product)


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: Any = False,
) -> tuple[Any, ...]:
    """The result of `func`, and the product of its Jacobian with these tangents."""
    from gradscope.runtime.autograd import forward_ad

    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be "
                "valid to call f(*primals)."
            )
    if ForwardADLevel.open is not None:
        return _jvp_backwards(func, primals, tangents, has_aux=has_aux)
    with forward_ad.dual_level():
        duals = tree_map(forward_ad.make_dual, tuple(primals), tuple(tangents))
        result = inside(func, *duals)
        value, aux = result if has_aux else (result, None)
        parts = [forward_ad.unpack_dual(each) for each in tree_leaves(value)]
        spec = tree_flatten(value)[1]
        values = tree_unflatten([each.primal for each in parts], spec)
        moved = [zeros_like(p.primal) if p.tangent is None else p.tangent for p in parts]
    made = tree_unflatten(moved, spec)
    return (values, made, aux) if has_aux else (values, made)


def _jvp_backwards(
    func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: Any
) -> tuple[Any, ...]:
    """The same inside another `jvp`, since there is only one dual level.

    A gradient of `func` is linear in the vector given to backward. Its derivative by that vector,
    times the tangents, is the product with the Jacobian.
    """
    with enable_grad():
        inputs, _, made = chosen_inputs(primals, tuple(range(len(primals))))
        result = inside(func, *made)
        value, aux = result if has_aux else (result, None)
        outputs, spec = tree_flatten(value)
        given = [zeros_like(y).requires_grad_(True) for y in outputs]
        pulled = differentiated(outputs, inputs, given, graph=True)
        moved = differentiated(pulled, given, tree_leaves(tangents), graph=True)
        graph = _Depth.now > 0 or leads_elsewhere(outputs, inputs)
        graph = graph or any(t.requires_grad for t in tree_leaves(tangents))
    if not graph:
        outputs, moved, aux = tree_map(without_history, (outputs, moved, aux))
    values, found = tree_unflatten(outputs, spec), tree_unflatten(moved, spec)
    return (values, found, aux) if has_aux else (values, found)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of `func`, and a function from tangents to their products with its Jacobian."""

    def product(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), product
