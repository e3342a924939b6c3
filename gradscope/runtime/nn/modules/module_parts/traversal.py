"""Traversal of a module: its parameters, buffers and submodules, by name and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self


class Traversal:
    """The methods of `Module` that list its parts. Shared parts are listed once."""

    def named_children(self) -> Iterator[tuple[str, Any]]:
        met: set[Any] = set()
        for name, module in self.__dict__["_modules"].items():
            if module is not None and module not in met:
                met.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all submodules, each ahead of its own submodules."""
        met = set() if memo is None else memo
        if self in met:
            return
        if remove_duplicate:
            met.add(self)
        yield prefix, self
        for name, module in self.__dict__["_modules"].items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(met, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(
        self,
        get: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str,
        recurse: bool,
        remove_duplicate: bool,
    ) -> Iterator[tuple[str, Any]]:
        met: set[int] = set()
        modules: Iterable[tuple[str, Any]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for module_prefix, module in modules:
            for name, value in get(module):
                if value is None or id(value) in met:
                    continue
                if remove_duplicate:
                    met.add(id(value))
                yield (f"{module_prefix}.{name}" if module_prefix else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Any:
        """The submodule at a dotted path."""
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Traversal):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def _member(self, target: str, kind: str, wanted: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module.__dict__[kind]:
            raise AttributeError(f"`{name}` is not {wanted}")
        return module.__dict__[kind][name]

    def get_parameter(self, target: str) -> Any:
        return self._member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Any:
        return self._member(target, "_buffers", "a buffer")

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self
