"""The autograd kernel of an operator whose backward a user registers, now or later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.custom.function import CustomOperation, Function
from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.dispatch.operators.key_dispatch import left_out, run, tensors_in
from gradscope.runtime.core.dispatch.operators.keys import (
    AUTOGRAD_KEYS,
    DispatchKeySet,
    after_autograd,
)
from gradscope.runtime.core.dispatch.operators.operator import Operator
from gradscope.runtime.core.dispatch.operators.schema import fill_defaults
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


@dataclass
class OperatorCall:
    """Data of one call, next to its arguments."""

    keys: DispatchKeySet
    lengths: list[int | None]  # of arguments that are lists
    kwargs: dict[str, Any]
    many: bool = False  # whether the result is a list


def autograd_kernel(
    operator: Operator,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A kernel that records a call as one node, which calls this backward."""
    formula = RegisteredBackward(operator, backward, setup_context)
    generated = _function(formula)

    def kernel(keys: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        state = local.state
        lists = [len(a) if isinstance(a, list | tuple) else None for a in args]
        call = OperatorCall(keys & after_autograd(), lists, kwargs)
        inputs = list(tensors_in((*args, *kwargs.values())))
        if state.grad_enabled and any(t.requires_grad for t in inputs):
            result = generated.apply(*_flat(args, lists), call)
            return list(result) if call.many else result
        here = probe.here
        begin = 0 if here is None else here.clock()
        with below_autograd():
            result = run(operator, call.keys, args, kwargs)
        if here is not None:
            made = [t for t in tensors_in((result,)) if not any(t is given for given in inputs)]
            here.op(generated.operation, inputs, made, None, begin, state)
        return result

    kernel.formula = formula  # type: ignore[attr-defined]
    return kernel


def below_autograd() -> Any:
    """Run without recording inside the block."""
    return _Below(left_out(*AUTOGRAD_KEYS.keys))


class _Below:
    """Excludes autograd's keys, and records nothing."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        self._mode = no_grad()

    def __enter__(self) -> None:
        self._keys.__enter__()
        self._mode.__enter__()

    def __exit__(self, *error: object) -> None:
        self._mode.__exit__(*error)
        self._keys.__exit__(*error)


class RegisteredBackward:
    """An operator's backward, which may be registered later."""

    def __init__(self, operator: Operator, backward: Any, setup_context: Any) -> None:
        self.operator = operator
        self.backward = backward
        self.setup_context = setup_context

    def set_up(self, ctx: Any, args: Any, call: OperatorCall, output: Any) -> None:
        if self.setup_context is None:
            return
        schema = self.operator.schema
        args, kwargs = fill_defaults(schema, args, call.kwargs)
        if any(argument.kwarg_only for argument in schema.arguments):
            self.setup_context(ctx=ctx, inputs=args, keyword_only_inputs=kwargs, output=output)
        else:
            self.setup_context(ctx=ctx, inputs=args, output=output)

    def gradients(self, ctx: Any, grads: Sequence[Any]) -> Any:
        if self.backward is None:
            raise RuntimeError(
                f"Trying to backward through {self.operator.overload} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        call: OperatorCall = ctx.operator_call
        flat_needs = ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_nested(flat_needs[:-1], call.lengths))
        try:
            result = self.backward(ctx, *([list(grads)] if call.many else grads))
        finally:
            ctx.needs_input_grad = flat_needs
        results = result if isinstance(result, tuple) else (result,)
        return (*_flat_grads(results, call.lengths), None)


def _function(formula: RegisteredBackward) -> Any:
    """A custom function with this formula, under PyTorch's name."""
    operator = formula.operator

    def forward(ctx: Any, *args: Any) -> Any:
        call: OperatorCall = args[-1]
        given = tuple(_nested(args[:-1], call.lengths))
        with below_autograd():
            result = run(operator, call.keys, given, call.kwargs)
        ctx.operator_call = call
        call.many = isinstance(result, list)
        formula.set_up(ctx, given, call, result)
        return tuple(result) if call.many else result

    def backward(ctx: Any, *grads: Any) -> Any:
        return formula.gradients(ctx, grads)

    namespace, _, name = operator.schema.name.partition("::")
    overload = operator.schema.overload_name or "default"
    made: Any = type(
        f"GeneratedBackwardFor_{namespace}_{name}_{overload}",
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )
    made.operation = CustomOperation(operator.name)
    return made


def _flat(args: Sequence[Any], lengths: Sequence[int | None]) -> list[Any]:
    made: list[Any] = []
    for value, length in zip(args, lengths, strict=True):
        made.extend(value if length is not None else [value])
    return made


def _nested(flat: Sequence[Any], lengths: Sequence[int | None]) -> list[Any]:
    made: list[Any] = []
    at = 0
    for length in lengths:
        if length is None:
            made.append(flat[at])
            at += 1
        else:
            made.append(list(flat[at : at + length]))
            at += length
    return made


def _flat_grads(grads: Sequence[Any], lengths: Sequence[int | None]) -> list[Any]:
    """One gradient for each flat argument. That of a list may be None."""
    made: list[Any] = []
    for place, length in enumerate(lengths):
        grad = grads[place] if place < len(grads) else None
        if length is None:
            made.append(grad)
        else:
            made.extend([None] * length if grad is None else grad)
    return [*made, *grads[len(lengths) :]]


def written_arguments(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that the schema marks as written to."""
    full, named = fill_defaults(operator.schema, args, kwargs)
    given = [*full, *(named[a.name] for a in operator.schema.arguments if a.kwarg_only)]
    order = [*operator.schema.positional, *(a for a in operator.schema.arguments if a.kwarg_only)]
    found: list[Any] = []
    for argument, value in zip(order, given, strict=True):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += [t for t in tensors_in((value,)) if isinstance(t, Tensor)]
    return found
