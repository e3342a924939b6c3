"""`@compiled`: marks a kernel that Numba compiles once and caches on disk.

Import it only in files named fast*.py (and in tiles/, for them), which are loaded with the first
large array. Every such file has a function `warm()` that calls each of its kernels once per dtype.
`gradscope warmup` finds the files by name (see warmup.py).
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from numba import config, njit
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from gradscope.machine_code.cache_folder import cache_folder, own_bytes
from gradscope.runtime.core.kernels.compile_notices import (
    own_work,
    telling_first_compilation,
    title_of,
)

KERNELS: Final[list[Any]] = []
"""Every compiled function of the loaded files."""
INNER: Final[list[Any]] = []
"""Functions that are parts of kernels."""


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Let Numba compile this function at its first call, or load it from the cache.

    Division by zero and NaN behave as in NumPy, and other threads run meanwhile. `options` are
    those of `numba.njit`.
    """
    if function is None:
        return lambda function: compiled(function, **options)
    made = njit(**{"error_model": "numpy", "nogil": True, **options})(function)
    folder = cache_folder()
    if folder is not None:
        with _numba_keeps_in(folder), suppress(RuntimeError):  # usually: no source file
            made._cache = _Cache(function)
    KERNELS.append(made)
    return made


def compiled_text(function: Callable[..., Any], *, keeps: bool) -> Any:
    """The same for a function with generated text, which has a file if it is cached."""
    made = njit(error_model="numpy", nogil=True)(function)
    folder = cache_folder()
    if keeps and folder is not None:
        with _numba_keeps_in(folder), suppress(RuntimeError, OSError):
            made._cache = _Cache(function)
    return made


def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function that only kernels call, inlined into each of them.

    A call would count references to each array twice, about 20 cycles an array.
    """
    if function is None:
        return lambda function: inner(function, **options)
    how = {"error_model": "numpy", "nogil": True, "forceinline": True, **options}
    made = njit(**how)(function)
    INNER.append(made)
    return made


def source_stamp(function: Callable[..., Any]) -> str:
    """A hash of the file of a kernel and of the files of its inlined parts."""
    made_of: set[Any] = set()
    waiting: list[Any] = [function]
    while waiting:
        one = waiting.pop()
        if one in made_of:
            continue
        made_of.add(one)
        used = [one.__globals__.get(name) for name in one.__code__.co_names]
        for way in ("py_func", "_defn"):  # of a compiled part, and of an intrinsic
            waiting += [getattr(part, way) for part in used if hasattr(part, way)]
    files = {one.__code__.co_filename for one in made_of}
    return sha256(b"".join(Path(file).read_bytes() for file in sorted(files))).hexdigest()


@contextmanager
def _numba_keeps_in(folder: Path) -> Iterator[None]:
    """Set Numba's cache folder while a cache is created. Users' own functions keep theirs."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function. Damaged files are ignored."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file.__class__ = _Checked
        self._cache_file._source_stamp = source_stamp(function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with own_work(f"loads {title_of(self._py_func)}"):
                return super().load_overload(sig, target_context)
        except Exception:  # a damaged file makes pickle raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        told = own_work(f"stores {title_of(self._py_func)}")
        with told, suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            super().save_overload(sig, data)


class _Checked(IndexDataCacheFile):  # type: ignore[misc]
    """Cache files with owner check and checksum: foreign or damaged code is not run."""

    def _load_index(self) -> dict[Any, str]:
        try:
            content = BytesIO(own_bytes(self._index_path))
        except OSError:
            return {}
        if pickle.load(content) != self._version:  # noqa: S301  we wrote it
            return {}
        stamp, overloads = pickle.load(content)  # noqa: S301  likewise
        return overloads if stamp == self._source_stamp else {}

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        with super()._open_for_write(filepath) as file:
            if sys.platform != "win32":
                os.fchmod(file.fileno(), 0o600)  # in case the umask lets a group write
            yield file

    def _dump(self, obj: Any) -> bytes:
        content: bytes = super()._dump(obj)
        return content + sha256(content).digest()

    def _load_data(self, name: str) -> Any:
        content = own_bytes(self._data_path(name))
        content, digest = content[:-32], content[-32:]
        if sha256(content).digest() != digest:
            raise ValueError("damaged")
        return pickle.loads(content)  # noqa: S301  we wrote it


class _Listener(event.Listener):  # type: ignore[misc]
    """Reports when Numba compiles a kernel, but not when it loads one from disk."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        told = ExitStack()
        if kernel in KERNELS:
            told.enter_context(own_work(f"compiles {title_of(kernel.py_func)}"))
            told.enter_context(telling_first_compilation(kernel.py_func))
        self._open.append(told)

    def on_end(self, event: Any) -> None:
        if self._open:
            self._open.pop().__exit__(*sys.exc_info())


event.register("numba:compile", _Listener())
