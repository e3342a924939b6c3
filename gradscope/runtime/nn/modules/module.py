"""`Module`: parameters, buffers and submodules by name, and a forward."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes.names import typename
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules.module_parts import conversion, hooks, traversal
from gradscope.runtime.nn.modules.module_parts.calls import attended
from gradscope.runtime.nn.modules.module_parts.global_hooks import (
    EVERYWHERE,
    everywhere,
    offer,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    replaced,
)
from gradscope.runtime.nn.modules.module_parts.state import StateDict
from gradscope.runtime.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

KINDS = ("_parameters", "_buffers", "_modules")


class Module(hooks.Hooked, traversal.Traversal, conversion.Conversion, StateDict):
    """Base class of all modules of a network."""

    call_super_init: bool = False
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            _refuse_arguments(type(self).__name__, args, kwargs)
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        hooks.prepare(own)
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- a call ---------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            heard = self.__dict__["_attended"] or EVERYWHERE or probe.here
        except KeyError:  # Module.__init__() was not called
            heard = True
        if heard:
            return attended(self, args, kwargs)
        return self.forward(*args, **kwargs)

    _call_impl = __call__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output. Every subclass overrides it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # -- what it has ----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        """Add a parameter under this name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        if param is not None:
            param = replaced(everywhere.parameter_registration, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a buffer under this name. A persistent buffer is part of the state."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if not _may_be_buffer(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = replaced(everywhere.buffer_registration, self, name, tensor)
        kept = self._non_persistent_buffers_set
        (kept.discard if persistent else kept.add)(name)

    def add_module(self, name: str, module: Any) -> None:
        """Add a module under this name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = replaced(everywhere.module_registration, self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any, known: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in known:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(
                f'{kind} name can\'t contain ".", got: {name}'
                if kind == "module"
                else f'{kind} name can\'t contain "."'
            )
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:
            if name in own["_parameters"]:
                return own["_parameters"][name]
            if name in own["_modules"]:
                return own["_modules"][name]
            if name in own["_buffers"]:
                return own["_buffers"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if name in own["_parameters"]:
                raise _misplaced(value, "parameter", name, "torch.nn.Parameter or None")
            self._forget(name, "_buffers")
            self._modules[name] = replaced(everywhere.module_registration, self, name, value)
        elif isinstance(value, Buffer) and not self._has_part(name):
            self._forget(name)
            self._assign_buffer(name, value, persistent=value.persistent)
        else:
            self._set_other(name, value)

    def _has_part(self, name: str) -> bool:
        """Whether a parameter or a submodule has this name."""
        own = self.__dict__
        return name in own["_parameters"] or name in own["_modules"]

    def _forget(self, name: str, *kinds: str) -> None:
        own = self.__dict__
        own.pop(name, None)
        for kind in kinds:
            own[kind].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _set_other(self, name: str, value: Any) -> None:
        """Set any other value. A registered part can only be replaced by None or a tensor."""
        own = self.__dict__
        if name in own.get("_parameters", ()):
            if value is not None:
                raise _misplaced(value, "parameter", name, "torch.nn.Parameter or None")
            self.register_parameter(name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise _misplaced(value, "child module", name, "torch.nn.Module or None")
            self._modules[name] = replaced(everywhere.module_registration, self, name, value)
        elif name in own.get("_buffers", ()):
            if not _may_be_buffer(value):
                wanted = "torch.nn.Buffer, torch.Tensor or None"
                raise _misplaced(value, "buffer", name, wanted)
            persistent = name not in self._non_persistent_buffers_set
            self._assign_buffer(name, value, persistent=persistent)
        else:
            if name in hooks.LISTENING and "_attended" in own:
                own["_attended"].append(True)
            object.__setattr__(self, name, value)

    def _assign_buffer(self, name: str, value: Any, *, persistent: bool) -> None:
        """Register a buffer. An overridden `register_buffer` may not accept `persistent`."""
        known = inspect.signature(self.register_buffer).parameters
        if "persistent" in known:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for kind in KINDS:
            if name in own.get(kind, ()):
                del own[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        hooks.prepare(own)
        own.setdefault("_non_persistent_buffers_set", set())

    # -- what it says of itself -----------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the brackets of the module's line in its repr."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        parts = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not parts:
            return f"{self._get_name()}({lines[0]})"
        inner = "\n  ".join(lines + parts)
        return f"{self._get_name()}(\n  {inner}\n)" if inner else f"{self._get_name()}()"

    def __dir__(self) -> list[str]:
        own = self.__dict__
        names = [*super().__dir__(), *(name for kind in KINDS for name in own.get(kind, ()))]
        return sorted({name for name in names if not name[:1].isdigit()})


def indented(text: str) -> str:
    """The text with all lines after the first indented by two more spaces."""
    return text.replace("\n", "\n  ")


def _refuse_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments of `Module.__init__`, unless the class sets `call_super_init`."""
    if kwargs:
        raise TypeError(
            f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
        )
    if args:
        raise TypeError(
            f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
        )


def _may_be_buffer(value: Any) -> bool:
    return value is None or isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _misplaced(value: Any, part: str, name: str, wanted: str) -> TypeError:
    return TypeError(f"cannot assign '{typename(value)}' as {part} '{name}' ({wanted} expected)")


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


offer(sys.modules[__name__])
