"""Pruning: a hook multiplies parameters by masks of zeros and ones before each call.

A pruned parameter `weight` is stored as the parameter `weight_orig` and the buffer `weight_mask`.
`weight` is their product, computed anew before each forward. A class with `compute_mask` finds the
mask. If a parameter is pruned again, one container holds all its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import ones_like
from gradscope.runtime.nn.utils.convert_parameters import parameters_to_vector
from gradscope.runtime.nn.utils.prune_masks import (
    asked_amount as _validate_pruning_amount_init,
    kept_channels,
    random_channels,
    smallest,
    strongest_channels,
    wanted_count as _compute_nparams_toprune,
    within as _validate_pruning_amount,
)


class BasePruningMethod(ABC):
    """A method that computes masks, and the hook that applies the mask to one parameter."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of a tensor that is already masked by `default_mask`."""

    def apply_mask(self, module: Any) -> Any:
        """The original parameter times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        whole = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(dtype=whole.dtype) * whole

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module and register this method as a hook."""
        before = _taken_hook(module, name)
        made = cls(*args, **kwargs)
        made._tensor_name = name
        hook: Any = made
        if before is not None:
            hook = before if isinstance(before, PruningContainer) else PruningContainer(before)
            hook.add_pruning_method(made)
        whole = getattr(module, name)
        if importance_scores is None:
            importance_scores = whole
        elif importance_scores.shape != whole.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {whole.shape}"
            )
        first = before is None
        if first:
            module.register_parameter(f"{name}_orig", whole)
            del module._parameters[name]
            mask = ones_like(whole)
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
        try:
            mask = hook.compute_mask(importance_scores, default_mask=mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, hook.apply_mask(module))
            module.register_forward_pre_hook(hook)
        except Exception:  # a user's compute_mask; the module is as before
            if first:
                module.register_parameter(name, whole)
                del module._parameters[f"{name}_orig"]
            raise
        return hook

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor times the mask that this method computes for it."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=mask)

    def remove(self, module: Any) -> None:
        """Make the pruning permanent: write the zeros into the parameter and remove the mask."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        whole = module._parameters.pop(f"{name}_orig")
        whole.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, whole)


def _taken_hook(module: Any, name: str) -> BasePruningMethod | None:
    """Remove and return the hook that prunes this parameter; None if there is none."""
    hooks = module._forward_pre_hooks
    found = [
        key
        for key, hook in hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    return hooks.pop(found[0]) if found else None


class PruningContainer(BasePruningMethod):
    """Several pruning methods in order. Each prunes what the previous ones left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The present mask, combined with that of the last method for what is left."""
        last = self._pruning_methods[-1]
        made = default_mask.to(dtype=t.dtype)
        left = self._left(last, t, default_mask)
        part = last.compute_mask(t[left], default_mask=default_mask[left])
        made[left] = part.to(dtype=made.dtype)
        return made

    @staticmethod
    def _left(method: Any, t: Any, mask: Any) -> Any:
        """The part of a tensor that a method may still prune."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute '
                    "`dim` defined."
                )
            return kept_channels(mask, method.dim)
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * t.dim()
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter gets its mask and names."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes random elements."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        self.amount = _validate_pruning_amount_init(amount)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        _validate_pruning_amount(self.amount, t.numel())
        count = _compute_nparams_toprune(self.amount, t.numel())
        if not count:
            return default_mask.clone()
        return smallest(FUNCTIONS["rand_like"](t), count, default_mask, largest=True)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements closest to zero."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        self.amount = _validate_pruning_amount_init(amount)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        _validate_pruning_amount(self.amount, t.numel())
        count = _compute_nparams_toprune(self.amount, t.numel())
        return smallest(t.abs(), count, default_mask) if count else default_mask.clone()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, importance_scores: Any = None
    ) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes random channels."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        self.amount = _validate_pruning_amount_init(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        made = random_channels(t, self.amount, self.dim)
        return default_mask if made is None else made.mul_(default_mask.to(dtype=made.dtype))

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, dim: int = -1
    ) -> Any:
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels with the smallest norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        self.amount = _validate_pruning_amount_init(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        made = strongest_channels(t, self.amount, self.n, self.dim)
        return default_mask if made is None else made.mul_(default_mask.to(dtype=made.dtype))

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones: prune nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune random elements of a parameter. `amount` is a count or a share."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the elements closest to zero."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune random channels along `dim`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels along `dim` with the smallest norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune a parameter by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, given as (module, name), as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    values = [getattr(module, name) for module, name in parameters]
    importances = parameters_to_vector(
        [scores.get(key, value) for key, value in zip(map(tuple, parameters), values, strict=True)]
    )
    masks = [getattr(module, f"{name}_mask", None) for module, name in parameters]
    before = parameters_to_vector(
        [ones_like(v) if m is None else m for m, v in zip(masks, values, strict=True)]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    parts = container.compute_mask(importances, before).split([v.numel() for v in values])
    for (module, name), part, value in zip(parameters, parts, values, strict=True):
        custom_from_mask(module, name, mask=part.view_as(value))


def remove(module: Any, name: str) -> Any:
    """Make the pruning of a parameter permanent."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Any) -> bool:
    """Whether any parameter in a module is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
