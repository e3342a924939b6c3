"""Under `gradscope trace`, `import torch` in the script is gradscope's own runtime."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

import gradscope.runtime
from gradscope.runtime.missing import nearest

ALIAS, RUNTIME = "torch", "gradscope.runtime"
OWN = "(gradscope's runtime)"


class _SameModule(Loader):
    """Gives a module that is there under another name, untouched."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just put the alias's there


class TorchFinder(MetaPathFinder):
    """Finds `torch.nn` where `gradscope.runtime.nn` is, and never anywhere else."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != ALIAS and not fullname.startswith(f"{ALIAS}."):
            return None
        name = RUNTIME + fullname.removeprefix(ALIAS)
        if find_spec(name) is None:
            raise ModuleNotFoundError(_no_module(fullname), name=fullname)
        module = importlib.import_module(name)
        return ModuleSpec(fullname, _SameModule(module), is_package=hasattr(module, "__path__"))


@contextmanager
def torch_is_gradscope() -> Iterator[None]:
    """Inside, `import torch` gives gradscope's runtime; PyTorch, if it is installed, stays out."""
    before = _torch_modules()
    for name in before:
        del sys.modules[name]
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _torch_modules():
            del sys.modules[name]
        sys.modules.update(before)


def _torch_modules() -> dict[str, ModuleType]:
    prefix = f"{ALIAS}."
    return {n: m for n, m in sys.modules.items() if n == ALIAS or n.startswith(prefix)}


# What is missing -----------------------------------------------------------------------------


def explain_missing(error: BaseException) -> None:
    """Say in the error itself, in the script's words, that gradscope's runtime lacks this."""
    match error:
        case ImportError(name=str(module), msg=str(message)) if _is_runtime(module):
            asked = re.match(r"cannot import name '(\w+)'", message)
            if asked:
                error.msg = f"cannot import name '{asked[1]}' from {_lacks(module, asked[1])}"
        case AttributeError(name=str(name), obj=ModuleType(__name__=module)) if _is_runtime(module):
            if OWN not in str(error):
                error.args = (f"module {_lacks(module, name, 'has no attribute')}",)


def _is_runtime(module: str) -> bool:
    return module == RUNTIME or module.startswith(f"{RUNTIME}.")


def _lacks(module: str, name: str, words: str = "") -> str:
    known = [each for each in dir(sys.modules[module]) if not each.startswith("_")]
    asked = f" {words} '{name}'" if words else ""
    return f"'{ALIAS}{module.removeprefix(RUNTIME)}'{asked} {OWN}{nearest(name, known)}"


def _no_module(name: str) -> str:
    parent, _, child = name.rpartition(".")
    package = sys.modules[RUNTIME + parent.removeprefix(ALIAS)]
    known = [
        each.name
        for each in iter_modules(getattr(package, "__path__", ()))
        if parent != ALIAS or each.ispkg or each.name in gradscope.runtime.LATE
    ]
    return f"No module named '{name}' {OWN}{nearest(child, known)}"
