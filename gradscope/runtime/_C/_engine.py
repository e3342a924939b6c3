"""`Variable._execution_engine`: the engine, as programs call it by hand."""

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
    """Runs backwards. All of its instances are one engine."""

    __module__ = "torch._C"

    def run_backward(
        self,
        tensors: Any,
        grad_tensors: Any,
        keep_graph: bool,
        create_graph: bool,
        inputs: Any = None,
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> Any:
        """What `backward` (with `accumulate_grad`) and `grad` come to, nothing filled in."""
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
            keep_graph=bool(keep_graph),
            create_graph=bool(create_graph),
            accumulate_grad=bool(accumulate_grad),
        )
        if not inputs or accumulate_grad:
            return None if inputs is None or not inputs else (None,) * len(inputs)
        if not allow_unreachable:
            _refuse_unreached(inputs, found)
        return tuple(found)

    def queue_callback(self, function: Callable[[], Any]) -> None:
        """Run `function` when the innermost running backward is done."""
        engine.queue_callback(function)

    def is_checkpoint_valid(self) -> bool:
        """Whether a reentrant checkpoint may run here: not where only some gradients are wanted."""
        return engine.is_checkpoint_valid()


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
