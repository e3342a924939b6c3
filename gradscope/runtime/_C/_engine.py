"""`Variable._execution_engine`: the engine, for direct calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.autograd.graph import GradientEdge
from gradscope.runtime.core.autograd.engine.backward import run
from gradscope.runtime.core.autograd.engine.engine import engine
from gradscope.runtime.core.errors.engine import starting as errors
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class _EngineBase:
    """Runs backwards. All instances are one engine."""

    __module__ = "torch._C"

    def run_backward(self, *given: Any, **named: Any) -> Any:
        """The core of `backward` (with `accumulate_grad`) and `grad`, without defaults.

        Takes tensors, grad_tensors, keep_graph, create_graph, and optionally inputs,
        allow_unreachable and accumulate_grad.
        """
        tensors, grad_tensors, keep_graph, create_graph, *options = _arguments(given, named)
        inputs, allow_unreachable, accumulate_grad = options
        _tuple(tensors, "tensors")
        _tuple(grad_tensors, "grad_tensors")
        if len(tensors) != len(grad_tensors):
            raise RuntimeError(f"got {len(tensors)} tensors and {len(grad_tensors)} gradients")
        for index, (root, seed) in enumerate(zip(tensors, grad_tensors, strict=True)):
            _check_root(root, seed, index)
        if inputs is not None and not isinstance(inputs, tuple):
            raise RuntimeError("inputs to run_backward must be a tuple")
        for each in inputs or ():
            if not isinstance(each, Tensor | GradientEdge):
                kind = type(each).__name__
                raise RuntimeError(
                    f"all inputs have to be Tensors or GradientEdges, but got {kind}"
                )
        if not (inputs or accumulate_grad):
            raise RuntimeError("grad requires non-empty inputs.")
        found = run(
            tensors,
            grad_tensors,
            inputs or (),
            keep_graph=keep_graph,
            create_graph=create_graph,
            accumulate_grad=accumulate_grad,
        )
        if not inputs or accumulate_grad:
            return None if inputs is None or not inputs else (None,) * len(inputs)
        if not allow_unreachable:
            _refuse_unreached(inputs, found)
        return tuple(found)

    def queue_callback(self, *given: Callable[[], Any]) -> None:
        """Run a function at the end of the innermost running backward."""
        if len(given) != 1:
            name = "_EngineBase.queue_callback()"
            raise TypeError(f"{name} takes exactly one argument ({len(given)} given)")
        engine.queue_callback(given[0])

    def is_checkpoint_valid(self) -> bool:
        """Whether a reentrant checkpoint may run: not if only some gradients are requested."""
        return engine.is_checkpoint_valid()


_REQUIRED = ("tensors", "grad_tensors", "keep_graph", "create_graph")
_OPTIONS = {"inputs": None, "allow_unreachable": False, "accumulate_grad": False}
_SWITCHES = ("keep_graph", "create_graph", "allow_unreachable", "accumulate_grad")


def _arguments(given: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """All arguments of `run_backward` in order, or PyTorch's error."""
    names = (*_REQUIRED, *_OPTIONS)
    if len(given) + len(named) > len(names):
        count = len(given) + len(named)
        raise TypeError(f"function takes at most {len(names)} arguments ({count} given)")
    found = dict(zip(names, given, strict=False))
    for place, name in enumerate(_REQUIRED, 1):
        if name not in found and name not in named:
            raise TypeError(f"function missing required argument '{name}' (pos {place})")
    for place, name in enumerate(names[: len(given)], 1):
        if name in named:
            raise TypeError(
                f"argument for function given by name ('{name}') and position ({place})"
            )
    for name in named:
        if name not in names:
            raise TypeError(f"'{name}' is an invalid keyword argument for this function")
    found = {**_OPTIONS, **found, **named}
    for name in _SWITCHES:
        if not hasattr(found[name], "__index__"):
            kind = type(found[name]).__name__
            raise TypeError(f"'{kind}' object cannot be interpreted as an integer")
        found[name] = bool(found[name])
    return [found[name] for name in names]


def _tuple(given: Any, name: str) -> None:
    if not isinstance(given, tuple):
        kind = type(given).__name__
        raise RuntimeError(f"{name} argument is expected to be a tuple, but got {kind}")


def _check_root(root: Any, seed: Any, index: int) -> None:
    if not isinstance(root, Tensor | GradientEdge):
        raise RuntimeError(
            f"element {index} of tensors tuple is neither a Tensor nor a GradientEdge"
        )
    if isinstance(root, GradientEdge) and not isinstance(root.node, Node):
        kind = type(root.node).__name__
        raise RuntimeError(
            f"GradientEdge's first object must be an autograd.graph.Node but got {kind}"
        )
    if isinstance(root, Tensor) and not root.requires_grad:
        raise errors.no_grad_fn(index, root)
    if seed is None and isinstance(root, Tensor):
        raise RuntimeError(
            f"element {index} of gradients tuple is None, but the corresponding Tensor requires "
            "grad"
        )
    if seed is not None and not isinstance(seed, Tensor):
        raise RuntimeError(f"element {index} of gradients tuple is not a Tensor or None")


def _refuse_unreached(inputs: tuple[Any, ...], found: Any) -> None:
    for index, (asked, grad) in enumerate(zip(inputs, found, strict=True)):
        if grad is None:
            raise errors.unused_input(index, asked if isinstance(asked, Tensor) else None)
