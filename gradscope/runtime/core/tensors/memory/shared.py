"""Memory that several processes write to and read, and how one hands it to another.

# Note [Memory without a name]
The memory is a file that has no name, as in PyTorch's strategy `file_descriptor`: whoever holds its
descriptor, or a mapping of it, keeps it alive, and when the last has gone, so is the memory, no
matter how they ended. A forked child has the mapping. To others `multiprocessing` hands on the
descriptor, which works while the sender lives. What arrives twice in a process is one memory there.
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
    """A mapping that knows its file, and the descriptor of it that stays open as long as it is."""

    file: tuple[int, int]
    descriptor: int
    owned: bool  # the descriptor is not the mapping's own

    def __del__(self) -> None:
        if self.owned:
            os.close(self.descriptor)


_here: WeakValueDictionary[tuple[int, int], np.ndarray[Any, Any]] = WeakValueDictionary()
"""The shared memory in this process, by its file."""


def shared_storage(size: int, device: Any = None) -> Storage:
    """New memory of this size."""
    file = _new_file(size)
    try:
        return _mapped(file, size, device)
    finally:
        os.close(file)


def received(descriptor: int, size: int) -> Storage:
    """The memory behind a descriptor, which is closed: this process has it already, or has now."""
    try:
        known = _here.get(_identity(descriptor))
        return _mapped(descriptor, size, None) if known is None else Storage(known)
    finally:
        os.close(descriptor)


def mapping_of(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """The shared mapping under an array, if that is where its memory is."""
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
    guess = os.dup(descriptor)  # the lowest number that is free, which the mapping takes next
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
    """The descriptor that a mapping keeps for itself, of which Python does not tell the number."""
    numbers = (int(entry.name) for entry in _OPEN.iterdir()) if _OPEN.is_dir() else ()
    for number in (guess, *numbers):
        try:
            if number != other and _identity(number) == file:
                return number
        except OSError:  # closed by now
            continue
    return None


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
