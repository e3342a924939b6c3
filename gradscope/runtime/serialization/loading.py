"""`torch.load`."""

from __future__ import annotations

import io
import pickle
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import OrderedDict
from typing import Any, ClassVar, Final

import numpy as np

from gradscope.runtime.core.tensors.memory.storage import Storage
from gradscope.runtime.core.tensors.memory.typed_storage import TypedStorage
from gradscope.runtime.serialization import safe_globals
from gradscope.runtime.serialization.archive import Archive, is_path, opened
from gradscope.runtime.serialization.locations import Restore, restoring
from gradscope.runtime.serialization.names import NAMES, PLAIN, StorageType

_BLOCKED: Final = frozenset({"nt", "os", "posix", "sys"})
_DAMAGES: Final = (EOFError, IndexError, KeyError, UnicodeDecodeError)
"""Exceptions when reading a damaged pickle."""

_UNSAFE: Final = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will "
    "likely succeed, but it can result in arbitrary code execution. Do it only if you got the file "
    "from a trusted source."
)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` wrote, here or in PyTorch.

    A file is a program that rebuilds its objects. With `weights_only`, the default, it may rebuild
    tensors, plain Python data, and what `torch.serialization.add_safe_globals` allows.
    """
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if pickle_load_args and weights_only:
        warnings.warn(
            "pickle_load_args only works if `weights_only=False`.", UserWarning, stacklevel=2
        )
        pickle_load_args = {}
    restore = restoring(map_location)
    with opened(f) as archive:
        pickled = io.BytesIO(archive.read("data.pkl"))
        storages = _Storages(archive, restore)
        if not weights_only:
            return _AnyUnpickler(pickled, storages, **pickle_load_args).load()
        try:
            return _WeightsUnpickler(pickled, storages).load()
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(_explained(str(error))) from None
        except _DAMAGES as error:
            found = f"its data.pkl is damaged ({type(error).__name__}: {error})"
            raise pickle.UnpicklingError(_explained(found)) from None


def _explained(message: str) -> str:
    if "was not an allowed global by default" not in message:
        return f"Weights only load failed. {_UNSAFE}\n\n{message}"
    return (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. \n"
        f"\t(1) {_UNSAFE}\n"
        "\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps "
        f"in the following error message.\n\tWeightsUnpickler error: {message}"
    )


class _Storages:
    """The storages of a file, each read when it is first referenced."""

    def __init__(self, archive: Archive, restore: Restore) -> None:
        self._archive = archive
        self._restore = restore
        self._swapped = archive.swapped()
        self._loaded: dict[str, TypedStorage] = {}

    def get(self, reference: Any) -> TypedStorage:
        if not isinstance(reference, tuple) or len(reference) != 5 or reference[0] != "storage":
            raise pickle.UnpicklingError(
                f"Only persistent_load of storage is allowed, but got {reference!r}"
            )
        _, kind, key, location, count = reference
        if not isinstance(kind, StorageType) or not isinstance(key, str):
            raise pickle.UnpicklingError(f"a reference to a storage is damaged: {reference!r}")
        if key not in self._loaded:
            self._loaded[key] = self._load(kind, key, str(location), int(count))
        return self._loaded[key]

    def _load(self, kind: StorageType, key: str, location: str, count: int) -> TypedStorage:
        memory = np.frombuffer(bytearray(self._archive.read(f"data/{key}")), np.uint8)
        if memory.size != count * kind.dtype.itemsize:
            raise RuntimeError(
                f"storage {key} of this file has {memory.size} bytes, not the "
                f"{count * kind.dtype.itemsize} of {count} elements of {kind.dtype}; the file is "
                "damaged"
            )
        if self._swapped and kind.dtype.itemsize > 1:
            parts = kind.dtype.itemsize // (2 if kind.dtype.is_complex else 1)
            memory = memory.reshape(-1, parts)[:, ::-1].reshape(-1)
        return TypedStorage(self._restore(Storage(memory), location), kind.dtype)


class _AnyUnpickler(pickle.Unpickler):
    """Rebuilds anything."""

    def __init__(self, file: io.BytesIO, storages: _Storages, **options: Any) -> None:
        super().__init__(file, **options)
        self._storages = storages

    def persistent_load(self, pid: Any) -> Any:
        return self._storages.get(pid)

    def find_class(self, module: str, name: str) -> Any:
        found = NAMES.get(f"{module}.{name}")
        if found is not None:
            return found
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)
        try:
            return super().find_class(f"gradscope.runtime{module.removeprefix('torch')}", name)
        except (ImportError, AttributeError):
            raise pickle.UnpicklingError(
                f"this file needs {module}.{name}, which gradscope's runtime does not have"
            ) from None


_PythonUnpickler: Any = pickle._Unpickler  # the one whose steps can be overridden


class _WeightsUnpickler(_PythonUnpickler):  # type: ignore[misc]
    """Rebuilds tensors, plain data, and allowed classes."""

    def __init__(self, file: io.BytesIO, storages: _Storages) -> None:
        super().__init__(file)
        self._storages = storages
        self._safe = safe_globals.by_name()

    def persistent_load(self, pid: Any) -> Any:
        return self._storages.get(pid)

    def find_class(self, module: str, name: str) -> Any:
        if self.proto < 3:  # it uses Python 2's names
            module, name = NAME_MAPPING.get(
                (module, name), (IMPORT_MAPPING.get(module, module), name)
            )
        full = f"{module}.{name}"
        if module in _BLOCKED:
            raise pickle.UnpicklingError(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        for known in (NAMES, PLAIN, self._safe):
            if full in known:
                return known[full]
        shown = full.removeprefix("builtins.")
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the "
            f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this "
            "global if you trust this class/function."
        )

    def load_build(self) -> None:
        """Set the state of an object, but not of classes or tensors."""
        target = self.stack[-2]
        if type(target) is OrderedDict:
            target.__dict__.update(self.stack.pop())
        elif type(target) in self._safe.values():
            super().load_build()
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {type(target)}"
            )

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError("Unsupported operand: an extension of copyreg")

    dispatch: ClassVar[Any] = {**_PythonUnpickler.dispatch, pickle.BUILD[0]: load_build}
