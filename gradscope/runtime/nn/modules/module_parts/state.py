"""A module's state dict: saving, and loading with a message for every mismatch."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules.module_parts.hooks import WrappedHook
from gradscope.runtime.nn.parameter import Parameter, is_lazy

_EXTRA = "_extra_state"

POSITIONAL = (
    "Positional args are being deprecated, use kwargs instead. Refer to "
    "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict "
    "for details."
)


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The names that a loaded state lacks, and those that the module does not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, "
            f"unexpected_keys={self.unexpected_keys!r})"
        )

    __str__ = __repr__


class StateDict:
    """The methods of `Module` that save and load its state."""

    _version: int = 1

    def get_extra_state(self) -> Any:
        """State other than tensors. A class that defines this also defines `set_extra_state`."""
        raise NotImplementedError

    def set_extra_state(self, state: Any) -> None:
        raise NotImplementedError

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by their dotted names."""
        if args:
            warn(POSITIONAL, FutureWarning)
            given = [destination, prefix, keep_vars]
            for i, value in enumerate(args[:3]):
                given[i] = value if given[i] in (None, "", False) else given[i]
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        own = self.__dict__
        for hook in own["_state_dict_pre_hooks"].values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in own["_modules"].items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in own["_state_dict_hooks"].values():
            found = hook(self, destination, prefix, metadata)
            if found is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = found
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Any]:
        own = self.__dict__
        hidden = own["_non_persistent_buffers_set"]
        kept = {n: b for n, b in own["_buffers"].items() if n not in hidden}
        both = {**own["_parameters"], **kept}
        return {name: tensor for name, tensor in both.items() if tensor is not None}

    def _takes_extra_state(self) -> bool:
        return type(self).set_extra_state is not StateDict.set_extra_state

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after the state is saved."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._listening("_state_dict_hooks", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same; the hook of the module that `state_dict` was called on may return the state."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return self._listening("_state_dict_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module adds its state."""
        return self._listening("_state_dict_pre_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, …)` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = WrappedHook(hook, self if with_module else None)
        return self._listening("_load_state_dict_pre_hooks", wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and its submodules loaded."""
        return self._listening("_load_state_dict_post_hooks", hook)

    def _listening(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        hooks = getattr(self, kind)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state into this module. Shapes must match; names too, unless `strict` is off."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(state_dict, assign=assign)
        loading.load(self, loading.state)
        errors = loading.errors
        if strict:
            if loading.unexpected:
                errors.insert(
                    0, f"Unexpected key(s) in state_dict: {_quoted(loading.unexpected)}. "
                )
            if loading.missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(loading.missing)}. ")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return IncompatibleKeys(loading.missing, loading.unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what this module owns, without submodules. Modules with old formats override it."""
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        given = (prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in self.__dict__["_load_state_dict_pre_hooks"].values():
            hook(state_dict, *given)
        for name, tensor in self._own_state().items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            fault = _loaded(self, name, tensor, state_dict[key], key, assign=assign)
            if fault is not None:
                error_msgs.append(fault)
        self._load_extra(state_dict, prefix, missing_keys)
        if strict:
            unexpected_keys.extend(self._strangers(state_dict, prefix))

    def _load_extra(self, state_dict: Any, prefix: str, missing_keys: list[str]) -> None:
        key = prefix + _EXTRA
        if self._takes_extra_state():
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            else:
                missing_keys.append(key)

    def _strangers(self, state_dict: Any, prefix: str) -> list[str]:
        """Names in the state that have this module's prefix but that it does not have."""
        own = self._own_state()
        found = []
        for key in state_dict:
            extra = key == prefix + _EXTRA and self._takes_extra_state()
            if extra or not key.startswith(prefix):
                continue
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (self.__dict__["_modules"] if dot else own):
                found.append(key)
        return found


class _Loading:
    """One load: its source and its mismatches."""

    def __init__(self, state_dict: Mapping[str, Any], *, assign: bool) -> None:
        self.state = OrderedDict(state_dict)
        self.metadata = getattr(state_dict, "_metadata", None)
        if self.metadata is not None:
            self.state._metadata = self.metadata  # type: ignore[attr-defined]
        self.assign = assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state: Any, prefix: str = "") -> None:
        metadata = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, metadata, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                part = {key: value for key, value in state.items() if key.startswith(inner)}
                self.load(child, part, inner)
        result = IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, result) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )


def _loaded(
    module: Any, name: str, tensor: Any, given: Any, key: str, *, assign: bool
) -> str | None:
    """Load one tensor, or return the reason why it does not fit."""
    if not (isinstance(given, Tensor) or hasattr(given, "__torch_function__")):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(given)}"
        )
    if is_lazy(tensor):
        return None  # and so is the given tensor
    if tensor.dim() == 0 and tuple(given.shape) == (1,):
        given = given[0]  # old states saved tensors without dims with one dim
    if given.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from "
            f"checkpoint, the shape in current model is {tensor.shape}."
        )
    try:
        with no_grad():
            _taken(module, name, tensor, given, assign=assign)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{tensor.size()} and whose dimensions in the checkpoint are {given.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None


def _taken(module: Any, name: str, tensor: Any, given: Any, *, assign: bool) -> None:
    if not assign:
        tensor.copy_(given)
        return
    if isinstance(tensor, Parameter):
        if isinstance(given, Parameter):
            given.requires_grad_(tensor.requires_grad)
        else:
            given = Parameter(given, requires_grad=tensor.requires_grad)
    setattr(module, name, given)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
