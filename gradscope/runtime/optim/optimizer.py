"""The optimizer: groups of parameters with options, a state for each, and a step."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from gradscope.runtime import probe
from gradscope.runtime.autograd.grad_mode import enable_grad, no_grad
from gradscope.runtime.removable import RemovableHandle
from gradscope.runtime.tensor import Tensor

Group = dict[str, Any]


def _told(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that calls its hooks and lets the probe know when it begins and ends."""

    @functools.wraps(step)
    def told(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        here = probe.here
        if here is not None:
            here.phase_begin("optimizer", type(self).__name__)
        try:
            for before in list(self._optimizer_step_pre_hooks.values()):
                replaced = before(self, args, kwargs)
                if replaced is not None:
                    args, kwargs = replaced
            result = step(self, *args, **kwargs)
            for after in list(self._optimizer_step_post_hooks.values()):
                after(self, args, kwargs)
        finally:
            if here is not None:
                here.phase_end()
        self._opt_called = True
        return result

    return told


class Optimizer:
    """Changes parameters so that a loss falls.

    A subclass says what happens to one group of parameters in `_update`, or overrides `step`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _told(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        self.state: Any = defaultdict(dict)
        self.param_groups: list[Group] = []
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _prepare(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._opt_called = False

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = []
        for nr, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {nr}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return f"{type(self).__name__} (" + "\n".join(lines) + "\n)"

    # -- groups ---------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        _take_names(group, list(params))
        for param in group["params"]:
            _check_param(param)
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    # -- a step ---------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
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

    @_told
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter once. `closure` computes the loss anew and returns it."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                options = {key: number(value) for key, value in group.items()}
                learning = [p for p in group["params"] if p.grad is not None]
                for param in learning:
                    state = self.state.get(param, {})
                    self._update(param, _grad(param, options), state, options)
                    if state:
                        self.state[param] = state
        return loss

    def _update(self, param: Any, grad: Any, state: dict[str, Any], group: Group) -> None:
        """Change one parameter."""
        raise NotImplementedError

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step."""
        return RemovableHandle.added(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle.added(self._optimizer_step_post_hooks, hook)

    # -- what outlives a run --------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """States and options, with numbers in the place of parameters."""
        place = {
            id(p): i
            for i, p in enumerate(p for group in self.param_groups for p in group["params"])
        }
        groups = [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [place[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {
            place[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take states and options from another optimizer with groups of the same sizes."""
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = [nr for group in saved for nr in group["params"]]
        params = [p for group in groups for p in group["params"]]
        by_number = dict(zip(numbers, params, strict=True))
        state: Any = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = by_number.get(key)
            state[key if param is None else param] = (
                value if param is None else _fitted(param, value)
            )
        self.state = state
        self.param_groups = [
            {**new, "params": old["params"]} for old, new in zip(groups, saved, strict=True)
        ]


def _check_param(param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}"
        )
    if not (param.is_leaf or param.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _take_names(group: Group, params: list[Any]) -> None:
    """Named parameters, given as (name, parameter), keep their names beside them."""
    named = [isinstance(p, tuple) for p in params]
    if any(named):
        if not all(named):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        group["params"] = [p for _, p in params]
        group["param_names"] = [name for name, _ in params]
    else:
        group["params"] = params


def _grad(param: Any, group: Group) -> Any:
    return -param.grad if group.get("maximize") else param.grad


def _fitted(param: Any, value: Any, key: str = "") -> Any:
    """A loaded state in the dtype of its parameter; the count of steps keeps its own."""
    if isinstance(value, Tensor):
        if key == "step" or not param.is_floating_point():
            return value
        return value.to(param.dtype)
    if isinstance(value, dict):
        return {k: _fitted(param, v, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_fitted(param, v) for v in value)
    return value


def number(value: Any) -> Any:
    """A learning rate given as a tensor, as a number."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def zeros_like(param: Any) -> Any:
    """A state of zeros, laid out as the parameter."""
    return param.detach().clone().zero_()


def checked(**options: Any) -> None:
    """Refuse options that make no sense, in PyTorch's words."""
    words = {
        "lr": "learning rate",
        "eps": "epsilon value",
        "weight_decay": "weight_decay value",
        "momentum": "momentum value",
        "alpha": "alpha value",
        "lr_decay": "lr_decay value",
        "initial_accumulator_value": "initial_accumulator_value value",
    }
    for name, value in options.items():
        if not number(value) >= 0.0:
            raise ValueError(f"Invalid {words[name]}: {value}")


def betas_checked(betas: Iterable[float]) -> None:
    for place, beta in enumerate(betas):
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {place}: {beta}")
