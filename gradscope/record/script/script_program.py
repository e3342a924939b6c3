"""The program to run: a script or a module, found and compiled in the same way as by `python`."""

from __future__ import annotations

import atexit
import builtins
import ctypes
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from gradscope.errors import NotRunnableError, UsageError
from gradscope.record.notes.sites import working_directory
from gradscope.record.script.exits import is_beside
from gradscope.trace.text import quoted, quoted_path

AS_FILE = 257
"""`Py_file_input`: compile statements up to the end of the file."""


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """The code and the attributes of `__main__`."""

    code: CodeType
    name: str  # sys.argv[0] of the program
    attributes: Mapping[str, Any]  # of the module `__main__`


def folder_of(script: str) -> str:
    """The folder or archive that is run, or the folder that a script is in."""
    place = _place(script)
    if _importer(place) is not None:
        return place
    return os.path.dirname(os.path.realpath(script))  # noqa: PTH120


def from_script(script: str) -> ScriptProgram:
    """The program in a file, a folder or an archive. Raises SyntaxError if it is not Python."""
    place = _place(script)
    importer = _importer(place)
    if importer is not None:
        return _from_folder(script, place, importer)
    source = _source(Path(script))
    loader: Any = SourceFileLoader("__main__", place)
    if place.endswith(".pyc") or source.startswith(importlib.util.MAGIC_NUMBER):
        loader = SourcelessFileLoader("__main__", place)
        code = _unpacked(loader, source)
    else:
        code = _compiled(source, place)
    attributes = {"__file__": place, "__cached__": None, "__loader__": loader}
    return ScriptProgram(code, script, attributes)


def from_module(name: str) -> ScriptProgram:
    """The program that `python -m name` runs. Exceptions of its packages are not caught."""
    spec = _spec(name)
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise NotRunnableError(
            f"the module {quoted(name)} is not written in Python, so it cannot be run"
        )
    return ScriptProgram(code, spec.origin or name, _attributes(spec))


def _attributes(spec: ModuleSpec) -> dict[str, Any]:
    return {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }


# A folder or an archive ----------------------------------------------------------------------


def _place(script: str) -> str:
    """The absolute path, not normalized as `Path` would do."""
    return working_directory() if script == "." else os.path.join(working_directory(), script)  # noqa: PTH118


def _importer(place: str) -> Any:
    """The importer of a folder or a zip archive; None: it is neither."""
    try:
        return pkgutil.get_importer(place)
    except ValueError:  # a path with a NUL in it
        return None


def _from_folder(script: str, place: str, importer: Any) -> ScriptProgram:
    spec = importer.find_spec("__main__")
    code = spec.loader.get_code("__main__") if spec is not None else None
    if code is None:
        raise NotRunnableError(
            f"{quoted_path(Path(script))} contains no __main__.py, so it cannot be run"
        )
    if sys.path[:1] != [place]:  # Python omits it with -P, but this is what it runs
        sys.path.insert(0, place)
    return ScriptProgram(code, script, _attributes(spec))


# A script ------------------------------------------------------------------------------------


