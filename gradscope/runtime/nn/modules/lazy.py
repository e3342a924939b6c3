"""Lazy modules: they take the shapes of their parameters from the first input."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.nn.parameter import is_lazy


class LazyModuleMixin:
    """Mixed in ahead of a module's base: the first call sets the shapes of parameters.

    A subclass defines `initialize_parameters(input)`. `cls_to_become` is its class afterwards.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        module: Any = self
        for name, tensor in module._own_state().items():
            as_it_is = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if as_it_is else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *others: Any) -> None:
        """Set the shape of uninitialized parameters to that of the state to be loaded."""
        module: Any = self
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                with no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Set the shapes of the parameters for this input."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        module: Any = self
        return any(is_lazy(t) for t in [*module._parameters.values(), *module._buffers.values()])

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Pre-hook of the first call: initialize the parameters and become the ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )
