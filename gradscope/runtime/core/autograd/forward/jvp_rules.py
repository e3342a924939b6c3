"""Rules for tangents by a row's declaration (see Note [Tangents from rows] in jvp.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.engine.backward import grad as gradients
from gradscope.runtime.core.autograd.forward.forward_grad import fw_primal
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad
from gradscope.runtime.core.errors.engine import dual_tensors as errors
from gradscope.runtime.core.rows.operation import Formula, Operation
from gradscope.runtime.core.rows.reduction import MEAN
from gradscope.runtime.core.rows.traits import (
    BY_HAND,
    ELEMENTWISE,
    LINEAR,
    PRODUCT,
    REDUCES,
    TRANSPOSED,
    UNKNOWN,
    Jvp,
    Outputs,
    Trait,
)
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.wrapping import wrapped_number

Rule = Callable[["TangentCall"], Any]


class TangentCall:
    """One call of an operation, and what a formula for its tangent can use."""

    __slots__ = ("inputs", "made", "op", "recording", "shown", "source", "tangents")

    def __init__(
        self, op: Operation, values: Sequence[Any], tangents: dict[str, Any], made: Any
    ) -> None:
        self.op = op
        self.source = op.inplace_of or op
        self.inputs = dict(zip((p.name for p in op.plan.parameters), values, strict=True))
        self.tangents = tangents
        self.made = made
        self.recording = local.state.grad_enabled and any(map(_requires_grad, self._tensors()))
        self.shown: dict[str, Any] = {}

    def _tensors(self) -> list[Any]:
        found: list[Any] = []
        for value in (*self.inputs.values(), *self.tangents.values()):
            found += value if isinstance(value, list) else [value]
        return found

    def given(self, name: str) -> Any:
        """An input without its tangent, detached if nothing is recorded."""
        if name not in self.shown:
            value = self.inputs[name]
            self.shown[name] = (
                [self._bare(one) for one in value] if isinstance(value, list) else self._bare(value)
            )
        return self.shown[name]

    def _bare(self, value: Any) -> Any:
        if not hasattr(value, "_array") or "wrapped_number" in value.__dict__:
            return value
        meta = value._meta
        has_tangent = meta is not None and (meta.fw_grad is not None or meta.is_view)
        if self.recording:
            return fw_primal(value) if has_tangent else value
        return value.detach() if value.requires_grad else value

    def tangent(self, name: str) -> Any:
        """An input's tangent; zeros if it has none."""
        value, found = self.inputs[name], self.tangents.get(name)
        if isinstance(value, list):
            pairs = zip(value, found or [None] * len(value), strict=True)
            return [_zeros(one) if t is None else t for one, t in pairs]
        return _zeros(value) if found is None else found

    def result(self, name: str) -> Any:
        names = output_names(self.op)
        if self.op.plan.outputs == 1:
            return self._bare(self.made)
        return self._bare(self.made[names.index(name)])

    def needs(self, *wanted: str) -> tuple[bool, ...]:
        return tuple(name in wanted for name in self.op.plan.differentiable)

    def word(self, word: str, grad: Any, needs: tuple[bool, ...]) -> Any:
        """The value of a word of a formula."""
        if word == "grad":
            return grad
        if word == "grads":
            return (grad,) * self.op.plan.outputs if not isinstance(grad, tuple) else grad
        if word == "needs":
            return needs
        if word in self.inputs:
            return self.given(word)
        if word in output_names(self.op):
            return self.result(word)
        name, _, what = word.rpartition("_")
        if what == "t":
            return self.tangents.get(name)
        return _GEOMETRY[what](self.inputs[name])

    def formula(self, formula: Formula, grad: Any, *names: str) -> Any:
        """A derivative by the inputs `names`, for this gradient, or with a tangent in its place."""
        needs = self.needs(*names)
        return formula(*[self.word(word, grad, needs) for word in formula.words])


def _requires_grad(value: Any) -> bool:
    return hasattr(value, "_array") and value.requires_grad


