"""Custom functions: a forward with its own backward."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.custom.custom_node import BackwardCFunction, FunctionCtx
from gradscope.runtime.core.autograd.custom.function_jvp import give_tangents, untracked
from gradscope.runtime.core.autograd.custom.nested import data_of, flat, unflattened
from gradscope.runtime.core.autograd.custom.once_differentiable import once_differentiable
from gradscope.runtime.core.autograd.custom.returned import record_history
from gradscope.runtime.core.autograd.modes.grad_mode import is_grad_enabled, no_grad
from gradscope.runtime.core.errors.engine import custom_functions as errors, returned as wrong
from gradscope.runtime.core.errors.engine.jvps import no_jvp
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, new
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors.saved.saved_variable import save_input, save_output
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "once_differentiable",
]


class CustomOperation:
    """How a custom function is reported to a watcher: like a declared operation."""

    number = -1

    @layout_only
    def __init__(self, name: str) -> None:
        self.name = name


class FunctionMeta(type):
    """Creates the node class of each Function, named `<Name>Backward`."""

    _backward_cls: type[BackwardCFunction]
    _ids = itertools.count()
    operation: CustomOperation

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        cls.operation = CustomOperation(name)
        cls._backward_cls = type(
            f"{name}Backward",
            (BackwardCFunction,),
            {"_forward_cls": cls, "__module__": "torch.autograd.function"},
        )
        cls._backward_cls._autograd_function_id = next(FunctionMeta._ids)


class Function(metaclass=FunctionMeta):
    """Base of custom functions. Subclass it with static `forward` and `backward`, and call `apply`.

    Class attributes choose whether `saved_tensors` can be read only once and releases what it
    returns, whether backward takes one list of gradients, which it may empty, and whether `vmap` is
    generated.
    """

    clear_saved_tensors_on_access = False
    boxed_grads_call = False
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.function_called()

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG004  (for subclasses)
        """Compute the result: `forward(ctx, *inputs)`, or without ctx beside a `setup_context`."""
        raise errors.no_forward()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> Any:  # noqa: ARG004  (for subclasses)
        """Save what backward needs, after a forward without ctx."""
        raise errors.no_setup_context()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:  # noqa: ARG004  (for subclasses)
        """Compute the gradients of the inputs from the gradients of the outputs."""
        raise wrong.no_backward(ctx)

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:  # noqa: ARG004  (for subclasses)
        """Compute the tangents of the outputs from the tangents of the inputs."""
        raise no_jvp()

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:  # noqa: ARG004  (for subclasses)
        raise errors.no_vmap()

    @classmethod
    def chosen_backward(cls) -> Callable[..., Any]:
        """The user's `backward` or `vjp`."""
        has_vjp = cls.vjp is not Function.vjp
        if has_vjp and cls.backward is not Function.backward:
            raise wrong.backward_and_vjp(cls.__name__)
        return cls.vjp if has_vjp else cls.backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward without recording, and connect its results to one node."""
        here, state = probe.here, local.state
        begin = 0 if here is None else here.clock()
        separate = cls.setup_context is not Function.setup_context
        if separate:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if kwargs:
            args = _in_order(cls.forward, args, kwargs, skip=0 if separate else 1)
        inputs = [value for value in args if isinstance(value, Tensor)]
        recording = is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
        ctx = _context(cls, args, inputs, state, recording=recording)
        dual = ThreadState.with_tangents is not None and state.fw_grad_enabled
        with untracked() if dual else no_grad():
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        single = not isinstance(output, tuple)
        outputs = record_history(
            ctx, inputs, (output,) if single else output, recording=recording, separate=separate
        )
        if dual:
            give_tangents(ctx, args, (output,) if single else output, outputs)
        if recording:
            _save(ctx, state)
        ctx.to_save = ctx.saved_for_forward = None
        ctx.non_differentiable = ctx.dirty_tensors = None
        if here is not None:
            made = [value for value in outputs if isinstance(value, Tensor)]
            here.op(cls.operation, inputs, made, ctx if recording else None, begin, state)
        return outputs[0] if single else outputs


def _in_order(
    forward: Any, args: tuple[Any, ...], named: dict[str, Any], *, skip: int
) -> tuple[Any, ...]:
    """All arguments by position: each position may have a gradient."""
    code = forward.__code__
    names = code.co_varnames[skip : code.co_argcount]
    for name in named:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if name in names[: len(args)]:
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    last = max(names.index(name) for name in named)
    for position, name in enumerate(names[: last + 1]):
        if position >= len(args) and name not in named:
            raise TypeError(f"forward() missing required argument: '{name}' (position {position})")
    return (*args, *(named[name] for name in names[len(args) : last + 1]))


def _context(
    cls: type[Function],
    args: Sequence[Any],
    inputs: Sequence[Any],
    state: ThreadState,
    *,
    recording: bool,
) -> BackwardCFunction:
    """The node of a call, with edges to its inputs and nothing saved yet."""
    ctx: BackwardCFunction = new(cls._backward_cls)
    edges = [tensor.gradient_edge() or NOWHERE for tensor in inputs] if recording else ()
    prepare(ctx, edges, state)
    ctx.extra()
    ctx.is_tensor_input = [isinstance(value, Tensor) for value in args]
    ctx.needs_input_grad = tuple(isinstance(v, Tensor) and v.requires_grad for v in args)
    return ctx


def _save(ctx: BackwardCFunction, state: ThreadState) -> None:
    """Save the tensors given to `save_for_backward`."""
    given = ctx.to_save
    if given is None:
        return
    if not isinstance(given, tuple):
        raise errors.marks_no_tuple("to_save", given)
    ctx._saved = tuple(_kept(ctx, position, value, state) for position, value in enumerate(given))


def _kept(ctx: BackwardCFunction, position: int, value: Any, state: ThreadState) -> Any:
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise errors.save_type(position, value)
    edge = value.gradient_edge()
    if edge is not None and edge[0] is ctx:
        return save_output(value, ctx, edge[1], state)
    if value._is_view() and any(value is dirty for dirty in ctx.dirty_tensors or ()):
        return save_output(value, ctx, 0, state)  # it is reached through its base
    return save_input(value, state)


class InplaceFunction(Function):
    """A Function with an `inplace` attribute, for old programs."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A function of structures of tensors, for old programs. PyTorch has no way to call it.

    It offers `forward_extended`, `backward_extended` and marks, which take structures.
    """

    _nested_input: Any
    _nested_output: Any
    _to_save_nested: Any

    def _do_forward(self, *input: Any) -> Any:
        self._nested_input = input
        made = super()._do_forward(*flat(input))  # type: ignore[misc]
        return unflattened(made, self._nested_output)

    __call__ = _do_forward

    def forward(self, *args: Any) -> Any:  # type: ignore[override]
        given = data_of(self._nested_input)
        self._nested_output = self.forward_extended(*given)
        del self._nested_input
        return tuple(flat(self._nested_output))

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]
        returned = self.backward_extended(*unflattened(gradients, self._nested_output))
        return tuple(flat(returned, with_none=True))

    def save_for_backward(self, *args: Any) -> None:
        self.to_save = tuple(flat(args))
        self._to_save_nested = args

    @property
    def saved_tensors(self) -> Any:
        return unflattened(super().saved_tensors, self._to_save_nested)  # type: ignore[misc]

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        self.dirty_tensors = tuple(flat((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        self.non_differentiable = tuple(flat((args, kwargs)))

    def forward_extended(self, *input: Any) -> Any:
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> Any:
        raise NotImplementedError
