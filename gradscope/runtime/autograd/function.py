"""Operations users write themselves: a forward, and a backward beside it."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from gradscope.runtime import probe
from gradscope.runtime.autograd.grad_mode import no_grad
from gradscope.runtime.autograd.making import prepare
from gradscope.runtime.autograd.node import NOWHERE, Node, new
from gradscope.runtime.autograd.returned import NO_GRADIENT, record_history
from gradscope.runtime.call import wrap
from gradscope.runtime.saved import freed, raw_saved, save_input, save_output, unpack_tensor
from gradscope.runtime.state import ThreadState, local
from gradscope.runtime.tensor import Tensor
from gradscope.runtime.views import set_gradient_edge

EXAMPLE = "(Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"


class FunctionCtx:
    """What a custom function says about its call, in forward, for backward to know."""

    to_save: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    materialize_grads: bool = True
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep these (inputs, outputs or None) until backward; read them as `saved_tensors`."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that forward wrote to these inputs."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that these outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward sees zeros, or None, for gradients that never came."""
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of one call of a custom function; also the `ctx` its forward and backward get.

    `output_info` holds (shape, dtype) of every output that is a tensor, differentiable or not.
    """

    _forward_cls: ClassVar[type[Function]]
    output_info: Sequence[Any] = ()
    is_tensor_input: Sequence[bool] = ()

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward."""
        cls = self._forward_cls
        if cls.vjp is not Function.vjp and cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                "You should only implement one of them."
            )
        chosen = cls.backward if cls.vjp is Function.vjp else cls.vjp
        return chosen(self, *grads)

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        given = [None if grad is None else wrap(grad) for grad in grads]
        return [None if grad is None else grad._array for grad in self.run_tensors(given)]

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        given = self._materialized(grads) if self.materialize_grads else grads
        look = None if probe.here is None else probe.here.look
        if look is None:
            return self._checked(self.apply(*given))
        look.handed(self, given)
        returned = self._checked(self.apply(*given))
        look.returned(self, returned)
        return returned

    def _materialized(self, grads: Sequence[Any]) -> list[Any]:
        return [
            wrap(np.zeros(*info)) if grad is None and info is not None else grad
            for grad, info in zip(grads, self.output_info, strict=True)
        ]

    def _checked(self, returned: Any) -> list[Any]:
        """One gradient, or None, for each input that is a tensor."""
        results = returned if isinstance(returned, tuple) else (returned,)
        wanted = len(self.is_tensor_input)
        if all(surplus is None for surplus in results[wanted:]):
            results = results[:wanted]
        if len(results) != wanted:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {wanted}, got {len(results)})"
            )
        return [
            _gradient(result) if is_tensor else self._no_gradient(position)
            for position, (result, is_tensor) in enumerate(
                zip(results, self.is_tensor_input, strict=True)
            )
            if is_tensor or result is not None
        ]

    def _no_gradient(self, position: int) -> NoReturn:
        raise RuntimeError(
            f"function {self.name()} returned a gradient different than None at position "
            f"{position + 1}, but the corresponding forward input was not a Variable"
        )

    def release_variables(self) -> None:
        self._saved = None

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"saved_tensors[{i}]" for i in range(len(self._saved or ())))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, as long as the graph is kept."""
        if self._saved is None:
            freed(self)
        return tuple(unpack_tensor(self, value, i) for i, value in enumerate(self._saved))

    saved_variables = saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            freed(self)
        return tuple(raw_saved(value) for value in self._saved)

    def __dir__(self) -> list[str]:
        return sorted(object.__dir__(self))


def _gradient(result: Any) -> Any:
    if result is None or isinstance(result, Tensor):
        return result
    raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")


class CustomOperation:
    """How a custom function appears to a watcher: like a declared operation."""

    number = -1

    def __init__(self, name: str) -> None:
        self.name = name


class FunctionMeta(type):
    """Gives every Function the class of its nodes, named `<Name>Backward`."""

    _backward_cls: type[BackwardCFunction]
    operation: CustomOperation

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        cls.operation = CustomOperation(name)
        cls._backward_cls = type(
            f"{name}Backward",
            (BackwardCFunction,),
            {"_forward_cls": cls, "__module__": "torch.autograd.function"},
        )


class Function(metaclass=FunctionMeta):
    """Subclass with static `forward` and `backward`, and call `apply`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            f"Please use new-style autograd function with static forward method. {EXAMPLE}"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: `forward(ctx, *inputs)`, or without ctx beside a `setup_context`."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what backward will need, after a forward without ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs, one each, for the gradients of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward without history, and make one node the history of what it returns."""
        here, state = probe.here, local.state
        begin = 0 if here is None else here.clock()
        separate = cls.setup_context is not Function.setup_context
        if separate:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        elif kwargs:
            bound = inspect.signature(cls.forward).bind(None, *args, **kwargs)
            args, kwargs = bound.args[1:], bound.kwargs
        inputs = [value for value in args if isinstance(value, Tensor)]
        recording = state.grad_enabled and any(tensor.requires_grad for tensor in inputs)
        ctx = _context(cls, args, inputs, state, recording=recording)
        with no_grad():
            if separate:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        single = not isinstance(output, tuple)
        outputs = record_history(
            ctx, inputs, (output,) if single else output, recording=recording, separate=separate
        )
        if recording:
            _save(ctx, state)
        ctx.to_save = ctx.non_differentiable = ctx.dirty_tensors = None
        if here is not None:
            made = [value for value in outputs if isinstance(value, Tensor)]
            here.op(cls.operation, inputs, made, ctx if recording else None, begin, state)
        return outputs[0] if single else outputs


