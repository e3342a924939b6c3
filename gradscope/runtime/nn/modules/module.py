"""The module: parameters, buffers and other modules by name, and a forward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from gradscope.runtime import probe
from gradscope.runtime.nn.modules import calls, conversion, traversal
from gradscope.runtime.nn.modules.state import StateDict
from gradscope.runtime.nn.parameter import Buffer, Parameter
from gradscope.runtime.tensor import Tensor
from gradscope.runtime.tensor_geometry import type_name

KINDS = ("_parameters", "_buffers", "_modules")


class Module(traversal.Traversal, conversion.Conversion, StateDict):
    """A part of a network: what it has learned, what it is made of, what it computes."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            name, what = type(self).__name__, "positional argument" if args else "keyword argument"
            given = f"s: {len(args)} given" if args else f" '{next(iter(kwargs))}'"
            raise TypeError(f"{name}.__init__() got an unexpected {what}{given}")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_backward_pre_hooks"] = OrderedDict()
        own["_backward_hooks"] = OrderedDict()
        own["_is_full_backward_hook"] = None
        own["_forward_hooks"] = OrderedDict()
        own["_forward_hooks_with_kwargs"] = OrderedDict()
        own["_forward_hooks_always_called"] = OrderedDict()
        own["_forward_pre_hooks"] = OrderedDict()
        own["_forward_pre_hooks_with_kwargs"] = OrderedDict()
        own["_state_dict_hooks"] = OrderedDict()
        own["_state_dict_pre_hooks"] = OrderedDict()
        own["_load_state_dict_pre_hooks"] = OrderedDict()
        own["_load_state_dict_post_hooks"] = OrderedDict()
        own["_modules"] = {}

    # -- a call ---------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if probe.here is None and not (own["_forward_hooks"] or own["_forward_pre_hooks"]):
            return self.forward(*args, **kwargs)
        return calls.attended(self, args, kwargs)

    _call_impl = __call__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each kind of module says it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Any:
        """Call `hook(module, args)` before each forward; what it returns replaces the arguments."""
        return calls.registered(self, "_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Any:
        """Call `hook(module, args, output)` after each forward; it may replace the output."""
        handle = calls.registered(self, "_forward_hooks", hook, prepend, with_kwargs)
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    # -- what it has ----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        """Add a parameter under this name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a buffer under this name; a persistent one is part of the state."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        kept = self._non_persistent_buffers_set
        (kept.discard if persistent else kept.add)(name)

    def add_module(self, name: str, module: Any) -> None:
        """Add a module under this name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    def register_module(self, name: str, module: Any) -> None:
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any, known: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
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
            self._forget(name, "_parameters", "_buffers")
            self._modules[name] = value
        elif isinstance(value, Buffer):
            self._forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
        else:
            self._set_other(name, value)

    def _forget(self, name: str, *kinds: str) -> None:
        own = self.__dict__
        own.pop(name, None)
        for kind in kinds:
            own[kind].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _set_other(self, name: str, value: Any) -> None:
        """A value that is no part by its type: only None or a tensor may follow a part."""
        own = self.__dict__
        if name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            self._modules[name] = value
        elif name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for kind in KINDS:
            if name in own.get(kind, ()):
                del own[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    # -- what it says of itself -----------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What a module's line says between its brackets."""
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
    """All lines after the first two places further in."""
    return text.replace("\n", "\n  ")


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return type_name(value._array)
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
