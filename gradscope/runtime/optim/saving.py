"""State dicts of optimizers: states and options, with indices in place of parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from gradscope.runtime.core.dtypes.dtypes import float32
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.optim.hooks import KINDS, Hooked
from gradscope.runtime.optim.options import Group, count


class Saved(Hooked):
    """Saves and loads the state of an optimizer."""

    defaults: dict[str, Any]
    state: Any
    param_groups: list[Group]

    added_since: dict[str, Any] = {}  # noqa: RUF012  (read only)
    """Options that older versions lacked, with the defaults that match their behaviour."""
    counts: tuple[str, ...] = ("step",)
    """Entries of a state that are tensors of one element; older versions saved them as numbers."""

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
        for group in self.param_groups:
            for name, value in self.added_since.items():
                group.setdefault(name, value)
            for param in group["params"]:
                own = self.state.get(param, {})
                for name in self.counts:
                    if name in own and not isinstance(own[name], Tensor):
                        own[name] = count(float(own[name]), fused=bool(group.get("fused")))

    def state_dict(self) -> dict[str, Any]:
        """States and options, with indices in place of parameters."""
        for before in self.__dict__[KINDS[2]].values():
            before(self)
        place: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for nr, p in enumerate(group["params"], start):
                place.setdefault(id(p), nr)
            start += len(group["params"])
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append({**options, "params": [place[id(p)] for p in group["params"]]})
        state = {
            place[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        given: dict[str, Any] = {"state": state, "param_groups": groups}
        for after in self.__dict__[KINDS[3]].values():
            replaced = after(self, given)
            given = given if replaced is None else replaced
        return given

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load states and options of an optimizer whose groups have the same sizes."""
        state_dict = state_dict.copy()
        for before in self.__dict__[KINDS[4]].values():
            replaced = before(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        _check_sizes(groups, saved)
        numbers = chain.from_iterable(group["params"] for group in saved)
        params = chain.from_iterable(group["params"] for group in groups)
        by_number = dict(zip(numbers, params, strict=True))
        state: Any = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                fitting = _Fitting(by_number[key], _options(key, state_dict["param_groups"]))
                state[by_number[key]] = fitting.of(value)
            else:
                state[key] = value
        taken = [_taken(old, new) for old, new in zip(groups, saved, strict=True)]
        self.__setstate__({"state": state, "param_groups": taken})
        for after in self.__dict__[KINDS[5]].values():
            after(self)


def _check_sizes(groups: list[Group], saved: list[Group]) -> None:
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of "
            "optimizer's group"
        )


def _taken(old: Group, new: Group) -> Group:
    """A loaded group with the present parameters."""
    new["params"] = old["params"]
    if "param_names" in old:
        new.setdefault("param_names", old["param_names"])
    return new


def _options(number: Any, groups: list[Group]) -> Group:
    return next((group for group in groups if number in group["params"]), {})


class _Fitting:
    """Converts loaded states to the dtype of their parameter, except for step counts."""

    def __init__(self, param: Any, group: Group) -> None:
        self.param = param
        self.wide = not (group.get("capturable") or group.get("fused"))

    def of(self, value: Any, key: Any = None) -> Any:
        if isinstance(value, Tensor):
            if key == "step":
                return value if self.wide else value.to(float32)
            return value.to(self.param.dtype) if self.param.is_floating_point() else value
        if isinstance(value, dict):
            return {k: self.of(v, k) for k, v in value.items()}
        if isinstance(value, Iterable):
            return type(value)(self.of(v) for v in value)  # type: ignore[call-arg]
        return value
