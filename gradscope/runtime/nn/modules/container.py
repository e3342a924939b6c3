"""Containers: modules and parameters in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn.modules.module import Module, indented
from gradscope.runtime.nn.parameter import Parameter


def _name_at(parts: Mapping[str, Any], index: Any) -> str:
    place = operator.index(index)
    if not -len(parts) <= place < len(parts):
        raise IndexError(f"index {index} is out of range")
    return list(parts)[place]


def _refill(parts: dict[str, Any], values: Iterable[Any]) -> None:
    found = {str(i): value for i, value in enumerate(values)}
    parts.clear()
    parts.update(found)


def _renumber(parts: dict[str, Any]) -> None:
    if all(name.isdigit() for name in parts):
        _refill(parts, list(parts.values()))


class _InOrder(Module):
    """Modules named by their position."""

    __getitem__: Any

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, _name_at(self._modules, index), module)

    def __delitem__(self, index: Any) -> None:
        parts = self._modules
        for name in list(parts)[index] if isinstance(index, slice) else [_name_at(parts, index)]:
            delattr(self, name)
        _renumber(parts)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        parts = list(self._modules.values())
        parts.insert(index, module)
        _refill(self._modules, parts)

    def extend(self, modules: Iterable[Module]) -> Self:
        for module in modules:
            self.append(module)
        return self

    def pop(self, key: int) -> Module:
        module: Module = self[key]
        del self[key]
        return module


class Sequential(_InOrder):
    """Modules called one after another."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        parts = args[0] if len(args) == 1 and isinstance(args[0], OrderedDict) else None
        named = enumerate(args) if parts is None else parts.items()
        for name, module in named:
            self.add_module(str(name), module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[_name_at(self._modules, index)]

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_added(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(list(_added(other)))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * _times(self, other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (_times(self, other) - 1))

    def insert(self, index: int, module: Module) -> Self:
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        super().insert(index, module)
        return self

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


def _added(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


def _times(parts: Sequential, count: Any) -> int:
    """Check the factor of `sequential * factor`."""
    if not isinstance(count, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(parts)} and {type(count)}")
    if count <= 0:
        raise ValueError(f"Non-positive multiplication factor {count} for {type(parts)}")
    return count


class ModuleList(_InOrder):
    """Modules in a list. Calling them is up to the owner of the list."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[_name_at(self._modules, index)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {indented(text)}"
            if first == last
            else f"({first}-{last}): {last - first + 1} x {indented(text)}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules in a dict. Calling them is up to the owner of the dict."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        pairs = modules.items() if hasattr(modules, "items") else modules
        for key, module in pairs:
            self[key] = module


def _as_parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


class _Parameters(Module):
    """Base of lists and dicts of parameters: a tensor that is added becomes a parameter."""

    def _pairs(self) -> list[tuple[str, Any]]:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} should not be called.")

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {self._line(value)}" for name, value in self._pairs())

    def _line(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return f"Object of type: {type(value).__name__}"
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        sizes = "x".join(str(size) for size in value.shape)
        return f"{kind} containing: [{self._kind(value)} of size {sizes}]"

    def _kind(self, value: Any) -> str:
        return str(value.dtype)


class ParameterList(_Parameters):
    """Parameters in order."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def _pairs(self) -> list[tuple[str, Any]]:
        return [(str(i), value) for i, value in enumerate(self)]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([getattr(self, str(i)) for i in range(self._size)[index]])
        return getattr(self, _name_at(dict.fromkeys(map(str, range(self._size))), index))

    def __setitem__(self, index: int, value: Any) -> None:
        name = _name_at(dict.fromkeys(map(str, range(self._size))), index)
        setattr(self, name, _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(i)) for i in range(self._size)])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        for value in values:
            self.append(value)
        return self


class ParameterDict(_Parameters):
    """Parameters by name."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        self.update(parameters or {})

    def _pairs(self) -> list[tuple[str, Any]]:
        return list(self.items())

    def _kind(self, value: Any) -> str:
        return str(value.type())

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return ((key, getattr(self, key)) for key in self._keys)

    def values(self) -> Iterable[Any]:
        return (getattr(self, key) for key in self._keys)

    def update(self, parameters: Any) -> None:
        pairs = parameters.items() if hasattr(parameters, "items") else parameters
        for key, value in pairs:
            self[key] = value
