"""`torch.save`."""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any, ClassVar

from gradscope.runtime.core.dtypes.dtypes import dtype
from gradscope.runtime.core.tensors.memory.typed_storage import TypedStorage
from gradscope.runtime.serialization import archive
from gradscope.runtime.serialization.names import PYTORCHS, StorageType, storage_type


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a path or an open file. Shared storages are written once."""
    if pickle_module is not pickle or not _use_new_zipfile_serialization:
        raise RuntimeError(
            "torch.save writes zip files with Python's own pickle here; leave out pickle_module "
            "and _use_new_zipfile_serialization"
        )
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, pickle_protocol)
    pickler.dump(obj)
    archive.write(f, buffer.getvalue(), pickler.storages)


# The C pickler requires that a global can be found under its name. The names written here are
# PyTorch's: they do not exist, or are PyTorch's own objects.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Writes storages separately, and functions that rebuild tensors under PyTorch's names."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[str, memoryview] = {}
        self._keys: dict[int, str] = {}
        self._dtypes: dict[str, dtype | None] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, TypedStorage):
            return None
        memory = obj.memory()
        owner = id(obj.bare.array)  # the saved object keeps it alive
        key = self._keys.setdefault(owner, str(len(self._keys)))
        self.storages[key] = memory
        if self._dtypes.setdefault(key, obj.dtype) is not obj.dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        kind = storage_type(obj.dtype)
        place = obj.bare.device
        location = "cpu" if place is None else str(place)
        return ("storage", kind, key, location, len(memory) // kind.dtype.itemsize)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        known = PYTORCHS.get(id(obj))
        if known is None:
            super().save_global(obj, name)
            return
        module, _, name = known.rpartition(".")
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[Any] = {
        **_PythonPickler.dispatch,
        FunctionType: save_global,
        StorageType: save_global,
        dtype: save_global,
    }
