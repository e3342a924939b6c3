"""Memory shared between processes, and how it is passed on.

# Note [Memory without a name]
The memory is a file without a name, as in PyTorch's strategy `file_descriptor`. A descriptor or a
mapping keeps it alive, and the memory is freed when the last one is gone, however the processes
end. A forked child has the mapping. `multiprocessing` passes the descriptor to other processes,
which works while the sender is alive. Memory that arrives twice in a process is mapped once.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gradscope.runtime.core.tensors.memory.storage import Storage, root_of

_FOLDER = "/dev/shm"  # noqa: S108  only files without a name are made there
_OPEN = Path("/proc/self/fd")


class Mapping(mmap.mmap):
    """A mapping of a file, with the descriptor that stays open as long as it lives."""

    file: tuple[int, int]
    descriptor: int
    owned: bool  # False: another object owns the descriptor

    def __del__(self) -> None:
        if self.owned:
            os.close(self.descriptor)


_here: WeakValueDictionary[tuple[int, int], np.ndarray[Any, Any]] = WeakValueDictionary()
"""The shared memory in this process, by file."""


def shared_storage(size: int, device: Any = None) -> Storage:
    """New memory of this size."""
    file = _new_file(size)
    try:
        return _mapped(file, size, device)
    finally:
        os.close(file)


def received(descriptor: int, size: int) -> Storage:
    """The memory of a descriptor, mapped if it is not yet. The descriptor is closed."""
    try:
        known = _here.get(_identity(descriptor))
        return _mapped(descriptor, size, None) if known is None else Storage(known)
    finally:
        os.close(descriptor)


def mapping_of(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """The shared mapping that an array uses, if any."""
    base: Any = root_of(array).base
    return base if isinstance(base, mmap.mmap) else None


def _new_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("gradscope")
    else:
        with tempfile.TemporaryFile(dir=_FOLDER if Path(_FOLDER).is_dir() else None) as opened:
            file = os.dup(opened.fileno())
    os.ftruncate(file, max(size, 1))
    return file


def _mapped(descriptor: int, size: int, device: Any) -> Storage:
    guess = os.dup(descriptor)  # the lowest free number, which the mapping takes next
    os.close(guess)
    mapping = Mapping(descriptor, max(size, 1))
    mapping.file, mapping.owned = _identity(descriptor), False
    found = _own_descriptor(mapping.file, guess, descriptor)
    mapping.owned = found is None
    mapping.descriptor = os.dup(descriptor) if found is None else found
    array = np.ndarray((size,), np.uint8, mapping)
    _here[mapping.file] = array
    return Storage(array, device)


def _own_descriptor(file: tuple[int, int], guess: int, other: int) -> int | None:
    """The descriptor that a mapping keeps, whose number Python does not tell."""
    numbers = (int(entry.name) for entry in _OPEN.iterdir()) if _OPEN.is_dir() else ()
    for number in (guess, *numbers):
        try:
            if number != other and _identity(number) == file:
                return number
        except OSError:  # already closed
            continue
    return None


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
