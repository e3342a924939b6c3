"""Finds the installed PyTorch without importing it, and notices when a program imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


def folder() -> Path | None:
    """The folder of PyTorch; None if it is not installed."""
    spec = PathFinder.find_spec("torch")
    origin = None if spec is None else spec.origin
    return None if origin is None or Path(origin).name != "__init__.py" else Path(origin).parent


def version() -> str:
    """The version of PyTorch; "" if it is not known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def is_imported() -> bool:
    """Whether PyTorch is completely imported."""
    torch = sys.modules.get("torch")
    if torch is None or torch is _Executed.module:
        return torch is not None
    return not getattr(torch.__spec__, "_initializing", False)


class _Executed:
    """The PyTorch module whose code has run, although its import has not finished yet."""

    module: ModuleType | None = None


class WhenImported(MetaPathFinder):
    """Finds a module of PyTorch where it is, and calls a function when it has been executed."""

    def __init__(self, then: Callable[[], None], name: str = "torch") -> None:
        self._then, self._name = then, name

    def start(self) -> None:
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self)
        return spec

    def imported(self) -> None:
        self.stop()
        self._then()


class _Telling(Loader):
    """Wraps a loader and calls a function when it has finished."""

    def __init__(self, own: Any, waiting: WhenImported) -> None:
        self._own, self._waiting = own, waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._own
        module.__loader__ = self._own
        self._own.exec_module(module)
        if module.__name__ == "torch":
            _Executed.module = module
        if spec is not None:
            vars(spec)["_initializing"] = False  # else other threads that use it wait for this one
        self._waiting.imported()
