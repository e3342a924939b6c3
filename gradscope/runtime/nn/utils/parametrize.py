"""Parametrizations: tensors of a module computed from what is learned."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, ClassVar

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules.container import ModuleDict, ModuleList
from gradscope.runtime.nn.modules.module import Module
from gradscope.runtime.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Kept:
    """Tensors computed once while caching is on."""

    depth = 0
    tensors: ClassVar[dict[tuple[int, str], Any]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once inside the block."""
    _Kept.depth += 1
    try:
        yield
    finally:
        _Kept.depth -= 1
        if not _Kept.depth:
            _Kept.tensors = {}


def _register(module: Any, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_same(what: str, kind: Any, shape: Any, made: Any, names: tuple[str, str]) -> None:
    """Check that a parametrization keeps dtype and shape, unless it is `unsafe`."""
    for word, before, after in (("dtype", kind, made.dtype), ("shape", shape, made.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {word} of the tensor, unless "
                f"{what}`unsafe` flag is enabled.\n{names[0]}{word}: {before}\n"
                f"{names[1]}{word}: {after}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in order, and the original tensor."""

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, kind = original.shape, original.dtype
        with no_grad():
            new = self._first(original)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            made = self()
            if not isinstance(made, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(made).__name__}."
                )
            _check_same("", kind, shape, made, ("unparametrized ", "parametrized "))

    def _first(self, value: Any) -> Any:
        """The original for a given value of the tensor, by all inverses."""
        for module in reversed(list(self.children())):
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:  # it has no inverse
                    continue
        return value

    def _keep_one(self, original: Any, new: Any) -> None:
        for word in ("dtype", "device"):
            before, after = getattr(original, word), getattr(new, word)
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {word}.\n"
                    f"original.{word}: {before}\nright_inverse(original).{word}: {after}"
                )
        with no_grad():
            original.data = new.detach()
        _register(self, "original", original)

    def _keep_several(self, original: Any, new: Any) -> None:
        for i, one in enumerate(new):
            if not isinstance(one, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(one).__name__}."
                )
            kept: Any = one
            if isinstance(original, Parameter):
                kept = Parameter(one, original.requires_grad)
            kept.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", kept)

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the tensor has this value."""
        with no_grad():
            for module in reversed(list(self.children())):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                self._assign_one(value)
            else:
                self._assign_several(value)

    def _assign_one(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                f"has dtype {self.original.dtype}"
            )
        self.original.data = value.detach()

    def _assign_several(self, value: Any) -> None:
        if not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got a sequence of length {len(value)}."
            )
        for i, tensor in enumerate(value):
            kept = getattr(self, f"original{i}")
            if kept.dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original{i}` has dtype {kept.dtype}"
                )
            kept.data = tensor.detach()

    def forward(self) -> Any:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        first, *others = self.children()
        value = first(*[getattr(self, name) for name in names])
        for module in others:
            value = module(value)
        return value


def _inject_class(module: Any) -> None:
    """Give a module its own class, which can have properties."""
    cls = type(module)

    def copied(self: Any, memo: Any) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__.update(deepcopy(self.__dict__, memo))
        for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
            if hasattr(self, slot):
                setattr(replica, slot, deepcopy(getattr(self, slot), memo))
        return replica

    def refused(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    body: dict[str, Any] = {"__getstate__": refused}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = copied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Any, name: str) -> None:
    def value_of(self: Any) -> Any:
        functions = self.parametrizations[name]
        if not _Kept.depth:
            return functions()
        key = (id(module), name)
        if key not in _Kept.tensors:
            _Kept.tensors[key] = functions()
        return _Kept.tensors[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(value_of, assign))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Replace a tensor of a module by `parametrization` of it."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_appended(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        functions = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = functions
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_appended(module: Any, name: str, parametrization: Any) -> None:
    """Check that a further parametrization, and its inverse, keep dtype and shape."""
    before = getattr(module, name)
    made = parametrization(before)
    if not isinstance(made, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
    names = (f"module.{name}.", f"parametrization(module.{name}).")
    _check_same("the ", before.dtype, before.shape, made, names)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(made)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for word in ("dtype", "shape"):
        if getattr(back, word) != getattr(before, word):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {word} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}.{word}: "
                f"{getattr(before, word)}\nreturned {word}: {getattr(back, word)}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any of them, is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor a plain one again, with its present value or that of the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    functions = module.parametrizations[tensor_name]
    if functions.is_tensor:
        original = functions.original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of a module before its tensors were parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Copy parametrizations and originals from one module to another."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        functions = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for module in functions.children():
            register_parametrization(to_module, name, module)
        count = range(functions.ntensors)
        kept = ["original"] if functions.is_tensor else [f"original{i}" for i in count]
        for each in kept:
            setattr(to_module.parametrizations[name], each, getattr(functions, each))
    return to_module