def _shape(value: Any) -> Any:
    return [one._array.shape for one in value] if isinstance(value, list) else value._array.shape


_GEOMETRY: dict[str, Callable[[Any], Any]] = {
    "shape": _shape,
    "numel": lambda value: value._array.size,
    "strides": lambda value: value._array.strides,
}


def _zeros(value: Any) -> Any:
    """A zero tangent."""
    if value is None:
        return None
    if "wrapped_number" in value.__dict__:
        return wrapped_number(0)
    return wrapped_on(np.zeros(value._array.shape, value._array.dtype), value.device)


def output_names(op: Operation) -> tuple[str, ...]:
    return next((t.names for t in op.traits if isinstance(t, Outputs)), ("result",))


# -- the rules ----------------------------------------------------------------------------------


def _linear(call: TangentCall) -> Any:
    parameters = call.op.plan.parameters
    return call.source.call_with(
        *[
            call.tangent(p.name) if p.name in call.op.plan.differentiable else call.given(p.name)
            for p in parameters
        ]
    )


def _elementwise(call: TangentCall) -> Any:
    total = None
    by_hand = BY_HAND in call.op.traits
    for index, name in enumerate(call.op.plan.differentiable):
        tangent = call.tangents.get(name)
        if tangent is None:
            continue
        if by_hand:
            tangent = _conj(tangent)
        if call.op.joint:
            term = call.formula(call.op.formulas[0], tangent, name)[index]
        else:
            term = call.formula(call.op.formulas[index], tangent, name)
        if by_hand:
            term = _conj(term)
        total = term if total is None else total + term
    return total if call.op.plan.outputs == 1 else _first(call, total)


def _first(call: TangentCall, tangent: Any) -> tuple[Any, ...]:
    """The tangents of several outputs, of which only the first has one."""
    return (tangent, *[None] * (len(call.made) - 1))


def _conj(value: Any) -> Any:
    return value.conj() if value is not None and value.is_complex() else value


def _product(call: TangentCall) -> Any:
    total = None
    names = [p.name for p in call.op.plan.parameters]
    for name, tangent in call.tangents.items():
        inputs = [tangent if other == name else call.given(other) for other in names]
        term = call.source.call_with(*inputs)
        total = term if total is None else total + term
    return total


def _reduces(call: TangentCall) -> Any:
    if call.op.plan.outputs == 1:
        return _reduced(call, call.made, _ones(call.made))
    found: list[Any] = []
    for nr, one in enumerate(call.made):
        grads = tuple(_ones(o) if o is one else _zeros(o) for o in call.made)
        found.append(
            None if nr in call.op.plan.nondifferentiable_outputs else _reduced(call, one, grads)
        )
    return found


def _reduced(call: TangentCall, made: Any, ones: Any) -> Any:
    """The tangent of one output: the gradient of ones times the tangents, summed."""
    total = None
    for index, name in enumerate(call.op.plan.differentiable):
        tangent = call.tangents.get(name)
        slope = None if tangent is None else call.formula(call.op.formulas[index], ones, name)
        if slope is None:
            continue
        term = (_conj(slope) if BY_HAND in call.op.traits else slope) * tangent
        total = term if total is None else total + term
    if total is None:
        return _zeros(made)
    if total.is_complex() and not made.is_complex():
        total = total.real
    if total._array.shape == made._array.shape:
        return total
    if not total.numel() and call.inputs.get("reduction") == MEAN:
        return total.mean()
    dim, keepdim = call.inputs.get("dim"), call.inputs.get("keepdim", False)
    if dim is None and not keepdim:  # one element, or one per sample
        dim = tuple(range(made.ndim, total.ndim))
    return total.sum(None if dim == () else dim, keepdim)


def _ones(value: Any) -> Any:
    return wrapped_on(np.ones(value._array.shape, value._array.dtype), value.device)


def _written(by: Formula, call: TangentCall) -> Any:
    return call.formula(by, None)


