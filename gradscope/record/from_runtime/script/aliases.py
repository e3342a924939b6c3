"""Makes `import torch` in a script under `gradscope trace` return gradscope's own runtime."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from multiprocessing import spawn
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from gradscope.runtime.core.errors.missing import nearest
from gradscope.runtime.core.errors.packages import part_of_pytorch

ALIAS, RUNTIME = "torch", "gradscope.runtime"
OWN = "(gradscope's runtime)"

VISION = "torchvision"
HOMES = {
    ALIAS: RUNTIME,
    "safetensors": "gradscope.runtime.standins.safetensors",
    VISION: "gradscope.runtime.standins.torchvision",
}
"""Names of packages in a script, and the packages that are imported for them."""


class _SameModule(Loader):
    """Returns an existing module under another name, unchanged."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just set the one of the alias


class TorchFinder(MetaPathFinder):
    """Finds `torch.nn` as `gradscope.runtime.nn`, and never anywhere else.

    Only torchvision is the real package if it is installed; if not, a message is printed once that
    a stand-in is used.
    """

    def __init__(self, *, tells: bool = True) -> None:
        self._tells = tells

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        root = fullname.partition(".")[0]
        if root not in HOMES or (root == VISION and _is_installed(VISION)):
            return None
        if fullname == VISION and self._tells:
            self._tells = False
            sys.stderr.write(f"{STAND_IN}\n")
        name = HOMES[root] + fullname.removeprefix(root)
        if not _is_offered(fullname) or find_spec(name) is None:
            raise ModuleNotFoundError(_no_module(fullname), name=fullname)
        module = importlib.import_module(name)
        return ModuleSpec(fullname, _SameModule(module), is_package=hasattr(module, "__path__"))


STAND_IN = (
    "gradscope: torchvision is not installed; using a small stand-in instead: models.resnet18 and "
    "similar, the usual transforms, datasets.MNIST from files; nothing is downloaded"
)
NEEDS_PYTORCH = (
    "the installed torchvision needs functions of PyTorch that gradscope's engine does not have; "
    "uninstall torchvision to use gradscope's small stand-in"
)


def _is_installed(name: str) -> bool:
    """Whether such a package is installed, in addition to ours."""
    return PathFinder.find_spec(name) is not None


@contextmanager
def torch_is_gradscope() -> Iterator[None]:
    """A context in which `import torch` returns gradscope's runtime, not an installed PyTorch."""
    before = _aliased_modules()
    for name in before:
        del sys.modules[name]
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    try:
        with _told_to_children():
            yield
    finally:
        sys.meta_path.remove(finder)
        for name in _aliased_modules():
            del sys.modules[name]
        sys.modules.update(before)


def _aliased_modules() -> dict[str, ModuleType]:
    return {name: m for name, m in sys.modules.copy().items() if name.partition(".")[0] in HOMES}


def _is_offered(name: str) -> bool:
    """Whether scripts may import this module: those that implement PyTorch's names are internal."""
    return name != f"{ALIAS}.core" and not name.startswith(f"{ALIAS}.core.")


# Processes that begin with a new Python --------------------------------------------------------


class _Aliases:
    """Part of the first message to such a process; unpickling it installs the aliases."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return install, ()


def install() -> None:
    if not any(isinstance(each, TorchFinder) for each in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder(tells=False))


@contextmanager
def _told_to_children() -> Iterator[None]:
    """A context in which `import torch` also returns the runtime in spawned processes."""
    prepared: Any = spawn.get_preparation_data

    def with_aliases(name: str) -> dict[str, Any]:
        data = prepared(name)
        if sys._getframe(1).f_globals.get("__name__") == "multiprocessing.forkserver":
            return _for_fork_server(data)
        return {"gradscope": _Aliases(), **data}

    spawn.get_preparation_data = with_aliases
    try:
        yield
    finally:
        spawn.get_preparation_data = prepared
        server = _fork_server()
        if server is not None:
            server._preload_modules = [name for name in server._preload_modules if name != SERVERS]


SERVERS = "gradscope.record.from_runtime.script.in_fork_server"


def _for_fork_server(data: dict[str, Any]) -> dict[str, Any]:
    """Arguments with which a fork server starts: it installs the aliases before any other import.

    From Python 3.13.2 on the server imports the script before any other module. The script is not
    passed here: each child imports it, after it has got the aliases.
    """
    server = _fork_server()
    if server is not None:
        server._preload_modules = [SERVERS, *server._preload_modules]
    scripts = ("main_path", "init_main_from_path", "init_main_from_name")
    return {key: value for key, value in data.items() if key not in scripts}


def _fork_server() -> Any:
    module = sys.modules.get("multiprocessing.forkserver")
    return None if module is None else getattr(module, "_forkserver", None)


# What is missing -----------------------------------------------------------------------------


def explain_missing(error: BaseException) -> None:
    """Add to the error, with the names of the script, that gradscope's runtime lacks this."""
    if _raised_in(error, VISION):
        error.add_note(NEEDS_PYTORCH)
        return
    match error:
        case ImportError(name=str(module), msg=str(message)) if _is_runtime(module):
            asked = re.match(r"cannot import name '(\w+)'", message)
            if asked:
                error.msg = f"cannot import name '{asked[1]}' from {_lacks(module, asked[1])}"
        case AttributeError(name=str(name), obj=ModuleType(__name__=module)) if _is_runtime(module):
            if OWN not in str(error):
                error.args = (f"module {_lacks(module, name, 'has no attribute')}",)


def _raised_in(error: BaseException, package: str) -> bool:
    """Whether the error was raised in the files of a package."""
    frame = error.__traceback__
    while frame is not None:
        if str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0] == package:
            return True
        frame = frame.tb_next
    return False


def _is_runtime(module: str) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in HOMES.values())


def _lacks(module: str, name: str, words: str = "") -> str:
    known = [each for each in dir(sys.modules[module]) if not each.startswith("_")]
    asked = f" {words} '{name}'" if words else ""
    shown = _shown(module)
    hint = part_of_pytorch(f"{shown}.{name}") or nearest(name, known)
    return f"'{shown}'{asked} {OWN}{hint}"


def _shown(module: str) -> str:
    """The name in scripts of a module of the runtime."""
    for alias, home in sorted(HOMES.items(), key=lambda each: -len(each[1])):  # the innermost one
        if module == home or module.startswith(f"{home}."):
            return alias + module.removeprefix(home)
    return module


def _no_module(name: str) -> str:
    parent, _, child = name.rpartition(".")
    root = name.partition(".")[0]
    package = sys.modules[HOMES[root] + parent.removeprefix(root)]
    found = (each.name for each in iter_modules(getattr(package, "__path__", ())))
    known = [each for each in found if _is_offered(f"{parent}.{each}")]
    return f"No module named '{name}' {OWN}{part_of_pytorch(name) or nearest(child, known)}"