def _context(
    cls: type[Function],
    args: Sequence[Any],
    inputs: Sequence[Any],
    state: ThreadState,
    *,
    recording: bool,
) -> BackwardCFunction:
    """The node of a call, leading to its inputs, with nothing saved yet."""
    ctx: BackwardCFunction = new(cls._backward_cls)
    edges = [tensor.gradient_edge() or NOWHERE for tensor in inputs] if recording else ()
    prepare(ctx, edges, state)
    ctx.extra()
    ctx.is_tensor_input = [isinstance(value, Tensor) for value in args]
    ctx.needs_input_grad = tuple(isinstance(v, Tensor) and v.requires_grad for v in args)
    return ctx


def _save(ctx: BackwardCFunction, state: ThreadState) -> None:
    """Keep what `save_for_backward` was given."""
    given = ctx.to_save
    if given is None:
        return
    if not isinstance(given, tuple):
        raise RuntimeError(
            "autograd internal error: to_save attribute is expected to be a tuple but is "
            f"{type(given).__name__}"
        )
    ctx._saved = tuple(_kept(ctx, position, value, state) for position, value in enumerate(given))


def _kept(ctx: BackwardCFunction, position: int, value: Any, state: ThreadState) -> Any:
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise TypeError(
            "save_for_backward can only save variables, but argument "
            f"{position} is of type {type(value).__name__}"
        )
    edge = value.gradient_edge()
    if edge is not None and edge[0] is ctx:
        return save_output(value, ctx, edge[1], state)
    return save_input(value, state)


class DelayedError(Node):
    """The history of a gradient that cannot be differentiated again: raises when it is reached."""

    __slots__ = ("message",)
    message: str

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError(self.message)

    run_tensors = run_arrays


DelayedError.__name__ = DelayedError.__qualname__ = "Error"


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Run a backward without recording, since its result cannot be differentiated again."""

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        with no_grad():
            made = backward(ctx, *grads, **kwargs)
        if not local.state.grad_enabled:
            return made
        if not any(isinstance(grad, Tensor) and grad.requires_grad for grad in grads):
            return made
        results = made if isinstance(made, tuple) else (made,)
        return _undifferentiable(results, local.state)

    return once


def _undifferentiable(results: Sequence[Any], state: ThreadState) -> tuple[Any, ...]:
    """Aliases of these gradients whose history is an error."""
    node = new(DelayedError)
    node.message = (
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )
    found = [None if r is None else r.detach().requires_grad_() for r in results]
    edges = [NOWHERE if r is None else r.gradient_edge() for r in found]
    prepare(node, edges, state)
    node.input_metadata = tuple(
        NO_GRADIENT if r is None else (r._array.shape, r._array.dtype) for r in found
    )
    made = [None if r is None else wrap(r._array) for r in found]
    for nr, result in enumerate(made):
        if result is not None:
            set_gradient_edge(result, node, nr)
    return tuple(made)


class InplaceFunction(Function):
    """A Function that remembers whether it works in place; kept for old programs."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