def _transposed(call: TangentCall) -> Any:
    """The transpose of the backward, which is linear, applied to tangents."""
    op = call.op
    made = (call.made,) if op.plan.outputs == 1 else call.made
    without = op.plan.nondifferentiable_outputs
    wanted = [
        i
        for i, one in enumerate(made)
        if one is not None and i not in without and one._array.dtype.kind in "fcV"
    ]
    with enable_grad():
        seeds = [_zeros(one) for one in made]
        for i in wanted:
            seeds[i].requires_grad_()
        pairs = [
            (grad, fitted(tangent, grad))
            for grad, tangent in _backward(call, seeds)
            if tangent is not None and grad is not None and grad.requires_grad
        ]
    found: list[Any] = [None] * len(made)
    if pairs:
        grads, tangents = zip(*pairs, strict=True)
        columns = gradients(
            grads,
            [seeds[i] for i in wanted],
            tangents,
            create_graph=call.recording,
            allow_unused=True,
        )
        for i, column in zip(wanted, columns, strict=True):
            found[i] = column
    for i in wanted:
        found[i] = _zeros(made[i]) if found[i] is None else found[i]
    return found[0] if op.plan.outputs == 1 else found


def _backward(call: TangentCall, seeds: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The results of the row's formulas for these gradients, with the tangents of their inputs."""
    op = call.op
    turned = BY_HAND not in op.traits
    given: Any = [_conj(seed) for seed in seeds] if turned else list(seeds)
    grad = given[0] if op.plan.outputs == 1 else tuple(given)
    names = op.plan.differentiable
    if any(p.many for p in op.plan.tensors):
        (tangents,) = call.tangents.values()
        pairs = list(zip(call.formula(op.formulas[0], grad, *names), tangents, strict=True))
    elif op.joint:
        found = call.formula(op.formulas[0], grad, *call.tangents)
        pairs = [(g, call.tangents.get(n)) for n, g in zip(names, found, strict=True)]
    else:
        pairs = [
            (call.formula(f, grad, n), call.tangents[n])
            for n, f in zip(names, op.formulas, strict=True)
            if n in call.tangents
        ]
    return [(_conj(g), t) for g, t in pairs] if turned else pairs


def _unknown(op: Operation) -> Rule:
    """Report a missing rule in PyTorch's words, which depend on whether there is a backward."""
    if op.node_name and op.node_name != "NotImplemented":
        raise errors.not_implemented(op.base_name)
    raise errors.unknown(op.base_name)


_RULES: tuple[tuple[Trait, Rule], ...] = (
    (LINEAR, _linear),
    (ELEMENTWISE, _elementwise),
    (PRODUCT, _product),
    (REDUCES, _reduces),
    (TRANSPOSED, _transposed),
)


def rule_of(op: Operation) -> Rule:
    """The rule for the operation's tangent."""
    rule = op.jvp
    if rule is None:
        rule = op.jvp = _rule(op)
    return rule


def _rule(op: Operation) -> Rule:
    if op.plan.kind == "view":
        return _linear
    for trait in op.traits:
        if isinstance(trait, Jvp):
            return partial(_written, Formula(trait.by))
    for kind, rule in _RULES:
        if kind in op.traits:
            return rule
    if UNKNOWN in op.traits:
        return _unknown(op)
    raise TypeError(f"{op.name}: its row does not say how its tangent is made")


def reads_self(op: Operation, rule: Rule) -> bool:
    """Whether the tangent of a write depends on the old value."""
    if rule is _linear or rule is _product:
        return rule is _product
    formulas = rule.args[:1] if isinstance(rule, partial) else op.formulas
    return any("self" in formula.words for formula in formulas)


def fitted(tangent: Any, made: Any) -> Any:
    """A tangent in the dtype and shape of its tensor."""
    kind = made._array.dtype
    if tangent._array.dtype != kind and not (tangent._array.dtype.kind == "c" and kind.kind != "c"):
        tangent = tangent.to(made.dtype)
    if tangent._array.shape != made._array.shape:
        tangent = tangent.expand(made._array.shape)
    return tangent