def _source(path: Path) -> bytes:
    shown = quoted_path(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        hint = _is_module(str(path))
        raise UsageError(f"there is no script {shown}{hint}") from None
    except OSError as error:
        raise UsageError(f"cannot read the script {shown}: {error.strerror}") from None
    except ValueError:  # a path with a NUL in it
        raise UsageError(f"there is no script {shown}") from None


def _is_module(name: str) -> str:
    top = name.partition(".")[0]
    if not top.isidentifier() or name.endswith(".py") or importlib.util.find_spec(top) is None:
        return ""
    return f"; for the module of that name: gradscope trace -m {name}"


def _compiled(source: bytes, place: str) -> CodeType:
    if not _is_text(source):
        _refuse(place)
    try:
        return compile(source, place, "exec", dont_inherit=True)
    except ValueError as error:  # a NUL byte, which later Pythons call a SyntaxError
        raise SyntaxError(str(error)) from None


def _unpacked(loader: SourcelessFileLoader, source: bytes) -> CodeType:
    """The program in a compiled file."""
    if not source.startswith(importlib.util.MAGIC_NUMBER):
        raise RuntimeError("Bad magic number in .pyc file")
    code = loader.get_code("__main__")
    assert code is not None
    return code


def _is_text(source: bytes) -> bool:
    try:
        importlib.util.decode_source(source)
    except (SyntaxError, UnicodeDecodeError):
        return False
    return True


def _refuse(place: str) -> None:
    """Raise Python's error for a file whose text does not have the encoding it declares.

    `compile` has another message for it, or accepts it. Only Python itself reads a file in exactly
    this way; without builtins, nothing in the file could have an effect.
    """
    if os.name != "posix" or not Path(place).is_file():
        return
    opens, reads = ctypes.CDLL(None).fopen, ctypes.pythonapi.PyRun_FileEx
    opens.restype, reads.restype = ctypes.c_void_p, ctypes.py_object
    number, space = ctypes.c_int, ctypes.py_object
    reads.argtypes = [ctypes.c_void_p, ctypes.c_char_p, number, space, space, number]
    name, close = os.fsencode(place), 1
    if file := opens(name, b"rb"):
        reads(file, name, AS_FILE, {"__builtins__": {}}, {}, close)


# A module ------------------------------------------------------------------------------------


def _spec(name: str) -> ModuleSpec:
    if name.endswith(".py"):
        module = name.removesuffix(".py")
        raise NotRunnableError(f"-m expects the name of a module: gradscope trace -m {module}")
    if name.startswith("."):
        raise NotRunnableError(f"-m expects an absolute name, not {quoted(name)}")
    spec = _found(name)
    if spec is None:
        raise NotRunnableError(f"there is no module named {quoted(name)}")
    if spec.submodule_search_locations is None:
        return spec
    inside = _found(f"{name}.__main__")
    if inside is None:
        raise NotRunnableError(
            f"{quoted(name)} is a package without a __main__, so it cannot be run"
        )
    return inside


def _found(name: str) -> ModuleSpec | None:
    package = name.rpartition(".")[0]
    try:
        if package:
            __import__(package)  # import_module would be seen in tracebacks
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return None
    try:
        return importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # its parent is no package, or it has no spec or name
        return None


# The stage -----------------------------------------------------------------------------------


@contextmanager
def stage(
    folder: str | None, argv: list[str], lent: tuple[str, ...], *, ends: bool
) -> Iterator[ModuleType]:
    """A new `__main__`, with `sys` as the program expects it. Its modules are removed afterwards.

    `folder` is first in `sys.path`, unless Python runs in safe-path mode. `lent`: prefixes of
    modules that the program gets under other names. `ends`: the process ends with the program. See
    Note [What Python finds at its end].
    """
    modules = dict(sys.modules)
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    if folder is not None and not sys.flags.safe_path:
        sys.path[: _first_is_ours(sys.argv)] = [folder]
    sys.argv = argv
    sys.modules["__main__"] = main
    try:
        yield main
    finally:
        own = {"__main__": sys.modules.get("__main__", main), **_forgotten(modules, folder, lent)}
        if ends:
            atexit.register(sys.modules.update, own)
        sys.modules["__main__"] = modules["__main__"]


def _first_is_ours(argv: list[str]) -> int:
    """1 if `sys.path` begins with the folder of the started program, gradscope; otherwise 0."""
    started = os.path.dirname(os.path.realpath(argv[0]))  # noqa: PTH120
    return int(bool(sys.path) and sys.path[0] in {started, working_directory(), ""})


def _forgotten(
    before: Mapping[str, ModuleType], folder: str | None, lent: tuple[str, ...]
) -> dict[str, ModuleType]:
    """The modules of the script, and those that refer to the module it knew as torch.

    They are removed from `sys.modules`.
    """
    own = {}
    for name, module in sys.modules.copy().items():
        if name in before or name == "gradscope" or name.startswith("gradscope."):
            continue
        file = getattr(module, "__file__", None)
        if is_beside(file, folder) or _took_from(module, lent):
            own[name] = sys.modules.pop(name)
    return own


def _took_from(module: ModuleType, lent: tuple[str, ...]) -> bool:
    return any(
        str(getattr(value, "__module__", None) or value.__name__).startswith(lent)
        for value in list(getattr(module, "__dict__", {}).values())
        if issubclass(type(value), ModuleType | type)
    )
