"""Loads machine code without LLVM: copies the sections of an object file and relocates them.

# Note [Without LLVM]
LLVM takes 50 MB of the watched program's memory and some of its start-up time, but stored code only
needs its sections copied and addresses written into them. The code was compiled for any location
(`codemodel="large"`), so each of these is a whole word. A file with other relocations, or for
another processor, is loaded by LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

X86_64, OBJECT = 62, 1
PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITABLE, IN_MEMORY = 1, 2
WHOLE_WORD = 1  # R_X86_64_64
UNDEFINED, ABSOLUTE = 0, 0xFFF1


PROCESS: Any = ctypes.pythonapi if sys.platform == "win32" else ctypes.CDLL(None)
"""The functions of this process, as in its C library; on Windows only those of Python."""


class NotLoadable(Exception):  # noqa: N818 -- why LLVM serves
    """Something in this file is not supported."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Loaded:
    """The code of a module in memory, as long as this object exists."""

    def __init__(self, file: bytes, symbols: Mapping[str, int]) -> None:
        self._file = file
        self._given = symbols
        self._sections = _sections(file)
        self._places: dict[int, int] = {}
        size = self._laid_out()
        self._memory = mmap.mmap(-1, max(size, 1))
        self._pinned = ctypes.c_char.from_buffer(self._memory)
        self._base = ctypes.addressof(self._pinned)
        for number, place in self._places.items():
            section = self._sections[number]
            code = file[section.offset : section.offset + section.size]
            self._memory[place : place + section.size] = code
        self._named = self._symbols()
        self._relocate()
        self._protect(max(size, 1))

    def get_function_address(self, name: str) -> int:
        """The address of a function."""
        return self._named[name]

    def _laid_out(self) -> int:
        """The offset of each section, and the total size."""
        end = 0
        for number, section in enumerate(self._sections):
            if section.flags & IN_MEMORY and section.kind in {PROGBITS, NOBITS} and section.size:
                if section.flags & WRITABLE or section.kind == NOBITS:
                    raise NotLoadable("it has variables")
                end += -end % max(section.alignment, 1)
                self._places[number] = end
                end += section.size
        return end

    def _symbols(self) -> dict[str, int]:
        self._values: list[int | None] = []
        named = {}
        (table,) = (each for each in self._sections if each.kind == SYMTAB)
        names = self._sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            text, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self._file, at)
            start = names + text
            name = self._file[start : self._file.index(b"\0", start)].decode()
            if section in self._places:
                value += self._base + self._places[section]
                named[name] = value
            elif section == UNDEFINED:
                value = self._elsewhere(name)
            elif section != ABSOLUTE:
                value = None
            self._values.append(value)
        return named

    def _elsewhere(self, name: str) -> int | None:
        if name in self._given or not name:
            return self._given.get(name)
        try:
            return ctypes.cast(getattr(PROCESS, name), ctypes.c_void_p).value
        except AttributeError:
            raise NotLoadable(f"it names {name}") from None

    def _relocate(self) -> None:
        """Write the addresses of symbols."""
        for section in self._sections:
            if section.kind != RELA or section.info not in self._places:
                continue
            into = self._places[section.info]
            for at in range(section.offset, section.offset + section.size, 24):
                place, info, more = struct.unpack_from("<QQq", self._file, at)
                value = self._values[info >> 32]
                if info & 0xFFFFFFFF != WHOLE_WORD or value is None:
                    raise NotLoadable(f"it names something in way {info & 0xFFFFFFFF}")
                word = (value + more) & 0xFFFFFFFFFFFFFFFF
                struct.pack_into("<Q", self._memory, into + place, word)

    def _protect(self, size: int) -> None:
        """Make the memory executable and read-only."""
        protect = PROCESS.mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self._base, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise NotLoadable("the system lets no memory be run")


def _sections(file: bytes) -> list[_Section]:
    if sys.platform != "linux" or file[:6] != b"\x7fELF\x02\x01":
        raise NotLoadable("it is no object file of Linux")
    kind, machine = struct.unpack_from("<HH", file, 16)
    if (kind, machine) != (OBJECT, X86_64):
        raise NotLoadable("it is for another processor")
    (table,) = struct.unpack_from("<Q", file, 40)
    size, count = struct.unpack_from("<HH", file, 58)
    if size != 64:
        raise NotLoadable("its sections are described in another way")
    return [
        _Section(*struct.unpack_from("<IIQQQQIIQQ", file, table + size * number))
        for number in range(count)
    ]
