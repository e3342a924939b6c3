"""Hides that gradscope has imported NumPy, until the script imports it.

Without gradscope, NumPy puts its warning filters before those that a script has set by then, such
as `warnings.simplefilter("error")` in its first line; and `"numpy" in sys.modules` is false.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "numpy"


@contextmanager
def unimported() -> Iterator[None]:
    """A context in which NumPy is not in `sys.modules` until it is imported."""
    hidden = LoadedNumPy()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        hidden.show()


class LoadedNumPy:
    """A module finder that returns the NumPy that is already loaded."""

    def __init__(self) -> None:
        found = [name for name in tuple(sys.modules) if name == NAME or name.startswith(f"{NAME}.")]
        self._modules = {name: sys.modules.pop(name) for name in found}
        self._spec = self._modules[NAME].__spec__
        self._filters: list[Any] = [each for each in warnings.filters if _is_numpys(each)]
        for each in self._filters:
            warnings.filters.remove(each)  # type: ignore[attr-defined]

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != NAME or not self._modules or self._spec is None:
            return None
        found = ModuleSpec(NAME, self, origin=self._spec.origin)  # type: ignore[arg-type]
        found.submodule_search_locations = self._spec.submodule_search_locations
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The loaded module; Python calls this when it imports NumPy."""
        module = self._modules[spec.name]
        self.show()
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing: the module was executed before."""
        module.__spec__ = self._spec

    def show(self) -> None:
        """Put NumPy back, and its filters of warnings first."""
        modules, self._modules = self._modules, {}
        if not modules:
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.modules.update(modules)
        for each in reversed(self._filters):
            action, message, category, module, line = each
            patterns = getattr(message, "pattern", ""), getattr(module, "pattern", "")
            warnings.filterwarnings(action, patterns[0], category, patterns[1], line)


def _is_numpys(of_warnings: Any) -> bool:
    _, message, category, *_ = of_warnings
    pattern = str(getattr(message, "pattern", ""))
    return pattern.startswith(NAME) or category.__module__.startswith(NAME)
