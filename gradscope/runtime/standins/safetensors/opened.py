"""An open file: tensors are read on demand."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, Self

from gradscope.runtime.core.tensors.making.factories import from_numpy
from gradscope.runtime.standins.safetensors.format import (
    NAMES,
    Entry,
    SafetensorError,
    header_length,
    read_header,
)

_FRAMEWORKS = {"pt", "torch", "pytorch", "np", "numpy"}


class safe_open:  # noqa: N801  (the package's name)
    """The tensors of a file by name; `framework` "pt" returns tensors, "np" arrays."""

    def __init__(
        self, filename: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap"
    ) -> None:
        if framework not in _FRAMEWORKS:
            raise SafetensorError(f"framework {framework} is invalid")
        self._arrays = framework in {"np", "numpy"}
        self._device = device
        path = Path(os.fspath(filename))
        if not path.exists():
            raise FileNotFoundError(f"No such file or directory: {path}")
        with path.open("rb") as file:
            size = path.stat().st_size
            length = header_length(file.read(8), size)
            first = 8 + length
            self._entries, self._metadata = read_header(file.read(length), size - first)
            self._file: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._data = memoryview(self._file)[first:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._data.release()
        self._file.close()

    def keys(self) -> list[str]:
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """The names in the order of offsets."""
        return sorted(self._entries, key=lambda name: self._entries[name].begin)

    def metadata(self) -> dict[str, str] | None:
        return self._metadata

    def get_tensor(self, name: str) -> Any:
        return self._made(self._entry(name).of(self._data))

    def get_tensors(self) -> dict[str, Any]:
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> Slice:
        return Slice(self, self._entry(name))

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return self._entries[name]

    def _made(self, array: Any) -> Any:
        """A copy: the file may be closed or overwritten."""
        array = array.copy()
        return array if self._arrays else from_numpy(array).to(self._device)


class Slice:
    """A tensor in a file, of which a part can be read."""

    def __init__(self, file: safe_open, entry: Entry) -> None:
        self._file = file
        self._entry = entry

    def get_shape(self) -> list[int]:
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return NAMES[self._entry.dtype]

    def __getitem__(self, index: Any) -> Any:
        return self._file._made(self._entry.of(self._file._data)[index])
