"""Base of optimizers: groups of parameters with options, a state for each, and a step."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad, set_grad_enabled
from gradscope.runtime.core.dtypes.names import typename
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim import quick
from gradscope.runtime.optim.hooks import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)
from gradscope.runtime.optim.options import Group
from gradscope.runtime.optim.saving import Saved

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

ParamsT = Iterable[Any]


class _Required:
    """Marks an option without default, which every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
SUPPORTED = ["cuda", "xpu", "hpu", "privateuseone", "xla"]
"""Device types whose steps PyTorch can capture in a graph."""


class Optimizer(Saved):
    """Base class of optimizers.

    A subclass defines `_begin`, which creates the state of a parameter, and `_update`, which
    changes one parameter; or it overrides `step`.
    """

    captured = "params and state_steps"
    """What must be on a supported device for a step to be captured, in messages."""
    capturable_devices = SUPPORTED
    by_parts = True
    """Whether a complex parameter is updated as pairs of real values."""
    quick: Any = None
    """The fast path for all parameters at once, see quick.py; None if there is none."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        self.state: Any = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __repr__(self) -> str:
        lines = []
        for nr, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {nr}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} (" + "\n".join(lines) + "\n)"

    # -- groups ---------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with its own options."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        _take_params(group)
        for param in group["params"]:
            _check_param(param, non_leaf=bool(self.defaults.get("differentiable")))
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        if len({id(p) for p in group["params"]}) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                how = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {how} to the optimizer"
                )
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    # -- a step ---------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once. `closure` recomputes the loss and returns it."""
        if type(self)._update is Optimizer._update:
            raise NotImplementedError
        loss = None
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        learning = [p for p in group["params"] if p.grad is not None]
        grads = [p.grad for p in learning]
        states = [self._state(param, group) for param in learning]
        if (
            learning
            and self.quick is not None
            and quick.stepped(self, learning, grads, states, group)
        ):
            return
        if learning and group.get("capturable"):
            raise AssertionError(
                f"If capturable=True, {self.captured} must be on supported devices: "
                f"{self.capturable_devices}."
            )
        for param, grad, state in zip(learning, grads, states, strict=True):
            signed = -grad if group.get("maximize") else grad
            if self.by_parts and param.is_complex():
                parts = {key: _real(value) for key, value in state.items()}
                self._update(_real(param), _real(signed), parts, group)
            else:
                self._update(param, signed, state, group)

    def _state(self, param: Any, group: Group) -> dict[str, Any]:
        """The state of a parameter, created at its first step."""
        state: dict[str, Any] = self.state[param]
        if not state:
            self._begin(state, param, group)
        return state

    def _begin(self, state: dict[str, Any], param: Any, group: Group) -> None:
        """Create the state of a parameter at its first step."""

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        """Update one parameter."""
        raise NotImplementedError


def _real(value: Any) -> Any:
    """A complex tensor as pairs of real values."""
    return value.view_as_real() if isinstance(value, Tensor) and value.is_complex() else value


def _check_param(param: Any, *, non_leaf: bool) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {typename(param)}"
        )
    if not non_leaf and not (param.is_leaf or param.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _take_params(group: Group) -> None:
    """Make the parameters of a group a list. Names of (name, parameter) pairs are split off."""
    given = group["params"]
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the "
            "ordering of tensors in sets will change between runs. Please use a list instead."
        )
    params = [given] if isinstance(given, Tensor) else list(given)
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if names and len(names) != len(params):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    if names:
        group["param_names"] = names
